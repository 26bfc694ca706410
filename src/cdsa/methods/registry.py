"""The methods by name, and how one is made from its name and options."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from cdsa.core.config import override
from cdsa.core.defaults import AUTO
from cdsa.core.geo import Edge
from cdsa.errors import ConfigError, unknown
from cdsa.methods.base import COORDINATES, GRAPH, Method, Needs


@dataclass(frozen=True)
class MethodInfo:
    """What to know about a method before using it."""

    name: str
    module: str
    """Module and class below `cdsa.methods`, as in 'baselines.simple:Linear'."""

    task: str
    """What it is for: fill, forecast, or both."""

    summary: str
    needs: Needs = ""
    """What the cube must have, such as coordinates."""

    min_stations: int = 1
    """With fewer stations it returns means or straight lines."""

    package: str = ""
    """Optional package that it needs, by the name it is imported with."""

    paper: str = ""
    """Where it was published."""

    @property
    def fills(self) -> bool:
        return "fill" in self.task

    @property
    def forecasts(self) -> bool:
        return "forecast" in self.task

    @property
    def trains(self) -> bool:
        """Whether it is a network, which trains for minutes and can be saved."""
        return self.module.startswith("neural.")

    @property
    def extra(self) -> str:
        """Extra to install for its package."""
        return "baselines" if self.package else ""

    @property
    def installed(self) -> bool:
        """Whether everything it needs is installed."""
        return not self.package or find_spec(self.package) is not None

    def load(self) -> type[Method]:
        module, _, name = self.module.partition(":")
        loaded: type[Method] = getattr(import_module(f"cdsa.methods.{module}"), name)
        return loaded


BOTH = "fill, forecast"

# fmt: off
METHODS = (
    MethodInfo("mean", "baselines.simple:Mean", BOTH, "mean of the station's own values"),
    MethodInfo("last", "baselines.simple:Last", BOTH, "last value before the gap"),
    MethodInfo("seasonal-naive", "baselines.simple:SeasonalNaive", BOTH,
               summary="last value at the same time of the week, or of the day"),
    MethodInfo("linear", "baselines.simple:Linear", "fill", "linear interpolation in time"),
    MethodInfo("climatology", "baselines.simple:Climatology", BOTH,
               summary="mean of the station at this hour and month"),
    MethodInfo("ar", "baselines.ar:AutoRegressive", BOTH, package="statsmodels",
               paper="Box & Jenkins, 1970",
               summary="auto-regression of each series, smoothed from both sides"),
    MethodInfo("idw", "baselines.idw:Idw", "fill", needs=COORDINATES, paper="Shepard, ACM 1968",
               summary="mean of the other stations, weighted by inverse distance"),
    MethodInfo("kriging", "baselines.kriging:Kriging", "fill", needs=COORDINATES, min_stations=5,
               package="pykrige", paper="Matheron, Economic Geology 1963",
               summary="best linear prediction from the other stations by a fitted variogram; "
               "kriging:linear for a linear one"),
    MethodInfo("knn", "baselines.sklearn_imputers:Knn", "fill", package="sklearn",
               paper="Troyanskaya et al., Bioinformatics 2001",
               summary="mean over the most similar time steps"),
    MethodInfo("mice", "baselines.sklearn_imputers:Mice", "fill", package="sklearn",
               paper="van Buuren & Groothuis-Oudshoorn, J. Stat. Softw. 2011",
               summary="each series regressed on the others, in turns"),
    MethodInfo("mf", "baselines.mf:MatrixFactorization", "fill",
               paper="Koren et al., Computer 2009; Yu et al., NIPS 2016",
               summary="matrix factorization with smooth temporal factors"),
    MethodInfo("st-mvl", "baselines.stmvl:StMvl", "fill", needs=COORDINATES,
               paper="Yi et al., IJCAI 2016",
               summary="four views, global and local in space and time, blended"),
    MethodInfo("kalman", "baselines.kalman:Kalman", BOTH, paper="Shumway & Stoffer, JTSA 1982",
               summary="a state space model of all series at once, smoothed; intervals"),
    MethodInfo("cdsa", "neural.cdsa:Cdsa", BOTH, paper="after Ma et al., 2019 (CDSA)",
               summary="attention that knows places, times and gaps; any stations; intervals"),
    MethodInfo("brits", "neural.brits:Brits", BOTH, paper="Cao et al., NeurIPS 2018",
               summary="a recurrent network that reads and fills in both directions"),
    MethodInfo("mtsi", "neural.mtsi:Mtsi", BOTH, paper="Luo et al., NeurIPS 2018",
               summary="a GAN: the generated window that fits the observations best"),
    MethodInfo("iin", "neural.iin:Iin", "fill", paper="Zhou & Huang, AAAI workshops 2018",
               summary="a recurrent network that refines its own predictions, round by round"),
    MethodInfo("fc-lstm", "neural.fclstm:FcLstm", "forecast", paper="Sutskever et al., NIPS 2014",
               summary="an encoder and a decoder over all series, without a graph"),
    MethodInfo("dcrnn", "neural.dcrnn:Dcrnn", BOTH, needs=GRAPH, paper="Li et al., ICLR 2018",
               summary="a recurrent network that diffuses along the graph of stations"),
    MethodInfo("dst-gcnn", "neural.dstgcnn:DstGcnn", "forecast", needs=GRAPH,
               paper="Wang et al., 2018",
               summary="convolutions over time and along a graph predicted for every step"),
    MethodInfo("gaan", "neural.gaan:Gaan", "forecast", needs=GRAPH, paper="Zhang et al., UAI 2018",
               summary="a recurrent network in which stations attend to their neighbours"),
    MethodInfo("cdsa-paper", "neural.cdsa_paper:CdsaPaper", "fill", paper="Ma et al., 2019 (CDSA)",
               summary="the paper's network: attention over time, location and measurement; "
               "cdsa-paper:joint, :independent, :shared for its other manners"),
    MethodInfo("cdsa-paper-forecast", "neural.cdsa_paper:CdsaPaperForecast", "forecast",
               paper="Ma et al., 2019 (CDSA)",
               summary="the paper's encoder-decoder, for the steps ahead"),
)
# fmt: on

REGISTRY = {info.name: info for info in METHODS}


def split_name(name: str) -> tuple[str, str, str]:
    """Name, manner and preset of 'name:manner@preset'."""
    name, _, preset = name.partition("@")
    name, _, manner = name.partition(":")
    return name, manner, preset


def info_of(name: str) -> MethodInfo:
    """The entry of a method; a manner or a preset may follow its name."""
    name, _, _ = split_name(name)
    if name == AUTO:
        raise ConfigError(f"'auto' is for cdsa.fill only. Here, name one of: {', '.join(REGISTRY)}")
    if name not in REGISTRY:
        raise ConfigError(unknown("method", name, REGISTRY))
    return REGISTRY[name]


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
    ['mean', 'last', 'seasonal-naive', 'climatology', 'ar', 'kalman']
    """
    return list(REGISTRY.values())


@dataclass(frozen=True, kw_only=True)
class MethodOptions:
    """Options of a method; most are for methods that train a network.

    Parameters
    ----------
    preset
        Settings by name, such as 'small' for `cdsa`.
    manner
        Another manner of `cdsa-paper` ('joint', 'independent', 'shared').
    graph
        Edges between stations for methods on a graph: source, target, weight.
    minutes
        Training time; chosen by the size of the data if neither this nor `epochs` is given.
    epochs
        Training time in passes over the data.
    set
        Single settings of any method, as in ('model.n_layers=6', 'train.lr=0.001').
    seed
        Seed of the first weights and the training.

    Examples
    --------
    >>> import cdsa
    >>> options = cdsa.MethodOptions(epochs=3, set=("model.n_layers=6",))
    >>> method = cdsa.build_method("cdsa", options)
    >>> method.train.epochs, method.model.n_layers
    (3, 6)
    """

    preset: str = ""
    manner: str = ""
    graph: tuple[Edge, ...] = ()
    minutes: float | None = None
    epochs: int | None = None
    set: Sequence[str] = ()
    seed: int | None = None

    def given(self) -> list[str]:
        """Options for training that are given."""
        names = ("manner", "preset", "graph", "minutes", "epochs")
        return [name for name in names if getattr(self, name) not in ("", (), None)]


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
    if not isinstance(options, MethodOptions):
        raise ConfigError(f"give cdsa.MethodOptions(set=['name=value']), but found {options!r}")
    manner = preset = ""
    if isinstance(method, str):
        info, (_, manner, preset) = info_of(method), split_name(method)
        if horizon and not info.forecasts:
            others = ", ".join(other.name for other in list_methods() if other.forecasts)
            raise ConfigError(f"'{info.name}' fills gaps but cannot forecast. These can: {others}")
        built = info.load()()
    elif isinstance(method, Method):
        built = method
    else:
        raise ConfigError(
            "a method is a name such as 'linear' or a cdsa.Method, but found a "
            f"{type(method).__name__}. To compare several, use cdsa.compare"
        )
    if options.preset or preset:
        built = built.with_preset(options.preset or preset)
    if manner:
        built = built.with_manner(manner)
    if options.graph:
        built = built.with_graph(options.graph)
    if not built.trains and (given := options.given()):
        networks = ", ".join(info.name for info in list_methods() if info.trains)
        raise ConfigError(
            f"--{given[0]} is for methods that train a network ({networks}), and "
            f"'{built.label}' does not train one"
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


def name_of(method: str | Method) -> str:
    return method if isinstance(method, str) else method.label
