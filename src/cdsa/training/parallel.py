"""A batch of windows in parts, one for each core.

A network here is many small products, and threads inside of each wait for one another more than
they work. Windows have nothing to do with each other, so every core takes its part of a batch
through the whole network, and its part of the gradient back.
"""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from cdsa.nn.context import WindowContext

Given = TypeVar("Given")


Made = TypeVar("Made")


def data_parallel(
    model: nn.Module, values: Tensor, observed: Tensor, context: WindowContext | None
) -> Tensor:
    """A model's answer to a batch of windows: in as many parts as torch has threads, if the model
    is `data_parallel`, since no window knows of another and it has no long loops. The
    answer can be learnt from as if it came from the model itself."""
    given = () if context is None else (context,)
    threads = torch.get_num_threads()
    count = min(threads, len(values))
    if not getattr(model, "data_parallel", False) or values.device.type != "cpu" or count < 2:
        answer: Tensor = model(values, observed, *given)
        return answer
    parts = [
        (values[at], observed[at], *(one.select(at) for one in given))
        for at in _slices(len(values), count)
    ]
    if not torch.is_grad_enabled():
        return torch.cat(_each(threads, lambda part: _without_grad(model, part), parts))
    slopes = [weight for weight in model.parameters() if weight.requires_grad]
    joined: Tensor = ParallelForward.apply(threads, model, parts, *slopes)  # type: ignore[no-untyped-call]
    return joined


class ParallelForward(torch.autograd.Function):
    """The answers to all parts, and the gradient of each on the thread that it is worked out on."""

    @staticmethod
    def forward(
        ctx: Any, threads: int, model: nn.Module, parts: Sequence[Any], *weights: Tensor
    ) -> Tensor:
        ctx.answers = _each(threads, lambda part: _with_grad(model, part), parts)
        ctx.threads, ctx.weights = threads, weights
        return torch.cat([answer.detach() for answer in ctx.answers])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, wish: Tensor) -> tuple[Tensor | None, ...]:
        wishes = wish.split([len(answer) for answer in ctx.answers])

        def back(one: tuple[Tensor, Tensor]) -> tuple[Tensor | None, ...]:
            found: tuple[Tensor | None, ...]
            found = torch.autograd.grad(one[0], ctx.weights, one[1], allow_unused=True)
            return found

        pairs = list(zip(ctx.answers, wishes, strict=True))
        found = _each(ctx.threads, back, pairs)
        ctx.answers = ()
        return None, None, None, *(_sum(same) for same in zip(*found, strict=True))


def _with_grad(model: nn.Module, part: Sequence[Any]) -> Tensor:
    with torch.enable_grad():
        answer: Tensor = model(*part)
    return answer


def _without_grad(model: nn.Module, part: Sequence[Any]) -> Tensor:
    with torch.no_grad():
        answer: Tensor = model(*part)
    return answer


def _sum(parts: Sequence[Tensor | None]) -> Tensor | None:
    """None if a weight has no part in any answer."""
    there = [part for part in parts if part is not None]
    return torch.stack(there).sum(0) if there else None


def _slices(there: int, count: int) -> list[slice]:
    """So many slices of a batch, as alike as can be."""
    edges = [there * number // count for number in range(count + 1)]
    return [slice(low, high) for low, high in pairwise(edges)]


def _each(threads: int, work: Callable[[Given], Made], given: Sequence[Given]) -> list[Made]:
    with BEGINNING:
        workers = _workers(threads, os.getpid())
    return list(workers.map(work, given))


BEGINNING = threading.Lock()


@cache
def _workers(count: int, process: int) -> ThreadPoolExecutor:
    """So many threads that each compute on one core; a `process` that was forked has its own."""
    before, ready = torch.get_num_threads(), threading.Barrier(count + 1)
    pool = ThreadPoolExecutor(count, thread_name_prefix="cdsa")
    for _ in range(count):
        pool.submit(_begin, ready)
    ready.wait()
    torch.set_num_threads(before)  # what a thread sets holds for those that are yet to begin, too
    return pool


def _begin(ready: threading.Barrier) -> None:
    torch.set_num_threads(1)
    torch.get_num_threads()  # a thread that was never asked would take the number of others
    ready.wait()
