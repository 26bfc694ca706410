"""Atomic output: files appear complete or not at all."""

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cdsa.core.text import single_line
from cdsa.errors import OutputError


@contextlib.contextmanager
def stage_files(targets: Sequence[Path]) -> Iterator[list[Path]]:
    parts = [target.with_name(f".{target.name}.{os.getpid()}.part") for target in targets]
    shown = " and ".join(str(target) for target in targets)
    try:
        yield parts
        for part in parts:
            if part.is_file():
                with part.open("rb") as file:
                    os.fsync(file.fileno())
        _move(parts, targets)
    except OSError as bad:
        raise OutputError(
            f"{shown} could not be written: {bad.strerror or bad}. Nothing was changed"
        ) from bad
    except UnicodeEncodeError as bad:
        raise OutputError(
            f"{shown} could not be written: '{bad.object[bad.start]}' has no place in "
            f"{bad.encoding}. Nothing was changed. Write Parquet, or save the table as UTF-8 first"
        ) from bad
    except RuntimeError as bad:  # what the NetCDF library says of a full disk
        raise OutputError(
            f"{shown} could not be written: {single_line(bad)}. Nothing was changed"
        ) from bad
    finally:
        for part in parts:
            _remove(part)


@contextlib.contextmanager
def staged(targets: Sequence[Path], *, overwrite: bool = False) -> Iterator[list[Path]]:
    """The same for files that are no tables, whatever their names end with."""
    for target in targets:
        check_file(target, overwrite=overwrite)
    with stage_files(targets) as parts:
        yield parts


def write_texts(pages: Mapping[Path, str], *, overwrite: bool = False) -> None:
    """Write pages of text, all of them or none."""
    with staged(list(pages), overwrite=overwrite) as parts:
        for part, text in zip(parts, pages.values(), strict=True):
            part.write_text(text, encoding="utf-8")


def check_file(target: Path, *, overwrite: bool) -> None:
    """Refuse a file that is there already, is a folder, or has none to be in."""
    if target.is_dir():
        raise OutputError(f"{target} is a folder. Choose another name")
    check_target(target, overwrite=overwrite)


def check_target(target: Path, *, overwrite: bool) -> None:
    if target.exists() and not overwrite:
        raise OutputError(
            f"{target} exists already. Choose another name, or replace it with --overwrite"
        )
    if not target.absolute().parent.is_dir():
        raise OutputError(
            f"there is no folder {target.parent} to write {target.name} into. Make it first"
        )


def make_directory(folder: Path) -> None:
    """Make a folder for outputs, unless it exists."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as bad:
        raise OutputError(f"the folder {folder} could not be made: {bad.strerror or bad}") from bad


def _move(parts: Sequence[Path], targets: Sequence[Path]) -> None:
    """Put every part in its target's place; if one cannot be, all is as it was before."""
    asides: list[tuple[Path, Path]] = []
    placed: list[Path] = []
    try:
        for part, target in zip(parts, targets, strict=True):
            # one file is replaced in one go; of several, or of folders, the old ones step aside
            if target.exists() and (target.is_dir() or len(targets) > 1):
                aside = part.with_suffix(".old")
                target.rename(aside)
                asides.append((aside, target))
            part.replace(target)
            placed.append(target)
    except OSError:
        for target in placed:
            _remove(target)
        for aside, target in asides:
            aside.rename(target)
        raise
    for aside, _ in asides:
        _remove(aside)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _fsync_directory(folder: Path) -> None:
    """Have a change of names in a folder outlast a power cut, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        number = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that it appears whole or not at all, whatever happens meanwhile."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        _fsync_directory(path.parent)
    except OSError as bad:
        part.unlink(missing_ok=True)
        raise OutputError(f"{path} could not be written: {bad.strerror or bad}") from bad
