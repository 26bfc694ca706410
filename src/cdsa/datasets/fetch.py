"""Where files of public data sets are found, and how they are downloaded."""

import contextlib
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile

from cdsa.datasets.spec import DatasetSpec, Download, Files, FileSet
from cdsa.errors import ConfigError, OutputError

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


def find_files(file_set: FileSet, folders: Sequence[Path]) -> Files | None:
    """The files of a form, all from one folder: a given one or one right in it; None if one is
    absent."""
    for folder in folders:
        for there in _listed(folder):
            found = {name: _matching(name, there) for name in (*file_set.files, *file_set.optional)}
            if all(found[name] for name in file_set.files):
                return {name: paths for name, paths in found.items() if paths}
    return {} if not file_set.files else None


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


TIMEOUT_SECONDS = 60


Told = Callable[[str], None]


def download(data: DatasetSpec, folder: Path, on_start: Told = lambda what: None) -> list[Path]:
    """Bring the files of a data set into `folder`; those that are there already stay."""
    brought: list[Path] = []
    for address in data.downloads:
        absent = [name for name in address.files if not (folder / name).exists()]
        if absent:
            on_start(address.url)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with TemporaryDirectory(dir=folder, prefix=".part-") as part:
                    _fetch(data, address, folder, Path(part), absent)
            except OSError as bad:
                raise OutputError(f"{folder} cannot be written to: {bad.strerror or bad}") from bad
            finally:
                with contextlib.suppress(OSError):  # there is something in it
                    folder.rmdir()
        brought += [folder / name for name in absent]
    return brought


def _fetch(
    data: DatasetSpec, address: Download, folder: Path, part: Path, names: list[str]
) -> None:
    """One address into a folder of its own; then what is wanted of it, each under its name."""
    got = part / "download"
    try:
        with (
            urllib.request.urlopen(address.url, timeout=TIMEOUT_SECONDS) as reply,
            got.open("wb") as file,
        ):
            promised = int(reply.headers.get("Content-Length") or 0)
            shutil.copyfileobj(reply, file)
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as bad:
        reason = getattr(bad, "reason", bad)
        raise ConfigError(
            f"{address.url} could not be reached ({reason}). Without a connection, get the files "
            f"on another machine ({data.manual_steps}), copy them to {folder}, or give their "
            "folder with --data DIR or CDSA_DATA"
        ) from bad
    _refuse_strange(data, address, got, promised)
    for name in names:
        ready = got
        if address.url.endswith(".zip"):
            ready = part / name
            _unpack(address, got, name, ready)
        ready.replace(folder / name)


def _refuse_strange(data: DatasetSpec, address: Download, got: Path, promised: int) -> None:
    """Refuse what was cut off on the way, and a page in place of a file."""
    came = got.stat().st_size
    with got.open("rb") as file:
        page = file.read(64).lstrip().lower().startswith((b"<!doctype", b"<html"))
    if page or came < promised:
        why = "a web page came instead" if page else f"{came:,} of {promised:,} bytes came"
        raise ConfigError(
            f"{address.url} could not be downloaded: {why}. Nothing was kept. Try again, or get "
            f"the files by hand: {data.manual_steps}"
        )


def _unpack(address: Download, archive: Path, name: str, target: Path) -> None:
    """The member of an archive with this last name; its folders are not used as paths."""
    try:
        with ZipFile(archive) as packed:
            found = [one for one in packed.namelist() if one.rsplit("/", 1)[-1] == name]
            if not found:
                raise ConfigError(f"{address.url} should have {name} in it, but has not")
            with packed.open(found[0]) as member, target.open("wb") as file:
                shutil.copyfileobj(member, file)
    except BadZipFile as bad:
        raise ConfigError(f"{address.url} should be a zip archive, but what came is none") from bad
