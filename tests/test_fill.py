"""A fitted filler fills a cube: values, their sources and their intervals."""

import numpy as np
import pytest
import xarray as xr

import cdsa
from cdsa.errors import ConfigError
from cdsa.methods.base import Filler
from cdsa.methods.registry import build_method
from cdsa.workflows.fill import fill_with
from conftest import network
from small_sources import NAN, panel, round_trip


class WithIntervals(Filler):
    """Fills with 5, give or take the level."""

    gives_intervals = True

    def fill(self, cube):
        return cube.cube.fillna(5.0)

    def fill_intervals(self, cube, levels):
        filled = self.fill(cube)
        return filled, [(filled - level, filled + level) for level in levels]


def test_every_cell_has_a_source(cube):
    result = fill_with(build_method("linear").fit(cube), cube)
    assert set(np.unique(result["source"])) == {"observed", "filled"}
    assert ((result["source"] == "filled") == cube.isnull()).all()


def test_sources_are_counted_by_measurement():
    cube = network(missing=0.2)
    cube[:, :, 1] = np.nan
    pm25, temp = cdsa.fill(cube, "mean", details=True).records
    assert [temp[source] for source in ("observed", "filled", "unfillable")] == [0, 0, 180]
    assert pm25["filled"] + pm25["outside_lifetime"] == int(cube[:, :, 0].isnull().sum())


def test_a_filler_with_intervals_returns_them_at_the_level(cube):
    result = fill_with(WithIntervals(), cube, interval=0.5)
    gap = cube.isnull()
    assert (result["lower"].where(gap, 4.5) == 4.5).all()
    assert (result["upper"].where(gap, 5.5) == 5.5).all()
    assert result.attrs["interval"] == 0.5


def test_the_interval_of_a_measured_value_is_the_value(cube):
    result = fill_with(WithIntervals(), cube)
    for bound in ("lower", "upper"):
        assert (result[bound] == cube).where(cube.notnull(), True).all()


def test_a_filler_without_intervals_returns_none(cube):
    assert set(fill_with(build_method("linear").fit(cube), cube)) == {"value", "source"}
    assert set(cdsa.fill(cube, "linear", check=False)) >= {"value", "source"}
    assert not {"lower", "upper"} & set(cdsa.fill(cube, "linear", check=False))


@pytest.mark.parametrize("interval", [0, 0.999, 90])
def test_an_impossible_level_is_refused(cube, interval):
    with pytest.raises(ConfigError, match="interval is a probability greater than 0"):
        fill_with(WithIntervals(), cube, interval=interval)


def test_the_bounds_of_a_filler_without_intervals_are_unknown(cube):
    filled, ((lower, upper),) = build_method("mean").fit(cube).fill_intervals(cube, [0.9])
    assert filled.notnull().all() and lower.isnull().all() and upper.isnull().all()
    xr.testing.assert_equal(filled, build_method("mean").fit(cube).fill(cube))


def test_filled_values_have_no_rounding_noise():
    result = round_trip(panel(x=[0.1, NAN, 0.3, 12.1, NAN, 12.692]))
    assert [repr(value) for value in result["x"]][1::3] == ["0.2", "12.396"]
