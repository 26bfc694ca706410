"""The series of a report, packed small: what the page's time line draws."""

import base64
from collections.abc import Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import is_direction, units_of
from cdsa.core.times import Clock

MAX_BYTES = 4_400_000
"""Of the series of a report; of more, those with most to look at are shown."""


AS_IT_IS = Clock()


NAMES = 200
"""Bytes of what stands beside the numbers of a series."""


def pack_series(
    result: xr.Dataset, wanted: Sequence[tuple[int, int]] = (), clock: Clock = AS_IT_IS
) -> dict[str, object]:
    """Times by this clock, and for each series its values, which of them were filled, and their
    intervals. The `wanted` series, by the numbers of station and measurement, are among them."""
    value = result["value"]
    chosen = choose_series(result, wanted)
    units = units_of(value)
    return {
        **clock.to_plain(value["time"].to_numpy()),
        "left_out": int(value.shape[1] * value.shape[2] - len(chosen)),
        "series": [_packed(result, *one, units) for one in chosen],
    }


def choose_series(
    result: xr.Dataset, wanted: Sequence[tuple[int, int]] = ()
) -> list[tuple[int, int]]:
    """The series that fit into a report: those wanted, then those with most filled cells; in the
    order of the cube."""
    filled = _filled(result).sum(axis=0)
    order = np.argsort(-filled.ravel(), kind="stable")
    ranked = [(int(n // filled.shape[1]), int(n % filled.shape[1])) for n in order]
    chosen = list(dict.fromkeys([*wanted, *ranked]))
    sizes = np.cumsum([_bytes(result, int(filled[one])) for one in chosen])
    fit = int(np.searchsorted(sizes, MAX_BYTES, side="right"))
    return sorted(chosen[: max(1, fit, len(set(wanted)))])


def _filled(result: xr.Dataset) -> NDArray[np.bool_]:
    value, source = result["value"].to_numpy(), result["source"].to_numpy()
    filled: NDArray[np.bool_] = (source != "observed") & np.isfinite(value)
    return filled


def _bytes(result: xr.Dataset, filled: int) -> float:
    """What a series takes of a page: values, a bit for each, and two ends of what was filled."""
    ends = 2 if "lower" in result else 0
    return NAMES + 4 / 3 * (result.sizes["time"] * (4 + 1 / 8) + filled * ends * 4)


def _packed(result: xr.Dataset, l: int, m: int, units: dict[str, str]) -> dict[str, object]:  # noqa: E741
    value = result["value"].to_numpy()[:, l, m]
    filled = _filled(result.isel(location=l, measurement=m))
    name = str(result["measurement"].to_numpy()[m])
    ends = {
        end: _coded(result[end].to_numpy()[filled, l, m]) if end in result else ""
        for end in ("lower", "upper")
    }
    return {
        "location": str(result["location"].to_numpy()[l]),
        "measurement": name,
        "unit": units[name],
        "turns": bool(is_direction(result["value"])[m]),
        "values": _coded(value),
        "filled": base64.b64encode(np.packbits(filled, bitorder="little").tobytes()).decode(),
        **ends,
    }


def _coded(values: NDArray[np.float64]) -> str:
    """Four bytes a value, low byte first, as text."""
    return base64.b64encode(values.astype("<f4").tobytes()).decode()
