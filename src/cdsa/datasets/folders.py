"""Where the files of data sets are looked for."""

import os
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from cdsa.datasets.kinds import Files, Form
from cdsa.errors import ConfigError

VARIABLE = "CDSA_DATA"


def data_folders(given: str | Path | None = None) -> list[Path]:
    """The folders to look in: the given one; else that of CDSA_DATA, then the user's cache."""
    if given is not None:
        if not Path(given).is_dir():
            raise ConfigError(f"--data must be a folder, but {given} is none")
        return [Path(given)]
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
    """The files of a form, all from one folder: a given one or one right in it; None if one is
    absent."""
    for folder in folders:
        for there in _listed(folder):
            found = {name: _matching(name, there) for name in (*form.files, *form.optional)}
            if all(found[name] for name in form.files):
                return {name: paths for name, paths in found.items() if paths}
    return {} if not form.files else None


def _listed(folder: Path) -> list[list[Path]]:
    """The files of a folder, and of each of those right in it."""
    try:
        inside = sorted(folder.iterdir()) if folder.is_dir() else []
        places = [folder, *(path for path in inside if path.is_dir())] if inside else []
        return [sorted(path for path in place.iterdir() if path.is_file()) for place in places]
    except OSError as bad:
        raise ConfigError(f"{folder} cannot be read: {bad.strerror or bad}") from bad


def _matching(name: str, paths: Sequence[Path]) -> list[Path]:
    return [path for path in paths if fnmatch(path.name.lower(), name.lower())]
