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

from cdsa.errors import ConfigError, OutputError

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
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }


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


def plain(value: object) -> Value:
    """A value as JSON can hold it; what is not a finite number becomes null."""
    if isinstance(value, str | bool | None):
        return value
    number = float(value)  # type: ignore[arg-type]
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and not isinstance(value, float) else number


def append_results(path: str | Path, records: Iterable[Record]) -> None:
    """Add records to a results file, one JSON object a line."""
    lines = "".join(json.dumps(dict(record)) + "\n" for record in records)
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(lines)
    except OSError as bad:
        raise OutputError(f"{path} could not be written: {bad.strerror or bad}") from bad


def read_results(path: str | Path) -> list[dict[str, Value]]:
    """All records of a results file."""
    records = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError as bad:
            raise ConfigError(f"line {number} of {path} is not JSON: {bad}. Remove it") from bad
    return records
