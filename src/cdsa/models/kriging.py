"""What the places around say: the straight lines of all series, kriged moment by moment.

A line is trusted the less the further away the observations are that it runs between: a walk that
strays by `roughness` a step is off it by that times a b / (a + b), a steps behind one observation
and b before the next. With this as its noise, ordinary kriging of the lines of all places weighs
a station's own line against what its neighbours say, and where there is no sensor it is what is
left. The kernel is learnt for every measurement: how fast it falls with distance, how much stations
that were alike count as near, and the noise.

Letters: b window of the batch, t time, l and k locations, m measurement, r right-hand side.
"""

import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cdsa.models.surroundings import EasyAnswer, Surroundings

SLOPE = 0.2
"""First slope of the kernel's logarithm, per unit of distance."""
ALIKE = 0.3
"""First share of resemblance in the kernel."""
NUGGET = 0.02
"""First noise of an observation, in variances of the measurement."""
MEAN_TRUST = 1e-3
"""What is known of a moment's mean before: that it is zero, as if so much of a station said so."""
ROUNDS = 20
"""Of conjugate gradients. Kernels are smooth, so a few directions hold nearly all there is."""
TINY = 1e-30


class Kriging(nn.Module):
    """Lines (b, t, l, m) -> what is said of every cell (b, t, l, m).

    Its kernel falls with distance or, with `alike`, is in part the resemblance of places. Of a
    place that nothing is known of but where it is, the latter is only a part of what others have in
    common, so it takes distance alone to tell of such places.
    """

    def __init__(self, measurements: int, *, alike: bool) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.full((measurements,), math.log(math.expm1(SLOPE))))
        self.nugget = nn.Parameter(torch.full((measurements,), math.log(NUGGET)))
        self.drift = nn.Parameter(torch.zeros(measurements))
        self.alike = None
        if alike:
            self.alike = nn.Parameter(torch.full((measurements,), math.log(ALIKE / (1 - ALIKE))))

    def forward(self, lines: Tensor, easy: EasyAnswer, around: Surroundings) -> Tensor:
        nugget, drift = self.nugget[around.kinds].exp(), self.drift[around.kinds].exp()
        noise = nugget + drift * around.roughness * easy.strays
        # of a series without an observation nothing is believed
        root = torch.where(easy.told, noise.rsqrt(), 0.0).permute(0, 3, 1, 2).unsqueeze(3)
        kernel = self.kernel(around)
        sides = torch.stack([lines, torch.ones_like(lines)], dim=-1).permute(0, 3, 1, 4, 2)
        pull = root * cast(Tensor, Solve.apply(kernel, root, root * sides))  # type: ignore[no-untyped-call]
        told, ones = pull.split(1, dim=3)  # (b, m, t, 1, l)
        mean = told.sum(-1, keepdim=True) / (ones.sum(-1, keepdim=True) + MEAN_TRUST)
        kriged = mean + across(kernel, told - mean * ones)
        return cast(Tensor, kriged.squeeze(3).permute(0, 2, 3, 1))

    def kernel(self, around: Surroundings) -> Tensor:
        """How much places have in common, (b, m, l, k), where b may be one. Without coordinates all
        places are equally near."""
        slope = F.softplus(self.slope[around.kinds]).unflatten(0, (-1, 1, 1))
        likeness = around.likeness if around.likeness.ndim == 3 else around.likeness.unsqueeze(0)
        apart = torch.zeros_like(likeness[0]) if around.distance is None else around.distance
        near: Tensor = (-slope * apart).exp().unsqueeze(0)
        if self.alike is None:
            return near
        share = self.alike[around.kinds].sigmoid().unflatten(0, (-1, 1, 1))
        return cast(Tensor, share * likeness.unsqueeze(1) + (1 - share) * near)


def across(kernel: Tensor, x: Tensor) -> Tensor:
    """The symmetric kernel (b, m, l, k) applied to (b, m, t, r, l)."""
    told = x.flatten(2, 3) @ kernel
    return cast(Tensor, told.unflatten(2, x.shape[2:4]))


class Solve(torch.autograd.Function):
    """x of (1 + root kernel root) x = y, for y (b, m, t, r, l) and root (b, m, t, 1, l).

    The kernel is shared by all moments, so conjugate gradients are a few large products; a matrix
    for every moment is never made. The gradient is a solution of the same kind.
    """

    @staticmethod
    def forward(ctx: Any, kernel: Tensor, root: Tensor, y: Tensor) -> Tensor:
        x = conjugate_gradients(kernel, root, y)
        ctx.save_for_backward(kernel, root, x)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        kernel, root, x = ctx.saved_tensors
        back = conjugate_gradients(kernel, root, grads[0])
        left, right = root * back, root * x
        of_kernel = -(left.flatten(2, 3).mT @ right.flatten(2, 3))
        of_root = -(back * across(kernel, right) + x * across(kernel, left))
        symmetric = (of_kernel + of_kernel.mT) / 2
        return symmetric.sum_to_size(kernel.shape), of_root.sum(3, keepdim=True), back


def conjugate_gradients(kernel: Tensor, root: Tensor, y: Tensor) -> Tensor:
    """x of (1 + root kernel root) x = y; every moment on its own, whatever it is solved with."""
    x, rest = torch.zeros_like(y), y
    way, size = rest, (rest * rest).sum(-1, keepdim=True)
    for _ in range(min(ROUNDS, y.shape[-1] + 1)):
        ahead = way + root * across(kernel, root * way)
        far = size / (way * ahead).sum(-1, keepdim=True).clamp(min=TINY)
        x, rest = x + far * way, rest - far * ahead
        left = (rest * rest).sum(-1, keepdim=True)
        way, size = rest + left / size.clamp(min=TINY) * way, left
    return x
