"""MTSI: a generator learns what windows look like; a gap is filled from the window it makes that
looks most like what was observed.

Luo, Cai, Zhang, Xu & Yuan, "Multivariate time series imputation with generative adversarial
networks", NeurIPS 2018. The units of generator and critic (GRUI) let their state decay the longer
nothing was seen. Both are trained against each other by the Wasserstein distance, the critic's
weights cut off; the generator first learns for a while alone, by a squared error. To fill, noise is
searched for each window from which the generator makes what was observed (a masked squared error)
and what the critic takes for true.

As there, a window that is made has no gaps for the generator's state to decay by, Adam forgets
gradients fast (0.5), and what is kept is a network whose critic has begun.

Different from the paper and its authors' code: the generator learns to make true windows from the
noise that a search finds for them, by the slope through its first, long step (Bond-Taylor &
Willcocks, "Gradient origin networks", ICLR 2021), from which a part of what was observed is hidden;
it goes on with that while it has a critic, whose opinion of windows from chance noise counts for
little (`trust`, there 1 for the generator and 0.15 in the search). There it learns to tell the
steps of a window one by one and then from its critic alone, by which in minutes no noise came to
make a window like those observed. The critic has one lesson for each of the generator, not eight,
and it is shown generated windows with the gaps of true ones, for the gaps alone would tell them
apart. Noise sets the first state and is read at every step, not at the first alone; units are
PyTorch's, whose reset gate lies behind the product with the state; neither batch norm nor dropout;
the critic alone is cut off, at 0.1, not all weights at 0.99. Both learn in batches of 32 windows,
not 128, by one rate, with gradients that are clipped, and the weights that did best on validation
cells are kept. The search takes one long step and 60 of 0.1, not 400 of 0.007, minimises the mean
over observed cells, not all, and starts from nothing, so that the guess for a window does not
depend on which others it is filled with; windows overlap by half. Series are stations times
measurements, flattened. To forecast, the steps ahead are filled like any gap; while it learns they
are hidden from the search, and the critic looks at what lies before.

Letters: b window of the batch, t time, s series, h hidden channels, z noise.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from cdsa.methods.engine.estimator import Neural
from cdsa.nn.interpolation import steps_since
from cdsa.nn.types import Sizes, refuse_below_one, refuse_negative
from cdsa.training.loop import TrainConfig


@dataclass(frozen=True, kw_only=True)
class MtsiConfig:
    """Widths of both networks, and how they are trained and searched."""

    uses_context: ClassVar[bool] = False
    inductive: ClassVar[bool] = False

    d_model: int = 96
    """Channels of the state."""

    d_noise: int = 128
    """Numbers that a window is made from."""

    pretrain_steps: int = 400
    """Lessons of the generator before it has a critic."""

    critic_steps: int = 1
    """Lessons of the critic for each of the generator."""

    weight_clip: float = 0.1
    """The critic's largest weight."""

    first_step: float = 100.0
    """Length of the first step of the search for the noise of a window, beside its slope."""

    search_steps: int = 60
    """Steps of the search after the first."""

    search_lr: float = 0.1
    """Length of these steps, as Adam takes them."""

    critic_weight: float = 0.002
    """Weight of the critic's opinion, for the generator and in the search."""

    def __post_init__(self) -> None:
        refuse_below_one(self, "d_model", "d_noise", "critic_steps", "search_steps")
        refuse_negative(
            self, "pretrain_steps", "weight_clip", "first_step", "search_lr", "critic_weight"
        )

    def build(self, sizes: Sizes, horizon: int, n_calendar_features: int) -> nn.Module:
        """The network for windows of these sizes."""
        return AdversarialNetwork(self, sizes)


class DecayingUnit(nn.Module):
    """Gated recurrent units whose state decays with the steps since anything was seen (GRUI); they
    read the series, and so many numbers more."""

    def __init__(self, series: int, hidden: int, more: int = 0) -> None:
        super().__init__()
        self.cell = nn.GRUCell(series + more, hidden)
        self.decay = nn.Linear(series, hidden)

    def stays(self, since: Tensor) -> Tensor:
        """How much of the state stays after so many steps without a sight, (..., s) -> (..., h)."""
        return torch.exp(-torch.relu(self.decay(since)))

    def forward(self, x: Tensor, stays: Tensor, h: Tensor) -> Tensor:
        told: Tensor = self.cell(x, h * stays)
        return told


class Generator(nn.Module):
    """Noise (b, z) -> a whole window (b, t, s) of so many `steps`, each from the one before."""

    def __init__(self, config: MtsiConfig, series: int) -> None:
        super().__init__()
        self.first = nn.Linear(config.d_noise, series)
        self.state = nn.Linear(config.d_noise, config.d_model)
        self.unit = DecayingUnit(series, config.d_model, more=config.d_noise)
        self.tell = nn.Linear(config.d_model, series)

    def forward(self, noise: Tensor, steps: int) -> Tensor:
        x, h, told = self.first(noise), self.state(noise).tanh(), []
        everywhere = x.new_ones(1, steps, x.shape[1])
        for stays in self.unit.stays(steps_since(everywhere)).unbind(1):
            h = self.unit(torch.cat([x, noise], dim=-1), stays, h)
            x = self.tell(h)
            told.append(x)
        return torch.stack(told, dim=1)


class Critic(nn.Module):
    """How true a window looks, (b,), from its values and which of them were seen, (b, t, s)."""

    def __init__(self, series: int, hidden: int) -> None:
        super().__init__()
        self.unit = DecayingUnit(series, hidden)
        self.tell = nn.Linear(hidden, 1, bias=False)  # what is compared has no use for a constant

    def forward(self, values: Tensor, seen: Tensor) -> Tensor:
        stays = self.unit.stays(steps_since(seen))
        h = values.new_zeros(len(values), self.unit.cell.hidden_size)
        for x, stay in zip((values * seen).unbind(1), stays.unbind(1), strict=True):
            h = self.unit(x, stay, h)
        told: Tensor = self.tell(h).flatten()
        return told


class AdversarialNetwork(nn.Module):
    """Generator and critic: `forward(values, observed) -> (b, t, l, m)` searches the noise."""

    def __init__(self, config: MtsiConfig, sizes: Sizes) -> None:
        super().__init__()
        series = sizes.locations * sizes.measurements
        self.config = config
        self.generator = Generator(config, series)
        self.critic = Critic(series, config.d_model)
        self.clip_critic()
        self.dice = int(torch.randint(2**31, ()))
        """By the seed that the first weights are from; so a run that goes on casts the same."""
        self.lessons: Tensor
        self.register_buffer("lessons", torch.zeros((), dtype=torch.long))

    def forward(self, values: Tensor, observed: Tensor) -> Tensor:
        x, seen = values.flatten(2), observed.flatten(2).to(values.dtype)
        steps = x.shape[1]
        with torch.enable_grad():
            noise = self.found(x, seen).detach().requires_grad_()
            optimiser = torch.optim.Adam([noise], lr=self.config.search_lr)
            for _ in range(self.config.search_steps):
                made = self.generator(noise, steps)
                opinion = self.critic(made, seen).sum()
                loss = _off(made, x, seen).sum() - self.config.critic_weight * opinion
                optimiser.zero_grad()
                loss.backward(inputs=[noise])
                optimiser.step()
        with torch.no_grad():
            return cast(Tensor, self.generator(noise, steps)).view_as(values)

    def found(self, x: Tensor, seen: Tensor) -> Tensor:
        """Where the first step of the search comes to, (b, z): from nothing, along the slope of the
        error on what is seen. The generator can learn from it."""
        noise = x.new_zeros(len(x), self.config.d_noise).requires_grad_()
        off = _off(self.generator(noise, x.shape[1]), x, seen)
        (slope,) = torch.autograd.grad(off.sum(), [noise], create_graph=self.training)
        return noise - self.config.first_step * slope

    def loss(self, values: Tensor, observed: Tensor, shown: Tensor) -> Tensor:
        """What it learns by: see `OwnLesson`. Of the two networks, one learns at a time; what is
        not shown, neither the search nor the critic sees."""
        x, steps = values.flatten(2), values.shape[1]
        seen, there = (part.flatten(2).to(values.dtype) for part in (observed, shown))
        dice = torch.Generator().manual_seed(self.dice + int(self.lessons))
        chance = torch.randn(len(x), self.config.d_noise, generator=dice).to(values)
        judged = int(self.lessons) - self.config.pretrain_steps
        self.lessons += 1
        if judged >= 0 and judged % (self.config.critic_steps + 1) < self.config.critic_steps:
            with torch.no_grad():
                made = self.generator(chance, steps)
            false, true = self.critic(torch.cat([made, x]), torch.cat([there, there])).chunk(2)
            return cast(Tensor, false.mean() - true.mean())
        made = self.generator(self.found(x, there), steps)
        loss: Tensor = (((made - x) ** 2) * seen).sum() / seen.sum().clamp(min=1)
        if judged >= 0:
            self.critic.requires_grad_(False)
            opinion = self.critic(self.generator(chance, steps), there).mean()
            loss = loss - self.config.critic_weight * opinion
            self.critic.requires_grad_(True)
        return loss

    @property
    def critic_active(self) -> bool:
        """Whether the critic has begun: see `Adversarial`."""
        return int(self.lessons) > self.config.pretrain_steps

    @torch.no_grad()
    def clip_critic(self) -> None:
        """Cut off the critic's weights."""
        for part in self.critic.parameters():
            part.clamp_(-self.config.weight_clip, self.config.weight_clip)


def _off(made: Tensor, x: Tensor, seen: Tensor) -> Tensor:
    """The mean squared error on what is seen of each window, (b,)."""
    squares = ((made - x) ** 2) * seen
    return squares.sum(dim=(1, 2)) / seen.sum(dim=(1, 2)).clamp(min=1)


def training() -> TrainConfig:
    """How it is trained; looks at the validation cells search noise, which takes long."""
    return TrainConfig(
        minutes=5,
        batch_size=32,
        lr=2e-3,
        beta1=0.5,
        schedule="constant",
        loss_on="hidden",
        max_mask_ratio=0.4,
        validate_every=300,
    )


@dataclass(frozen=True, kw_only=True)
class Mtsi(Neural):
    """A generator of windows, and the noise that makes what was observed."""

    name: ClassVar[str] = "mtsi"

    model: MtsiConfig = MtsiConfig()
    train: TrainConfig = field(default_factory=training)


Mtsi.PRESETS = {
    "small": Mtsi(
        model=MtsiConfig(d_model=8, d_noise=8, pretrain_steps=5, critic_steps=2, search_steps=5),
        train=replace(training(), minutes=None, epochs=2, batch_size=4, validate_every=5),
        window=12,
        stride=6,
    ),
}
