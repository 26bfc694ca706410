"""Responses about tables and results, computed from cubes and arrays."""

import math
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import DIMS, SOURCES, has_coordinates, is_direction, units_of
from cdsa.core.summary import missing_over_time, summarise_cube, time_bin_edges
from cdsa.core.times import Clock
from cdsa.errors import unknown
from cdsa.io.source import Source
from cdsa.io.table import Table
from cdsa.methods.base import Filler
from cdsa.web import schemas
from cdsa.web.jobs import Job
from cdsa.web.store import NotFoundError, StoredTable, TableStore
from cdsa.workflows.pipeline import FillRequest, FillResult

MAX_PERIODS = 200
"""Periods in the chart of gaps."""

MAX_GAPS = 12
"""Gaps in the list of the longest ones."""


class Explainer(NamedTuple):
    """What explains the values that a job has filled."""

    filler: Filler
    cube: xr.DataArray
    clock: Clock


def table_summary(table: StoredTable, source: Source) -> schemas.TableSummary:
    """What a table contains, and how it was read."""
    cube, clock = source.cube, source.content.clock
    summary = summarise_cube(cube, n_longest=MAX_GAPS)
    missing = missing_over_time(cube, "location", 1)[:, 0]
    lat, lon = (
        _numbers(cube[name].to_numpy()) if has_coordinates(cube) else [None] * len(missing)
        for name in ("lat", "lon")
    )
    frame = source.content.frame if isinstance(source.content, Table) else None
    first, last = clock.format(cube["time"].to_numpy()[[0, -1]])
    return schemas.TableSummary(
        id=table.id,
        name=table.name,
        size=table.size,
        layout=source.layout,
        notes=list(source.notes),
        warnings=list(source.warnings),
        columns=[] if frame is None else [str(name) for name in frame.columns],
        options=schemas.ReadOptions.model_validate(table.options),
        steps=summary.n_steps,
        step=summary.step,
        first=first,
        last=last,
        timezone="" if clock.zone is None else str(clock.zone),
        stations=[
            schemas.Station(name=str(name), lat=lat[n], lon=lon[n], missing=float(missing[n]))
            for n, name in enumerate(cube["location"].to_numpy())
        ],
        measurements=[
            schemas.Measurement(
                name=str(row.Index),
                units=str(row.unit),
                is_direction=bool(row.is_direction),
                cells=int(row.cells),
                missing=int(row.missing),
                gaps=int(row.gaps),
                longest_gap=int(row.longest),
            )
            for row in summary.measurements.itertuples()
        ],
        longest_gaps=[
            schemas.Gap(
                location=str(row.location),
                measurement=str(row.measurement),
                first=clock.format(np.array([row.first], dtype="datetime64[ns]"))[0],
                last=clock.format(np.array([row.last], dtype="datetime64[ns]"))[0],
                steps=int(row.steps),
            )
            for row in summary.longest_gaps.itertuples()
        ],
    )


def gaps(source: Source, measurement: str | None) -> schemas.MissingOverTime:
    """How much of each station is missing, over time."""
    cube = source.cube
    if measurement is not None:
        cube = cube.isel(measurement=[_index(cube, "measurement", measurement)])
    shares = missing_over_time(cube, "location", MAX_PERIODS)
    starts = cube["time"].to_numpy()[time_bin_edges(cube, MAX_PERIODS)[:-1]]
    return schemas.MissingOverTime(
        measurement=measurement,
        first=source.content.clock.format(starts),
        stations=[str(name) for name in cube["location"].to_numpy()],
        missing=np.rint(100 * shares).astype(int).tolist(),
    )


def series(source: Source, location: str, measurement: str) -> schemas.Series:
    """A series of a table."""
    arrays = {"time": source.cube["time"].to_numpy(), "value": source.cube.to_numpy()}
    return _series(source, arrays, location, measurement)


def sites(job: Job) -> list[schemas.Site]:
    """The unmonitored sites that a job fills."""
    if not isinstance(job.request, FillRequest) or job.request.at is None:
        return []
    at = job.request.at
    rows = zip(at.names, at.lat.tolist(), at.lon.tolist(), strict=True)
    return [schemas.Site(name=name, lat=lat, lon=lon) for name, lat, lon in rows]


def filled_series(job: Job, store: TableStore, location: str, measurement: str) -> schemas.Series:
    """A series as a job has filled or forecast it."""
    return _series(_source(job, store), _arrays(job), location, measurement)


def filled_cells(job: Job, store: TableStore, query: schemas.CellsQuery) -> schemas.FilledCells:
    """A page of the cells that a job has filled or forecast, in the order of time."""
    source, arrays = _source(job, store), _arrays(job)
    cube = source.cube
    selected = np.isin(arrays["source"], [SOURCES.index("filled"), SOURCES.index("forecast")])
    if query.location is not None:
        n = _index(cube, "location", query.location)
        selected &= (np.arange(selected.shape[1]) == n)[:, None]
    if query.measurement is not None:
        selected &= np.arange(selected.shape[2]) == _index(cube, "measurement", query.measurement)
    cells = np.flatnonzero(selected)
    page = cells[query.offset : query.offset + query.limit]
    t, l, m = np.unravel_index(page, selected.shape)  # noqa: E741
    times = source.content.clock.format(np.asarray(arrays["time"])[t]) if len(t) else []
    columns = {
        name: _numbers(arrays[name][t, l, m]) if name in arrays else [None] * len(t)
        for name in ("value", "lower", "upper")
    }
    return schemas.FilledCells(
        total=len(cells),
        cells=[
            schemas.FilledCell(
                time=times[n],
                step=int(t[n]),
                location=str(cube["location"].to_numpy()[l[n]]),
                measurement=str(cube["measurement"].to_numpy()[m[n]]),
                **{name: numbers[n] for name, numbers in columns.items()},
            )
            for n in range(len(t))
        ],
    )


def explanation(path: Path, query: schemas.ExplanationQuery) -> schemas.Explanation:
    """Where a filled value comes from, by the explainer that a job has saved (needs torch)."""
    with path.open("rb") as file:
        explainer: Explainer = pickle.load(file)
    clock, cube, moment = explainer.clock, explainer.cube, query.moment
    filler = explainer.filler.filler_of(query.location, query.measurement)
    if not filler.explainable:
        raise NotFoundError(
            f"only the values of a network can be explained, but {query.measurement} at "
            f"{query.location} was filled by another method"
        )
    times = cube["time"].to_numpy()
    if isinstance(moment, int) and moment >= len(times):
        raise NotFoundError(f"the table has {len(times):,} steps, but found step {moment:,}")
    time = clock.parse(moment) if isinstance(moment, str) else times[moment]
    explained = filler.explain(cube, time, query.location, query.measurement)
    return schemas.Explanation(
        time=clock.format(np.array([time]))[0],
        location=query.location,
        measurement=query.measurement,
        value=_number(explained.value),
        groups=explained.by_group(),
        cells=[
            schemas.Contribution(
                time=clock.format(np.array([contribution.cell.time]))[0],
                step=int(np.searchsorted(times, contribution.cell.time)),
                location=contribution.cell.location,
                measurement=contribution.cell.measurement,
                value=_number(contribution.value),
                share=contribution.share,
            )
            for contribution in explained.top(query.top)
        ],
    )


def save_arrays(result: xr.Dataset, folder: Path) -> None:
    """Save the arrays of a result that series and cells are read from; `source` as codes."""
    labels = result["source"].transpose(*DIMS).to_numpy()
    codes = np.zeros(labels.shape, dtype=np.uint8)
    for label in np.unique(labels):
        codes[labels == label] = SOURCES.index(label)
    np.save(folder / "source.npy", codes)
    np.save(folder / "time.npy", result["time"].to_numpy())
    for name in ("value", "lower", "upper"):
        if name in result:
            np.save(folder / f"{name}.npy", result[name].transpose(*DIMS).to_numpy())


def save_explainer(filled: FillResult, folder: Path) -> dict[str, Path]:
    """Save what explains the filled values, if anything can."""
    filler, source = filled.selection.filler.only_explainable(), filled.source
    if filler is None:
        return {}
    path = folder / "explainer.pickle"
    with path.open("wb") as file:
        pickle.dump(Explainer(filler, source.cube, source.content.clock), file)
    return {"explainer": path}


def _source(job: Job, store: TableStore) -> Source:
    """The table of a job, with the sites that it fills."""
    source = store.source(job.table, job.options)
    at = job.request.at if isinstance(job.request, FillRequest) else None
    return source if at is None else source.with_sites(at)


def _arrays(job: Job) -> dict[str, NDArray[Any]]:
    """The arrays that a job has saved; their values are read when they are used."""
    folder = job.files.get("arrays")
    if folder is None or not folder.is_dir():
        raise NotFoundError(f"this job has no results (any more); its state is {job.state}")
    return {
        path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in folder.glob("*.npy")
    }


def _series(
    source: Source, arrays: dict[str, NDArray[Any]], location: str, measurement: str
) -> schemas.Series:
    """A series of the arrays time, value and, of a job, source, lower and upper."""
    cube, clock = source.cube, source.content.clock
    l, m = _index(cube, "location", location), _index(cube, "measurement", measurement)  # noqa: E741
    lower, upper = (
        _numbers(arrays[name][:, l, m]) if name in arrays else None for name in ("lower", "upper")
    )
    return schemas.Series(
        location=location,
        measurement=measurement,
        units=units_of(cube)[measurement],
        is_direction=bool(is_direction(cube)[m]),
        times=schemas.Times.model_validate(clock.to_plain(np.asarray(arrays["time"]))),
        values=_numbers(arrays["value"][:, l, m]),
        source=[SOURCES[code] for code in arrays["source"][:, l, m]]
        if "source" in arrays
        else None,
        lower=lower,
        upper=upper,
    )


def _index(cube: xr.DataArray, axis: str, name: str) -> int:
    names = [str(label) for label in cube[axis].to_numpy()]
    if name not in names:
        kind = "station" if axis == "location" else axis
        raise NotFoundError(unknown(kind, name, names[:50]))
    return names.index(name)


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    return [_number(value) for value in values.tolist()]


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
