"""The series of a report, packed small: what the page's time line draws."""

import base64

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.cube import unit_of

MOST_CELLS = 1_000_000
"""Of a report; of more, the series with most to look at are shown."""
FINEST, NOTHING = 65_534, 65_535
"""Values are told in so many parts of their range, which is finer than a screen; a gap as none."""


def packed_series(result: xr.Dataset) -> dict[str, object]:
    """Times, and for each series its values, which of them were filled, and their intervals."""
    value = result["value"]
    chosen = shown_series(result)
    units = unit_of(value) if "unit" in value.coords else {}
    return {
        **_times(value["time"].to_numpy()),
        "level": result.attrs.get("interval"),
        "left_out": int(value.shape[1] * value.shape[2] - len(chosen)),
        "series": [_packed(result, *one, units) for one in chosen],
    }


def shown_series(result: xr.Dataset) -> list[tuple[int, int]]:
    """The series that fit into a report, those with most filled cells first kept; in the order of
    the cube."""
    value = result["value"]
    filled = (result["source"] != "observed").sum("time").to_numpy()
    most = max(1, MOST_CELLS // max(1, value.sizes["time"]))
    order = np.argsort(-filled.ravel(), kind="stable")[:most]
    return sorted((int(n // filled.shape[1]), int(n % filled.shape[1])) for n in order)


def _packed(result: xr.Dataset, l: int, m: int, units: dict[str, str]) -> dict[str, object]:  # noqa: E741
    value = result["value"].to_numpy()[:, l, m].astype(np.float64)
    measured = result["source"].to_numpy()[:, l, m] == "observed"
    filled = ~measured & np.isfinite(value)
    ends = []
    if "lower" in result:
        ends = [result[name].to_numpy()[filled, l, m] for name in ("lower", "upper")]
    known = np.concatenate([value, *ends])
    known = known[np.isfinite(known)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    scale = (high - low) / FINEST or 1.0
    name = str(result["measurement"].to_numpy()[m])
    return {
        "location": str(result["location"].to_numpy()[l]),
        "measurement": name,
        "unit": units.get(name, ""),
        "low": low,
        "scale": scale,
        "values": _coded(value, low, scale),
        "filled": base64.b64encode(np.packbits(filled, bitorder="little").tobytes()).decode(),
        "lower": _coded(ends[0], low, scale) if ends else "",
        "upper": _coded(ends[1], low, scale) if ends else "",
    }


def _coded(values: NDArray[np.float64], low: float, scale: float) -> str:
    """Sixteen bits a value, low byte first, as text."""
    whole = np.round((np.nan_to_num(values, nan=low) - low) / scale)
    coded = np.where(np.isfinite(values), np.clip(whole, 0, FINEST), NOTHING).astype("<u2")
    return base64.b64encode(coded.tobytes()).decode()


def _times(times: NDArray[np.datetime64]) -> dict[str, object]:
    """The first moment and the step in seconds or, where steps differ, every moment."""
    seconds = times.astype("datetime64[s]").astype(np.int64)
    steps = np.diff(seconds)
    if not len(steps) or (steps == steps[0]).all():
        return {"first": int(seconds[0]), "step": int(steps[0]) if len(steps) else 3600,
                "count": len(seconds)}  # fmt: skip
    return {"times": seconds.tolist(), "count": len(seconds)}
