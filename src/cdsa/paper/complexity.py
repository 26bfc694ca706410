"""The cost of the four manners: parameters, operations and memory (the paper, section 3.2)."""

from dataclasses import dataclass, replace

import torch
from torch.utils.flop_counter import FlopCounterMode

from cdsa.errors import ConfigError
from cdsa.methods.neural.cdsa_paper import CdsaConfig, Imputer
from cdsa.nn.types import MANNERS, AxisConfig, Manner, Sizes
from cdsa.paper.published import paper_tables
from cdsa.paper.tables import NETWORK

PAPER_SIZES = Sizes(36, 36, 1)
"""Windows whose product fits the paper's joint figure."""


MOST_CELLS = 10_000_000


WIDTHS = CdsaConfig(
    heads=12,
    d=6,
    v=4,
    feed_forward=208,
    own_scales=True,
    time=AxisConfig(d=112, v=56, layers=8, feed_forward=8),
    location=AxisConfig(d=112, v=56, layers=8, feed_forward=8),
    measurement=AxisConfig(d=1, v=1, layers=1, feed_forward=8),
)


def count(config: CdsaConfig, sizes: Sizes) -> tuple[int, int]:
    """Operations of one forward pass and number of variables.

    Nothing is computed: the network is laid out on torch's `meta` device.
    """
    if sizes.cells > MOST_CELLS:
        raise ConfigError(
            f"windows of up to {MOST_CELLS:,} cells can be counted, but "
            f"{' x '.join(map(str, sizes))} are {sizes.cells:,}. Count smaller ones"
        )
    with torch.device("meta"):
        model = Imputer(config, sizes)
        values = torch.zeros(1, *sizes)
    with FlopCounterMode(display=False) as counter:
        model(values, torch.zeros_like(values, dtype=torch.bool))
    return counter.get_total_flops(), sum(part.numel() for part in model.parameters())


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
