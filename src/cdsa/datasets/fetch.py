"""Finding and downloading the files of public datasets."""

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
TIMEOUT_SECONDS = 60


def data_folders(folder: str | Path | None = None) -> list[Path]:
    """The folders to search: the given one; else that of CDSA_DATA, then the user's cache."""
    if folder is not None:
        if not Path(folder).is_dir():
            raise ConfigError(f"--data must be a folder, but {folder} is not one")
        return [Path(folder)]
    variable = os.environ.get(VARIABLE)
    if not variable:
        return [cache_folder()]
    if not Path(variable).is_dir():
        raise ConfigError(f"{VARIABLE} must name a folder, but {variable} is not one")
    return [Path(variable), cache_folder()]


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "cdsa"


def find_files(file_set: FileSet, folders: Sequence[Path]) -> Files | None:
    """The files of a set, all from one folder or one of its direct subfolders; None if a required
    file is missing."""
    for folder in folders:
        for paths in _list_files(folder):
            matches = {
                pattern: [p for p in paths if fnmatch(p.name.lower(), pattern.lower())]
                for pattern in (*file_set.files, *file_set.optional)
            }
            if all(matches[pattern] for pattern in file_set.files):
                return {pattern: found for pattern, found in matches.items() if found}
    return {} if not file_set.files else None


def _list_files(folder: Path) -> list[list[Path]]:
    """The files of a folder, and of each of its direct subfolders."""
    try:
        entries = sorted(folder.iterdir()) if folder.is_dir() else []
        folders = [folder, *(path for path in entries if path.is_dir())] if entries else []
        return [sorted(path for path in f.iterdir() if path.is_file()) for f in folders]
    except OSError as bad:
        raise ConfigError(f"{folder} cannot be read: {bad.strerror or bad}") from bad


def download(
    spec: DatasetSpec, folder: Path, on_start: Callable[[str], None] = lambda url: None
) -> list[Path]:
    """Download the files of a dataset into `folder`, except those that exist; `on_start` gets the
    address of each download."""
    paths: list[Path] = []
    for source in spec.downloads:
        missing = [name for name in source.files if not (folder / name).exists()]
        if missing:
            on_start(source.url)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with TemporaryDirectory(dir=folder, prefix=".part-") as temp_folder:
                    _fetch(spec, source, folder, Path(temp_folder), missing)
            except OSError as bad:
                raise OutputError(f"{folder} cannot be written to: {bad.strerror or bad}") from bad
            finally:
                with contextlib.suppress(OSError):  # it is not empty
                    folder.rmdir()
        paths += [folder / name for name in missing]
    return paths


def _fetch(
    spec: DatasetSpec, source: Download, folder: Path, temp_folder: Path, names: list[str]
) -> None:
    """Download one address to a temporary folder, then move the named files to `folder`."""
    downloaded = temp_folder / "download"
    try:
        with (
            urllib.request.urlopen(source.url, timeout=TIMEOUT_SECONDS) as response,
            downloaded.open("wb") as file,
        ):
            expected_size = int(response.headers.get("Content-Length") or 0)
            shutil.copyfileobj(response, file)
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as bad:
        reason = getattr(bad, "reason", bad)
        raise ConfigError(
            f"{source.url} could not be reached ({reason}). Without a connection, get the files on "
            f"another machine ({spec.manual_steps}), copy them to {folder}, or give their folder "
            "with --data DIR or CDSA_DATA"
        ) from bad
    size = downloaded.stat().st_size
    with downloaded.open("rb") as file:
        is_page = file.read(64).lstrip().lower().startswith((b"<!doctype", b"<html"))
    if is_page or size < expected_size:
        content = "a web page instead" if is_page else f"{size:,} of {expected_size:,} bytes"
        raise ConfigError(
            f"{source.url} could not be downloaded: received {content}. Nothing was saved. Try "
            f"again, or get the files by hand: {spec.manual_steps}"
        )
    for name in names:
        ready = downloaded
        if source.url.endswith(".zip"):
            ready = temp_folder / name
            _extract(source, downloaded, name, ready)
        ready.replace(folder / name)


def _extract(source: Download, archive: Path, name: str, target: Path) -> None:
    """Extract the member of an archive with this base name; its path is ignored."""
    try:
        with ZipFile(archive) as zip_file:
            members = [m for m in zip_file.namelist() if m.rsplit("/", 1)[-1] == name]
            if not members:
                raise ConfigError(f"{source.url} should contain {name}, but does not")
            with zip_file.open(members[0]) as member, target.open("wb") as file:
                shutil.copyfileobj(member, file)
    except BadZipFile as bad:
        raise ConfigError(
            f"{source.url} should be a zip archive, but the download is not one"
        ) from bad
