"""cdsa data: list, info, get and show public data sets."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdsa.cli.options import DataFolder, Json, Overwrite, option

if TYPE_CHECKING:
    from cdsa.core.records import Value
    from cdsa.datasets.spec import DatasetSpec

Name = Annotated[str, typer.Argument(help="A name from 'cdsa data list'.", metavar="NAME")]
data = typer.Typer(
    help="The public data sets of the paper: list, download and read them.", no_args_is_help=True
)


@data.command("list")
def list_all(*, folder: DataFolder = None, json: Json = False) -> None:
    """All data sets, and which are available."""
    from cdsa.cli import console, console_tables
    from cdsa.datasets.registry import list_datasets

    records = [_record(spec, folder) for spec in list_datasets()]
    if json:
        console.print_json(records)
    else:
        console_tables.print_datasets(records)


@data.command()
def info(name: Name, *, folder: DataFolder = None, json: Json = False) -> None:
    """Origin, licence and expected size of a data set, and which of its files are available."""
    from cdsa.cli import console, console_tables
    from cdsa.datasets.registry import get_dataset, open_dataset

    spec = get_dataset(name)
    record = _record(spec, folder)
    if json:
        console.print_json([record])
        return
    console_tables.print_dataset(spec, _available(spec, folder))
    if record["file_set"]:
        with console.busy(f"reading {name}"):
            opened = open_dataset(name, folder)
        console_tables.print_opened(opened)


@data.command()
def get(
    name: Name,
    *,
    folder: Annotated[
        Path | None, option("--data", "DIR", "Where to put it; default: the user's cache.")
    ] = None,
) -> None:
    """Download a data set, or explain how to get it if it has no public address."""
    from cdsa.cli import console
    from cdsa.datasets.fetch import cache_folder, download
    from cdsa.datasets.registry import get_dataset

    spec = get_dataset(name)
    readable = folder is None or folder.is_dir()  # a missing folder is created
    available = _available(spec, folder) if readable else []
    target = (folder or cache_folder()) / name
    genuine = {files.name for files in spec.file_sets if not files.difference or files.user_data}
    if genuine.intersection(available):
        console.out.print(f"{name} is available already: cdsa data info {name}")
    elif spec.downloads:
        paths = download(spec, target, lambda address: console.note(f"downloading {address}"))
        console.print_paths(*paths)
    else:
        console.out.print(f"{name} has no public address to download it from.")
        console.out.print(f"by hand: {spec.manual_steps}")
        console.out.print(f"put the files into {target}, or give their folder: --data, CDSA_DATA")
        raise typer.Exit(1)


@data.command("show")
def show_one(
    name: Name,
    *,
    output: Annotated[
        Path | None, option("-o --output", "FILE", "Write the cube: .nc, .zarr, .csv ...")
    ] = None,
    folder: DataFolder = None,
    file_set: Annotated[
        str | None, option("--file-set", "NAME", "The file set to read, from 'data info'.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Read a data set, summarise it, and optionally write it as a cube."""
    from dataclasses import replace

    from cdsa.cli import console, console_tables
    from cdsa.core.summary import summarise_cube
    from cdsa.datasets.registry import open_dataset
    from cdsa.io.files import check_outputs, detect_format
    from cdsa.io.source import open_source, save_cube

    if output is not None:
        check_outputs([output], overwrite=overwrite)
    with console.busy(f"reading {name}"):
        opened = open_dataset(name, folder, file_set=file_set)
        source = replace(open_source(opened.cube), name=name)
    console_tables.print_opened(opened)
    console.print_summary(source, summarise_cube(opened.cube))
    if output is not None:
        save_cube(opened.cube, output, overwrite=overwrite)
        console.print_paths(output)
        if detect_format(output).kind != "arrays":
            console.note("a table cannot hold units and directions; NetCDF and Zarr can")


def _available(spec: "DatasetSpec", folder: Path | None) -> list[str]:
    from cdsa.datasets.fetch import data_folders, find_files

    folders = data_folders(folder)
    return [files.name for files in spec.file_sets if find_files(files, folders) is not None]


def _record(spec: "DatasetSpec", folder: Path | None) -> "dict[str, Value]":
    """A dataset as a flat record, with the file set that would be read."""
    names = _available(spec, folder)
    first = next((files for files in spec.file_sets if files.name in names), None)
    return {
        "name": spec.name,
        "title": spec.title,
        "steps": spec.expected.steps,
        "stations": spec.expected.stations,
        "measurements": spec.expected.measurements,
        "missing": spec.expected.missing,
        "file_set": first.name if first else None,
        "differs": first.difference if first else None,
        "origin": spec.origin,
        "licence": spec.licence,
        "missing_codes": spec.missing_codes,
        "by_hand": spec.manual_steps,
        "download": bool(spec.downloads),
    }
