"""Commands that train networks and use them."""

import json
import os
import signal
import subprocess
import sys
import time

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
def seer(table):
    folder = table.parent / "seer"
    run("train", table, "-o", folder, "--forecast", 4, *SMALL)
    return folder


def test_train_then_fill_gives_what_the_library_gives(table, model, tmp_path):
    text = run("fill", table, "--model", model, "-o", tmp_path / "out.csv")
    assert "expected error" in text and "kept from the network's training" in text
    cube = cdsa.open_cube(table)
    expected = load_filler(model, device="cpu").fill(cube)
    assert np.allclose(cdsa.open_cube(tmp_path / "out.csv"), expected, rtol=1e-9)


def test_errors_at_stations_a_network_was_not_trained_on_are_told_apart(model, tmp_path):
    cube, places = network(steps=90, stations=8), tmp_path / "places.csv"
    panel(cube).to_csv(tmp_path / "more.csv", index=False)
    places.write_text("location,lat,lon\nX,40.05,116.05\n")
    text = " ".join(run("fill", tmp_path / "more.csv", "--model", model, "-o",
        tmp_path / "out.csv").split())  # fmt: skip
    more = cube.sizes["location"] - len(load_filler(model).signature.locations)
    assert more > 1 and f"at {more} stations that the network was not trained on: error" in text
    text = run("fill", tmp_path / "more.csv", "--model", model, "--at", places, "--no-check",
        "-o", tmp_path / "other.csv")  # fmt: skip
    assert "not trained on" not in text


def test_train_tells_how_it_went(table, tmp_path):
    text = run("train", table, "-o", tmp_path / "m", "--method", "cdsa-paper", "--manner",
        "shared", *SMALL)  # fmt: skip
    for words in ("cdsa-paper:shared", "variables", "pm25", "kept from training", "to use it"):
        assert words in text
    assert max(map(len, text.splitlines()[:5])) <= 80


def test_train_json_is_one_array_of_flat_objects(table, tmp_path):
    records = json.loads(run("train", table, "-o", tmp_path / "m", "--json", *SMALL))
    assert [r["measurement"] for r in records] == ["pm25", "temp"]
    assert {"mae", "rmse", "unit", "seconds", "variables", "best_step"} <= set(records[0])


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


def test_forecast_carries_the_table_forward(table, tmp_path):
    out, detail = tmp_path / "out.csv", tmp_path / "detail.csv"
    text = run("forecast", table, "--horizon", 5, "-o", out, "--detail", detail, *SMALL)
    assert "5 steps ahead" in text and "expected error" in text
    old, new, told = pd.read_csv(table), pd.read_csv(out), pd.read_csv(detail)
    pd.testing.assert_frame_equal(new.iloc[: len(old)], old)  # gaps stay gaps
    assert len(new) == len(old) + 5 * 3 and new.tail(15).notna().all().all()
    assert len(told) == 5 * 3 * 2 and set(told["source"]) == {"forecast"}


def test_forecast_with_a_trained_network(table, seer, tmp_path):
    words = ("--model", seer, "--horizon", 3, "-o", tmp_path / "out.csv", "--json")
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
    told = {r["measurement"]: r for r in records if r["method"] == "cdsa"}["all"]
    assert 0 < told["coverage"] <= 1 and told["width"] > 0 and told["crps"] > 0


def test_options_of_training_without_a_network_are_refused(table):
    told = refused("score", table, "--methods", "linear", "--minutes", 3)
    assert "--minutes is for methods that train" in told


def test_a_trained_network_stays_where_it_is_if_the_new_one_cannot_be_trained(table, tmp_path):
    folder = tmp_path / "m"
    run("train", table, "-o", folder, *SMALL)
    before = (folder / "weights.safetensors").read_bytes()
    for words in ((tmp_path / "typo.csv",), (table, "--set", "model.layer=3")):
        refused("train", *words, "-o", folder, "--overwrite", *SMALL)
    assert (folder / "weights.safetensors").read_bytes() == before


def test_windows_that_had_to_be_shortened_are_told(tmp_path):
    short = tmp_path / "short.csv"
    panel(network(steps=8)).to_csv(short, index=False)
    words = [str(w) for w in ("fill", short, "-o", tmp_path / "o.csv", "--method", "cdsa-paper")]
    done = runner.invoke(app, [*words, *SMALL])
    assert done.exit_code == 0 and "shortened to the 8" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--method", "linear", "--manner", "joint"), "--manner is for methods that train"),
        (("--method", "cdsa-paper", "--manner", "jont"), "did you mean 'joint'"),
        (("--method", "cdsa-paper", "--set", "model.layer=3"), "did you mean 'n_layers'"),
        (
            ("--method", "cdsa-paper", "--set", "train.batch_size=-1"),
            "batch_size must be at least 0",
        ),
        (("--method", "cdsa-paper", "--preset", "papr"), "did you mean 'paper'"),
        (("--method", "cdsa-paper", "--device", "tpu", *SMALL[:2]), "no device 'tpu'"),
        (("--model", "MODEL", "--method", "linear"), "either --method or --model"),
        (("--model", "MODEL", "--minutes", "3"), "--minutes is for training"),
        (("--model", "SEER"), "Use it with cdsa forecast"),
        (("--method", "cdsa-paper-forecast"), "forecasts and does not fill"),
        (("--model", "NONE"), "there is no folder"),
    ],
)
def test_what_cannot_be_meant_is_answered_and_nothing_written(
    table, model, seer, tmp_path, words, told
):
    places = {"MODEL": model, "SEER": seer, "NONE": tmp_path / "none"}
    found = [places.get(word, word) for word in words]
    assert told in refused("fill", table, "-o", tmp_path / "out.csv", *found)
    assert not (tmp_path / "out.csv").exists()


def test_forecasts_that_cannot_be_are_answered(table, model, seer, tmp_path):
    out = ("-o", tmp_path / "out.csv")
    assert "These can: mean, last" in refused(
        "forecast", table, "--horizon", 2, "--method", "linear", *out
    )
    assert "foresees 4 steps, but 9 steps" in refused(
        "forecast", table, "--horizon", 9, "--model", seer, *out
    )
    assert "foresees nothing" in refused("forecast", table, "--horizon", 2, "--model", model, *out)
    assert "horizon=3 was set" in refused(
        "forecast", table, "--horizon", 5, "--set", "horizon=3", *SMALL, *out
    )


def test_a_method_without_a_network_cannot_be_trained(table, tmp_path):
    assert "nothing to train" in refused("train", table, "-o", tmp_path / "m", "--method", "knn")
    assert not (tmp_path / "m").exists()


def test_a_trained_network_is_not_overwritten_unless_asked(table, model, tmp_path):
    assert "--overwrite" in refused("train", table, "-o", model, *SMALL)


def test_a_network_for_other_data_is_refused(table, model, tmp_path):
    other = tmp_path / "other.csv"
    panel(network(steps=90, stations=4, measurements=3)).to_csv(other, index=False)
    told = refused("fill", other, "--model", model, "-o", tmp_path / "out.csv")
    assert "does not know no2" in told
    run("train", table, "-o", tmp_path / "paper", "--method", "cdsa-paper", *SMALL)
    panel(network(steps=90, stations=4)).to_csv(other, index=False)
    told = refused("fill", other, "--model", tmp_path / "paper", "-o", tmp_path / "out.csv")
    assert "does not know S3" in told


def test_a_training_is_logged_for_tensorboard(table, tmp_path):
    pytest.importorskip("tensorboard")
    run("train", table, "-o", tmp_path / "m", *SMALL, "--tensorboard", tmp_path / "board")
    assert list((tmp_path / "board").glob("events*"))


def test_tensorboard_that_is_not_installed_is_told(table, tmp_path, monkeypatch):
    monkeypatch.setattr("cdsa.training.callbacks.find_spec", lambda name: None)
    words = ("-o", tmp_path / "m", *SMALL, "--tensorboard", tmp_path / "board")
    assert "needs the package 'tensorboard'" in refused("train", table, *words)


def test_ctrl_c_keeps_the_best_so_far_and_the_same_command_goes_on(table, tmp_path):
    folder = tmp_path / "m"
    words = ["train", str(table), "-o", str(folder), *SMALL, "--epochs", "100000"]
    words += ["--set", "train.patience=0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "cdsa", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert "training cdsa for 100,000 passes" in process.stderr.readline().decode()
    time.sleep(0.5)  # to have something to keep
    os.kill(process.pid, signal.SIGINT)
    out, err = (text.decode() for text in process.communicate(timeout=60))
    assert process.returncode == 0, err
    assert "stopping after this step" in err and "give the same command again" in out
    assert load_filler(folder).network.train_state.step > 0
    assert (folder / "training.safetensors").exists()
    # the same with fewer minutes: it goes on from there and is over at once
    text = run(*words, "--minutes", "0.0001")
    assert "stopped" not in text and not (folder / "training.safetensors").exists()


def test_the_wish_to_stop_leaves_the_second_ctrl_c_alone():
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored behind nohup
    try:
        with progress.interruptible() as stop:
            assert not stop()
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            assert stop()
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(1)
    finally:
        signal.signal(signal.SIGINT, inherited)


def test_the_seeds_of_a_score_are_those_of_its_networks():
    made = comparing._for_score(
        "cdsa-paper:joint", {"minutes": 1.0}, comparing.RunContext(), "bursts:0.2", 3
    )
    assert (made.seed, made.model.manner, made.train.minutes) == (3, "joint", 1.0)
    with pytest.raises(ConfigError, match="no method 'cdsapaper'"):
        comparing._for_score("cdsapaper", {}, comparing.RunContext(), "bursts:0.2", 0)
