"""The paper's protocols: what is trained on, what is hidden, and which cells are scored.

A protocol is a function that returns a trial: cubes for training, validation and testing. Hidden
values are in the trial's truth and nowhere else. Choices that the paper leaves open are made here,
and documented.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.masks import AtRandom, Bursts
from cdsa.core.splits import keep_steps, steps_in_months, time_mask
from cdsa.datasets.spec import TOLERANCE
from cdsa.errors import ConfigError, unknown

SAMPLES = ("in-sample", "out-of-sample")
SPLITS = ("80/20", "70/10/20")

ALL, TEST_MONTHS = "all", "test-months"
KDD2015_TEST_MONTHS = (3, 6, 9, 12)
PIECE_LENGTH = 48
CONTEXT_LENGTH = HORIZON = 12

NATURAL_GAPS, HIDDEN_CELLS = 1, 2  # random streams that are independent of each other


@dataclass(frozen=True, eq=False, kw_only=True)
class ImputationTrial:
    """Cubes to fit and fill, and the cells to score."""

    train: xr.DataArray
    test: xr.DataArray
    """The cube to fill, in which the hidden cells are missing."""

    truth: xr.DataArray
    eval_masks: Mapping[str, xr.DataArray]
    """Sets of hidden cells to score, by name."""

    piece_length: int | None = None
    """Steps of the pieces that are filled independently; None fills the whole cube at once."""

    remarks: tuple[str, ...] = ()
    """How the data were prepared."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ForecastTrial:
    """A cube to fit, and forecasts from many origins to score."""

    train: xr.DataArray
    validation: xr.DataArray | None = None
    """The time right after `train`, to choose settings by."""

    test: xr.DataArray
    """The time that is forecast; each forecast sees only the steps before its origin."""

    origins: NDArray[np.int64]
    """Indices in `test` of the first steps to forecast."""

    remarks: tuple[str, ...] = ()


def kdd2015_pm25(ground: xr.DataArray, removed: xr.DataArray, sample: str) -> ImputationTrial:
    """KDD-2015 PM2.5: the cells that the publisher removed.

    In-sample, a method is trained on all remaining cells, including the test months. Out-of-sample
    it is trained on the other months only. The paper's table mixes errors over all removed cells
    and over those of the test months, so both are scored.
    """
    return _monthly_trial("kdd2015-pm25", ground, removed, sample)


def kdd2015_weather(
    cube: xr.DataArray, sample: str, seed: int, *, missing: float
) -> ImputationTrial:
    """KDD-2015 temperature or humidity: a fifth of the cells at random.

    Data with fewer gaps than the paper's share of `missing` cells first lose more in bursts, the
    same for every method and seed; these cells are neither visible nor scored.
    """
    remarks: tuple[str, ...] = ()
    if missing - float(cube.isnull().mean()) > TOLERANCE:
        remarks = (f"brought to {missing:.1%} missing by bursts",)
        gaps = Bursts(rate=missing)(cube, np.random.default_rng(NATURAL_GAPS))
        cube = cube.where(~gaps)
    hidden = AtRandom(share=0.2)(cube, np.random.default_rng([seed, HIDDEN_CELLS]))
    return replace(_monthly_trial("kdd2015-weather", cube, hidden, sample), remarks=remarks)


def _monthly_trial(
    name: str, truth: xr.DataArray, hidden: xr.DataArray, sample: str
) -> ImputationTrial:
    if sample not in SAMPLES:
        raise ConfigError(unknown(f"protocol of {name}", sample, SAMPLES))
    visible = truth.where(~hidden)
    is_test = steps_in_months(truth, KDD2015_TEST_MONTHS)
    tested = hidden & time_mask(is_test, truth)
    return ImputationTrial(
        train=visible if sample == "in-sample" else keep_steps(visible, ~is_test),
        test=visible,
        truth=truth,
        eval_masks={ALL: hidden, TEST_MONTHS: tested.transpose(*truth.dims)},
    )


def kdd2018(
    cube: xr.DataArray, rate: float, seed: int, *, directions: bool = False
) -> ImputationTrial:
    """KDD-2018: pieces of 48 hours, cells hidden at random until `rate` is missing.

    The wind direction is a plain number, as published and as the paper scores it. With `directions`
    the cube marks it as a direction, so that a method can treat it as two components; the scores
    are of the plain numbers either way.
    """
    published = directions_as_numbers(cube)
    hidden = AtRandom(rate=rate)(published, np.random.default_rng([seed, HIDDEN_CELLS]))
    visible = drop_cells(cube if directions else published, hidden)
    return ImputationTrial(
        train=visible,
        test=visible,
        truth=published,
        eval_masks={ALL: hidden},
        piece_length=PIECE_LENGTH,
    )


def drop_cells(cube: xr.DataArray, cells: xr.DataArray) -> xr.DataArray:
    """The cube with these cells missing; auxiliary coordinates of the mask are ignored."""
    return cube.copy(data=np.where(cells.transpose(*cube.dims), np.nan, cube))


def directions_as_numbers(cube: xr.DataArray) -> xr.DataArray:
    """The cube with its directions as plain numbers in degrees."""
    if "is_direction" not in cube.coords:
        return cube
    units = np.where(cube["is_direction"], "degrees", cube["units"])
    return cube.drop_vars("is_direction").assign_coords(units=("measurement", units))


def nyc_traffic(cube: xr.DataArray, rate: float, seed: int) -> ImputationTrial:
    """NYC-Traffic: bursts until `rate` is missing, scored within the training time.

    A trial is one draw of bursts. The 432 steps that the paper mentions are the window of a
    network, as in the authors' code, not the length of the data.
    """
    hidden = Bursts(rate=rate)(cube, np.random.default_rng([seed, HIDDEN_CELLS]))
    visible = cube.where(~hidden)
    return ImputationTrial(train=visible, test=visible, truth=cube, eval_masks={ALL: hidden})


def metr_la(cube: xr.DataArray, split: str) -> ForecastTrial:
    """METR-LA: an hour ahead from the hour before, for every window of two hours in the test time.

    '80/20' is the paper's split: the time is divided, and windows lie within either part.
    '70/10/20' is DCRNN's: windows are numbered, and the last fifth is for testing. In DCRNN the
    windows of one part extend 23 steps into the next. Here the parts share no step, so training
    and validation each have 23 steps less.
    """
    if split not in SPLITS:
        raise ConfigError(unknown("protocol of metr-la", split, SPLITS))
    n_steps, length = cube.sizes["time"], CONTEXT_LENGTH + HORIZON
    if split == "80/20":
        test_start = train_end = round(0.8 * n_steps)
    else:
        n_windows = n_steps - length + 1
        train_end = round(0.7 * n_windows)
        test_start = n_windows - round(0.2 * n_windows)
    if test_start < length or n_steps - test_start < length:
        raise ConfigError(
            f"metr-la needs windows of {length} steps for training and for testing, "
            f"but the data have only {n_steps} steps"
        )
    return ForecastTrial(
        train=cube[:train_end],
        validation=cube[train_end:test_start] if train_end < test_start else None,
        test=cube[test_start:],
        origins=np.arange(CONTEXT_LENGTH, n_steps - test_start - HORIZON + 1),
    )
