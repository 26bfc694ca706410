"""Where the files of data sets are looked for."""

import os
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from cdsa.datasets.kinds import Files, Form
from cdsa.errors import ConfigError

VARIABLE = "CDSA_DATA"


def data_folders(given: Path | None = None) -> list[Path]:
    """The folders to look in: the given one; else that of CDSA_DATA, then the user's cache."""
    if given is not None:
        if not given.is_dir():
            raise ConfigError(f"--data must be a folder, but {given} is none")
        return [given]
    named = os.environ.get(VARIABLE)
    if not named:
        return [cache_folder()]
    if not Path(named).is_dir():
        raise ConfigError(f"{VARIABLE} must name a folder, but {named} is none")
    return [Path(named), cache_folder()]


def cache_folder() -> Path:
    """The folder that downloads go to."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "cdsa"


def find_form(form: Form, folders: Sequence[Path]) -> Files | None:
    """The files of a form, from one folder and those right in it; None if one is absent."""
    for folder in folders:
        there = _listed(folder)
        found = {name: _matching(name, there) for name in (*form.files, *form.optional)}
        if all(found[name] for name in form.files):
            return {name: paths for name, paths in found.items() if paths}
    return None


def _listed(folder: Path) -> list[Path]:
    try:
        below = sorted(path for path in folder.glob("*/*") if path.is_file())
        return [*sorted(path for path in folder.glob("*") if path.is_file()), *below]
    except OSError as bad:
        raise ConfigError(f"{folder} cannot be read: {bad.strerror or bad}") from bad


def _matching(name: str, paths: Sequence[Path]) -> list[Path]:
    return [path for path in paths if fnmatch(path.name.lower(), name.lower())]
