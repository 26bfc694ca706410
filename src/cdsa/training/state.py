"""The state of a training run: one file, replaced atomically, from which a killed run resumes."""

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from cdsa.core.atomic import write_atomic
from cdsa.errors import CdsaError

Weights = dict[str, Tensor]


@dataclass
class TrainState:
    """Progress of a run, and all that resuming takes besides the weights."""

    step: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    loss_count: int = 0
    """Losses since the last validation."""

    last_loss: float | None = None
    """Mean loss up to the last validation."""

    validation: float | None = None
    best: float | None = None
    best_step: int = 0
    checks_without_gain: int = 0
    finished: bool = True
    """Whether the run reached its end; False if it was stopped."""

    @property
    def loss(self) -> float:
        """Mean loss since the last validation, or up to it."""
        if self.loss_count:
            return self.loss_sum / self.loss_count
        return math.nan if self.last_loss is None else self.last_loss


class StateError(CdsaError):
    """A saved run that cannot be resumed."""


@dataclass(frozen=True)
class TrainingStore:
    path: Path
    fingerprint: str
    """Hash of settings and data: a run with another one is not resumed."""

    settings: str = "{}"
    every: float = 20.0
    """Seconds between two saves."""

    def save(
        self,
        state: TrainState,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        snapshots: Mapping[str, Weights],
    ) -> None:
        """Save the run; a reader sees the old file or the new one, nothing in between."""
        tensors = {f"weights.{name}": tensor for name, tensor in model.state_dict().items()}
        for kind, weights in snapshots.items():
            tensors |= {f"{kind}.{name}": tensor for name, tensor in weights.items()}
        for name, parameter in model.named_parameters():
            for moment, tensor in optimiser.state.get(parameter, {}).items():
                tensors[f"moment.{moment}.{name}"] = tensor
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        metadata = {
            "state": json.dumps(asdict(state)),
            "fingerprint": self.fingerprint,
            "settings": self.settings,
            "sha256": _digest(tensors),
        }
        write_atomic(self.path, save(tensors, metadata=metadata))

    def load(
        self, model: nn.Module, optimiser: torch.optim.Optimizer, snapshots: Mapping[str, Weights]
    ) -> TrainState | None:
        """Restore a run; None if none is saved."""
        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            state = TrainState(**json.loads(metadata["state"]))
            fingerprint = metadata["fingerprint"]
            if metadata["sha256"] != _digest(tensors):
                raise ValueError("it was changed")
        except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
            raise StateError(
                f"{self.path} is not a training run that can be resumed ({error}). Remove it to "
                "start over"
            ) from error
        if fingerprint != self.fingerprint:
            raise StateError(
                f"{self.path} is a training run with other settings or other data. Use the same "
                "ones to resume it, or start over with --overwrite"
            )
        try:
            model.load_state_dict(_select(tensors, "weights."))
        except RuntimeError as error:
            raise StateError(
                f"{self.path} is of a network of other sizes, made by another version of cdsa. "
                "Start over with --overwrite"
            ) from error
        for kind, weights in snapshots.items():
            for name, tensor in _select(tensors, f"{kind}.").items():
                weights[name].copy_(tensor)
        moments_by_name: dict[str, Weights] = defaultdict(dict)
        for key, tensor in _select(tensors, "moment.").items():
            moment, _, name = key.partition(".")
            moments_by_name[name][moment] = tensor
        moments_by_number = {
            number: moments_by_name[name]
            for number, (name, _) in enumerate(model.named_parameters())
            if name in moments_by_name
        }
        optimiser.load_state_dict(optimiser.state_dict() | {"state": moments_by_number})
        return state


def saved_settings(path: Path) -> dict[str, Any] | None:
    """The settings of a saved run; None if none can be read."""
    try:
        with safe_open(path, framework="pt") as file:
            settings: dict[str, Any] = json.loads((file.metadata() or {})["settings"])
            return settings
    except (SafetensorError, OSError, KeyError, ValueError):
        return None


def _digest(tensors: Weights) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].numpy().tobytes())
    return digest.hexdigest()


def _select(tensors: Weights, prefix: str) -> Weights:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
