"""Write the tables of README.md and docs/ anew from results/: every figure there is a measured one.

    python scripts/render_tables.py [--check]

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; NAME is a function below. With
--check nothing is written, and it fails if a table is not what the results say.
"""

import argparse
import re
import sys
from pathlib import Path

import pandas as pd

from cdsa.results import read_results

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def latest(name: str) -> pd.DataFrame:
    """The records of the last run in a results file."""
    records = pd.DataFrame(read_results(ROOT / "results" / f"{name}.jsonl"))
    return records[records["when"] == records["when"].max()]


def markdown(rows: list[list[str]], origin: pd.DataFrame) -> str:
    """Rows as a table, the first one its head, with where it comes from below."""
    head, *body = rows
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    first = origin.iloc[0]
    return f"{table}\n\n`{first['command']}`, commit {first['commit']}, {first['machine']}\n"


def demo() -> str:
    """MAE of every method on the demo data, mean over repeats, best in bold."""
    records = latest("demo")
    means = records.pivot_table("mae", "measurement", "method", sort=False)
    units = records.groupby("measurement")["unit"].first()
    rows = [["measurement", *means.columns]]
    for name, row in means.iterrows():
        label = f"{name} ({units[name]})" if name != "all" else "all (in standard deviations)"
        best = row.min()
        rows.append([label, *(f"**{v:#.3g}**" if v == best else f"{v:#.3g}" for v in row)])
    return markdown(rows, records)


def spine() -> str:
    """Time and memory on a million cells."""
    records = latest("spine")
    rows = [["a million cells", "seconds", "MiB", "times `read_csv`"]]
    for r in records.itertuples():
        what = {"read_csv": "`pandas.read_csv`", "info": "`cdsa info`", "fill": "`cdsa fill`"}[
            r.what
        ]
        rows.append([f"{what}, {r.layout}", f"{r.seconds:.1f}", f"{r.mib:.0f}", f"{r.ratio:.1f}"])
    return markdown(rows, records)


TABLES = {"demo": demo, "spine": spine}


def rendered(text: str) -> str:
    """A page with all its tables as the results say."""
    return MARKED.sub(lambda m: f"{m[1]}{TABLES[m[2]]()}{m[3]}", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    for page in PAGES:
        old = page.read_text(encoding="utf-8")
        new = rendered(old)
        if new != old and check:
            sys.exit(
                f"{page.name} does not say what results/ says: run python scripts/render_tables.py"
            )
        page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
