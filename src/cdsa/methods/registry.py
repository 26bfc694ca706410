"""The methods by name, and how one is made from its name."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from cdsa.core.config import override
from cdsa.errors import ConfigError, unknown
from cdsa.methods.base import COORDINATES, GRAPH, Edge, Method, Needs


@dataclass(frozen=True, kw_only=True)
class MethodInfo:
    """What to know about a method before using it."""

    name: str
    summary: str
    module: str
    """Module and class, as in 'cdsa.methods.baselines.simple:Linear'."""

    task: str = "fill"
    """What it is for: fill, forecast, or both."""

    needs: Needs = ""
    """What the cube must have, such as coordinates."""

    min_stations: int = 1
    """With fewer stations it returns means or straight lines."""

    extra: str = ""
    """Extra to install."""

    package: str = ""
    """Package that the extra brings, by the name it is imported with."""

    paper: str = ""
    """Where it was published."""

    trains: bool = False
    """Whether it is a network, which trains for minutes and can be saved."""

    @property
    def fills(self) -> bool:
        return "fill" in self.task

    @property
    def forecasts(self) -> bool:
        return "forecast" in self.task

    @property
    def installed(self) -> bool:
        """Whether everything it needs is installed."""
        return not self.package or find_spec(self.package) is not None

    def load(self) -> type[Method]:
        """The class of the method, imported on demand."""
        module, _, name = self.module.partition(":")
        loaded: type[Method] = getattr(import_module(module), name)
        return loaded

    def build(self) -> Method:
        """The method with its default settings."""
        return self.load()()


REGISTRY: dict[str, MethodInfo] = {
    info.name: info
    for info in (
        MethodInfo(
            name="mean",
            summary="mean of the station's own values",
            module="cdsa.methods.baselines.simple:Mean",
            task="fill, forecast",
        ),
        MethodInfo(
            name="last",
            summary="last value before the gap",
            module="cdsa.methods.baselines.simple:Last",
            task="fill, forecast",
        ),
        MethodInfo(
            name="linear",
            summary="linear interpolation in time",
            module="cdsa.methods.baselines.simple:Linear",
            task="fill",
        ),
        MethodInfo(
            name="climatology",
            summary="mean of the station at this hour and month",
            module="cdsa.methods.baselines.simple:Climatology",
            task="fill, forecast",
        ),
        MethodInfo(
            name="ar",
            summary="auto-regression of each series, smoothed from both sides",
            module="cdsa.methods.baselines.ar:AutoRegressive",
            task="fill, forecast",
            extra="baselines",
            package="statsmodels",
            paper="Box & Jenkins, 1970",
        ),
        MethodInfo(
            name="idw",
            summary="mean of the other stations, weighted by inverse distance",
            module="cdsa.methods.baselines.idw:Idw",
            needs=COORDINATES,
            paper="Shepard, ACM 1968",
        ),
        MethodInfo(
            name="kriging",
            summary="best linear prediction from the other stations by a fitted variogram; "
            "kriging:linear for a linear one",
            module="cdsa.methods.baselines.kriging:Kriging",
            needs=COORDINATES,
            min_stations=5,
            extra="baselines",
            package="pykrige",
            paper="Matheron, Economic Geology 1963",
        ),
        MethodInfo(
            name="knn",
            summary="mean over the most similar time steps",
            module="cdsa.methods.baselines.sklearn_imputers:Knn",
            extra="baselines",
            package="sklearn",
            paper="Troyanskaya et al., Bioinformatics 2001",
        ),
        MethodInfo(
            name="mice",
            summary="each series regressed on the others, in turns",
            module="cdsa.methods.baselines.sklearn_imputers:Mice",
            extra="baselines",
            package="sklearn",
            paper="van Buuren & Groothuis-Oudshoorn, J. Stat. Softw. 2011",
        ),
        MethodInfo(
            name="mf",
            summary="matrix factorization with smooth temporal factors",
            module="cdsa.methods.baselines.mf:MatrixFactorization",
            paper="Koren et al., Computer 2009; Yu et al., NIPS 2016",
        ),
        MethodInfo(
            name="st-mvl",
            summary="four views, global and local in space and time, blended",
            module="cdsa.methods.baselines.stmvl:StMvl",
            needs=COORDINATES,
            paper="Yi et al., IJCAI 2016",
        ),
        MethodInfo(
            name="cdsa",
            summary="attention that knows places, times and gaps; any stations; intervals",
            module="cdsa.methods.neural.cdsa:Cdsa",
            task="fill, forecast",
            paper="after Ma et al., 2019 (CDSA)",
            trains=True,
        ),
        MethodInfo(
            name="brits",
            summary="a recurrent network that reads and fills in both directions",
            module="cdsa.methods.neural.brits:Brits",
            task="fill, forecast",
            paper="Cao et al., NeurIPS 2018",
            trains=True,
        ),
        MethodInfo(
            name="mtsi",
            summary="a GAN: the generated window that fits the observations best",
            module="cdsa.methods.neural.mtsi:Mtsi",
            task="fill, forecast",
            paper="Luo et al., NeurIPS 2018",
            trains=True,
        ),
        MethodInfo(
            name="iin",
            summary="a recurrent network that refines its own predictions, round by round",
            module="cdsa.methods.neural.iin:Iin",
            paper="Zhou & Huang, AAAI workshops 2018",
            trains=True,
        ),
        MethodInfo(
            name="fc-lstm",
            summary="an encoder and a decoder over all series, without a graph",
            module="cdsa.methods.neural.fclstm:FcLstm",
            task="forecast",
            paper="Sutskever et al., NIPS 2014",
            trains=True,
        ),
        MethodInfo(
            name="dcrnn",
            summary="a recurrent network that diffuses along the graph of stations",
            module="cdsa.methods.neural.dcrnn:Dcrnn",
            task="fill, forecast",
            needs=GRAPH,
            paper="Li et al., ICLR 2018",
            trains=True,
        ),
        MethodInfo(
            name="dst-gcnn",
            summary="convolutions over time and along a graph predicted for every step",
            module="cdsa.methods.neural.dstgcnn:DstGcnn",
            task="forecast",
            needs=GRAPH,
            paper="Wang et al., 2018",
            trains=True,
        ),
        MethodInfo(
            name="gaan",
            summary="a recurrent network in which stations attend to their neighbours",
            module="cdsa.methods.neural.gaan:Gaan",
            task="forecast",
            needs=GRAPH,
            paper="Zhang et al., UAI 2018",
            trains=True,
        ),
        MethodInfo(
            name="cdsa-paper",
            summary="the paper's network: attention over time, location and measurement; "
            "cdsa-paper:joint, :independent, :shared for its other manners",
            module="cdsa.methods.neural.cdsa_paper:CdsaPaper",
            task="fill",
            paper="Ma et al., 2019 (CDSA)",
            trains=True,
        ),
        MethodInfo(
            name="cdsa-paper-forecast",
            summary="the paper's encoder-decoder, for the steps ahead",
            module="cdsa.methods.neural.cdsa_paper:CdsaPaperForecast",
            task="forecast",
            paper="Ma et al., 2019 (CDSA)",
            trains=True,
        ),
    )
}


def info_of(name: str) -> MethodInfo:
    """The entry of a method; a manner or a preset may follow its name."""
    plain = re.split("[:@]", name, maxsplit=1)[0]
    if plain not in REGISTRY:
        raise ConfigError(unknown("method", plain, REGISTRY))
    return REGISTRY[plain]


def list_methods() -> list[MethodInfo]:
    """List all methods.

    Returns
    -------
    list of MethodInfo
        The `name`, `summary`, `task`, `needs`, `extra` and `paper` of each, and whether it `trains`
        a network and is `installed`.

    Examples
    --------
    >>> import cdsa
    >>> [info.name for info in cdsa.list_methods() if info.forecasts and not info.trains]
    ['mean', 'last', 'climatology', 'ar']
    """
    return list(REGISTRY.values())


@dataclass(frozen=True, kw_only=True)
class MethodOptions:
    """What a user may set about a method, be it in Python, on the command line or on the page."""

    preset: str = ""
    manner: str = ""
    graph: tuple[Edge, ...] = ()
    minutes: float | None = None
    epochs: int | None = None
    set: tuple[str, ...] = ()
    """Settings by name, as in 'model.n_layers=6'."""

    seed: int | None = None

    def given(self) -> list[str]:
        """Options for training that are set."""
        names = ("manner", "preset", "graph", "minutes", "epochs", "set")
        defaults = MethodOptions()
        return [name for name in names if getattr(self, name) != getattr(defaults, name)]


NO_OPTIONS = MethodOptions()


def build_method(
    method: str | Method,
    options: MethodOptions = NO_OPTIONS,
    *,
    horizon: int = 0,
    known_covariates: Sequence[str] = (),
) -> Method:
    """Build a method from its name and options, or apply options to a method.

    Parameters
    ----------
    method
        A name such as 'linear'. A manner and a preset may follow: 'cdsa-paper:joint',
        'cdsa-paper@paper-nyc'.
    options
        Presets, budgets, settings; most are for methods that train a network.
    horizon
        Steps to forecast; 0 to fill.
    known_covariates
        Measurements whose future values are known when a forecast is made.

    Returns
    -------
    Method
        With `fit(cube)`, for `cdsa.fill`, `cdsa.score` and `cdsa.train`.

    Raises
    ------
    CdsaError
        If there is no such method, or if it does not have the option.

    Examples
    --------
    >>> import cdsa
    >>> method = cdsa.build_method("kriging:linear")
    >>> method.variogram
    'linear'
    """
    if isinstance(method, str):
        built = _from_name(method, options.preset, horizon)
    elif isinstance(method, Method):
        built = method.with_preset(options.preset) if options.preset else method
    else:
        raise ConfigError(
            f"a method is a name such as 'linear' or a cdsa.Method, but found {method!r}. To "
            "compare several, use cdsa.compare"
        )
    if options.graph:
        built = built.with_graph(options.graph)
    if not built.trains and (given := options.given()):
        networks = ", ".join(info.name for info in REGISTRY.values() if info.trains)
        raise ConfigError(
            f"--{given[0]} is for methods that train a network ({networks}), and "
            f"'{built.label}' does not"
        )
    if options.manner:
        built = built.with_manner(options.manner)
    if options.minutes is not None or options.epochs is not None:
        built = built.with_budget(options.minutes, options.epochs)
    if options.seed is not None:
        built = built.with_seed(options.seed)
    if horizon:
        built = built.with_horizon(horizon, keep_longer=not isinstance(method, str))
        if known_covariates and built.trains:
            built = built.with_known_covariates(known_covariates)
    built = override(built, options.set)
    if horizon and built != built.with_horizon(horizon, keep_longer=True):
        raise ConfigError(
            f"a forecast of {horizon} steps was requested, but --set makes it shorter: "
            f"{', '.join(options.set)}"
        )
    return built


def _from_name(name: str, preset: str, horizon: int) -> Method:
    """The method of this name, refused if it cannot forecast when it should."""
    base, _, own_preset = name.partition("@")
    plain, _, manner = base.partition(":")
    info = info_of(plain)
    if horizon and not info.forecasts:
        others = ", ".join(other.name for other in REGISTRY.values() if other.forecasts)
        raise ConfigError(f"'{plain}' fills gaps but cannot forecast. These can: {others}")
    built = info.build()
    if preset or own_preset:
        built = built.with_preset(preset or own_preset)
    return built.with_manner(manner) if manner else built


def name_of(method: str | Method) -> str:
    """The name of a method in tables."""
    return method if isinstance(method, str) else method.label
