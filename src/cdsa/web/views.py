"""Responses about tables and results, computed from cubes and arrays."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import SOURCES, append_locations, is_direction, units_of
from cdsa.core.summary import missing_over_time, time_bin_edges
from cdsa.core.times import Clock
from cdsa.errors import unknown
from cdsa.web import schemas
from cdsa.web.jobs import Job
from cdsa.web.parsing import ParsedTable
from cdsa.web.store import NotFoundError, StoredTable, TableStore
from cdsa.workflows.pipeline import FillRequest

MAX_PERIODS = 200
"""Periods in the chart of gaps."""


def table_summary(table: StoredTable, parsed: ParsedTable) -> schemas.TableSummary:
    # id, name, size, options
    return schemas.TableSummary.model_validate(vars(table) | dict(parsed.summary))


def gaps(parsed: ParsedTable, measurement: str | None) -> schemas.MissingOverTime:
    cube = parsed.cube
    if measurement is not None:
        cube = cube.isel(measurement=[_index(cube, "measurement", measurement)])
    shares = missing_over_time(cube, "location", MAX_PERIODS)
    starts = cube["time"].to_numpy()[time_bin_edges(cube, MAX_PERIODS)[:-1]]
    return schemas.MissingOverTime(
        measurement=measurement,
        first=parsed.clock.format(starts),
        stations=[str(name) for name in cube["location"].to_numpy()],
        missing=np.rint(100 * shares).astype(int).tolist(),
    )


def series(parsed: ParsedTable, location: str, measurement: str) -> schemas.Series:
    return _series(parsed.labels, parsed.clock, parsed.arrays, location, measurement)


def sites(job: Job) -> list[schemas.Site]:
    if not isinstance(job.request, FillRequest) or job.request.at is None:
        return []
    at = job.request.at
    rows = zip(at.names, at.lat.tolist(), at.lon.tolist(), strict=True)
    return [schemas.Site(name=name, lat=lat, lon=lon) for name, lat, lon in rows]


def filled_series(job: Job, store: TableStore, location: str, measurement: str) -> schemas.Series:
    return _series(*_labels(job, store), _arrays(job), location, measurement)


def filled_cells(job: Job, store: TableStore, query: schemas.CellsQuery) -> schemas.FilledCells:
    """A page of the cells that a job has filled or forecast, in the order of time."""
    (labels, clock), arrays = _labels(job, store), _arrays(job)
    selected = np.isin(arrays["source"], [SOURCES.index("filled"), SOURCES.index("forecast")])
    if query.location is not None:
        n = _index(labels, "location", query.location)
        selected &= (np.arange(selected.shape[1]) == n)[:, None]
    if query.measurement is not None:
        selected &= np.arange(selected.shape[2]) == _index(labels, "measurement", query.measurement)
    numbers = np.flatnonzero(selected)
    page = numbers[query.offset : query.offset + query.limit]
    t, l, m = np.unravel_index(page, selected.shape)  # noqa: E741
    times = clock.format(np.asarray(arrays["time"])[t]) if len(t) else []
    cells = pd.DataFrame(
        {
            "time": times,
            "step": t,
            "location": labels["location"].to_numpy()[l],
            "measurement": labels["measurement"].to_numpy()[m],
        }
        | {
            name: arrays[name][t, l, m] if name in arrays else np.nan
            for name in ("value", "lower", "upper")
        }
    )
    return schemas.FilledCells.model_validate(
        {"total": len(numbers), "cells": cells.to_dict("records")}
    )


def explanation(path: Path, query: schemas.ExplanationQuery) -> schemas.Explanation:
    """Where a filled value comes from, by the explainer that a job has saved (needs torch)."""
    with path.open("rb") as file:
        filler, cube, clock = pickle.load(file)
    filler = filler.filler_of(query.location, query.measurement)
    if not filler.explainable:
        raise NotFoundError(
            f"only the values of a network can be explained, but {query.measurement} at "
            f"{query.location} was filled by another method"
        )
    times = cube["time"].to_numpy()
    if query.step is not None and query.step >= len(times):
        raise NotFoundError(f"the table has {len(times):,} steps, but found step {query.step:,}")
    time = clock.parse(query.time) if query.step is None else times[query.step]
    explained = filler.explain(cube, time, query.location, query.measurement)
    cells = [
        contribution.cell._asdict()
        | {"time": clock.format(np.array([contribution.cell.time]))[0]}
        | {"step": int(np.searchsorted(times, contribution.cell.time))}
        | {"value": contribution.value, "share": contribution.share}
        for contribution in explained.top(query.top)
    ]
    return schemas.Explanation.model_validate(
        query.model_dump()  # location, measurement
        | {"time": clock.format(np.array([time]))[0], "value": explained.value}
        | {"groups": explained.by_group(), "cells": cells}
    )


def _labels(job: Job, store: TableStore) -> tuple[xr.DataArray, Clock]:
    """The labels of the cube of a job, with the sites that it fills, and its clock."""
    parsed = store.parsed(job.table, job.options)
    labels, at = parsed.labels, job.request.at if isinstance(job.request, FillRequest) else None
    if at is not None:
        labels = append_locations(labels, at.names, at.lat, at.lon)
    return labels, parsed.clock


def _arrays(job: Job) -> dict[str, NDArray[Any]]:
    """The arrays that a job has saved; their values are read when they are used."""
    folder = job.files.get("arrays")
    if folder is None or not folder.is_dir():
        raise NotFoundError(f"this job has no results (any more); its state is {job.state}")
    return {
        path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in folder.glob("*.npy")
    }


def _series(
    labels: xr.DataArray,
    clock: Clock,
    arrays: dict[str, NDArray[Any]],
    location: str,
    measurement: str,
) -> schemas.Series:
    """A series of the arrays time, value and, of a job, source, lower and upper."""
    l, m = _index(labels, "location", location), _index(labels, "measurement", measurement)  # noqa: E741
    columns = {
        name: arrays[name][:, l, m].tolist()
        for name in ("value", "source", "lower", "upper")
        if name in arrays
    }
    if "source" in columns:
        columns["source"] = [SOURCES[code] for code in columns["source"]]
    return schemas.Series.model_validate(
        columns
        | {
            "values": columns["value"],
            "location": location,
            "measurement": measurement,
            "units": units_of(labels)[measurement],
            "is_direction": bool(is_direction(labels)[m]),
            "times": clock.to_plain(np.asarray(arrays["time"])),
        }
    )


def _index(cube: xr.DataArray, axis: str, name: str) -> int:
    names = [str(label) for label in cube[axis].to_numpy()]
    if name not in names:
        kind = "station" if axis == "location" else axis
        raise NotFoundError(unknown(kind, name, names[:50]))
    return names.index(name)
