"""Running the paper's experiments: each once, and no record lost."""

import json
import logging
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

from cdsa.cli import main
from cdsa.cli.app import app
from cdsa.core.records import append_results, read_results
from cdsa.errors import CdsaError
from cdsa.methods.engine.validation import choose_holdout
from cdsa.paper import runner
from cdsa.paper.runner import RunSettings, pending, run_experiments
from cdsa.paper.tables import TABLES, Experiment, plan_experiments
from publishers import write_cube, write_pm25, write_traffic

FLAT = {
    "table", "method", "data", "protocol", "cells", "rate", "horizon", "seed", "mae", "rmse", "mse",
    "mre", "mape", "crps", "seconds", "settings", "minutes", "quick", "loss", "measured_on",
    "commit", "machine", "command", "version", "when", "trained_seconds", "trained_steps",
    "parameters",
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


def run_table(table, data, *words):
    return json.loads(run("paper", "run", table, "--data", data, "--json", *words))


def settings_for(tmp_path, data, **more):
    return RunSettings(
        results=tmp_path / "r.jsonl", data_folder=data, provenance={"commit": "c"}, **more
    )


# ------------------------------------------------------------------ options


@pytest.mark.parametrize(
    "words, message",
    [
        (["kdd-2015"], "did you mean 'kdd2015'"),
        (["kdd2015", "--methods", "meen"], "did you mean 'mean'"),
        (["kdd2015", "--data", "/nowhere"], "--data must be a folder"),
        (["metr-la", "--methods", "linear"], "linear does not"),
        (["kdd2015", "--methods", "cdsa-paper-forecast"], "cdsa-paper-forecast does not"),
        (["kdd2015", "--rates", "0.5"], "has no missing rates"),
        (["nyc", "--rates", "50"], "between 0 and 1"),
        (["nyc", "--rates", "half"], "--rates must be numbers"),
        (["nyc", "--seeds", "x"], "--seeds must be numbers"),
        (["kdd2015", "--datasets", "metr-la"], "no data set of the table 'kdd2015'"),
        (["kdd2015", "--protocols", "insample"], "did you mean 'in-sample'"),
        (["nyc", "--results", "no/r.jsonl"], "folder no for the results does not exist"),
        (["kdd2018"], "was not found in"),
        (["nyc", "--seeds", "5-2"], "--seeds must be numbers"),
        (["nyc", "--seeds", "-1"], "--seeds must be numbers"),
        (["nyc", "--seeds", "0-99999999"], "at most 1000 seeds"),
        (["nyc", "--minutes", "0"], "greater than 0"),
        (["nyc", "--minutes", "nan"], "greater than 0"),
        (["nyc", "--methods", ""], "names must be separated by commas"),
        (["nyc", "--methods", "mean:joint"], "'mean' has no manners"),
        (["nyc", "--methods", "mean@small"], "'mean' has no presets"),
        (["nyc", "--methods", "cdsa-paper:jiont"], "did you mean 'joint'"),
        (["nyc", "--methods", "cdsa-paper@papr"], "did you mean 'paper'"),
        (["nyc", "--quick", "--methods", "cdsa-paper@paper-nyc"], "names a preset"),
        (["complexity", "--methods", "mean"], "manners of cdsa-paper, not mean"),
    ],
)
def test_bad_options_are_refused_before_anything_is_measured(words, message):
    with pytest.raises(CdsaError, match=message):
        CliRunner().invoke(app, ["paper", "run", *words], catch_exceptions=False)


@pytest.mark.parametrize(
    "words, message",
    [
        (["reproduce", "nyc", "--quick"], "'cdsa reproduce' is now 'cdsa paper run'"),
        (["tables", "--help"], "'cdsa tables' is now 'cdsa paper tables'"),
        (["complexity"], "'cdsa complexity' is now 'cdsa paper complexity'"),
        (["paper", "run", "nyc", "--again"], "--again is now --force"),
        (["paper", "run", "nyc", "--on=x"], "--on is now --datasets"),
    ],
)
def test_an_old_name_is_answered_with_the_new_one(words, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["cdsa", *words])
    monkeypatch.setattr(logging.getLogger("cdsa"), "propagate", True)  # restored afterwards
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert capsys.readouterr().err == f"cdsa: {message}\n"


# ------------------------------------------------------------------ records


def test_records_have_coverage_by_gap_length_and_at_the_worst_station(data):
    (record,) = run_table("nyc", data, "--methods", "cdsa", "--rates", "0.5", "--quick")
    counts = {name: n for name, n in record.items() if name.startswith("count_gap_")}
    coverages = {name: record[name.replace("count", "coverage")] for name in counts}
    assert len(counts) > 1 and sum(counts.values()) == record["count"]
    overall = sum(coverages[name] * counts[name] for name in counts) / record["count"]
    assert overall == pytest.approx(record["coverage"])
    assert 0 <= record["coverage_worst_station"] <= record["coverage"]


def test_records_are_flat_and_complete(data):
    records = run_table("kdd2015", data, "--methods", "mean", "--datasets", "kdd2015-pm25")
    assert all(set(record) >= FLAT for record in records)
    values = [value for record in records for value in record.values()]
    assert not any(isinstance(value, dict | list) for value in values)
    assert [(record["protocol"], record["cells"]) for record in records] == [
        ("in-sample", "all"), ("in-sample", "test-months"),
        ("out-of-sample", "all"), ("out-of-sample", "test-months"),
    ]  # fmt: skip
    assert "3 stations, not 36" in records[0]["measured_on"]
    assert records[0]["crps"] is None and records[0]["unit"] == "ug/m3"


def test_forecasts_are_scored_at_15_30_60_minutes_and_in_the_mean(data):
    records = run_table("metr-la", data, "--methods", "last")
    assert [r["horizon"] for r in records[:4]] == ["15", "30", "60", "mean"]
    assert records[0]["mae"] < records[2]["mae"]


def test_seeds_are_lists_or_ranges(data):
    records = run_table("nyc", data, "--methods", "linear", "--rates", "0.5", "--seeds", "2-3")
    assert [r["seed"] for r in records] == [2, 3]
    assert records[0]["rmse"] != records[1]["rmse"]


def test_a_quick_table_trains_a_small_network(data):
    records = run_table("ablation-metr-la", data, "--quick", "--minutes", "0.01",
                        "--methods", "cdsa-paper-forecast")  # fmt: skip
    assert {r["quick"] for r in records} == {True}
    assert all(r["trained_steps"] > 0 and r["mae"] > 0 for r in records)
    assert all(r["parameters"] > 0 for r in records)


def test_a_network_is_validated_on_the_validation_time_of_dcrnn(data, tmp_path):
    seen = []
    chosen = {"methods": ["cdsa-paper-forecast"], "quick": True, "minutes": 0.01}
    experiment = next(
        c for c in plan_experiments(TABLES["metr-la"], **chosen) if c.protocol == "70/10/20"
    )
    trial = runner.build_trial(experiment, runner.open_dataset("metr-la", data))
    runner.fit_trial(
        experiment, trial, runner.RunContext(on_start=seen.append), tmp_path / "running"
    )
    (method,) = seen
    both = xr.concat([trial.train, trial.validation], "time")
    steps, _ = choose_holdout(both, 24, 12, method.train, method.seed)
    assert both["time"][steps].equals(trial.validation["time"])


def test_graph_networks_get_the_roads_and_their_records_say_so(data):
    words = ["--quick", "--minutes", "0.01", "--protocols", "80/20"]
    records = run_table("metr-la", data, "--methods", "dcrnn,fc-lstm", *words)
    assert {(r["method"], r["graph"]) for r in records} == {("dcrnn", "roads"), ("fc-lstm", None)}
    opened = runner.open_dataset("metr-la", data)
    a, b, _ = (str(name) for name in opened.cube["location"].to_numpy())
    edges = runner.road_edges(opened)
    assert [(source, target) for source, target, _ in edges] == [(a, b), (b, a)]
    (experiment, *_) = plan_experiments(TABLES["metr-la"], methods=["gaan"])
    method = runner.build_network(experiment, 12, edges)
    assert method.edges == edges and 0 < edges[1][2] < edges[0][2] < 1  # the way back is longer


def test_the_complexity_table_needs_no_data():
    records = json.loads(run("paper", "run", "complexity", "--json"))
    assert [r["method"] for r in records] == [
        "cdsa-paper:independent", "cdsa-paper:joint", "cdsa-paper:shared", "cdsa-paper",
    ]  # fmt: skip
    assert all(r["operations"] > 0 and r["parameters"] > 0 and r["mae"] is None for r in records)


# ------------------------------------------------------------------ each experiment once


def flat(batches):
    return [record for records in batches for record in records]


def plan(*methods, **more):
    table = TABLES["kdd2015"]
    return list(plan_experiments(table, methods=methods, data=["kdd2015-pm25"], **more))


def test_a_rerun_measures_only_missing_experiments(data, tmp_path):
    started = []
    watched = settings_for(tmp_path, data, on_start=started.append)
    list(run_experiments("kdd2015", plan("mean"), watched))
    assert len(started) == 2
    records = flat(run_experiments("kdd2015", plan("mean", "linear"), watched))
    assert [experiment.method for experiment in started[2:]] == ["linear", "linear"]
    assert len(records) == 8 and len(read_results(watched.results)) == 8


def test_force_measures_again_and_the_last_record_is_used(data, tmp_path):
    first = settings_for(tmp_path, data)
    (right, *_) = run_experiments("kdd2015", plan("mean"), first)
    wrong = [record | {"mae": -1.0} for record in right]
    append_results(first.results, wrong)
    (recorded, *_) = run_experiments("kdd2015", plan("mean"), first)
    assert recorded[0]["mae"] == -1.0
    list(run_experiments("kdd2015", plan("mean"), settings_for(tmp_path, data, force=True)))
    (measured, *_) = run_experiments("kdd2015", plan("mean"), first)
    assert measured[0]["mae"] == right[0]["mae"]


def test_an_experiment_on_other_data_is_run_again(data, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    write_pm25(other, stations=4)
    (few, *_) = run_experiments("kdd2015", plan("mean"), settings_for(tmp_path, data))
    (more, *_) = run_experiments("kdd2015", plan("mean"), settings_for(tmp_path, other))
    assert "3 stations" in few[0]["measured_on"] and "4 stations" in more[0]["measured_on"]
    (again, *_) = run_experiments("kdd2015", plan("mean"), settings_for(tmp_path, data))
    assert again[0]["mae"] == few[0]["mae"]
    assert len(read_results(tmp_path / "r.jsonl")) == 2 * 2 * 2
    nothing = settings_for(tmp_path, tmp_path)  # a folder without data
    (absent, *_) = run_experiments("kdd2015", plan("mean"), nothing)
    assert absent[0]["mae"] in (few[0]["mae"], more[0]["mae"])


def test_an_experiment_that_another_process_runs_is_waited_for_and_not_run_twice(data, tmp_path):
    watched, started = settings_for(tmp_path, data), []
    (experiment, other) = plan("mean")
    folder = runner._training_folder(experiment, watched)
    folder.mkdir(parents=True)
    order = []
    with (folder / "lock").open("ab") as lock:
        assert runner.lock_file(lock)

        def saw(experiment):
            started.append(experiment)
            if experiment == other:  # the other process finishes meanwhile
                append_results(watched.results, elsewhere)
                lock.close()

        probe = settings_for(tmp_path / "p", data)
        probe.results.parent.mkdir()
        elsewhere = flat(run_experiments("kdd2015", [experiment], probe))
        settings = settings_for(tmp_path, data, on_start=saw)
        for records in run_experiments("kdd2015", [experiment, other], settings):
            order.append(records[0]["protocol"])
    assert started == [other] and order == ["out-of-sample", "in-sample"]


def test_an_experiment_of_two_tables_is_run_once(data, tmp_path):
    started = []
    watched = settings_for(tmp_path, data, on_start=started.append)
    list(run_experiments("kdd2015", plan("linear"), watched))
    shared = list(
        plan_experiments(TABLES["ablation-kdd2015"], methods=["linear"], data=["kdd2015-pm25"])
    )
    records = flat(run_experiments("ablation-kdd2015", shared, watched))
    assert len(started) == 2
    assert {r["table"] for r in records} == {"ablation-kdd2015"}


def test_an_experiment_with_only_some_of_its_records_is_not_finished(data, tmp_path):
    watched = settings_for(tmp_path, data)
    list(run_experiments("kdd2015", plan("mean"), watched))
    lines = watched.results.read_text().splitlines()
    watched.results.write_text("\n".join(lines[:3]) + "\n")
    cache = runner.Cache(watched)
    assert [cache.find(experiment) is None for experiment in plan("mean")] == [False, True]
    assert pending(plan("mean"), watched) == plan("mean")[1:]


def test_a_failed_experiment_does_not_stop_the_others(data, tmp_path):
    bad = Experiment(method="mean", data="kdd2015-temp", protocol="in-sample")
    done = []
    with pytest.raises(CdsaError, match="could not be measured.*kdd2015-temp"):
        settings = settings_for(tmp_path, data)
        for records in run_experiments("kdd2015", [bad, *plan("mean")], settings):
            done += records
    assert len(done) == 4
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["r.jsonl"]


def test_a_missing_data_set_does_not_hide_other_results(data):
    done = CliRunner().invoke(
        app, ["paper", "run", "kdd2015", "--methods", "mean", "--data", str(data), "--json"]
    )
    assert isinstance(done.exception, CdsaError) and "kdd2015-temp" in str(done.exception)
    assert len(json.loads(done.stdout)) == 4


def test_an_interrupted_training_is_resumed_and_removed_when_finished(data, tmp_path):
    watched = settings_for(tmp_path, data)
    (experiment, *_) = plan("cdsa-paper", quick=True, minutes=0.02)
    folder = runner._training_folder(experiment, watched)
    opened = runner.open_dataset("kdd2015-pm25", data)
    stopped = runner.RunContext(should_stop=lambda: True)  # after the first step
    first = runner.fit_trial(experiment, runner.build_trial(experiment, opened), stopped, folder)
    assert first.network.train_state.step == 1 and (folder / "training.safetensors").exists()
    steps = []
    run = runner.RunContext(on_progress=lambda report: steps.append(report.step))
    list(run_experiments("kdd2015", [experiment], settings_for(tmp_path, data, run=run)))
    assert steps[0] == 2
    assert not folder.exists() and not folder.parent.exists()


def test_a_training_on_other_data_is_not_resumed(data, tmp_path):
    (experiment, *_) = plan("cdsa-paper", quick=True, minutes=0.02)
    trial = runner.build_trial(experiment, runner.open_dataset("kdd2015-pm25", data))
    other = replace(trial, train=trial.train + 1)
    stopped = runner.RunContext(should_stop=lambda: True)
    runner.fit_trial(experiment, other, stopped, tmp_path / "running")
    steps = []
    run_ = runner.RunContext(on_progress=lambda report: steps.append(report.step))
    runner.fit_trial(experiment, trial, run_, tmp_path / "running")
    assert steps[0] == 1


def start(data, results):
    methods = "last,climatology,cdsa-paper-forecast"
    words = ["paper", "run", "metr-la", "--methods", methods, "--data", str(data), "--quick"]
    words += ["--minutes", "0.005"]
    return subprocess.Popen(
        [sys.executable, "-m", "cdsa", *words, "--json", "--results", str(results)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.slow
def test_killed_runs_repeat_no_finished_experiment_and_corrupt_nothing(data, tmp_path):
    results = tmp_path / "r.jsonl"
    for count in (2, 5):  # kill after this many experiments are recorded
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
    process = start(data, results)
    printed = json.loads(process.communicate()[0])
    assert process.returncode == 0
    after = read_results(results)
    assert after[: len(before)] == before
    assert len(printed) == len(after) == 3 * 2 * 4
    assert len({(*(r[key] for key in runner.KEYS), r["horizon"]) for r in after}) == len(after)


@pytest.mark.slow
def test_a_killed_training_is_resumed(data, tmp_path):
    often = (
        "from cdsa.training.state import TrainingStore as s; s.__init__.__defaults__ = ('{}', 0.0)"
    )
    words = ["paper", "run", "kdd2015", "--methods", "cdsa-paper", "--datasets", "kdd2015-pm25",
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
        state = json.loads(file.metadata()["state"])
    done = subprocess.run(command, capture_output=True, check=True)
    records = json.loads(done.stdout)
    assert len(records) == 4 and not left.exists()
    assert state["step"] > 1 and records[0]["trained_steps"] > state["step"]
    assert min(record["trained_seconds"] for record in records) >= 12


# ------------------------------------------------------------------ what users see


def test_a_table_is_printed_with_the_papers_numbers_below_ours(data, monkeypatch):
    text = run("paper", "run", "kdd2015", "--data", data, "--methods", "mean,linear",
               "--datasets", "kdd2015-pm25")  # fmt: skip
    assert "linear (interpolation)" in text and "the paper" in text
    assert "55.51" in text and "77.97%" in text and "3 stations, not 36" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_results_become_pages(data, tmp_path):
    run_table("kdd2015", data, "--methods", "mean", "--datasets", "kdd2015-pm25")
    text = run("paper", "tables", "-o", tmp_path / "page")
    assert "page.md" in text and "page.html" in text
    page = (tmp_path / "page.md").read_text()
    assert "55.51" in page and "brits" in page and "measured on kdd2015-pm25: 960" in page
    run("paper", "tables", "-o", tmp_path / "page.md")  # our own page is replaced
    (tmp_path / "page.html").write_text("of someone else")
    with pytest.raises(CdsaError, match="already exists"):
        run("paper", "tables", "-o", tmp_path / "page")
    run("paper", "tables", "-o", tmp_path / "page", "--overwrite")


def test_pages_without_records_are_refused(tmp_path):
    with pytest.raises(CdsaError, match="Measure a table first"):
        run("paper", "tables")


def test_data_commands_list_available_files(data, tmp_path):
    listed = json.loads(run("data", "list", "--data", data, "--json"))
    assert {r["name"]: r["file_set"] for r in listed}["kdd2015-pm25"] == "publisher"
    assert {r["name"]: r["file_set"] for r in listed}["kdd2018"] is None
    assert "not available" in run("data", "list", "--data", data)
    text = run("data", "info", "kdd2015-pm25", "--data", data)
    for words in ("licence", "by hand", "8,759", "13.25%", "3 stations, not 36", "removed"):
        assert words in text
    absent = run("data", "info", "kdd2018", "--data", data)
    assert "999017" in absent and "biendata" in absent


def test_a_data_set_is_written_as_a_cube_that_can_be_filled(data, tmp_path):
    text = run("data", "show", "kdd2015-pm25", "--data", data, "-o", "cube.nc")
    assert "wrote cube.nc" in text and "3 stations with coordinates" in text
    filled = run("fill", "cube.nc", "-o", "filled.nc", "--method", "linear")
    assert "pm25" in filled
    run("data", "show", "kdd2015-pm25", "--data", data, "-o", "cube.csv")
    assert "3 stations with coordinates" in run("info", "cube.csv")


def test_data_without_an_address_are_explained(tmp_path):
    done = CliRunner().invoke(app, ["data", "get", "kdd2018"])
    assert done.exit_code == 1
    assert "no public address" in done.stdout and "biendata" in done.stdout
    assert "CDSA_DATA" in done.stdout
    assert "is available already" in run("data", "get", "nyc-weather")


def test_records_on_a_users_own_counts_say_so(tmp_path):
    rows = "".join(
        f"2020-01-0{1 + n // 288} {n % 288 // 12:02}:{n % 12 * 5:02}:30,{camera},{n % 7}\n"
        for n in range(600)
        for camera in "ab"
    )
    (tmp_path / "camera_counts.csv").write_text(f"time,camera,vehicles\n{rows}")
    words = ("--methods", "linear", "--rates", "0.5", "--seeds", "0")
    (record,) = run_table("nyc", tmp_path, *words)
    assert record["unit"] == "vehicles"
    assert record["measured_on"].startswith("counts of your own, from camera_counts.csv; 600 time")
