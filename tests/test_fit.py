"""How a network is fitted to a cube."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr

from cdsa import score
from cdsa.core.scaler import Scaler
from cdsa.methods.engine import fit
from cdsa.methods.engine.fit import fingerprint
from conftest import network
from small_networks import small_cdsa, small_paper


@pytest.fixture(scope="module")
def cube():
    return network(steps=100, stations=3, measurements=2)


@pytest.fixture
def trained_on(monkeypatch):
    """The training and validation windows of a fit."""
    windows = {}

    def train(model, training, validation, *args, **kwargs):
        windows.update(training=training, validation=validation)
        return original(model, training, validation, *args, **kwargs)

    original = fit.train
    monkeypatch.setattr(fit, "train", train)
    return windows


@pytest.fixture
def untrained(monkeypatch):
    """The training and validation windows of fits that end before training."""
    windows = []

    def train(model, training, validation, *args, **kwargs):
        windows.append((training, validation))
        raise InterruptedError

    monkeypatch.setattr(fit, "train", train)
    return windows


def test_validation_cells_are_not_trained_on(cube, trained_on):
    small_paper().fit(cube)
    training, validation = trained_on["training"], trained_on["validation"]
    targets, trained = validation.truth[validation.target], training.values[training.observed]
    assert len(targets) > 10 and not set(targets.tolist()) & set(trained.tolist())


def test_a_forecaster_is_validated_on_later_steps(cube, trained_on):
    small_paper(forecast=True).fit(cube)
    assert trained_on["training"].steps.max() < trained_on["validation"].steps.min()
    assert len(trained_on["validation"]) > 0


def test_validation_windows_have_observations_in_the_horizon(cube, trained_on):
    late = cube["time"] > cube["time"][60]
    filler = small_paper(forecast=True).fit(cube.where(~late))  # the end is empty
    assert len(trained_on["validation"]) > 0 and filler.network.train_state.best > 0.01
    assert trained_on["validation"].steps.max() <= 60


def test_hidden_cells_are_never_seen(untrained):
    """Windows, scale, climatology and similarity do not depend on them."""
    cube = network(steps=100)
    hidden = xr.zeros_like(cube, dtype=bool)
    hidden[20:30, 0] = True
    for truth in (cube, cube.where(~hidden, 1e6)):
        with pytest.raises(InterruptedError):
            score(truth, small_cdsa(), hidden)
    tensors = []
    for training, validation in untrained:
        context = training.take(torch.arange(len(training))).context
        similarity = context.station_similarity
        tensors.append(
            [training.values, training.truth, context.climatology, similarity, validation.truth]
        )
    assert all((a == b).all() for a, b in zip(*tensors, strict=True))


def test_the_climatology_of_a_window_does_not_depend_on_its_values(untrained, monkeypatch):
    def identity(cube):
        one = xr.ones_like(cube.isel(time=0, location=0, drop=True))
        return Scaler(0 * one, one)

    monkeypatch.setattr(fit.Scaler, "fit", identity)
    cube = network(steps=240, stations=1, measurements=1, missing=0.0)
    changed = cube.copy()
    changed[100] += 50.0
    for truth in (cube, changed):
        with pytest.raises(InterruptedError):
            small_cdsa(window=36, stride=1).fit(truth)
    first, second = (training.take(torch.arange(len(training))) for training, _ in untrained)
    inside = (first.steps == 100).any(dim=1)
    change = (first.context.climatology - second.context.climatology).abs()
    differs = change.flatten(1).amax(dim=1) > 1e-3  # of a change by 50
    assert inside.any() and not differs[inside].any() and differs[~inside].any()


def test_held_out_cells_are_known_after_training():
    cube = network(steps=240)
    builder = small_cdsa().fit(cube).network.context_builder
    assert builder.climatology.count.sum() == cube.notnull().sum()


def test_short_tables_have_no_climatology_as_there_is_none_in_training():
    method = small_cdsa()
    short, long = (method.fit(network(steps=n)).network for n in (30, 40))
    assert not short.context_builder.climatology.count.any()
    assert long.context_builder.climatology.count.any()
    adapted = short.adapt_to(network(steps=200)).context_builder
    assert not adapted.climatology.count.any()  # it was trained without one


def test_the_components_of_a_direction_are_hidden_together(windy):
    errors = small_paper().fit(windy).validation_errors
    assert [error["measurement"] for error in errors] == ["pm25", "wind_dir"]
    assert errors[1]["mae"] < 180


def test_the_order_of_the_file_does_not_matter(cube):
    permuted = cube.isel(location=[2, 0, 1], measurement=[1, 0])
    filled = small_paper().fit(permuted).fill(permuted)
    expected = small_paper().fit(cube).fill(cube)
    assert filled.isel(location=[1, 2, 0], measurement=[1, 0]).equals(expected)


def test_a_fingerprint_depends_on_settings_and_data_but_not_on_minutes(cube):
    method = small_paper()
    fingerprints = {
        fingerprint(method, cube),
        fingerprint(replace(method, seed=1), cube),
        fingerprint(method, cube + 1),
        fingerprint(method, cube.assign_coords(location=["A", "B", "C"])),
        fingerprint(method, cube.assign_coords(lat=cube["lat"] + 0.1)),
    }
    assert len(fingerprints) == 5
    longer = replace(method, train=replace(method.train, minutes=7.0))
    assert fingerprint(longer, cube) == fingerprint(method, cube)


def test_training_leaves_the_global_generator_alone(cube):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    small_paper().fit(cube)
    assert torch.equal(torch.rand(3), expected)


def test_without_enough_data_gaps_get_means():
    cube = network(steps=1, missing=0.0)
    filler = small_paper().fit(cube)
    assert filler.network is None and not filler.trained
    expected = cube.mean(("time", "location"))
    np.testing.assert_allclose(
        filler.fill(xr.full_like(cube, np.nan)).mean("location")[0], expected
    )
