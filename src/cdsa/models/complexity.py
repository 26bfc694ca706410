"""What the four manners cost: floating-point operations and variables (the paper, table 1).

The widths below are chosen once, so that on windows of 36 x 36 x 1 the figures come close to the
paper's, whose own widths were never published: one channel and 12 heads as in the authors' code,
d + v = 10 from the joint manner's operations, the norms with a scale and shift per cell from its
variables, and the rest from the other two manners that look at cells.
"""

import torch
from torch.utils.flop_counter import FlopCounterMode

from cdsa.errors import ConfigError
from cdsa.models.cdsa import CdsaConfig, Imputer
from cdsa.nn.types import AxisConfig, Sizes

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
