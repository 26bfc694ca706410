"""From a frame to a cube: the cells of each row, the values, the metadata."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import DEFAULT_STATION, check_cube, label_array
from cdsa.core.text import format_count
from cdsa.core.times import Clock, Times, Where, format_step, infer_step, regular_grid
from cdsa.errors import TableError
from cdsa.io.assemble import annotate, combine_duplicates
from cdsa.io.columns import ColumnRoles, check_measurements, detect_roles
from cdsa.io.entries import Labels, parse_labels, parse_numbers  # fmt: skip
from cdsa.io.headers import detect_pattern
from cdsa.io.hints import (
    likely_coordinates,
    likely_directions,
    likely_missing_codes,
    missing_timestamps,
    staggered_stations,
)
from cdsa.io.options import ReadOptions
from cdsa.io.table import FloatArray, IntArray, RowIndex, Table, format_timestamps, is_text
from cdsa.io.table_files import RawTable
from cdsa.io.timestamps import parse_timestamps

LARGE_TABLE = 10_000_000  # cells
MAX_CELLS_PER_VALUE = 100
"""A large table with fewer values is refused: its columns were probably mistaken."""

MAX_TEXTS = 100
"""First and last time steps of which it is checked that their timestamps can be read again."""


def parse_table(table: RawTable, options: ReadOptions) -> Table:
    frame, where = table.frame, table.where
    if table.style is not None:
        options = replace(options, decimal=table.style.decimal)
    if len(frame) == 0:
        names = ", ".join(str(name) for name in frame.columns)
        raise TableError(f"a table needs at least one row, but found only the columns {names}")
    roles = detect_roles(frame, options, where, table.units)
    frame_row, (row_measurement, measurements, measurement_labels) = _parse_measurements(
        frame, roles, options, where
    )
    used = frame.iloc[frame_row] if len(frame_row) < len(frame) else frame

    def where_used(row: int) -> str:
        return where(int(frame_row[row]))

    row_location, locations, location_labels = _parse_stations(used, roles, where_used)
    is_repeat, time_column = None, roles.time_column(frame)
    if options.tz is not None:
        key_columns = (roles.time, roles.time_of_day, roles.location, roles.measurement)
        keys = [name for name in key_columns if name]
        is_repeat = frame[keys].astype(object).duplicated().to_numpy()
    times, clock = parse_timestamps(time_column, where, options.tz, options.time_format, is_repeat)
    times, clock = clock.to_internal(times, options.step)
    grid, row_time = regular_grid(times[frame_row], where_used, options.step)
    _refuse_other_times(time_column, clock, grid, options)
    shape = (len(grid), len(locations), len(measurements))
    _refuse_too_large(shape, len(used) * max(1, len(roles.values)), options)
    columns = _columns_of(roles, locations, measurements)
    row_cells = (row_time, row_location, row_measurement)
    rows = RowIndex(roles.layout, shape, columns, frame_row, *row_cells)
    if options.duplicates is None:
        _refuse_duplicates(rows, roles, times, clock, locations, measurements, where_used)
    numbers = {name: _parse_finite(used[name], options, where_used) for name in roles.values}
    lat, lon = _parse_coordinates(used, roles, options, row_location, locations, where_used)
    cube = label_array(np.full(shape, np.nan), grid, locations, measurements, lat=lat, lon=lon)
    cube = annotate(cube, options, _parse_units(used, roles, measurements, row_measurement))
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
        labels={"location": location_labels, "measurement": measurement_labels},
        empty_text=None if table.style is None else "",
        notes=tuple(_notes(rows, times, cube, roles, options)),
        warnings=tuple(_warnings(cube, roles, options)),
    )


def _parse_measurements(
    frame: pd.DataFrame, roles: ColumnRoles, options: ReadOptions, where: Where
) -> tuple[IntArray, Labels]:
    """The rows to read, and their measurements."""
    rows = np.arange(len(frame))
    if roles.layout == "wide" and roles.pattern is None and len(options.measurements) > 1:
        raise TableError(
            f"the wide layout has one measurement, but --measurements names "
            f"{len(options.measurements)}. If the columns are measurements of one station, give "
            "--layout panel; if columns are named after stations and measurements, give "
            "--column-pattern"
        )
    if roles.measurement is None:
        names = list(dict.fromkeys(header.measurement for header in roles.headers))
        if names == [""]:  # a wide table of one measurement
            names = [*(options.measurements or ("value",))]
        return rows, (np.zeros_like(rows), names, [])
    codes, names, labels = parse_labels(frame[roles.measurement], where)
    if not options.measurements:
        return rows, (codes, names, labels)
    check_measurements(options, "measurement", names)
    selected = [code for code, name in enumerate(names) if name in options.measurements]
    rows = np.flatnonzero(np.isin(codes, selected))
    return rows, (
        np.searchsorted(selected, codes[rows]),
        [names[code] for code in selected],
        [labels[code] for code in selected],
    )


def _parse_stations(frame: pd.DataFrame, roles: ColumnRoles, where: Where) -> Labels:
    if roles.layout != "wide" and roles.location is not None:
        return parse_labels(frame[roles.location], where)
    is_wide = roles.layout == "wide"
    names = list(dict.fromkeys(x.station for x in roles.headers)) if is_wide else [DEFAULT_STATION]
    return np.zeros(len(frame), dtype=np.int64), names, [*names]


def _columns_of(
    roles: ColumnRoles, locations: list[str], measurements: list[str]
) -> tuple[tuple[int, int], ...]:
    """The station and the measurement of each value column; 0 where its rows have them."""
    if roles.layout == "long":
        return ((0, 0),)
    stations = {name: number for number, name in enumerate(locations)}
    numbers = {name: number for number, name in enumerate(measurements)}
    is_wide = roles.layout == "wide"
    return tuple(
        (stations[header.station] if is_wide else 0, numbers.get(header.measurement, 0))
        for header in roles.headers
    )


def _refuse_too_large(shape: tuple[int, int, int], n_values: int, options: ReadOptions) -> None:
    """Refuse a cube above the limit of the caller, or one that is almost empty."""
    n_cells = math.prod(shape)
    size = f"{shape[0]:,} time steps x {shape[1]:,} stations x {shape[2]:,} measurements"
    if options.max_cells is not None and n_cells > options.max_cells:
        raise TableError(
            f"a table may have at most {options.max_cells:,} cells here, but this one has {size}, "
            f"{n_cells:,} cells. Check the columns of time and station"
        )
    if n_cells > LARGE_TABLE and n_cells > MAX_CELLS_PER_VALUE * n_values:
        raise TableError(
            f"a table should have values for most of its cells, but this one has {size}, "
            f"{n_cells:,} cells, and only {n_values:,} values. Check the columns of time and "
            "station"
        )


def _refuse_other_times(column: pd.Series, clock: Clock, grid: Times, options: ReadOptions) -> None:
    """Refuse steps that the timestamps of a table cannot express: rows that are added would have
    other timestamps when they are read again, perhaps those of other rows."""
    if clock.zone is not None:  # an hour is repeated when the clocks go back
        return
    steps = np.unique(np.concatenate([grid[:MAX_TEXTS], grid[-MAX_TEXTS:]]))
    entries = format_timestamps(column, clock, steps)
    written = pd.Series(entries, dtype=object, name=column.name)
    if pd.api.types.is_numeric_dtype(column.dtype):
        written = pd.to_numeric(written)
    elif column.dtype != object and not is_text(column):
        written = written.astype(column.dtype)
    try:
        times, again = parse_timestamps(written, str, options.tz, options.time_format)
        same = again.to_internal(times, options.step)[0] == steps
    except TableError:
        same = np.zeros(len(steps), dtype=bool)
    if not same.all():
        row, step = int(np.argmin(same)), format_step(infer_step(grid))
        raise TableError(
            f"every time step needs a timestamp of its own, but with steps of {step} column "
            f"'{column.name}' would have '{entries[row]}' for {pd.Timestamp(steps[row])}. Give its "
            "timestamps with the time of day, or choose a longer --step"
        )


def _refuse_duplicates(
    rows: RowIndex,
    roles: ColumnRoles,
    times: Times,
    clock: Clock,
    locations: list[str],
    measurements: list[str],
    where: Where,
) -> None:
    keys = pd.Series(rows.keys)
    duplicated = keys.duplicated()
    if not duplicated.any():
        return
    row = int(np.argmax(duplicated))
    first = int(np.argmax(keys == keys[row]))
    moment = pd.Timestamp(times[rows.frame_row[row]])
    zone = "" if clock.zone is None or clock.wall_time else " UTC"
    dates_only = bool((times.astype("datetime64[D]") == times).all())
    station = f" of '{locations[rows.location[row]]}'"
    measurement = f", '{measurements[rows.measurement[row]]}'"
    key, cell = "time", ""
    if roles.layout == "long":
        key, cell = "time, station and measurement", station + measurement
    elif roles.location is not None:
        key, cell = "time and station", station
    # without a zone, it may be the repeated hour of a night when the clocks went back
    night = clock.zone is None and moment.month in (3, 4, 9, 10, 11) and moment.hour < 4
    raise TableError(
        f"each {key} may appear only once, but {moment}{zone}{cell} is in {where(first)} and again "
        f"in {where(row)}. "
        + ("" if cell else "Name the station column with --location. ")
        + ("If the hour is in another column, give --time DATE,HOUR. " if dates_only else "")
        + ("If the clocks went back that night, give --tz. " if night and not dates_only else "")
        + "If both are the same cell, combine them with --duplicates mean or --duplicates first"
    )


def _parse_finite(column: pd.Series, options: ReadOptions, where: Where) -> FloatArray:
    numbers = parse_numbers(column, options, where)
    infinite = np.isinf(numbers)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise TableError(
            f"values must be finite, but column '{column.name}' has {numbers[row]:g} in "
            f"{where(row)}. If it means missing, give --missing {numbers[row]:g}"
        )
    return numbers


def _parse_coordinates(
    frame: pd.DataFrame,
    roles: ColumnRoles,
    options: ReadOptions,
    row_location: IntArray,
    locations: list[str],
    where: Where,
) -> tuple[list[float] | None, list[float] | None]:
    """Latitude and longitude of each station, from the columns of the frame."""
    use_columns = options.coordinates and options.locations is None
    if not use_columns or roles.lat is None or roles.lon is None:
        return None, None
    degrees = []
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
                f"a station has one position, but '{locations[station]}' has {column} "
                f"{numbers[rows[0]]:g} in {where(int(rows[0]))} and {numbers[other]:g} in "
                f"{where(int(other))}. Correct it, give coordinates with --locations FILE, or "
                "ignore all coordinates with --no-coordinates"
            )
        degrees.append(low.to_list())
    if np.isnan(degrees).all():
        return None, None
    return degrees[0], degrees[1]


def _parse_units(
    frame: pd.DataFrame, roles: ColumnRoles, measurements: list[str], row_measurement: IntArray
) -> dict[str, str]:
    if roles.layout != "long":
        return {header.measurement: header.unit for header in roles.headers if header.unit}
    if roles.unit is None:
        return {}
    first = frame[roles.unit].astype(object).groupby(row_measurement).first()
    return {measurements[int(code)]: str(unit) for code, unit in first.items() if pd.notna(unit)}


def _to_array(
    rows: RowIndex,
    numbers: dict[str, FloatArray],
    options: ReadOptions,
    is_direction: NDArray[np.bool_],
) -> FloatArray:
    """Values of the cube, duplicate rows combined."""
    values = np.full(rows.shape, np.nan)
    for number, column in enumerate(numbers.values()):
        known = ~np.isnan(column)
        cells = rows.column_cells(number, known)
        is_circular = is_direction[cells[2]]
        combine_duplicates(values, cells, column[known], options.duplicates, is_circular)
    return values


def _notes(
    rows: RowIndex, times: Times, cube: xr.DataArray, roles: ColumnRoles, options: ReadOptions
) -> Iterator[str]:
    grid = cube["time"].to_numpy()
    yield from missing_timestamps(len(grid), rows.time)
    if n_moved := int((grid[rows.time] != times[rows.frame_row]).sum()):
        yield (
            f"{format_count(n_moved, 'row')} with timestamps between steps read as the nearest "
            "step; the output keeps the original timestamps"
        )
    if options.duplicates:
        n_combined = len(rows.frame_row) - len(np.unique(rows.keys))
        yield (
            f"{format_count(n_combined, 'duplicate row')} combined ({options.duplicates}); the "
            "output keeps entries with a value, empty ones get the combined value"
        )
    if roles.time_of_day:
        yield f"timestamps read from two columns: {roles.time} and {roles.time_of_day}"
    if roles.passthrough:
        yield f"not read, returned unchanged: {', '.join(roles.passthrough)}"
    if roles.flags:
        yield (
            f"taken for quality flags, not for measurements: {', '.join(roles.flags)}; to read "
            "them, list them with --measurements"
        )


def _warnings(cube: xr.DataArray, roles: ColumnRoles, options: ReadOptions) -> Iterator[str]:
    named = options.layout or options.measurements or options.column_pattern
    given = bool(named) or options.locations is not None
    if roles.layout == "panel" and roles.location is None and not given:
        yield (
            "every column was read as a measurement of one station; if the columns are stations, "
            "give --layout wide"
        )
    if roles.pattern is not None and options.column_pattern is None:
        header = roles.headers[0]
        yield (
            f"columns were read as {roles.pattern}: '{roles.values[0]}' is {header.measurement} at "
            f"{header.station}; if every column is a station of its own, give --layout wide"
        )
    elif roles.layout == "wide" and not given:
        guess = detect_pattern(roles.values)
        yield (
            "every column was read as a station; if the columns are measurements of one station, "
            "give --layout panel"
            + (f"; if they are pairs, give --column-pattern '{guess.text}'" if guess else "")
        )
    yield from likely_missing_codes(cube)
    yield from likely_directions(cube)
    yield from likely_coordinates(cube)
    if options.step is None:
        yield from staggered_stations(cube)
