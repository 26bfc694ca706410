"""A batch of windows split over the cores.

A network here is many small products, and threads inside each product wait for one another more
than they work. Windows are independent, so every core takes its share of a batch through the whole
network and computes its share of the gradient.
"""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cdsa.nn.context import WindowContext
from cdsa.nn.types import Network

Item = TypeVar("Item")
Result = TypeVar("Result")
Shard = tuple[Tensor, Tensor, WindowContext | None]

POOL_LOCK = threading.Lock()


def data_parallel(
    model: Network, values: Tensor, observed: Tensor, context: WindowContext | None
) -> Tensor:
    """The prediction of a batch of windows, differentiable as if the model had made it in one go. A
    `data_parallel` model on the CPU gets one shard per thread of torch."""
    threads = torch.get_num_threads()
    n_shards = min(threads, len(values))
    if not model.data_parallel or values.device.type != "cpu" or n_shards < 2:
        prediction: Tensor = model(values, observed, context)
        return prediction
    edges = [len(values) * number // n_shards for number in range(n_shards + 1)]
    slices = [slice(low, high) for low, high in pairwise(edges)]
    shards = [(values[at], observed[at], context and context.select(at)) for at in slices]
    if not torch.is_grad_enabled():
        return torch.cat(_forward(model, shards, threads))
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    joined: Tensor = ParallelForward.apply(threads, model, shards, *weights)  # type: ignore[no-untyped-call]
    return joined


class ParallelForward(torch.autograd.Function):
    """Forward and backward of all shards, each on a thread of its own."""

    @staticmethod
    def forward(
        ctx: Any, threads: int, model: Network, shards: Sequence[Shard], *weights: Tensor
    ) -> Tensor:
        with torch.enable_grad():
            ctx.predictions = _forward(model, shards, threads)
        ctx.threads, ctx.weights = threads, weights
        return torch.cat([prediction.detach() for prediction in ctx.predictions])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        grad_outputs = grad_output.split([len(prediction) for prediction in ctx.predictions])

        def gradients(shard: tuple[Tensor, Tensor]) -> tuple[Tensor | None, ...]:
            prediction, grad = shard
            grads: tuple[Tensor | None, ...]
            grads = torch.autograd.grad(prediction, ctx.weights, grad, allow_unused=True)
            return grads

        shards = list(zip(ctx.predictions, grad_outputs, strict=True))
        grads = _map(ctx.threads, gradients, shards)
        ctx.predictions = ()
        return None, None, None, *(_sum(of_weight) for of_weight in zip(*grads, strict=True))


def _forward(model: Network, shards: Sequence[Shard], threads: int) -> list[Tensor]:
    """The predictions of all shards; gradients are enabled per thread in torch."""
    with_grad = torch.is_grad_enabled()

    def predict(shard: Shard) -> Tensor:
        with torch.set_grad_enabled(with_grad):
            prediction: Tensor = model(*shard)
        return prediction

    return _map(threads, predict, shards)


def _sum(grads: Sequence[Tensor | None]) -> Tensor | None:
    """The sum of the gradients of one weight; None if no prediction depends on it."""
    used = [grad for grad in grads if grad is not None]
    return torch.stack(used).sum(0) if used else None


def _map(threads: int, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    with POOL_LOCK:
        workers = _workers(threads, os.getpid())
    return list(workers.map(work, items))


@cache
def _workers(count: int, process: int) -> ThreadPoolExecutor:
    """Threads that each compute on one core. A forked `process` has its own."""
    before, ready = torch.get_num_threads(), threading.Barrier(count + 1)
    pool = ThreadPoolExecutor(count, thread_name_prefix="cdsa")
    for _ in range(count):
        pool.submit(_start_worker, ready)
    ready.wait()
    torch.set_num_threads(before)  # what one thread sets holds for threads that start later, too
    return pool


def _start_worker(ready: threading.Barrier) -> None:
    torch.set_num_threads(1)
    torch.get_num_threads()  # without this call a thread would take the number of the others
    ready.wait()
