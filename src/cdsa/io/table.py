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
from cdsa.io.columns import ROW_NUMBER, ColumnRoles
from cdsa.io.date_and_time import split
from cdsa.io.entries import parse_numbers
from cdsa.io.options import LAYOUTS, Layout, ReadOptions

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
ObjectArray = NDArray[np.object_]
Cells = tuple[IntArray, IntArray, IntArray]
"""Positions along time, location and measurement."""


@dataclass(frozen=True, eq=False)
class RowIndex:
    """The rows of a frame that were read, and their cells in the cube."""

    layout: Layout
    shape: tuple[int, int, int]
    columns: tuple[tuple[int, int], ...]
    """Station and measurement of each value column, 0 where its rows have them."""

    frame_row: IntArray
    """Positions in the frame: all, unless measurements of a long table were selected."""

    time: IntArray
    location: IntArray
    """0 in the wide layout, where columns are stations."""

    measurement: IntArray
    """0 except in the long layout."""

    @property
    def key_shape(self) -> tuple[int, int, int]:
        """Number of possible rows along each axis."""
        n_steps, n_stations, n_measurements = self.shape
        one_station, one_measurement = self.layout == "wide", self.layout != "long"
        return n_steps, 1 if one_station else n_stations, 1 if one_measurement else n_measurements

    @property
    def keys(self) -> IntArray:
        """A number for each row, unique in a table without duplicate rows."""
        return np.ravel_multi_index((self.time, self.location, self.measurement), self.key_shape)

    def cells(self, column: int, rows: Cells) -> Cells:
        time, location, measurement = rows
        of_column = self.columns[column]
        return time, location + of_column[0], measurement + of_column[1]

    def column_cells(self, column: int, rows: IntArray | NDArray[np.bool_]) -> Cells:
        """The cells of a value column in some of the rows that were read."""
        return self.cells(column, (self.time[rows], self.location[rows], self.measurement[rows]))


@dataclass(frozen=True, eq=False)
class Table:
    """The user's frame, the roles of its columns, and its cube."""

    frame: pd.DataFrame
    roles: ColumnRoles
    options: ReadOptions
    clock: Clock
    cube: xr.DataArray
    times: Times
    """The timestamp of every row, as it was read."""

    rows: RowIndex
    numbers: dict[str, FloatArray]
    """Value column -> its numbers in the rows that were read, NaN where missing."""

    labels: dict[str, list[object]]
    """Stations and measurements as the table writes them, in the order of the cube."""

    empty_text: str | None
    """An empty entry of a text column: "" in a CSV file, else null."""

    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    horizon: slice | None = None
    """Steps of a forecast; if given, rows are added for these steps only."""

    @property
    def layout(self) -> str:
        return f"{self.roles.layout}: {LAYOUTS[self.roles.layout]}"

    def with_horizon(self, cube: xr.DataArray, horizon: slice) -> "Table":
        """The table with room for the additional steps of `cube`; of the rows that it lacks, only
        those of `horizon` are added."""
        rows = replace(self.rows, shape=(cube.sizes["time"], *self.rows.shape[1:]))
        return replace(self, cube=cube, rows=rows, horizon=horizon)

    def with_sites(self, cube: xr.DataArray) -> "Table":
        """The table with room for the additional stations of `cube`: rows or, in the wide layout,
        columns."""
        names = [str(name) for name in cube["location"].to_numpy()[self.cube.sizes["location"] :]]
        n_steps, n_stations, n_measurements = self.rows.shape
        rows = replace(self.rows, shape=(n_steps, cube.sizes["location"], n_measurements))
        labels = self.labels | {"location": [*self.labels["location"], *names]}
        table = replace(self, cube=cube, rows=rows, labels=labels)
        if self.roles.layout != "wide":
            return table
        columns = {
            self._header(site, number): (n_stations + row, number)
            for row, site in enumerate(names)
            for number in range(n_measurements)
        }
        for name in columns:
            if name in self.frame.columns:
                raise TableError(
                    f"a new site needs a new name, but there is already a column '{name}'. Rename "
                    "it"
                )
        empty = np.full(len(self.rows.frame_row), np.nan)
        return replace(
            table,
            frame=self.frame.assign(**dict.fromkeys(columns, np.nan)),
            roles=replace(self.roles, values=(*self.roles.values, *columns)),
            numbers=self.numbers | dict.fromkeys(columns, empty),
            rows=replace(rows, columns=(*rows.columns, *columns.values())),
        )

    def _header(self, site: str, measurement: int) -> str:
        """The column of a new site in the wide layout: like that of a measurement elsewhere."""
        headers = zip(self.roles.headers, self.rows.columns, strict=True)
        if self.roles.pattern is None:
            return site
        like = next(header for header, (_, number) in headers if number == measurement)
        unit = f" [{like.unit}]" if like.unit else ""
        return self.roles.pattern.format(station=site, measurement=like.measurement + unit)

    def filled(self, values: xr.DataArray, *, typed: bool = False) -> pd.DataFrame:
        """The user's frame with its missing cells taken from `values` and missing rows added.

        With `typed`, numbers and dates that are text become numbers and dates.
        """
        grid = values.transpose(*self.cube.dims).to_numpy()
        frame = self._parse_text_columns() if typed else self.frame.copy()
        for number, column in enumerate(self.roles.values):
            gaps = np.flatnonzero(np.isnan(self.numbers[column]))
            filled = grid[self.rows.column_cells(number, gaps)]
            known = ~np.isnan(filled)
            rows = self.rows.frame_row[gaps[known]]
            assign_values(frame, column, rows, filled[known], self.options.decimal_mark)
        keys, new_rows = self._missing_rows(frame, grid)
        return frame if new_rows is None else self._sort_rows(frame, new_rows, keys)

    def _parse_text_columns(self) -> pd.DataFrame:
        """The frame with numbers and dates in place of their text."""
        frame = self.frame.copy()
        all_read = len(self.rows.frame_row) == len(frame)  # other rows may hold any text
        coordinates = (self.roles.lat, self.roles.lon)
        for name in (*(self.roles.values if all_read else ()), *coordinates):
            if name is not None and is_text(frame[name]):
                codes = () if name in coordinates else self.options.missing
                frame[name] = parse_numbers(frame[name], replace(self.options, missing=codes), str)
        if self.roles.time_of_day is None and is_text(frame[self.roles.time]):
            frame[self.roles.time] = self.clock.to_local(self.times)
        return frame

    def _missing_rows(
        self, frame: pd.DataFrame, grid: FloatArray
    ) -> tuple[IntArray, pd.DataFrame | None]:
        """Keys of all rows, those of the table first, and the rows that it lacks but for those
        without any value."""
        keys, shape = self.rows.keys, self.rows.key_shape
        present = np.zeros(int(np.prod(shape)), dtype=bool)
        present[keys] = True
        if self.horizon is not None:
            per_step = shape[1] * shape[2]
            present[: self.horizon.start * per_step] = True
            present[self.horizon.stop * per_step :] = True
        shared = tuple(axis for axis in range(3) if shape[axis] == 1)  # rows have all of these
        has_value = ~np.isnan(grid).all(axis=shared, keepdims=True) if shared else ~np.isnan(grid)
        missing = np.flatnonzero(~present & has_value.ravel())
        if len(missing) == 0:
            return keys, None
        time, location, measurement = np.unravel_index(missing, shape)
        new = {"location": location, "measurement": measurement, "time": time}
        roles = self.roles
        entries: dict[str, ObjectArray | FloatArray] = {}
        stamps = self._timestamp_entries(frame, self.cube["time"].to_numpy()[time])
        for name in self.frame.columns:
            if name in stamps:
                entries[name] = stamps[name]
            elif name in (roles.location, roles.measurement):
                axis = "location" if name == roles.location else "measurement"
                entries[name] = np.array(self.labels[axis], dtype=object)[new[axis]]
            elif name in roles.values:
                cells = self.rows.cells(roles.values.index(name), (time, location, measurement))
                values = grid[cells]
                entries[name] = format_values(frame[name], values, self.options.decimal_mark)
                if is_text(frame[name]):
                    entries[name][np.isnan(values)] = self.empty_text
            else:
                entries[name] = self._passthrough_entries(frame[name], new)
        return np.concatenate([keys, missing]), pd.DataFrame(entries, dtype=object)

    def _timestamp_entries(self, frame: pd.DataFrame, times: Times) -> dict[str, ObjectArray]:
        """The entries of the time column, or of the columns of date and time, for new rows."""
        roles, column = self.roles, self.roles.time_column(frame)
        texts = format_timestamps(column, self.clock, times)
        if roles.time_of_day is None:
            return {roles.time: texts}
        dates, times_of_day = split(texts, frame[roles.time], frame[roles.time_of_day])
        return {roles.time: dates, roles.time_of_day: times_of_day}

    def _passthrough_entries(self, column: pd.Series, new: dict[str, IntArray]) -> ObjectArray:
        """Entries of a further column in new rows: those that depend on the station, the
        measurement or the time only, such as coordinates or a name; else empty ones."""
        empty_text = self.empty_text if is_text(column) else None
        empty = np.full(len(new["time"]), empty_text, dtype=object)
        if ROW_NUMBER.match(str(column.name)):
            return _continue_row_numbers(column, empty)
        entries = column.iloc[self.rows.frame_row].astype(object)
        known = {"location": self.rows.location, "measurement": self.rows.measurement}
        if column.name in (self.roles.lat, self.roles.lon, self.roles.unit):
            axis = "measurement" if column.name == self.roles.unit else "location"
            present = (entries.notna() & (entries != "")).to_numpy()
            first = entries[present].groupby(known[axis][present]).first().reindex(new[axis])
            coordinate = "lat" if column.name == self.roles.lat else "lon"
            if axis == "location" and coordinate in self.cube.coords:  # those of added sites
                degrees = self.cube[coordinate].to_numpy()[new[axis]]
                texts = format_values(column, degrees, self.options.decimal_mark)
                first = first.where(first.notna(), pd.Series(texts, index=first.index))
            return np.asarray(first.where(first.notna(), empty_text), dtype=object)
        for axis, index in (known | {"time": self.rows.time}).items():
            groups = entries.groupby(index)
            try:
                varies = entries.nunique(dropna=False) > 1
                if varies and (groups.nunique(dropna=False) == 1).all():
                    first = groups.first().reindex(new[axis])
                    return np.asarray(first.where(first.notna(), empty_text), dtype=object)
            except TypeError:  # unhashable entries, such as lists
                return empty
        return empty

    def _sort_rows(
        self, frame: pd.DataFrame, new_rows: pd.DataFrame, keys: IntArray
    ) -> pd.DataFrame:
        """Old and new rows, sorted as the old ones were; if those were not, the new ones last."""
        rows = pd.concat([frame.astype(object), new_rows], ignore_index=True)
        axes = np.unravel_index(keys, self.rows.key_shape)
        n_old = len(frame)
        for order in permutations(axes) if len(self.rows.frame_row) == n_old else ():
            if (np.lexsort([axis[:n_old] for axis in order]) == np.arange(n_old)).all():
                rows = rows.iloc[np.lexsort(order)].reset_index(drop=True)
                break
        return pd.DataFrame({name: restore_dtype(rows[name], frame[name].dtype) for name in rows})


def is_text(column: pd.Series) -> bool:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return is_text(column.dtype.categories.to_series())
    if column.dtype == object:
        return pd.api.types.infer_dtype(column, skipna=True) in ("string", "empty")
    return bool(pd.api.types.is_string_dtype(column.dtype))


def format_values(column: pd.Series, numbers: FloatArray, decimal: str) -> ObjectArray | FloatArray:
    """Numbers as entries of this column: text in text columns, integers in integer columns."""
    if is_text(column):
        # the shortest text that parses to the same number
        texts = ["" if np.isnan(n) else repr(float(n)).removesuffix(".0") for n in numbers]
        return np.array([text.replace(".", decimal) for text in texts], dtype=object)
    if pd.api.types.is_integer_dtype(column.dtype):
        limits = np.iinfo(str(getattr(column.dtype, "numpy_dtype", column.dtype)))
        return np.clip(np.rint(numbers), limits.min, limits.max)
    decimals = [x for x in column if isinstance(x, Decimal)] if column.dtype == object else []
    if decimals:
        step = Decimal(1).scaleb(min(int(x.as_tuple().exponent) for x in decimals))
        exact = [None if np.isnan(n) else Decimal(repr(float(n))).quantize(step) for n in numbers]
        return np.array(exact, dtype=object)
    return numbers


def format_timestamps(column: pd.Series, clock: Clock, times: Times) -> ObjectArray:
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
    """Assign numbers to these rows of a column, which keeps its type."""
    if len(rows) == 0:
        return
    old = frame[column]
    entries = format_values(old, numbers, decimal)
    if old.dtype == object or is_text(old) or isinstance(old.dtype, pd.CategoricalDtype):
        objects = np.array(old.astype(object), dtype=object)
        objects[rows] = entries
        changed = pd.Series(objects, index=frame.index, dtype=object)
        frame[column] = restore_dtype(changed, old.dtype)
    else:
        changed = old.copy()
        changed.iloc[rows] = pd.array(entries).astype(old.dtype)
        frame[column] = changed


def restore_dtype(column: pd.Series, dtype: object) -> pd.Series:
    """The column in its former type, or the nearest one that can hold the new entries."""
    if isinstance(dtype, pd.CategoricalDtype):
        new = [x for x in pd.unique(column.dropna()) if x not in set(dtype.categories)]
        return column.astype(pd.CategoricalDtype([*dtype.categories, *new], ordered=dtype.ordered))
    if pd.api.types.is_bool_dtype(dtype) and column.isna().any():
        return column.astype("boolean")
    try:
        return column.astype(dtype)
    except (TypeError, ValueError):
        return column.convert_dtypes()


def _continue_row_numbers(column: pd.Series, empty: ObjectArray) -> ObjectArray:
    """Row numbers of another program, continued; empty entries if they are not integers."""
    if not (is_text(column) or pd.api.types.is_numeric_dtype(column.dtype)):
        return empty
    numbers = pd.to_numeric(column, errors="coerce")
    if numbers.isna().any() or (numbers % 1 != 0).any():
        return empty
    new = int(numbers.max()) + 1 + np.arange(len(empty))
    return (new.astype(str) if is_text(column) else new).astype(object)
