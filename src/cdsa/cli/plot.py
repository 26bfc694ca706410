"""The command that draws: plot."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from cdsa.cli.options import HOW_TO_HIDE, File, Overwrite, read_names
from cdsa.cli.read_options import ReadArguments, with_read_options_for_cell
from cdsa.cli.train_options import Training, with_train_options
from cdsa.core import defaults
from cdsa.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from matplotlib.figure import Figure

    from cdsa.core.times import Clock
    from cdsa.methods.base import Filler
    from cdsa.methods.engine.estimator import NeuralFiller
    from cdsa.methods.explanation import Explanation
    from cdsa.workflows.score import Score


DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


Data = TypeVar("Data", "xr.DataArray", "xr.Dataset")


OF_A_CELL = ("--model", "--time", "--location", "--measurement")


KINDS = {
    "gaps": ("--from", "--to"),
    "series": (
        *("--methods", "--model", "--hide", "--location", "--measurement", "--from", "--to"),
    ),
    "map": ("--methods", "--hide"),
    "errors": ("--methods", "--hide"),
    "reasons": OF_A_CELL,
    "attention": OF_A_CELL,
}
"""The pictures, and the options that each of them makes use of."""


@with_read_options_for_cell
@with_train_options
def plot(
    kind: Annotated[
        str,
        typer.Argument(
            help="gaps: when and where it is missing. series: a station's, filled. map: stations, "
            "what is missing, and errors with --methods. errors: of methods by length of the gap. "
            "reasons: where a value comes from. attention: its three maps.",
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
            help="errors: methods to score; map: one of them; series: one to fill with.",
        ),
    ] = None,
    hide: Annotated[str | None, HOW_TO_HIDE] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", help="A folder that 'cdsa train' made.", metavar="DIR"),
    ] = None,
    moment: Annotated[
        str | None, typer.Option("--time", help="When, of a cell.", metavar="TIME")
    ] = None,
    place: Annotated[
        str | None, typer.Option("--location", help="Which station.", metavar="NAME")
    ] = None,
    measured: Annotated[
        str | None, typer.Option("--measurement", help="Which measurement.", metavar="NAME")
    ] = None,
    first: Annotated[
        str | None, typer.Option("--from", help="Draw from this time on.", metavar="TIME")
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to", help="Draw up to this time.", metavar="TIME")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Draw a picture of a table: its gaps, its stations, what was filled, and why."""
    from importlib.util import find_spec

    from cdsa.cli import console
    from cdsa.io.source import open_source

    given = {
        "--methods": methods,
        "--hide": hide,
        "--model": model,
        "--time": moment,
        "--location": place,
        "--measurement": measured,
        "--from": first,
        "--to": last,
    }
    names = read_names(methods)
    _refuse_idle(kind, {name: value for name, value in given.items() if value}, names, training)
    if find_spec("matplotlib") is None:
        raise MissingExtraError("a picture", "matplotlib", "plot")
    from cdsa.plots.figures import check_figure_path, save_figure

    check_figure_path(output, overwrite=overwrite)
    with console.busy(f"reading {file.name}"):
        source = open_source(file, **read_options)
    clock = source.content.clock
    picture = _Wish(
        cube=source.cube,
        methods=names,
        hide=hide,
        training=training,
        model=model,
        moment=None if moment is None else clock.parse(moment),
        place=place,
        measured=measured,
        shown=_stretch(first, last, clock),
    )
    draw: dict[str, Callable[[], Figure]] = {
        "gaps": picture.gaps,
        "series": picture.series,
        "map": picture.map,
        "errors": picture.errors,
        "reasons": picture.reasons,
        "attention": picture.attention,
    }
    save_figure(draw[kind](), output, overwrite=overwrite)
    console.out.print(f"wrote [bold]{output}[/]", soft_wrap=True)


def _refuse_idle(
    kind: str, given: Mapping[str, object], methods: tuple[str, ...], training: Training
) -> None:
    """Refuse options that the picture of this kind would make no use of."""
    from cdsa.errors import unknown

    if kind not in KINDS:
        raise ConfigError(unknown("picture", kind, KINDS))
    useless = [name for name in given if name not in KINDS[kind]]
    if useless:
        raise ConfigError(
            f"a picture of {kind} makes no use of {', '.join(useless)}. Of such options it takes "
            f"{', '.join(KINDS[kind])}"
        )
    if "--methods" in given and "--model" in given:
        raise ConfigError("give either --methods or --model, not both")
    if len(methods) > 1 and kind != "errors":
        raise ConfigError(
            f"a picture of {kind} is of one method, but --methods names {', '.join(methods)}. "
            "Leave all but one out"
        )
    if kind == "map" and "--hide" in given and not methods:
        raise ConfigError("a map shows errors of a method on what --hide hides. Name --methods")
    of_use = ("device",) if "--model" in given else tuple(training.given) if methods else ()
    idle = [name for name in training.given if name not in of_use]
    if idle:
        raise ConfigError(f"--{idle[0]} is for training a network, and none is trained here")


def _stretch(first: str | None, last: str | None, clock: "Clock") -> slice:
    """The time between two stamps, written as the table writes its own; a day is meant to its
    end."""
    whole_day = last is not None and DAY.fullmatch(last) is not None
    return slice(
        None if first is None else clock.parse(first),
        None if last is None else clock.parse(f"{last}T23:59:59.999999999" if whole_day else last),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Wish:
    """What was asked for, and the pictures of it."""

    cube: "xr.DataArray"
    methods: tuple[str, ...]
    hide: str | None
    training: Training
    model: Path | None
    moment: "np.datetime64 | None"
    place: str | None
    measured: str | None
    shown: slice

    def gaps(self) -> "Figure":
        from cdsa.plots import plot_gaps
        from cdsa.plots.figures import new_figure

        cube = _between(self.cube, self.shown)
        rows = min(40, max(cube.sizes["location"], 4))
        figure = new_figure(9, 1.2 + 0.22 * rows)
        plot_gaps(cube, figure.axes[0])
        return figure

    def series(self) -> "Figure":
        from cdsa.plots import plot_series
        from cdsa.plots.figures import new_figure
        from cdsa.workflows.fill import fill_with
        from cdsa.workflows.score import hidden_cells

        place = self.place or str(self.cube["location"].to_numpy()[0])
        kind = self._measurement()
        _known(self.cube, "location", place)
        visible, truth = self.cube, None
        if self.hide is not None:
            hidden = hidden_cells(self.cube, self.hide, seed=self.training.seed)
            visible, truth = self.cube.where(~hidden), self.cube.where(hidden)
        result = fill_with(self._filler(visible), visible)
        figure = new_figure(9, 3)
        plot_series(
            _between(result, self.shown),
            figure.axes[0],
            location=place,
            measurement=kind,
            truth=truth,
            level=defaults.INTERVAL,
        )
        return figure

    def _filler(self, visible: "xr.DataArray") -> "Filler | NeuralFiller":
        """The network that was given, or the method when it has learnt from what it may see."""
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
            (scored,) = self._scores(self.methods)
            table = scored.table("location")
            errors, unit = {str(n): float(table.loc[n, "mae"]) for n in table.index}, scored.unit
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

    def reasons(self) -> "Figure":
        from cdsa.plots import plot_attended_series, plot_time_measurement
        from cdsa.plots.figures import new_figure

        told = self._explained()
        figure = new_figure(11, 3.6, columns=2, width_ratios=[1, 1.6])
        plot_time_measurement(told, figure.axes[0])
        plot_attended_series(told, figure.axes[1])
        return figure

    def attention(self) -> "Figure":
        from cdsa.plots import plot_attention_map
        from cdsa.plots.figures import new_figure

        told = self._explained()
        figure = new_figure(4 * max(1, len(told.maps)), 4.4, columns=max(1, len(told.maps)))
        for ax, (axis, table) in zip(figure.axes, told.maps.items(), strict=False):
            plot_attention_map(table, ax, row=getattr(told.cell, axis))
        return figure

    def _explained(self) -> "Explanation":
        from cdsa.methods.engine.persistence import load_filler

        if self.model is None or self.moment is None or self.place is None:
            raise ConfigError(
                "this picture is of a cell and a network: give --model, --time and --location, and "
                "--measurement if there are several"
            )
        filler = load_filler(self.model, device=self.training.device)
        return filler.explain(self.cube, self.moment, self.place, self._measurement())

    def _measurement(self) -> str:
        names = [str(name) for name in self.cube["measurement"].to_numpy()]
        if self.measured is None:
            if len(names) > 1:
                raise ConfigError(
                    f"name one of the measurements with --measurement: {', '.join(names)}"
                )
            return names[0]
        _known(self.cube, "measurement", self.measured)
        return self.measured


def _known(cube: "xr.DataArray", axis: str, name: str) -> None:
    from cdsa.errors import unknown

    names = [str(one) for one in cube[axis].to_numpy()]
    if name not in names:
        raise ConfigError(unknown(axis, name, names))


def _between(data: Data, shown: slice) -> Data:
    """The steps of a stretch of time."""
    part = data.sel(time=shown)
    if not part.sizes["time"]:
        raise ConfigError("there is no step between --from and --to")
    return part
