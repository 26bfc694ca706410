"""Stations as a graph: who is next to whom, and recurrent units that look along it.

The graph is the one that was given, or a Gaussian kernel of the distances between stations, cut off
where it is small (Shuman et al., 2013), much as Li et al. (ICLR 2018) make theirs.

Letters: b window of the batch, l and k locations, f inputs of a location, w step of a walk.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, einsum, nn

from cdsa.errors import ConfigError
from cdsa.nn.context import WindowContext
from cdsa.nn.seq2seq import State

Edge = tuple[str, str, float]
"""Who is heard, by whom, and how much."""


THRESHOLD = 0.1
"""Weights of the graph below this are none."""


EVEN = 1 / 3
"""Distances that differ by less than this share of their mean are all alike."""


def kernel_bandwidth(distance: Tensor) -> float:
    """How wide the kernel of these distances (l, k) is: as they differ or, where they hardly do, as
    they are."""
    apart = distance[distance > 0]
    if not apart.numel():
        return 1.0
    usual = apart.mean().item()
    spread = apart.std().item() if apart.numel() > 1 else 0.0
    return spread if spread > usual * EVEN else usual


def adjacency_of_distances(distance: Tensor, bandwidth: float | None = None) -> Tensor:
    """A Gaussian kernel of distances, cut off where it is small, (l, k); as wide as where the
    weights were learnt, for else the same stations would be joined otherwise among fewer."""
    weight = torch.exp(-((distance / (bandwidth or kernel_bandwidth(distance))) ** 2))
    return torch.where(weight >= THRESHOLD, weight, 0.0)


def adjacency_of_edges(edges: Iterable[Edge], names: Sequence[str]) -> Tensor:
    """How much each station (l) hears of another (k), by the edges between those there are."""
    at = {str(name): number for number, name in enumerate(names)}
    there = [(at[t], at[s], weight) for s, t, weight in edges if s in at and t in at]
    links = torch.zeros(len(at), len(at))
    if there:
        rows, columns, weights = zip(*there, strict=True)
        links[list(rows), list(columns)] = torch.tensor(weights)
    return links


def adjacency_of_context(context: WindowContext | None, like: Tensor, name: str) -> Tensor:
    """The graph of the stations that lie around, (l, k), each next to itself, by a weight of one if
    none is given; a method of this `name` needs it."""
    if context is not None and context.adjacency is not None:
        links = context.adjacency.to(like)
        return links + torch.diag((links.diagonal() == 0).to(links))
    if context is None or context.distance is None:
        raise ConfigError(
            f"'{name}' needs the graph of the stations, but these have no coordinates. Give them "
            "in columns lat and lon or with --locations, or a graph of your own with --graph"
        )
    return adjacency_of_distances(context.distance.to(like), context.bandwidth)


def diffusion_matrices(graph: Tensor, most: int) -> Tensor:
    """Where random walks of one and up to so many steps end, (w, l, k): along the graph's edges,
    then against them, unless that is the same."""
    found = []
    for way in (graph,) if torch.equal(graph, graph.T) else (graph, graph.T):
        step = way / way.sum(dim=1, keepdim=True)
        walked = step
        for _ in range(most):
            found.append(walked)
            walked = walked @ step
    return torch.stack(found)


class DiffusionConvolution(nn.Module):
    """Inputs of all locations (b, l, f) -> (b, l, out), along walks (w, l, k) of at `most` so many
    steps.

    It has weights for staying, for walks along the edges and for walks against them. Where the last
    two are the same, their weights are added up first.
    """

    def __init__(self, most: int, inputs: int, out: int) -> None:
        super().__init__()
        self.most, self.inputs = most, inputs
        self.mix = nn.Linear((2 * most + 1) * inputs, out)

    def forward(self, x: Tensor, walks: Tensor) -> Tensor:
        weight = self.mix.weight
        if len(walks) == self.most:
            sizes = [self.inputs, self.most * self.inputs, self.most * self.inputs]
            stay, along, against = weight.split(sizes, dim=1)
            weight = torch.cat([stay, along + against], dim=1)
        walked = einsum("wlk, bkf -> blwf", walks, x).flatten(2)
        return nn.functional.linear(torch.cat([x, walked], dim=-1), weight, self.mix.bias)


class GraphCell(nn.Module):
    """Gated recurrent units of several layers in which every matrix product looks along the graph.

    `look(inputs, out)` makes what stands in the place of a product: called with inputs (b, l, f)
    and the graph, it tells (b, l, out).
    """

    def __init__(
        self, conv: Callable[[int, int], nn.Module], inputs: int, hidden: int, layers: int
    ) -> None:
        super().__init__()
        self.width, self.layers = hidden, layers
        sizes = [inputs, *[hidden] * (layers - 1)]
        self.gates = nn.ModuleList(conv(size + hidden, 2 * hidden) for size in sizes)
        self.candidate = nn.ModuleList(conv(size + hidden, hidden) for size in sizes)

    def start(self, like: Tensor) -> State:
        """Nothing is known at first."""
        return tuple(like.new_zeros(*like.shape[:2], self.width) for _ in range(self.layers))

    def forward(self, x: Tensor, state: State, graph: Tensor) -> tuple[Tensor, State]:
        after = []
        for gate, fresh, h in zip(self.gates, self.candidate, state, strict=True):
            reset, update = gate(torch.cat([x, h], dim=-1), graph).sigmoid().chunk(2, dim=-1)
            new = fresh(torch.cat([x, reset * h], dim=-1), graph).tanh()
            x = update * h + (1 - update) * new
            after.append(x)
        return x, tuple(after)
