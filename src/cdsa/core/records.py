"""Results files: append-only JSON lines with provenance."""

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
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

Value = str | int | float | bool | None
Record = Mapping[str, Value]


def provenance(command: str) -> dict[str, Value]:
    """What is needed to reproduce a result: command, commit, machine, versions, time."""
    return {
        "command": command,
        "commit": _commit(),
        "version": version("cdsa"),
        "machine": f"{processor()}, {os.cpu_count()} cores, {platform.system()}",
        "python": platform.python_version(),
        "when": now(),
    }


def now() -> str:
    """The current time in UTC, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def processor() -> str:
    """The processor by name, and whether it computes in bfloat16: minutes of training mean more
    steps there."""
    try:
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:  # not on Linux
        return platform.machine()
    info = {name.strip(): text.strip() for name, _, text in (x.partition(":") for x in lines)}
    flags = [" with bfloat16"] if "avx512_bf16" in info.get("flags", "").split() else []
    return "".join([info.get("model name", platform.machine()), *flags])


def _commit() -> str:
    """The commit of the source tree, marked if it has changes; 'none' outside a repository."""

    def git(*args: str) -> str:
        result = subprocess.run(
            ["git", *args], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
        return result.stdout.strip()

    try:
        changed = bool(git("status", "--porcelain", "--untracked-files=no", "--", "."))
        return git("rev-parse", "--short=12", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "none"


def to_json_value(value: object) -> Value:
    """A value that JSON can hold; a number that is not finite becomes null."""
    if isinstance(value, str | bool | None):
        return value
    number = float(value)  # type: ignore[arg-type]
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and not isinstance(value, float) else number


def append_results(path: str | Path, records: Iterable[Record]) -> None:
    """Append records to a results file, one JSON object per line.

    An incomplete record that a killed process left at the end is removed first. Concurrent writers
    take turns if the system supports locks.
    """
    lines = "".join(json.dumps(dict(record)) + "\n" for record in records).encode()
    try:
        with Path(path).open("ab+") as file:
            lock_file(file)
            file.seek(0)
            end, last = _parse_end(file.read(), path)
            if last is not None:
                lines = json.dumps(last).encode() + b"\n" + lines
            file.truncate(end)
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
    except OSError as bad:
        raise OutputError(f"{path} could not be written: {bad.strerror or bad}") from bad


def can_lock() -> bool:
    """Whether the system can lock files."""
    return fcntl is not None


def lock_file(file: IO[bytes], *, wait: bool = True) -> bool:
    """Lock a file until it is closed, if the system supports it; False if another process has the
    lock."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _parse_end(content: bytes, path: str | Path) -> tuple[int, dict[str, Value] | None]:
    """The end of the last complete line, and a record after it that only lacks its newline."""
    end = content.rfind(b"\n") + 1
    rest = content[end:].strip()
    if not rest:
        return end, None
    if not rest.startswith(b"{"):
        raise ConfigError(f"{path} does not end with a record. Is it a results file?")
    try:
        record: dict[str, Value] = json.loads(rest)
    except ValueError:  # cut off when its writer was killed
        return end, None
    return end, record


def read_results(path: str | Path) -> list[dict[str, Value]]:
    """All records of a results file, without an incomplete last one."""
    try:
        content = Path(path).read_bytes()
        end, last = _parse_end(content, path)
        lines = content[:end].decode().split("\n")
    except OSError as bad:
        raise ConfigError(f"{path} cannot be read: {bad.strerror or bad}") from bad
    except UnicodeDecodeError as bad:
        raise ConfigError(f"{path} is not a results file: {bad}") from bad
    records: list[dict[str, Value]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            record = None
        if not isinstance(record, dict):
            raise ConfigError(
                f"line {number} of {path} is not a record (one JSON object). Is it a results file, "
                "as written by 'cdsa paper run --results'? If so, delete that line"
            )
        records.append(record)
    return records + ([last] if last is not None else [])
