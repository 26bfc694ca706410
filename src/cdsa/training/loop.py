"""The only training loop: steps, validation, early stop; it can be stopped and gone on with.

All that is random is drawn from the seed and the number of the step, so the place in a run is its
whole state beside the weights. A run limited by epochs ends with the same weights, bit for bit,
whether it was interrupted or not (on one machine, with as many threads); one limited by minutes
depends on the machine's speed.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, Protocol, get_args, runtime_checkable

import torch
from torch import Tensor, nn

from cdsa.errors import ConfigError, unknown
from cdsa.nn.context import WindowContext
from cdsa.training.callbacks import OnProgress, Progress
from cdsa.training.loss import Loss, Schedule, loss_of, rate_at
from cdsa.training.masking import Masking, Task, drop_stations, mask_cells, random_source
from cdsa.training.parallel import data_parallel
from cdsa.training.state import TrainingStore, TrainState, Weights
from cdsa.training.windows import Window, Windows

LossOn = Literal["visible", "hidden", "both"]


VISIBLE_WEIGHT = 1 / 3
"""Of the visible cells where both they and the hidden ones are learnt from."""


PAST_GAPS = 0.3
"""Share of a forecaster's windows in which cells before the horizon are hidden too."""


AS_GOOD = 1.02
"""The last weights of a run that never stops early are kept unless others did better by more: the
slow steps at its end gain more on what nobody looked at than a few cells can tell."""


TO_FILL = Task()


ORDER, HIDE = 1, 2  # what a generator is for, beside the seed and the number of the step


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a network learns; the defaults are for a user's own table."""

    epochs: int | None = None
    """Passes over all windows, 100 if neither they nor minutes are given."""

    minutes: float | None = None
    """Time to learn for, in minutes."""

    batch_size: int = 16
    """Windows per step; 0 leaves it to a method that chooses by the data or the task."""

    lr: float = 1e-3
    """Learning rate of Adam."""

    beta1: float = 0.9
    """How much of Adam's average of gradients stays from step to step."""

    beta2: float = 0.999
    """How much of Adam's average of squared gradients stays from step to step; less of it learns
    faster in a short run."""

    schedule: Schedule = "cosine"
    """The learning rate over time: steps (the authors'), cosine or constant."""

    grad_clip: float = 5.0
    """Largest norm of the gradient."""

    ema_decay: float = 0.0
    """Of the weights that are kept: how much of their moving average stays from step to step, such
    as 0.99; 0 keeps the weights as they are."""

    loss: Loss = "mae"
    """What is minimised over the asked cells: rmse (the paper's), mse, mae or rmse+mae."""

    loss_on: LossOn = "hidden"
    """The cells asked for: those that are visible (the authors'), those hidden for the purpose
    (masked imputation), or both; of a forecaster all that lies ahead, and what it looks back on is
    whole if it learns from what is visible."""

    masking: Masking = "mixed"
    """How cells are hidden for training: random, bursts, mixed, or like_data: like the data's own
    gaps."""

    max_mask_ratio: float = 0.9
    """Largest share of a window that is hidden."""

    holdout_share: float = 0.1
    """Share of the cells of some windows that is never trained on, to know when to stop."""

    validate_every: int = 50
    """Steps between two looks at the validation cells."""

    patience: int = 40
    """Looks without a gain after which to stop; 0 never stops early."""

    def __post_init__(self) -> None:
        for name, kind in (
            ("loss", Loss),
            ("schedule", Schedule),
            ("masking", Masking),
            ("loss_on", LossOn),
        ):
            if getattr(self, name) not in get_args(kind):
                raise ConfigError(unknown(name, str(getattr(self, name)), get_args(kind)))
        for name, smallest in (("batch_size", 0), ("validate_every", 1)):
            if getattr(self, name) < smallest:
                raise ConfigError(
                    f"{name} must be at least {smallest}, but found {getattr(self, name)}"
                )
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
        if self.patience < 0:
            raise ConfigError(f"patience must not be negative, but found {self.patience}")

    @property
    def passes(self) -> float:
        """Epochs after which the run ends; endless if only minutes are given."""
        if self.epochs is None:
            return 100 if self.minutes is None else math.inf
        return self.epochs


@runtime_checkable
class TeacherForced(Protocol):
    """A network that learns from true values it would not have when used."""

    horizon: int

    def forward_teacher_forced(
        self, values: Tensor, observed: Tensor, *context: WindowContext
    ) -> Tensor:
        """The guess of every step from the true values before it."""
        ...


@runtime_checkable
class CustomLoss(Protocol):
    """A network that learns by a loss of its own."""

    def loss(self, values: Tensor, observed: Tensor, shown: Tensor) -> Tensor:
        """The loss of a batch of windows over all that was observed, told from what is shown of it:
        all that is not hidden on purpose and, to foresee, lies before the horizon."""
        ...


@runtime_checkable
class Adversarial(Protocol):
    """A network that is two, of which one judges the other."""

    @property
    def critic_active(self) -> bool:
        """Whether the judge has begun; what was before is not yet the network that was meant."""
        ...

    def clip_critic(self) -> None:
        """Keep the judge's weights in their bounds, after every step."""
        ...


def train(
    model: nn.Module,
    windows: Windows,
    validation: Windows,
    config: TrainConfig,
    *,
    seed: int,
    task: Task = TO_FILL,
    store: TrainingStore | None = None,
    on_progress: OnProgress = lambda report: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> TrainState:
    """Train in place on `windows` and leave the weights that did best on the asked cells of `exam`.

    With a `store` the run is written down now and then, and goes on from there. `stop` is asked
    after every step; if it says so, the run is written down and ends with the best so far.
    """
    if config.batch_size < 1:
        raise ConfigError(f"batch must be at least 1, but found {config.batch_size}")
    run = Trainer(model, config, seed, task)
    state = store.load(model, run.optimiser, run.snapshots) if store else None
    state = run.state = state or TrainState()
    clock = time.perf_counter() - state.seconds
    saved = time.perf_counter()
    steps = max(1, math.ceil(len(windows) / config.batch_size))
    state.finished = True
    order, ordered = torch.arange(0), -1
    while len(windows) and not run.finished(steps):
        epoch, batch = divmod(state.step, steps)
        if epoch != ordered:
            order = torch.randperm(len(windows), generator=random_source(seed, ORDER, epoch))
            ordered = epoch
        chosen = order[batch * config.batch_size : (batch + 1) * config.batch_size]
        run.learn(windows, chosen, epoch, steps)
        state.seconds = time.perf_counter() - clock
        if state.step % config.validate_every == 0 or run.over(steps):
            run.validate(validation, last=run.over(steps))
        on_progress(run.report(epoch, steps))
        stopped = should_stop() and not run.finished(steps)
        if store and (stopped or time.perf_counter() - saved > store.every):
            store.save(state, model, run.optimiser, run.snapshots)
            saved = time.perf_counter()
        if stopped:
            state.finished = False
            break
    if state.best is None and state.step:
        run.validate(validation, last=True)
    model.load_state_dict(run.snapshots["best"])
    return state


class Trainer:
    """What changes while a network learns."""

    def __init__(self, model: nn.Module, config: TrainConfig, seed: int, task: Task) -> None:
        self.model, self.config, self.seed, self.task = model, config, seed, task
        betas = (config.beta1, config.beta2)
        self.optimiser = torch.optim.Adam(model.parameters(), lr=config.lr, betas=betas)
        self.snapshots: dict[str, Weights] = {"best": _copied(model)}
        if config.ema_decay:
            self.snapshots["average"] = _copied(model)
        self.state = TrainState()
        self.rate = config.lr

    def progress(self, steps: int) -> float:
        """The share of the run that is done, by epochs or by minutes, whichever is further."""
        by_steps = self.state.step / (steps * self.config.passes)
        minutes = self.config.minutes
        return max(by_steps, self.state.seconds / (60 * minutes) if minutes else 0.0)

    def over(self, steps: int) -> bool:
        """Whether all steps or all minutes are used up."""
        return self.progress(steps) >= 1

    def finished(self, steps: int) -> bool:
        """Whether the run is over or has not gained anything for long."""
        patience = self.config.patience
        return self.over(steps) or (patience > 0 and self.state.checks_without_gain >= patience)

    def learn(self, windows: Windows, chosen: Tensor, epoch: int, steps: int) -> None:
        """One step of gradient descent."""
        place, config = self.state, self.config
        self.rate = rate_at(config.schedule, config.lr, epoch, self.progress(steps))
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate
        self.model.train()
        source = random_source(self.seed, HIDE, place.step)
        window, others = windows.take(chosen), None
        if config.masking == "like_data":
            drawn = torch.randint(len(windows), (len(chosen),), generator=source)
            others = windows.observed[windows.steps[drawn]]
        loss = training_loss(self.model, window, config, source, self.task, others)
        self.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), config.grad_clip)
        self.optimiser.step()
        if isinstance(self.model, Adversarial):
            self.model.clip_critic()
        place.step += 1
        self._average()
        place.loss_sum += loss.item()
        place.loss_count += 1
        if not math.isfinite(place.loss_sum):
            raise ConfigError(
                f"the loss is no number any more at step {place.step}: the steps are too long. "
                f"Lower the learning rate, as in --set train.lr={config.lr / 10:g}"
            )

    def validate(self, validation: Windows, *, last: bool = False) -> None:
        """Look at the validation cells, and keep the weights if they never did better, or are the
        `last` and as good. Nothing is kept of a network whose judge has not begun, but the last;
        and without such cells always its newest weights, for its loss does not tell how it does."""
        if isinstance(self.model, Adversarial) and not (self.model.critic_active or last):
            return
        place = self.state
        now = _copied(self.model)
        self.model.load_state_dict(self.snapshots.get("average", now))
        error = (
            validation_error(self.model, validation, self.config, self.task)
            if len(validation)
            else place.loss
        )
        place.validation, place.last_loss = error, place.loss
        place.loss_sum, place.loss_count = 0.0, 0
        enough = AS_GOOD if last and not self.config.patience else 1.0
        untold = isinstance(self.model, Adversarial) and not len(validation)
        if untold or place.best is None or error < enough * place.best:
            place.best, place.best_step, place.checks_without_gain = error, place.step, 0
            self.snapshots["best"] = _copied(self.model)
        else:
            place.checks_without_gain += 1
        self.model.load_state_dict(now)

    @torch.no_grad()
    def _average(self) -> None:
        """Move the average towards the weights; at first it follows them closely."""
        if "average" not in self.snapshots:
            return
        stays = min(self.config.ema_decay, self.state.step / (self.state.step + 10))
        for name, part in self.model.named_parameters():
            self.snapshots["average"][name].lerp_(part, 1 - stays)

    def report(self, epoch: int, steps: int) -> Progress:
        """How far the run is."""
        place = self.state
        return Progress(
            epoch=epoch,
            step=place.step,
            fraction=min(self.progress(steps), 1.0),
            seconds=place.seconds,
            loss=place.loss,
            validation=place.validation,
            best=place.best,
            lr=self.rate,
        )


def _copied(model: nn.Module) -> Weights:
    return {name: part.detach().clone() for name, part in model.state_dict().items()}


def predict(model: nn.Module, window: Window, shown: Tensor) -> Tensor:
    """A model's answer to what is shown of a window."""
    values = torch.where(shown, window.values, 0.0)
    return data_parallel(model, values, shown, window.context)


def training_loss(
    model: nn.Module,
    window: Window,
    config: TrainConfig,
    source: torch.Generator,
    task: Task = TO_FILL,
    others: Tensor | None = None,
) -> Tensor:
    """The loss of one batch: a part of what was measured is shown, a part is asked for."""
    if isinstance(model, TeacherForced):
        context = () if window.context is None else (window.context,)
        answer = model.forward_teacher_forced(window.values, window.observed, *context)
        return loss_of(config.loss, answer, window.truth, masks_for(window, task)[1])
    shown, asked = masks_for(window, task) if task.horizon else (window.observed, window.observed)
    hidden = torch.zeros_like(shown)
    if config.loss_on != "visible":
        hidden = mask_cells(
            window.observed,
            config.masking,
            config.max_mask_ratio,
            source,
            task.tied_variables,
            others,
        )
    if isinstance(model, CustomLoss):
        return model.loss(window.values, window.observed, shown & ~hidden)
    if config.loss_on != "visible":
        if window.context is not None and not task.horizon:  # as if there never was a sensor
            lost = drop_stations(window.observed, source)
            hidden = hidden | (lost.unflatten(1, (1, -1, 1)) & window.observed)
            window = replace(window, context=window.context.without_stations(lost))
        if task.horizon:  # gaps in what is looked back on are part of the lesson now and then
            now_and_then = torch.rand((len(hidden), 1, 1, 1), generator=source) < PAST_GAPS
            shown = shown & ~(hidden & now_and_then.to(hidden.device))
        else:
            shown, asked = window.observed & ~hidden, hidden
    answer = predict(model, window, shown)
    loss = loss_of(config.loss, answer, window.truth, asked)
    if config.loss_on == "both":
        loss = loss + loss_of(config.loss, answer, window.truth, shown) * VISIBLE_WEIGHT
    return loss


def masks_for(window: Window, task: Task) -> tuple[Tensor, Tensor]:
    """What a window of the exam shows and asks for: a forecaster, all that lies ahead."""
    if not task.horizon:
        return window.observed, window.target
    future = task.future(window.observed)
    return window.observed & ~future, window.observed & future


@torch.no_grad()
def predict_batches(
    model: nn.Module, validation: Windows, batch: int, task: Task = TO_FILL
) -> Iterator[tuple[Tensor, Window, Tensor]]:
    """The answer, the window and what was asked, batch by batch."""
    model.eval()
    for window in validation.batches(batch):
        shown, asked = masks_for(window, task)
        yield predict(model, window, shown), window, asked


def validation_error(
    model: nn.Module, validation: Windows, config: TrainConfig, task: Task = TO_FILL
) -> float:
    """The loss over all asked cells of the exam, as a ratio of sums."""
    cells = [
        (a[asked], w.truth[asked])
        for a, w, asked in predict_batches(model, validation, config.batch_size, task)
    ]
    answer, truth = (torch.cat(parts).cpu().double() for parts in zip(*cells, strict=True))
    return loss_of(config.loss, answer, truth, torch.ones_like(truth, dtype=torch.bool)).item()
