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

from cdsa.cube import ONE, check_cube, describe, make_cube
from cdsa.errors import TableError
from cdsa.sources.cells import join, likely_angles, likely_codes
from cdsa.sources.columns import OWN_INDEX, Roles, find_roles, read_labels, read_numbers
from cdsa.sources.entries import (
    Index,
    Numbers,
    Objects,
    as_before,
    entries_like,
    is_text,
    put,
    stamps_like,
)
from cdsa.sources.options import LAYOUT_WORDS, Layout, ReadOptions
from cdsa.sources.stamps import read_times
from cdsa.times import Clock, Times, Where, regular_grid


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a frame that were read, and the cells of the cube they speak of."""

    layout: Layout
    shape: tuple[int, int, int]
    """Steps, stations and measurements of the cube."""

    number: Index
    """Where the rows stand in the frame: all, unless measurements of a long table were chosen."""

    time: Index
    location: Index
    """0 in the wide layout, where columns are stations."""

    measurement: Index
    """0 in the other layouts than long."""

    @property
    def key_shape(self) -> tuple[int, int, int]:
        """How many rows there could be along each axis."""
        steps, stations, _ = self.shape
        match self.layout:
            case "panel":
                return steps, stations, 1
            case "long":
                return self.shape
            case "wide":
                return steps, 1, 1

    @property
    def keys(self) -> Index:
        """A number for what each row is the only one of."""
        return np.ravel_multi_index((self.time, self.location, self.measurement), self.key_shape)

    def cells(self, column: int, key: tuple[Index, Index, Index]) -> tuple[Index, Index, Index]:
        """The cells that a column of values speaks of in rows with these keys."""
        time, location, measurement = key
        here = np.full(len(time), column)
        match self.layout:
            case "panel":
                return time, location, here
            case "long":
                return time, location, measurement
            case "wide":
                return time, here, measurement

    def own_cells(self, column: int) -> tuple[Index, Index, Index]:
        """The cells that a column of values speaks of in the rows that were read."""
        return self.cells(column, (self.time, self.location, self.measurement))


@dataclass(frozen=True, eq=False)
class Table:
    """The user's rows, what they mean, and the cube made of them."""

    frame: pd.DataFrame
    roles: Roles
    options: ReadOptions
    clock: Clock
    cube: xr.DataArray
    times: Times
    """The stamp of every row, as it was read."""

    rows: Rows
    numbers: dict[str, Numbers]
    """For each column of values its numbers in the rows that were read, NaN where missing."""

    labels: dict[str, list[object]]
    """Stations and measurements as the table writes them, in the order of the cube."""

    blank: str | None
    """What an empty entry of text is: nothing between separators in a text file, else null."""

    notes: tuple[str, ...] = ()
    """How it was read."""

    doubts: tuple[str, ...] = ()
    """What may have been read wrongly."""

    @property
    def layout(self) -> str:
        """The layout in words."""
        return f"{self.roles.layout}: {LAYOUT_WORDS[self.roles.layout]}"

    def filled(self, values: xr.DataArray, *, typed: bool = False) -> pd.DataFrame:
        """The user's frame with its missing cells taken from `values` and its absent rows added.

        With `typed`, text of numbers and dates becomes numbers and dates first.
        """
        grid = values.transpose(*self.cube.dims).to_numpy()
        whole = self._typed() if typed else self.frame.copy()
        for number, column in enumerate(self.roles.values):
            gaps = np.flatnonzero(np.isnan(self.numbers[column]))
            new = grid[tuple(part[gaps] for part in self.rows.own_cells(number))]
            known = ~np.isnan(new)
            rows = self.rows.number[gaps[known]]
            put(whole, column, rows, new[known], self.options.decimal)
        keys, extra = self._absent_rows(whole, grid)
        return whole if extra is None else self._in_order(whole, extra, keys)

    def _typed(self) -> pd.DataFrame:
        """The frame with numbers and dates where it has the text of numbers and dates."""
        typed = self.frame.copy()
        whole = len(self.rows.number) == len(typed)  # what was not read may be anything
        for name in (*(self.roles.values if whole else ()), self.roles.lat, self.roles.lon):
            if name is not None and is_text(typed[name]):
                typed[name] = read_numbers(typed[name], self.options, str)
        if is_text(typed[self.roles.time]):
            typed[self.roles.time] = self.clock.local(self.times)
        return typed

    def _absent_rows(
        self, whole: pd.DataFrame, grid: NDArray[np.float64]
    ) -> tuple[Index, pd.DataFrame | None]:
        """Keys of all rows, old ones first, and the rows that the table lacks."""
        old, shape = self.rows.keys, self.rows.key_shape
        there = np.zeros(int(np.prod(shape)), dtype=bool)
        there[old] = True
        absent = np.flatnonzero(~there)
        if len(absent) == 0:
            return old, None
        time, location, measurement = np.unravel_index(absent, shape)
        roles = self.roles
        extra: dict[str, Objects | Numbers] = {}
        for name in self.frame.columns:
            if name == roles.time:
                stamps = self.cube["time"].to_numpy()[time]
                extra[name] = stamps_like(whole[name], self.clock, stamps)
            elif name == roles.location:
                extra[name] = np.array(self.labels["location"], dtype=object)[location]
            elif name == roles.measurement:
                extra[name] = np.array(self.labels["measurement"], dtype=object)[measurement]
            elif name in roles.values:
                new = grid[self.rows.cells(roles.values.index(name), (time, location, measurement))]
                extra[name] = entries_like(whole[name], new, self.options.decimal)
                if is_text(whole[name]):
                    extra[name][np.isnan(new)] = self.blank
            else:
                axes = {"location": location, "measurement": measurement, "time": time}
                extra[name] = self._companion(whole[name], axes)
        return np.concatenate([old, absent]), pd.DataFrame(extra, dtype=object)

    def _companion(self, column: pd.Series, new: dict[str, Index]) -> Objects:
        """Entries of a further column in new rows: what tells one station, measurement or time from
        another, such as coordinates or a name; else nothing."""
        empty = self.blank if is_text(column) else None
        nothing = np.full(len(new["time"]), empty, dtype=object)
        name, entries = column.name, column.iloc[self.rows.number].astype(object)
        if OWN_INDEX.match(str(name)):
            return _numbered_on(column, nothing)
        known = {"location": self.rows.location, "measurement": self.rows.measurement}
        if name in (self.roles.lat, self.roles.lon, self.roles.unit):
            axis = "measurement" if name == self.roles.unit else "location"
            told = (entries.notna() & (entries != "")).to_numpy()
            found = entries[told].groupby(known[axis][told]).first().reindex(new[axis])
            return np.asarray(found.where(found.notna(), empty), dtype=object)
        for axis, labels in (known | {"time": self.rows.time}).items():
            groups = entries.groupby(labels)
            try:
                tells = entries.nunique(dropna=False) > 1
                if tells and (groups.nunique(dropna=False) == 1).all():
                    found = groups.first().reindex(new[axis])
                    return np.asarray(found.where(found.notna(), empty), dtype=object)
            except TypeError:  # lists and the like cannot be compared
                return nothing
        return nothing

    def _in_order(self, whole: pd.DataFrame, extra: pd.DataFrame, keys: Index) -> pd.DataFrame:
        """Old and new rows together, sorted as the old ones were; else the new ones last."""
        both = pd.concat([whole.astype(object), extra], ignore_index=True)
        parts = np.unravel_index(keys, self.rows.key_shape)
        for order in permutations(parts) if len(self.rows.number) == len(whole) else ():
            ranked = [part[: len(whole)] for part in order]
            if (np.lexsort(ranked) == np.arange(len(whole))).all():
                both = both.iloc[np.lexsort(order)].reset_index(drop=True)
                break
        return pd.DataFrame({name: as_before(both[name], whole[name].dtype) for name in both})


def _numbered_on(column: pd.Series, nothing: Objects) -> Objects:
    """Row numbers of another program, going on where they ended; nothing if they are none."""
    if not (is_text(column) or pd.api.types.is_numeric_dtype(column.dtype)):
        return nothing
    numbers = pd.to_numeric(column, errors="coerce")
    if numbers.isna().any() or (numbers % 1 != 0).any():
        return nothing
    more = int(numbers.max()) + 1 + np.arange(len(nothing))
    return (more.astype(str) if is_text(column) else more).astype(object)


def read_table(
    frame: pd.DataFrame, options: ReadOptions, where: Where, *, blank: str | None = None
) -> Table:
    """Understand a frame as a cube."""
    if len(frame) == 0:
        found = ", ".join(str(name) for name in frame.columns)
        raise TableError(f"a table needs at least one row, but found only the columns {found}")
    roles = find_roles(frame, options, where)
    chosen, row_measurement, kinds, measured = _measurements(frame, roles, options, where)
    used = frame.iloc[chosen] if len(chosen) < len(frame) else frame

    def at(row: int) -> str:
        return where(int(chosen[row]))

    row_location, labels, names = _stations(used, roles, at)
    again = None
    if options.tz is not None:
        same = [name for name in (roles.time, roles.location, roles.measurement) if name]
        again = frame[same].astype(object).duplicated().to_numpy()
    times, clock = read_times(
        frame[roles.time], where, tz=options.tz, time_format=options.time_format, again=again
    )
    times, clock = clock.on_wall(times, options.step)
    grid, row_time = regular_grid(times[chosen], at, options.step)
    shape = (len(grid), len(names), len(measured))
    rows = Rows(roles.layout, shape, chosen, row_time, row_location, row_measurement)
    if options.duplicates is None:
        _refuse_duplicates(rows, times, clock, names, measured, at)
    numbers = {name: _finite(used[name], options, at) for name in roles.values}
    lat, lon = _places(used, roles, options, row_location, names, at)
    cube = make_cube(np.full(shape, np.nan), grid, names, measured, lat=lat, lon=lon)
    cube = describe(
        cube,
        units=_units(used, roles, measured, row_measurement) | dict(options.units),
        angles=options.angles,
        bounds={name: (low, high) for name, low, high in options.bounds},
    )
    cube = cube.copy(data=_values(rows, numbers, options, cube["angle"].to_numpy()))
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
        blank=blank,
        notes=tuple(_notes(rows, times, cube, roles, options)),
        doubts=tuple(_doubts(cube, roles, options)),
    )


def _measurements(
    frame: pd.DataFrame, roles: Roles, options: ReadOptions, where: Where
) -> tuple[Index, Index, list[object], list[str]]:
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
    codes, texts, labels = read_labels(frame[roles.measurement], where)
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


def _stations(
    frame: pd.DataFrame, roles: Roles, where: Where
) -> tuple[Index, list[object], list[str]]:
    if roles.layout == "wide":
        return np.zeros(len(frame), dtype=np.int64), [], list(roles.values)
    if roles.location is None:
        return np.zeros(len(frame), dtype=np.int64), [ONE], [ONE]
    codes, texts, labels = read_labels(frame[roles.location], where)
    return codes, labels, texts


def _finite(column: pd.Series, options: ReadOptions, where: Where) -> Numbers:
    numbers = read_numbers(column, options, where)
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
    rows: Rows, times: Times, clock: Clock, names: list[str], measured: list[str], where: Where
) -> None:
    keys = pd.Series(rows.keys)
    twice = keys.duplicated()
    if not twice.any():
        return
    row = int(np.argmax(twice))
    first = int(np.argmax(keys == keys[row]))
    moment = pd.Timestamp(times[rows.number[row]])
    station, kind = f" of '{names[rows.location[row]]}'", f", '{measured[rows.measurement[row]]}'"
    cell = {"wide": "", "panel": station, "long": station + kind}[rows.layout]
    # a stamp without a zone may be the second one of a night when clocks went back
    night = clock.zone is None and moment.month in (3, 4, 9, 10, 11) and moment.hour < 4
    raise TableError(
        f"a cell may be given once, but {moment}{cell} stands in {where(first)} and again in "
        f"{where(row)}. Say what to take: --duplicates mean or --duplicates first"
        + (", or name the column of the stations with --location" if not cell else "")
        + (". If clocks went back that night, give --tz instead" if night else "")
    )


def _values(
    rows: Rows, numbers: dict[str, Numbers], options: ReadOptions, angles: NDArray[np.bool_]
) -> NDArray[np.float64]:
    values = np.full(rows.shape, np.nan)
    for number, column in enumerate(numbers.values()):
        known = ~np.isnan(column)
        cells = tuple(part[known] for part in rows.own_cells(number))
        if options.duplicates is None:
            values[cells] = column[known]
        else:
            join(values, cells, column[known], options.duplicates, angles[cells[2]])
    return values


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
        numbers = pd.Series(read_numbers(frame[column], replace(options, missing=()), where))
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


def _notes(
    rows: Rows, times: Times, cube: xr.DataArray, roles: Roles, options: ReadOptions
) -> Iterator[str]:
    """What the user should know about how the table was read."""
    grid = cube["time"].to_numpy()
    absent = int((np.bincount(rows.time, minlength=len(grid)) == 0).sum())
    if absent:
        yield f"{absent:,} of {len(grid):,} time stamps were absent and became gaps"
    moved = int((grid[rows.time] != times[rows.number]).sum())
    if moved:
        yield (
            f"{moved:,} rows had stamps between steps and were read as the nearest; they come back "
            "as they were"
        )
    if options.duplicates:
        joined = len(rows.number) - len(np.unique(rows.keys))
        yield (
            f"rows that spoke of a cell again were joined ({options.duplicates}), {joined:,} in "
            "all; they come back as they were"
        )
    if roles.carried:
        yield f"carried along unread: {', '.join(roles.carried)}"


def _doubts(cube: xr.DataArray, roles: Roles, options: ReadOptions) -> Iterator[str]:
    """What the user should look at, because it may mean something else."""
    told = options.layout or options.measurements or options.locations is not None
    if roles.layout == "wide" and not told:
        yield (
            "every column was taken as a station; if they are measurements of one station, give "
            "--layout panel"
        )
    yield from likely_codes(cube)
    yield from likely_angles(cube)
