"""Computational cost of the four manners: operations and parameters (the paper, table 1).

The paper does not publish the widths of its networks. Those below are chosen once, so that the
figures for windows of 36 x 36 x 1 are close to the paper's: one channel and 12 heads as in the
authors' code, d + v = 10 from the operations of the joint manner, norms with a scale and a shift
per cell from its parameters, and the rest from the decomposed and the shared manner.
"""

from dataclasses import dataclass, replace

import torch
from torch.utils.flop_counter import FlopCounterMode

from cdsa.errors import ConfigError
from cdsa.methods.neural.cdsa_paper import PaperConfig, PaperImputer
from cdsa.nn.attention import Joint
from cdsa.nn.types import MANNERS, AxisConfig, Manner, Sizes
from cdsa.paper.published import paper_tables
from cdsa.paper.tables import COMPLEXITY_SIZES, PAPER_IMPUTER

PAPER_SIZES = Sizes(*map(int, COMPLEXITY_SIZES.split("x")))
"""The window size that fits the paper's figure for the joint manner."""

WIDTHS = PaperConfig(
    n_heads=12,
    d_qk=6,
    d_v=4,
    d_ff=208,
    elementwise_affine=True,
    time=AxisConfig(d_qk=112, d_v=56, n_layers=8, d_ff=8),
    location=AxisConfig(d_qk=112, d_v=56, n_layers=8, d_ff=8),
    measurement=AxisConfig(d_qk=1, d_v=1, n_layers=1, d_ff=8),
)
MAX_CELLS = 10_000_000


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Cost of one window in one manner."""

    manner: Manner
    flops: int
    """Floating-point operations of the matrix products of one forward pass, two per product."""

    parameters: int
    paper_flops: float | None
    paper_parameters: float | None


def compare_costs(sizes: Sizes = PAPER_SIZES) -> list[Cost]:
    """The four manners, with the paper's figures if they are for this window size."""
    return [measure_cost(manner, sizes) for manner in MANNERS]


def measure_cost(manner: Manner, sizes: Sizes = PAPER_SIZES) -> Cost:
    flops, parameters = count_operations(replace(WIDTHS, manner=manner), sizes)
    paper, column = paper_tables()["complexity"], "x".join(map(str, sizes))
    row = PAPER_IMPUTER if manner == "decomposed" else f"{PAPER_IMPUTER}:{manner}"
    return Cost(
        manner=manner,
        flops=flops,
        parameters=parameters,
        paper_flops=paper.figure(row, column, "operations"),
        paper_parameters=paper.figure(row, column, "parameters"),
    )


def count_operations(config: PaperConfig, sizes: Sizes) -> tuple[int, int]:
    """Operations of one forward pass, and the number of parameters.

    Nothing is computed: the network is on torch's `meta` device.
    """
    if sizes.cells > MAX_CELLS:
        raise ConfigError(
            f"a window may have at most {MAX_CELLS:,} cells, but "
            f"{' x '.join(map(str, sizes))} are {sizes.cells:,}. Choose a smaller window"
        )
    with torch.device("meta"):
        model = PaperImputer(config, sizes)
        for layer in model.modules():
            if isinstance(layer, Joint):
                layer.explicit = True  # the operations of the equations, not of the fast path
        values = torch.zeros(1, *sizes)
    with FlopCounterMode(display=False) as counter:
        model(values, torch.zeros_like(values, dtype=torch.bool))
    return counter.get_total_flops(), sum(weight.numel() for weight in model.parameters())
