"""Predictions of a trained network."""

import pytest
import torch

from cdsa.core.circular import to_components
from cdsa.errors import ConfigError
from cdsa.methods.engine.predictor import pick_device
from conftest import network
from small_networks import small_cdsa, small_paper


def test_devices():
    assert pick_device("cpu") == torch.device("cpu")
    with pytest.raises(ConfigError, match="did you mean 'cuda'"):
        pick_device("cude")
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="there is no device 'cuda' here; available: "):
            pick_device("cuda")


def test_quantiles_do_not_change_the_prediction_and_do_not_cross():
    cube = network(steps=60)
    predictor = small_cdsa().fit(cube).network
    components = to_components(cube)
    point = predictor.predict(components).isel(quantile=0)
    again, lower, upper = predictor.predict(components, (0.1, 0.9)).transpose("quantile", ...)
    assert point.equals(again) and (lower <= upper).all()


def test_unknown_series_are_not_predicted():
    cube = network(steps=60, stations=4, measurements=3)
    predictor = small_paper().fit(cube[:, :3, :2]).network
    point = predictor.predict(to_components(cube)).isel(quantile=0)
    assert point[:, :3, :2].notnull().all()
    assert point[:, 3].isnull().all() and point[:, :, 2].isnull().all()
