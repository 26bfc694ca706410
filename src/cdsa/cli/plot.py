"""cdsa plot."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from cdsa.cli.options import HIDE, File, Model, Overwrite, read_names
from cdsa.cli.read_options import ReadArguments, with_read_options_for_cell
from cdsa.cli.train_options import Training, with_train_options
from cdsa.core import defaults
from cdsa.errors import ConfigError, MissingExtraError, unknown

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from matplotlib.figure import Figure

    from cdsa.core.times import Clock
    from cdsa.methods.base import Filler
    from cdsa.methods.explanation import Explanation
    from cdsa.workflows.score import Score

Data = TypeVar("Data", "xr.DataArray", "xr.Dataset")

DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
CELL_OPTIONS = ("--model", "--time", "--location", "--measurement")
SERIES_OPTIONS = (
    *("--methods", "--model", "--hide"),
    *("--location", "--measurement", "--from", "--to"),
)
KINDS = {
    "gaps": ("--from", "--to"),
    "series": SERIES_OPTIONS,
    "map": ("--methods", "--hide"),
    "errors": ("--methods", "--hide"),
    "explanation": CELL_OPTIONS,
    "attention": CELL_OPTIONS,
}
"""The kinds of plots, and the options that each of them uses."""


@with_read_options_for_cell
@with_train_options
def plot(
    kind: Annotated[
        str,
        typer.Argument(
            help="gaps: when and where values are missing. series: a filled series. map: stations, "
            "missing values, and errors with --methods. errors: errors of methods by gap length. "
            "explanation: where a filled value comes from. attention: its three attention maps.",
            metavar="|".join(KINDS),
        ),
    ],
    file: File,
    *,
    read_options: ReadArguments,
    training: Training,
    output: Annotated[Path, typer.Option("-o", "--output", help="A .png, .svg or .pdf.")],
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            help="errors: methods to score; map: one to score; series: one to fill with.",
        ),
    ] = None,
    hide: Annotated[str | None, HIDE] = None,
    model: Model = None,
    cell_time: Annotated[
        str | None, typer.Option("--time", help="Time of a cell.", metavar="TIME")
    ] = None,
    cell_location: Annotated[
        str | None, typer.Option("--location", help="Station.", metavar="NAME")
    ] = None,
    cell_measurement: Annotated[
        str | None, typer.Option("--measurement", help="Measurement.", metavar="NAME")
    ] = None,
    first: Annotated[
        str | None, typer.Option("--from", help="First time to plot.", metavar="TIME")
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to", help="Last time to plot.", metavar="TIME")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Plot a table: its gaps, its stations, filled series, errors, or where a value comes from."""
    from importlib.util import find_spec

    from cdsa.cli import console
    from cdsa.io.source import open_source

    options = {
        "--methods": methods,
        "--hide": hide,
        "--model": model,
        "--time": cell_time,
        "--location": cell_location,
        "--measurement": cell_measurement,
        "--from": first,
        "--to": last,
    }
    names = read_names(methods)
    _refuse_unused(kind, {name: value for name, value in options.items() if value}, names, training)
    if find_spec("matplotlib") is None:
        raise MissingExtraError("a plot", "matplotlib", "plot")
    from cdsa.plots.figures import check_figure_path, save_figure

    check_figure_path(output, overwrite=overwrite)
    with console.busy(f"reading {file.name}"):
        source = open_source(file, **read_options)
    clock = source.content.clock
    request = PlotRequest(
        cube=source.cube,
        methods=names,
        hide=hide,
        training=training,
        model=model,
        time=None if cell_time is None else clock.parse(cell_time),
        location=cell_location,
        measurement=cell_measurement,
        period=_period(first, last, clock),
    )
    draw = {
        "gaps": request.gaps,
        "series": request.series,
        "map": request.map,
        "errors": request.errors,
        "explanation": request.explanation,
        "attention": request.attention,
    }
    save_figure(draw[kind](), output, overwrite=overwrite)
    console.print_paths(output)


def _refuse_unused(
    kind: str, options: Mapping[str, object], methods: tuple[str, ...], training: Training
) -> None:
    """Refuse options that a plot of this kind does not use."""
    if kind not in KINDS:
        raise ConfigError(unknown("plot", kind, KINDS))
    unused = [name for name in options if name not in KINDS[kind]]
    if unused:
        raise ConfigError(
            f"'cdsa plot {kind}' does not use {', '.join(unused)}. It uses {', '.join(KINDS[kind])}"
        )
    if "--methods" in options and "--model" in options:
        raise ConfigError("give either --methods or --model, not both")
    if len(methods) > 1 and kind != "errors":
        raise ConfigError(
            f"'cdsa plot {kind}' shows one method, but --methods has {', '.join(methods)}. Give "
            "one of them"
        )
    if kind == "map" and "--hide" in options and not methods:
        raise ConfigError("a map shows errors on the cells that --hide hides. Give --methods too")
    used = ("device",) if "--model" in options else tuple(training.given) if methods else ()
    unused = [name for name in training.given if name not in used]
    if unused:
        raise ConfigError(f"--{unused[0]} is for training a network, and none is trained here")


def _period(first: str | None, last: str | None, clock: "Clock") -> slice:
    """The period between two times in the format of the table; a day includes all its hours."""
    is_day = last is not None and DAY.fullmatch(last) is not None
    return slice(
        None if first is None else clock.parse(first),
        None if last is None else clock.parse(f"{last}T23:59:59.999999999" if is_day else last),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PlotRequest:
    """What to plot; it has a method for each kind of plot."""

    cube: "xr.DataArray"
    methods: tuple[str, ...]
    hide: str | None
    training: Training
    model: Path | None
    time: "np.datetime64 | None"
    location: str | None
    measurement: str | None
    period: slice

    def gaps(self) -> "Figure":
        from cdsa.plots import plot_gaps
        from cdsa.plots.figures import new_figure

        cube = _within(self.cube, self.period)
        rows = min(40, max(cube.sizes["location"], 4))
        figure = new_figure(9, 1.2 + 0.22 * rows)
        plot_gaps(cube, figure.axes[0])
        return figure

    def series(self) -> "Figure":
        from cdsa.plots import plot_series
        from cdsa.plots.figures import new_figure
        from cdsa.workflows.fill import fill_with
        from cdsa.workflows.score import hidden_cells

        location = self.location or str(self.cube["location"].to_numpy()[0])
        measurement = self._measurement()
        _check_label(self.cube, "location", location)
        visible, truth = self.cube, None
        if self.hide is not None:
            hidden = hidden_cells(self.cube, self.hide, seed=self.training.seed)
            visible, truth = self.cube.where(~hidden), self.cube.where(hidden)
        result = fill_with(self._filler(visible), visible)
        figure = new_figure(9, 3)
        plot_series(
            _within(result, self.period),
            figure.axes[0],
            location=location,
            measurement=measurement,
            truth=truth,
            level=defaults.INTERVAL,
        )
        return figure

    def _filler(self, visible: "xr.DataArray") -> "Filler":
        """The trained network, or the method fitted on the visible cells."""
        from cdsa.cli import console
        from cdsa.cli.progress import ConsoleReporter
        from cdsa.methods.engine.persistence import load_filler
        from cdsa.methods.registry import build_method, info_of

        if self.model is not None:
            filler = load_filler(self.model, device=self.training.device)
            if filler.horizon:
                raise ConfigError(f"the network in {self.model} forecasts and does not fill")
            if self.hide is not None:
                console.note("the network may have been trained on values that are hidden here")
            return filler
        name = self.methods[0] if self.methods else "linear"
        if not info_of(name).fills:
            raise ConfigError(f"'{name}' forecasts and does not fill")
        method = build_method(name, self.training.options())
        with ConsoleReporter(logdir=self.training.logdir, interruptible=True) as reporter:
            return method.fit(visible, reporter.run_context(self.training.device))

    def map(self) -> "Figure":
        from cdsa.plots import plot_map
        from cdsa.plots.figures import new_figure

        errors, unit = None, ""
        if self.methods:
            (score,) = self._scores(self.methods)
            table = score.table("location")
            errors, unit = {str(n): float(table.loc[n, "mae"]) for n in table.index}, score.unit
        figure = new_figure(7, 6)
        plot_map(self.cube, figure.axes[0], errors=errors, unit=unit)
        return figure

    def errors(self) -> "Figure":
        from cdsa.plots import plot_errors
        from cdsa.plots.figures import new_figure

        figure = new_figure(6.5, 3.8)
        plot_errors(self._scores(self.methods or ("linear", "climatology")), figure.axes[0])
        return figure

    def _scores(self, methods: tuple[str, ...]) -> "list[Score]":
        from cdsa.cli.score import compare_with_progress
        from cdsa.workflows.pipeline import CompareRequest

        request = CompareRequest(
            methods=methods,
            hide=self.hide or defaults.HIDE,
            seed=self.training.seed,
            options=self.training.options(),
            device=self.training.device,
        )
        return compare_with_progress(request, self.cube, self.training.logdir)

    def explanation(self) -> "Figure":
        from cdsa.plots import plot_attended_series, plot_time_measurement
        from cdsa.plots.figures import new_figure

        explanation = self._explain()
        figure = new_figure(11, 3.6, columns=2, width_ratios=[1, 1.6])
        plot_time_measurement(explanation, figure.axes[0])
        plot_attended_series(explanation, figure.axes[1])
        return figure

    def attention(self) -> "Figure":
        from cdsa.plots import plot_attention_map
        from cdsa.plots.figures import new_figure

        explanation = self._explain()
        n_maps = max(1, len(explanation.maps))
        figure = new_figure(4 * n_maps, 4.4, columns=n_maps)
        for ax, (axis, table) in zip(figure.axes, explanation.maps.items(), strict=False):
            plot_attention_map(table, ax, row=getattr(explanation.cell, axis))
        return figure

    def _explain(self) -> "Explanation":
        from cdsa.methods.engine.persistence import load_filler
        from cdsa.workflows.pipeline import run_explain

        if self.model is None or self.time is None or self.location is None:
            raise ConfigError(
                "this plot shows a cell and a network: give --model, --time and --location, and "
                "--measurement if there are several"
            )
        filler = load_filler(self.model, device=self.training.device)
        return run_explain(filler, self.cube, self.time, self.location, self.measurement)

    def _measurement(self) -> str:
        names = [str(name) for name in self.cube["measurement"].to_numpy()]
        if self.measurement is None and len(names) > 1:
            raise ConfigError(f"choose one measurement with --measurement: {', '.join(names)}")
        measurement = self.measurement or names[0]
        _check_label(self.cube, "measurement", measurement)
        return measurement


def _check_label(cube: "xr.DataArray", axis: str, name: str) -> None:
    names = [str(label) for label in cube[axis].to_numpy()]
    if name not in names:
        raise ConfigError(unknown(axis, name, names))


def _within(data: Data, period: slice) -> Data:
    """The steps of a period."""
    selected = data.sel(time=period)
    if not selected.sizes["time"]:
        raise ConfigError("there is no step between --from and --to")
    return selected
