"""Understanding a frame: which rows speak of which cells, and the cube made of them."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import DEFAULT_STATION, check_cube, make_cube
from cdsa.core.times import Clock, Times, Where, regular_grid
from cdsa.errors import TableError
from cdsa.io.assemble import annotate, combine_duplicates
from cdsa.io.columns import ColumnRoles, detect_roles, parse_labels, parse_numbers
from cdsa.io.hints import (
    likely_coordinates,
    likely_directions,
    likely_missing_codes,
    missing_timestamps,
    staggered_stations,
)
from cdsa.io.options import ReadOptions
from cdsa.io.table import FloatArray, IntArray, RowIndex, Table
from cdsa.io.timestamps import parse_timestamps

LARGE_TABLE = 10_000_000
"""Cells from which on a table is refused that has hardly any values."""


MAX_CELLS_PER_VALUE = 100
"""Cells for each value that is given."""


def parse_table(
    frame: pd.DataFrame, options: ReadOptions, where: Where, *, blank: str | None = None
) -> Table:
    """Understand a frame as a cube."""
    if len(frame) == 0:
        found = ", ".join(str(name) for name in frame.columns)
        raise TableError(f"a table needs at least one row, but found only the columns {found}")
    roles = detect_roles(frame, options, where)
    chosen, row_measurement, kinds, measured = _parse_measurements(frame, roles, options, where)
    used = frame.iloc[chosen] if len(chosen) < len(frame) else frame

    def at(row: int) -> str:
        return where(int(chosen[row]))

    row_location, labels, names = _parse_stations(used, roles, at)
    again = None
    if options.tz is not None:
        same = [name for name in (roles.time, roles.location, roles.measurement) if name]
        again = frame[same].astype(object).duplicated().to_numpy()
    times, clock = parse_timestamps(
        frame[roles.time], where, tz=options.tz, time_format=options.time_format, is_repeat=again
    )
    times, clock = clock.to_internal(times, options.step)
    grid, row_time = regular_grid(times[chosen], at, options.step)
    shape = (len(grid), len(names), len(measured))
    _refuse_too_large(shape, len(used) * max(1, len(roles.values)), options)
    rows = RowIndex(roles.layout, shape, chosen, row_time, row_location, row_measurement)
    if options.duplicates is None:
        _refuse_duplicates(rows, times, clock, names, measured, at)
    numbers = {name: _parse_finite(used[name], options, at) for name in roles.values}
    lat, lon = _parse_coordinates(used, roles, options, row_location, names, at)
    cube = make_cube(np.full(shape, np.nan), grid, names, measured, lat=lat, lon=lon)
    cube = annotate(cube, options, _parse_units(used, roles, measured, row_measurement))
    cube = cube.copy(data=_to_array(rows, numbers, options, cube["is_direction"].to_numpy()))
    check_cube(cube)
    return Table(
        frame=frame,
        roles=roles,
        options=options,
        clock=clock,
        cube=cube,
        times=times,
        rows=rows,
        numbers=numbers,
        labels={"location": labels, "measurement": kinds},
        empty_text=blank,
        notes=tuple(_notes(rows, times, cube, roles, options)),
        warnings=tuple(_warnings(cube, roles, options)),
    )


def _parse_measurements(
    frame: pd.DataFrame, roles: ColumnRoles, options: ReadOptions, where: Where
) -> tuple[IntArray, IntArray, list[object], list[str]]:
    """The rows to read, the measurement of each, and the measurements as written and as named."""
    rows = np.arange(len(frame))
    nothing = np.zeros(len(frame), dtype=np.int64)
    if roles.layout == "panel":
        return rows, nothing, [], list(roles.values)
    if roles.measurement is None:
        if len(options.measurements) > 1:
            raise TableError(
                f"the wide layout has one measurement, but --measurements names "
                f"{len(options.measurements)}. If the columns are measurements of one station, "
                "give --layout panel"
            )
        return rows, nothing, [], list(options.measurements) or ["value"]
    codes, texts, labels = parse_labels(frame[roles.measurement], where)
    if not options.measurements:
        return rows, codes, labels, texts
    for name in options.measurements:
        if name not in texts:
            raise TableError(
                f"--measurements: there is no '{name}' in column '{roles.measurement}'; it has: "
                f"{', '.join(texts)}"
            )
    chosen = [number for number, text in enumerate(texts) if text in options.measurements]
    rows = np.flatnonzero(np.isin(codes, chosen))
    return (
        rows,
        np.searchsorted(chosen, codes[rows]),
        [labels[number] for number in chosen],
        [texts[number] for number in chosen],
    )


def _parse_stations(
    frame: pd.DataFrame, roles: ColumnRoles, where: Where
) -> tuple[IntArray, list[object], list[str]]:
    if roles.layout == "wide":
        return np.zeros(len(frame), dtype=np.int64), [], list(roles.values)
    if roles.location is None:
        return np.zeros(len(frame), dtype=np.int64), [DEFAULT_STATION], [DEFAULT_STATION]
    codes, texts, labels = parse_labels(frame[roles.location], where)
    return codes, labels, texts


def _refuse_too_large(shape: tuple[int, int, int], given: int, options: ReadOptions) -> None:
    """Refuse a cube that is larger than wanted, or hardly has anything in it."""
    cells = math.prod(shape)
    words = f"{shape[0]:,} time steps x {shape[1]:,} stations x {shape[2]:,} measurements"
    if options.max_cells is not None and cells > options.max_cells:
        raise TableError(
            f"a table may have {options.max_cells:,} cells here, but this one has {words}, "
            f"{cells:,} in all. Are the columns of time and station right?"
        )
    if cells > LARGE_TABLE and cells > MAX_CELLS_PER_VALUE * given:
        raise TableError(
            f"a table should have values for most of its cells, but this one has {words}, "
            f"{cells:,} in all, and gives {given:,} of them. Are the columns of time and station "
            "right?"
        )


def _parse_finite(column: pd.Series, options: ReadOptions, where: Where) -> FloatArray:
    numbers = parse_numbers(column, options, where)
    infinite = np.isinf(numbers)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise TableError(
            f"values must be finite, but column '{column.name}' has {numbers[row]:g} in "
            f"{where(row)}. If it stands for a missing value, say so with --missing "
            f"{numbers[row]:g}"
        )
    return numbers


def _refuse_duplicates(
    rows: RowIndex, times: Times, clock: Clock, names: list[str], measured: list[str], where: Where
) -> None:
    keys = pd.Series(rows.keys)
    twice = keys.duplicated()
    if not twice.any():
        return
    row = int(np.argmax(twice))
    first = int(np.argmax(keys == keys[row]))
    moment = pd.Timestamp(times[rows.frame_row[row]])
    zone = "" if clock.zone is None or clock.wall_time else " UTC"
    days = bool((times.astype("datetime64[D]") == times).all())
    station, kind = f" of '{names[rows.location[row]]}'", f", '{measured[rows.measurement[row]]}'"
    cell = {"wide": "", "panel": station, "long": station + kind}[rows.layout]
    # a stamp without a zone may be the second one of a night when clocks went back
    night = clock.zone is None and moment.month in (3, 4, 9, 10, 11) and moment.hour < 4
    raise TableError(
        f"a cell may be given once, but {moment}{zone}{cell} stands in {where(first)} and again in "
        f"{where(row)}. "
        + ("Name the column of the stations with --location. " if not cell else "")
        + ("If the hour has a column of its own, join it and the date into one. " if days else "")
        + ("If clocks went back that night, give --tz. " if night and not days else "")
        + "If both are the same cell, say what to take: --duplicates mean or --duplicates first"
    )


def _to_array(
    rows: RowIndex, numbers: dict[str, FloatArray], options: ReadOptions, angles: NDArray[np.bool_]
) -> NDArray[np.float64]:
    values = np.full(rows.shape, np.nan)
    for number, column in enumerate(numbers.values()):
        known = ~np.isnan(column)
        cells = tuple(part[known] for part in rows.column_cells(number))
        if options.duplicates is None:
            values[cells] = column[known]
        else:
            combine_duplicates(values, cells, column[known], options.duplicates, angles[cells[2]])
    return values


def _parse_coordinates(
    frame: pd.DataFrame,
    roles: ColumnRoles,
    options: ReadOptions,
    row_location: IntArray,
    names: list[str],
    where: Where,
) -> tuple[list[float] | None, list[float] | None]:
    """Latitude and longitude of each station, as the frame itself tells them."""
    wanted = options.coordinates and options.locations is None
    if not wanted or roles.lat is None or roles.lon is None:
        return None, None
    found = []
    for column in (roles.lat, roles.lon):
        numbers = pd.Series(parse_numbers(frame[column], replace(options, missing=()), where))
        groups = numbers.groupby(row_location)
        low, high = groups.min(), groups.max()
        moved = np.flatnonzero((low != high) & low.notna())
        if len(moved):
            station = int(moved[0])
            rows = np.flatnonzero((row_location == station) & numbers.notna())
            other = rows[np.argmax(numbers[rows].to_numpy() != numbers[rows[0]])]
            raise TableError(
                f"a station stays where it is, but '{names[station]}' has {column} "
                f"{numbers[rows[0]]:g} in {where(int(rows[0]))} and {numbers[other]:g} in "
                f"{where(int(other))}. Correct it, give coordinates with --locations FILE, or "
                "leave them out with --no-coordinates"
            )
        found.append(low.to_list())
    if np.isnan(found).all():
        return None, None
    return found[0], found[1]


def _parse_units(
    frame: pd.DataFrame, roles: ColumnRoles, measured: list[str], row_measurement: IntArray
) -> dict[str, str]:
    if roles.unit is None:
        return {}
    first = frame[roles.unit].astype(object).groupby(row_measurement).first()
    return {measured[int(code)]: str(unit) for code, unit in first.items() if pd.notna(unit)}


def _notes(
    rows: RowIndex, times: Times, cube: xr.DataArray, roles: ColumnRoles, options: ReadOptions
) -> Iterator[str]:
    """What the user should know about how the table was read."""
    grid = cube["time"].to_numpy()
    yield from missing_timestamps(len(grid), rows.time)
    moved = int((grid[rows.time] != times[rows.frame_row]).sum())
    if moved:
        yield (
            f"rows with stamps between steps, {moved:,} in all, were read as the nearest; their "
            "stamps come back as they were"
        )
    if options.duplicates:
        joined = len(rows.frame_row) - len(np.unique(rows.keys))
        yield (
            f"duplicate rows were combined ({options.duplicates}), {joined:,} in all; entries with "
            "a value come back as they were, empty ones get the combined value"
        )
    if roles.passthrough:
        yield f"carried along unread: {', '.join(roles.passthrough)}"


def _warnings(cube: xr.DataArray, roles: ColumnRoles, options: ReadOptions) -> Iterator[str]:
    """What the user should look at, because it may mean something else."""
    told = options.layout or options.measurements or options.locations is not None
    if roles.layout == "wide" and not told:
        yield (
            "every column was taken as a station; if they are measurements of one station, give "
            "--layout panel"
        )
    yield from likely_missing_codes(cube)
    yield from likely_directions(cube)
    yield from likely_coordinates(cube)
    if options.step is None:
        yield from staggered_stations(cube)
