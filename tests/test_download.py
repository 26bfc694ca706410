"""Downloads: once, whole or not at all, with a plain word where that cannot be."""

import threading
import zipfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cdsa.datasets.fetch import download
from cdsa.datasets.registry import get_dataset
from cdsa.datasets.spec import Download
from cdsa.errors import ConfigError


@pytest.fixture
def site(tmp_path):
    """A folder that is served on this machine, and its address."""
    folder = tmp_path / "site"
    folder.mkdir()
    handler = partial(QuietHandler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def send_header(self, name, value):
        """Promise more of one file than there is."""
        if name == "Content-Length" and self.path == "/cut.txt":
            value = str(int(value) + 1000)
        super().send_header(name, value)


def with_address(address):
    return replace(get_dataset("kdd2015-pm25"), downloads=(address,))


def test_a_file_is_downloaded_once(site, tmp_path):
    folder, url = site
    (folder / "a.txt").write_text("first")
    data = with_address(Download(url=f"{url}/a.txt", files=("a.txt",)))
    target = tmp_path / "cache"
    assert download(data, target) == [target / "a.txt"]
    (folder / "a.txt").write_text("second")
    assert download(data, target) == []
    assert (target / "a.txt").read_text() == "first"
    assert [path.name for path in target.iterdir()] == ["a.txt"]


def test_members_of_an_archive_are_taken_out_by_their_last_names(site, tmp_path):
    folder, url = site
    with zipfile.ZipFile(folder / "all.zip", "w") as packed:
        packed.writestr("deep/inside/a.txt", "A")
        packed.writestr("../../evil.txt", "E")
    target = tmp_path / "cache"
    download(with_address(Download(url=f"{url}/all.zip", files=("a.txt",))), target)
    assert (target / "a.txt").read_text() == "A"
    assert [path.name for path in target.iterdir()] == ["a.txt"]
    assert not list(tmp_path.rglob("evil.txt"))
    with pytest.raises(ConfigError, match="should contain b.txt"):
        download(with_address(Download(url=f"{url}/all.zip", files=("b.txt",))), target)


def test_a_page_in_place_of_a_file_is_not_kept(site, tmp_path):
    folder, url = site
    (folder / "a.txt").write_text("\n<!DOCTYPE html><html>Please sign in</html>")
    with pytest.raises(ConfigError, match="received a web page"):
        download(with_address(Download(url=f"{url}/a.txt", files=("a.txt",))), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_what_was_cut_off_on_the_way_is_not_kept(site, tmp_path):
    folder, url = site
    (folder / "cut.txt").write_text("a part")
    with pytest.raises(ConfigError, match="could not be"):
        download(
            with_address(Download(url=f"{url}/cut.txt", files=("cut.txt",))), tmp_path / "cache"
        )
    assert not (tmp_path / "cache").exists()


def test_without_a_connection_it_is_said_what_to_do(site, tmp_path):
    _, url = site
    for address in (f"{url}/absent.txt", "http://127.0.0.1:9/a.txt"):
        with pytest.raises(ConfigError, match=r"could not be reached.*another machine.*--data"):
            download(with_address(Download(url=address, files=("a.txt",))), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
