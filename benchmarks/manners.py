"""The four manners of the paper's network and simple methods on the demo data.

    python benchmarks/manners.py [--minutes 2] [--seeds 0] [--record results/manners.jsonl]

Cells are hidden in bursts until 20% are missing; each manner trains for the given minutes.
"""

import argparse
import sys
from pathlib import Path

import cdsa
from cdsa.core.records import append_results, provenance
from cdsa.nn.types import MANNERS

HIDE = "bursts:0.2"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    cube = cdsa.open_demo()
    origin = provenance(" ".join(["python", *sys.argv]))
    networks = [f"cdsa-paper:{manner}" for manner in MANNERS]
    for seed in options.seeds:
        for name in ["mean", "climatology", "linear", *networks]:
            minutes = options.minutes if name in networks else None
            scored = cdsa.score(cube, name, HIDE, minutes=minutes, seed=seed)
            records = [
                record | {"method": name, "seed": seed, "minutes": options.minutes} | origin
                for record in scored.records()
            ]
            print(f"{name:25} seed {seed}  MAE {records[-1]['mae']:.3f} {records[-1]['unit']}")
            if options.record:
                append_results(options.record, records)


if __name__ == "__main__":
    main()
