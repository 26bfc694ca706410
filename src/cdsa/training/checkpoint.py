"""A trained network on disk: a folder with `weights.safetensors` and `model.json`.

`model.json` says all that is needed to use the weights, has the checksum of the weights and of
itself, and is written last: without it a folder holds no network. Nothing in it is ever executed.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from cdsa.core.atomic import write_atomic
from cdsa.errors import CdsaError

FORMAT = 7


WEIGHTS, DOCUMENT, TRAINING = "weights.safetensors", "model.json", "training.safetensors"


class CheckpointError(CdsaError):
    """A folder that holds no usable network."""


def save_checkpoint(
    folder: Path, tensors: Mapping[str, Tensor], document: Mapping[str, Any]
) -> None:
    """Write a network; a reader finds the old one, none, or the new one, nothing between."""
    (folder / DOCUMENT).unlink(missing_ok=True)
    content = save({name: part.detach().cpu().contiguous() for name, part in tensors.items()})
    write_atomic(folder / WEIGHTS, content)
    told = {"format": FORMAT, **document, "weights_sha256": hashlib.sha256(content).hexdigest()}
    told["sha256"] = _digest(told)
    write_atomic(folder / DOCUMENT, json.dumps(told, indent=1).encode() + b"\n")


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights and the document of a network; whatever was cut or changed is refused."""
    document = read_document(folder)
    try:
        content = (folder / WEIGHTS).read_bytes()
    except OSError as bad:
        raise CheckpointError(
            f"{folder / WEIGHTS} could not be read: {bad.strerror or bad}. Train anew"
        ) from bad
    if hashlib.sha256(content).hexdigest() != document.get("weights_sha256"):
        raise CheckpointError(
            f"{folder / WEIGHTS} is not what was saved: it was cut short or changed. Copy the "
            "folder again, or train anew"
        )
    try:
        return load(content), document
    except (SafetensorError, ValueError) as bad:
        raise CheckpointError(f"{folder / WEIGHTS} cannot be read as safetensors: {bad}") from bad


def read_document(folder: Path) -> dict[str, Any]:
    """What `model.json` says, if it is whole and as it was saved."""
    path = folder / DOCUMENT
    if not folder.is_dir():
        raise CheckpointError(f"there is no folder {folder} with a trained network")
    if not path.exists():
        if (folder / TRAINING).exists():
            raise CheckpointError(
                f"the training in {folder} is not finished. Give the same 'cdsa train' command "
                "again to go on with it"
            )
        raise CheckpointError(f"{folder} holds no trained network: it has no {DOCUMENT}")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        digest = document.pop("sha256")
        intact = digest == _digest(document)
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as bad:
        raise CheckpointError(
            f"{path} cannot be read: it was cut short or changed. Copy the folder again, or train "
            "anew"
        ) from bad
    if not intact:
        raise CheckpointError(
            f"{path} is not what was saved: it was changed. Copy the folder again, or train anew"
        )
    if document.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has format {document.get('format')}, but this version of cdsa reads format "
            f"{FORMAT}. Train anew, or use the version that it says"
        )
    return dict(document)


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
