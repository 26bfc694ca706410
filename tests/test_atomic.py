"""Outputs appear complete or not at all, whatever other processes and signals do."""

import signal
import stat
import subprocess
import sys
import threading

import pytest

from cdsa.core import atomic
from cdsa.core.atomic import check_file, stage_files
from cdsa.errors import OutputError
from conftest import network
from frames import panel


def write(*targets, text="new", overwrite=True):
    with stage_files(targets, overwrite=overwrite) as temp_files:
        for temp_file in temp_files:
            temp_file.write_text(text)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_of_simultaneous_writers_one_succeeds(tmp_path):
    barrier, outcomes = threading.Barrier(6), []

    def run(number):
        try:
            with stage_files([tmp_path / "o.csv"], overwrite=False) as (temp_file,):
                temp_file.write_text(str(number))
                barrier.wait()
            outcomes.append(number)
        except OutputError as refused:
            assert "by another process meanwhile" in str(refused)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 1
    assert (tmp_path / "o.csv").read_text() == str(outcomes[0])
    assert names(tmp_path) == ["o.csv"]


def test_without_overwriting_all_files_appear_or_none(tmp_path):
    (tmp_path / "b.csv").write_text("old")
    with pytest.raises(OutputError, match="Nothing was changed"):
        write(tmp_path / "a.csv", tmp_path / "b.csv", overwrite=False)
    assert names(tmp_path) == ["b.csv"] and (tmp_path / "b.csv").read_text() == "old"


def test_a_replaced_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "real.csv", tmp_path / "link.csv"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    write(link)
    assert link.is_symlink() and target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_if_one_file_cannot_be_replaced_none_is(tmp_path, monkeypatch):
    targets = [tmp_path / "a.csv", tmp_path / "b.csv"]
    write(*targets, text="old")
    replace = atomic.Path.replace

    def fail(path, target):
        if path.suffix == ".part" and target.name == "b.csv":
            raise OSError(5, "no such luck")
        return replace(path, target)

    monkeypatch.setattr(atomic.Path, "replace", fail)
    with pytest.raises(OutputError, match="Nothing was changed"):
        write(*targets)
    monkeypatch.undo()
    assert [target.read_text() for target in targets] == ["old", "old"]
    assert names(tmp_path) == ["a.csv", "b.csv"]


def test_between_two_moves_no_file_is_missing(tmp_path, monkeypatch):
    """A process that is killed there leaves complete files, and nothing after the next run."""
    targets = [tmp_path / "a.csv", tmp_path / "b.csv"]
    write(*targets, text="old")
    code = (
        "import os, sys; from pathlib import Path; from cdsa.core import atomic\n"
        "replace = Path.replace\n"
        "def kill(path, target):\n"
        "    replace(path, target); os.kill(os.getpid(), 9)\n"
        "Path.replace = kill\n"
        "with atomic.stage_files([Path(p) for p in sys.argv[1:]], overwrite=True) as temp_files:\n"
        "    for temp_file in temp_files: temp_file.write_text('new')\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, *map(str, targets)])
    assert killed.returncode == -signal.SIGKILL
    assert [target.read_text() for target in targets] == ["new", "old"]
    assert len(names(tmp_path)) > 2
    write(tmp_path / "c.csv")
    assert names(tmp_path) == ["a.csv", "b.csv", "c.csv"]


def test_a_folder_that_lost_its_name_gets_it_back(tmp_path):
    (tmp_path / ".o.zarr.old").mkdir()
    check_file(tmp_path / "o.zarr", overwrite=True, may_be_folder=True)
    assert names(tmp_path) == ["o.zarr"]


def test_what_a_running_process_writes_is_not_swept(tmp_path):
    with stage_files([tmp_path / "a.csv"], overwrite=True) as (first,):
        first.write_text("new")
        write(tmp_path / "b.csv")
        assert first.exists()
    assert names(tmp_path) == ["a.csv", "b.csv"]


@pytest.mark.parametrize("length", [251, 300])
def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path, length):
    target = tmp_path / f"{'x' * length}.csv"
    if length < 255:
        check_file(target, overwrite=False)
        write(target)
        assert target.read_text() == "new"
    else:
        with pytest.raises(OutputError, match="cannot be written: File name too long"):
            check_file(target, overwrite=False)


def test_a_terminated_command_leaves_nothing(tmp_path):
    panel(network(steps=4000, stations=3)).to_csv(tmp_path / "in.csv", index=False)
    code = (
        "import os, signal, sys; from pathlib import Path; from cdsa.cli import main\n"
        "from cdsa.io import table_files\n"
        "write = Path.open\n"
        "def open_(path, mode='r', *args, **options):\n"
        "    file = write(path, mode, *args, **options)\n"
        "    if path.suffix == '.part': os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return file\n"
        "Path.open = open_\n"
        "main()\n"
    )
    words = ["fill", "in.csv", "-o", "o.csv", "--method", "linear", "--no-check"]
    stopped = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert stopped.returncode == 128 + signal.SIGTERM, stopped.stderr
    assert names(tmp_path) == ["in.csv"]
