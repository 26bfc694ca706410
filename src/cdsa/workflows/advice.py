"""What a user should be told of a table beside what was asked for."""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from cdsa.core.cube import valid_range
from cdsa.core.geo import great_circle
from cdsa.core.text import format_count

Tell = Callable[[str], object]


NO_EXAM = "the table is too short to keep a part of it for an exam: no error can be told"


def tell_far_places(cube: xr.DataArray, added: xr.DataArray, tell: Tell) -> None:
    """Say so if places that were added are further from all stations than they are from each
    other."""
    stations = cube["lat"].to_numpy(), cube["lon"].to_numpy()
    places = added.isel(location=slice(cube.sizes["location"], None))
    nearest = great_circle(places["lat"].to_numpy(), places["lon"].to_numpy(), *stations).min(1)
    far = nearest > max(float(great_circle(*stations).max()), 1.0)
    if far.any():
        worst, more = int(nearest.argmax()), int(far.sum()) - 1
        tell(
            f"{places['location'].to_numpy()[worst]} is {nearest[worst]:,.0f} km from the nearest "
            "station, further than any two stations are from each other"
            + (
                f"; so {'is' if more == 1 else 'are'} {format_count(more, 'other place')}"
                if more
                else ""
            )
            + ". Are lat and lon right?"
        )


def tell_known(
    past: xr.DataArray, future: xr.DataArray, known: Sequence[str], steps: int, tell: Tell
) -> None:
    """Say so if what is said to be known in advance is not all there, or is there unsaid."""
    names = [str(name) for name in past["measurement"].to_numpy()]
    if known:
        ahead = future.isel(time=slice(0, steps)).sel(measurement=list(known))
        there, wanted = int(ahead.notnull().sum()), steps * past.sizes["location"] * len(known)
        if there < wanted:
            tell(f"of {', '.join(known)}, {there:,} of {wanted:,} values ahead are known")
        return
    last = [
        int(np.flatnonzero(past[:, :, m].notnull().any("location"))[-1])
        for m in range(len(names))
        if past[:, :, m].notnull().any()
    ]
    if last and min(last) < max(last):
        late = [name for name, end in zip(names, last, strict=False) if end == max(last)]
        if len(last) == len(names):
            tell(
                f"in the last {format_count(max(last) - min(last), 'step')} only "
                f"{', '.join(late)} has values; if they are known in advance, say --known "
                f"{','.join(late)}"
            )


def tell_short_windows(filler: object, tell: Tell) -> None:
    """Say so if there were fewer steps than a window was to have."""
    method, network = getattr(filler, "method", None), getattr(filler, "network", None)
    if method is None:
        return
    if network is None:
        tell("there is too little to learn from; gaps get means")
    elif network.window < method.window + method.horizon:
        tell(
            f"windows of {method.window + method.horizon} steps were shortened to the "
            f"{network.window} that the table allows"
        )


def tell_below_zero(cube: xr.DataArray, result: xr.Dataset, tell: Tell) -> None:
    """Say so if a measurement that was never negative has guesses or lower ends below zero."""
    low = valid_range(cube)[0]
    told = result["lower"] if "lower" in result else result["value"]
    for m, name in enumerate(cube["measurement"].to_numpy()):
        least = float(cube[:, :, m].min())
        if not np.isfinite(low[m]) and least >= 0 and float(told[:, :, m].min()) < 0:
            tell(
                f"{name} was never below zero, but guesses or lower ends are. If it cannot be: "
                f"--bounds {name}=0:"
            )
