"""Networks as methods: from a cube to a filled one, saved and loaded."""

import json
import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr

import cdsa
from cdsa.core.cube import append_times, assign_metadata
from cdsa.errors import ConfigError, OutputError
from cdsa.methods.engine import fit
from cdsa.methods.engine.fit import fingerprint
from cdsa.methods.engine.persistence import load_filler, open_folder, save_filler
from cdsa.methods.engine.predictor import pick_device
from cdsa.methods.neural.cdsa_paper import FILLERS, FORECASTERS, get_preset
from cdsa.methods.registry import build_method
from cdsa.nn.types import MANNERS
from cdsa.training.checkpoint import CheckpointError
from cdsa.workflows.forecast import forecast_with
from conftest import network


def small(manner="decomposed", forecast=False, **changes):
    method = get_preset("small", forecast=forecast).with_manner(manner)
    return replace(method, **changes)


@pytest.fixture(scope="module")
def cube():
    return network(steps=100, stations=3, measurements=2)


@pytest.fixture(scope="module")
def filler(cube):
    return small().fit(cube)


@pytest.fixture
def folder(filler, tmp_path):
    save_filler(filler, tmp_path / "model", command="cdsa train ...")
    return tmp_path / "model"


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("forecast", [False, True], ids=["fill", "forecast"])
def test_a_saved_network_fills_as_before(cube, manner, forecast, tmp_path):
    method = small(manner, forecast, train=replace(small().train, epochs=1))
    filler = method.fit(cube)
    save_filler(filler, tmp_path / "model")
    again = load_filler(tmp_path / "model", device="cpu")
    longer = append_times(cube, 4) if forecast else cube
    assert again.fill(longer).equals(filler.fill(longer))
    assert again.method == filler.method and again.signature == filler.signature
    assert (
        again.validation_errors == filler.validation_errors and len(filler.validation_errors) == 2
    )


def test_what_a_checkpoint_says(folder):
    document = json.loads((folder / "model.json").read_text())
    assert document["method"] == "cdsa-paper" and document["settings"]["model"]["n_layers"] == 2
    assert document["signature"]["locations"] == ["S0", "S1", "S2"]
    assert document["signature"]["step"] == "1 h"
    assert document["signature"]["coordinates"][0] == [40.0, 116.0]
    assert document["provenance"]["command"] == "cdsa train ..."
    assert {error["measurement"] for error in document["errors"]} == {"pm25", "temp"}
    assert sorted(path.name for path in folder.iterdir()) == ["model.json", "weights.safetensors"]


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-10])


def turn_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def no_object(path):
    path.write_text("[]")


def pickled(path):
    torch.save({"network.x": torch.ones(2)}, path)


@pytest.mark.parametrize(
    "damage", [cut_short, turn_a_bit, no_object, pickled, lambda p: p.unlink()]
)
@pytest.mark.parametrize("name", ["weights.safetensors", "model.json"])
def test_a_damaged_checkpoint_is_refused(folder, name, damage):
    damage(folder / name)
    with pytest.raises(CheckpointError, match=name):
        load_filler(folder)


def test_settings_changed_by_hand_are_refused(folder):
    path = folder / "model.json"
    path.write_text(path.read_text().replace('"n_layers": 2', '"n_layers": 3'))
    with pytest.raises(CheckpointError, match="it was changed"):
        load_filler(folder)


def test_a_folder_without_a_network_is_told(tmp_path):
    with pytest.raises(CheckpointError, match="there is no folder"):
        load_filler(tmp_path / "none")
    with pytest.raises(CheckpointError, match="holds no trained network"):
        load_filler(tmp_path)
    (tmp_path / "training.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match="not finished"):
        load_filler(tmp_path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda c: c.assign_coords(location=["S0", "S1", "X"]), "does not know X"),
        (lambda c: c.assign_coords(measurement=["pm25", "co"]), "measurements.*does not know co"),
        (
            lambda c: c.isel(time=slice(None, None, 2)),
            "steps of 1 h, but these data have steps of 2 h",
        ),
        (lambda c: assign_metadata(c, directions=["temp"]), "'temp' was no direction"),
    ],
)
def test_a_network_that_does_not_fit_the_data_is_refused_with_a_reason(cube, filler, change, told):
    with pytest.raises(ConfigError, match=told):
        filler.signature.check(change(cube))


def test_other_units_are_refused(cube):
    signature = small().fit(assign_metadata(cube, units={"temp": "degC"})).signature
    with pytest.raises(ConfigError, match="'temp' in degC, but here it is in degF"):
        signature.check(assign_metadata(cube, units={"temp": "degF"}))
    signature.check(cube)  # a unit that is not told may be the same


def test_fewer_stations_and_another_time_fit(cube, filler):
    other = network(steps=30, stations=2).assign_coords(
        time=cube["time"].to_numpy()[:30] + np.timedelta64(400, "D")
    )
    filler.signature.check(other)
    assert filler.fill(other).notnull().all()


def test_a_network_is_not_told_the_order_of_the_file(cube):
    turned = cube.isel(location=[2, 0, 1], measurement=[1, 0])
    back = small().fit(turned).fill(turned).isel(location=[1, 2, 0], measurement=[1, 0])
    assert back.equals(small().fit(cube).fill(cube))


def test_the_components_of_a_direction_are_hidden_together(windy):
    filler = small().fit(windy)
    assert [error["measurement"] for error in filler.validation_errors] == ["pm25", "wind_dir"]
    assert next(e for e in filler.validation_errors if e["measurement"] == "wind_dir")["mae"] < 180


@pytest.fixture
def spied(monkeypatch):
    """What a network was trained and examined on."""
    seen = {}

    def spy(model, windows, exam, *args, **kwargs):
        seen.update(windows=windows, exam=exam)
        return real(model, windows, exam, *args, **kwargs)

    real = fit.train
    monkeypatch.setattr(fit, "train", spy)
    return seen


def test_validation_cells_are_not_in_what_is_learnt_from(cube, spied):
    small().fit(cube)
    asked = spied["exam"].truth[spied["exam"].target]
    learnt = spied["windows"].values[spied["windows"].observed]
    assert len(asked) > 10 and not set(asked.tolist()) & set(learnt.tolist())


def test_a_forecaster_is_examined_on_a_time_it_did_not_learn_from(cube, spied):
    small(forecast=True).fit(cube)
    assert spied["windows"].steps.max() < spied["exam"].steps.min()
    assert len(spied["exam"]) > 0


def test_short_data_get_short_windows_and_a_word(caplog):
    with caplog.at_level(logging.WARNING, "cdsa"):
        filler = small().fit(network(steps=8))
    assert filler.network.context_length == 8 and "longer than the 8 of the table" in caplog.text


def test_a_forecast_is_a_fill_of_the_steps_behind_the_end(cube):
    method = small(forecast=True)
    result = cdsa.forecast(cube, 5, method)
    assert result.sizes["time"] == 105
    assert (result["source"][-5:] == "forecast").all() and result["value"][-5:].notnull().all()
    xr.testing.assert_equal(result["value"][:-5], cube)  # what was there stays, gaps too
    assert set(np.unique(result["source"][:-5])) == {"observed", "missing"}
    filled = method.fit(cube).fill(append_times(cube, 6))  # the small preset foresees six steps
    assert filled[-6:-1].equals(result["value"][-5:])


def test_a_forecast_does_not_look_further_back_than_it_may(cube):
    filler = small(forecast=True).fit(cube)
    changed = cube.copy(data=cube.to_numpy().copy())
    changed[:-6] += 100  # the small preset looks back on six steps
    for steps in (6, 4):
        first, second = (forecast_with(filler, c, steps)["value"][-steps:] for c in (cube, changed))
        assert first.equals(second)
    changed[-6:] += 100
    assert not forecast_with(filler, changed, 4)["value"][-4:].equals(first)


def test_a_forecast_looks_at_no_more_than_it_must(cube):
    filler = small(forecast=True).fit(cube)
    result = forecast_with(filler, cube, 6)
    assert result["value"][-6:].equals(filler.fill(append_times(cube, 6))[-6:])


def test_more_steps_than_were_learnt_are_refused(cube):
    with pytest.raises(ConfigError, match="forecasts 6 steps"):
        forecast_with(small(forecast=True).fit(cube), cube, 7)
    with pytest.raises(ConfigError, match="was not trained to forecast"):
        forecast_with(small().fit(cube), cube, 2)
    with pytest.raises(ConfigError, match="forecasts 3 steps"):  # as its windows were shortened
        cdsa.forecast(cube[:6], 5, small(forecast=True))


def test_a_method_is_made_to_foresee_as_far_as_is_asked(cube):
    for method in (small(forecast=True), small()):
        assert cdsa.forecast(cube, 7, method)["value"].sizes["time"] == 107


def test_an_exam_that_asks_nothing_is_none(cube, spied):
    late = cube["time"] > cube["time"][60]
    filler = small(forecast=True).fit(cube.where(~late))  # the end is empty
    assert len(spied["exam"]) > 0 and filler.network.train_state.best > 0.01
    assert spied["exam"].steps.max() <= 60


def test_other_data_are_refused_when_filling_too(cube, filler):
    with pytest.raises(ConfigError, match="steps of 1 h"):
        filler.fill(cube[::2])


def test_a_short_past_is_enough_to_forecast(cube):
    filler = small(forecast=True).fit(cube)
    assert forecast_with(filler, cube[-3:], 6)["value"][-6:].notnull().all()


def test_a_forecaster_can_be_made_for_so_many_steps():
    for manner in MANNERS:
        made = build_method(f"cdsa-paper-forecast:{manner}", horizon=30)
        assert made.horizon == 30 == made.window
        made = build_method(f"cdsa-paper-forecast:{manner}", horizon=3)
        assert made.window == 24 and made.horizon == (24 if manner == "shared" else 3)
    with pytest.raises(ConfigError, match="'linear' fills gaps but cannot forecast"):
        build_method("linear", horizon=3)
    with pytest.raises(ConfigError, match="'linear' has no manners"):
        build_method("linear:joint")


def test_every_preset_builds_its_network():
    for presets in (FILLERS, FORECASTERS):
        for name, method in presets.items():
            sizes = (method.window + method.horizon, 3, 2)
            with torch.device("meta"):
                method.model.build(cdsa.nn.types.Sizes(*sizes), method.horizon)
            assert get_preset(name, forecast=presets is FORECASTERS) is method
    with pytest.raises(ConfigError, match="no preset 'papr'; did you mean 'paper'"):
        get_preset("papr")


def test_the_general_preset_has_widths_and_a_rate_for_each_manner():
    for forecast in (False, True):
        general = get_preset("paper", forecast=forecast)
        joint = general.with_manner("joint")
        assert (joint.model.n_heads, joint.train.lr) == (2, 1e-3)
        assert joint.model.n_layers == general.model.n_layers and joint.train.minutes == 5
        assert joint.with_manner("decomposed") == general
        own = replace(general, model=replace(general.model, n_heads=7))
        assert own.with_manner("joint").model == replace(own.model, manner="joint")


def test_the_authors_settings():
    nyc = get_preset("paper-nyc")
    assert (nyc.window, nyc.stride, nyc.model.n_heads, nyc.model.d_v) == (432, 2, 12, 3)
    assert (nyc.model.time.d_qk, nyc.model.location.d_qk, nyc.model.d_ff) == (6, 14, 8)
    assert nyc.model.mask_diagonal and nyc.model.d_model == 1 and nyc.model.n_layers == 8
    train = nyc.train
    assert (train.batch_size, train.epochs, train.grad_clip, train.loss) == (19, 100, 5.0, "rmse")
    assert (train.schedule, train.loss_on, train.lr) == ("steps", "visible", 1e-3)
    assert get_preset("paper-metr-la", forecast=True).model.n_layers == 9


def test_a_fingerprint_tells_settings_and_data_apart(cube):
    method = small()
    prints = {
        fingerprint(method, cube),
        fingerprint(replace(method, seed=1), cube),
        fingerprint(method, cube + 1),
        fingerprint(method, cube.assign_coords(location=["A", "B", "C"])),
        fingerprint(method, cube.assign_coords(lat=cube["lat"] + 0.1)),
    }
    assert len(prints) == 5
    longer = replace(method, train=replace(method.train, minutes=7.0))
    assert fingerprint(longer, cube) == fingerprint(method, cube)


def test_devices():
    assert pick_device("cpu") == torch.device("cpu")
    with pytest.raises(ConfigError, match="did you mean 'cuda'"):
        pick_device("cude")
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="there is no device 'cuda' here"):
            pick_device("cuda")


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    for overwrite in (False, True):
        with pytest.raises(OutputError, match="not empty and holds no network"):
            open_folder(tmp_path, overwrite=overwrite)
    assert (tmp_path / "thesis.tex").exists()


def test_a_finished_network_is_not_trained_over(folder):
    with pytest.raises(OutputError, match="--overwrite"):
        open_folder(folder, overwrite=False)
    assert not open_folder(folder, overwrite=True)
    assert not list(folder.iterdir())


def test_too_little_to_learn_from_cannot_be_saved(tmp_path):
    filler = small().fit(network(steps=1, missing=0.0))
    with pytest.raises(ConfigError, match="too few data to train on"):
        save_filler(filler, tmp_path / "model")


def test_training_leaves_the_worlds_randomness_alone(cube):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    small().fit(cube)
    assert torch.equal(torch.rand(3), expected)
