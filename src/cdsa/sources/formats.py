"""File formats: told by the end of the name."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cdsa.errors import ConfigError, MissingExtraError

Format = Literal["csv", "csv.gz", "parquet", "netcdf", "zarr"]


SUFFIXES: dict[str, Format] = {
    ".csv": "csv", ".txt": "csv", ".tsv": "csv",
    ".csv.gz": "csv.gz", ".txt.gz": "csv.gz", ".tsv.gz": "csv.gz",
    ".parquet": "parquet", ".pq": "parquet",
    ".nc": "netcdf", ".nc4": "netcdf", ".netcdf": "netcdf", ".zarr": "zarr",
}  # fmt: skip


@dataclass(frozen=True)
class CsvStyle:
    """How a CSV file is written, apart from its content."""

    separator: str = ","
    newline: str = "\n"
    encoding: str = "utf-8"
    decimal: str = "."
    header: tuple[str, ...] = ()
    """The first line as it was written, blanks and nameless columns included."""


def format_of(path: str | Path) -> Format:
    """The format that the end of the name promises."""
    name = Path(path).name.lower()
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if name.endswith(suffix):
            return SUFFIXES[suffix]
    raise ConfigError(
        f"the format is told by the end of the name, but '{path}' ends in none of: "
        f"{', '.join(SUFFIXES)}"
        + (". Save the sheet as CSV" if name.endswith((".xls", ".xlsx", ".ods")) else "")
    )


def engine_of(form: Format) -> Literal["netcdf4", "zarr"]:
    """xarray's engine for a format of labelled arrays."""
    import xarray as xr

    engine, package = ("netcdf4", "netCDF4") if form == "netcdf" else ("zarr", "zarr")
    if engine not in xr.backends.list_engines():
        raise MissingExtraError(form, package, "io")
    return engine  # type: ignore[return-value]
