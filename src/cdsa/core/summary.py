"""Summary of a cube: its contents, its gaps, and when values are missing."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.cube import fillable, has_coordinates, is_direction, units_of
from cdsa.core.domain import Domain
from cdsa.core.gaps import gap_starts, run_lengths
from cdsa.core.records import Value, to_json_value
from cdsa.core.times import format_step, infer_step


@dataclass(frozen=True, eq=False)
class CubeSummary:
    """Size, measurements and gaps of a cube."""

    n_steps: int
    step: str
    first: pd.Timestamp
    last: pd.Timestamp
    locations: tuple[str, ...]
    has_coordinates: bool
    measurements: pd.DataFrame
    """Per measurement: unit, is_direction, cells, missing, share, gaps, longest gap, outliers, and
    what values it can have: bounds in words, low, high, decimals."""

    outliers: pd.DataFrame
    """Values far outside of all others: location, measurement, time, value."""

    longest_gaps: pd.DataFrame
    """The longest gaps: location, measurement, first and last missing step, steps. Empty series
    are left out."""

    def records(self) -> list[dict[str, Value]]:
        common: dict[str, Value] = {
            "steps": self.n_steps,
            "step": self.step,
            "first": str(self.first),
            "last": str(self.last),
            "stations": len(self.locations),
            "coordinates": self.has_coordinates,
        }
        return [
            {"measurement": row.Index, "unit": row.unit, "is_direction": bool(row.is_direction)}
            | {name: int(getattr(row, name)) for name in ("cells", "missing", "gaps", "longest")}
            | {"share_missing": round(float(row.share), 6)}
            | {
                "lowest_possible": to_json_value(row.low),
                "highest_possible": to_json_value(row.high),
            }
            | {"decimals": int(row.decimals), "outliers": int(row.outliers)}
            | common
            for row in self.measurements.itertuples()
        ]


def summarise_cube(cube: xr.DataArray, *, n_longest: int = 5) -> CubeSummary:
    """Count the gaps of a cube and list the `n_longest` longest."""
    times = cube["time"].to_numpy()
    missing = cube.isnull().to_numpy()
    runs = run_lengths(missing)
    starts = gap_starts(missing)
    domain = Domain.of(cube)
    outliers = domain.outliers(cube)
    measurements = pd.DataFrame(
        {
            "unit": list(units_of(cube).values()),
            "is_direction": is_direction(cube),
            "cells": missing.shape[0] * missing.shape[1],
            "missing": missing.sum(axis=(0, 1)),
            "share": missing.mean(axis=(0, 1)),
            "gaps": starts.sum(axis=(0, 1)),
            "longest": runs.max(axis=(0, 1)),
            "bounds": [domain.describe(m) for m in range(cube.sizes["measurement"])],
            "low": domain.low,
            "high": domain.high,
            "decimals": domain.decimals,
            "outliers": outliers.sum(axis=(0, 1)),
        },
        index=pd.Index(cube["measurement"].to_numpy(), name="measurement"),
    )
    return CubeSummary(
        n_steps=len(times),
        step=format_step(infer_step(times)) if len(times) > 1 else "-",
        first=pd.Timestamp(times[0]),
        last=pd.Timestamp(times[-1]),
        locations=tuple(str(name) for name in cube["location"].to_numpy()),
        has_coordinates=has_coordinates(cube),
        measurements=measurements,
        outliers=_list_cells(cube, outliers).assign(value=cube.to_numpy()[outliers]),
        longest_gaps=_longest_gaps(
            cube, np.where(starts & ~missing.all(axis=0), runs, 0), n_longest
        ),
    )


def _list_cells(cube: xr.DataArray, cells: NDArray[np.bool_]) -> pd.DataFrame:
    t, l, m = np.nonzero(cells)  # noqa: E741
    return pd.DataFrame(
        {
            "location": cube["location"].to_numpy()[l],
            "measurement": cube["measurement"].to_numpy()[m],
            "time": cube["time"].to_numpy()[t],
        }
    )


def _longest_gaps(cube: xr.DataArray, lengths: NDArray[np.int64], count: int) -> pd.DataFrame:
    flat = lengths.reshape(-1)
    order = np.argsort(-flat, kind="stable")[:count]
    t, l, m = np.unravel_index(order[flat[order] > 0], lengths.shape)  # noqa: E741
    times = cube["time"].to_numpy()
    return pd.DataFrame(
        {
            "location": cube["location"].to_numpy()[l],
            "measurement": cube["measurement"].to_numpy()[m],
            "first": times[t],
            "last": times[t + lengths[t, l, m] - 1],
            "steps": lengths[t, l, m],
        }
    )


def missing_over_time(cube: xr.DataArray, dim: str, n_bins: int) -> NDArray[np.float64]:
    """Share missing per label of `dim` (rows) and time bin (columns)."""
    other = "location" if dim == "measurement" else "measurement"
    if dim == "location":  # empty measurements would hide when stations dropped out
        cube = cube.isel(measurement=fillable(cube) if fillable(cube).any() else slice(None))
    missing = cube.isnull().mean(other).transpose(dim, "time").to_numpy()
    edges = time_bin_edges(cube, n_bins)
    return np.add.reduceat(missing, edges[:-1], axis=1) / np.diff(edges)


def time_bin_edges(cube: xr.DataArray, n_bins: int) -> NDArray[np.int64]:
    """The first step of each of `n_bins` time bins of about equal length, and the end."""
    n_steps = cube.sizes["time"]
    return np.linspace(0, n_steps, min(n_bins, n_steps) + 1).astype(np.int64)
