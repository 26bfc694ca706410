"""Folders of models that were changed: they are refused in a sentence, or fill as before."""

import functools
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np

import cdsa
from conftest import network
from hammer.tables import WrongError

LONGEST = 600
"""Characters of a message."""


@functools.cache
def saved() -> tuple[Path, np.ndarray]:
    """A small model, and how it fills."""
    cube = network(steps=60, stations=3, measurements=1, missing=0.2)
    model = cdsa.train(cube, cdsa.Cdsa().with_preset("small"))
    folder = Path(tempfile.mkdtemp(prefix="hammer-")) / "model"
    cdsa.save_model(model, folder)
    return folder, cdsa.fill(cube, cdsa.load_model(folder), check=False)["value"].to_numpy()


def _damage_bytes(path: Path, rng: np.random.Generator) -> None:
    data = bytearray(path.read_bytes())
    match int(rng.integers(5)):
        case 0:
            del data[int(rng.integers(len(data))) :]
        case 1:
            data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        case 2:
            at = int(rng.integers(len(data)))
            data[at:at] = rng.bytes(int(rng.integers(1, 200)))
        case 3:
            data = bytearray(rng.bytes(int(rng.integers(0, 5000))))
        case _:
            at = int(rng.integers(len(data)))
            del data[at : at + int(rng.integers(1, 100))]
    path.write_bytes(bytes(data))


def _damage_json(path: Path, rng: np.random.Generator) -> None:
    """Change, drop or add a field somewhere."""
    document = json.loads(path.read_text())
    parent, keys = document, []
    while isinstance(parent, dict) and parent:
        key = list(parent)[int(rng.integers(len(parent)))]
        keys.append((parent, key))
        if not isinstance(parent[key], dict) or rng.random() < 0.3:
            break
        parent = parent[key]
    owner, key = keys[-1]
    values = (None, -1, 0, 10**30, 1e308, "", "x" * 10**5, [], {}, True, "../../etc", [[[]]])
    match int(rng.integers(4)):
        case 0:
            del owner[key]
        case 1:
            owner[key + "2"] = owner[key]
        case _:
            owner[key] = values[int(rng.integers(len(values)))]
    path.write_text(json.dumps(document))


def check(number: int) -> str:
    """'refused' or 'as before'; raises what went wrong."""
    rng = np.random.default_rng([number, 12])
    original, expected = saved()
    with tempfile.TemporaryDirectory(prefix="hammer-") as name:
        folder = Path(name) / "model"
        shutil.copytree(original, folder)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        path = files[int(rng.integers(len(files)))]
        match int(rng.integers(6)):
            case 0:
                path.unlink()
            case 1:
                path.unlink()
                path.symlink_to("/dev/zero" if rng.random() < 0.5 else folder)
            case 2:
                other = files[int(rng.integers(len(files)))]
                path.write_bytes(other.read_bytes())
            case 3 if path.suffix == ".json":
                _damage_json(path, rng)
            case _:
                _damage_bytes(path, rng)
        cube = network(steps=60, stations=3, measurements=1, missing=0.2)
        try:
            filled = cdsa.fill(cube, cdsa.load_model(folder), check=False)["value"].to_numpy()
        except cdsa.CdsaError as error:
            text = str(error)
            if "\n" in text or not 0 < len(text) <= LONGEST:
                raise WrongError(f"not one sentence: {text[:900]}") from error
            return "refused"
        if np.array_equal(filled, expected, equal_nan=True):
            return "as before"
        raise WrongError(f"fills otherwise after a change of {path.name}")
