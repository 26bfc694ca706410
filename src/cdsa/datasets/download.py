"""Downloading: once, whole or not at all, with a plain word where that cannot be."""

import hashlib
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile

from cdsa.datasets.kinds import Address, DataSet
from cdsa.errors import ConfigError, OutputError

SECONDS = 60
PIECE = 1 << 20
Told = Callable[[str], None]


def download(data: DataSet, folder: Path, told: Told = lambda what: None) -> list[Path]:
    """Bring the files of a data set into `folder`; those that are there already stay."""
    brought: list[Path] = []
    for address in data.addresses:
        absent = [name for name in address.files if not (folder / name).exists()]
        if absent:
            told(address.url)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with TemporaryDirectory(dir=folder, prefix=".part-") as part:
                    _fetch(data, address, folder, Path(part), absent)
            except OSError as bad:
                raise OutputError(f"{folder} cannot be written to: {bad.strerror or bad}") from bad
        brought += [folder / name for name in absent]
    return brought


def _fetch(data: DataSet, address: Address, folder: Path, part: Path, names: list[str]) -> None:
    """One address into a folder of its own; then what is wanted of it, each under its name."""
    got = part / "download"
    digest = hashlib.sha256()
    try:
        with (
            urllib.request.urlopen(address.url, timeout=SECONDS) as reply,
            got.open("wb") as file,
        ):
            while piece := reply.read(PIECE):
                digest.update(piece)
                file.write(piece)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as bad:
        reason = getattr(bad, "reason", bad)
        raise ConfigError(
            f"{address.url} could not be reached ({reason}). Without a connection, get the files "
            f"on another machine ({data.by_hand}), copy them to {folder}, or give their folder "
            "with --data DIR or CDSA_DATA"
        ) from bad
    if address.sha256 and digest.hexdigest() != address.sha256:
        raise ConfigError(
            f"what came from {address.url} is not what was published (its SHA-256 is "
            f"{digest.hexdigest()}, not {address.sha256}). Nothing was kept; get the files by "
            f"hand: {data.by_hand}"
        )
    for name in names:
        ready = got
        if address.url.endswith(".zip"):
            ready = part / name
            _unpack(address, got, name, ready)
        ready.replace(folder / name)


def _unpack(address: Address, archive: Path, name: str, target: Path) -> None:
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
