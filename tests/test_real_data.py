"""Tests on the real data: CDSA_DATA=FOLDER make test. Skipped without them."""

import os
from pathlib import Path

import numpy as np
import pytest

from cdsa.datasets.registry import DATASETS, open_dataset
from cdsa.errors import ConfigError
from cdsa.methods.registry import build_method
from cdsa.paper.protocols import kdd2015_pm25
from cdsa.paper.runner import evaluate

FOLDER = os.environ.get("CDSA_DATA")
pytestmark = pytest.mark.skipif(not FOLDER, reason="CDSA_DATA is not set")


def opened(name, **options):
    try:
        return open_dataset(name, Path(str(FOLDER)), **options)
    except ConfigError as reason:
        pytest.skip(str(reason))


def evaluate_on_pm25(method, sample):
    data = opened("kdd2015-pm25")
    trial = kdd2015_pm25(data.cube, data.extras["removed"], sample)
    return evaluate(trial, build_method(method).fit(trial.train))


def test_as_many_cells_were_removed_as_published():
    data = opened("kdd2015-pm25")
    assert data.remarks == ()
    trial = kdd2015_pm25(data.cube, data.extras["removed"], "in-sample")
    assert {name: int(cells.sum()) for name, cells in trial.eval_masks.items()} == {
        "all": 35_737,
        "test-months": 20_434,
    }


def test_the_papers_mean_row_is_reproduced_to_the_digit():
    errors = evaluate_on_pm25("mean", "in-sample")["all", None].overall()
    assert f"{errors['mae']:.2f}" == "55.51" and f"{errors['mre']:.2%}" == "77.97%"


def test_linear_interpolation_scores_as_published_by_others():
    errors = evaluate_on_pm25("linear", "out-of-sample")["test-months", None].overall()
    assert f"{errors['mae']:.2f}" == "14.68" and f"{errors['mre']:.1%}" == "21.1%"


def test_the_publishers_files_give_the_cube_that_others_derived_from_them():
    data = opened("kdd2018", file_set="publisher-2018")
    (path,) = Path(str(FOLDER)).glob("*/common11_raw12_2018-02_2018-03.npz")
    with np.load(path) as file:
        theirs, times = file["X"], file["time"].astype("datetime64[ns]")
    ours = data.cube.sel(time=times).to_numpy()
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
    np.testing.assert_allclose(ours[..., :11], theirs[..., :11], rtol=1e-5)


@pytest.mark.parametrize("name", DATASETS)
def test_available_data_can_be_read(name):
    data = opened(name)
    assert data.cube.notnull().any() and data.files is not None
