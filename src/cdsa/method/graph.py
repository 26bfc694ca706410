"""Networks on a graph of the stations: one that is given, or one that distances make."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from cdsa.errors import ConfigError
from cdsa.method.neural import Neural

Edge = tuple[str, str, float]


@dataclass(frozen=True, kw_only=True)
class OnGraph(Neural):
    """A network that looks along the graph of the stations."""

    edges: tuple[Edge, ...] = ()
    """Who is heard of by whom and how much, as (from, to, weight); without any, distances make the
    graph."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for source, target, weight in self.edges:
            if not 0 < weight < np.inf:
                raise ConfigError(
                    f"the weights of a graph are greater than 0, but found {weight:g} for "
                    f"{source} -> {target}. Leave out what is not joined"
                )

    def on_graph(self, edges: Sequence[Edge]) -> Self:
        """The same on this graph."""
        return replace(self, edges=tuple(edges))

    def links(self, names: NDArray[np.str_]) -> NDArray[np.float64] | None:
        """How much each station (l) hears of another (k), by the edges between those there are."""
        if not self.edges:
            return None
        at = {str(name): number for number, name in enumerate(names)}
        links = np.zeros((len(names), len(names)))
        for source, target, weight in self.edges:
            if source in at and target in at and source != target:
                links[at[target], at[source]] = weight
        if len(names) > 1 and not links.any():
            source, target, _ = self.edges[0]
            some = ", ".join(map(str, names[:5])) + (", ..." if len(names) > 5 else "")
            raise ConfigError(
                f"a graph joins stations of the table ({some}), but none of the edges does, such "
                f"as {source} -> {target}"
            )
        return links
