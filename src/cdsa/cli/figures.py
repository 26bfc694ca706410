"""The figures of `cdsa plot`; matplotlib is loaded with this module."""

from pathlib import Path
from typing import TypeVar

import xarray as xr
from matplotlib.figure import Figure

from cdsa import plots
from cdsa.cli import console, score
from cdsa.cli.options import choose_label
from cdsa.cli.progress import ConsoleReporter
from cdsa.cli.train_options import Training
from cdsa.core import defaults
from cdsa.errors import ConfigError
from cdsa.methods.base import Filler
from cdsa.methods.explanation import Explanation
from cdsa.methods.registry import build_method, info_of
from cdsa.plots.figures import new_figure
from cdsa.workflows.fill import fill_with
from cdsa.workflows.pipeline import CompareRequest
from cdsa.workflows.score import Score, hidden_cells

Data = TypeVar("Data", xr.DataArray, xr.Dataset)


def plot_gaps(cube: xr.DataArray, period: slice) -> Figure:
    cube = _within(cube, period)
    rows = min(40, max(cube.sizes["location"], 4))
    figure = new_figure(9, 1.2 + 0.22 * rows)
    plots.plot_gaps(cube, figure.axes[0])
    return figure


def plot_series(
    cube: xr.DataArray,
    filled_by: str | Path,
    hide: str | None,
    training: Training,
    *,
    location: str | None,
    measurement: str | None,
    period: slice,
) -> Figure:
    """A series, filled by a method or by the network in a folder."""
    location = choose_label(cube, "location", location or str(cube["location"].to_numpy()[0]))
    measurement = choose_label(cube, "measurement", measurement)
    visible, truth = cube, None
    if hide is not None:
        hidden = hidden_cells(cube, hide, seed=training.seed)
        visible, truth = cube.where(~hidden), cube.where(hidden)
        if isinstance(filled_by, Path):
            console.note("the network may have been trained on values that are hidden here")
    result = fill_with(_filler(filled_by, visible, training), visible)
    figure = new_figure(9, 3)
    plots.plot_series(
        _within(result, period),
        figure.axes[0],
        location=location,
        measurement=measurement,
        truth=truth,
        level=defaults.INTERVAL,
    )
    return figure


def _filler(filled_by: str | Path, visible: xr.DataArray, training: Training) -> Filler:
    """The trained network, or the method fitted on the visible cells."""
    if isinstance(filled_by, Path):
        from cdsa.methods.engine.persistence import load_filler  # loads torch

        filler = load_filler(filled_by, device=training.device)
        if filler.horizon:
            raise ConfigError(f"the network in {filled_by} forecasts and does not fill")
        return filler
    if not info_of(filled_by).fills:
        raise ConfigError(f"'{filled_by}' forecasts and does not fill")
    method = build_method(filled_by, training.options())
    with ConsoleReporter(logdir=training.logdir, interruptible=True) as reporter:
        return method.fit(visible, reporter.run_context(training.device))


def plot_map(
    cube: xr.DataArray, methods: tuple[str, ...], hide: str | None, training: Training
) -> Figure:
    errors, unit = None, ""
    if methods:
        (scored,) = _scores(cube, methods, hide, training)
        errors, unit = scored.table("location")["mae"].astype(float).to_dict(), scored.unit
    figure = new_figure(7, 6)
    plots.plot_map(cube, figure.axes[0], errors=errors, unit=unit)
    return figure


def plot_errors(
    cube: xr.DataArray, methods: tuple[str, ...], hide: str | None, training: Training
) -> Figure:
    scores = _scores(cube, methods or ("linear", "climatology"), hide, training)
    figure = new_figure(6.5, 3.8)
    plots.plot_errors(scores, figure.axes[0])
    return figure


def _scores(
    cube: xr.DataArray, methods: tuple[str, ...], hide: str | None, training: Training
) -> list[Score]:
    request = CompareRequest(
        methods=methods,
        hide=hide or defaults.HIDE,
        seed=training.seed,
        options=training.options(),
        device=training.device,
    )
    return score.compare_with_progress(request, cube, training.logdir)


def plot_explanation(explanation: Explanation) -> Figure:
    figure = new_figure(11, 3.6, columns=2, width_ratios=[1, 1.6])
    plots.plot_time_measurement(explanation, figure.axes[0])
    plots.plot_attended_series(explanation, figure.axes[1])
    return figure


def plot_attention(explanation: Explanation) -> Figure:
    n_maps = max(1, len(explanation.maps))
    figure = new_figure(4 * n_maps, 4.4, columns=n_maps)
    for ax, (axis, table) in zip(figure.axes, explanation.maps.items(), strict=False):
        plots.plot_attention_map(table, ax, row=getattr(explanation.cell, axis))
    return figure


def _within(data: Data, period: slice) -> Data:
    selected = data.sel(time=period)
    if not selected.sizes["time"]:
        raise ConfigError("there is no step between --from and --to")
    return selected
