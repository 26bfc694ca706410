"""Who hears of whom, from a table of its own."""

from pathlib import Path

import numpy as np
import pandas as pd

from cdsa.errors import TableError
from cdsa.sources.columns import named, read_labels, read_numbers
from cdsa.sources.options import ReadOptions
from cdsa.sources.read import read_file

FROM, TO, WEIGHT = ("from", "source"), ("to", "target"), ("weight",)


def read_graph(path: str | Path) -> tuple[tuple[str, str, float], ...]:
    """The edges of a table with the columns from, to and weight; without weights, all count as
    one."""
    table = read_file(Path(path), ReadOptions()).content
    if not isinstance(table, pd.DataFrame):
        raise TableError(f"{path} is not a table of edges")
    return edges_of(table, Path(path).name)


def edges_of(table: pd.DataFrame, name: str = "the graph") -> tuple[tuple[str, str, float], ...]:
    """The edges of a table."""
    columns = [str(column) for column in table.columns]
    ends = [named(columns, names) for names in (FROM, TO)]
    if None in ends or table.empty:
        raise TableError(
            f"a graph is a table with the columns from and to, and perhaps weight, with a row for "
            f"each edge, but {name} has {', '.join(columns)} and {len(table)} rows"
        )

    def where(row: int) -> str:
        return f"row {row + 1} of {name}"

    labels = []
    for end in ends:
        codes, texts, _ = read_labels(table[end], where)
        labels.append([texts[code] for code in codes])
    weights = np.ones(len(table))
    if (column := named(columns, WEIGHT)) is not None:
        weights = read_numbers(table[column], ReadOptions(missing=()), where)
    for row in np.flatnonzero(~(weights > 0)):
        raise TableError(
            f"the weights of a graph are greater than 0, but found {weights[row]:g} in "
            f"{where(int(row))}. Leave out what is not joined"
        )
    return tuple(zip(*labels, map(float, weights), strict=True))
