"""A training killed at any moment goes on and ends with the same weights, bit for bit."""

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
state.Store.__init__.__defaults__ = (0.0,)  # written down after every step, not every 20 s
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


def trained(folder: Path) -> str:
    return hashlib.sha256((folder / "weights.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def undisturbed(table) -> tuple[str, float]:
    """The weights of a run that nothing happened to, and how long it trained."""
    folder = table.parent / "whole"
    subprocess.run(command(table, folder), check=True, capture_output=True)
    seconds = json.loads((folder / "model.json").read_text())["training"]["seconds"]
    return trained(folder), seconds


def kill_while_training(table: Path, folder: Path, wait: float) -> bool:
    """Start a training, kill it so long after it was first written down; whether it was killed."""
    process = subprocess.Popen(
        command(table, folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not (folder / "training.safetensors").exists() and process.poll() is None:
        time.sleep(0.005)
    time.sleep(wait)
    if process.poll() is not None:
        return False
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return True


def goes_on_after_kills(table: Path, folder: Path, waits: list[float]) -> int:
    """Kill a training again and again; the number of kills that hit."""
    hits = 0
    for wait in waits:
        hits += kill_while_training(table, folder, wait)
        if (folder / "model.json").exists():
            break  # it was over, or killed while it tidied up
        with pytest.raises(CdsaError, match="not finished"):  # never half a network
            load_filler(folder)
    if not (folder / "model.json").exists() or (folder / "training.safetensors").exists():
        subprocess.run(command(table, folder), check=True, capture_output=True)
    return hits


@pytest.mark.slow
def test_a_killed_training_ends_with_the_same_weights(table, undisturbed, tmp_path):
    weights, seconds = undisturbed
    hits = goes_on_after_kills(table, tmp_path / "model", [seconds * 0.2, seconds * 0.3])
    assert hits >= 1
    assert trained(tmp_path / "model") == weights
    assert not (tmp_path / "model" / "training.safetensors").exists()


@pytest.mark.slow
def test_killed_at_ten_random_moments(table, undisturbed, tmp_path):
    weights, seconds = undisturbed
    rng, hits, number = np.random.default_rng(), 0, 0
    while hits < 10:
        number += 1
        folder = tmp_path / str(number)
        hits += goes_on_after_kills(table, folder, list(rng.random(3) * seconds * 0.6))
        assert trained(folder) == weights
        load_filler(folder)
    assert number < 30
