"""The series of a report, packed for the timeline of the page."""

import base64
from collections.abc import Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import is_direction, units_of
from cdsa.core.times import Clock

MAX_BYTES = 4_400_000
"""Size of all packed series; the series with the most filled cells are chosen to fit."""

NAME_BYTES = 200
"""Approximate size of the names and keys of a series."""


def pack_series(
    result: xr.Dataset, required: Sequence[tuple[int, int]] = (), clock: Clock | None = None
) -> dict[str, object]:
    """Times, and for each series its values, which of them were filled, and their intervals.

    The `required` series, as (location, measurement) indices, are always included.
    """
    value = result["value"]
    chosen = choose_series(result, required)
    return {
        **(clock or Clock()).to_plain(value["time"].to_numpy()),
        "left_out": int(value.shape[1] * value.shape[2] - len(chosen)),
        "series": [_pack(result, *series) for series in chosen],
    }


def choose_series(
    result: xr.Dataset, required: Sequence[tuple[int, int]] = ()
) -> list[tuple[int, int]]:
    """The series that fit into a report, in the order of the cube: the `required` ones, then those
    with the most filled cells."""
    n_filled = _filled(result).sum(axis=0)
    order = np.argsort(-n_filled.ravel(), kind="stable")
    ranked = [(int(i // n_filled.shape[1]), int(i % n_filled.shape[1])) for i in order]
    candidates = list(dict.fromkeys([*required, *ranked]))
    sizes = np.cumsum([_n_bytes(result, int(n_filled[series])) for series in candidates])
    fitting = int(np.searchsorted(sizes, MAX_BYTES, side="right"))
    return sorted(candidates[: max(1, fitting, len(set(required)))])


def _filled(result: xr.Dataset) -> NDArray[np.bool_]:
    value, source = result["value"].to_numpy(), result["source"].to_numpy()
    filled: NDArray[np.bool_] = (source != "observed") & np.isfinite(value)
    return filled


def _n_bytes(result: xr.Dataset, n_filled: int) -> float:
    """The size of a packed series: values, one bit per step, and the bounds of filled values."""
    n_bounds = 2 if "lower" in result else 0
    return NAME_BYTES + 4 / 3 * (result.sizes["time"] * (4 + 1 / 8) + n_filled * n_bounds * 4)


def _pack(result: xr.Dataset, l: int, m: int) -> dict[str, object]:  # noqa: E741
    filled = _filled(result.isel(location=l, measurement=m))
    name = str(result["measurement"].to_numpy()[m])
    return {
        "location": str(result["location"].to_numpy()[l]),
        "measurement": name,
        "unit": units_of(result["value"])[name],
        "is_direction": bool(is_direction(result["value"])[m]),
        "values": _encode(result["value"].to_numpy()[:, l, m]),
        "filled": base64.b64encode(np.packbits(filled, bitorder="little").tobytes()).decode(),
        **{
            bound: _encode(result[bound].to_numpy()[filled, l, m]) if bound in result else ""
            for bound in ("lower", "upper")
        },
    }


def _encode(values: NDArray[np.float64]) -> str:
    return base64.b64encode(values.astype("<f4").tobytes()).decode()
