"""Promises of every method, over the registry: a new one is tested by being registered."""

import numpy as np
import pytest
import xarray as xr

import cdsa
from cdsa.core.cube import assign_metadata, has_coordinates
from cdsa.errors import ConfigError
from cdsa.methods.base import COORDINATES, GRAPH, Filler, Method
from cdsa.methods.registry import REGISTRY, build_method
from cdsa.workflows.fill import fill_with
from cdsa.workflows.score import try_method
from conftest import network

every_method = pytest.mark.parametrize("name", list(REGISTRY))
every_filling_method = pytest.mark.parametrize(
    "name", [name for name, info in REGISTRY.items() if info.fills]
)


def build(name: str) -> Method:
    """The method; of a network, a small one that trains for a moment."""
    return build_method(f"{name}@small" if REGISTRY[name].trains else name)


FITTED: dict[tuple[object, ...], Filler] = {}
"""Fillers by method and cube: several promises look at the same fit."""


def fitted(name: str, cube: xr.DataArray) -> Filler:
    """The method fitted on a cube, once in a test session."""
    coords = (np.asarray(coord).tobytes() for coord in cube.coords.values())
    key = (name, str(cube.dtype), cube.to_numpy().tobytes(), *coords)
    if key not in FITTED:
        FITTED[key] = build(name).fit(cube)
    return FITTED[key]


def filled(name: str, cube: xr.DataArray) -> xr.DataArray:
    return fitted(name, cube).fill(cube)


def small(**sizes) -> xr.DataArray:
    return network(**({"steps": 30} | sizes))


def constant(cube):
    cube[:, 0, :] = 7.0
    cube[5:9, 0, :] = np.nan
    return cube


def silent(cube):
    cube[:, 0, :] = np.nan
    return cube


def one_gap(cube):
    cube[3, 0, 0] = np.nan
    return cube


SHAPES = {
    "usual": lambda: small(),
    "one station": lambda: small(stations=1),
    "one measurement": lambda: small(measurements=1),
    "one series": lambda: small(stations=1, measurements=1),
    "one gap": lambda: one_gap(small(missing=0.0)),
    "no gap": lambda: small(missing=0.0),
    "an all-missing station": lambda: silent(small()),
    "a constant sensor": lambda: constant(small()),
    "two time steps": lambda: one_gap(small(steps=4, missing=0.0))[2:4],
    "one time step": lambda: small(missing=0.0)[:1].where(lambda c: c["location"] != "S1"),
    "no coordinates": lambda: small(places=False),
    "nearly everything missing": lambda: small(missing=0.95),
}


@pytest.mark.parametrize("shape", SHAPES)
@every_filling_method
def test_leaves_no_gap_and_keeps_every_measured_value(name, shape):
    cube = SHAPES[shape]()
    if REGISTRY[name].needs in (COORDINATES, GRAPH) and not has_coordinates(cube):
        with pytest.raises(ConfigError, match="no coordinates"):
            filled(name, cube)
        return
    result = filled(name, cube)
    assert result.notnull().all()
    measured = cube.notnull().to_numpy()
    assert result.to_numpy()[measured].tobytes() == cube.to_numpy()[measured].tobytes()
    xr.testing.assert_identical(result.drop_vars(()).coords.to_dataset(), cube.coords.to_dataset())


@pytest.mark.parametrize("shape", ["usual", "one station", "one series", "no coordinates"])
@every_method
def test_forecasts_whatever_the_shape_or_says_why_it_cannot(name, shape):
    cube, info = SHAPES[shape](), REGISTRY[name]
    method = f"{name}@small" if info.trains else name
    if not info.forecasts:
        with pytest.raises(ConfigError, match="cannot forecast"):
            cdsa.forecast(cube, 3, method)
    elif info.needs == GRAPH and not has_coordinates(cube):
        with pytest.raises(ConfigError, match="no coordinates"):
            cdsa.forecast(cube, 3, method)
    else:
        values = cdsa.forecast(cube, 3, method)["value"]
        assert values.sizes["time"] == cube.sizes["time"] + 3 and values[-3:].notnull().all()


@every_method
def test_declares_what_it_can_do_as_the_registry_says(name):
    method, info = build_method(name), REGISTRY[name]
    assert (method.label, method.name, method.trains) == (name, name, info.trains)
    assert info.fills or info.forecasts
    assert type(method) is info.load()


@every_filling_method
def test_a_fit_returns_a_filler_that_keeps_its_promises_about_intervals(name):
    cube = small()
    filler = fitted(name, cube)
    assert isinstance(filler, Filler) and filler.trained == REGISTRY[name].trains
    values, [(lower, upper)] = filler.fill_intervals(cube, [0.9])
    assert values.equals(filler.fill(cube))
    known = lower.notnull().to_numpy()
    assert known.any() == filler.gives_intervals
    assert (lower <= upper).to_numpy()[known].all()


@every_filling_method
def test_is_deterministic_and_cannot_see_what_was_hidden(name):
    cube = small(missing=0.1)
    hidden = cube.notnull() & (np.random.default_rng(1).random(cube.shape) < 0.2)
    changed = cube.where(~hidden, cube * 100 + 1000)
    first, second = (try_method(build(name), c, hidden).filled for c in (cube, changed))
    assert first.equals(second)


@every_filling_method
def test_does_not_change_its_input(name):
    cube = small()
    before = cube.copy(deep=True)
    filled(name, cube)
    assert cube.identical(before)


@every_filling_method
def test_does_not_care_about_the_order_of_stations(name):
    cube = small()
    turned = cube.isel(location=[2, 0, 1])
    np.testing.assert_allclose(
        filled(name, turned).sel(location=cube["location"]), filled(name, cube), rtol=1e-9
    )


@every_filling_method
def test_does_not_care_about_the_order_of_measurements(name):
    cube = small(measurements=3)
    turned = cube.isel(measurement=[2, 0, 1])
    np.testing.assert_allclose(
        filled(name, turned).sel(measurement=cube["measurement"]), filled(name, cube), rtol=1e-9
    )


@every_filling_method
def test_a_measurement_without_a_value_stays_missing_and_the_rest_is_filled(name):
    cube = small()
    cube[:, :, 1] = np.nan
    result = fill_with(fitted(name, cube), cube)
    assert (
        result["value"][:, :, 1].isnull().all()
        and (result["source"][:, :, 1] == "unfillable").all()
    )
    assert result["value"][:, :, 0].notnull().all()


@every_filling_method
def test_nothing_measured_at_all_is_no_crash(name):
    cube = small()
    cube[:] = np.nan
    assert (fill_with(fitted(name, cube), cube)["source"] == "unfillable").all()


@every_filling_method
def test_directions_are_filled_on_the_circle(name, windy):
    # all winds blow from around north: a mean of degrees would say south
    result = filled(name, windy[:30]).sel(measurement="wind_dir")
    away = np.abs((result.to_numpy() + 180) % 360 - 180)
    assert ((result >= 0) & (result < 360)).all() and away.max() < 90


@every_filling_method
def test_filled_values_keep_to_physical_bounds_and_measured_ones_are_left(name):
    cube = assign_metadata(small(), bounds={"pm25": (9.0, 11.0)})
    result = filled(name, cube)
    gaps = cube.isnull().sel(measurement="pm25")
    pm25 = result.sel(measurement="pm25")
    assert (pm25.where(gaps, 10.0) >= 9.0).all() and (pm25.where(gaps, 10.0) <= 11.0).all()
    assert (pm25.where(~gaps) > 11.0).any()


@every_filling_method
def test_what_was_learnt_fills_another_stretch_and_other_stations(name):
    cube = small(steps=60, stations=4)
    filler = fitted(name, cube[:30, :3])
    other = cube[30:, [3, 1]]
    result = filler.fill(other)
    assert result.notnull().all() and result.sizes == other.sizes


@every_filling_method
def test_float32_stays_float32(name):
    cube = small().astype(np.float32)
    assert filled(name, cube).dtype == np.float32


UNITS = ((1e-12, 0.0), (1e12, 0.0), (1.0, 500.0))
"""Factor and offset of a measurement in another unit."""


@every_filling_method
def test_another_unit_changes_nothing_else(name):
    cube = small(steps=60)
    plain = filled(name, cube)
    for factor, offset in UNITS:
        other = cube.copy()
        other[..., 0] = other[..., 0] * factor + offset
        changed = filled(name, other).copy()
        changed[..., 0] = (changed[..., 0] - offset) / factor
        error = abs(changed - plain).max(("time", "location")) / cube.std(("time", "location"))
        assert float(error.max()) < 1e-4, (factor, offset)
