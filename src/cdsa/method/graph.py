"""Networks on a graph of the stations: one that is given, or one that distances make."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cdsa.errors import ConfigError
from cdsa.method.neural import Neural
from cdsa.nn.graph import Edge


@dataclass(frozen=True, kw_only=True)
class OnGraph(Neural):
    """A network that looks along the graph of the stations."""

    JOINED: ClassVar[bool] = True

    edges: tuple[Edge, ...] = ()
    """Who is heard of by whom and how much, as (from, to, weight); a station hears itself with a
    weight of one if it is not among them. Without any, distances make the graph."""

    def __post_init__(self) -> None:
        super().__post_init__()
        counts = Counter((source, target) for source, target, _ in self.edges)
        for (source, target), number in counts.items():
            if number > 1:
                raise ConfigError(
                    f"an edge of a graph is given once, but {source} -> {target} is there {number} "
                    "times. Keep one of them, or give their sum"
                )
        for source, target, weight in self.edges:
            if not 0 < weight < np.inf:
                raise ConfigError(
                    f"the weights of a graph are greater than 0, but found {weight:g} for "
                    f"{source} -> {target}. Leave out what is not joined"
                )

    def on_graph(self, edges: Sequence[Edge]) -> Self:
        """The same on this graph."""
        return replace(self, edges=tuple(edges))

    def edges_for(self, names: NDArray[np.str_]) -> tuple[Edge, ...]:
        """All edges that were given; refused if they join none of these stations."""
        there = set(map(str, names))
        joined = [e for e in self.edges if e[0] != e[1] and e[0] in there and e[1] in there]
        if self.edges and len(names) > 1 and not joined:
            source, target, _ = self.edges[0]
            some = ", ".join(map(str, names[:5])) + (", ..." if len(names) > 5 else "")
            raise ConfigError(
                f"a graph joins stations of the table ({some}), but none of the edges does, such "
                f"as {source} -> {target}"
            )
        return self.edges
