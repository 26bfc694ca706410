"""Commands about public data sets: data list, info, get, show."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdsa.cli.options import DataFolder, Json, Overwrite

if TYPE_CHECKING:
    from cdsa.core.records import Value
    from cdsa.datasets.spec import DatasetSpec

Name = Annotated[str, typer.Argument(help="As in 'cdsa data list'.", metavar="NAME")]
data = typer.Typer(
    help="The public data sets of the paper: what they are, how to get and read them.",
    no_args_is_help=True,
)


@data.command("list")
def list_all(*, folder: DataFolder = None, json: Json = False) -> None:
    """All data sets, and which are there."""
    from cdsa.cli import console, console_tables
    from cdsa.datasets import list_datasets

    records = [_record(one, folder) for one in list_datasets()]
    if json:
        console.print_json(records)
    else:
        console_tables.print_datasets(records)


@data.command()
def info(name: Name, *, folder: DataFolder = None, json: Json = False) -> None:
    """Where a data set comes from, its licence, what it must come to, and what is there of it."""
    from cdsa.cli import console, console_tables
    from cdsa.datasets import get_dataset, open_dataset

    one = get_dataset(name)
    record = _record(one, folder)
    if json:
        console.print_json([record])
        return
    console_tables.print_dataset(one, _forms(one, folder))
    if record["form"]:
        with console.busy(f"reading {name}"):
            opened = open_dataset(name, folder)
        console_tables.print_opened(opened)


@data.command()
def get(
    name: Name,
    *,
    folder: Annotated[
        Path | None,
        typer.Option("--data", help="Where to put it; the user's cache if not given."),
    ] = None,
) -> None:
    """Download a data set where a public address exists; else say what to get where."""
    from cdsa.cli import console
    from cdsa.datasets import get_dataset
    from cdsa.datasets.fetch import cache_folder, download

    one = get_dataset(name)
    looked = folder is None or folder.is_dir()  # one that is not there yet is made
    there = [form for form in _forms(one, folder) if form in _whole(one)] if looked else []
    place = (folder or cache_folder()) / name
    if there:
        console.out.print(f"{name} is there already: cdsa data info {name}")
    elif one.downloads:
        for path in download(one, place, lambda address: console.note(f"downloading {address}")):
            console.out.print(f"wrote [bold]{path}[/]", soft_wrap=True)
    else:
        console.out.print(f"{name} has no public address to download it from.")
        console.out.print(f"by hand: {one.manual_steps}")
        console.out.print(f"put the files into {place}, or say where they are: --data, CDSA_DATA")
        raise typer.Exit(1)


@data.command("show")
def show_one(
    name: Name,
    *,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the cube: .nc, .zarr, .csv ...")
    ] = None,
    folder: DataFolder = None,
    form: Annotated[
        str | None, typer.Option("--form", help="Which of its forms to read, as in 'data info'.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Read a data set, show what is in it, and write it as a cube if wanted."""
    from dataclasses import replace

    from cdsa.cli import console, console_tables
    from cdsa.core.summary import summarise_cube
    from cdsa.datasets import open_dataset
    from cdsa.io.files import detect_format
    from cdsa.io.source import open_source, save_cube
    from cdsa.io.write import check_outputs

    if output is not None:
        check_outputs([output], overwrite=overwrite)
    with console.busy(f"reading {name}"):
        opened = open_dataset(name, folder, file_set=form)
        source = replace(open_source(opened.cube), name=name)
    console_tables.print_opened(opened)
    console.print_inspection(source, summarise_cube(opened.cube))
    if output is not None:
        save_cube(opened.cube, output, overwrite=overwrite)
        console.out.print(f"wrote [bold]{output}[/]", soft_wrap=True)
        if detect_format(output) not in ("netcdf", "zarr"):
            console.note("a table has no room for units and directions; NetCDF and Zarr have")


def _forms(one: "DatasetSpec", folder: Path | None) -> list[str]:
    """The forms of a data set that can be read."""
    from cdsa.datasets.fetch import data_folders, find_files

    folders = data_folders(folder)
    return [form.name for form in one.file_sets if find_files(form, folders) is not None]


def _whole(one: "DatasetSpec") -> list[str]:
    """The forms that are the data set itself, and no stand-in for it."""
    return [form.name for form in one.file_sets if not form.difference or form.user_data]


def _record(one: "DatasetSpec", folder: Path | None) -> "dict[str, Value]":
    """A data set as a flat record, with the form that is there."""
    names = _forms(one, folder)
    there = next((form for form in one.file_sets if form.name in names), None)
    facts = one.expected
    return {
        "name": one.name,
        "title": one.title,
        "steps": facts.steps,
        "stations": facts.stations,
        "measurements": facts.measurements,
        "missing": facts.missing,
        "form": there.name if there else None,
        "differs": there.difference if there else None,
        "origin": one.origin,
        "licence": one.licence,
        "missing_codes": one.missing_codes,
        "by_hand": one.manual_steps,
        "download": bool(one.downloads),
    }
