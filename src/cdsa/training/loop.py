"""The training loop: steps, validation, early stopping; a run can be stopped and resumed.

All random numbers come from the seed and the number of the step, so a run is resumed from its
weights and its `TrainState` alone. A run limited by epochs ends with the same weights, bit for bit,
whether it was interrupted or not (on one machine, with the same number of threads). A run limited
by minutes depends on the speed of the machine.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

import torch
from torch import Tensor, nn

from cdsa.errors import ConfigError, unknown
from cdsa.nn.types import Network, refuse_out_of_range
from cdsa.training.callbacks import OnProgress, Progress, ignore, never
from cdsa.training.loss import Loss, Schedule, learning_rate, masked_loss
from cdsa.training.masking import (
    CONTEXT_GAPS,
    IMPUTATION,
    Masking,
    Task,
    drop_stations,
    forget_stations,
    make_generator,
    mask_cells,
)
from cdsa.training.optimiser import OptimiserName, make_optimiser
from cdsa.training.parallel import data_parallel
from cdsa.training.sampling import SmoothedWindows
from cdsa.training.state import TrainingStore, TrainState, Weights
from cdsa.training.windows import Window, Windows

LossOn = Literal["visible", "hidden", "both"]

VISIBLE_WEIGHT = 1 / 3
"""Weight of the loss on visible cells, relative to that on masked ones."""

LAST_TOLERANCE = 1.02
"""A run that never stops early keeps its last weights unless others were better by more than this:
the small steps at its end improve more on unseen cells than a few validation cells can show."""

ORDER, MASK = 1, 2  # purpose of a random source, besides the seed and the number of the step


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Settings of training; the defaults are for a user's own table."""

    epochs: int | None = None
    """Epochs, over all windows each; 100 if neither epochs nor minutes are set."""

    minutes: float | None = None
    """Training time in minutes."""

    batch_size: int = 16
    """Windows per step; 0 lets a method choose by the data or the task."""

    optimiser: OptimiserName = "adam"
    """adam, or muon: Adam with updates of another kind for the matrices of linear layers."""

    lr: float = 1e-3
    """Learning rate."""

    beta1: float = 0.9
    """Decay of Adam's average of gradients."""

    beta2: float = 0.999
    """Decay of Adam's average of squared gradients; a lower one trains faster in a short run."""

    schedule: Schedule = "cosine"
    """Schedule of the learning rate: steps (the authors'), cosine or constant."""

    grad_clip: float = 5.0
    """Largest norm of the gradient."""

    ema_decay: float = 0.0
    """Decay of the moving average of the weights, such as 0.99; the average is what is kept. 0
    keeps the weights as they are."""

    loss: Loss = "mae"
    """Loss over the target cells: rmse (the paper's), mse, mae or rmse+mae."""

    loss_on: LossOn = "hidden"
    """Target cells: visible ones (the authors'), masked ones (hidden: masked imputation), or both.
    A forecaster's target is its horizon; with visible, its context has no added gaps."""

    masking: Masking = "mixed"
    """How cells are masked in training: random, bursts, mixed, or like_data: with the gaps of the
    data."""

    max_mask_ratio: float = 0.9
    """Largest share of a window that is masked."""

    holdout_share: float = 0.1
    """Share of the cells of some windows that is held out of training, to know when to stop."""

    validate_every: int = 50
    """Steps between two validations."""

    patience: int = 40
    """Validations without a gain after which to stop; 0 never stops early."""

    def __post_init__(self) -> None:
        choices = {
            "loss": Loss,
            "schedule": Schedule,
            "masking": Masking,
            "loss_on": LossOn,
            "optimiser": OptimiserName,
        }
        for name, kind in choices.items():
            if getattr(self, name) not in get_args(kind):
                raise ConfigError(unknown(name, str(getattr(self, name)), get_args(kind)))
        for name in ("lr", "grad_clip", "epochs", "minutes"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"{name} must be greater than 0, but found {value:g}")
        for name in ("ema_decay", "beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} lies between 0 and 1, but found {getattr(self, name):g}")
        for name in ("max_mask_ratio", "holdout_share"):
            if not 0 < getattr(self, name) < 1:
                raise ConfigError(
                    f"{name} is a share between 0 and 1, but found {getattr(self, name):g}"
                )
        refuse_out_of_range(self, may_be_zero=("batch_size", "patience"))

    @property
    def max_epochs(self) -> float:
        """Epochs after which the run ends; infinite if only minutes are set."""
        if self.epochs is None:
            return 100 if self.minutes is None else math.inf
        return self.epochs

    def few_steps(self, epochs: int = 2, batch_size: int = 4) -> Self:
        """The same for a small preset, which trains for some steps only."""
        return replace(self, minutes=None, epochs=epochs, batch_size=batch_size, validate_every=5)


def train(
    model: Network,
    windows: Windows,
    validation: Windows,
    config: TrainConfig,
    *,
    seed: int,
    task: Task = IMPUTATION,
    smoothed: SmoothedWindows | None = None,
    seconds_before: float = 0.0,
    store: TrainingStore | None = None,
    on_progress: OnProgress = ignore,
    should_stop: Callable[[], bool] = never,
) -> TrainState:
    """Train in place on `windows`, and leave the weights with the lowest error on the target cells
    of `validation`.

    With `smoothed`, windows are drawn from there. The time limit includes `seconds_before`, which
    were spent on preparations. With a `store` the run is saved now and then, and resumed from
    there. `should_stop` is called after every step; if it returns True, the run is saved and ends
    with the best weights so far.
    """
    if config.batch_size < 1:
        raise ConfigError(f"batch_size must be at least 1, but found {config.batch_size}")
    betas = (config.beta1, config.beta2)
    optimiser = make_optimiser(config.optimiser, model, config.lr, betas)
    snapshots = {"best": _copy_weights(model)}
    if config.ema_decay:
        snapshots["average"] = _copy_weights(model)
    state = store.load(model, optimiser, snapshots) if store else None
    state = state or TrainState(seconds=seconds_before)
    state.finished = True
    max_steps = max(1, math.ceil(len(windows) / config.batch_size)) * config.max_epochs
    started, saved = time.perf_counter() - state.seconds, time.perf_counter()

    for epoch, batch in shuffled_batches(len(windows), config.batch_size, seed, state.step):
        fraction = _fraction_done(state, config, max_steps)
        if fraction >= 1 or _has_converged(state, config):
            break

        # one step of gradient descent
        lr = learning_rate(config.schedule, config.lr, epoch, fraction)
        for group in optimiser.param_groups:
            group["lr"] = lr
        rng = make_generator(seed, MASK, state.step)
        model.train()
        if smoothed is not None:
            drawn = smoothed.draw(state.step)
            loss = _window_loss(model, drawn.window, drawn.visible, drawn.target, config)
        else:
            other_observed = None
            if config.masking == "like_data":
                others = torch.randint(len(windows), (len(batch),), generator=rng)
                other_observed = windows.observed[windows.steps[others]]
            loss = training_loss(model, windows.take(batch), config, rng, task, other_observed)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
        optimiser.step()
        model.clip_critic()
        state.step += 1
        if config.ema_decay:
            _update_average(snapshots["average"], model, config.ema_decay, state.step)
        state.loss_sum += loss.item()
        state.loss_count += 1
        if not math.isfinite(state.loss_sum):
            raise ConfigError(
                f"the loss is not finite at step {state.step}: the steps are too large. Lower the "
                f"learning rate, as in --set train.lr={config.lr / 10:g}"
            )

        # validate, report, save
        state.seconds = time.perf_counter() - started
        fraction = _fraction_done(state, config, max_steps)
        if state.step % config.validate_every == 0 or fraction >= 1:
            validate(model, validation, config, task, state, snapshots, last=fraction >= 1)
        on_progress(
            Progress(
                epoch=epoch,
                step=state.step,
                fraction=min(fraction, 1.0),
                seconds=state.seconds,
                loss=state.loss,
                validation=state.validation,
                best=state.best,
                lr=lr,
            )
        )
        stopped = should_stop() and fraction < 1 and not _has_converged(state, config)
        if store and (stopped or time.perf_counter() - saved > store.every):
            store.save(state, model, optimiser, snapshots)
            saved = time.perf_counter()
        if stopped:
            state.finished = False
            break

    if state.best is None and state.step:
        validate(model, validation, config, task, state, snapshots, last=True)
    model.load_state_dict(snapshots["best"])
    return state


def shuffled_batches(
    n_windows: int, batch_size: int, seed: int, step: int
) -> Iterator[tuple[int, Tensor]]:
    """Yield (epoch, window indices) without end, from this step on."""
    n_batches = math.ceil(n_windows / batch_size)
    while n_windows:
        epoch, first = divmod(step, n_batches)
        order = torch.randperm(n_windows, generator=make_generator(seed, ORDER, epoch))
        for batch in order.split(batch_size)[first:]:
            yield epoch, batch
            step += 1


def _fraction_done(state: TrainState, config: TrainConfig, max_steps: float) -> float:
    """Share of the run that is done, by epochs or by minutes, whichever is further."""
    by_time = state.seconds / (60 * config.minutes) if config.minutes else 0.0
    return max(state.step / max_steps, by_time)


def _has_converged(state: TrainState, config: TrainConfig) -> bool:
    return 0 < config.patience <= state.checks_without_gain


@torch.no_grad()
def _update_average(average: Weights, model: Network, decay: float, step: int) -> None:
    """Move the average towards the weights; at first it follows them closely."""
    decay = min(decay, step / (step + 10))
    for name, weight in model.named_parameters():
        average[name].lerp_(weight, 1 - decay)


def validate(
    model: Network,
    validation: Windows,
    config: TrainConfig,
    task: Task,
    state: TrainState,
    snapshots: dict[str, Weights],
    *,
    last: bool,
) -> None:
    """Measure the validation error, and keep the weights if it is the lowest so far, or if they are
    the `last` and about as good.

    Weights from before the critic takes part are not kept, unless they are the last. Without
    validation cells an adversarial network keeps its newest weights.
    """
    if not (model.critic_active or last):
        return
    current = _copy_weights(model)
    model.load_state_dict(snapshots.get("average", current))
    error = validation_error(model, validation, config, task) if len(validation) else state.loss
    state.validation, state.last_loss = error, state.loss
    state.loss_sum, state.loss_count = 0.0, 0
    tolerance = LAST_TOLERANCE if last and not config.patience else 1.0
    unmeasured = model.adversarial and not len(validation)
    if unmeasured or state.best is None or error < tolerance * state.best:
        state.best, state.best_step, state.checks_without_gain = error, state.step, 0
        snapshots["best"] = _copy_weights(model)
    else:
        state.checks_without_gain += 1
    model.load_state_dict(current)


def _copy_weights(model: Network) -> Weights:
    return {name: weight.detach().clone() for name, weight in model.state_dict().items()}


def training_loss(
    model: Network,
    window: Window,
    config: TrainConfig,
    rng: torch.Generator,
    task: Task = IMPUTATION,
    other_observed: Tensor | None = None,
) -> Tensor:
    """The loss of one batch: the network sees some of the observed cells and predicts others."""
    if model.teacher_forced:
        prediction = model.forward_teacher_forced(window.values, window.observed, window.context)
        return masked_loss(config.loss, prediction, window.truth, masks_for(window, task)[1])

    visible = target = window.observed
    if task.horizon:
        visible, target = masks_for(window, task)
    masked = torch.zeros_like(visible)
    if config.loss_on != "visible":
        masked = mask_cells(
            window.observed,
            config.masking,
            config.max_mask_ratio,
            rng,
            task.mask_groups,
            other_observed,
        )
    if model.custom_loss:
        return model.loss(window.values, window.observed, visible & ~masked)

    if config.loss_on != "visible":
        if window.context is not None and not task.horizon:  # as if there never was a sensor
            dropped = drop_stations(window.observed, rng)
            masked = masked | (dropped.unflatten(1, (1, -1, 1)) & window.observed)
            window = replace(window, context=window.context.without_stations(dropped))
        if task.horizon:
            with_gaps = torch.rand((len(masked), 1, 1, 1), generator=rng) < CONTEXT_GAPS
            visible = visible & ~(masked & with_gaps.to(masked.device))
        else:
            visible, target = window.observed & ~masked, masked
    if window.context is not None:
        context = forget_stations(window.context, len(window.values), rng)
        window = replace(window, context=context)
    return _window_loss(model, window, visible, target, config)


def _window_loss(
    model: Network, window: Window, visible: Tensor, target: Tensor, config: TrainConfig
) -> Tensor:
    prediction = predict(model, window, visible)
    loss = masked_loss(config.loss, prediction, window.truth, target)
    if config.loss_on == "both":
        loss = loss + masked_loss(config.loss, prediction, window.truth, visible) * VISIBLE_WEIGHT
    return loss


def masks_for(window: Window, task: Task) -> tuple[Tensor, Tensor]:
    """The visible and the target cells of a window; the target of a forecaster is the horizon."""
    if not task.horizon:
        return window.observed, window.target
    future = task.future(window.observed)
    return window.observed & ~future, window.observed & future


def predict(model: Network, window: Window, visible: Tensor) -> Tensor:
    """The prediction of a window from its visible cells."""
    values = torch.where(visible, window.values, 0.0)
    return data_parallel(model, values, visible, window.context)


@torch.no_grad()
def validation_error(
    model: Network, validation: Windows, config: TrainConfig, task: Task = IMPUTATION
) -> float:
    """The loss over all target cells: a ratio of sums, not a mean over batches."""
    model.eval()
    cells = []
    for window in validation.batches(config.batch_size):
        visible, target = masks_for(window, task)
        cells.append((predict(model, window, visible)[target], window.truth[target]))
    prediction, truth = (torch.cat(batches).cpu().double() for batches in zip(*cells, strict=True))
    return masked_loss(config.loss, prediction, truth, torch.ones_like(truth).bool()).item()
