"""What is told of a table and of a job's result: numbers out of cubes and arrays."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import SOURCES, has_coordinates, is_direction, units_of
from cdsa.core.summary import missing_over_time, summarise_cube, time_bin_edges
from cdsa.errors import unknown
from cdsa.io.sidecars import Sites
from cdsa.io.source import Source
from cdsa.io.table import Table
from cdsa.methods.compose import part_of
from cdsa.web import schemas
from cdsa.web.jobs import Job
from cdsa.web.store import Held, NotThereError

PARTS = 200
"""Of the time, in a picture of gaps."""


LONGEST = 12
"""Gaps that are listed."""


def table(held: Held, source: Source) -> schemas.TableAnswer:
    """What was understood of a table."""
    cube, clock = source.cube, source.content.clock
    seen = summarise_cube(cube, n_longest=LONGEST)
    placed = has_coordinates(cube)
    missing = missing_over_time(cube, "location", 1)[:, 0]
    stations = [
        schemas.Station(
            name=str(name),
            lat=_plain(cube["lat"].to_numpy()[number]) if placed else None,
            lon=_plain(cube["lon"].to_numpy()[number]) if placed else None,
            missing=float(missing[number]),
        )
        for number, name in enumerate(cube["location"].to_numpy())
    ]
    frame = source.content.frame if isinstance(source.content, Table) else None
    ends = clock.format(cube["time"].to_numpy()[[0, -1]])
    return schemas.TableAnswer(
        id=held.id,
        name=held.name,
        size=held.size,
        layout=source.layout,
        notes=list(source.notes),
        doubts=list(source.warnings),
        columns=[] if frame is None else [str(name) for name in frame.columns],
        reading=schemas.Reading.model_validate(held.reading),
        steps=seen.n_steps,
        step=seen.step,
        first=ends[0],
        last=ends[1],
        zone="" if clock.zone is None else str(clock.zone),
        stations=stations,
        measurements=[
            schemas.Measurement(
                name=str(row.Index),
                unit=str(row.unit),
                angle=bool(row.is_direction),
                cells=int(row.cells),
                missing=int(row.missing),
                gaps=int(row.gaps),
                longest=int(row.longest),
            )
            for row in seen.measurements.itertuples()
        ],
        longest=[
            schemas.Gap(
                location=str(row.location),
                measurement=str(row.measurement),
                first=clock.format(np.array([row.first], dtype="datetime64[ns]"))[0],
                last=clock.format(np.array([row.last], dtype="datetime64[ns]"))[0],
                steps=int(row.steps),
            )
            for row in seen.longest_gaps.itertuples()
        ],
    )


def places(found: Sites | None) -> list[schemas.Place]:
    """Places without a sensor."""
    if found is None:
        return []
    where = zip(found.names, found.lat.tolist(), found.lon.tolist(), strict=True)
    return [schemas.Place(name=name, lat=lat, lon=lon) for name, lat, lon in where]


def gaps(source: Source, measurement: str | None) -> schemas.Gaps:
    """How much is missing of each station, over time."""
    cube = source.cube
    if measurement is not None:
        cube = cube.isel(measurement=[_number_of(cube, "measurement", measurement)])
    shares = missing_over_time(cube, "location", PARTS)
    return schemas.Gaps(
        measurement=measurement,
        first=source.content.clock.format(
            cube["time"].to_numpy()[time_bin_edges(cube, PARTS)[:-1]]
        ),
        stations=[str(name) for name in cube["location"].to_numpy()],
        missing=np.rint(100 * shares).astype(int).tolist(),
    )


def series(source: Source, location: str, measurement: str) -> schemas.Series:
    """A series as it is in the table."""
    cube = source.cube
    values = cube.to_numpy()[
        :, _number_of(cube, "location", location), _number_of(cube, "measurement", measurement)
    ]
    return _series(source, location, measurement, cube["time"].to_numpy(), values)


def filled_series(job: Job, source: Source, location: str, measurement: str) -> schemas.Series:
    """A series as it was filled or carried forward."""
    cube = source.cube
    l, m = (  # noqa: E741
        _number_of(cube, "location", location),
        _number_of(cube, "measurement", measurement),
    )
    arrays = arrays_of(job)
    told = _series(source, location, measurement, arrays["time"], arrays["value"][:, l, m])
    words = [SOURCES[number] for number in arrays["source"][:, l, m]]
    ends: dict[str, object] = {
        name: _numbers(arrays[name][:, l, m]) for name in ("lower", "upper") if name in arrays
    }
    return told.model_copy(update={"source": words, **ends})


def filled_cells(
    job: Job, source: Source, location: str | None, measurement: str | None, start: int, most: int
) -> schemas.CellsAnswer:
    """The cells that a job filled or foresaw, in the order of time."""
    cube, arrays = source.cube, arrays_of(job)
    chosen = np.isin(arrays["source"], [SOURCES.index("filled"), SOURCES.index("forecast")])
    for axis, (name, dim) in enumerate(((location, "location"), (measurement, "measurement")), 1):
        if name is not None:
            keep = np.zeros(chosen.shape[axis], dtype=bool)
            keep[_number_of(cube, dim, name)] = True
            chosen &= keep[:, None] if axis == 1 else keep
    every = np.flatnonzero(chosen)
    t, l, m = np.unravel_index(every[start : start + most], chosen.shape)  # noqa: E741
    stamps = source.content.clock.format(np.asarray(arrays["time"])[t]) if len(t) else []
    names, kinds = cube["location"].to_numpy(), cube["measurement"].to_numpy()
    parts = {name: _numbers(arrays[name][t, l, m]) for name in ("value", "lower", "upper")
             if name in arrays}  # fmt: skip
    nothing = [None] * len(t)
    return schemas.CellsAnswer(
        total=len(every),
        cells=[
            schemas.CellAnswer(
                time=stamps[n],
                step=int(t[n]),
                location=str(names[l[n]]),
                measurement=str(kinds[m[n]]),
                value=parts["value"][n],
                lower=parts.get("lower", nothing)[n],
                upper=parts.get("upper", nothing)[n],
            )
            for n in range(len(t))
        ],
    )


def reasons(
    job: Job, source: Source, moment: str | int, location: str, measurement: str, top: int
) -> schemas.ReasonsAnswer:
    """Where a value that a job filled comes from; its moment is a stamp, or the number of a
    step."""
    filler: Any = job.filler and part_of(job.filler, location, measurement)
    if not hasattr(filler, "explain"):
        raise NotThereError(
            f"only values of a network can be explained, and {measurement} at {location} was "
            "filled by another method"
        )
    clock, cube = source.content.clock, source.cube
    times = cube["time"].to_numpy()
    if isinstance(moment, int) and moment >= len(times):
        raise NotThereError(f"the table has {len(times):,} steps, but found {moment:,}")
    at = clock.parse(moment) if isinstance(moment, str) else times[moment]
    told = filler.explain(cube, at, location, measurement)
    return schemas.ReasonsAnswer(
        time=clock.format(np.array([at]))[0],
        location=location,
        measurement=measurement,
        value=_plain(told.value),
        axes=told.by_axis(),
        cells=[
            schemas.ReasonAnswer(
                time=clock.format(np.array([reason.cell.time]))[0],
                step=int(np.searchsorted(times, reason.cell.time)),
                location=reason.cell.location,
                measurement=reason.cell.measurement,
                value=_plain(reason.value),
                share=reason.share,
            )
            for reason in told.top(top)
        ],
    )


def arrays_of(job: Job) -> dict[str, NDArray[Any]]:
    """A job's arrays, read as they are needed."""
    folder = job.files.get("arrays")
    if folder is None or not folder.is_dir():
        raise NotThereError(f"this job has nothing to show (any more): it is {job.state}")
    return {path.stem: _mapped(path) for path in folder.glob("*.npy")}


def _mapped(path: Path) -> NDArray[Any]:
    found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return found


def _series(
    source: Source,
    location: str,
    measurement: str,
    times: NDArray[np.datetime64],
    values: NDArray[np.float64],
) -> schemas.Series:
    cube, clock = source.cube, source.content.clock
    m = _number_of(cube, "measurement", measurement)
    return schemas.Series(
        location=location,
        measurement=measurement,
        unit=units_of(cube)[measurement],
        turns=bool(is_direction(cube)[m]),
        times=schemas.Times.model_validate(clock.to_plain(np.asarray(times))),
        values=_numbers(values),
    )


def _number_of(cube: xr.DataArray, axis: str, name: str) -> int:
    names = [str(one) for one in cube[axis].to_numpy()]
    if name not in names:
        word = "station" if axis == "location" else axis
        raise NotThereError(unknown(word, name, names[:50]))
    return names.index(name)


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    return [_plain(value) for value in values.tolist()]


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
