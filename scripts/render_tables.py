"""Render the tables of README.md and docs/ from results/, so that every figure is measured.

    python scripts/render_tables.py [--check]

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; NAME is a function in a
tables_of_....py of this folder. With --check nothing is written, and it fails if a table differs
from the results.
"""

import argparse
import re
import sys

import tables_of_network
import tables_of_paper
import tables_of_speed
from results import ROOT, NotMeasuredError

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
TABLES = tables_of_paper.TABLES | tables_of_network.TABLES | tables_of_speed.TABLES


def render_table(name: str) -> str:
    """A table, or a note that it has not been measured."""
    try:
        return TABLES[name]()
    except NotMeasuredError:
        return "Not measured yet.\n"


def render_page(text: str) -> str:
    """A page with its tables rendered."""
    return MARKED.sub(lambda m: f"{m[1]}{render_table(m[2])}{m[3]}", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    for page in PAGES:
        old = page.read_text(encoding="utf-8")
        new = render_page(old)
        if new != old and check:
            sys.exit(f"{page.name} differs from results/. Run: python scripts/render_tables.py")
        page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
