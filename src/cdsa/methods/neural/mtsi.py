"""MTSI: a generative adversarial network (GAN) that makes windows like the data's; a gap is filled
from the generated window that fits the observations best.

Letters: b window of the batch, t time, s series, h hidden channels, z noise.
"""

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from cdsa.methods.engine.estimator import Neural
from cdsa.nn.interpolation import steps_since_observed
from cdsa.nn.types import Network, NetworkConfig, Sizes
from cdsa.training.loop import TrainConfig
from cdsa.training.optimiser import Adam


@dataclass(frozen=True, kw_only=True)
class MtsiConfig(NetworkConfig):
    """Sizes of both networks, and how they are trained and searched."""

    MAY_BE_ZERO: ClassVar[tuple[str, ...]] = ("pretrain_steps",)

    d_model: int = 96
    """Hidden channels."""

    d_noise: int = 128
    """Length of the noise vector that a window is generated from."""

    pretrain_steps: int = 400
    """Training steps of the generator before the critic starts."""

    critic_steps: int = 1
    """Training steps of the critic for each of the generator."""

    weight_clip: float = 0.1
    """Largest absolute weight of the critic."""

    first_step: float = 100.0
    """Step size, relative to the gradient, of the first step of the search for a window's noise."""

    search_steps: int = 60
    """Steps of the search after the first."""

    search_lr: float = 0.1
    """Learning rate of Adam in these steps."""

    critic_weight: float = 0.002
    """Weight of the critic's score, in the generator's loss and in the search."""

    def build(self, sizes: Sizes, horizon: int, n_calendar_features: int) -> Network:
        return AdversarialNetwork(self, sizes)


class DecayingCell(nn.Module):
    """A gated recurrent unit whose state decays with the steps since the last observation (GRUI);
    its inputs are the series and `n_extra` more."""

    def __init__(self, n_series: int, hidden: int, n_extra: int = 0) -> None:
        super().__init__()
        self.gru = nn.GRUCell(n_series + n_extra, hidden)
        self.decay = nn.Linear(n_series, hidden)

    def decay_factor(self, since: Tensor) -> Tensor:
        """Factor on the state after these steps without observation, (..., s) -> (..., h)."""
        return torch.exp(-torch.relu(self.decay(since)))

    def forward(self, x: Tensor, decay: Tensor, h: Tensor) -> Tensor:
        return cast(Tensor, self.gru(x, h * decay))


class Generator(nn.Module):
    """Noise (b, z) -> a window (b, t, s) of `n_steps`, each step from the one before."""

    def __init__(self, config: MtsiConfig, n_series: int) -> None:
        super().__init__()
        self.initial_value = nn.Linear(config.d_noise, n_series)
        self.initial_state = nn.Linear(config.d_noise, config.d_model)
        self.cell = DecayingCell(n_series, config.d_model, n_extra=config.d_noise)
        self.head = nn.Linear(config.d_model, n_series)

    def forward(self, noise: Tensor, n_steps: int) -> Tensor:
        x, h, window = self.initial_value(noise), self.initial_state(noise).tanh(), []
        complete = x.new_ones(1, n_steps, x.shape[1])
        for decay in self.cell.decay_factor(steps_since_observed(complete)).unbind(1):
            h = self.cell(torch.cat([x, noise], dim=-1), decay, h)
            x = self.head(h)
            window.append(x)
        return torch.stack(window, dim=1)


class Critic(nn.Module):
    """The score of a window, (b,), from its values and the mask of observed ones, (b, t, s)."""

    def __init__(self, n_series: int, hidden: int) -> None:
        super().__init__()
        self.cell = DecayingCell(n_series, hidden)
        self.head = nn.Linear(hidden, 1, bias=False)  # a constant cancels in differences of scores

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        decays = self.cell.decay_factor(steps_since_observed(mask))
        h = values.new_zeros(len(values), self.cell.gru.hidden_size)
        for x, decay in zip((values * mask).unbind(1), decays.unbind(1), strict=True):
            h = self.cell(x, decay, h)
        return cast(Tensor, self.head(h).flatten())


class AdversarialNetwork(Network):
    """Generator and critic: `forward(values, observed) -> prediction`, (b, t, l, m), by a search
    for the noise."""

    custom_loss = True
    adversarial = True

    def __init__(self, config: MtsiConfig, sizes: Sizes) -> None:
        super().__init__()
        n_series = sizes.locations * sizes.measurements
        self.config = config
        self.generator = Generator(config, n_series)
        self.critic = Critic(n_series, config.d_model)
        self.clip_critic()
        self.noise_seed = int(torch.randint(2**31, ()))
        """Follows from the seed of the initial weights, so that a resumed run draws the same."""
        self.n_updates: Tensor
        self.register_buffer("n_updates", torch.zeros((), dtype=torch.long))

    def forward(self, values: Tensor, observed: Tensor, context: object = None) -> Tensor:
        x, mask = values.flatten(2), observed.flatten(2).to(values.dtype)
        n_steps = x.shape[1]
        with torch.enable_grad():
            noise = self.first_noise(x, mask).detach().requires_grad_()
            optimiser = Adam([noise], lr=self.config.search_lr)
            for _ in range(self.config.search_steps):
                window = self.generator(noise, n_steps)
                score = self.critic(window, mask).sum()
                loss = _masked_mse(window, x, mask).sum() - self.config.critic_weight * score
                optimiser.zero_grad()
                loss.backward(inputs=[noise])
                optimiser.step()
        with torch.no_grad():
            return cast(Tensor, self.generator(noise, n_steps)).view_as(values)

    def first_noise(self, x: Tensor, mask: Tensor) -> Tensor:
        """The noise after the first step of the search, (b, z): from zero, along the gradient of
        the error on the mask. In training it is differentiable."""
        noise = x.new_zeros(len(x), self.config.d_noise).requires_grad_()
        error = _masked_mse(self.generator(noise, x.shape[1]), x, mask)
        (gradient,) = torch.autograd.grad(error.sum(), [noise], create_graph=self.training)
        return noise - self.config.first_step * gradient

    def loss(self, values: Tensor, observed: Tensor, visible: Tensor) -> Tensor:
        """The loss of one of the two networks at a time. The search and the critic see only visible
        cells."""
        x, n_steps = values.flatten(2), values.shape[1]
        target, mask = (tensor.flatten(2).to(values.dtype) for tensor in (observed, visible))
        rng = torch.Generator().manual_seed(self.noise_seed + int(self.n_updates))
        noise = torch.randn(len(x), self.config.d_noise, generator=rng).to(values)
        update = int(self.n_updates) - self.config.pretrain_steps
        self.n_updates += 1
        if update >= 0 and update % (self.config.critic_steps + 1) < self.config.critic_steps:
            with torch.no_grad():
                generated = self.generator(noise, n_steps)
            scores = self.critic(torch.cat([generated, x]), torch.cat([mask, mask]))
            of_generated, of_real = scores.chunk(2)
            return cast(Tensor, of_generated.mean() - of_real.mean())
        window = self.generator(self.first_noise(x, mask), n_steps)
        loss: Tensor = (((window - x) ** 2) * target).sum() / target.sum().clamp(min=1)
        if update >= 0:
            self.critic.requires_grad_(False)
            score = self.critic(self.generator(noise, n_steps), mask).mean()
            loss = loss - self.config.critic_weight * score
            self.critic.requires_grad_(True)
        return loss

    @property
    def critic_active(self) -> bool:
        return int(self.n_updates) > self.config.pretrain_steps

    @torch.no_grad()
    def clip_critic(self) -> None:
        for weight in self.critic.parameters():
            weight.clamp_(-self.config.weight_clip, self.config.weight_clip)


def _masked_mse(window: Tensor, x: Tensor, mask: Tensor) -> Tensor:
    """The mean squared error on the mask of each window, (b,)."""
    squares = ((window - x) ** 2) * mask
    return squares.sum(dim=(1, 2)) / mask.sum(dim=(1, 2)).clamp(min=1)


TRAINING = TrainConfig(
    minutes=5,
    batch_size=32,
    lr=2e-3,
    beta1=0.5,
    schedule="constant",
    max_mask_ratio=0.4,
    validate_every=300,  # each validation searches for noise, which takes long
)


@dataclass(frozen=True, kw_only=True)
class Mtsi(Neural):
    """Multivariate time series imputation with generative adversarial networks (MTSI).

    The recurrent units of generator and critic (GRUI) let their state decay with the time since the
    last observation. The two are trained against each other by the Wasserstein distance, with
    clipped weights of the critic, after the generator was pretrained alone by a squared error. To
    fill a window, its noise is searched: the generated window should match the observations (masked
    squared error) and score well with the critic. As in the paper, a generated window has no gaps
    for the generator's state to decay by, the first moment of Adam decays fast (0.5), and only
    networks whose critic has started are kept.

    Notes
    -----
    Deviations from the paper and its authors' code:

    The generator learns to reproduce real windows from the noise that the first, long step of the
    search finds for them, with gradients through that step [2] and a part of the observations
    hidden from it. It continues to do so once the critic has started, whose score of windows from
    random noise has little weight (`critic_weight`; in the paper 1 for the generator and 0.15 in
    the search). In the paper the generator is pretrained to predict the steps of a window one by
    one and then learns from its critic alone; within minutes, no noise came to generate a window
    like those observed.

    The critic has one training step for each of the generator, not eight. It sees generated windows
    with the gaps of real ones, since the gaps alone would tell them apart.

    Noise sets the first state and is an input of every step, not of the first alone. Recurrent
    units are PyTorch's, whose reset gate follows the product with the state. There is neither batch
    norm nor dropout. Only the critic is clipped, at 0.1, instead of all weights at 0.99. Batches
    have 32 windows, not 128; both networks have one learning rate and clipped gradients, and the
    weights that are best on validation cells are kept.

    The search takes one long step and 60 of 0.1, not 400 of 0.007, minimises the mean over observed
    cells, not over all, and starts from zero, so that a window's prediction does not depend on the
    others in its batch; windows overlap by half. Series are stations times measurements. To
    forecast, the horizon is filled like any gap; in training it is hidden from the search, and the
    critic looks at what lies before it.

    References
    ----------
    [1] Luo, Y., Cai, X., Zhang, Y., Xu, J., & Yuan, X. (2018). Multivariate time series imputation
    with generative adversarial networks. NeurIPS.

    [2] Bond-Taylor, S., & Willcocks, C. G. (2021). Gradient origin networks. ICLR.
    """

    name: ClassVar[str] = "mtsi"

    model: MtsiConfig = MtsiConfig()
    train: TrainConfig = TRAINING


SMALL = MtsiConfig(d_model=8, d_noise=8, pretrain_steps=5, critic_steps=2, search_steps=5)
Mtsi.PRESETS = {"small": Mtsi(model=SMALL, train=TRAINING.few_steps(), window=12, stride=6)}
