"""Fills that are killed at a random moment: every file is the old one or the new one, and the next
fill leaves nothing else behind."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from hammer.tables import WrongError

LONGEST = 1.5
"""Seconds after which the process is killed, at the latest."""

OLD = "an older file\n"
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def make_table(rng: np.random.Generator) -> str:
    lines = ["time,station,x,y"]
    for hour in range(24 * int(rng.integers(2, 60))):
        for station in range(3):
            x = "" if rng.random() < 0.3 else f"{rng.normal():.2f}"
            day, clock = divmod(hour, 24)
            date = np.datetime64("2020-01-01") + day
            lines.append(f"{date} {clock:02}:00,S{station},{x},{hour % 7}")
    return "\n".join(lines) + "\n"


def check(number: int) -> str:
    """'killed' or 'had ended'; raises what went wrong."""
    rng = np.random.default_rng([number, 11])
    suffix = (".csv", ".csv.gz", ".nc")[int(rng.integers(3))]
    with tempfile.TemporaryDirectory(prefix="hammer-") as name:
        folder = Path(name)
        (folder / "in.csv").write_text(make_table(rng))
        output, detail = folder / f"out{suffix}", folder / "detail.csv"
        words = ["fill", "in.csv", "-o", output.name, "--detail", detail.name, "--overwrite"]
        command = [sys.executable, "-m", "cdsa", *words, "--method", "linear", "--no-check"]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        exists = bool(rng.random() < 0.5)
        for path in (output, detail) if exists else ():
            path.write_text(OLD)
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        time.sleep(float(rng.uniform(0.2, LONGEST)))
        process.send_signal(SIGNALS[int(rng.integers(len(SIGNALS)))])
        printed = process.communicate(timeout=60)[0].decode(errors="replace")
        if "Traceback" in printed:
            raise WrongError(f"a traceback after a signal: {printed[-500:]}")
        after = {path: path.read_bytes() for path in (output, detail) if path.exists()}
        if exists and len(after) < 2:
            raise WrongError("an output was lost")
        again = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=60
        )
        if again.returncode:
            raise WrongError(f"the next fill failed: {again.stderr.decode()[-500:]}")
        for path, content in after.items():
            is_new = content == path.read_bytes() or content[:4] == b"\x89HDF"
            if content != OLD.encode() and not is_new:  # NetCDF files name their time
                raise WrongError(f"{path.name} is half-written")
        left = {path.name for path in folder.iterdir()} - {"in.csv", output.name, detail.name}
        if left:
            raise WrongError(f"leftovers: {left}")
    return "killed" if process.returncode else "had ended"
