"""The paper's protocols: who learns from what, what is hidden, what is asked.

A protocol is a function that returns a trial: cubes to train, validate and test on. Hidden values
stand in the trial's truth and nowhere else. What the paper leaves open is settled here, and said.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.masks import AtRandom, Bursts
from cdsa.core.splits import keep_steps, split_by_months
from cdsa.datasets.spec import TOLERANCE
from cdsa.errors import ConfigError, unknown

Sample = Literal["in-sample", "out-of-sample"]


Division = Literal["80/20", "70/10/20"]


SAMPLES: tuple[Sample, ...] = get_args(Sample)


DIVISIONS: tuple[Division, ...] = get_args(Division)


ALL, TEST_MONTHS = "all", "test-months"


KDD2015_TEST = (3, 6, 9, 12)


PIECE = 48


PAST = AHEAD = 12


NATURAL, HIDDEN = 1, 2  # what a generator is for, beside the seed


@dataclass(frozen=True, eq=False, kw_only=True)
class Filling:
    """A trial of filling."""

    protocol: str
    train: xr.DataArray
    """What may be learnt from."""

    validation: xr.DataArray | None = None
    """What a method may choose its settings by; without one it keeps cells of `train` back."""

    test: xr.DataArray
    """What is to be filled: the hidden cells are missing."""

    truth: xr.DataArray
    asked: Mapping[str, xr.DataArray]
    """Sets of hidden cells that are scored, by name."""

    piece: int | None = None
    """Steps of the pieces that are filled one by one, if nothing beyond them may be looked at."""

    remarks: tuple[str, ...] = ()
    """What was done to the data before."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Foresight:
    """A trial of forecasting from many moments."""

    protocol: str
    train: xr.DataArray
    validation: xr.DataArray | None = None
    """The time right behind `train`, to choose settings by."""

    test: xr.DataArray
    """The time that forecasts are made in; each sees the steps before its origin and no others."""

    origins: NDArray[np.int64]
    """First steps that are to be foreseen, as places in `test`."""

    past: int = PAST
    ahead: int = AHEAD
    remarks: tuple[str, ...] = ()


def kdd2015_pm25(ground: xr.DataArray, removed: xr.DataArray, sample: str) -> Filling:
    """KDD-2015 PM2.5: the cells that were removed on purpose.

    In-sample, a method learns from all that is left, the test months included. Out-of-sample it
    learns from the other months only. The paper's table mixes figures over all removed cells and
    over those of the test months, so both are asked.
    """
    return _by_months("kdd2015-pm25", ground, removed, sample)


def kdd2015_weather(
    cube: xr.DataArray, sample: str, seed: int, *, missing: float, share: float = 0.2
) -> Filling:
    """KDD-2015 temperature or humidity: a fifth of the cells at random.

    Data with fewer gaps than the `missing` of the paper's are first brought there by bursts, the
    same for every method and seed; what those take away is neither shown nor asked.
    """
    remarks: tuple[str, ...] = ()
    if missing - float(cube.isnull().mean()) > TOLERANCE:
        remarks = (f"brought to {missing:.1%} missing by bursts",)
        gaps = Bursts(rate=missing)(cube, np.random.default_rng(NATURAL))
        cube = cube.where(~gaps)
    hidden = AtRandom(share=share)(cube, np.random.default_rng([seed, HIDDEN]))
    return replace(_by_months("kdd2015-weather", cube, hidden, sample), remarks=remarks)


def _by_months(name: str, truth: xr.DataArray, hidden: xr.DataArray, sample: str) -> Filling:
    if sample not in SAMPLES:
        raise ConfigError(unknown(f"protocol of {name}", sample, SAMPLES))
    visible = truth.where(~hidden)
    split = split_by_months(truth, test=KDD2015_TEST)
    late = xr.DataArray(split.test, dims="time", coords={"time": truth["time"]})
    return Filling(
        protocol=sample,
        train=visible if sample == "in-sample" else keep_steps(visible, split.train),
        test=visible,
        truth=truth,
        asked={ALL: hidden, TEST_MONTHS: (hidden & late).transpose(*truth.dims)},
    )


def kdd2018(cube: xr.DataArray, rate: float, seed: int, *, directions: bool = False) -> Filling:
    """KDD-2018: pieces of 48 hours, cells hidden at random until `rate` is missing.

    The wind's direction is a plain number, as published and as the paper scores it. With
    `directions` a method is shown what is one, and can take it for two components; it is scored on
    the numbers all the same.
    """
    published = as_published(cube)
    hidden = AtRandom(rate=rate)(published, np.random.default_rng([seed, HIDDEN]))
    shown = without(cube if directions else published, hidden)
    return Filling(
        protocol="in-sample",
        train=shown,
        test=shown,
        truth=published,
        asked={ALL: hidden},
        piece=PIECE,
    )


def without(cube: xr.DataArray, cells: xr.DataArray) -> xr.DataArray:
    """The cube with these cells missing; what the mask has beside its axes does not matter."""
    return cube.copy(data=np.where(cells.transpose(*cube.dims), np.nan, cube))


def as_published(cube: xr.DataArray) -> xr.DataArray:
    """The cube with its directions as plain numbers of degrees."""
    if "is_direction" not in cube.coords:
        return cube
    units = np.where(cube["is_direction"], "degrees", cube["units"])
    return cube.drop_vars("is_direction").assign_coords(units=("measurement", units))


def nyc_traffic(cube: xr.DataArray, rate: float, seed: int) -> Filling:
    """NYC-Traffic: bursts until `rate` is missing, scored in the time that was learnt from.

    A trial is one draw of bursts. The 432 steps that the paper speaks of are the length of a
    network's window, as in the authors' code, not of the data.
    """
    hidden = Bursts(rate=rate)(cube, np.random.default_rng([seed, HIDDEN]))
    visible = cube.where(~hidden)
    return Filling(
        protocol="in-sample", train=visible, test=visible, truth=cube, asked={ALL: hidden}
    )


def metr_la(cube: xr.DataArray, division: str) -> Foresight:
    """METR-LA: the hour ahead from the hour before, for every window of two hours in the test time.

    '80/20' is the paper's: the time is cut, and windows lie within either part. '70/10/20' is
    DCRNN's: all windows are numbered, and the last fifth of them is tested on. There the windows of
    one part reach 23 steps into the next; here no two parts share a step, which takes 23 from what
    is trained and from what is validated on.
    """
    if division not in DIVISIONS:
        raise ConfigError(unknown("protocol of metr-la", division, DIVISIONS))
    steps, length = cube.sizes["time"], PAST + AHEAD
    if division == "80/20":
        first = end = round(0.8 * steps)
    else:
        windows = steps - length + 1
        tested, trained = round(0.2 * windows), round(0.7 * windows)
        first, end = windows - tested, trained
    if first < length or steps - first < length:
        raise ConfigError(
            f"metr-la needs windows of {length} steps in both parts, but has {steps} steps in all"
        )
    test = cube.isel(time=slice(first, None))
    return Foresight(
        protocol=division,
        train=cube.isel(time=slice(0, end)),
        validation=cube.isel(time=slice(end, first)) if end < first else None,
        test=test,
        origins=np.arange(PAST, test.sizes["time"] - AHEAD + 1),
    )
