"""Whether reasons are true: what deleting the cells named first does to a value, on the demo data.

    python benchmarks/reasons.py [--methods cdsa,cdsa-paper] [--minutes 1.25] [--cases 200]
                                 [--seed 0] [--record results/reasons.jsonl]

A network learns from the demo with cells hidden in bursts. For some of these, the ten measured
cells with the largest shares are deleted and the value is filled again; so are ten others, drawn
from the measured cells of the same windows. A case counts if the first moves the value more.
"""

import argparse
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from cdsa import open_demo
from cdsa.core.masks import Bursts
from cdsa.core.records import Value, append_results, provenance
from cdsa.methods.engine.estimator import Neural, NeuralFiller
from cdsa.methods.engine.explain import OWN, Cell, Reasons
from cdsa.methods.registry import make_method

DELETED = 10
NETWORKS = ("cdsa", "cdsa-paper", "cdsa-paper:shared")


def moved(filler: NeuralFiller, reasons: Reasons, gone: np.ndarray) -> float:
    """How far the value goes if these cells (n, 3) had not been measured, in its own unit."""
    part = reasons.values.copy()
    part.to_numpy()[tuple(gone.T)] = np.nan
    cell = reasons.cell._asdict()
    off = float(filler.fill(part).sel(cell)) - float(filler.fill(reasons.values).sel(cell))
    angle = (
        bool(part["is_direction"].sel(measurement=reasons.cell.measurement))
        if "is_direction" in part.coords
        else False
    )
    return abs((off + 180) % 360 - 180) if angle else abs(off)


def measured(name: str, minutes: float, cases: int, seed: int) -> dict[str, Value]:
    """One network: the share of cases in which the foremost cells matter more than others."""
    cube = open_demo()
    rng = np.random.default_rng(seed)
    hidden = Bursts(share=0.2)(cube, rng)
    visible = cube.where(~hidden)
    method = make_method(name)[1]
    assert isinstance(method, Neural)
    train = replace(method.train, minutes=minutes, epochs=None)
    filler = replace(method, train=train, seed=seed).fit(visible)
    gaps = np.argwhere((hidden & cube.notnull()).to_numpy())
    axes = [cube[axis].to_numpy() for axis in cube.dims]
    more, far, near = 0, [], []
    for t, l, m in gaps[rng.choice(len(gaps), cases, replace=False)]:  # noqa: E741
        reasons = filler.explain(visible, Cell(axes[0][t], str(axes[1][l]), str(axes[2][m])))
        shares = reasons.shares.to_numpy()
        seen = np.argwhere((shares > 0) & reasons.values.notnull().to_numpy())
        first = seen[np.argsort(-shares[tuple(seen.T)], kind="stable")[:DELETED]]
        others = seen[rng.choice(len(seen), min(DELETED, len(seen)), replace=False)]
        moves = moved(filler, reasons, first), moved(filler, reasons, others)
        more += moves[0] > moves[1]
        far.append(float(shares[tuple(first.T)].sum()))
        near.append(reasons.by_axis()[OWN])
    return {
        "method": name,
        "minutes": minutes,
        "seed": seed,
        "cases": cases,
        "deleted": DELETED,
        "moved_more": more / cases,
        "share_of_deleted": float(np.median(far)),
        "own_series": float(np.median(near)),
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
    given = parser.parse_args()
    origin = provenance(shlex.join(["python", *sys.argv]))
    for name in given.methods:
        told = measured(name, given.minutes, given.cases, given.seed)
        print(f"{name}: {told['moved_more']:.1%} of {given.cases} cases")
        if given.record:
            append_results(given.record, [{**told, **origin}])


if __name__ == "__main__":
    main()
