"""What each table of the paper consists of: data, protocols, rates, seeds, methods and settings.

An experiment is one method on one trial. It holds everything that is needed to repeat it, so two
tables that share an experiment share its record.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np

from cdsa.core.geo import Edge
from cdsa.datasets.kdd2015 import REMOVED
from cdsa.datasets.metr_la import GRAPH
from cdsa.datasets.registry import OpenedDataset
from cdsa.errors import ConfigError, unknown
from cdsa.methods.registry import build_method, info_of
from cdsa.paper import protocols
from cdsa.paper.protocols import ALL, SAMPLES, SPLITS, TEST_MONTHS, ForecastTrial, ImputationTrial
from cdsa.paper.published import PaperTable, paper_tables

Task = Literal["fill", "forecast", "profile"]
"""What a table measures; 'profile' counts operations and needs no data."""

RATES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
QUICK_RATES = (0.2, 0.5, 0.9)

HORIZONS = {"15": 3, "30": 6, "60": 12}
"""Minutes ahead -> steps ahead."""
MEAN_HORIZON = "mean"
"""The mean over all steps ahead."""

AS_PUBLISHED = "as published"
"""The `measured_on` of a record if the data are the paper's own."""

PAPER_IMPUTER, PAPER_FORECASTER, CDSA = "cdsa-paper", "cdsa-paper-forecast", "cdsa"
OTHER_MANNERS = ("independent", "joint", "shared")
"""All but the decomposed one, which is the default."""
COMPARED_LOSSES = ("rmse", "mse", "mae", "rmse+mae")
"""Training losses in the order of the paper's table."""

MINUTES, QUICK_MINUTES = 10.0, 0.04

PROFILE = "profile"
COMPLEXITY_SIZES = "36x36x1"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    method: str
    data: str
    protocol: str
    rate: float | None = None
    seed: int = 0
    loss: str | None = None
    """Training loss, in the table that compares losses."""

    minutes: float | None = None
    quick: bool = False
    """Whether the network is small and forecasts are few, as a smoke test."""

    settings: tuple[str, ...] = ()
    """Changes to the settings of the method of this name."""

    @property
    def record_keys(self) -> tuple[tuple[str, str | None], ...]:
        """The scored cells and the minutes ahead of each of its records."""
        if self.data == "metr-la":
            return tuple((ALL, horizon) for horizon in (*HORIZONS, MEAN_HORIZON))
        if self.data.startswith("kdd2015"):
            return ((ALL, None), (TEST_MONTHS, None))
        return ((ALL, None),)

    @property
    def label(self) -> str:
        words = [self.method, self.data, self.protocol]
        words += [f"loss {self.loss}"] if self.loss else []
        words += [f"{self.rate:.0%} missing"] if self.rate is not None else []
        return ", ".join([*words, f"seed {self.seed}"])


@dataclass(frozen=True, kw_only=True)
class Table:
    name: str
    task: Task = "fill"
    data: tuple[str, ...]
    protocols: tuple[str, ...]
    methods: tuple[str, ...]
    """In the order of the rows."""

    rates: tuple[float | None, ...] = (None,)
    trials: int = 1
    losses: tuple[str | None, ...] = (None,)
    legend: str = ""
    """The meaning of its columns."""

    @property
    def paper(self) -> PaperTable:
        return paper_tables()[self.name]


_SIMPLE = ("mean", "linear", "knn")
_MANNERS = {
    network: (*(f"{network}:{manner}" for manner in OTHER_MANNERS), network)
    for network in (PAPER_IMPUTER, PAPER_FORECASTER)
}
_COMPLEXITY = Table(
    name="complexity",
    task="profile",
    data=(COMPLEXITY_SIZES,),
    protocols=(PROFILE,),
    methods=_MANNERS[PAPER_IMPUTER],
)
_FILL_TABLES = (
    Table(
        name="nyc",
        legend="Cells hidden in bursts; five trials, unless stated otherwise.",
        data=("nyc-traffic",),
        protocols=("in-sample",),
        methods=(
            *(*_SIMPLE, "ar", "kriging", "kriging:linear", "mtsi", "brits", "dcrnn"),
            *(f"{PAPER_IMPUTER}@paper-nyc", PAPER_IMPUTER, CDSA),
        ),
        rates=RATES,
        trials=5,
    ),
    Table(
        name="kdd2015",
        legend="In-sample: trained on the whole year without the hidden cells; out-of-sample: "
        "trained on the months that are not tested; test months: March, June, September and "
        "December; all: the hidden cells of every month. Linear interpolation is not trained, so "
        "both protocols give the same.",
        data=("kdd2015-pm25", "kdd2015-temp", "kdd2015-hum"),
        protocols=SAMPLES,
        methods=(
            *(*_SIMPLE, "mice", "st-mvl", "kalman", "mtsi", "brits", "dcrnn", "iin"),
            *(f"{PAPER_IMPUTER}@paper-kdd2015", PAPER_IMPUTER, CDSA),
        ),
    ),
    Table(
        name="kdd2018",
        legend="Cells hidden at random; errors in standard deviations; pieces of 48 hours.",
        data=("kdd2018",),
        protocols=("in-sample",),
        methods=(
            *(*_SIMPLE, "mf", "kalman", "mtsi", "brits", "dcrnn"),
            *(f"{PAPER_IMPUTER}@paper-kdd2018", PAPER_IMPUTER, CDSA),
        ),
        rates=RATES,
    ),
)
_METR_LA = Table(
    name="metr-la",
    task="forecast",
    legend="An hour ahead from the hour before; 80/20: trained on the first 80% of the time, as in "
    "the paper; 70/10/20: DCRNN's split, 70% for training and 10% for validation.",
    data=("metr-la",),
    protocols=SPLITS,
    methods=(
        *("last", "climatology", "fc-lstm", "mtsi", "brits", "dcrnn", "dst-gcnn", "gaan"),
        *(f"{PAPER_FORECASTER}@paper-metr-la", PAPER_FORECASTER, CDSA),
    ),
)
_LOSSES = replace(
    _METR_LA,
    name="losses",
    protocols=("80/20",),
    methods=("last", PAPER_FORECASTER),
    losses=COMPARED_LOSSES,
)


def _ablation(table: Table) -> Table:
    """The same data with the four manners, and the strongest simple method."""
    simple, network = (
        ("last", PAPER_FORECASTER) if table.task == "forecast" else ("linear", PAPER_IMPUTER)
    )
    return replace(table, name=f"ablation-{table.name}", methods=(simple, *_MANNERS[network]))


_MEASURED = (*_FILL_TABLES, _METR_LA)
TABLES = {
    table.name: table for table in (_COMPLEXITY, *_MEASURED, _LOSSES, *map(_ablation, _MEASURED))
}

OTHER_NETWORKS = "*"
SETTINGS = {
    "kdd2015": {
        PAPER_IMPUTER: "window=36",
        CDSA: "",
        OTHER_NETWORKS: "window=36 stride=1 train.patience=0",
    },
    "kdd2018": {
        PAPER_IMPUTER: "window=48 stride=12 train.loss=rmse",
        # joint attention over all cells of a longer window exceeds the training budget
        f"{PAPER_IMPUTER}:joint": "window=12 stride=12 train.batch_size=4 train.loss=rmse",
        CDSA: "train.loss=mse",
        OTHER_NETWORKS: "window=48 stride=1 train.loss=mse train.patience=0",
    },
    "nyc-traffic": {
        PAPER_IMPUTER: "window=48 train.batch_size=2 train.loss=rmse",
        f"{PAPER_IMPUTER}:joint": "window=12 train.batch_size=2 train.loss=rmse",
        CDSA: "train.loss=mse window=36",
        # a step with the default batch takes seconds with two hundred stations
        "dcrnn": "window=48 stride=1 train.loss=mse train.patience=0 train.batch_size=2",
        OTHER_NETWORKS: "window=48 stride=1 train.loss=mse train.patience=0",
    },
    "metr-la": {
        PAPER_FORECASTER: "window=12 train.loss=rmse",
        CDSA: "window=12",
        OTHER_NETWORKS: "window=12 stride=1 train.patience=0",
    },
}
"""Settings of networks without a preset, by data set and method; those of a method apply to its
manners. The training loss is the absolute error where that is scored, and the paper's where squares
are. A baseline with a loss of its own is trained with that, and `train.loss` selects the best
weights. Early stopping of baselines is off, so that all networks train for the same time."""


def get_table(name: str) -> Table:
    if name not in TABLES:
        raise ConfigError(unknown("table", name, TABLES))
    return TABLES[name]


def plan_experiments(
    table: Table,
    *,
    methods: Sequence[str] | None = None,
    data: Sequence[str] | None = None,
    protocols: Sequence[str] | None = None,
    rates: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    minutes: float | None = None,
    quick: bool = False,
) -> Iterator[Experiment]:
    if methods is None:  # a quick run uses small networks, so it has no preset of the authors
        methods = [name for name in table.methods if not (quick and "@" in name)]
    else:
        methods = [_check_method(table, name, quick) for name in methods]
    missing_rates = _select_rates(table, rates, quick)
    trials = range(1 if quick else table.trials) if seeds is None else seeds
    if minutes is not None and not 0 < minutes < math.inf:
        raise ConfigError(f"--minutes must be greater than 0, but found {minutes:g}")
    data = _select(table, "data set", table.data, data)
    protocols = _select(table, "protocol", table.protocols, protocols)
    for seed, method, name, protocol, rate in product(
        trials, methods, data, protocols, missing_rates
    ):
        experiment = Experiment(method=method, data=name, protocol=protocol, rate=rate, seed=seed)
        for loss in table.losses if info_of(method).trains else (None,):
            yield _configure(replace(experiment, loss=loss), minutes, quick)


def _check_method(table: Table, name: str, quick: bool) -> str:
    """The method's name as tables spell it; refuses a method that the table cannot have."""
    method, info, preset = build_method(name), info_of(name), name.partition("@")[2]
    if table.task == "profile":
        if info.name != PAPER_IMPUTER or preset:
            raise ConfigError(
                f"the table '{table.name}' compares the manners of {PAPER_IMPUTER}, not {name}"
            )
    elif table.task not in info.task:
        task = "fill gaps" if table.task == "fill" else table.task
        raise ConfigError(f"the table '{table.name}' has methods that {task}, but {name} does not")
    if quick and preset:
        raise ConfigError(f"--quick trains small networks, but {name} names a preset")
    if not info.trains:
        return name
    return method.label + (f"@{preset}" if preset else "")


def _select(
    table: Table, kind: str, known: Sequence[str], names: Sequence[str] | None
) -> Sequence[str]:
    for name in names or ():
        if name not in known:
            raise ConfigError(unknown(f"{kind} of the table '{table.name}'", name, known))
    return known if names is None else names


def _select_rates(
    table: Table, rates: Sequence[float] | None, quick: bool
) -> Sequence[float | None]:
    if rates is None:
        return QUICK_RATES if quick and len(table.rates) > 1 else table.rates
    if table.rates == (None,):
        raise ConfigError(f"the table '{table.name}' has no missing rates to choose from")
    for rate in rates:
        if not 0 < rate < 1:
            raise ConfigError(f"a missing rate must lie between 0 and 1, but found {rate:g}")
    return rates


def _configure(experiment: Experiment, minutes: float | None, quick: bool) -> Experiment:
    """The experiment with its training budget and settings, if it trains a network."""
    if not info_of(experiment.method).trains or experiment.protocol == PROFILE:
        return replace(experiment, quick=quick and experiment.data == "metr-la")
    settings: list[str] = []
    if "@" not in experiment.method:
        data = "kdd2015" if experiment.data.startswith("kdd2015") else experiment.data
        names = (experiment.method, experiment.method.partition(":")[0], OTHER_NETWORKS)
        settings = next(SETTINGS[data][name] for name in names if name in SETTINGS[data]).split()
    if experiment.loss:
        settings = [setting for setting in settings if not setting.startswith("train.loss=")]
        settings.append(f"train.loss={experiment.loss}")
    budget = (QUICK_MINUTES if quick else MINUTES) if minutes is None else minutes
    return replace(experiment, minutes=budget, quick=quick, settings=tuple(settings))


def road_edges(opened: OpenedDataset) -> tuple[Edge, ...]:
    """The edges of the road graph that comes with a data set, if it has one."""
    graph = opened.extras.get(GRAPH)
    if graph is None:
        return ()
    names, weights = graph["location"].to_numpy(), graph.to_numpy()
    connected = np.argwhere((weights > 0) & ~np.eye(len(names), dtype=bool))
    return tuple((str(names[i]), str(names[j]), float(weights[i, j])) for i, j in connected)


def build_trial(experiment: Experiment, opened: OpenedDataset) -> ImputationTrial | ForecastTrial:
    cube, protocol, seed = opened.cube, experiment.protocol, experiment.seed
    rate = experiment.rate or 0.0
    match experiment.data:
        case "kdd2015-pm25":
            return protocols.kdd2015_pm25(cube, opened.extras[REMOVED], protocol)
        case "kdd2015-temp" | "kdd2015-hum":
            missing = opened.spec.expected.missing
            return protocols.kdd2015_weather(cube, protocol, seed, missing=missing)
        case "kdd2018":
            return protocols.kdd2018(cube, rate, seed)
        case "nyc-traffic":
            return protocols.nyc_traffic(cube, rate, seed)
        case "metr-la":
            return protocols.metr_la(cube, protocol)
    raise ConfigError(f"there is no protocol for the data set '{experiment.data}'")
