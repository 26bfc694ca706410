"""BRITS and SAITS of PyPOTS, trained in an environment of their own, for other benchmarks.

`fill_series` runs this file with the Python of that environment, which has no cdsa:

    python benchmarks/pypots_networks.py FOLDER SETTINGS

FOLDER holds `windows.npz` and receives what was filled. The script never gets a scored value.
"""

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Figures = dict[str, str | int | float]
SIZES = {"BRITS": 64, "SAITS": 128}
"""`rnn_hidden_size` and `d_model`. Twice as much was no better after 90 s of CPU time, on the
scored cells of `peers.py --networks beijing --seed 0`."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A network of PyPOTS and its training; everything else is as PyPOTS has it."""

    name: str
    """BRITS or SAITS."""

    minutes: float
    """CPU time of training, to the nearest epoch."""

    window: int = 48
    stride: int = 12
    """Steps between two windows to train on; those to fill are adjacent."""

    batch_size: int = 32
    seed: int = 0
    every_epoch: bool = False
    """Fill after every epoch, not only after the last one."""


def fill_series(
    python: Path, settings: Settings, train: Floats, test: Floats
) -> list[tuple[Floats, Figures]]:
    """The series `test` filled after training on the series `train`, and what it took so far; both
    are (step, series), scaled, with NaN for missing."""
    last, steps = len(test) - settings.window, np.arange(settings.window)
    starts = np.arange(0, len(train) - settings.window + 1, settings.stride)
    windows = train[starts[:, None] + steps]
    windows = windows[np.isfinite(windows).any((1, 2))]
    cuts = np.append(np.arange(0, last, settings.window), last)[:, None] + steps
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "windows.npz", train=windows, test=test[cuts])
        command = [str(python), __file__, folder, json.dumps(asdict(settings))]
        process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        results = []
        for line in process.stdout.splitlines():
            if line.startswith("{"):
                figures, filled = json.loads(line), test.copy()
                filled[cuts] = np.load(Path(folder) / f"{figures['epochs']}.npy")
                results.append((filled, figures))
        return results


def build_network(settings: Settings, n_steps: int, n_features: int):
    from pypots.imputation import BRITS, SAITS

    common = {"n_steps": n_steps, "n_features": n_features, "batch_size": settings.batch_size}
    if settings.name == "BRITS":
        return BRITS(**common, rnn_hidden_size=SIZES["BRITS"], verbose=False)
    size, head = SIZES["SAITS"], SIZES["SAITS"] // 4
    sizes = {"d_model": size, "n_heads": 4, "d_k": head, "d_v": head, "d_ffn": 2 * size}
    return SAITS(**common, **sizes, n_layers=2, dropout=0.1, verbose=False)


def main() -> None:
    import pypots
    import torch
    from pypots.utils.random import set_random_seed

    folder, settings = Path(sys.argv[1]), Settings(**json.loads(sys.argv[2]))
    windows = np.load(folder / "windows.npz")
    train, test = windows["train"], windows["test"]
    set_random_seed(settings.seed)
    model = build_network(settings, *train.shape[1:])
    epochs, seconds, n_epochs = 0, 0.0, 1  # the first epoch tells how many more there may be
    while n_epochs:
        model.epochs = n_epochs
        start = time.process_time()
        model.fit({"X": train})  # goes on from the weights and the optimiser's state so far
        seconds += time.process_time() - start
        epochs += n_epochs
        n_epochs = max(0, round((60 * settings.minutes - seconds) / (seconds / epochs)))
        if settings.every_epoch:
            n_epochs = min(n_epochs, 1)
        elif n_epochs:
            continue
        start = time.process_time()
        filled = model.predict({"X": test})["imputation"].reshape(test.shape)
        figures: Figures = {
            "epochs": epochs,
            "steps": epochs * -(-len(train) // settings.batch_size),
            "train_cpu_seconds": seconds,
            "fill_cpu_seconds": time.process_time() - start,
            "threads": torch.get_num_threads(),
            "pypots": pypots.__version__,
        }
        np.save(folder / f"{epochs}.npy", filled)
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
