"""The numbers that the paper published, by table."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class PaperTable:
    label: str
    """Its label in the paper's source."""

    caption: str
    metrics: list[str]
    digits: dict[str, int]
    """Decimals by metric; of a share, those of its percentage."""

    unit: str | None
    """Unit of all figures; None where data sets differ."""

    columns: list[str]
    rows: dict[str, dict[str, dict[str, float] | None]]
    """Method -> column -> figures by metric; None where the paper has none."""

    def figure(self, method: str, column: str, metric: str) -> float | None:
        figures = self.rows.get(method, {}).get(column)
        return None if figures is None else figures.get(metric)


@cache
def paper_tables() -> dict[str, PaperTable]:
    text = (files("cdsa") / "paper" / "paper.json").read_text(encoding="utf-8")
    tables = {}
    for name, table in json.loads(text)["tables"].items():
        metrics, columns, rows = table["metrics"], table["columns"], table["rows"]
        table["digits"] = dict(zip(metrics, table["digits"], strict=True))
        table["rows"] = {
            method: {
                column: None if cell is None else dict(zip(metrics, cell, strict=True))
                for column, cell in zip(columns, cells, strict=True)
            }
            for method, cells in rows.items()
        }
        tables[name] = PaperTable(**table)
    return tables
