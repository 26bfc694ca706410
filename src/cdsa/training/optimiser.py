"""Optimisers: Adam, and Muon for the matrices of a network.

Letters: n matrices of one shape, i rows, j columns.
"""

import math
from collections import defaultdict
from inspect import unwrap
from typing import Literal, assert_never

import torch
from torch import Tensor, nn

from cdsa.nn.types import Network

OptimiserName = Literal["adam", "muon"]

MIN_SIDE = 16
"""Rows and columns that a matrix needs; narrower ones are left to Adam."""

MOMENTUM = 0.95

UPDATE_SIZE = 0.6
"""Root mean square of the elements of an update, for a learning rate of one; that of Adam's is
below one. So one learning rate suits both."""

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the polynomial of Jordan et al.: singular values between 0 and 1 soon come close to 1."""

ITERATIONS = 5


class Adam(torch.optim.Adam):
    """That of torch without the wrappers that keep `torch.compile` out of it: they import the
    compiler, which takes longer than a short training."""

    add_param_group = unwrap(torch.optim.Adam.add_param_group)
    load_state_dict = unwrap(torch.optim.Adam.load_state_dict)
    state_dict = unwrap(torch.optim.Adam.state_dict)
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))
    zero_grad = unwrap(torch.optim.Adam.zero_grad)


class Muon(Adam):
    """Adam, except for the weights of linear layers: their update is the average gradient with all
    singular values made equal, so directions with small gradients are learnt too.

    References
    ----------
    Jordan, K., et al. (2024). Muon: An optimizer for hidden layers in neural networks.
    """

    def __init__(self, model: nn.Module, lr: float, betas: tuple[float, float]) -> None:
        super().__init__(model.parameters(), lr=lr, betas=betas)
        self.matrices = [
            layer.weight
            for layer in model.modules()
            if isinstance(layer, nn.Linear) and min(layer.weight.shape) >= MIN_SIDE
        ]

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all weights by their gradients."""
        by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
        gradients = {weight: weight.grad for weight in self.matrices if weight.grad is not None}
        for weight in gradients:
            by_shape[weight.shape].append(weight)
            weight.grad = None  # so that Adam leaves it as it is
        super().step()
        lr = self.param_groups[0]["lr"]
        for shape, weights in by_shape.items():
            updates = []
            for weight in weights:
                gradient = gradients[weight]
                state = self.state[weight]
                if not state:  # a saved state of Adam has a number of steps
                    state |= {"step": torch.tensor(0.0), "momentum": torch.zeros_like(weight)}
                state["step"] += 1
                average = state["momentum"]
                average.lerp_(gradient, 1 - MOMENTUM)
                updates.append(gradient.lerp(average, MOMENTUM))
            size = lr * UPDATE_SIZE * math.sqrt(max(shape))
            for weight, update in zip(weights, orthogonalise(torch.stack(updates)), strict=True):
                weight.sub_(update, alpha=size)
        for weight, gradient in gradients.items():
            weight.grad = gradient


def orthogonalise(matrices: Tensor) -> Tensor:
    """The matrices (n, i, j) with all singular values close to one, by Newton-Schulz iteration."""
    a, b, c = COEFFICIENTS
    wide = matrices.shape[1] <= matrices.shape[2]
    x = matrices if wide else matrices.mT
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    orthogonal: Tensor = x if wide else x.mT
    return orthogonal


def make_optimiser(
    name: OptimiserName, model: Network, lr: float, betas: tuple[float, float]
) -> torch.optim.Optimizer:
    match name:
        case "adam":
            return Adam(model.parameters(), lr=lr, betas=betas)
        case "muon":
            return Muon(model, lr, betas)
        case _:
            assert_never(name)
