"""Parsing of uploaded tables, in a process with limited memory and time.

The process writes what it has read into a folder: the table as it is needed to write it again, for
jobs, and the values of its cube, for the page. The server's own process keeps labels only, so its
memory does not grow with the tables that it serves.
"""

import pickle
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import has_coordinates
from cdsa.core.summary import missing_over_time, summarise_cube
from cdsa.core.times import Clock
from cdsa.errors import CdsaError, TableError
from cdsa.io.files import UPLOAD_SUFFIXES, detect_format
from cdsa.io.sidecars import read_frame
from cdsa.io.source import Source, open_source
from cdsa.io.table import Table
from cdsa.web.limits import Limits

MAX_EXPANSION = 8
"""How many times larger than the upload limit a compressed table may become."""

MAX_NAME_LENGTH = 120
MAX_SIDECAR_COLUMNS = 100

MAX_GAPS = 12
"""Gaps in the list of the longest ones."""

SOURCE, TIME, VALUE = "source.pickle", "time.npy", "value.npy"
"""Files of a parsed table."""

Options = dict[str, object]
"""Read options, by their names in `cdsa.open_source`."""


class TooLargeError(CdsaError):
    """A table that is larger than the server accepts."""


@dataclass(frozen=True, eq=False)
class ParsedTable:
    """What the server knows of a table without its values."""

    folder: Path
    """Where its files are."""

    labels: xr.DataArray
    """The first step of the cube, for its labels."""

    clock: Clock
    summary: Mapping[str, object]
    """The fields of a `TableSummary` that depend on its content."""

    bytes: int
    """Size of its files."""

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The times and the values of the cube, which are read when they are used."""
        return {
            Path(name).stem: np.load(self.folder / name, mmap_mode="r", allow_pickle=False)
            for name in (TIME, VALUE)
        }

    @property
    def cube(self) -> xr.DataArray:
        arrays, labels = self.arrays, self.labels
        coords = {name: coord for name, coord in labels.coords.items() if name != "time"}
        return xr.DataArray(
            arrays["value"], dims=labels.dims, coords={**coords, "time": arrays["time"]}
        )


def parse_to_folder(
    path: Path, name: str, options: Options, limits: Limits, folder: Path
) -> ParsedTable:
    """Parse a table and write its files into a new folder, which is complete or not there."""
    source = parse_table(path, name, options, limits)
    cube = source.cube
    staged = Path(tempfile.mkdtemp(prefix=".parsed-", dir=folder.parent))
    try:
        with (staged / SOURCE).open("wb") as file:
            pickle.dump(source, file, protocol=pickle.HIGHEST_PROTOCOL)
        np.save(staged / TIME, cube["time"].to_numpy())
        np.save(staged / VALUE, cube.to_numpy())
        n_bytes = sum(file.stat().st_size for file in staged.iterdir())
        staged.rename(folder)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    return ParsedTable(
        folder=folder,
        labels=cube.isel(time=slice(1)).copy(deep=True),
        clock=source.content.clock,
        summary=summarise(source),
        bytes=n_bytes,
    )


def parse_table(path: Path, name: str, options: Options, limits: Limits) -> Source:
    """Parse a table; messages call it by the name it was uploaded with."""
    text = options.get("locations")
    sidecar = {} if text is None else {"locations": parse_sidecar(str(text), "the coordinates")}
    with _show_as(path, name):
        _refuse_expanding(path, limits)
        source = open_source(
            path, max_cells=limits.cells, max_columns=limits.columns, **(options | sidecar)
        )
    return replace(source, name=name)


def parse_sidecar(text: str, name: str) -> pd.DataFrame:
    """Parse a small table sent as text, like a CSV file; messages call it by this name."""
    with tempfile.TemporaryDirectory(prefix="cdsa-") as folder:
        path = Path(folder) / "lines.csv"
        path.write_text(text, encoding="utf-8")
        with _show_as(path, name):
            return read_frame(path, max_columns=MAX_SIDECAR_COLUMNS)


def summarise(source: Source) -> dict[str, object]:
    """What a table contains, and how it was read."""
    cube, clock = source.cube, source.content.clock
    summary = summarise_cube(cube, n_longest=MAX_GAPS)
    stations = pd.DataFrame({"name": cube["location"].to_numpy(), "lat": np.nan, "lon": np.nan})
    stations["missing"] = missing_over_time(cube, "location", 1)[:, 0]
    if has_coordinates(cube):
        stations = stations.assign(lat=cube["lat"].to_numpy(), lon=cube["lon"].to_numpy())
    measurements = summary.measurements.rename_axis("name").reset_index()
    measurements = measurements.rename(columns={"unit": "units", "longest": "longest_gap"})
    gaps = summary.longest_gaps
    gaps = gaps.assign(**{name: clock.format(gaps[name].to_numpy()) for name in ("first", "last")})
    frame = source.content.frame if isinstance(source.content, Table) else None
    first, last = clock.format(cube["time"].to_numpy()[[0, -1]])
    return {
        "layout": source.layout,
        "notes": source.notes,
        "warnings": source.warnings,
        "columns": [] if frame is None else [str(name) for name in frame.columns],
        "steps": summary.n_steps,
        "step": summary.step,
        "first": first,
        "last": last,
        "timezone": "" if clock.zone is None else str(clock.zone),
        "stations": stations.to_dict("records"),
        "measurements": measurements.to_dict("records"),
        "longest_gaps": gaps.to_dict("records"),
    }


def suffix_of(name: str) -> str:
    """The suffix of a table's name, if it is an accepted one."""
    for suffix in UPLOAD_SUFFIXES:
        if name.lower().endswith(suffix):
            return suffix
    raise TableError(
        f"the name of a table must end in one of {', '.join(UPLOAD_SUFFIXES)}, but found "
        f"'{name[-MAX_NAME_LENGTH:]}'"
    )


@contextmanager
def _show_as(path: Path, name: str) -> Iterator[None]:
    """Replace the path of a file in error messages by the name its sender knows."""
    try:
        yield
    except CdsaError as error:
        pattern = "|".join(map(re.escape, (str(path), path.name)))
        error.args = (re.sub(pattern, lambda _: name, str(error)),)
        raise


def _refuse_expanding(path: Path, limits: Limits) -> None:
    """Refuse a compressed table that becomes much larger than it was sent."""
    max_bytes = MAX_EXPANSION * limits.bytes
    content_size = detect_format(path).content_size
    assert content_size is not None  # other formats are not accepted
    try:
        size = content_size(path, max_bytes)
    except (OSError, EOFError, ValueError, ImportError, zlib.error):
        return  # parsing will report what is wrong
    if size > max_bytes:
        raise TooLargeError(
            f"a table may have {max_bytes / 1e6:,.0f} MB here after decompression, but "
            f"'{path}' has more"
        )
