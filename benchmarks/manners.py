"""The four manners of the paper's network on the demo data, beside the simple methods.

    python benchmarks/manners.py [--minutes 2] [--seeds 0] [--record results/manners.jsonl]

Cells are hidden in bursts until 20% are missing; each manner trains for so many minutes.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import cdsa
from cdsa.core.records import append_results, provenance
from cdsa.methods.registry import make_method
from cdsa.nn.types import MANNERS
from cdsa.workflows.score import score

HIDE = "bursts:0.2"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--record", type=Path)
    given = parser.parse_args()
    cube = cdsa.open_demo()
    origin = provenance(" ".join(["python", *sys.argv]))
    networks = [f"cdsa-paper:{manner}" for manner in MANNERS]
    for seed in given.seeds:
        for name in ["mean", "climatology", "linear", *networks]:
            method = make_method(name)[1]
            if name in networks:
                train = replace(method.train, minutes=given.minutes)
                method = replace(method, train=train, seed=seed)
            scored = score(method, cube, HIDE, seed=seed)
            records = [
                record | {"method": name, "seed": seed, "minutes": given.minutes} | origin
                for record in scored.records()
            ]
            print(f"{name:25} seed {seed}  MAE {records[-1]['mae']:.3f} {records[-1]['unit']}")
            if given.record:
                append_results(given.record, records)


if __name__ == "__main__":
    main()
