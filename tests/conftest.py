"""Small cubes with known gaps, and one seeded generator."""

import os
import shutil

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import settings

from cdsa.core.cube import assign_metadata, make_cube

os.environ["OMP_NUM_THREADS"] = "1"  # tests run side by side; torch is loaded after this
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
settings.register_profile("cdsa", max_examples=30, deadline=None)
settings.load_profile("cdsa")


def network(
    steps: int = 60,
    stations: int = 3,
    measurements: int = 2,
    missing: float = 0.15,
    seed: int = 0,
    places: bool = True,
) -> xr.DataArray:
    """A cube of daily waves with noise, shifted from station to station, with random gaps."""
    rng = np.random.default_rng(seed)
    t = np.arange(steps)[:, None, None]
    l = np.arange(stations)[None, :, None]  # noqa: E741
    m = np.arange(measurements)[None, None, :]
    values = (
        10 * (m + 1)
        + 5 * np.sin((t + l) * 2 * np.pi / 24)
        + 0.3 * rng.normal(size=(steps, stations, measurements))
    )
    values[rng.random(values.shape) < missing] = np.nan
    return make_cube(
        values,
        pd.date_range("2020-01-01", periods=steps, freq="h").to_numpy(),
        [f"S{n}" for n in range(stations)],
        [("pm25", "temp", "no2", "o3", "co", "so2")[n] for n in range(measurements)],
        lat=40 + np.arange(stations) / 10 if places else None,
        lon=116 + np.arange(stations) / 10 if places else None,
    )


@pytest.fixture
def cube() -> xr.DataArray:
    return network()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def windy() -> xr.DataArray:
    """A cube with a direction beside a plain measurement."""
    cube = network(measurements=2)
    rng = np.random.default_rng(3)
    degrees = (350 + 20 * rng.normal(size=cube.shape[:2])) % 360
    values = cube.to_numpy().copy()
    values[:, :, 1] = np.where(np.isnan(values[:, :, 1]), np.nan, degrees)
    turned = cube.copy(data=values).assign_coords(measurement=["pm25", "wind_dir"])
    return assign_metadata(turned, directions=["wind_dir"], bounds={"pm25": (0, np.inf)})


@pytest.fixture(scope="module")
def address():
    """The address of a server with small limits."""
    from cdsa.web.limits import Limits
    from server import running

    with running(Limits(megabytes=2, queue=3, tables=250)) as where:
        yield where


@pytest.fixture
def client(address):
    """A client of this server."""
    from server import connect

    with connect(address) as client:
        yield client


@pytest.fixture(scope="session")
def browser():
    """Chromium: the one named by CDSA_BROWSER, the system's, or Playwright's own. With
    CDSA_BROWSER=need it is an error if there is none."""
    from playwright.sync_api import Error, sync_playwright

    wish = os.environ.get("CDSA_BROWSER", "")
    found = (
        wish if wish not in ("", "need") else next(filter(None, map(shutil.which, BROWSERS)), None)
    )
    with sync_playwright() as play:
        try:
            one = play.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except Error:
            if wish:
                raise
            pytest.skip("no browser was found: make test-browser installs one")
        yield one
        one.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure in a browser is told plainly: parsing sources in Playwright's own threads breaks
    Python 3.11, and with it the whole run."""
    options = item.config.option
    style = options.tbstyle
    if "browser" in getattr(item, "fixturenames", ()):
        options.tbstyle = "native"
    try:
        return (yield)
    finally:
        options.tbstyle = style
