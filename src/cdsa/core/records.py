"""Results: who, on what, with which settings, scored what; kept as JSON lines that only grow."""

import json
import math
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO

from cdsa.errors import ConfigError, OutputError

try:
    import fcntl
except ImportError:  # not a system with locks of this kind
    fcntl = None  # type: ignore[assignment]


Value = str | int | float | bool | None


Record = Mapping[str, Value]


def provenance(command: str) -> dict[str, Value]:
    """What one must know to measure again: command, commit, machine, versions, moment."""
    return {
        "command": command,
        "commit": _commit(),
        "version": version("cdsa"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "python": platform.python_version(),
        "when": now(),
    }


def now() -> str:
    """This moment, as records tell it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _commit() -> str:
    """The commit of the source tree we run from, marked if changed; 'none' outside one."""

    def git(*words: str) -> str:
        here = Path(__file__).parent
        done = subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        changed = bool(git("status", "--porcelain", "--untracked-files=no", "--", "."))
        return git("rev-parse", "--short=12", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "none"


def to_json_value(value: object) -> Value:
    """A value as JSON can hold it; what is not a finite number becomes null."""
    if isinstance(value, str | bool | None):
        return value
    number = float(value)  # type: ignore[arg-type]
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and not isinstance(value, float) else number


def append_results(path: str | Path, records: Iterable[Record]) -> None:
    """Add records to a results file, one JSON object a line, in one go.

    A record that a killed writer left unfinished at the end is taken off first. Writers take turns,
    where the system can see to it.
    """
    lines = "".join(json.dumps(dict(record)) + "\n" for record in records).encode()
    try:
        with Path(path).open("ab+") as file:
            lock_file(file)
            file.seek(0)
            whole, last = _parted(file.read(), path)
            if last is not None:
                lines = json.dumps(last).encode() + b"\n" + lines
            file.truncate(whole)
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
    except OSError as bad:
        raise OutputError(f"{path} could not be written: {bad.strerror or bad}") from bad


def lock_file(file: IO[bytes], *, wait: bool = True) -> bool:
    """Have a file to oneself until it is closed, where the system sees to it; whether one has."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _parted(content: bytes, path: str | Path) -> tuple[int, dict[str, Value] | None]:
    """Where the last whole line ends, and the record behind it that only lacks its line's end."""
    whole = content.rfind(b"\n") + 1
    rest = content[whole:].strip()
    if not rest:
        return whole, None
    if not rest.startswith(b"{"):
        raise ConfigError(f"{path} does not end with a record. Is it a file of results?")
    try:
        record: dict[str, Value] = json.loads(rest)
    except ValueError:  # cut off when its writer was killed
        return whole, None
    return whole, record


def _strange(path: str | Path, number: int) -> str:
    return (
        f"line {number} of {path} is not a record (one JSON object). Is it a file of results, as "
        "'cdsa reproduce --results' keeps it? If so, take that line out"
    )


def read_results(path: str | Path) -> list[dict[str, Value]]:
    """All records of a results file, without a last one that was cut off."""
    try:
        content = Path(path).read_bytes()
        whole, last = _parted(content, path)
        lines = content[:whole].decode().split("\n")
    except OSError as bad:
        raise ConfigError(f"{path} cannot be read: {bad.strerror or bad}") from bad
    except UnicodeDecodeError as bad:
        raise ConfigError(f"{path} is not a file of results: {bad}") from bad
    records: list[dict[str, Value]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as bad:
            raise ConfigError(f"{_strange(path, number)}: {bad}") from bad
        if not isinstance(record, dict):
            raise ConfigError(_strange(path, number))
        records.append(record)
    return records + ([last] if last is not None else [])
