"""The command that draws: plot."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from cdsa import defaults
from cdsa.cli.options import File, Hide, Overwrite, read_names
from cdsa.cli.reading import Reading, reads_a_file_for_a_cell
from cdsa.cli.training import Training, trains
from cdsa.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    from cdsa.method import Filler
    from cdsa.method.neural import NeuralFiller
    from cdsa.method.reasons import Reasons

Data = TypeVar("Data", "xr.DataArray", "xr.Dataset")
OF_A_CELL = ("--model", "--time", "--location", "--measurement")
KINDS = {
    "gaps": ("--from", "--to"),
    "series": ("--methods", "--model", "--location", "--measurement", "--from", "--to"),
    "map": ("--methods", "--hide"),
    "errors": ("--methods", "--hide"),
    "reasons": OF_A_CELL,
    "attention": OF_A_CELL,
}
"""The pictures, and the options that each of them makes use of."""


@reads_a_file_for_a_cell
@trains
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
    reading: Reading,
    training: Training,
    output: Annotated[Path, typer.Option("-o", "--output", help="A .png, .svg or .pdf.")],
    methods: Annotated[
        str | None,
        typer.Option("--methods", help="errors, map: methods to score; series: one to fill with."),
    ] = None,
    hide: Hide = defaults.HIDE,
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

    from cdsa.cli import show
    from cdsa.errors import unknown
    from cdsa.sources.files import open_source

    if kind not in KINDS:
        raise ConfigError(unknown("picture", kind, KINDS))
    given = {
        "--methods": methods,
        "--hide": None if hide == defaults.HIDE else hide,
        "--model": model,
        "--time": moment,
        "--location": place,
        "--measurement": measured,
        "--from": first,
        "--to": last,
    }
    useless = [name for name, value in given.items() if value and name not in KINDS[kind]]
    if useless:
        raise ConfigError(
            f"a picture of {kind} makes no use of {', '.join(useless)}. Of such options it takes "
            f"{', '.join(KINDS[kind])}"
        )
    if find_spec("matplotlib") is None:
        raise MissingExtraError("a picture", "matplotlib", "plot")
    from cdsa.pictures.figures import check_picture, save_figure

    check_picture(output, overwrite=overwrite)
    with show.busy(f"reading {file.name}"):
        source = open_source(file, **reading)
    cube, at = source.cube, moment and str(source.content.clock.read(moment))
    picture = _Wish(cube, read_names(methods), hide, training, model, at, place, measured)
    shown = slice(first, last)
    draw: dict[str, Callable[[], Figure]] = {
        "gaps": lambda: picture.gaps(shown),
        "series": lambda: picture.series(shown),
        "map": picture.map,
        "errors": picture.errors,
        "reasons": picture.reasons,
        "attention": picture.attention,
    }
    save_figure(draw[kind](), output, overwrite=overwrite)
    show.out.print(f"wrote [bold]{output}[/]", soft_wrap=True)


class _Wish:
    """What was asked for, and the pictures of it."""

    def __init__(
        self,
        cube: "xr.DataArray",
        methods: tuple[str, ...],
        hide: str,
        training: Training,
        model: Path | None,
        moment: str | None,
        place: str | None,
        measured: str | None,
    ) -> None:
        self.cube, self.methods, self.hide, self.training = cube, methods, hide, training
        self.model, self.moment, self.place, self.measured = model, moment, place, measured

    def gaps(self, shown: slice) -> "Figure":
        from cdsa.pictures import draw_gaps
        from cdsa.pictures.figures import new_figure

        cube = _between(self.cube, shown)
        rows = min(40, max(cube.sizes["location"], 4))
        figure = new_figure(9, 1.2 + 0.22 * rows)
        draw_gaps(cube, figure.axes[0])
        return figure

    def series(self, shown: slice) -> "Figure":
        from cdsa.cli.training import make_trained
        from cdsa.filling import fill_with
        from cdsa.method import info_of
        from cdsa.method.saved import load_filler
        from cdsa.pictures import draw_series
        from cdsa.pictures.figures import new_figure

        place = self.place or str(self.cube["location"].to_numpy()[0])
        kind = self._measurement()
        _known(self.cube, "location", place)
        filler: Filler | NeuralFiller
        if self.model is not None:
            filler = load_filler(self.model)
            if filler.foresees:
                raise ConfigError(f"the network in {self.model} forecasts and does not fill")
        else:
            name = self.methods[0] if self.methods else "linear"
            if "fill" not in info_of(name).task:
                raise ConfigError(f"'{name}' forecasts and does not fill")
            filler = make_trained(name, self.training).fit(self.cube)
        result = fill_with(filler, self.cube)
        figure = new_figure(9, 3)
        draw_series(
            _between(result, shown),
            figure.axes[0],
            location=place,
            measurement=kind,
            level=defaults.INTERVAL,
        )
        return figure

    def map(self) -> "Figure":
        from cdsa.cli import comparing
        from cdsa.pictures import draw_places
        from cdsa.pictures.figures import new_figure

        errors, unit = None, ""
        if self.methods:
            (scored,) = comparing.score_with_progress(
                self.methods[:1], self.cube, self.hide, 1, 0, None, self.training
            )
            table = scored.table("location")
            errors, unit = {str(n): float(table.loc[n, "mae"]) for n in table.index}, scored.unit
        figure = new_figure(7, 6)
        draw_places(self.cube, figure.axes[0], errors=errors, unit=unit)
        return figure

    def errors(self) -> "Figure":
        from cdsa.cli import comparing
        from cdsa.pictures import draw_errors
        from cdsa.pictures.figures import new_figure

        names = self.methods or ("linear", "climatology")
        scores = comparing.score_with_progress(
            names, self.cube, self.hide, 1, 0, None, self.training
        )
        figure = new_figure(6.5, 3.8)
        draw_errors(scores, figure.axes[0])
        return figure

    def reasons(self) -> "Figure":
        from cdsa.pictures import draw_attended, draw_time_measurement
        from cdsa.pictures.figures import new_figure

        told = self._explained()
        figure = new_figure(11, 3.6, columns=2, width_ratios=[1, 1.6])
        draw_time_measurement(told, figure.axes[0])
        draw_attended(told, figure.axes[1])
        return figure

    def attention(self) -> "Figure":
        from cdsa.pictures import draw_axis_map
        from cdsa.pictures.figures import new_figure

        told = self._explained()
        figure = new_figure(4 * max(1, len(told.maps)), 4.4, columns=max(1, len(told.maps)))
        for ax, (axis, table) in zip(figure.axes, told.maps.items(), strict=False):
            draw_axis_map(table, ax, row=getattr(told.cell, axis))
        return figure

    def _explained(self) -> "Reasons":
        from cdsa.method.saved import load_filler

        if self.model is None or self.moment is None or self.place is None:
            raise ConfigError(
                "this picture is of a cell and a network: give --model, --time and --location, and "
                "--measurement if there are several"
            )
        filler = load_filler(self.model)
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
    try:
        part = data.sel(time=shown)
    except (KeyError, TypeError, ValueError) as bad:
        raise ConfigError("--from and --to are times, written as 2024-03-01T12:00") from bad
    if not part.sizes["time"]:
        raise ConfigError("there is no step between --from and --to")
    return part
