"""Fill a cube."""

import logging
from typing import cast

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.core import defaults
from cdsa.core.cube import check_cube, has_coordinates
from cdsa.core.records import Value, to_json_value
from cdsa.errors import ConfigError
from cdsa.methods.base import Filler, Method, fill_and_ends
from cdsa.methods.registry import make_method
from cdsa.workflows.score import Score, within
from cdsa.workflows.select import Chosen, carry_out, plan

logger = logging.getLogger("cdsa")


WIDEST = 0.99
"""The widest interval that can be calibrated."""


OF_A_FILL = ("observed", "filled", "unfillable")
"""What the cells of a filled cube may be."""


def fill(
    cube: xr.DataArray,
    method: str | Method | Filler = defaults.METHOD,
    *,
    interval: float = defaults.INTERVAL,
    minutes: float | None = None,
) -> xr.Dataset:
    """The cube filled: `value`, `source` of each cell ('observed', 'filled' or 'unfillable'), and
    `lower` and `upper` where the method can tell them.

    The method 'auto' trains the default network, for half a minute or more, and takes a simpler
    method if that is better on cells that were hidden for it; the attributes `method` and
    `expected_error` say which, and how far it was off there on average. Places without a single
    value are told by what is best where whole stations are hidden. `minutes` is the time a network
    may learn for. What has learnt already, such as a network that was loaded, can stand in the
    place of a method.

    >>> import numpy as np
    >>> from cdsa.core.cube import make_cube
    >>> hours = np.arange("2020-01-01T00", "2020-01-01T03", dtype="datetime64[h]")
    >>> cube = make_cube(np.array([1.0, np.nan, 3.0]).reshape(3, 1, 1), hours, ["A"], ["pm25"])
    >>> fill(cube, "linear").value.values.ravel().tolist()
    [1.0, 2.0, 3.0]
    """
    check_cube(cube)
    check_share(interval)
    if isinstance(method, Filler) and not hasattr(method, "fit"):
        if minutes is not None:
            raise ConfigError("minutes are for learning, but this has learnt already")
        return fill_with(method, cube, interval=interval)
    made = cast("str | Method", method)
    if made == defaults.AUTO:
        silent = cube.isnull().all(("time", "measurement")).to_numpy() & has_coordinates(cube)
        stations = cube.isel(location=~silent) if silent.any() and not silent.all() else cube
        to_try = plan(defaults.AUTO, stations, cube)
        network = make_method(to_try.method)[1]
        choice = carry_out(to_try, within(network, minutes) if to_try.auto else network)
    else:
        name, own = make_method(made)
        choice = Chosen(within(own, minutes).fit(cube), name, None)
    result = fill_with(choice.filler, cube, interval=interval).assign_attrs(method=choice.label)
    expected = choice.expected or choice.elsewhere
    return result.assign_attrs(expected_error=_in_words(expected)) if expected else result


def _in_words(scored: Score) -> str:
    """The mean absolute error of each measurement, in its own unit."""
    errors = scored.table("measurement")["mae"]
    parts = (f"{name} {error:.4g} {scored.units[str(name)]}" for name, error in errors.items())
    return ", ".join(part.strip() for part in parts)


def fill_with(
    filler: Filler, cube: xr.DataArray, *, interval: float = defaults.INTERVAL
) -> xr.Dataset:
    """The cube filled by something that has learnt already."""
    check_share(interval)
    filled, ends = fill_and_ends(filler, cube, [interval])
    gap, open_still = cube.isnull().to_numpy(), filled.isnull().to_numpy()
    source = np.array(OF_A_FILL, dtype=object)[gap.astype(np.int8) + (gap & open_still)]
    result = xr.Dataset({"value": filled, "source": (cube.dims, source)})
    for low, high in ends.values():
        # a measured value is known: its interval is itself
        result["lower"] = low.where(gap, filled).transpose(*cube.dims)
        result["upper"] = high.where(gap, filled).transpose(*cube.dims)
        result.attrs["interval"] = interval
    return result


def check_share(interval: float) -> None:
    """Refuse what an interval cannot promise to hold."""
    if not 0 < interval <= WIDEST:
        raise ConfigError(
            f"an interval holds a share between 0 and 1, {WIDEST:g} at the most, but found "
            f"{interval:g}"
        )


def count_sources(result: xr.Dataset) -> dict[str, dict[str, int]]:
    """How many cells of each measurement are observed, filled and unfillable."""
    source = result["source"].to_numpy()
    counts = {word: (source == word).sum(axis=(0, 1)) for word in OF_A_FILL}
    names = [str(name) for name in result["measurement"].to_numpy()]
    return {n: {word: int(counts[word][m]) for word in OF_A_FILL} for m, n in enumerate(names)}


def fill_records(result: xr.Dataset, choice: Chosen) -> list[dict[str, Value]]:
    """Flat records of a fill, one per measurement; errors from the check, or from a network. Those
    at places without a sensor are told apart."""
    elsewhere, expected = choice.elsewhere, choice.expected
    at_places = elsewhere.table("measurement")["mae"] if elsewhere else pd.Series(dtype=float)
    figures = pd.DataFrame(choice.errors, columns=["measurement", "mae", "rmse"])
    figures = expected.table("measurement") if expected else figures.set_index("measurement")
    records: list[dict[str, Value]] = []
    for name, counts in count_sources(result).items():
        method = choice.parts.get(name, choice.best)
        record: dict[str, Value] = {"measurement": name, "method": method, **counts}
        for figure in ("mae", "rmse"):
            known = name in figures.index
            record[f"expected_{figure}"] = (
                to_json_value(figures.loc[name, figure]) if known else None
            )
        if elsewhere:
            record["expected_mae_at_places"] = to_json_value(at_places.get(name, np.nan))
        records.append(record)
    return records
