"""Methods with small networks, for tests."""

from dataclasses import replace

from cdsa.methods.neural.cdsa import Cdsa
from cdsa.methods.neural.cdsa_paper import CdsaPaper, CdsaPaperForecast
from cdsa.methods.registry import build_method


def small_cdsa(**changes) -> Cdsa:
    return replace(build_method("cdsa@small"), **changes)


def small_paper(manner="decomposed", *, forecast=False, **changes) -> CdsaPaper:
    """Its windows have 12 steps; those of a forecaster six before the horizon and six in it."""
    return replace(paper_preset("small", forecast=forecast).with_manner(manner), **changes)


def paper_preset(name, *, forecast=False) -> CdsaPaper:
    return (CdsaPaperForecast if forecast else CdsaPaper)().with_preset(name)
