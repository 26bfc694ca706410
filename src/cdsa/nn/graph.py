"""Graphs of stations, and recurrent units that convolve along them.

The graph is given, or a Gaussian kernel of the distances between stations with a threshold (Shuman
et al., 2013), similar to that of Li et al. (ICLR 2018).

Letters: b window of the batch, l and k locations, f inputs of a location, w diffusion step.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, einsum, nn

from cdsa.core.geo import Edge
from cdsa.errors import ConfigError
from cdsa.nn.context import WindowContext
from cdsa.nn.seq2seq import State

THRESHOLD = 0.1
"""Weights below this become zero."""

MIN_RELATIVE_SPREAD = 1 / 3
"""Standard deviation of the distances, relative to their mean, below which they count as equal."""


def kernel_bandwidth(distance: Tensor) -> float:
    """Bandwidth of the kernel of these distances (l, k): their standard deviation or, where they
    are nearly equal, their mean."""
    positive = distance[distance > 0]
    if not positive.numel():
        return 1.0
    mean = positive.mean().item()
    deviation = positive.std().item() if positive.numel() > 1 else 0.0
    return deviation if deviation > mean * MIN_RELATIVE_SPREAD else mean


def adjacency_of_distances(distance: Tensor, bandwidth: float | None = None) -> Tensor:
    """A Gaussian kernel of distances with a threshold, (l, k). With the bandwidth of training, the
    same stations are connected as they were then, even if there are fewer."""
    weight = torch.exp(-((distance / (bandwidth or kernel_bandwidth(distance))) ** 2))
    return torch.where(weight >= THRESHOLD, weight, 0.0)


def adjacency_of_edges(edges: Iterable[Edge], names: Sequence[str]) -> Tensor:
    """Weights of the edges from k to l, (l, k), between stations of these names."""
    index = {str(name): number for number, name in enumerate(names)}
    entries = [(index[t], index[s], weight) for s, t, weight in edges if s in index and t in index]
    adjacency = torch.zeros(len(index), len(index))
    if entries:
        rows, columns, weights = zip(*entries, strict=True)
        adjacency[list(rows), list(columns)] = torch.tensor(weights)
    return adjacency


def adjacency_of_context(context: WindowContext | None, like: Tensor, method: str) -> Tensor:
    """The graph of the stations, (l, k), with self-loops: given, or made of distances."""
    if context is not None and context.adjacency is not None:
        adjacency = context.adjacency.to(like)
        return adjacency + torch.diag((adjacency.diagonal() == 0).to(adjacency))
    if context is None or context.distance is None:
        raise ConfigError(
            f"'{method}' needs the graph of the stations, but these have no coordinates. Give them "
            "in columns lat and lon or with --locations, or a graph of your own with --graph"
        )
    return adjacency_of_distances(context.distance.to(like), context.bandwidth)


def diffusion_matrices(adjacency: Tensor, max_steps: int) -> Tensor:
    """Transition matrices of random walks of 1 to `max_steps` steps, (w, l, k): along the edges,
    then against them, unless the graph is symmetric."""
    symmetric = torch.equal(adjacency, adjacency.T)
    matrices = []
    for directed in (adjacency,) if symmetric else (adjacency, adjacency.T):
        transition = directed / directed.sum(dim=1, keepdim=True)
        power = transition
        for _ in range(max_steps):
            matrices.append(power)
            power = power @ transition
    return torch.stack(matrices)


class DiffusionConvolution(nn.Module):
    """Inputs of all locations (b, l, f) -> (b, l, out), along diffusion matrices (w, l, k).

    It has weights for no step, for steps along the edges and for steps against them. For a
    symmetric graph, the last two are added up first.
    """

    def __init__(self, max_steps: int, inputs: int, out: int) -> None:
        super().__init__()
        self.max_steps, self.inputs = max_steps, inputs
        self.linear = nn.Linear((2 * max_steps + 1) * inputs, out)

    def forward(self, x: Tensor, matrices: Tensor) -> Tensor:
        weight = self.linear.weight
        if len(matrices) == self.max_steps:
            sizes = [self.inputs, self.max_steps * self.inputs, self.max_steps * self.inputs]
            stay, along, against = weight.split(sizes, dim=1)
            weight = torch.cat([stay, along + against], dim=1)
        diffused = einsum("wlk, bkf -> blwf", matrices, x).flatten(2)
        return nn.functional.linear(torch.cat([x, diffused], dim=-1), weight, self.linear.bias)


class GraphCell(nn.Module):
    """Gated recurrent units of several layers with graph convolutions for matrix products.

    `conv(inputs, out)` makes a convolution: (b, l, inputs) and the graph -> (b, l, out).
    """

    def __init__(
        self, conv: Callable[[int, int], nn.Module], inputs: int, d_hidden: int, n_layers: int
    ) -> None:
        super().__init__()
        self.d_hidden, self.n_layers = d_hidden, n_layers
        sizes = [inputs, *[d_hidden] * (n_layers - 1)]
        self.gates = nn.ModuleList(conv(size + d_hidden, 2 * d_hidden) for size in sizes)
        self.candidate = nn.ModuleList(conv(size + d_hidden, d_hidden) for size in sizes)

    def start(self, like: Tensor) -> State:
        return tuple(like.new_zeros(*like.shape[:2], self.d_hidden) for _ in range(self.n_layers))

    def forward(self, x: Tensor, state: State, graph: Tensor) -> tuple[Tensor, State]:
        states = []
        for gate, candidate, h in zip(self.gates, self.candidate, state, strict=True):
            reset, update = gate(torch.cat([x, h], dim=-1), graph).sigmoid().chunk(2, dim=-1)
            new = candidate(torch.cat([x, reset * h], dim=-1), graph).tanh()
            x = update * h + (1 - update) * new
            states.append(x)
        return x, tuple(states)
