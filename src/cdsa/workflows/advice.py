"""What a user should know about a table beside the result."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core import defaults
from cdsa.core.cube import units_of
from cdsa.core.gaps import run_lengths
from cdsa.core.geo import great_circle
from cdsa.core.metrics import LEVELS
from cdsa.core.records import Value
from cdsa.core.text import format_count, format_interval, format_number
from cdsa.errors import ConfigError
from cdsa.methods.base import Filler, Prefitted
from cdsa.workflows.score import Score, hidden_cells, try_method

Message = Callable[[str], None]
Flags = NDArray[np.bool_]

MIN_COVERAGE = 0.85
"""Share of hidden cells in their 90% intervals below which these are said to be too narrow."""

MIN_GROUP, MAX_NAMED = 200, 3
"""Hidden cells of a class of gaps or a station whose coverage means something, and how many of them
a message names."""

MUCH_LONGER, MUCH_RARER, MANY_UNLIKE = 2, 3, 0.05
"""How much longer gaps are, and how much rarer, than those with hidden cells, and the share of the
cells to fill from which on that is reported."""


def report_far_sites(stations: xr.DataArray, cube: xr.DataArray, message: Message) -> None:
    """Warn about sites that are further from all stations than the stations are from each other."""
    positions = stations["lat"].to_numpy(), stations["lon"].to_numpy()
    sites = cube.isel(location=slice(stations.sizes["location"], None))
    nearest = great_circle(sites["lat"].to_numpy(), sites["lon"].to_numpy(), *positions).min(1)
    far = nearest > max(float(great_circle(*positions).max()), 1.0)
    if not far.any():
        return
    worst, n_more = int(nearest.argmax()), int(far.sum()) - 1
    more = ""
    if n_more:
        more = f"; so {'is' if n_more == 1 else 'are'} {format_count(n_more, 'other site')}"
    message(
        f"{sites['location'].to_numpy()[worst]} is {nearest[worst]:,.0f} km from the nearest "
        f"station, further than any two stations are from each other{more}. Are lat and lon right?"
    )


def report_known(
    past: xr.DataArray, future: xr.DataArray, known: Sequence[str], horizon: int, message: Message
) -> None:
    """Warn about known covariates that are incomplete, and about columns that look like some."""
    names = [str(name) for name in past["measurement"].to_numpy()]
    if known:
        ahead = future.isel(time=slice(0, horizon)).sel(measurement=list(known))
        n_values = int(ahead.notnull().sum())
        n_needed = horizon * past.sizes["location"] * len(known)
        if n_values < n_needed:
            message(f"of {', '.join(known)}, {n_values:,} of {n_needed:,} future values are known")
        return
    observed = past.notnull().any("location").to_numpy()  # (t, m)
    ends = (len(observed) - 1 - observed[::-1].argmax(axis=0)).tolist()
    if observed.any(axis=0).all() and min(ends) < max(ends):
        late = [name for name, end in zip(names, ends, strict=True) if end == max(ends)]
        message(
            f"in the last {format_count(max(ends) - min(ends), 'step')} only {', '.join(late)} "
            f"has values; if they are known in advance, use --known {','.join(late)}"
        )


def report_unlike_gaps(
    cube: xr.DataArray, to_fill: Flags, hidden: xr.DataArray, message: Message
) -> None:
    """Warn where many of the cells to fill (t, l, m) are unlike those that were hidden to measure
    the error: in much longer gaps, or at times without a value at any station."""
    measured, is_hidden = cube.notnull().to_numpy(), hidden.transpose(*cube.dims).to_numpy()
    visible = measured & ~is_hidden
    if not to_fill.any() or not is_hidden.any():
        return
    lengths, longest = run_lengths(~measured)[to_fill], int(run_lengths(~visible)[is_hidden].max())
    share = float((lengths > MUCH_LONGER * longest).mean())
    if share >= MANY_UNLIKE:
        message(
            f"{share:.0%} of the cells to fill are in gaps of up to {lengths.max():,} steps, but "
            f"the longest gap with hidden cells has {longest:,}: errors there may be larger than "
            "expected. --max-gap leaves longer gaps open"
        )
    if cube.sizes["location"] > 1:
        silent, silent_hidden = (
            float(np.broadcast_to(~x.any(axis=1, keepdims=True), x.shape)[cells].mean())
            for x, cells in ((measured, to_fill), (visible, is_hidden))
        )
        if silent >= MANY_UNLIKE and silent_hidden < silent / MUCH_RARER:
            message(
                f"{silent:.0%} of the cells to fill are at times at which no station has a value "
                f"of the measurement, but only {silent_hidden:.1%} of the hidden ones: errors "
                "there may be larger than expected"
            )


def report_narrow_intervals(score: Score, message: Message) -> None:
    """Warn where intervals contain too few of the hidden cells: of a measurement, in gaps of some
    length, or at a station."""
    parts = []
    for key, where in (("measurement", "of"), ("gap", "in gaps of"), ("location", "at")):
        table = score.table(key)
        known = table["cells"] >= (1 if key == "measurement" else MIN_GROUP)
        narrow = table["coverage"][known & (table["coverage"] < MIN_COVERAGE)].sort_values()
        unit = " steps" if key == "gap" else ""
        parts += [f"{share:.0%} {where} {name}{unit}" for name, share in narrow[:MAX_NAMED].items()]
        parts += [f"too few at {len(narrow) - MAX_NAMED} more"] if len(narrow) > MAX_NAMED else []
    if parts:
        message(
            f"the {format_interval(max(LEVELS))}s are too narrow: of the hidden values they "
            f"contain only {', '.join(parts)}"
        )


def errors_at_new_stations(filler: Filler, cube: xr.DataArray) -> list[str]:
    """The errors to expect of a trained network at stations that it was not trained on: measured
    by hiding some of their values, or, at sites without a value, from its own validation."""
    messages = []
    new, unobserved = filler.new_stations(cube)
    score = _score_at(filler, cube, new) if new.any() else None
    if score is not None:
        errors = {str(r["measurement"]): r["mae"] for r in score.by_measurement()}
        messages.append(
            f"at {format_count(int(new.sum()), 'station')} that the network was not trained on: "
            f"error {_list_errors(errors, cube)} on "
            f"{format_count(score.hidden, 'measured cell')} hidden from it"
        )
    errors = {
        str(error["measurement"]): error["mae_unmonitored"] for error in filler.validation_errors
    }
    if unobserved.any() and any(error is not None for error in errors.values()):
        messages.append(
            f"at {format_count(int(unobserved.sum()), 'site')} without a sensor: error "
            f"{_list_errors(errors, cube)} measured by hiding whole stations"
        )
    return messages


def _score_at(filler: Filler, cube: xr.DataArray, stations: NDArray[np.bool_]) -> Score | None:
    """The score of a filler at some stations; None if too little was measured there."""
    try:
        hidden = hidden_cells(cube.isel(location=stations), defaults.HIDE, seed=0)
    except ConfigError:
        return None
    hidden = hidden.reindex_like(cube, fill_value=False).astype(bool)
    return try_method(Prefitted(filler=filler), cube, hidden).score


def _list_errors(errors: Mapping[str, Value], cube: xr.DataArray) -> str:
    units = units_of(cube)
    return ", ".join(
        f"{name} {format_number(float(error))} {units.get(name, '')}".rstrip()
        for name, error in errors.items()
        if error is not None
    )
