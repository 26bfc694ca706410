"""Fill a cube with a fitted filler."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.core import defaults
from cdsa.core.prepare import Cube, prepare
from cdsa.core.records import Value, to_json_value
from cdsa.errors import ConfigError
from cdsa.methods.base import Bounds, Filler

if TYPE_CHECKING:
    from cdsa.workflows.select import Selection

MAX_INTERVAL = 0.99
"""The widest interval that can be calibrated."""
FILL_SOURCES = ("observed", "filled", "unfillable")
"""What `source` may say about a cell of a filled cube."""


def fill_with(filler: Filler, cube: Cube, *, interval: float = defaults.INTERVAL) -> xr.Dataset:
    """The cube filled: `value`, `source` and, if the filler gives intervals, `lower` and `upper`.

    Parameters
    ----------
    filler
        A fitted method, such as a model that was loaded.
    cube
        The cube to fill.
    interval
        Probability that a prediction interval contains the true value.
    """
    check_interval(interval)
    data = prepare(cube)
    cube = data.cube
    bounds: list[Bounds] = []
    if filler.gives_intervals:
        filled, bounds = filler.fill_intervals(data, [interval])
    else:
        filled = filler.fill(data)
    missing, still_missing = cube.isnull().to_numpy(), filled.isnull().to_numpy()
    codes = missing.astype(np.int8) + (missing & still_missing)
    source = np.array(FILL_SOURCES, dtype=object)[codes]
    result = xr.Dataset({"value": filled, "source": (cube.dims, source)})
    for lower, upper in bounds:
        # the interval of a measured value is the value itself
        result["lower"] = lower.where(missing, filled).transpose(*cube.dims)
        result["upper"] = upper.where(missing, filled).transpose(*cube.dims)
        result.attrs["interval"] = interval
    return result


def check_interval(interval: float) -> None:
    """Refuse a probability that no interval can be calibrated for."""
    if not 0 < interval <= MAX_INTERVAL:
        raise ConfigError(
            f"interval is a probability greater than 0 and at most {MAX_INTERVAL:g}, but found "
            f"{interval:g}"
        )


def count_sources(result: xr.Dataset) -> dict[str, dict[str, int]]:
    """The number of observed, filled and unfillable cells of each measurement."""
    source = result["source"].to_numpy()
    counts = {label: (source == label).sum(axis=(0, 1)) for label in FILL_SOURCES}
    return {
        str(name): {label: int(counts[label][m]) for label in FILL_SOURCES}
        for m, name in enumerate(result["measurement"].to_numpy())
    }


def fill_records(result: xr.Dataset, selection: "Selection") -> list[dict[str, Value]]:
    """Flat records of a fill, one per measurement. Errors are those on cells hidden for the
    choice, else those of a network's validation; those at sites without a sensor stand apart."""
    expected, at_sites = selection.expected, selection.expected_at_sites
    site_errors = at_sites.table("measurement")["mae"] if at_sites else pd.Series(dtype=float)
    validation = pd.DataFrame(
        list(selection.validation_errors), columns=["measurement", "mae", "rmse"]
    ).set_index("measurement")
    errors = expected.table("measurement") if expected else validation
    records: list[dict[str, Value]] = []
    for name, counts in count_sources(result).items():
        method = selection.per_variable.get(name, selection.best)
        record: dict[str, Value] = {"measurement": name, "method": method, **counts}
        for metric in ("mae", "rmse"):
            known = name in errors.index
            record[f"expected_{metric}"] = (
                to_json_value(errors.loc[name, metric]) if known else None
            )
        if at_sites:
            record["expected_mae_at_sites"] = to_json_value(site_errors.get(name, np.nan))
        records.append(record)
    return records
