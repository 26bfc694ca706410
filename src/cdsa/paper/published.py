"""The paper's own numbers, kept as data with the table they stand in."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

Figures = dict[str, float]


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper."""

    label: str
    """What it is called in the paper's source."""

    caption: str
    metrics: tuple[str, ...]
    digits: dict[str, int]
    """Decimals that the paper gives, by metric; of a share those of its percentage."""

    unit: str | None
    """Of all its figures; None where each data set has its own."""

    columns: tuple[str, ...]
    rows: dict[str, dict[str, Figures | None]]
    """Method -> column -> figures by metric; None where the paper has none."""

    def figure(self, method: str, column: str, metric: str) -> float | None:
        """A number of the paper, or None."""
        found = self.rows.get(method, {}).get(column)
        return None if found is None else found.get(metric)


@cache
def paper_tables() -> dict[str, PaperTable]:
    """All tables of the paper by name."""
    text = (files("cdsa") / "paper" / "paper.json").read_text(encoding="utf-8")
    return {name: _table(told) for name, told in json.loads(text)["tables"].items()}


def _table(told: dict[str, object]) -> PaperTable:
    metrics, columns, rows = told["metrics"], told["columns"], told["rows"]
    digits, unit = told["digits"], told["unit"]
    assert isinstance(metrics, list) and isinstance(columns, list) and isinstance(rows, dict)
    assert isinstance(digits, list) and (unit is None or isinstance(unit, str))
    return PaperTable(
        label=str(told["label"]),
        caption=str(told["caption"]),
        metrics=tuple(metrics),
        digits=dict(zip(metrics, digits, strict=True)),
        unit=unit,
        columns=tuple(columns),
        rows={
            method: {
                column: None if cell is None else dict(zip(metrics, cell, strict=True))
                for column, cell in zip(columns, cells, strict=True)
            }
            for method, cells in rows.items()
        },
    )
