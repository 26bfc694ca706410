"""The methods by name, and how one is made from its name."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from cdsa.errors import ConfigError, unknown
from cdsa.methods.base import GRAPH, PLACES, Method


@dataclass(frozen=True, kw_only=True)
class MethodInfo:
    """What to know about a method before using it."""

    name: str
    summary: str
    module: str
    """Module and class, as in 'cdsa.methods.baselines.simple:Linear'."""

    task: str = "fill"
    """What it is for: fill, or fill and forecast."""

    needs: str = ""
    """What the cube must have, such as coordinates."""

    stations: int = 1
    """Stations from which on it has anything to say but means."""

    extra: str = ""
    """Extra to install."""

    package: str = ""
    """Package that the extra brings, by the name it is imported with."""

    paper: str = ""
    """Where it was published."""

    trains: bool = False
    """Whether it is a network, which trains for minutes and can be saved."""

    @property
    def installed(self) -> bool:
        """Whether all it needs is installed."""
        return not self.package or find_spec(self.package) is not None

    def make(self) -> Method:
        """The method with its default settings."""
        method: Method = class_of(self)()
        return method


def class_of(info: MethodInfo) -> type[Any]:
    """The class of a method, imported when it is asked for."""
    module, _, name = info.module.partition(":")
    found: type[Any] = getattr(import_module(module), name)
    return found


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
            needs=PLACES,
            paper="Shepard, ACM 1968",
        ),
        MethodInfo(
            name="kriging",
            summary="best linear prediction from the other stations by a fitted variogram; "
            "kriging:linear for a linear one",
            module="cdsa.methods.baselines.kriging:Kriging",
            needs=PLACES,
            stations=5,
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
            needs=PLACES,
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
    """What is known of the method of this name; a manner or a preset may stand behind it."""
    plain = re.split("[:@]", name, maxsplit=1)[0]
    if plain not in REGISTRY:
        raise ConfigError(unknown("method", plain, REGISTRY))
    return REGISTRY[plain]


def list_methods() -> list[MethodInfo]:
    """All methods there are."""
    return list(REGISTRY.values())


def make_method(
    method: str | Method, *, ahead: int = 0, known: Sequence[str] = ()
) -> tuple[str, Method]:
    """A method and its name, from either; with `ahead`, one that can foresee so many steps, with
    these measurements `known` in advance if it can make use of them.

    The manner of a network of the paper may stand behind its name, and one of its presets, as in
    'cdsa-paper:joint' or 'cdsa-paper@paper-nyc'.
    """
    if not isinstance(method, str):
        if not hasattr(method, "fit"):
            raise ConfigError(
                f"a method is a name such as 'linear', or has fit(cube), but found {method!r}. "
                "To compare several, call cdsa.score once for each"
            )
        given: Any = method
        if ahead and getattr(given, "horizon", ahead) < ahead:
            given = given.foreseeing(ahead)
        if ahead and known and hasattr(given, "knowing"):
            given = given.knowing(known)
        return str(getattr(given, "label", type(given).__name__.lower())), given
    whole, _, preset = method.partition("@")
    name, _, manner = whole.partition(":")
    info = info_of(name)
    if ahead and "forecast" not in info.task:
        can = ", ".join(other.name for other in REGISTRY.values() if "forecast" in other.task)
        raise ConfigError(f"'{name}' fills gaps but cannot forecast. These can: {can}")
    made: Any = info.make()
    if preset:
        if not hasattr(made, "by_preset"):
            raise ConfigError(f"'{name}' has no presets, but found '{method}'")
        made = made.by_preset(preset)
    if manner:
        if not hasattr(made, "in_manner"):
            raise ConfigError(f"'{name}' has no manners, but found '{method}'")
        made = made.in_manner(manner)
    if ahead and info.trains:
        made = made.foreseeing(ahead)
        if known:
            made = made.knowing(known)
    return method, made
