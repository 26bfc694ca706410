"""Uploaded tables, each under an id that nobody can guess.

A table is a file in a folder of its own. Its name is shown but never used as a path; its suffix
decides how it is parsed. Tables that nobody uses are removed after a while, and all of them when
the server stops.
"""

import asyncio
import re
import secrets
import shutil
import tempfile
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

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

Options = dict[str, object]
"""Read options, by their names in `cdsa.open_source`."""


class NotFoundError(CdsaError):
    """An id or a name that does not exist, or no longer exists."""


class CapacityError(CdsaError):
    """More than the server can take now; trying again later may work."""


class TooLargeError(CdsaError):
    """A table that is larger than the server accepts."""


@dataclass(eq=False)
class StoredTable:
    id: str
    name: str
    path: Path
    size: int
    options: Options = field(default_factory=dict)
    last_used: float = 0.0
    n_jobs: int = 0
    """Waiting and running jobs; the table is kept while there are any."""


class TableStore:
    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits, self.clock = limits, clock
        self.folder = Path(tempfile.mkdtemp(prefix="cdsa-"))
        self._tables: dict[str, StoredTable] = {}
        self._uploads: list[StoredTable] = []
        self._parsed: dict[tuple[str, str], tuple[Source, int]] = {}  # with their bytes
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._tables)

    def __contains__(self, table_id: str) -> bool:
        return table_id in self._tables

    def close(self) -> None:
        with self._lock:
            self._tables.clear()
            self._parsed.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def receive(self, name: str, chunks: AsyncIterator[bytes]) -> StoredTable:
        """Store an upload."""
        with self._new_table(name) as table:
            try:
                async with asyncio.timeout(60 * self.limits.upload_minutes):
                    with table.path.open("wb") as file:
                        async for chunk in chunks:
                            self._add_size(table, len(chunk))
                            file.write(chunk)
            except TimeoutError:
                raise CapacityError(
                    f"an upload may take {self.limits.upload_minutes:g} minutes, but this one took "
                    "longer. Try again, with the table compressed as .csv.gz if your connection is "
                    "slow"
                ) from None
            if not table.size:
                raise TableError(f"'{table.name}' is empty")
        return table

    def add_copy(self, name: str, path: Path) -> StoredTable:
        with self._new_table(name) as table:
            shutil.copyfile(path, table.path)
            table.size = table.path.stat().st_size
        return table

    def get(self, table_id: str) -> StoredTable:
        """The table with this id, which counts as used now."""
        with self._lock:
            table = self._tables.get(table_id)
            if table is None or self._expired(table):
                raise NotFoundError(
                    "this table does not exist, or has been removed. Upload it again"
                )
            table.last_used = self.clock()
            return table

    def source(self, table: StoredTable, options: Options | None = None) -> Source:
        """The parsed table, with its own options or others. It is parsed once; of the parsed
        tables, the last used ones stay in memory, up to the size that a single one may have."""
        options = table.options if options is None else options
        key = table.id, repr(sorted(options.items()))
        with self._lock:
            if key in self._parsed:
                self._parsed[key] = self._parsed.pop(key)  # now the last one used
                return self._parsed[key][0]
        source = parse_table(table, options, self.limits)
        n_bytes = _memory_size(source)
        with self._lock:
            if table.id in self._tables:
                self._parsed[key] = source, n_bytes
                total = sum(size for _, size in self._parsed.values())
                while len(self._parsed) > 1 and total > MAX_EXPANSION * self.limits.bytes:
                    total -= self._parsed.pop(next(iter(self._parsed)))[1]
        return source

    def remove(self, table_id: str) -> None:
        with self._lock:
            table = self._tables.pop(table_id, None)
            for key in [key for key in self._parsed if key[0] == table_id]:
                del self._parsed[key]
        if table is not None:
            shutil.rmtree(table.path.parent, ignore_errors=True)

    def remove_expired(self) -> list[str]:
        """Remove the tables that nobody has used for a while; returns their ids."""
        with self._lock:
            expired = [key for key, table in self._tables.items() if self._expired(table)]
        for table_id in expired:
            self.remove(table_id)
        return expired

    def _expired(self, table: StoredTable) -> bool:
        return not table.n_jobs and table.last_used < self.clock() - 60 * self.limits.keep_minutes

    @contextmanager
    def _new_table(self, name: str) -> Iterator[StoredTable]:
        """Space for one more table, which is stored if the block succeeds."""
        suffix = suffix_of(name)
        self.remove_expired()
        with self._lock:
            if len(self._tables) + len(self._uploads) >= self.limits.tables:
                raise CapacityError(
                    f"the server holds at most {self.limits.tables} tables. Try again later"
                )
            folder = self.folder / secrets.token_hex(16)
            printable = "".join(c if c.isprintable() else " " for c in name)[-MAX_NAME_LENGTH:]
            table = StoredTable(secrets.token_urlsafe(24), printable, folder / f"table{suffix}", 0)
            self._uploads.append(table)
        try:
            folder.mkdir()
            yield table
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        else:
            with self._lock:
                table.last_used = self.clock()
                self._tables[table.id] = table
        finally:
            with self._lock:
                self._uploads.remove(table)

    def _add_size(self, table: StoredTable, n_bytes: int) -> None:
        table.size += n_bytes
        if table.size > self.limits.bytes:
            raise TooLargeError(
                f"a table may have {self.limits.megabytes:g} MB here, but this one is larger. Use "
                "the command line, or start the server with a higher --megabytes"
            )
        with self._lock:
            total = sum(other.size for other in (*self._tables.values(), *self._uploads))
        if total > 1e6 * self.limits.total_megabytes:
            raise CapacityError("the server has no space for more tables now. Try again later")


def suffix_of(name: str) -> str:
    """The suffix of a table's name, if it is an accepted one."""
    for suffix in UPLOAD_SUFFIXES:
        if name.lower().endswith(suffix):
            return suffix
    raise TableError(
        f"the name of a table must end in one of {', '.join(UPLOAD_SUFFIXES)}, but found "
        f"'{name[-MAX_NAME_LENGTH:]}'"
    )


def parse_table(table: StoredTable, options: Options, limits: Limits) -> Source:
    """Parse a table; messages call it by the name it was uploaded with."""
    _refuse_expanding(table, limits)
    text = options.get("locations")
    sidecar = {} if text is None else {"locations": parse_sidecar(str(text), "the coordinates")}
    with _show_as(table.path, table.name):
        source = open_source(
            table.path, max_cells=limits.cells, max_columns=limits.columns, **(options | sidecar)
        )
    return replace(source, name=table.name)


def parse_sidecar(text: str, name: str) -> pd.DataFrame:
    """Parse a small table sent as text, like a CSV file; messages call it by this name."""
    with tempfile.TemporaryDirectory(prefix="cdsa-") as folder:
        path = Path(folder) / "lines.csv"
        path.write_text(text, encoding="utf-8")
        with _show_as(path, name):
            return read_frame(path, max_columns=MAX_SIDECAR_COLUMNS)


@contextmanager
def _show_as(path: Path, name: str) -> Iterator[None]:
    """Replace the path of a file in error messages by the name its sender knows."""
    try:
        yield
    except CdsaError as error:
        pattern = "|".join(map(re.escape, (str(path), path.name)))
        error.args = (re.sub(pattern, lambda _: name, str(error)),)
        raise


def _memory_size(source: Source) -> int:
    """Bytes of a parsed table, approximately: its cube, and its entries to write them again."""
    frame = source.content.frame if isinstance(source.content, Table) else None
    entries = 0 if frame is None else int(frame.memory_usage(deep=True).sum())
    return int(source.cube.nbytes) + entries


def _refuse_expanding(table: StoredTable, limits: Limits) -> None:
    """Refuse a compressed table that becomes much larger than it was sent."""
    max_bytes = MAX_EXPANSION * limits.bytes
    content_size = detect_format(table.path).content_size
    assert content_size is not None  # other formats are not accepted
    try:
        size = content_size(table.path, max_bytes)
    except (OSError, EOFError, ValueError, ImportError, zlib.error):
        return  # parsing will report what is wrong
    if size > max_bytes:
        raise TooLargeError(
            f"a table may have {max_bytes / 1e6:,.0f} MB here after decompression, but "
            f"'{table.name}' has more"
        )
