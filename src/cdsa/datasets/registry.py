"""Public datasets by name.

A dataset is a small module with a `DatasetSpec`: its origin, the sets of files from which it can be
read, and its expected size and missing rate. Differences from these are reported as remarks.
"""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import xarray as xr

from cdsa.datasets.fetch import data_folders, find_files
from cdsa.datasets.spec import AXIS_NAMES, DatasetSpec, Files, FileSet
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
    spec: DatasetSpec
    file_set: FileSet
    cube: xr.DataArray
    extras: dict[str, xr.DataArray]
    """Further arrays, such as a mask of removed cells or a road graph."""

    remarks: tuple[str, ...]
    """How the data differ from the published dataset."""

    files: tuple[Path, ...]

    def __repr__(self) -> str:
        sizes = " x ".join(f"{size:,}" for size in self.cube.shape)
        extras = f" with {', '.join(self.extras)}" if self.extras else ""
        return f"<{self.spec.name}: {sizes}{extras}, file set '{self.file_set.name}'>"


def get_dataset(name: str) -> DatasetSpec:
    if name not in DATASETS:
        raise ConfigError(unknown("dataset", name, DATASETS))
    module, _, constant = DATASETS[name].partition(":")
    spec: DatasetSpec = getattr(import_module(module), constant)
    return spec


def list_datasets() -> list[DatasetSpec]:
    return [get_dataset(name) for name in DATASETS]


def open_dataset(
    name: str, folder: str | Path | None = None, *, file_set: str | None = None
) -> OpenedDataset:
    """Open a public dataset by its name.

    Parameters
    ----------
    name
        A name from `cdsa data list`, such as 'kdd2015-pm25'.
    folder
        Folder with its files; $CDSA_DATA or the user's cache if not given.
    file_set
        Which of its sets of files to read; the first complete one if not given.

    Returns
    -------
    OpenedDataset
        With the `cube`, `extras` such as a mask of removed cells or a road graph, and `remarks` on
        how it differs from the published dataset.

    Raises
    ------
    CdsaError
        If its files are not there; the message says how to get them.

    Examples
    --------
    >>> import cdsa
    >>> cdsa.open_dataset("nyc-weather")
    <nyc-weather: 8,730 x 3 x 8, file set 'package'>
    """
    spec = get_dataset(name)
    file_sets = spec.file_sets
    if file_set is not None:
        file_sets = tuple(files for files in spec.file_sets if files.name == file_set)
        if not file_sets:
            names = [files.name for files in spec.file_sets]
            raise ConfigError(unknown(f"file set of {name}", file_set, names))
    folders = data_folders(folder)
    for candidate in file_sets:
        files = find_files(candidate, folders)
        if files is not None:
            return _load(spec, candidate, files)
    searched = " or ".join(str(folder) for folder in folders)
    expected = "; or ".join(", ".join(candidate.files) for candidate in file_sets)
    raise ConfigError(
        f"{name} was not found in {searched}, which should contain {expected}. 'cdsa data get "
        f"{name}' explains how to get it; then give its folder with --data DIR or CDSA_DATA"
    )


def _load(spec: DatasetSpec, file_set: FileSet, files: Files) -> OpenedDataset:
    """Load the files; any error becomes a message that names them."""
    paths = tuple(path for matches in files.values() for path in matches)
    try:
        cube, extras = file_set.load(files)
        if not cube.size:
            raise TableError("they contain no time step of the dataset")
    except MissingExtraError:
        raise
    except Exception as bad:  # foreign files can be broken in any way
        names = ", ".join(path.name for path in paths)
        kind = "" if isinstance(bad, CdsaError) else f"{type(bad).__name__}: "
        raise TableError(f"{names} cannot be read as {spec.name}: {kind}{bad}") from bad
    remarks = [file_set.difference] if file_set.difference else []
    if file_set.user_data:
        sizes = [f"{size:,} {name}" for size, name in zip(cube.shape, AXIS_NAMES, strict=True)]
        remarks.append(f"{', '.join(sizes)}, {float(cube.isnull().mean()):.2%} missing")
    else:
        remarks += spec.expected.differences(cube, extras)
    return OpenedDataset(spec, file_set, cube, extras, tuple(remarks), paths)
