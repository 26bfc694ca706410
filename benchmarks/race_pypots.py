"""A network of pypots on the windows of `default.py race`, in its own environment.

    python benchmarks/race_pypots.py WINDOWS.npz SAITS|BRITS MINUTES

Trains epoch by epoch, and prints CPU seconds and the error on the scored cells after each, until
the error is below 12 or the minutes are over.
"""

import json
import sys
import time

import numpy as np
from pypots.imputation import BRITS, SAITS


def main() -> None:
    path, name, minutes = sys.argv[1], sys.argv[2], float(sys.argv[3])
    data = np.load(path)
    steps, stations = data["train"].shape[1:]
    common = {"n_steps": steps, "n_features": stations, "batch_size": 16, "epochs": 1}
    if name == "SAITS":
        model = SAITS(
            **common, n_layers=2, d_model=128, n_heads=4, d_k=32, d_v=32, d_ffn=256, dropout=0.1
        )
    else:
        model = BRITS(**common, rnn_hidden_size=64)
    used, start = 0.0, time.perf_counter()
    while time.perf_counter() - start < 60 * minutes:
        before = time.process_time()
        model.fit({"X": data["train"]})
        used += time.process_time() - before
        prediction = model.predict({"X": data["test"]})["imputation"]
        prediction = prediction.reshape(data["test"].shape) * data["spread"] + data["mean"]
        error = float(np.abs(prediction - data["truth"])[data["eval_mask"]].mean())
        print(json.dumps({"method": name, "cpu_seconds": used, "mae": error}), flush=True)
        if error < 12:
            break


if __name__ == "__main__":
    main()
