"""A trained network on disk: a folder with `weights.safetensors` and `model.json`.

`model.json` has all that is needed to use the weights, with checksums of the weights and of itself.
It is written last: a folder without it holds no network. Nothing in it is ever executed.
"""

import errno
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

FORMAT = 12
WEIGHTS, DOCUMENT, TRAINING = "weights.safetensors", "model.json", "training.safetensors"


MAX_WEIGHTS, MAX_DOCUMENT = 2**32, 2**28
"""Bytes of the files."""


class CheckpointError(CdsaError):
    """A folder that holds no usable network."""


def save_checkpoint(
    folder: Path, tensors: Mapping[str, Tensor], document: Mapping[str, Any]
) -> None:
    """Write a network; a reader finds the old one, none, or the new one, nothing in between."""
    (folder / DOCUMENT).unlink(missing_ok=True)
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    write_atomic(folder / WEIGHTS, content)
    checksum = hashlib.sha256(content).hexdigest()
    signed = {"format": FORMAT, **document, "weights_sha256": checksum}
    signed["sha256"] = _digest(signed)
    write_atomic(folder / DOCUMENT, json.dumps(signed, indent=1).encode() + b"\n")


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights and the document of a network; truncated or changed files are refused."""
    document = read_document(folder)
    path = folder / WEIGHTS
    try:
        content = _read(path, MAX_WEIGHTS)
    except OSError as error:
        raise CheckpointError(
            f"{path} could not be read: {error.strerror or error}. Train again"
        ) from error
    if hashlib.sha256(content).hexdigest() != document.get("weights_sha256"):
        raise _damaged(path)
    try:
        return load(content), document
    except SafetensorError as error:
        raise _damaged(path) from error


def _read(path: Path, limit: int) -> bytes:
    """The content of a file of at most so many bytes; a device or a pipe may never end."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a file")
    if path.stat().st_size > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes")
    return path.read_bytes()


def read_document(folder: Path) -> dict[str, Any]:
    """The content of `model.json`, if it is complete and unchanged."""
    path = folder / DOCUMENT
    if not folder.is_dir():
        raise CheckpointError(f"there is no folder {folder} with a trained network")
    if not path.exists():
        if (folder / TRAINING).exists():
            raise CheckpointError(
                f"the training in {folder} is not finished. Run the same 'cdsa train' command "
                "again to resume it"
            )
        raise CheckpointError(f"{folder} holds no trained network: it has no {DOCUMENT}")
    try:
        document = json.loads(_read(path, MAX_DOCUMENT))
        digest = document.pop("sha256")
        intact = digest == _digest(document)
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise _damaged(path) from error
    if not intact:
        raise _damaged(path)
    if document.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has format {document.get('format')}, but this version of cdsa reads format "
            f"{FORMAT}. Train again, or use the version of cdsa named in it"
        )
    return dict(document)


def _damaged(path: Path) -> CheckpointError:
    return CheckpointError(
        f"{path} was truncated or changed since it was saved. Copy the folder again, or train again"
    )


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
