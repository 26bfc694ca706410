"""`cdsa train`, and commands that use networks."""

import json
import signal

import numpy as np
import pandas as pd
import pytest

import cdsa
from cdsa.cli.progress import ConsoleReporter
from cdsa.errors import ConfigError
from cdsa.methods.engine.persistence import load_filler
from cdsa.methods.registry import MethodOptions, build_method
from cdsa.workflows.pipeline import CompareRequest
from commands import invoke, one_line, refused, run
from conftest import network
from frames import panel

SMALL = ("--preset", "small", "--device", "cpu")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("training") / "in.csv"
    panel(network(steps=90)).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def model(table):
    folder = table.parent / "model"
    run("train", table, "-o", folder, *SMALL)
    return folder


@pytest.fixture(scope="module")
def forecaster(table):
    folder = table.parent / "forecaster"
    run("train", table, "-o", folder, "--forecast", 4, *SMALL)
    return folder


def test_train_then_fill_gives_what_the_library_gives(table, model, tmp_path):
    text = run("fill", table, "--model", model, "-o", tmp_path / "out.csv")
    assert "expected error" in text and "not used to fit the network" in one_line(text)
    cube = cdsa.open_cube(table)
    expected = load_filler(model, device="cpu").fill(cube)
    assert np.allclose(cdsa.open_cube(tmp_path / "out.csv"), expected, rtol=1e-9)


def test_errors_at_stations_a_network_was_not_trained_on_are_reported(model, tmp_path):
    cube, sites = network(steps=90, stations=8), tmp_path / "sites.csv"
    panel(cube).to_csv(tmp_path / "more.csv", index=False)
    sites.write_text("location,lat,lon\nX,40.05,116.05\n")
    words = ("fill", tmp_path / "more.csv", "--model", model, "-o")
    text = one_line(run(*words, tmp_path / "out.csv"))
    n_new = cube.sizes["location"] - len(load_filler(model).signature.locations)
    assert n_new > 1 and f"at {n_new} stations that the network was not trained on: error" in text
    text = run(*words, tmp_path / "other.csv", "--at", sites, "--no-check")
    assert "not trained on" not in text


def test_the_error_at_sites_is_that_of_the_validation_of_a_network(tmp_path):
    panel(network(steps=400, stations=6)).to_csv(tmp_path / "in.csv", index=False)
    (tmp_path / "sites.csv").write_text("location,lat,lon\nX,40.05,116.05\n")
    run("train", tmp_path / "in.csv", "-o", tmp_path / "m", "--minutes", 0.01)
    assert load_filler(tmp_path / "m").validation_errors[0]["mae_unmonitored"] > 0
    text = run("fill", tmp_path / "in.csv", "--model", tmp_path / "m", "-o", tmp_path / "o.csv",
        "--at", tmp_path / "sites.csv")  # fmt: skip
    assert "at 1 site without a sensor: error pm25" in one_line(text)


def test_train_reports_how_it_went(table, tmp_path):
    text = run("train", table, "-o", tmp_path / "m", "--method", "cdsa-paper", "--manner",
        "shared", *SMALL)  # fmt: skip
    for words in ("cdsa-paper:shared", "parameters", "pm25", "held out from training", "to use it"):
        assert words in text
    assert max(map(len, text.splitlines()[:5])) <= 80


def test_train_json_is_one_array_of_flat_objects(table, tmp_path):
    records = json.loads(run("train", table, "-o", tmp_path / "m", "--json", *SMALL))
    assert [r["measurement"] for r in records] == ["pm25", "temp"]
    assert {"mae", "rmse", "unit", "seconds", "parameters", "best_step"} <= set(records[0])


@pytest.mark.parametrize("manner", ["joint", "independent"])
def test_fill_with_a_manner(table, tmp_path, manner):
    out = tmp_path / "out.csv"
    words = ("--method", "cdsa-paper", "--manner", manner, *SMALL)
    records = json.loads(run("fill", table, "-o", out, "--json", *words))
    assert {r["method"] for r in records} == {f"cdsa-paper:{manner}"}
    assert all(r["expected_mae"] > 0 and r["unfillable"] == 0 for r in records)
    assert pd.read_csv(out)[["pm25", "temp"]].notna().all().all()


def test_any_setting_can_be_set(table, tmp_path):
    words = ("--set", "model.n_layers=3", "--set", "train.loss=rmse", "--epochs", 1, "--seed", 7)
    run("train", table, "-o", tmp_path / "m", *SMALL, *words)
    settings = json.loads((tmp_path / "m" / "model.json").read_text())["settings"]
    assert settings["model"]["n_layers"] == 3 and settings["train"]["loss"] == "rmse"
    assert settings["train"]["epochs"] == 1 and settings["seed"] == 7


def test_minutes_take_the_place_of_epochs(table, tmp_path):
    run("train", table, "-o", tmp_path / "m", *SMALL, "--minutes", 0.01)
    train = json.loads((tmp_path / "m" / "model.json").read_text())["settings"]["train"]
    assert train["minutes"] == 0.01 and train["epochs"] is None


def test_forecast_adds_the_steps_after_the_end(table, tmp_path):
    out, detail = tmp_path / "out.csv", tmp_path / "detail.csv"
    text = run("forecast", table, "--horizon", 5, "-o", out, "--detail", detail, *SMALL)
    assert "5 steps ahead" in text and "expected error" in text
    old, new, cells = pd.read_csv(table), pd.read_csv(out), pd.read_csv(detail)
    pd.testing.assert_frame_equal(new.iloc[: len(old)], old)  # gaps stay gaps
    assert len(new) == len(old) + 5 * 3 and new.tail(15).notna().all().all()
    assert len(cells) == 5 * 3 * 2 and set(cells["source"]) == {"forecast"}


def test_forecast_with_a_trained_network(table, forecaster, tmp_path):
    words = ("--model", forecaster, "--horizon", 3, "-o", tmp_path / "out.csv", "--json")
    records = json.loads(run("forecast", table, *words))
    assert all(r["forecast"] == 9 and r["expected_mae"] > 0 for r in records)


@pytest.mark.parametrize("form", ["nc", "parquet", "zarr"])
def test_a_forecast_is_written_in_every_format(table, tmp_path, form):
    out = tmp_path / f"out.{form}"
    run("forecast", table, "--horizon", 2, "-o", out, "--method", "last")
    cube = cdsa.open_cube(out)
    assert cube.sizes["time"] == 92 and cube[-2:].notnull().all()
    assert cube[:-2].isnull().sum() == cdsa.open_cube(table).isnull().sum()


@pytest.mark.parametrize("method", ["last", "mean", "climatology"])
def test_forecast_with_simple_methods(table, tmp_path, method):
    words = ("--horizon", 2, "--method", method, "-o", tmp_path / "o.csv", "--json")
    assert all(r["expected_mae"] > 0 for r in json.loads(run("forecast", table, *words)))


def test_networks_are_scored_beside_the_others(table):
    methods = "linear,cdsa-paper,cdsa-paper:shared"
    records = json.loads(run("score", table, "--methods", methods, "--json", *SMALL))
    assert [r["method"] for r in records if r["overall"]] == methods.split(",")


def test_a_forecaster_is_scored_on_the_last_steps(table):
    words = ("--methods", "last,cdsa-paper-forecast", "--hide", "last:4", "--json", *SMALL)
    assert len({r["mae"] for r in json.loads(run("score", table, *words)) if r["overall"]}) == 2


def test_score_trains_the_default_network_and_no_other_unless_asked_to(table):
    records = json.loads(run("score", table, "--json", "--minutes", 0.01))
    assert {r["method"] for r in records if r["method"].startswith("cdsa")} == {"cdsa"}
    overall = {r["measurement"]: r for r in records if r["method"] == "cdsa"}["all"]
    assert 0 < overall["coverage"] <= 1 and overall["width"] > 0 and overall["crps"] > 0


def test_training_options_without_a_network_are_refused(table):
    message = refused("score", table, "--methods", "linear", "--minutes", 3)
    assert "--minutes is for methods that train" in message


def test_a_trained_network_stays_where_it_is_if_the_new_one_cannot_be_trained(table, tmp_path):
    folder = tmp_path / "m"
    run("train", table, "-o", folder, *SMALL)
    before = (folder / "weights.safetensors").read_bytes()
    for words in ((tmp_path / "typo.csv",), (table, "--set", "model.layer=3")):
        refused("train", *words, "-o", folder, "--overwrite", *SMALL)
    assert (folder / "weights.safetensors").read_bytes() == before


def test_shortened_windows_are_reported(tmp_path):
    path = tmp_path / "short.csv"
    panel(network(steps=8)).to_csv(path, index=False)
    result = invoke("fill", path, "-o", tmp_path / "o.csv", "--method", "cdsa-paper", *SMALL)
    assert result.exit_code == 0 and "shortened to the 8" in one_line(result.stderr)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--method", "linear", "--manner", "joint"), "--manner is for methods that train"),
        (("--method", "cdsa-paper", "--manner", "jont"), "did you mean 'joint'"),
        (("--method", "cdsa-paper", "--set", "model.layer=3"), "did you mean 'n_layers'"),
        (
            ("--method", "cdsa-paper", "--set", "train.batch_size=-1"),
            "batch_size must not be negative",
        ),
        (("--method", "cdsa-paper", "--preset", "papr"), "did you mean 'paper'"),
        (("--method", "cdsa-paper", "--device", "tpu", *SMALL[:2]), "no device 'tpu'"),
        (("--model", "MODEL", "--method", "linear"), "either --method or --model"),
        (("--model", "MODEL", "--minutes", "3"), "--minutes is for training"),
        (("--model", "FORECASTER"), "Use it with cdsa forecast"),
        (("--method", "cdsa-paper-forecast"), "forecasts and does not fill"),
        (("--model", "NONE"), "there is no folder"),
    ],
)
def test_contradictions_are_refused_and_nothing_is_written(
    table, model, forecaster, tmp_path, words, message
):
    folders = {"MODEL": model, "FORECASTER": forecaster, "NONE": tmp_path / "none"}
    words = [folders.get(word, word) for word in words]
    assert message in refused("fill", table, "-o", tmp_path / "out.csv", *words)
    assert not (tmp_path / "out.csv").exists()


def test_impossible_forecasts_are_refused(table, model, forecaster, tmp_path):
    def forecast(horizon, *words):
        return refused("forecast", table, "--horizon", horizon, *words, "-o", tmp_path / "o.csv")

    assert "These can: mean, last" in forecast(2, "--method", "linear")
    message = forecast(9, "--model", forecaster)
    assert "forecasts 4 steps" in message and "cdsa train --forecast 9" in message
    assert "was not trained to forecast" in forecast(2, "--model", model)
    assert "--set makes it shorter: horizon=3" in forecast(5, "--set", "horizon=3", *SMALL)


def test_a_method_without_a_network_cannot_be_trained(table, tmp_path):
    assert "'knn' is not trained" in refused(
        "train", table, "-o", tmp_path / "m", "--method", "knn"
    )
    assert not (tmp_path / "m").exists()


def test_a_trained_network_is_not_overwritten_by_accident(table, model, tmp_path):
    assert "--overwrite" in refused("train", table, "-o", model, *SMALL)


def test_a_network_for_other_data_is_refused(table, model, tmp_path):
    other = tmp_path / "other.csv"
    panel(network(steps=90, stations=4, measurements=3)).to_csv(other, index=False)
    message = refused("fill", other, "--model", model, "-o", tmp_path / "out.csv")
    assert "does not know no2" in message
    run("train", table, "-o", tmp_path / "paper", "--method", "cdsa-paper", *SMALL)
    panel(network(steps=90, stations=4)).to_csv(other, index=False)
    message = refused("fill", other, "--model", tmp_path / "paper", "-o", tmp_path / "out.csv")
    assert "does not know S3" in message


def test_a_training_is_logged_for_tensorboard(table, tmp_path):
    pytest.importorskip("tensorboard")
    run("train", table, "-o", tmp_path / "m", *SMALL, "--tensorboard", tmp_path / "board")
    assert list((tmp_path / "board").glob("events*"))


def test_a_missing_tensorboard_is_reported(table, tmp_path, monkeypatch):
    monkeypatch.setattr("cdsa.training.callbacks.find_spec", lambda name: None)
    words = ("-o", tmp_path / "m", *SMALL, "--tensorboard", tmp_path / "board")
    assert "needs the package 'tensorboard'" in refused("train", table, *words)


def test_ctrl_c_keeps_the_best_weights_and_the_same_command_resumes(table, tmp_path, monkeypatch):
    folder = tmp_path / "m"
    words = ("train", table, "-o", folder, *SMALL, "--epochs", 100_000)
    words += ("--set", "train.patience=0")
    report = ConsoleReporter.training

    def interrupt(reporter, progress):
        report(reporter, progress)
        if progress.best is not None and not reporter.stop_requested:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ConsoleReporter, "training", interrupt)
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    assert "training cdsa for 100,000 epochs" in result.stderr
    assert "stopping after this step" in result.stderr
    assert "repeat the command to resume" in result.stdout
    assert load_filler(folder).network.train_state.step > 0
    assert (folder / "training.safetensors").exists()
    # with fewer minutes the resumed training is finished at once
    result = invoke(*words, "--minutes", 0.0001)
    assert "resuming the training" in result.stderr and "stopped" not in result.stdout
    assert not (folder / "training.safetensors").exists()


def test_a_second_ctrl_c_stops_at_once():
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored behind nohup
    try:
        with ConsoleReporter(interruptible=True) as reporter:
            reporter.training_starts(build_method("cdsa@small"))
            assert not reporter.should_stop()
            signal.raise_signal(signal.SIGINT)
            assert reporter.should_stop()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, inherited)


def test_outside_of_a_training_ctrl_c_stops_at_once():
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with ConsoleReporter(interruptible=True) as reporter:
            reporter.training_starts(build_method("cdsa@small"))
            reporter.progress("filling")
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, inherited)


def test_the_seed_of_a_score_is_that_of_its_networks():
    request = CompareRequest(methods=(), seed=3, options=MethodOptions(minutes=1.0))
    method = request.build("cdsa-paper:joint")
    assert (method.seed, method.model.manner, method.train.minutes) == (3, "joint", 1.0)
    with pytest.raises(ConfigError, match="no method 'cdsapaper'"):
        request.build("cdsapaper")
