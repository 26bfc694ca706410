"""Faithfulness of explanations: how deleting the cells with the largest shares changes a value.

    python benchmarks/explanations.py [--methods cdsa,cdsa-paper] [--minutes 1.25] [--cases 200]
                                      [--seed 0] [--record results/explanations.jsonl]

A network is trained on the demo data with cells hidden in bursts. For some of these, the ten
observed cells with the largest shares are deleted and the value is filled again; then ten random
observed cells of the same windows. A case counts if the former changes the value more.
"""

import argparse
import shlex
import sys
from pathlib import Path

import numpy as np
import torch

from cdsa import open_demo
from cdsa.core.masks import Bursts
from cdsa.core.records import Value, append_results, provenance
from cdsa.methods.base import Filler
from cdsa.methods.explanation import SAME_SERIES, Explanation
from cdsa.methods.registry import MethodOptions, build_method

DELETED = 10
NETWORKS = ("cdsa", "cdsa-paper", "cdsa-paper:shared")


def change_without(filler: Filler, explanation: Explanation, cells: np.ndarray) -> float:
    """Change of the value, in its own unit, if these cells (n, 3) had not been measured."""
    deleted = explanation.values.copy()
    deleted.to_numpy()[tuple(cells.T)] = np.nan
    values = [
        filler.fill(cube).sel(explanation.cell._asdict()) for cube in (deleted, explanation.values)
    ]
    change = float(values[0]) - float(values[1])
    if "is_direction" in values[0].coords and bool(values[0]["is_direction"]):
        change = (change + 180) % 360 - 180
    return abs(change)


def measure_network(name: str, minutes: float, cases: int, seed: int) -> dict[str, Value]:
    """The share of cases in which the cells with the largest shares matter more than others."""
    cube = open_demo()
    rng = np.random.default_rng(seed)
    hidden = Bursts(share=0.2)(cube, rng)
    visible = cube.where(~hidden)
    filler = build_method(name, MethodOptions(minutes=minutes, seed=seed)).fit(visible)
    gaps = np.argwhere((hidden & cube.notnull()).to_numpy())
    axes = [cube[axis].to_numpy() for axis in cube.dims]
    moved_more, top_shares, same_series = 0, [], []
    for t, l, m in gaps[rng.choice(len(gaps), cases, replace=False)]:  # noqa: E741
        explanation = filler.explain(visible, axes[0][t], str(axes[1][l]), str(axes[2][m]))
        shares = explanation.shares.to_numpy()
        seen = np.argwhere((shares > 0) & explanation.values.notnull().to_numpy())
        first = seen[np.argsort(-shares[tuple(seen.T)], kind="stable")[:DELETED]]
        others = seen[rng.choice(len(seen), min(DELETED, len(seen)), replace=False)]
        moves = [change_without(filler, explanation, cells) for cells in (first, others)]
        moved_more += moves[0] > moves[1]
        top_shares.append(float(shares[tuple(first.T)].sum()))
        same_series.append(explanation.by_group()[SAME_SERIES])
    return {
        "method": name,
        "minutes": minutes,
        "seed": seed,
        "cases": cases,
        "deleted": DELETED,
        "moved_more": moved_more / cases,
        "share_of_deleted": float(np.median(top_shares)),
        "same_series": float(np.median(same_series)),
        "threads": torch.get_num_threads(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1.25)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--methods", type=lambda text: text.split(","), default=NETWORKS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    origin = provenance(shlex.join(["python", *sys.argv]))
    for name in options.methods:
        record = measure_network(name, options.minutes, options.cases, options.seed)
        print(f"{name}: {record['moved_more']:.1%} of {options.cases} cases")
        if options.record:
            append_results(options.record, [{**record, **origin}])


if __name__ == "__main__":
    main()
