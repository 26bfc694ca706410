"""Tables: a frame in one of three layouts becomes a cube, and filled it becomes that frame again.

A `Table` keeps the user's own rows. Writing back only puts values into cells that were missing and
adds the rows that were absent, so whatever was measured comes back untouched.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.cube import describe, make_cube
from cdsa.errors import TableError
from cdsa.sources.columns import (
    CODES,
    Roles,
    find_roles,
    read_labels,
    read_numbers,
)
from cdsa.sources.options import LAYOUT_WORDS, ReadOptions
from cdsa.times import Clock, Times, Where, read_times, regular_grid

Index = NDArray[np.int64]
ONE = "station"  # name of the only station of a table that names none


@dataclass(frozen=True)
class Strip:
    """One column of values: for each row the cell of the cube it speaks of."""

    column: str
    time: Index
    location: Index
    measurement: Index


@dataclass(frozen=True, eq=False)
class Table:
    """The user's rows, what they mean, and the cube made of them."""

    frame: pd.DataFrame
    roles: Roles
    cube: xr.DataArray
    clock: Clock
    options: ReadOptions
    row_time: Index
    row_location: Index
    row_measurement: Index
    labels: dict[str, list[object]]
    """Stations and measurements as the table writes them, in the order of the cube."""

    gaps: dict[str, NDArray[np.bool_]]
    """For each column of values the rows in which it says nothing."""

    notes: tuple[str, ...]

    @property
    def layout(self) -> str:
        """The layout in words."""
        return f"{self.roles.layout}: {LAYOUT_WORDS[self.roles.layout]}"

    def filled(self, values: xr.DataArray) -> pd.DataFrame:
        """The user's frame with its missing cells taken from `values` and its absent rows added."""
        grid = values.transpose(*self.cube.dims).to_numpy()
        whole = self.frame.copy()
        for strip in self._strips():
            gaps = np.flatnonzero(self.gaps[strip.column])
            new = grid[strip.time[gaps], strip.location[gaps], strip.measurement[gaps]]
            known = ~np.isnan(new)
            _put(whole, strip.column, gaps[known], new[known], self.options.decimal)
        keys, extra = self._absent_rows(grid)
        return whole if extra is None else self._in_order(whole, extra, keys)

    def _strips(self) -> Iterator[Strip]:
        for number, column in enumerate(self.roles.values):
            here = np.full(len(self.frame), number)
            match self.roles.layout:
                case "panel":
                    yield Strip(column, self.row_time, self.row_location, here)
                case "long":
                    yield Strip(column, self.row_time, self.row_location, self.row_measurement)
                case "wide":
                    yield Strip(column, self.row_time, here, np.zeros_like(here))

    def _key_shape(self) -> tuple[int, int, int]:
        """Of what a row is the only one: times, or times x stations, or all three."""
        steps, stations, measurements = self.cube.shape
        match self.roles.layout:
            case "panel":
                return steps, stations, 1
            case "long":
                return steps, stations, measurements
            case "wide":
                return steps, 1, 1

    def _absent_rows(self, grid: NDArray[np.floating]) -> tuple[Index, pd.DataFrame | None]:
        """Keys of all rows, old ones first, and the rows that the table lacks."""
        shape = self._key_shape()
        old = np.ravel_multi_index((self.row_time, self.row_location, self.row_measurement), shape)
        there = np.zeros(int(np.prod(shape)), dtype=bool)
        there[old] = True
        absent = np.flatnonzero(~there)
        if len(absent) == 0:
            return old, None
        t, l, m = np.unravel_index(absent, shape)  # noqa: E741 - the cube's own letters
        roles, text = self.roles, {}
        known = {"time": t, "location": l, "measurement": m}
        for name in self.frame.columns:
            if name == roles.time:
                text[name] = _stamps(self.frame[name], self.clock, self.cube["time"].to_numpy()[t])
            elif name == roles.location:
                text[name] = np.array(self.labels["location"], dtype=object)[l]
            elif name == roles.measurement:
                text[name] = np.array(self.labels["measurement"], dtype=object)[m]
            elif name not in roles.values:
                text[name] = self._companion(name, known)
        extra = pd.DataFrame(
            text, index=range(len(absent)), columns=self.frame.columns, dtype=object
        )
        for number, column in enumerate(roles.values):
            here = np.full(len(absent), number)
            cells = {"panel": (t, l, here), "long": (t, l, m), "wide": (t, here, m)}[roles.layout]
            extra[column] = _entries(self.frame[column], grid[cells], self.options.decimal)
        return np.concatenate([old, absent]), extra

    def _companion(self, name: str, known: dict[str, Index]) -> NDArray[np.object_]:
        """Entries of a further column in new rows: what it always says for that station,
        measurement or time; else nothing."""
        column = self.frame[name].astype(object)
        empty = "" if is_text(self.frame[name]) else None
        rows = {"location": self.row_location, "measurement": self.row_measurement}
        for axis, labels in (rows | {"time": self.row_time}).items():
            groups = column.groupby(labels)
            if (groups.nunique(dropna=False) == 1).all():
                entries = groups.first().reindex(known[axis])
                return np.asarray(entries.where(entries.notna(), empty), dtype=object)
        return np.full(len(known["time"]), empty, dtype=object)

    def _in_order(self, whole: pd.DataFrame, extra: pd.DataFrame, keys: Index) -> pd.DataFrame:
        """Old and new rows together, sorted as the old ones were; else the new ones last."""
        both = pd.concat([whole.astype(object), extra], ignore_index=True)
        parts = np.unravel_index(keys, self._key_shape())
        for order in permutations(parts):
            place = np.lexsort(order)
            ranked = [part[: len(whole)] for part in order]
            if (np.lexsort(ranked) == np.arange(len(whole))).all():
                both = both.iloc[place].reset_index(drop=True)
                break
        for name in both.columns:
            both[name] = _as_before(both[name], whole[name].dtype)
        return both


def read_table(frame: pd.DataFrame, options: ReadOptions, where: Where) -> Table:
    """Understand a frame as a cube."""
    if len(frame) == 0:
        raise TableError(f"a table needs at least one row, but found only the columns "
                         f"{', '.join(map(str, frame.columns))}")  # fmt: skip
    roles = find_roles(frame, options, where)
    row_location, labels, names = _stations(frame, roles, where)
    again = frame[[roles.time]].assign(place=row_location).duplicated().to_numpy()
    times, clock = read_times(
        frame[roles.time], where, tz=options.tz, time_format=options.time_format, again=again
    )
    grid, row_time = regular_grid(times, where, options.step)
    row_measurement, kinds, measured = _measurements(frame, roles, options, where)
    if roles.layout == "long" and options.measurements:
        return _only(frame, roles, options, where, measured, row_measurement)
    table = Table(
        frame=frame,
        roles=roles,
        cube=xr.DataArray(np.empty((len(grid), len(names), len(measured)))),
        clock=clock,
        options=options,
        row_time=row_time,
        row_location=row_location,
        row_measurement=row_measurement,
        labels={"location": labels, "measurement": kinds},
        gaps={},
        notes=(),
    )
    _refuse_duplicates(table, times, names, measured, where)
    values, gaps = _values(table, measured, where)
    lat, lon = _places(frame, roles, options, row_location, names, where)
    cube = make_cube(values, grid, names, measured, lat=lat, lon=lon)
    cube = describe(
        cube,
        units=_units(frame, roles, measured, row_measurement) | dict(options.units),
        angles=options.angles,
        bounds={name: (low, high) for name, low, high in options.bounds},
    )
    return replace(table, cube=cube, gaps=gaps, notes=tuple(_notes(table, cube, times, grid)))


def _stations(
    frame: pd.DataFrame, roles: Roles, where: Where
) -> tuple[Index, list[object], list[str]]:
    if roles.layout == "wide":
        return np.zeros(len(frame), dtype=np.int64), [], list(roles.values)
    if roles.location is None:
        return np.zeros(len(frame), dtype=np.int64), [ONE], [ONE]
    codes, texts, labels = read_labels(frame[roles.location], where)
    return codes, labels, texts


def _measurements(
    frame: pd.DataFrame, roles: Roles, options: ReadOptions, where: Where
) -> tuple[Index, list[object], list[str]]:
    if roles.measurement is not None:
        codes, texts, labels = read_labels(frame[roles.measurement], where)
        return codes, labels, texts
    nothing = np.zeros(len(frame), dtype=np.int64)
    if roles.layout == "panel":
        return nothing, [], list(roles.values)
    if len(options.measurements) > 1:
        raise TableError(
            f"the wide layout has one measurement, but --measurements names "
            f"{len(options.measurements)}. If the columns are measurements of one station, give "
            "--layout panel"
        )
    return nothing, [], list(options.measurements) or ["value"]


def _only(
    frame: pd.DataFrame,
    roles: Roles,
    options: ReadOptions,
    where: Where,
    measured: list[str],
    row_measurement: Index,
) -> Table:
    """The long table read again with only the rows of the wanted measurements."""
    for name in options.measurements:
        if name not in measured:
            found = ", ".join(measured)
            raise TableError(
                f"--measurements: there is no '{name}' in column '{roles.measurement}'; it has: "
                f"{found}"
            )
    rows = np.flatnonzero(np.isin(np.array(measured)[row_measurement], options.measurements))
    return read_table(
        frame.iloc[rows], replace(options, measurements=()), lambda row: where(int(rows[row]))
    )


def _refuse_duplicates(
    table: Table, times: Times, names: list[str], measured: list[str], where: Where
) -> None:
    parts = (table.row_time, table.row_location, table.row_measurement)
    keys = pd.Series(np.ravel_multi_index(parts, table._key_shape()))
    twice = keys.duplicated()
    if table.options.duplicates is None and twice.any():
        row = int(np.argmax(twice))
        first = int(np.argmax(keys == keys[row]))
        place = {"wide": "", "panel": f" of '{names[table.row_location[row]]}'"}.get(
            table.roles.layout,
            f" of '{names[table.row_location[row]]}', '{measured[table.row_measurement[row]]}'",
        )
        raise TableError(
            f"a cell may be given once, but {pd.Timestamp(times[row])}{place} stands in "
            f"{where(first)} and again in {where(row)}. Say what to take: --duplicates mean or "
            "--duplicates first"
            + (", or name the column of the stations with --location" if not place else "")
        )


def _values(
    table: Table, measured: list[str], where: Where
) -> tuple[NDArray[np.float64], dict[str, NDArray[np.bool_]]]:
    values = np.full(table.cube.shape, np.nan)
    gaps = {}
    for strip in table._strips():
        numbers = read_numbers(table.frame[strip.column], table.options, where)
        infinite = np.isinf(numbers)
        if infinite.any():
            row = int(np.argmax(infinite))
            raise TableError(
                f"values must be finite, but column '{strip.column}' has {numbers[row]:g} in "
                f"{where(row)}. If it stands for a missing value, say so with --missing "
                f"{numbers[row]:g}"
            )
        gaps[strip.column] = np.isnan(numbers)
        known = ~gaps[strip.column]
        cells = strip.time[known], strip.location[known], strip.measurement[known]
        if table.options.duplicates is None:
            values[cells] = numbers[known]
        else:
            angle = np.isin(np.array(measured)[cells[2]], table.options.angles)
            _join(values, cells, numbers[known], table.options.duplicates, angle)
    return values, gaps


def _join(
    values: NDArray[np.float64],
    cells: tuple[Index, Index, Index],
    numbers: NDArray[np.float64],
    how: str,
    angle: NDArray[np.bool_],
) -> None:
    """Put numbers into their cells, those of one cell joined to one."""
    keys = np.ravel_multi_index(cells, values.shape)
    turned = np.deg2rad(numbers)
    parts = pd.DataFrame(
        {"n": numbers, "sin": np.sin(turned), "cos": np.cos(turned), "angle": angle}
    )
    groups = parts.groupby(keys)
    if how == "first":
        joined = groups["n"].first()
    else:
        means = groups.mean()
        circle = np.rad2deg(np.arctan2(means["sin"], means["cos"])) % 360
        single = groups.size() == 1
        joined = means["n"].where((means["angle"] == 0) | single, circle)
    values.ravel()[joined.index.to_numpy()] = joined.to_numpy()


def _places(
    frame: pd.DataFrame,
    roles: Roles,
    options: ReadOptions,
    row_location: Index,
    names: list[str],
    where: Where,
) -> tuple[list[float] | None, list[float] | None]:
    """Latitude and longitude of each station, as the frame itself tells them."""
    wanted = options.coordinates and options.locations is None
    if not wanted or roles.lat is None or roles.lon is None:
        return None, None
    found = []
    for column in (roles.lat, roles.lon):
        numbers = pd.Series(read_numbers(frame[column], options, where))
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


def _units(
    frame: pd.DataFrame, roles: Roles, measured: list[str], row_measurement: Index
) -> dict[str, str]:
    if roles.unit is None:
        return {}
    first = frame[roles.unit].astype(object).groupby(row_measurement).first()
    return {measured[int(code)]: str(unit) for code, unit in first.items() if pd.notna(unit)}


def _notes(table: Table, cube: xr.DataArray, times: Times, grid: Times) -> Iterator[str]:
    """What the user should know about how the table was read."""
    absent = len(grid) - len(np.unique(table.row_time))
    if absent:
        yield f"{absent:,} of {len(grid):,} time stamps were absent and became gaps"
    moved = int((grid[table.row_time] != times).sum())
    if moved:
        yield f"{moved:,} stamps were moved to the nearest step"
    if table.options.duplicates:
        parts = (table.row_time, table.row_location, table.row_measurement)
        keys = np.ravel_multi_index(parts, table._key_shape())
        joined = len(keys) - len(np.unique(keys))
        yield f"{joined:,} duplicate rows were joined ({table.options.duplicates})"
    if table.roles.layout == "wide":
        yield (
            "every column was taken as a station; if they are measurements of one station, "
            "give --layout panel"
        )
    if table.roles.carried:
        yield f"carried along unread: {', '.join(table.roles.carried)}"
    for number, name in enumerate(cube["measurement"].to_numpy()):
        values = cube.to_numpy()[:, :, number]
        for code in CODES:
            count = int((values == code).sum())
            if count:
                yield (
                    f"{name} is {code:g} in {count:,} cells; if that means missing, give "
                    f"--missing {code:g}"
                )


def is_text(column: pd.Series) -> bool:
    """Whether the column holds the strings of a text file (or any strings)."""
    return bool(pd.api.types.is_string_dtype(column.dtype) or column.dtype == object)


def _entries(
    column: pd.Series, numbers: NDArray[np.floating], decimal: str
) -> NDArray[np.object_] | NDArray[np.floating]:
    """Numbers as this column would hold them: text for text, whole numbers for integers."""
    if is_text(column):
        # the shortest text that reads back to the same number
        text = ["" if np.isnan(n) else repr(float(n)).removesuffix(".0") for n in numbers]
        return np.array([t.replace(".", decimal) for t in text], dtype=object)
    return np.rint(numbers) if pd.api.types.is_integer_dtype(column.dtype) else numbers


def _put(
    frame: pd.DataFrame, column: str, rows: Index, numbers: NDArray[np.floating], decimal: str
) -> None:
    entries = _entries(frame[column], numbers, decimal)
    if is_text(frame[column]):
        whole = frame[column].to_numpy(dtype=object, copy=True)
        whole[rows] = entries
        frame[column] = pd.Series(whole, index=frame.index, dtype=frame[column].dtype)
    elif len(rows):
        whole_typed = frame[column].copy()
        whole_typed.iloc[rows] = pd.array(entries).astype(frame[column].dtype)
        frame[column] = whole_typed


def _stamps(column: pd.Series, clock: Clock, times: Times) -> NDArray[np.object_]:
    """Times as this column would hold them."""
    if is_text(column):
        return np.array(clock.write(times), dtype=object)
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        local = clock.local(times)
        zone = getattr(column.dtype, "tz", None)
        local = local.tz_localize(None) if zone is None else local.tz_convert(zone)
        return np.asarray(local, dtype=object)
    if isinstance(column.dtype, pd.PeriodDtype):
        return np.asarray(pd.DatetimeIndex(times).to_period(column.dtype.freq), dtype=object)
    return times.astype("datetime64[s]").astype(np.int64).astype(object)


def _as_before(column: pd.Series, dtype: object) -> pd.Series:
    """The column in its former type, or the nullable kin of it where new rows left it empty."""
    try:
        return column.astype(dtype)
    except (TypeError, ValueError):
        return column.convert_dtypes()
