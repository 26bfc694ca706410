"""Cross-dimensional attention (the paper, section 3.2): three of its four manners.

The fourth, *independent*, is three ordinary transformers side by side: `streams.py`.

Every cell of `x` looks at every cell of `y`; in self-attention `y` is `x`. Maps say who looks at
whom (`maps.py`), and may lean towards what is near. What is said is mixed by them (`mixing.py`),
and may be mixed from what carries information alone: `weight`. The network users get by default
needs both. Letters: `axes.py`.
"""

import torch
from torch import Tensor, nn

from cdsa.errors import ConfigError
from cdsa.models.axes import AXES, NO_PRIORS, AttentionConfig, Maps, Priors, Sight, Sizes
from cdsa.models.maps import AxisMap, joint_map, of_places, shared_map
from cdsa.models.mixing import joint_mix, mix_in_turn, mix_weighted

SHARPNESS = 3.0
"""How much longer than usual the first queries and keys of the joint manner are: a cell that looks
at all others has to choose among many. (Measured on the demo data; the other manners' sums are
longer by themselves.)"""


class CrossDimensionalAttention(nn.Module):
    """Every cell of x looks at every cell of y: two (b, t, l, m, c) -> (b, t, l, m, c).

    In self-attention `sight` says which steps a step may look at. Attention `at` another window,
    which is known as a whole, is never masked; with a sight of the past its queries are those of
    what has been so far.
    """

    def __init__(
        self,
        config: AttentionConfig,
        looks: Sizes,
        at: Sizes | None = None,
        *,
        sight: Sight = "all",
    ) -> None:
        super().__init__()
        self.config = config
        self.sight: Sight = sight
        self.at_another = at is not None
        heads, width = config.heads, config.channels
        self.value = nn.Linear(width, heads * config.v)
        self.out = nn.Linear(heads * config.v, width)
        if config.manner == "decomposed":
            self.axes = nn.ModuleDict(
                {axis: AxisMap(axis, config, looks, at, sight) for axis in AXES}
            )
        else:
            self.query = nn.Linear(width, heads * config.d, bias=False)
            self.key = nn.Linear(width, heads * config.d, bias=False)
            if config.manner == "joint":
                self.query.weight.data.mul_(SHARPNESS)
            self.key.weight.data.copy_(self.query.weight.data)  # at first, look at what resembles
        if config.manner == "shared" and at is not None and looks.steps != at.steps:
            raise ConfigError(
                "in the shared manner the steps that look and those looked at are paired one by "
                f"one, so there must be as many, but there are {looks.steps} and {at.steps}. "
                "Foresee as many steps as are looked back on, or choose another manner"
            )

    def forward(
        self,
        x: Tensor,
        y: Tensor | None = None,
        *,
        priors: Priors = NO_PRIORS,
        weight: Tensor | None = None,
        present: Tensor | None = None,
    ) -> Tensor:
        y = x if y is None else y
        v = self._heads(self.value(y))  # (b, s, k, n, h, e)
        if self.config.manner == "joint":
            mixed = joint_mix(*self._query_key(x, y), v, self._joint_sight())
        elif weight is not None:
            maps = self.maps(x, y, priors=priors, present=present)
            mixed = mix_weighted(maps, v, weight)
        else:
            mixed = mix_in_turn(self.maps(x, y, priors=priors), v)
        out: Tensor = self.out(mixed.flatten(-2))
        return out

    def maps(
        self,
        x: Tensor,
        y: Tensor | None = None,
        *,
        priors: Priors = NO_PRIORS,
        present: Tensor | None = None,
    ) -> Maps:
        """The maps of this layer by axis; in the joint manner the one between all cells. Priors are
        for the shared manner, and so are the places that are `present`, (b, l): the others are
        looked at by nobody, and which times and measurements go together is not theirs to tell."""
        y = x if y is None else y
        if self.config.manner == "decomposed":
            return {axis: self.axes[axis](x, y) for axis in AXES}
        q, k = self._query_key(x, y)
        if self.config.manner == "joint":
            return {"cells": joint_map(q, k, self._joint_sight())}
        heard = q
        if present is not None:
            heard, near = of_places(q, present), priors.get("location", q.new_zeros(()))
            absent = ~present.unflatten(1, (1, 1, -1))
            priors = {**priors, "location": torch.where(absent, -torch.inf, near)}
        return {
            axis: shared_map(
                axis,
                q if axis == "location" else heard,
                k,
                self.sight,
                at_another=self.at_another,
                prior=priors.get(axis),
            )
            for axis in AXES
        }

    def _joint_sight(self) -> Sight:
        return "all" if self.at_another else self.sight

    def _query_key(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self._heads(self.query(x)), self._heads(self.key(y))

    def _heads(self, x: Tensor) -> Tensor:
        apart: Tensor = x.unflatten(-1, (self.config.heads, -1))
        return apart
