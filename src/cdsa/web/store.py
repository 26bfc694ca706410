"""The tables that visitors sent, each under an id that nobody can guess.

A table is a file in a folder of its own. Its name is shown and never used as a path; what it ends
with says how it is read. Tables that nobody asks for are forgotten after a while, and all of them
when the server ends.
"""

import asyncio
import gzip
import re
import secrets
import shutil
import tempfile
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from cdsa.errors import CdsaError, TableError
from cdsa.io.sidecars import open_sidecar
from cdsa.io.source import Source, open_source
from cdsa.io.table import Table
from cdsa.web.limits import Limits

ENDS = (".csv", ".csv.gz", ".tsv", ".txt", ".parquet")
"""What may be sent; all of it is parsed as data."""


MOST_NAME = 120


UNPACKED = 8
"""How many times larger a packed table may become."""


BYTES_OF_AN_ENTRY = 8
"""In memory, at the least."""


COLUMNS_BESIDE = 100
"""Of a small table beside the data."""


class NotThereError(CdsaError):
    """An id that nobody has, or not any more."""


class TooMuchError(CdsaError):
    """More than a server can hold; it may be less later."""


class TooLargeError(CdsaError):
    """A table that is larger than a server takes."""


@dataclass(eq=False)
class Held:
    """A table that was sent."""

    id: str
    name: str
    path: Path
    size: int
    reading: dict[str, object] = field(default_factory=dict)
    """How it is read, by the names of `cdsa.open_source`."""

    touched: float = 0.0
    jobs: int = 0
    """That are about it, waiting or running: it is not forgotten meanwhile."""


class Opened(NamedTuple):
    """A table that was read, and the memory it takes."""

    source: Source
    bytes: int


def _bytes_of(source: Source) -> int:
    """What an open table takes, about: its cube, and its entries to write them again."""
    frame = source.content.frame if isinstance(source.content, Table) else None
    entries = 0 if frame is None else int(frame.memory_usage(deep=True).sum())
    return int(source.cube.nbytes) + entries


def _key(held: Held, reading: dict[str, object]) -> tuple[str, str]:
    return held.id, repr(sorted(reading.items()))


class Shelf:
    """All tables there are."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits, self.clock = limits, clock
        self.folder = Path(tempfile.mkdtemp(prefix="cdsa-"))
        self._held: dict[str, Held] = {}
        self._opened: dict[tuple[str, str], Opened] = {}
        self._lock = threading.Lock()
        self._coming: list[Held] = []

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._held.clear()
            self._opened.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def take(self, name: str, chunks: AsyncIterator[bytes]) -> Held:
        """Keep what is sent, if it is not too much."""
        with self._arriving(name) as held:
            try:
                async with asyncio.timeout(60 * self.limits.sending_minutes):
                    await self._write(held, chunks)
            except TimeoutError:
                raise TooMuchError(
                    f"a table must arrive within {self.limits.sending_minutes:g} minutes, but this "
                    "one did not. Send it again, packed as .csv.gz if the way is slow"
                ) from None
            if not held.size:
                raise TableError(f"'{held.name}' is empty")
        return held

    async def _write(self, held: Held, chunks: AsyncIterator[bytes]) -> None:
        with held.path.open("wb") as file:
            async for chunk in chunks:
                self._count(held, len(chunk))
                file.write(chunk)

    def keep(self, name: str, path: Path) -> Held:
        """Keep a copy of a file that is here already."""
        with self._arriving(name) as held:
            shutil.copyfile(path, held.path)
            held.size = held.path.stat().st_size
        return held

    def get(self, key: str) -> Held:
        """The table of this id."""
        with self._lock:
            held = self._held.get(key)
            if held is None or self._old(held):
                raise NotThereError("there is no such table, or it was forgotten. Send it again")
            held.touched = self.clock()
            return held

    def source(self, held: Held, reading: dict[str, object] | None = None) -> Source:
        """The table, read; the last ones are kept open for the next question, as many as take no
        more memory together than a single one may."""
        reading = held.reading if reading is None else reading
        key = _key(held, reading)
        with self._lock:
            if key in self._opened:
                self._opened[key] = self._opened.pop(key)
                return self._opened[key].source
        return self._opened_anew(held, reading)

    def read_again(self, held: Held, reading: dict[str, object]) -> Source:
        """The table, read with other options from now on; if it cannot be, nothing changes."""
        source = self._opened_anew(held, reading)
        held.reading = reading
        return source

    def _opened_anew(self, held: Held, reading: dict[str, object]) -> Source:
        source = open_here(held, reading, self.limits)
        opened = Opened(source, _bytes_of(source))
        with self._lock:
            if held.id in self._held:
                self._opened[_key(held, reading)] = opened
                most = UNPACKED * self.limits.bytes
                while len(self._opened) > 1 and sum(o.bytes for o in self._opened.values()) > most:
                    self._opened.pop(next(iter(self._opened)))
        return source

    def forget(self, key: str) -> None:
        """Forget a table."""
        with self._lock:
            held = self._held.pop(key, None)
            for opened in [one for one in self._opened if one[0] == key]:
                del self._opened[opened]
        if held is not None:
            shutil.rmtree(held.path.parent, ignore_errors=True)

    def sweep(self) -> list[str]:
        """Forget what nobody asked for in a while; the ids of what is gone."""
        with self._lock:
            gone = [key for key, held in self._held.items() if self._old(held)]
        for key in gone:
            self.forget(key)
        return gone

    def _old(self, held: Held) -> bool:
        """Whether nobody has asked for it in a while."""
        return not held.jobs and held.touched < self.clock() - 60 * self.limits.keep_minutes

    def has(self, key: str) -> bool:
        """Whether a table is kept, without asking for it."""
        return key in self._held

    @property
    def count(self) -> int:
        """Tables that are kept."""
        return len(self._held)

    @contextmanager
    def _arriving(self, name: str) -> Iterator[Held]:
        """Room for one more table, which is kept when all of it is there."""
        end = end_of(name)
        self.sweep()
        with self._lock:
            if len(self._held) + len(self._coming) >= self.limits.tables:
                raise TooMuchError(
                    f"{self.limits.tables} tables are kept at the same time at the most. Try again "
                    "later"
                )
            folder = self.folder / secrets.token_hex(16)
            shown = "".join(c if c.isprintable() else " " for c in name)[-MOST_NAME:]
            held = Held(secrets.token_urlsafe(24), shown, folder / f"table{end}", 0)
            self._coming.append(held)
        try:
            folder.mkdir()
            yield held
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        else:
            with self._lock:
                held.touched = self.clock()
                self._held[held.id] = held
        finally:
            with self._lock:
                self._coming.remove(held)

    def _count(self, held: Held, more: int) -> None:
        held.size += more
        if held.size > self.limits.bytes:
            raise TooLargeError(
                f"a table may have {self.limits.megabytes:g} MB here, but this one is larger. Fill "
                "it on the command line, or start the server with a higher --megabytes"
            )
        with self._lock:
            total = sum(one.size for one in (*self._held.values(), *self._coming))
        if total > 1e6 * self.limits.total_megabytes:
            raise TooMuchError("there is no room for more tables now. Try again later")


def end_of(name: str) -> str:
    """What the name of a table ends with, if it is one that can be read here."""
    for end in sorted(ENDS, key=len, reverse=True):
        if name.lower().endswith(end):
            return end
    raise TableError(f"a table ends in one of {', '.join(ENDS)}, but found '{name[-MOST_NAME:]}'")


def open_here(held: Held, reading: dict[str, object], limits: Limits) -> Source:
    """Read a table with these options; messages call it by the name it was sent with."""
    _refuse_swollen(held, limits)
    text = reading.get("locations")
    places = {} if text is None else {"locations": table_in(str(text), "the coordinates")}
    with _called(held.path, held.name):
        return open_source(
            held.path,
            max_cells=limits.cells,
            max_columns=limits.columns,
            **(reading | places),
        )


def table_in(text: str, name: str) -> pd.DataFrame:
    """A small table that was sent as text, read as a CSV file is; messages call it by this name."""
    with tempfile.TemporaryDirectory(prefix="cdsa-") as folder:
        path = Path(folder) / "lines.csv"
        path.write_text(text, encoding="utf-8")
        with _called(path, name):
            return open_sidecar(path, max_columns=COLUMNS_BESIDE)


@contextmanager
def _called(path: Path, name: str) -> Iterator[None]:
    """Messages about a file call it by the name that its sender knows."""
    try:
        yield
    except CdsaError as bad:
        either = "|".join(map(re.escape, (str(path), path.name)))
        bad.args = (re.sub(either, lambda _: name, str(bad)),)
        raise


def _refuse_swollen(held: Held, limits: Limits) -> None:
    """Refuse a packed table that becomes much larger than it was sent."""
    most = UNPACKED * limits.bytes
    large = 0
    try:
        if held.path.name.endswith(".gz"):
            with gzip.open(held.path) as file:
                while large <= most and (part := file.read(1 << 20)):
                    large += len(part)
        elif held.path.suffix == ".parquet":
            large = _unpacked(held.path, most)
    except (OSError, EOFError, ValueError, ImportError, zlib.error):
        return  # reading it will say what is wrong
    if large > most:
        raise TooLargeError(
            f"unpacked, a table may have {most / 1e6:,.0f} MB here, but '{held.name}' has more"
        )


def _unpacked(path: Path, most: int) -> int:
    """What a Parquet file takes in memory, about; text that is said again and again takes hardly
    any room in the file. Looks no further than to what is too much."""
    from pyarrow import compute, parquet, types

    file = parquet.ParquetFile(path)
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    entries = sum(
        group.column(number).num_values for group in groups for number in range(group.num_columns)
    )
    large = max(sum(group.total_byte_size for group in groups), BYTES_OF_AN_ENTRY * entries)
    schema = file.schema_arrow
    text = [
        one.name for one in schema if types.is_string(one.type) or types.is_large_string(one.type)
    ]
    if not text or large > most:
        return int(large)
    once = parquet.ParquetFile(path, read_dictionary=text)
    for batch in once.iter_batches(columns=text):
        for column in batch.columns:
            lengths = compute.binary_length(column.dictionary).take(column.indices)
            large += compute.sum(lengths).as_py() or 0
        if large > most:
            break
    return int(large)
