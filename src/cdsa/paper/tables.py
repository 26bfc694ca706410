"""What each table of the paper is made of: data, protocols, rates, seeds, methods and settings.

A cell is one thing to measure: a method on one trial. It says all that is needed to measure it
again, so two tables that share a cell share its record.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from cdsa.datasets import OpenedDataset
from cdsa.datasets.kdd2015 import REMOVED
from cdsa.datasets.metr_la import GRAPH
from cdsa.errors import ConfigError, unknown
from cdsa.methods.registry import info_of, make_method
from cdsa.paper import protocols as trials_by
from cdsa.paper.protocols import (
    ALL,
    DIVISIONS,
    SAMPLES,
    TEST_MONTHS,
    Filling,
    Foresight,
)

if TYPE_CHECKING:
    from cdsa.nn.graph import Edge


RATES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


QUICK_RATES = (0.2, 0.5, 0.9)


HORIZONS = {"15": 3, "30": 6, "60": 12}
"""Minutes ahead -> steps ahead."""


MEAN = "mean"
"""The horizon over all steps ahead."""


AS_PUBLISHED = "as published"
"""What a record says of its data if they are the paper's own."""


NETWORK, FORECASTER = "cdsa-paper", "cdsa-paper-forecast"


OURS = "cdsa"


OTHER_MANNERS = ("independent", "joint", "shared")
"""Beside the decomposed one, which a network has if none is named."""


LOSSES = ("rmse", "mse", "mae", "rmse+mae")


MINUTES, QUICK_MINUTES = 10.0, 0.04


PROFILE = "profile"
"""The protocol of counting operations, which needs no data."""


COMPLEXITY_SIZES = "36x36x1"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A method on one trial."""

    method: str
    data: str
    protocol: str
    rate: float | None = None
    seed: int = 0
    loss: str | None = None
    """The training loss, where that is what is compared."""

    minutes: float | None = None
    """Training budget, of networks."""

    quick: bool = False
    """With a small network and few forecasts, to see that all runs."""

    settings: tuple[str, ...] = ()
    """What is set differently from the method of this name."""

    @property
    def parts(self) -> tuple[tuple[str, str | None], ...]:
        """The records it gives: which cells were scored, and how many minutes ahead."""
        if self.data == "metr-la":
            return tuple((ALL, horizon) for horizon in (*HORIZONS, MEAN))
        if self.data.startswith("kdd2015"):
            return ((ALL, None), (TEST_MONTHS, None))
        return ((ALL, None),)

    @property
    def label(self) -> str:
        """What is under way, for people."""
        words = [self.method, self.data, self.protocol]
        words += [f"loss {self.loss}"] if self.loss else []
        words += [f"{self.rate:.0%} missing"] if self.rate is not None else []
        return ", ".join([*words, f"seed {self.seed}"])


@dataclass(frozen=True, kw_only=True)
class Table:
    """What a table of the paper consists of."""

    name: str
    data: tuple[str, ...]
    protocols: tuple[str, ...]
    methods: tuple[str, ...]
    """In the order of the table."""

    rates: tuple[float | None, ...] = (None,)
    trials: int = 1
    """Seeds it is repeated with, if nothing else is said."""

    losses: tuple[str | None, ...] = (None,)
    legend: str = ""
    """What its columns mean."""


_MONTHS = (
    "in-sample: learnt from the whole year but the hidden cells; out-of-sample: from the months "
    "that are not tested on; test months: March, June, September and December; all: the hidden "
    "cells of every month. A straight line learns nothing, so both ways give the same"
)


_AHEAD = (
    "an hour ahead from the hour before; 80/20: the first 80% of the time are learnt from, as in "
    "the paper; 70/10/20: DCRNN's 70% to learn from and 10% to validate on"
)


_PIECES = "cells hidden at random; errors in standard deviations; pieces of 48 hours"


_BURSTS = "cells hidden in bursts; five trials, unless said otherwise"


_FILL = ("mean", "linear", "knn")


_RIVALS = {
    "nyc": ("ar", "kriging", "kriging:linear", "mtsi", "brits", "dcrnn"),
    "kdd2015": ("mice", "st-mvl", "mtsi", "brits", "dcrnn", "iin"),
    "kdd2018": ("mf", "mtsi", "brits", "dcrnn"),
    "metr-la": ("fc-lstm", "mtsi", "brits", "dcrnn", "dst-gcnn", "gaan"),
}
"""What the paper compares with, beside simple methods."""


_ABLATION = (*(f"{NETWORK}:{manner}" for manner in OTHER_MANNERS), NETWORK)


_KDD2015 = ("kdd2015-pm25", "kdd2015-temp", "kdd2015-hum")


TABLES = {
    table.name: table
    for table in (
        Table(name="complexity", data=(COMPLEXITY_SIZES,), protocols=(PROFILE,), methods=_ABLATION),
        Table(
            name="nyc",
            legend=_BURSTS,
            data=("nyc-traffic",),
            protocols=("in-sample",),
            methods=(*_FILL, *_RIVALS["nyc"], f"{NETWORK}@paper-nyc", NETWORK, OURS),
            rates=RATES,
            trials=5,
        ),
        Table(
            name="kdd2015",
            legend=_MONTHS,
            data=_KDD2015,
            protocols=SAMPLES,
            methods=(*_FILL, *_RIVALS["kdd2015"], f"{NETWORK}@paper-kdd2015", NETWORK, OURS),
        ),
        Table(
            name="kdd2018",
            legend=_PIECES,
            data=("kdd2018",),
            protocols=("in-sample",),
            methods=(*_FILL, *_RIVALS["kdd2018"], f"{NETWORK}@paper-kdd2018", NETWORK, OURS),
            rates=RATES,
        ),
        Table(
            name="metr-la",
            legend=_AHEAD,
            data=("metr-la",),
            protocols=DIVISIONS,
            methods=(
                *("last", "climatology"),
                *_RIVALS["metr-la"],
                *(f"{FORECASTER}@paper-metr-la", FORECASTER, OURS),
            ),
        ),
        Table(
            name="losses",
            legend=_AHEAD,
            data=("metr-la",),
            protocols=("80/20",),
            methods=("last", FORECASTER),
            losses=LOSSES,
        ),
        Table(
            name="ablation-nyc",
            legend=_BURSTS,
            data=("nyc-traffic",),
            protocols=("in-sample",),
            methods=("linear", *_ABLATION),
            rates=RATES,
            trials=5,
        ),
        Table(
            name="ablation-kdd2015",
            legend=_MONTHS,
            data=_KDD2015,
            protocols=SAMPLES,
            methods=("linear", *_ABLATION),
        ),
        Table(
            name="ablation-kdd2018",
            legend=_PIECES,
            data=("kdd2018",),
            protocols=("in-sample",),
            methods=("linear", *_ABLATION),
            rates=RATES,
        ),
        Table(
            name="ablation-metr-la",
            legend=_AHEAD,
            data=("metr-la",),
            protocols=DIVISIONS,
            methods=("last", *(f"{FORECASTER}:{manner}" for manner in OTHER_MANNERS), FORECASTER),
        ),
    )
}


SETTINGS: dict[tuple[str, str], tuple[str, ...]] = {
    ("kdd2015", ""): ("steps=36",),
    ("kdd2018", ""): ("steps=48", "stride=12", "train.loss=rmse"),
    ("nyc-traffic", ""): ("steps=48", "train.batch=2", "train.loss=rmse"),
    ("metr-la", ""): ("steps=12", "train.loss=rmse"),
    # a map over all cells of a longer window does not fit into the minutes there are
    ("kdd2018", "joint"): ("steps=12", "stride=12", "train.batch=4", "train.loss=rmse"),
    ("nyc-traffic", "joint"): ("steps=12", "train.batch=2", "train.loss=rmse"),
}
"""Windows and training losses by data set and manner, of networks without a preset for the data:
the absolute error where that is scored, and the paper's where squares are."""


OUR_SETTINGS: dict[str, tuple[str, ...]] = {
    "kdd2015": (),
    "kdd2018": ("train.loss=mse",),
    "nyc-traffic": ("train.loss=mse", "steps=36"),
    "metr-la": ("steps=12",),
}
"""The same for the default network, which chooses the rest by the data."""


RIVAL_SETTINGS: dict[tuple[str, str], tuple[str, ...]] = {
    ("kdd2015", ""): ("steps=36", "stride=1", "train.patience=0"),
    ("kdd2018", ""): ("steps=48", "stride=1", "train.loss=mse", "train.patience=0"),
    ("nyc-traffic", ""): ("steps=48", "stride=1", "train.loss=mse", "train.patience=0"),
    ("metr-la", ""): ("steps=12", "stride=1", "train.patience=0"),
    # a step of its usual batch takes seconds with two hundred stations
    ("nyc-traffic", "dcrnn"): (
        *("steps=48", "stride=1", "train.loss=mse", "train.patience=0"),
        "train.batch=2",
    ),
}
"""The same for networks of others, by data set and method; those with a loss of their own learn by
that, and `train.loss` is what the weights to keep are chosen by. None stops before its minutes are
over, so that all have the same time."""


def table_of(name: str) -> Table:
    """The table of this name."""
    if name not in TABLES:
        raise ConfigError(unknown("table", name, TABLES))
    return TABLES[name]


def cells_of(
    table: Table,
    *,
    methods: Sequence[str] | None = None,
    data: Sequence[str] | None = None,
    protocols: Sequence[str] | None = None,
    rates: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    minutes: float | None = None,
    quick: bool = False,
) -> Iterator[Cell]:
    """All cells of a table, or those that are wanted of it."""
    names = _methods(table, methods, quick)
    chosen = _rates(table, rates, quick)
    trials = range(1 if quick else table.trials) if seeds is None else seeds
    if minutes is not None and not 0 < minutes < math.inf:
        raise ConfigError(f"--minutes must be greater than 0, but found {minutes:g}")
    kinds = _chosen(table, "data set", table.data, data)
    by = _chosen(table, "protocol", table.protocols, protocols)
    for seed, name, kind, protocol, rate in product(trials, names, kinds, by, chosen):
        cell = Cell(method=name, data=kind, protocol=protocol, rate=rate, seed=seed)
        for loss in table.losses if info_of(name).trains else (None,):
            yield _with_settings(replace(cell, loss=loss), minutes, quick)


def _methods(table: Table, wanted: Sequence[str] | None, quick: bool) -> list[str]:
    if wanted is None:  # a small network is none of the authors'
        return [name for name in table.methods if not (quick and "@" in name)]
    return [_checked(table, name, quick) for name in wanted]


def _checked(table: Table, name: str, quick: bool) -> str:
    """The method's name as tables have it, or why it has no place in this one."""
    made, info, preset = make_method(name)[1], info_of(name), name.partition("@")[2]
    if table.name == "complexity":
        if info.name != NETWORK or preset:
            raise ConfigError(f"the table 'complexity' is of {NETWORK} in its manners, not {name}")
    elif ("forecast" if table.data == ("metr-la",) else "fill") not in info.task:
        task = "forecasts" if table.data == ("metr-la",) else "fills gaps"
        raise ConfigError(f"the table '{table.name}' is of what {task}, but {name} is not")
    if quick and preset:
        raise ConfigError(f"with --quick networks are small, but {name} has a preset of its own")
    if not info.trains:
        return name
    return str(getattr(made, "label", name)) + (f"@{preset}" if preset else "")


def _chosen(
    table: Table, kind: str, known: Sequence[str], wanted: Sequence[str] | None
) -> Sequence[str]:
    for name in wanted or ():
        if name not in known:
            raise ConfigError(unknown(f"{kind} of the table '{table.name}'", name, known))
    return known if wanted is None else wanted


def _rates(table: Table, wanted: Sequence[float] | None, quick: bool) -> tuple[float | None, ...]:
    if wanted is not None:
        if table.rates == (None,):
            raise ConfigError(f"the table '{table.name}' has no missing rates to choose from")
        for rate in wanted:
            if not 0 < rate < 1:
                raise ConfigError(f"a missing rate lies between 0 and 1, but found {rate:g}")
        return tuple(wanted)
    return QUICK_RATES if quick and len(table.rates) > 1 else table.rates


def _with_settings(cell: Cell, minutes: float | None, quick: bool) -> Cell:
    """The cell with what a network is set to for it."""
    info = info_of(cell.method)
    if not info.trains or cell.protocol == PROFILE:
        return replace(cell, quick=quick and cell.data == "metr-la")
    plain, _, preset = cell.method.partition("@")
    manner = plain.partition(":")[2]
    kind = "kdd2015" if cell.data.startswith("kdd2015") else cell.data
    if plain == OURS:
        own = OUR_SETTINGS[kind]
    elif info.name in (NETWORK, FORECASTER):
        own = SETTINGS.get((kind, manner), SETTINGS[kind, ""])
    else:
        own = RIVAL_SETTINGS.get((kind, plain), RIVAL_SETTINGS[kind, ""])
    settings = () if preset else own
    if cell.loss:
        kept = (one for one in settings if not one.startswith("train.loss="))
        settings = (*kept, f"train.loss={cell.loss}")
    budget = (QUICK_MINUTES if quick else MINUTES) if minutes is None else minutes
    return replace(cell, minutes=budget, quick=quick, settings=settings)


def roads_of(opened: OpenedDataset) -> "tuple[Edge, ...]":
    """The road graph beside a data set, as edges; none if it has none."""
    graph = opened.extras.get(GRAPH)
    if graph is None:
        return ()
    names, weights = graph["location"].to_numpy(), graph.to_numpy()
    joined = np.argwhere((weights > 0) & ~np.eye(len(names), dtype=bool))
    return tuple((str(names[i]), str(names[j]), float(weights[i, j])) for i, j in joined)


def trial_of(cell: Cell, opened: OpenedDataset) -> Filling | Foresight:
    """The trial that a cell is measured on."""
    cube, rate = opened.cube, cell.rate or 0.0
    match cell.data:
        case "kdd2015-pm25":
            return trials_by.kdd2015_pm25(cube, opened.extras[REMOVED], cell.protocol)
        case "kdd2015-temp" | "kdd2015-hum":
            missing = opened.spec.expected.missing
            return trials_by.kdd2015_weather(cube, cell.protocol, cell.seed, missing=missing)
        case "kdd2018":
            return trials_by.kdd2018(cube, rate, cell.seed)
        case "nyc-traffic":
            return trials_by.nyc_traffic(cube, rate, cell.seed)
        case "metr-la":
            return trials_by.metr_la(cube, cell.protocol)
    raise ConfigError(f"there is no protocol for the data set '{cell.data}'")
