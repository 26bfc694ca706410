"""The four manners' cost beside the paper's table of it."""

from dataclasses import dataclass, replace

from cdsa.experiments.paper import paper_tables
from cdsa.experiments.recipes import NETWORK
from cdsa.models.complexity import PAPER_SIZES, WIDTHS, count
from cdsa.nn.types import MANNERS, Manner, Sizes


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one window costs in one manner."""

    manner: Manner
    flops: int
    """Floating-point operations of the matrix products of one forward pass, two per product."""

    variables: int
    paper_flops: float | None
    paper_variables: float | None


def costs(sizes: Sizes = PAPER_SIZES) -> list[Cost]:
    """The four manners side by side; the paper's figures where they are for the same windows."""
    return [cost_of(manner, sizes) for manner in MANNERS]


def cost_of(manner: Manner, sizes: Sizes) -> Cost:
    """What one manner costs."""
    flops, variables = count(replace(WIDTHS, manner=manner), sizes)
    paper, column = paper_tables()["complexity"], "x".join(map(str, sizes))
    row = NETWORK if manner == "decomposed" else f"{NETWORK}:{manner}"
    return Cost(
        manner=manner,
        flops=flops,
        variables=variables,
        paper_flops=paper.figure(row, column, "operations"),
        paper_variables=paper.figure(row, column, "variables"),
    )
