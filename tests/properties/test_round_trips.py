"""Round trips: what goes in comes out again."""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import cdsa
from cdsa.core.circular import from_components, to_components
from cdsa.core.cube import make_cube
from cdsa.core.gaps import gap_lengths, run_lengths
from cdsa.core.masks import parse_hide
from cdsa.core.prepare import prepare
from cdsa.core.scaler import Scaler
from cdsa.errors import TableError
from cdsa.io.files import FORMATS, TABLE_SUFFIXES
from cdsa.io.parse_arrays import NETCDF_DEFAULT_FILL
from cdsa.io.source import open_source
from cdsa.training.windows import cut, stitch
from cdsa.workflows.fill import fill_with

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False, width=64)


@st.composite
def cubes(draw, steps=(2, 20), values=NUMBERS, full=False) -> xr.DataArray:
    """Small cubes with gaps, but with a value of every measurement."""
    shape = (draw(st.integers(*steps)), draw(st.integers(1, 4)), draw(st.integers(1, 3)))
    numbers = draw(arrays.arrays(np.float64, shape, elements=values))
    if not full:
        gaps = draw(arrays.arrays(np.bool_, shape))
        gaps[0, 0] = False
        numbers = np.where(gaps, np.nan, numbers)
    minutes = draw(st.sampled_from([1, 5, 60, 1440]))
    time = pd.date_range("2020-02-28 12:00", periods=shape[0], freq=f"{minutes}min").to_numpy()
    locations = [f"S{n}" for n in range(shape[1])]
    measurements = [f"m{n}" for n in range(shape[2])]
    return make_cube(
        numbers, time, locations, measurements, lat=np.arange(shape[1]), lon=np.arange(shape[1])
    )


@given(cubes(), st.integers(1, 25), st.data())
def test_cutting_and_stitching_gives_the_cube_back(cube, length, data):
    stride = data.draw(st.integers(1, length))
    windows = cut(cube, length, stride, dtype=torch.float64)
    pieces = [(w.truth, w.steps) for w in windows.batches(data.draw(st.integers(1, 5)))]
    np.testing.assert_allclose(stitch(pieces, cube), cube.fillna(0.0), rtol=1e-12, atol=1e-9)
    observed = [(w.observed.double(), w.steps) for w in windows.batches(3)]
    np.testing.assert_array_equal(stitch(observed, cube), cube.notnull().astype(float))


@given(cubes(), st.booleans())
def test_denormalise_undoes_normalise(cube, per_location):
    scaler = Scaler.fit(cube, per_location=per_location)
    back = scaler.denormalise(scaler.normalise(cube))
    np.testing.assert_allclose(back, cube, rtol=1e-9, atol=1e-6)
    assert back.dims == cube.dims and back.coords.equals(cube.coords)


@given(cubes(values=st.floats(0, 359.999)))
def test_components_of_a_direction_give_it_back(cube):
    flags = np.ones(cube.sizes["measurement"], dtype=bool)
    wind = cube.assign_coords(is_direction=("measurement", flags))
    back = from_components(to_components(wind), wind)
    difference = np.abs((back - wind + 180) % 360 - 180)
    assert float(difference.fillna(0).max()) < 1e-6


class FillConstant(cdsa.Filler):
    """A filler that fills with a number no measured value equals."""

    def fill(self, cube):
        return prepare(cube).cube.fillna(-7.25e9)


@settings(max_examples=15)  # each of them writes and reads two files
@pytest.mark.parametrize("suffix", [form.suffixes[0] for form in FORMATS])
@given(
    cube=cubes(values=st.floats(-1e99, 1e99).filter(lambda v: v != NETCDF_DEFAULT_FILL)),
    data=st.data(),
)
def test_what_is_written_and_read_is_the_same_to_the_bit(suffix, cube, data):
    is_table = suffix in TABLE_SUFFIXES
    layout = data.draw(st.sampled_from(["panel", "long"])) if is_table else "arrays"
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / f"a{suffix}", Path(folder) / f"b{suffix}"
        original = open_source(frame_of(cube, layout) if layout != "arrays" else cube)
        original.save(fill_with(KeepGaps(), original.cube), first)
        source = open_source(first)
        assert same_bits(source.cube, cube)
        source.save(fill_with(FillConstant(), source.cube), second)
        written = open_source(second).cube
    assert same_bits(written.where(written != -7.25e9), cube)
    assert written.notnull().all()


class KeepGaps(cdsa.Filler):
    """A filler that fills nothing."""

    def fill(self, cube):
        return prepare(cube).cube


def frame_of(cube: xr.DataArray, layout: str) -> pd.DataFrame:
    if layout == "long":
        return cube.to_series().rename("value").reset_index()
    return cube.to_series().unstack("measurement").rename_axis(columns=None).reset_index()


def same_bits(opened: xr.DataArray, cube: xr.DataArray) -> bool:
    opened = opened.sel(location=cube["location"].values, measurement=cube["measurement"].values)
    gaps = np.isnan(cube.to_numpy())
    same_gaps = (np.isnan(opened.to_numpy()) == gaps).all()
    return (
        bool(same_gaps) and opened.to_numpy()[~gaps].tobytes() == cube.to_numpy()[~gaps].tobytes()
    )


@given(
    cubes(steps=(8, 30)),
    st.sampled_from(["random:+0.3", "bursts:+0.3", "blocks:+0.3", "last:3"]),
    st.integers(0, 99),
)
def test_hidden_cells_were_measured_and_some_are_left(cube, rule, seed):
    hidden = parse_hide(rule)(cube, np.random.default_rng(seed))
    assert not (hidden & cube.isnull()).any()
    remaining = cube.where(~hidden).notnull().any(("time", "location"))
    assert (remaining == cube.notnull().any(("time", "location"))).all()


@given(arrays.arrays(np.bool_, st.tuples(st.integers(1, 30), st.integers(1, 3))))
def test_gap_lengths_add_up_to_the_missing_cells(missing):
    assert gap_lengths(missing).sum() == missing.sum()
    assert ((run_lengths(missing) > 0) == missing).all()


TIME_FORMATS = (
    *("%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M", "%m/%d/%y %H:%M:%S", "%Y-%m-%d", "%Y%m%d%H%M", "%Y-%j"),
    *("%b %d %Y %I:%M %p", "%d-%m-%Y %I:%M", "%Y-%m-%dT%H:%M:%S.%f", "%H:%M %d.%m.%Y", "%d %B %Y"),
)


@given(
    st.sampled_from(TIME_FORMATS),
    st.sampled_from(["1s", "30s", "10min", "1h", "6h", "12h", "1D", "7D"]),
    st.datetimes(pd.Timestamp("1990-01-01"), pd.Timestamp("2060-01-01")),
    st.sets(st.integers(1, 18)),
)
@settings(max_examples=60)
def test_timestamps_of_added_rows_are_read_as_the_steps_that_they_are(form, step, start, absent):
    times = pd.date_range(pd.Timestamp(start).floor(step), periods=20, freq=step)
    kept = times.delete(sorted(absent))
    frame = pd.DataFrame({"time": kept.strftime(form), "station": "A", "x": np.arange(len(kept))})
    options = {"time_format": form, "step": step.lower()}
    try:
        source = open_source(frame, **options)
    except TableError:  # the format cannot express the steps
        return
    filled = source.filled(cdsa.fill(source.cube, "linear", check=False))
    again = open_source(filled, **options).cube
    np.testing.assert_array_equal(again["time"], source.cube["time"])
    assert again.notnull().all()
