"""A training that is killed at any moment resumes and ends with the same weights, bit for bit."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from cdsa.errors import CdsaError
from cdsa.methods.engine.persistence import load_filler
from conftest import network

COMMAND = """
import sys
import cdsa.training.state as state
state.TrainingStore.__init__.__defaults__ = (0.0,)  # saved after every step, not every 20 s
from cdsa.cli import main
sys.argv = ["cdsa", *sys.argv[1:]]
main()
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    cube = network(steps=160, stations=3, measurements=2)
    frame = cube.to_dataset("measurement").to_dataframe().reset_index()
    path = tmp_path_factory.mktemp("killed") / "air.csv"
    frame.rename(columns={"location": "station"}).to_csv(path, index=False)
    return path


def command(table: Path, folder: Path) -> list[str]:
    settings = ["--preset", "small", "--epochs", "12", "--set", "train.patience=0"]
    return [sys.executable, "-c", COMMAND, "train", str(table), "-o", str(folder), *settings]


def hash_of_weights(folder: Path) -> str:
    return hashlib.sha256((folder / "weights.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def undisturbed(table) -> tuple[str, float]:
    """The weights of a run that was not killed, and the seconds of its training."""
    folder = table.parent / "undisturbed"
    subprocess.run(command(table, folder), check=True, capture_output=True)
    seconds = json.loads((folder / "model.json").read_text())["training"]["seconds"]
    return hash_of_weights(folder), seconds


def kill_while_training(table: Path, folder: Path, delay: float) -> bool:
    """Start a training and kill it this long after its first save; whether it was killed."""
    process = subprocess.Popen(
        command(table, folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not (folder / "training.safetensors").exists() and process.poll() is None:
        time.sleep(0.005)
    time.sleep(delay)
    if process.poll() is not None:
        return False
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return True


def train_with_kills(table: Path, folder: Path, delays: list[float]) -> int:
    """Train to the end in spite of kills; the number of them."""
    n_kills = 0
    for delay in delays:
        n_kills += kill_while_training(table, folder, delay)
        if (folder / "model.json").exists():
            break  # it was finished, or killed while it tidied up
        with pytest.raises(CdsaError, match="not finished"):
            load_filler(folder)
    if not (folder / "model.json").exists() or (folder / "training.safetensors").exists():
        subprocess.run(command(table, folder), check=True, capture_output=True)
    return n_kills


@pytest.mark.slow
def test_a_killed_training_ends_with_the_same_weights(table, undisturbed, tmp_path):
    weights, seconds = undisturbed
    n_kills = train_with_kills(table, tmp_path / "model", [seconds * 0.2, seconds * 0.3])
    assert n_kills >= 1
    assert hash_of_weights(tmp_path / "model") == weights
    assert not (tmp_path / "model" / "training.safetensors").exists()


@pytest.mark.slow
def test_a_training_may_be_killed_at_any_moment(table, undisturbed, tmp_path):
    weights, seconds = undisturbed
    rng, n_kills, n_runs = np.random.default_rng(), 0, 0
    while n_kills < 10:
        n_runs += 1
        folder = tmp_path / str(n_runs)
        n_kills += train_with_kills(table, folder, list(rng.random(3) * seconds * 0.6))
        assert hash_of_weights(folder) == weights
        load_filler(folder)
    assert n_runs < 30
