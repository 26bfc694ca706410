"""The paper's tables, measured cell by cell: each once, and none lost."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import xarray as xr
from safetensors import safe_open
from typer.testing import CliRunner

from cdsa.cli.app import app
from cdsa.core.records import append_results, read_results
from cdsa.errors import CdsaError
from cdsa.methods.engine.validation import choose_exam
from cdsa.paper import runner
from cdsa.paper.runner import RunSettings, pending, run_experiments
from cdsa.paper.tables import TABLES, Experiment, plan_experiments
from publishers import write_cube, write_pm25, write_traffic

FLAT = {
    "table", "method", "data", "protocol", "cells", "rate", "horizon", "seed", "mae", "rmse", "mse",
    "mre", "mape", "crps", "seconds", "settings", "minutes", "quick", "loss", "measured_on",
    "commit", "machine", "command", "version", "when", "trained_seconds", "trained_steps",
    "variables",
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with miniature data sets."""
    folder = tmp_path_factory.mktemp("data")
    write_pm25(folder)
    write_traffic(folder, steps=300)
    write_cube(folder / "all207_week1_2016_interpolated.npz", steps=120, stations=4, measurements=1)
    return folder


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CDSA_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def run(*words):
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def reproduce(table, data, *words):
    return json.loads(run("reproduce", table, "--data", data, "--json", *words))


def lab(tmp_path, data, **more):
    return RunSettings(
        results=tmp_path / "r.jsonl", data_folder=data, provenance={"commit": "c"}, **more
    )


# ------------------------------------------------------------------ wishes


@pytest.mark.parametrize(
    "words, told",
    [
        (["kdd-2015"], "did you mean 'kdd2015'"),
        (["kdd2015", "--methods", "meen"], "did you mean 'mean'"),
        (["kdd2015", "--data", "/nowhere"], "--data must be a folder"),
        (["metr-la", "--methods", "linear"], "linear is not"),
        (["kdd2015", "--methods", "cdsa-paper-forecast"], "cdsa-paper-forecast is not"),
        (["kdd2015", "--rates", "0.5"], "has no missing rates"),
        (["nyc", "--rates", "50"], "between 0 and 1"),
        (["nyc", "--rates", "half"], "--rates wants numbers"),
        (["nyc", "--seeds", "x"], "--seeds wants numbers"),
        (["kdd2015", "--on", "metr-la"], "no data set of the table 'kdd2015'"),
        (["kdd2015", "--protocols", "insample"], "did you mean 'in-sample'"),
        (["nyc", "--results", "no/r.jsonl"], "no folder no"),
        (["kdd2018"], "is not under"),
        (["nyc", "--seeds", "5-2"], "--seeds wants numbers"),
        (["nyc", "--seeds", "-1"], "--seeds wants numbers"),
        (["nyc", "--seeds", "0-99999999"], "at most 1000 seeds"),
        (["nyc", "--minutes", "0"], "greater than 0"),
        (["nyc", "--minutes", "nan"], "greater than 0"),
        (["nyc", "--methods", ""], "names stand between commas"),
        (["nyc", "--methods", "mean:joint"], "'mean' has no manners"),
        (["nyc", "--methods", "mean@small"], "'mean' has no presets"),
        (["nyc", "--methods", "cdsa-paper:jiont"], "did you mean 'joint'"),
        (["nyc", "--methods", "cdsa-paper@papr"], "did you mean 'paper'"),
        (["nyc", "--quick", "--methods", "cdsa-paper@paper-nyc"], "a preset of its own"),
        (["complexity", "--methods", "mean"], "in its manners, not mean"),
    ],
)
def test_bad_wishes_are_answered_before_anything_is_measured(words, told):
    with pytest.raises(CdsaError, match=told):
        CliRunner().invoke(app, ["reproduce", *words], catch_exceptions=False)


# ------------------------------------------------------------------ records


def test_records_tell_how_often_intervals_held_by_gap_and_at_the_worst_station(data):
    (record,) = reproduce("nyc", data, "--methods", "cdsa", "--rates", "0.5", "--quick")
    counts = {name: n for name, n in record.items() if name.startswith("count_gap_")}
    held = {name: record[name.replace("count", "coverage")] for name in counts}
    assert len(counts) > 1 and sum(counts.values()) == record["count"]
    whole = sum(held[name] * counts[name] for name in counts) / record["count"]
    assert whole == pytest.approx(record["coverage"])
    assert 0 <= record["coverage_least_station"] <= record["coverage"]


def test_records_are_flat_and_say_all_that_is_needed(data):
    records = reproduce("kdd2015", data, "--methods", "mean", "--on", "kdd2015-pm25")
    assert all(set(record) >= FLAT for record in records)
    values = [value for record in records for value in record.values()]
    assert not any(isinstance(value, dict | list) for value in values)
    found = [(record["protocol"], record["cells"]) for record in records]
    assert found == [
        ("in-sample", "all"), ("in-sample", "test-months"),
        ("out-of-sample", "all"), ("out-of-sample", "test-months"),
    ]  # fmt: skip
    assert "3 stations, not 36" in records[0]["measured_on"]
    assert records[0]["crps"] is None and records[0]["unit"] == "ug/m3"


def test_forecasts_are_told_at_15_30_60_minutes_and_in_the_mean(data):
    records = reproduce("metr-la", data, "--methods", "last")
    assert [r["horizon"] for r in records[:4]] == ["15", "30", "60", "mean"]
    assert records[0]["mae"] < records[2]["mae"]


def test_seeds_are_lists_or_ranges(data):
    records = reproduce("nyc", data, "--methods", "linear", "--rates", "0.5", "--seeds", "2-3")
    assert [r["seed"] for r in records] == [2, 3]
    assert records[0]["rmse"] != records[1]["rmse"]


def test_a_quick_table_trains_a_small_network(data):
    records = reproduce("ablation-metr-la", data, "--quick", "--minutes", "0.01",
                        "--methods", "cdsa-paper-forecast")  # fmt: skip
    assert {r["quick"] for r in records} == {True}
    assert all(r["trained_steps"] > 0 and r["mae"] > 0 for r in records)
    assert all(r["variables"] > 0 for r in records)


def test_the_validation_time_of_dcrnn_is_what_the_network_is_examined_on(data, tmp_path):
    seen = []
    chosen = {"methods": ["cdsa-paper-forecast"], "quick": True, "minutes": 0.01}
    cell = next(
        c for c in plan_experiments(TABLES["metr-la"], **chosen) if c.protocol == "70/10/20"
    )
    trial = runner.build_trial(cell, runner.open_dataset("metr-la", data))
    runner.fit_trial(cell, trial, runner.Run(start=seen.append), tmp_path / "under-way")
    (method,) = seen
    both = xr.concat([trial.train, trial.validation], "time")
    steps, _ = choose_exam(both, 24, 12, method.train, method.seed)
    assert both["time"][steps].equals(trial.validation["time"])


def test_what_looks_along_a_graph_gets_the_roads_and_its_records_say_so(data):
    words = ["--quick", "--minutes", "0.01", "--protocols", "80/20"]
    records = reproduce("metr-la", data, "--methods", "dcrnn,fc-lstm", *words)
    assert {(r["method"], r["graph"]) for r in records} == {("dcrnn", "roads"), ("fc-lstm", None)}
    opened = runner.open_dataset("metr-la", data)
    a, b, _ = (str(name) for name in opened.cube["location"].to_numpy())
    roads = runner.road_edges(opened)
    assert [(source, target) for source, target, _ in roads] == [(a, b), (b, a)]
    (cell, *_) = plan_experiments(TABLES["metr-la"], methods=["gaan"])
    made = runner.build_method(cell, 12, roads)
    assert made.edges == roads and 0 < roads[1][2] < roads[0][2] < 1  # the way back is longer


def test_the_complexity_table_needs_no_data():
    records = json.loads(run("reproduce", "complexity", "--json"))
    assert [r["method"] for r in records] == [
        "cdsa-paper:independent", "cdsa-paper:joint", "cdsa-paper:shared", "cdsa-paper",
    ]  # fmt: skip
    assert all(r["operations"] > 0 and r["variables"] > 0 and r["mae"] is None for r in records)


# ------------------------------------------------------------------ each cell once


def cells(*methods, on=("kdd2015-pm25",), **more):
    return list(plan_experiments(TABLES["kdd2015"], methods=methods, data=on, **more))


def test_a_rerun_measures_only_what_is_missing(data, tmp_path):
    told = []
    watched = lab(tmp_path, data, told=told.append)
    list(run_experiments("kdd2015", cells("mean"), watched))
    assert len(told) == 2
    records = [
        r for some in run_experiments("kdd2015", cells("mean", "linear"), watched) for r in some
    ]
    assert [cell.method for cell in told[2:]] == ["linear", "linear"]
    assert len(records) == 8 and len(read_results(watched.results)) == 8


def test_what_is_wanted_again_is_measured_again_and_the_last_counts(data, tmp_path):
    first = lab(tmp_path, data)
    (right, *_) = run_experiments("kdd2015", cells("mean"), first)
    wrong = [record | {"mae": -1.0} for record in right]
    append_results(first.results, wrong)
    (kept, *_) = run_experiments("kdd2015", cells("mean"), first)
    assert kept[0]["mae"] == -1.0
    list(run_experiments("kdd2015", cells("mean"), lab(tmp_path, data, again=True)))
    (anew, *_) = run_experiments("kdd2015", cells("mean"), first)
    assert anew[0]["mae"] == right[0]["mae"]


def test_what_was_measured_on_other_data_is_measured_again(data, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    write_pm25(other, stations=4)
    (few, *_) = run_experiments("kdd2015", cells("mean"), lab(tmp_path, data))
    (more, *_) = run_experiments("kdd2015", cells("mean"), lab(tmp_path, other))
    assert "3 stations" in few[0]["measured_on"] and "4 stations" in more[0]["measured_on"]
    (again, *_) = run_experiments("kdd2015", cells("mean"), lab(tmp_path, data))
    assert again[0]["mae"] == few[0]["mae"]
    assert len(read_results(tmp_path / "r.jsonl")) == 2 * 2 * 2
    (absent, *_) = run_experiments(
        "kdd2015", cells("mean"), lab(tmp_path, tmp_path)
    )  # no data at all
    assert absent[0]["mae"] in (few[0]["mae"], more[0]["mae"])


def test_a_cell_under_way_elsewhere_is_waited_for_and_not_measured_twice(data, tmp_path):
    watched, told = lab(tmp_path, data), []
    (cell, other) = cells("mean")
    folder = runner._training_folder(cell, watched)
    folder.mkdir(parents=True)
    order = []
    with (folder / "turn").open("ab") as turn:
        assert runner.lock_file(turn)

        def saw(cell):
            told.append(cell)
            if cell == other:  # the other run is done meanwhile
                append_results(watched.results, made)
                turn.close()

        probe = lab(tmp_path / "p", data)
        probe.results.parent.mkdir()
        made = [record for some in run_experiments("kdd2015", [cell], probe) for record in some]
        for records in run_experiments("kdd2015", [cell, other], lab(tmp_path, data, told=saw)):
            order.append(records[0]["protocol"])
    assert told == [other] and order == ["out-of-sample", "in-sample"]


def test_a_cell_that_two_tables_share_is_measured_once(data, tmp_path):
    told = []
    watched = lab(tmp_path, data, told=told.append)
    list(run_experiments("kdd2015", cells("linear"), watched))
    shared = list(
        plan_experiments(TABLES["ablation-kdd2015"], methods=["linear"], data=["kdd2015-pm25"])
    )
    records = [r for some in run_experiments("ablation-kdd2015", shared, watched) for r in some]
    assert len(told) == 2
    assert {r["table"] for r in records} == {"ablation-kdd2015"}


def test_a_cell_of_which_a_part_is_written_down_is_not_finished(data, tmp_path):
    watched = lab(tmp_path, data)
    list(run_experiments("kdd2015", cells("mean"), watched))
    lines = watched.results.read_text().splitlines()
    watched.results.write_text("\n".join(lines[:3]) + "\n")
    assert [runner.Cache(watched).find(cell) is None for cell in cells("mean")] == [False, True]
    assert pending(cells("mean"), watched) == cells("mean")[1:]


def test_a_cell_that_fails_does_not_keep_others_from_being_measured(data, tmp_path):
    bad = Experiment(method="mean", data="kdd2015-temp", protocol="in-sample")
    done = []
    with pytest.raises(CdsaError, match="could not be measured.*kdd2015-temp"):
        for records in run_experiments("kdd2015", [bad, *cells("mean")], lab(tmp_path, data)):
            done += records
    assert len(done) == 4
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["r.jsonl"]


def test_one_failing_data_set_does_not_hide_what_was_measured(data):
    done = CliRunner().invoke(
        app, ["reproduce", "kdd2015", "--methods", "mean", "--data", str(data), "--json"]
    )
    assert isinstance(done.exception, CdsaError) and "kdd2015-temp" in str(done.exception)
    assert len(json.loads(done.stdout)) == 4


def test_a_training_that_was_stopped_is_gone_on_with_and_cleared_away(data, tmp_path):
    watched = lab(tmp_path, data)
    (cell, *_) = cells("cdsa-paper", quick=True, minutes=0.02)
    folder = runner._training_folder(cell, watched)
    opened = runner.open_dataset("kdd2015-pm25", data)
    stopped = runner.Run(stop=lambda: True)  # after the first step
    first = runner.fit_trial(cell, runner.build_trial(cell, opened), stopped, folder)
    assert first.network.place.step == 1 and (folder / "training.safetensors").exists()
    steps = []
    going = lab(tmp_path, data, run=runner.Run(watch=lambda report: steps.append(report.step)))
    list(run_experiments("kdd2015", [cell], going))
    assert steps[0] == 2
    assert not folder.exists() and not folder.parent.exists()


def test_a_training_of_other_data_is_not_gone_on_with(data, tmp_path):
    (cell, *_) = cells("cdsa-paper", quick=True, minutes=0.02)
    trial = runner.build_trial(cell, runner.open_dataset("kdd2015-pm25", data))
    other = replace(trial, train=trial.train + 1)
    stopped = runner.Run(stop=lambda: True)
    runner.fit_trial(cell, other, stopped, tmp_path / "under-way")
    steps = []
    run_ = runner.Run(watch=lambda report: steps.append(report.step))
    runner.fit_trial(cell, trial, run_, tmp_path / "under-way")
    assert steps[0] == 1


def start(data, results):
    methods = "last,climatology,cdsa-paper-forecast"
    words = ["reproduce", "metr-la", "--methods", methods, "--data", str(data), "--quick"]
    words += ["--minutes", "0.005"]
    return subprocess.Popen(
        [sys.executable, "-m", "cdsa", *words, "--json", "--results", str(results)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.slow
def test_killed_runs_repeat_no_finished_cell_and_corrupt_nothing(data, tmp_path):
    results = tmp_path / "r.jsonl"
    for count in (2, 5):  # kill once so many cells are written down
        process = start(data, results)
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline and process.poll() is None:
            if results.exists() and len(read_results(results)) >= 4 * count:
                break
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    before = read_results(results)
    with results.open("a") as file:
        file.write('{"table": "metr-l')  # what a kill in the middle of a write leaves
    whole = start(data, results)
    told = json.loads(whole.communicate()[0])
    assert whole.returncode == 0
    after = read_results(results)
    assert after[: len(before)] == before
    assert len(told) == len(after) == 3 * 2 * 4
    assert len({(*(r[key] for key in runner.KEYS), r["horizon"]) for r in after}) == len(after)


@pytest.mark.slow
def test_a_training_killed_in_the_middle_is_gone_on_with(data, tmp_path):
    often = "import cdsa.training.state as s; s.Store.__init__.__defaults__ = (0.0,)"
    words = ["reproduce", "kdd2015", "--methods", "cdsa-paper", "--on", "kdd2015-pm25",
             "--minutes", "0.2", "--data", str(data), "--json"]  # fmt: skip
    go = "import sys; from cdsa.cli import main; main()"
    command = [sys.executable, "-c", f"{often}; {go}", *words]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(tmp_path.glob(".*/*/training.safetensors")):
        time.sleep(0.05)
    time.sleep(4)
    first.kill()
    first.wait()
    (left,) = tmp_path.glob(".*/*/training.safetensors")
    with safe_open(left, framework="pt") as file:
        place = json.loads(file.metadata()["place"])
    done = subprocess.run(command, capture_output=True, check=True)
    records = json.loads(done.stdout)
    assert len(records) == 4 and not left.exists()
    assert place["step"] > 1 and records[0]["trained_steps"] > place["step"]
    assert min(record["trained_seconds"] for record in records) >= 12


# ------------------------------------------------------------------ what users see


def test_a_table_is_printed_with_the_papers_numbers_below_ours(data, monkeypatch):
    text = run("reproduce", "kdd2015", "--data", data, "--methods", "mean,linear",
               "--on", "kdd2015-pm25")  # fmt: skip
    assert "linear (straight line)" in text and "the paper" in text
    assert "55.51" in text and "77.97%" in text and "3 stations, not 36" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_results_become_pages(data, tmp_path):
    reproduce("kdd2015", data, "--methods", "mean", "--on", "kdd2015-pm25")
    text = run("tables", "-o", tmp_path / "page")
    assert "page.md" in text and "page.html" in text
    page = (tmp_path / "page.md").read_text()
    assert "55.51" in page and "brits" in page and "measured on kdd2015-pm25: 960" in page
    run("tables", "-o", tmp_path / "page.md")  # a page of ours is made anew
    (tmp_path / "page.html").write_text("of somebody else")
    with pytest.raises(CdsaError, match="already exists"):
        CliRunner().invoke(app, ["tables", "-o", str(tmp_path / "page")], catch_exceptions=False)
    run("tables", "-o", tmp_path / "page", "--overwrite")


def test_pages_of_nothing_are_refused(tmp_path):
    with pytest.raises(CdsaError, match="Measure something first"):
        CliRunner().invoke(app, ["tables"], catch_exceptions=False)


def test_data_commands_tell_what_is_there(data, tmp_path):
    listed = json.loads(run("data", "list", "--data", data, "--json"))
    assert {r["name"]: r["form"] for r in listed}["kdd2015-pm25"] == "publisher"
    assert {r["name"]: r["form"] for r in listed}["kdd2018"] is None
    assert "not there" in run("data", "list", "--data", data)
    told = run("data", "info", "kdd2015-pm25", "--data", data)
    for words in ("licence", "by hand", "8,759", "13.25%", "3 stations, not 36", "removed"):
        assert words in told
    absent = run("data", "info", "kdd2018", "--data", data)
    assert "999017" in absent and "biendata" in absent


def test_a_data_set_is_written_as_a_cube_that_can_be_filled(data, tmp_path):
    text = run("data", "show", "kdd2015-pm25", "--data", data, "-o", "cube.nc")
    assert "wrote cube.nc" in text and "3 stations with coordinates" in text
    filled = run("fill", "cube.nc", "-o", "filled.nc", "--method", "linear")
    assert "pm25" in filled
    run("data", "show", "kdd2015-pm25", "--data", data, "-o", "cube.csv")
    assert "3 stations with coordinates" in run("info", "cube.csv")


def test_what_cannot_be_downloaded_is_explained(tmp_path):
    done = CliRunner().invoke(app, ["data", "get", "kdd2018"])
    assert done.exit_code == 1
    assert "no public address" in done.stdout and "biendata" in done.stdout
    assert "CDSA_DATA" in done.stdout
    assert "is there already" in run("data", "get", "nyc-weather")


def test_counts_of_ones_own_are_measured_as_ones_own(tmp_path):
    rows = "".join(
        f"2020-01-0{1 + n // 288} {n % 288 // 12:02}:{n % 12 * 5:02}:30,{camera},{n % 7}\n"
        for n in range(600)
        for camera in "ab"
    )
    (tmp_path / "camera_counts.csv").write_text(f"time,camera,vehicles\n{rows}")
    words = ("--methods", "linear", "--rates", "0.5", "--seeds", "0")
    (record,) = reproduce("nyc", tmp_path, *words)
    assert record["unit"] == "vehicles"
    assert record["measured_on"].startswith("counts of your own, from camera_counts.csv; 600 time")
