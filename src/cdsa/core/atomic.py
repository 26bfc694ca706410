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
    """Temporary files to write to; on success all of them replace their targets."""
    temp_files = [target.with_name(f".{target.name}.{os.getpid()}.part") for target in targets]
    try:
        yield temp_files
        for temp_file in temp_files:
            if temp_file.is_file():
                with temp_file.open("rb") as file:
                    os.fsync(file.fileno())
        _move(temp_files, targets)
    except (OSError, UnicodeEncodeError, RuntimeError) as bad:  # the last from NetCDF: disk full
        reason, advice = getattr(bad, "strerror", None) or single_line(bad), ""
        if isinstance(bad, UnicodeEncodeError):
            reason = f"'{bad.object[bad.start]}' cannot be encoded in {bad.encoding}"
            advice = ". Write Parquet, or save the table as UTF-8 first"
        names = " and ".join(str(target) for target in targets)
        raise OutputError(
            f"{names} could not be written: {reason}. Nothing was changed{advice}"
        ) from bad
    finally:
        for temp_file in temp_files:
            _remove(temp_file)


@contextlib.contextmanager
def staged(targets: Sequence[Path], *, overwrite: bool = False) -> Iterator[list[Path]]:
    """Check the targets, then stage them."""
    for target in targets:
        check_file(target, overwrite=overwrite)
    with stage_files(targets) as temp_files:
        yield temp_files


def write_texts(pages: Mapping[Path, str], *, overwrite: bool = False) -> None:
    """Write text files, all of them or none."""
    with staged(list(pages), overwrite=overwrite) as temp_files:
        for temp_file, text in zip(temp_files, pages.values(), strict=True):
            temp_file.write_text(text, encoding="utf-8")


def check_file(target: Path, *, overwrite: bool, may_be_folder: bool = False) -> None:
    """Refuse a target that exists, is a folder, or is in a folder that does not exist."""
    if target.is_dir() and not may_be_folder:
        raise OutputError(f"{target} is a folder. Choose another name")
    if target.exists() and not overwrite:
        raise OutputError(
            f"{target} already exists. Choose another name, or replace it with --overwrite"
        )
    if not target.absolute().parent.is_dir():
        raise OutputError(
            f"there is no folder {target.parent} to write {target.name} into. Create it first"
        )


def make_directory(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as bad:
        raise OutputError(
            f"the folder {folder} could not be created: {bad.strerror or bad}"
        ) from bad


def _move(temp_files: Sequence[Path], targets: Sequence[Path]) -> None:
    """Move every staged file to its target, or, if one fails, restore the old state."""
    backups: list[tuple[Path, Path]] = []
    moved: list[Path] = []
    try:
        for temp_file, target in zip(temp_files, targets, strict=True):
            # a single file is replaced atomically; several files, or folders, are backed up first
            if target.exists() and (target.is_dir() or len(targets) > 1):
                backup = temp_file.with_suffix(".old")
                target.rename(backup)
                backups.append((backup, target))
            temp_file.replace(target)
            moved.append(target)
    except OSError:
        for target in moved:
            _remove(target)
        for backup, target in backups:
            backup.rename(target)
        raise
    for backup, _ in backups:
        _remove(backup)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file that appears complete or not at all, even if the process is killed."""
    temp_file = path.with_name(f".{path.name}.part")
    try:
        with temp_file.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temp_file.replace(path)
        if hasattr(os, "O_DIRECTORY"):  # makes the rename survive a power cut
            descriptor = os.open(path.parent, os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except OSError as bad:
        temp_file.unlink(missing_ok=True)
        raise OutputError(f"{path} could not be written: {bad.strerror or bad}") from bad
