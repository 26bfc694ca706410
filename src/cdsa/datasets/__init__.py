"""Public data sets by name: where each comes from, how to get it, and how to read it.

A data set is one small module with a `DataSet` in it. It says which files make it up, in the
publisher's own form first, then in others that it may be had in. What its shape and missing rate
must be is written down too; a cube that comes to something else is handed over with remarks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import xarray as xr

from cdsa.datasets.fetch import data_folders, find_files
from cdsa.datasets.spec import AXIS_NAMES, DatasetSpec, Files, FileSet, LoadedDataset
from cdsa.errors import CdsaError, ConfigError, MissingExtraError, TableError, unknown

DATASETS = {
    "kdd2015-pm25": "cdsa.datasets.kdd2015:PM25",
    "kdd2015-temp": "cdsa.datasets.kdd2015:TEMP",
    "kdd2015-hum": "cdsa.datasets.kdd2015:HUM",
    "kdd2018": "cdsa.datasets.kdd2018:KDD2018",
    "metr-la": "cdsa.datasets.metr_la:METR_LA",
    "nyc-traffic": "cdsa.datasets.nyc_traffic:NYC_TRAFFIC",
    "nyc-weather": "cdsa.datasets.nyc_weather:NYC_WEATHER",
}


@dataclass(frozen=True, eq=False)
class OpenedDataset:
    """A data set that was read."""

    spec: DatasetSpec
    file_set: FileSet
    cube: xr.DataArray
    extras: dict[str, xr.DataArray]
    """What comes with it, such as the cells removed on purpose or a road graph."""

    remarks: tuple[str, ...]
    """How it differs from what it should be."""

    files: tuple[Path, ...]

    def __repr__(self) -> str:
        sizes = " x ".join(f"{size:,}" for size in self.cube.shape)
        beside = f" with {', '.join(self.extras)}" if self.extras else ""
        return f"<{self.spec.name}: {sizes}{beside}, form '{self.file_set.name}'>"


def get_dataset(name: str) -> DatasetSpec:
    """The data set of this name."""
    if name not in DATASETS:
        raise ConfigError(unknown("data set", name, DATASETS))
    module, _, constant = DATASETS[name].partition(":")
    found: DatasetSpec = getattr(import_module(module), constant)
    return found


def list_datasets() -> list[DatasetSpec]:
    """All data sets there are."""
    return [get_dataset(name) for name in DATASETS]


def open_dataset(
    name: str, folder: str | Path | None = None, *, file_set: str | None = None
) -> OpenedDataset:
    """Read a data set from `folder`, or from $CDSA_DATA, or from the user's cache.

    The first of its forms that is there is read, or the one named `form`.
    """
    data = get_dataset(name)
    forms = data.file_sets
    if file_set is not None:
        known = [one.name for one in forms]
        if file_set not in known:
            raise ConfigError(unknown(f"form of {name}", file_set, known))
        forms = tuple(one for one in forms if one.name == file_set)
    folders = data_folders(folder)
    for one in forms:
        files = find_files(one, folders)
        if files is not None:
            loaded = _load(data, one, files)
            remarks = (*((one.difference,) if one.difference else ()), *_remarks(data, one, loaded))
            paths = tuple(path for some in files.values() for path in some)
            return OpenedDataset(data, one, loaded.cube, dict(loaded.extras), remarks, paths)
    _refuse(name, forms, folders)


def _remarks(data: DatasetSpec, form: FileSet, loaded: LoadedDataset) -> list[str]:
    """How what was read differs from what was published; of a user's own data, what they are."""
    if not form.user_data:
        return data.expected.differences(loaded)
    sizes = ", ".join(f"{loaded.cube.sizes[axis]:,} {word}" for axis, word in AXIS_NAMES.items())
    return [f"{sizes}, {float(loaded.cube.isnull().mean()):.2%} missing"]


def _load(data: DatasetSpec, form: FileSet, files: Files) -> LoadedDataset:
    """What a form's files hold; whatever is wrong with them is told in words."""
    try:
        loaded = form.load(files)
        if not loaded.cube.size:
            raise TableError("there is not a single time step of the data set in them")
    except MissingExtraError:
        raise
    except Exception as bad:  # files of strangers can be broken in more ways than can be listed
        names = ", ".join(path.name for some in files.values() for path in some)
        kind = "" if isinstance(bad, CdsaError) else f"{type(bad).__name__}: "
        raise TableError(f"{names} cannot be read as {data.name}: {kind}{bad}") from bad
    return loaded


def _refuse(name: str, forms: Sequence[FileSet], folders: Sequence[Path]) -> NoReturn:
    places = " or ".join(str(place) for place in folders)
    wanted = "; or ".join(", ".join(one.files) for one in forms)
    raise ConfigError(
        f"{name} is not under {places}: looked for {wanted}. 'cdsa data get {name}' says how to "
        "get it; then give its folder with --data DIR or CDSA_DATA"
    )
