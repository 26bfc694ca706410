"""A run written down: one file that is replaced whole, so that a killed run can go on from it."""

import hashlib
import json
import math
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
    """Where a run is."""

    step: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    loss_count: int = 0
    """Of the losses since the last look at the validation cells."""

    last_loss: float | None = None
    """Mean loss up to that look."""

    validation: float | None = None
    best: float | None = None
    best_step: int = 0
    checks_without_gain: int = 0
    """Looks at the validation cells since the best one."""

    finished: bool = True
    """Whether the run came to its end; not if it was asked to stop."""

    @property
    def loss(self) -> float:
        """Mean loss since the last look, or up to it."""
        if self.loss_count:
            return self.loss_sum / self.loss_count
        return math.nan if self.last_loss is None else self.last_loss


class StateError(CdsaError):
    """A written-down run that cannot be gone on with."""


@dataclass(frozen=True)
class TrainingStore:
    """The file a run is written to, and what the run is about."""

    path: Path
    fingerprint: str
    """Of settings and data: another run is not gone on with."""

    settings: str = "{}"
    """Of the method that learns, as JSON."""

    every: float = 20.0
    """Seconds between two times that the run is written down."""

    def save(
        self,
        state: TrainState,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        snapshots: Mapping[str, Weights],
    ) -> None:
        """Write the run down; a reader sees the old file or the new one, nothing between."""
        tensors = {f"weights.{name}": part for name, part in model.state_dict().items()}
        for what, weights in snapshots.items():
            tensors |= {f"{what}.{name}": part for name, part in weights.items()}
        for name, parameter in model.named_parameters():
            for kind, part in optimiser.state.get(parameter, {}).items():
                tensors[f"adam.{kind}.{name}"] = part
        plain = {name: part.detach().cpu().contiguous() for name, part in tensors.items()}
        told = {
            "place": json.dumps(asdict(state)),
            "fingerprint": self.fingerprint,
            "settings": self.settings,
            "sha256": _digest(plain),
        }
        write_atomic(self.path, save(plain, metadata=told))

    def load(
        self, model: nn.Module, optimiser: torch.optim.Optimizer, snapshots: Mapping[str, Weights]
    ) -> TrainState | None:
        """Put a run back to where it was; None if nothing was written down."""
        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, framework="pt") as file:
                told = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            state = TrainState(**json.loads(told["place"]))
            known = told["fingerprint"]
            if told["sha256"] != _digest(tensors):
                raise ValueError("it was changed")
        except (SafetensorError, OSError, KeyError, ValueError, TypeError) as bad:
            raise StateError(
                f"{self.path} is not a training that can be gone on with ({bad}). Remove it to "
                "start anew"
            ) from bad
        if known != self.fingerprint:
            raise StateError(
                f"{self.path} is of a training with other settings or other data. Use the same as "
                "then, or start anew with --overwrite"
            )
        try:
            model.load_state_dict(_part(tensors, "weights."))
        except RuntimeError as bad:
            raise StateError(
                f"{self.path} is of a network of other sizes, made by another version of cdsa. "
                "Start anew with --overwrite"
            ) from bad
        for what, weights in snapshots.items():
            for name, part in _part(tensors, f"{what}.").items():
                weights[name].copy_(part)
        parameters = list(model.named_parameters())
        kinds = {name.split(".")[1] for name in tensors if name.startswith("adam.")}
        optimiser.load_state_dict(
            {
                "state": {
                    number: {kind: tensors[f"adam.{kind}.{name}"] for kind in kinds}
                    for number, (name, _) in enumerate(parameters)
                    if f"adam.step.{name}" in tensors
                },
                "param_groups": optimiser.state_dict()["param_groups"],
            }
        )
        return state


def settings_of(path: Path) -> dict[str, Any] | None:
    """The settings of the run that was written down there; None if there is none to be read."""
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


def _part(tensors: Weights, prefix: str) -> Weights:
    return {
        name.removeprefix(prefix): part for name, part in tensors.items() if name.startswith(prefix)
    }
