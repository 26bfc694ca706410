"""Uploaded tables, each under an id that nobody can guess.

A table is a file in a folder of its own. Its name is shown but never used as a path; its suffix
decides how it is parsed. Tables that nobody uses are removed after a while, and all of them when
the server stops.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from cdsa.core.records import can_lock, lock_file
from cdsa.errors import CdsaError, TableError
from cdsa.web.limits import Limits
from cdsa.web.parsing import (
    MAX_EXPANSION,
    MAX_NAME_LENGTH,
    Options,
    ParsedTable,
    TooLargeError,
    parse_to_folder,
    suffix_of,
)

Run = Callable[[Callable[[], ParsedTable], Path], ParsedTable]
"""Runs a function; its temporary files go into a folder."""


PREFIX, LOCK = "cdsa-server-", "lock"
"""Of the folder of a server, and the file in it that is locked as long as the server lives."""


class NotFoundError(CdsaError):
    """An id or a name that does not exist, or no longer exists."""


class CapacityError(CdsaError):
    """More than the server can take now; trying again later may work."""


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

    client: str = ""
    """The address that it was uploaded from."""


class TableStore:
    """Uploaded tables. `run` calls a function that parses one, perhaps in another process."""

    def __init__(
        self,
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
        run: Run = lambda parse, folder: parse(),
    ) -> None:
        self.limits, self.clock, self.run = limits, clock, run
        remove_leftovers()
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._alive = (self.folder / LOCK).open("wb")
        lock_file(self._alive)
        self._tables: dict[str, StoredTable] = {}
        self._uploads: list[StoredTable] = []
        self._parsed: dict[tuple[str, str], ParsedTable] = {}
        self._parsing: dict[tuple[str, str], threading.Lock] = {}
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
        self._alive.close()

    async def receive(
        self, name: str, chunks: AsyncIterator[bytes], client: str = ""
    ) -> StoredTable:
        """Store an upload of a client, which must not be slow."""
        limits = self.limits
        with self._new_table(name, client) as table:
            started = asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout(limits.upload_seconds) as timeout:
                    with table.path.open("wb") as file:
                        async for chunk in chunks:
                            self._add_size(table, len(chunk))
                            file.write(chunk)
                            allowed = limits.upload_seconds + table.size / limits.upload_rate
                            allowed = min(allowed, 60 * limits.upload_minutes)
                            timeout.reschedule(started + allowed)
            except TimeoutError:
                raise CapacityError(
                    f"an upload has at least {limits.upload_rate:,.0f} bytes a second and takes "
                    f"{limits.upload_minutes:g} minutes at most, but this one was slower. Try "
                    "again, with the table compressed as .csv.gz if your connection is slow"
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

    def parsed(self, table: StoredTable, options: Options | None = None) -> ParsedTable:
        """The table parsed with its own options or others. It is parsed once; the files of those
        that were not used for the longest time are removed, but for the jobs that have them."""
        options = table.options if options is None else options
        key = table.id, repr(sorted(options.items()))
        with self._lock:
            parsing = self._parsing.setdefault(key, threading.Lock())
        with parsing:
            with self._lock:
                if key in self._parsed:
                    self._parsed[key] = self._parsed.pop(key)  # now the last one used
                    return self._parsed[key]
            folder = table.path.parent / f"parsed-{secrets.token_hex(8)}"
            parse = partial(parse_to_folder, table.path, table.name, options, self.limits, folder)
            try:
                parsed = self.run(parse, table.path.parent)
            finally:
                with self._lock:
                    self._parsing.pop(key, None)
            removed = self._keep(table, key, parsed)
        for old_table in removed:
            shutil.rmtree(old_table.folder, ignore_errors=True)
        return parsed

    def _keep(
        self, table: StoredTable, key: tuple[str, str], parsed: ParsedTable
    ) -> list[ParsedTable]:
        """Remember a parsed table; returns those for which there is no space any more."""
        removed: list[ParsedTable] = []
        with self._lock:
            if table.id not in self._tables:
                return removed
            self._parsed[key] = parsed
            total = sum(other.bytes for other in self._parsed.values())
            for old in list(self._parsed)[:-1]:
                if total <= MAX_EXPANSION * self.limits.bytes:
                    break
                removed.append(self._parsed.pop(old))
                total -= removed[-1].bytes
        return removed

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
    def _new_table(self, name: str, client: str = "") -> Iterator[StoredTable]:
        """Space for one more table, which is stored if the block succeeds."""
        suffix = suffix_of(name)
        self.remove_expired()
        with self._lock:
            if len(self._tables) + len(self._uploads) >= self.limits.tables:
                raise CapacityError(
                    f"the server holds at most {self.limits.tables} tables. Try again later"
                )
            if client and sum(x.client == client for x in self._uploads) >= self.limits.uploads:
                raise CapacityError(
                    f"at most {self.limits.uploads} uploads of one client run at the same time. "
                    "Wait until one of them has ended"
                )
            folder = self.folder / secrets.token_hex(16)
            printable = "".join(c if c.isprintable() else " " for c in name)[-MAX_NAME_LENGTH:]
            path, table_id = folder / f"table{suffix}", secrets.token_urlsafe(24)
            table = StoredTable(table_id, printable, path, 0, client=client)
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


def remove_leftovers() -> None:
    """Remove the folders of servers of this user that were killed."""
    folders = Path(tempfile.gettempdir()).glob(f"{PREFIX}*") if can_lock() else ()
    for folder in folders:
        with contextlib.suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / LOCK).open("rb+") as file:
                is_left = lock_file(file, wait=False)
            if is_left:
                shutil.rmtree(folder, ignore_errors=True)
