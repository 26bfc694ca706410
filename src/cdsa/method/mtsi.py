"""MTSI: a generator learns what windows look like; a gap is filled from the window it makes that
looks most like what was observed.

Luo, Cai, Zhang, Xu & Yuan, "Multivariate time series imputation with generative adversarial
networks", NeurIPS 2018. The units of generator and critic (GRUI) let their state decay the longer
nothing was seen. Both are trained against each other by the Wasserstein distance, the critic's
weights cut off; the generator first learns for a while to follow true windows, step by step. To
fill, noise is searched for each window from which the generator makes what was observed (a masked
squared error) and what the critic takes for true.

As there, the generator's state decays by the gaps of the window it is to make, Adam forgets
gradients fast (0.5), and what is kept is a network whose critic has begun.

Different from the paper and its authors' code: the generator goes on following true windows while
it has a critic, whose opinion counts for little (`trust`, there 1 for the generator and 0.15 in the
search), for in minutes it else makes none that are alike, though so it learns little of its noise;
noise sets its first state beside its first input; neither batch norm nor dropout; the critic is cut
off at 0.1, not 0.99; the search takes 60 long steps, not 400 short ones. Generated windows are
shown to the critic with the gaps of true ones, for the gaps alone would tell them apart; every
window starts the search from the same noise, so that its guess does not depend on which others it
is filled with. Series are stations times measurements, flattened. To forecast, the steps ahead are
filled like any gap; while it learns, the generator goes through them without following.

Letters: b window of the batch, t time, s series, h hidden channels, z noise.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from cdsa.errors import ConfigError
from cdsa.method.neural import Neural
from cdsa.models.axes import Sizes, refuse_below_one
from cdsa.models.recurrence import steps_since
from cdsa.train.loop import TrainConfig

NOISE, LESSON = 5, 733
"""What the dice of the search, and of lessons, are cast from."""


@dataclass(frozen=True, kw_only=True)
class MtsiConfig:
    """Widths of both networks, and how they are trained and searched."""

    situated: ClassVar[bool] = False
    fits_any: ClassVar[bool] = False

    hidden: int = 96
    """Channels of the state."""

    noise: int = 128
    """Numbers that a window is made from."""

    following: int = 400
    """Lessons in which the generator learns to follow true windows, before it has a critic."""

    critics: int = 5
    """Lessons of the critic for each of the generator."""

    cut: float = 0.1
    """The critic's largest weight."""

    search: int = 60
    """Steps of the search for the noise of a window."""

    search_rate: float = 0.1
    trust: float = 0.02
    """Weight of the critic's opinion, for the generator and in the search."""

    def __post_init__(self) -> None:
        refuse_below_one(self, "hidden", "noise", "critics", "search")
        for name in ("following", "cut", "search_rate", "trust"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative, but found {getattr(self, name):g}")

    def build(self, sizes: Sizes, horizon: int, clocks: int) -> nn.Module:
        """The network for windows of these sizes."""
        return AdversarialNetwork(self, sizes)


class DecayingUnit(nn.Module):
    """Gated recurrent units whose state decays with the steps since anything was seen (GRUI)."""

    def __init__(self, series: int, hidden: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(series, hidden)
        self.decay = nn.Linear(series, hidden)

    def stays(self, since: Tensor) -> Tensor:
        """How much of the state stays after so many steps without a sight, (..., s) -> (..., h)."""
        return torch.exp(-torch.relu(self.decay(since)))

    def forward(self, x: Tensor, stays: Tensor, h: Tensor) -> Tensor:
        told: Tensor = self.cell(x, h * stays)
        return told


class Generator(nn.Module):
    """Noise (b, z) -> a whole window (b, t, s), each step from the one before; its state decays by
    the steps `since` each series was seen in the window that is to be made, (b, t, s)."""

    def __init__(self, config: MtsiConfig, series: int) -> None:
        super().__init__()
        self.first = nn.Linear(config.noise, series)
        self.state = nn.Linear(config.noise, config.hidden)
        self.unit = DecayingUnit(series, config.hidden)
        self.tell = nn.Linear(config.hidden, series)

    def forward(self, noise: Tensor, since: Tensor) -> Tensor:
        return self.follow(noise, since, torch.zeros_like(since), torch.zeros_like(since).bool())

    def follow(self, noise: Tensor, since: Tensor, values: Tensor, shown: Tensor) -> Tensor:
        """The same with every step made from the true one before, where that is shown."""
        x, h, told = self.first(noise), self.state(noise).tanh(), []
        stays = self.unit.stays(since)  # (b, t, h)
        for t in range(values.shape[1]):
            h = self.unit(x, stays[:, t], h)
            x = self.tell(h)
            told.append(x)
            x = torch.where(shown[:, t], values[:, t], x)
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
        self.critic = Critic(series, config.hidden)
        self.bound()
        self.lessons: Tensor
        self.register_buffer("lessons", torch.zeros((), dtype=torch.long))

    def forward(self, values: Tensor, observed: Tensor) -> Tensor:
        x, seen = values.flatten(2), observed.flatten(2).to(values.dtype)
        noise = self._noise(1, NOISE).to(values).repeat(len(values), 1).requires_grad_()
        optimiser = torch.optim.Adam([noise], lr=self.config.search_rate)
        count = seen.sum(dim=(1, 2)).clamp(min=1)
        everywhere, since = torch.ones_like(seen[:1]), steps_since(seen)
        with torch.enable_grad():
            for _ in range(self.config.search):
                made = self.generator(noise, since)
                off = (((made - x) ** 2) * seen).sum(dim=(1, 2)) / count
                loss = off.sum() - self.config.trust * self.critic(made, everywhere).sum()
                optimiser.zero_grad()
                loss.backward(inputs=[noise])
                optimiser.step()
        with torch.no_grad():
            return cast(Tensor, self.generator(noise, since)).view_as(values)

    def lesson(self, values: Tensor, observed: Tensor, shown: Tensor) -> Tensor:
        """What it learns by: see `OwnLesson`. Of the two networks, one learns at a time; what is
        not shown, the generator goes through without following."""
        x, seen = values.flatten(2), observed.flatten(2).to(values.dtype)
        number = int(self.lessons)
        self.lessons += 1
        noise = self._noise(len(x), LESSON + number).to(values)
        since = steps_since(shown.flatten(2).to(values.dtype))
        alone = self.config.following - number
        if alone <= 0 and -alone % (self.config.critics + 1) < self.config.critics:
            with torch.no_grad():
                made = self.generator(noise, since)
            false, true = self.critic(torch.cat([made, x]), torch.cat([seen, seen])).chunk(2)
            return cast(Tensor, false.mean() - true.mean())
        off = (self.generator.follow(noise, since, x, shown.flatten(2)) - x) ** 2
        loss = (off * seen).sum() / seen.sum().clamp(min=1)
        if alone <= 0:
            self.critic.requires_grad_(False)
            made = self.generator(noise, since)
            loss = loss - self.config.trust * self.critic(made, seen).mean()
            self.critic.requires_grad_(True)
        return loss

    def _noise(self, windows: int, seed: int) -> Tensor:
        dice = torch.Generator().manual_seed(seed)
        return torch.randn(windows, self.config.noise, generator=dice)

    @property
    def judged(self) -> bool:
        """Whether the critic has begun: see `Adversarial`."""
        return int(self.lessons) > self.config.following

    @torch.no_grad()
    def bound(self) -> None:
        """Cut off the critic's weights."""
        for part in self.critic.parameters():
            part.clamp_(-self.config.cut, self.config.cut)


def training() -> TrainConfig:
    """How it is trained; looks at the validation cells search noise, which takes long."""
    return TrainConfig(
        minutes=5,
        batch=32,
        rate=1e-3,
        first_moment=0.5,
        schedule="constant",
        learn_from="visible",
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
        model=MtsiConfig(hidden=8, noise=8, following=5, critics=2, search=5),
        train=replace(training(), minutes=None, epochs=2, batch=4, validate_every=5),
        steps=12,
        stride=6,
    ),
}
