"""Write the tables of README.md and docs/ anew from results/: every figure there is a measured one.

    python scripts/render_tables.py [--check]

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; NAME is a function of one of the
files beside this one, tables_of_....py. With --check nothing is written, and it fails if a table is
not what the results say.
"""

import argparse
import re
import sys

import tables_of_network
import tables_of_paper
import tables_of_speed
from measured import ROOT, NotMeasuredError

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
TABLES = tables_of_paper.TABLES | tables_of_network.TABLES | tables_of_speed.TABLES


def table(name: str) -> str:
    """A table as the results say, or that it is not measured yet."""
    try:
        return TABLES[name]()
    except NotMeasuredError:
        return "Not measured yet.\n"


def rendered(text: str) -> str:
    """A page with all its tables as the results say."""
    return MARKED.sub(lambda m: f"{m[1]}{table(m[2])}{m[3]}", text)


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
