"""A table as it was read, and the same table with gaps filled: entries keep their text."""

import datetime
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import permutations

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.times import Clock, Times
from cdsa.errors import TableError
from cdsa.io.columns import ROW_NUMBER, ColumnRoles, parse_numbers
from cdsa.io.options import LAYOUTS, Layout, ReadOptions

IntArray = NDArray[np.int64]


FloatArray = NDArray[np.float64]


ObjectArray = NDArray[np.object_]


def is_text(column: pd.Series) -> bool:
    """Whether the entries are strings: those of a text file, or any others."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return is_text(column.dtype.categories.to_series())
    if column.dtype == object:
        return pd.api.types.infer_dtype(column, skipna=True) in ("string", "empty")
    return bool(pd.api.types.is_string_dtype(column.dtype))


def is_integer(dtype: object) -> bool:
    """Whether a type holds whole numbers only."""
    return bool(pd.api.types.is_integer_dtype(dtype))


def round_to_integers(numbers: FloatArray, dtype: object) -> FloatArray:
    """The nearest whole numbers that an integer type can hold."""
    kind = np.dtype(str(getattr(dtype, "numpy_dtype", dtype)))
    limits = np.iinfo(kind)
    return np.clip(np.rint(numbers), limits.min, limits.max)


def format_values(column: pd.Series, numbers: FloatArray, decimal: str) -> ObjectArray | FloatArray:
    """Numbers as this column would hold them: text as text, whole numbers in integer columns."""
    if is_text(column):
        # the shortest text that reads back to the same number
        texts = ["" if np.isnan(n) else repr(float(n)).removesuffix(".0") for n in numbers]
        return np.array([text.replace(".", decimal) for text in texts], dtype=object)
    if is_integer(column.dtype):
        return round_to_integers(numbers, column.dtype)
    decimals = [x for x in column if isinstance(x, Decimal)] if column.dtype == object else []
    if decimals:
        step = Decimal(1).scaleb(min(int(x.as_tuple().exponent) for x in decimals))
        exact = [None if np.isnan(n) else Decimal(repr(float(n))).quantize(step) for n in numbers]
        return np.array(exact, dtype=object)
    return numbers


def format_timestamps(column: pd.Series, clock: Clock, times: Times) -> ObjectArray:
    """Times as this column would hold them."""
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        local = clock.to_local(times)
        zone = getattr(column.dtype, "tz", None)
        local = local.tz_localize(None) if zone is None else local.tz_convert(zone)
        return np.asarray(local, dtype=object)
    if isinstance(column.dtype, pd.PeriodDtype):
        return np.asarray(pd.DatetimeIndex(times).to_period(column.dtype.freq), dtype=object)
    if pd.api.types.is_numeric_dtype(column.dtype):
        numbers = [float(text) for text in clock.format(times)]
        return np.array([int(n) if n == int(n) else n for n in numbers], dtype=object)
    if not is_text(column):
        first = next(entry for entry in column if not pd.isna(entry))
        moments = [moment.to_pydatetime() for moment in clock.to_local(times)]
        if isinstance(first, datetime.datetime):
            return np.array(moments, dtype=object)
        if isinstance(first, datetime.date):
            return np.array([moment.date() for moment in moments], dtype=object)
    return np.array(clock.format(times), dtype=object)


def assign_values(
    frame: pd.DataFrame, column: str, rows: IntArray, numbers: FloatArray, decimal: str
) -> None:
    """Put numbers into these rows of a column, whose type stays what it was."""
    if len(rows) == 0:
        return
    old = frame[column]
    entries = format_values(old, numbers, decimal)
    if old.dtype == object or is_text(old) or isinstance(old.dtype, pd.CategoricalDtype):
        whole = np.array(old.astype(object), dtype=object)
        whole[rows] = entries
        frame[column] = restore_dtype(pd.Series(whole, index=frame.index, dtype=object), old.dtype)
    else:
        changed = old.copy()
        changed.iloc[rows] = pd.array(entries).astype(old.dtype)
        frame[column] = changed


def restore_dtype(column: pd.Series, dtype: object) -> pd.Series:
    """The column in its former type, or the nearest kin that can hold what is new in it."""
    if isinstance(dtype, pd.CategoricalDtype):
        new = [x for x in pd.unique(column.dropna()) if x not in set(dtype.categories)]
        return column.astype(pd.CategoricalDtype([*dtype.categories, *new], ordered=dtype.ordered))
    if pd.api.types.is_bool_dtype(dtype) and column.isna().any():
        return column.astype("boolean")
    try:
        return column.astype(dtype)
    except (TypeError, ValueError):
        return column.convert_dtypes()


@dataclass(frozen=True, eq=False)
class RowIndex:
    """The rows of a frame that were read, and the cells of the cube they speak of."""

    layout: Layout
    shape: tuple[int, int, int]
    """Steps, stations and measurements of the cube."""

    frame_row: IntArray
    """Where the rows stand in the frame: all, unless measurements of a long table were chosen."""

    time: IntArray
    location: IntArray
    """0 in the wide layout, where columns are stations."""

    measurement: IntArray
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
    def keys(self) -> IntArray:
        """A number for what each row is the only one of."""
        return np.ravel_multi_index((self.time, self.location, self.measurement), self.key_shape)

    def cells(
        self, column: int, key: tuple[IntArray, IntArray, IntArray]
    ) -> tuple[IntArray, IntArray, IntArray]:
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

    def column_cells(self, column: int) -> tuple[IntArray, IntArray, IntArray]:
        """The cells that a column of values speaks of in the rows that were read."""
        return self.cells(column, (self.time, self.location, self.measurement))


@dataclass(frozen=True, eq=False)
class Table:
    """The user's rows, what they mean, and the cube made of them."""

    frame: pd.DataFrame
    roles: ColumnRoles
    options: ReadOptions
    clock: Clock
    cube: xr.DataArray
    times: Times
    """The stamp of every row, as it was read."""

    rows: RowIndex
    numbers: dict[str, FloatArray]
    """For each column of values its numbers in the rows that were read, NaN where missing."""

    labels: dict[str, list[object]]
    """Stations and measurements as the table writes them, in the order of the cube."""

    empty_text: str | None
    """What an empty entry of text is: nothing between separators in a text file, else null."""

    notes: tuple[str, ...] = ()
    """How it was read."""

    warnings: tuple[str, ...] = ()
    """What may have been read wrongly."""

    horizon: slice | None = None
    """Steps of a forecast, which alone get rows that the table lacks."""

    def with_horizon(self, cube: xr.DataArray, horizon: slice) -> "Table":
        """The table with room for the steps that `cube` has beyond it; of rows that it lacks, only
        those of `horizon` are added."""
        rows = replace(self.rows, shape=(cube.sizes["time"], *self.rows.shape[1:]))
        return replace(self, cube=cube, rows=rows, horizon=horizon)

    def with_sites(self, cube: xr.DataArray) -> "Table":
        """The table with room for the stations that `cube` has beyond it: rows, or columns of a
        wide one."""
        new = [str(name) for name in cube["location"].to_numpy()[self.cube.sizes["location"] :]]
        steps, _, measurements = self.rows.shape
        rows = replace(self.rows, shape=(steps, cube.sizes["location"], measurements))
        labels = self.labels | {"location": [*self.labels["location"], *new]}
        table = replace(self, cube=cube, rows=rows, labels=labels)
        if self.roles.layout != "wide":
            return table
        taken = [name for name in new if name in self.frame.columns]
        if taken:
            raise TableError(
                f"a place to be added has a name of its own, but there is a column '{taken[0]}'"
            )
        nothing = np.full(len(self.rows.frame_row), np.nan)
        return replace(
            table,
            frame=self.frame.assign(**dict.fromkeys(new, np.nan)),
            roles=replace(self.roles, values=(*self.roles.values, *new)),
            numbers=self.numbers | dict.fromkeys(new, nothing),
        )

    @property
    def layout(self) -> str:
        """The layout in words."""
        return f"{self.roles.layout}: {LAYOUTS[self.roles.layout]}"

    def filled(self, values: xr.DataArray, *, typed: bool = False) -> pd.DataFrame:
        """The user's frame with its missing cells taken from `values` and its absent rows added.

        With `typed`, text of numbers and dates becomes numbers and dates first.
        """
        grid = values.transpose(*self.cube.dims).to_numpy()
        whole = self._parse_text_columns() if typed else self.frame.copy()
        for number, column in enumerate(self.roles.values):
            gaps = np.flatnonzero(np.isnan(self.numbers[column]))
            new = grid[tuple(part[gaps] for part in self.rows.column_cells(number))]
            known = ~np.isnan(new)
            rows = self.rows.frame_row[gaps[known]]
            assign_values(whole, column, rows, new[known], self.options.decimal_mark)
        keys, extra = self._missing_rows(whole, grid)
        return whole if extra is None else self._sort_rows(whole, extra, keys)

    def _parse_text_columns(self) -> pd.DataFrame:
        """The frame with numbers and dates where it has the text of numbers and dates."""
        typed = self.frame.copy()
        whole = len(self.rows.frame_row) == len(typed)  # what was not read may be anything
        places = (self.roles.lat, self.roles.lon)
        for name in (*(self.roles.values if whole else ()), *places):
            if name is not None and is_text(typed[name]):
                codes = () if name in places else self.options.missing
                typed[name] = parse_numbers(typed[name], replace(self.options, missing=codes), str)
        if is_text(typed[self.roles.time]):
            typed[self.roles.time] = self.clock.to_local(self.times)
        return typed

    def _missing_rows(
        self, whole: pd.DataFrame, grid: NDArray[np.float64]
    ) -> tuple[IntArray, pd.DataFrame | None]:
        """Keys of all rows, old ones first, and the rows that the table lacks."""
        old, shape = self.rows.keys, self.rows.key_shape
        there = np.zeros(int(np.prod(shape)), dtype=bool)
        there[old] = True
        if self.horizon is not None:
            cells = shape[1] * shape[2]
            there[: self.horizon.start * cells] = there[self.horizon.stop * cells :] = True
        absent = np.flatnonzero(~there)
        if len(absent) == 0:
            return old, None
        time, location, measurement = np.unravel_index(absent, shape)
        roles = self.roles
        extra: dict[str, ObjectArray | FloatArray] = {}
        for name in self.frame.columns:
            if name == roles.time:
                stamps = self.cube["time"].to_numpy()[time]
                extra[name] = format_timestamps(whole[name], self.clock, stamps)
            elif name == roles.location:
                extra[name] = np.array(self.labels["location"], dtype=object)[location]
            elif name == roles.measurement:
                extra[name] = np.array(self.labels["measurement"], dtype=object)[measurement]
            elif name in roles.values:
                new = grid[self.rows.cells(roles.values.index(name), (time, location, measurement))]
                extra[name] = format_values(whole[name], new, self.options.decimal_mark)
                if is_text(whole[name]):
                    extra[name][np.isnan(new)] = self.empty_text
            else:
                axes = {"location": location, "measurement": measurement, "time": time}
                extra[name] = self._passthrough_entries(whole[name], axes)
        return np.concatenate([old, absent]), pd.DataFrame(extra, dtype=object)

    def _passthrough_entries(self, column: pd.Series, new: dict[str, IntArray]) -> ObjectArray:
        """Entries of a further column in new rows: what tells one station, measurement or time from
        another, such as coordinates or a name; else nothing."""
        empty = self.empty_text if is_text(column) else None
        nothing = np.full(len(new["time"]), empty, dtype=object)
        name, entries = column.name, column.iloc[self.rows.frame_row].astype(object)
        if ROW_NUMBER.match(str(name)):
            return _continue_row_numbers(column, nothing)
        known = {"location": self.rows.location, "measurement": self.rows.measurement}
        if name in (self.roles.lat, self.roles.lon, self.roles.unit):
            axis = "measurement" if name == self.roles.unit else "location"
            told = (entries.notna() & (entries != "")).to_numpy()
            found = entries[told].groupby(known[axis][told]).first().reindex(new[axis])
            if axis == "location":  # a place that was added has its coordinates in the cube alone
                place = "lat" if name == self.roles.lat else "lon"
                if place in self.cube.coords:
                    own = self.cube[place].to_numpy()[new[axis]]
                    text = format_values(column, own, self.options.decimal_mark)
                    found = found.where(found.notna(), pd.Series(text, index=found.index))
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

    def _sort_rows(self, whole: pd.DataFrame, extra: pd.DataFrame, keys: IntArray) -> pd.DataFrame:
        """Old and new rows together, sorted as the old ones were; else the new ones last."""
        both = pd.concat([whole.astype(object), extra], ignore_index=True)
        parts = np.unravel_index(keys, self.rows.key_shape)
        for order in permutations(parts) if len(self.rows.frame_row) == len(whole) else ():
            ranked = [part[: len(whole)] for part in order]
            if (np.lexsort(ranked) == np.arange(len(whole))).all():
                both = both.iloc[np.lexsort(order)].reset_index(drop=True)
                break
        return pd.DataFrame({name: restore_dtype(both[name], whole[name].dtype) for name in both})


def _continue_row_numbers(column: pd.Series, nothing: ObjectArray) -> ObjectArray:
    """Row numbers of another program, going on where they ended; nothing if they are none."""
    if not (is_text(column) or pd.api.types.is_numeric_dtype(column.dtype)):
        return nothing
    numbers = pd.to_numeric(column, errors="coerce")
    if numbers.isna().any() or (numbers % 1 != 0).any():
        return nothing
    more = int(numbers.max()) + 1 + np.arange(len(nothing))
    return (more.astype(str) if is_text(column) else more).astype(object)
