"""Atomic output: files appear complete or not at all."""

import contextlib
import itertools
import os
import platform
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cdsa.core.text import single_line
from cdsa.errors import OutputError

PREFIX = f".cdsa-{re.sub('[^A-Za-z0-9]', '', platform.node())[:32]}-"
"""Of temporary files; the number of the process follows."""

_numbers = itertools.count()


@contextlib.contextmanager
def stage_files(targets: Sequence[Path], *, overwrite: bool) -> Iterator[list[Path]]:
    """Temporary files to write to; on success all of them replace their targets, or appear there if
    nothing may be overwritten. What a killed process left in these folders is removed first."""
    real = [target.resolve() if target.is_symlink() else target for target in targets]
    for folder in {target.absolute().parent for target in real}:
        _sweep(folder)
    temp_files = [
        target.with_name(f"{PREFIX}{os.getpid()}-{next(_numbers)}.part") for target in real
    ]
    try:
        yield temp_files
        for temp_file, target in zip(temp_files, real, strict=True):
            if temp_file.is_file():
                with temp_file.open("rb") as file:
                    os.fsync(file.fileno())
                if target.is_file():
                    shutil.copymode(target, temp_file)
        if overwrite:
            _replace_all(temp_files, real)
        else:
            _create_all(temp_files, real)
    except FileExistsError as bad:
        names = " or ".join(str(target) for target in targets)
        raise OutputError(
            f"{names} was written by another process meanwhile. Nothing was changed; choose "
            "another name, or replace it with --overwrite"
        ) from bad
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
    with stage_files(targets, overwrite=overwrite) as temp_files:
        yield temp_files


def write_texts(pages: Mapping[Path, str], *, overwrite: bool = False) -> None:
    """Write text files, all of them or none."""
    with staged(list(pages), overwrite=overwrite) as temp_files:
        for temp_file, text in zip(temp_files, pages.values(), strict=True):
            temp_file.write_text(text, encoding="utf-8")


def check_file(target: Path, *, overwrite: bool, may_be_folder: bool = False) -> None:
    """Refuse a target that exists, is a folder, or is in a folder that does not exist."""
    with contextlib.suppress(OSError):
        _restore(target)
    try:
        target.exists()
    except OSError as bad:  # a name that is too long
        raise OutputError(f"{target} cannot be written: {bad.strerror or bad}") from bad
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


def _create_all(temp_files: Sequence[Path], targets: Sequence[Path]) -> None:
    """Move every staged file to its target, which must not exist; all of them or none."""
    created: list[Path] = []
    try:
        for temp_file, target in zip(temp_files, targets, strict=True):
            if temp_file.is_dir():
                if target.exists():
                    raise FileExistsError(str(target))
                temp_file.rename(target)
            else:
                _create(temp_file, target)
            created.append(target)
    except OSError:
        for target in created:
            _remove(target)
        raise


def _create(temp_file: Path, target: Path) -> None:
    """Move a file to a target that must not exist, whatever other processes do."""
    try:
        os.link(temp_file, target)
        temp_file.unlink()
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        os.close(os.open(target, os.O_CREAT | os.O_EXCL))
        temp_file.replace(target)


def _replace_all(temp_files: Sequence[Path], targets: Sequence[Path]) -> None:
    """Move every staged file to its target or, if one fails, restore the old state. Each target is
    the old file or the new one at any moment; an old folder has another name for a moment, and is
    restored by the next run if this one is killed."""
    backups: list[tuple[Path, Path]] = []
    moved: list[Path] = []
    try:
        for temp_file, target in zip(temp_files, targets, strict=True):
            if target.is_dir():
                backup = _backup_of(target)
                _remove(backup)
                target.rename(backup)
                backups.append((backup, target))
            elif target.exists() and len(targets) > 1:
                backup = temp_file.with_suffix(".old")
                with contextlib.suppress(OSError):  # a file system without links
                    os.link(target, backup)
                    backups.append((backup, target))
            temp_file.replace(target)
            moved.append(target)
    except OSError:
        restored = {target for _, target in backups}
        for target in moved:
            if target not in restored:
                _remove(target)
        for backup, target in backups:
            if target.is_dir():
                _remove(target)
            backup.replace(target)
            _remove(backup)  # nothing is moved where both are links to the same file
        raise
    for backup, _ in backups:
        _remove(backup)


def _backup_of(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _restore(target: Path) -> None:
    """Give a folder its name back that a killed process was about to replace."""
    backup = _backup_of(target)
    if backup.is_dir():
        if target.exists():
            _remove(backup)
        else:
            backup.rename(target)


def _sweep(folder: Path) -> None:
    """Remove what processes of this machine have left that no longer run."""
    for left in folder.glob(f"{PREFIX}*"):
        process = left.name.removeprefix(PREFIX).partition("-")[0]
        if process.isdecimal() and not _runs(int(process)):
            with contextlib.suppress(OSError):
                _remove(left)


def _runs(process: int) -> bool:
    if os.name != "posix":  # there is no harmless signal
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


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
