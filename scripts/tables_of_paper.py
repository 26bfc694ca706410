"""Tables of the demo, of files, and of the paper's network."""

import pandas as pd
from measured import ROOT, latest, markdown

from cdsa.core.records import read_results


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


def complexity() -> str:
    """Operations and variables of the four manners beside the paper's."""
    records = latest("attention", "complexity")
    rows = [["manner", "10^9 operations", "the paper", "10^5 variables", "the paper"]]
    rows += [
        [r.manner, f"{r.flops / 1e9:.2f}", f"{r.paper_flops / 1e9:.2f}",
         f"{r.variables / 1e5:.2f}", f"{r.paper_variables / 1e5:.2f}"]
        for r in records.itertuples()
    ]  # fmt: skip
    return markdown(rows, records)


def ratios() -> str:
    """The two ratios that the paper's table is about."""
    records = latest("attention", "complexity").set_index("manner")
    rows = [["ratio", "here", "the paper"]]
    for what, one, other, words in (
        ("flops", "joint", "decomposed", "operations, joint / decomposed"),
        ("variables", "decomposed", "shared", "variables, decomposed / shared"),
    ):
        cells = [
            f"{records.loc[one, f'{prefix}{what}'] / records.loc[other, f'{prefix}{what}']:.1f}"
            for prefix in ("", "paper_")
        ]
        rows.append([words, *cells])
    return markdown(rows, records)


def growth() -> str:
    """How much each manner grows when an axis doubles."""
    records = latest("attention", "growth")
    first = records[records["doubled"] == ""].set_index("manner")
    rows = [["manner", "doubled", "operations", "variables", "seconds", "memory"]]
    for r in records[records["doubled"] != ""].itertuples():
        base = first.loc[r.manner]
        memory = (r.mib - r.mib_before) / max(base["mib"] - base["mib_before"], 1)
        cells = [r.flops / base["flops"], r.variables / base["variables"],
                 r.seconds / base["seconds"], memory]  # fmt: skip
        rows.append([r.manner, r.doubled, *(f"x {cell:.1f}" for cell in cells)])
    return markdown(rows, records)


def wall() -> str:
    """One window of 432 x 186 x 1 cells, forward and backward."""
    records = latest("attention", "wall")
    rows = [["manner", "layers", "peak GiB", "limit GiB", "seconds", "eight layers"]]
    rows += [
        [r.manner, f"{r.layers:.0f}", f"{r.mib / 1024:.2f}", f"{r.limit_mib / 1024:.0f}",
         f"{r.seconds:.1f}", f"{r.eight_layers_seconds:,.0f} s"]
        for r in records.itertuples()
    ]  # fmt: skip
    return markdown(rows, records)


def throughput() -> str:
    """Training speed of the four manners."""
    records = latest("attention", "throughput")
    rows = [["window", "manner", "windows a second", "share of the peak", "variables"]]
    rows += [
        [r.sizes.replace("x", " x "), r.manner, f"{r.windows_per_second:.3g}",
         f"{r.share_of_peak:.1%}", f"{r.variables:,.0f}"]
        for r in records.itertuples()
    ]  # fmt: skip
    return markdown(rows, records)


def manners() -> str:
    """The four manners after two minutes each on the demo data."""
    records = latest("manners")
    means = records.pivot_table("mae", "measurement", "method", sort=False)
    rows = [["measurement", *(name.removeprefix("cdsa-paper:") for name in means.columns)]]
    rows += [[str(name), *(f"{v:#.3g}" for v in row)] for name, row in means.iterrows()]
    return markdown(rows, records)


def pm25() -> str:
    """KDD-2015 PM2.5: ours beside the paper's, both sets of cells, both ways of learning."""
    from cdsa.paper.compare import (
        blocks_of,
        figure_text,
        ours_text,
        row_text,
        rows_of,
        time_text,
    )
    from cdsa.paper.published import paper_tables
    from cdsa.paper.tables import TABLES as PAPER_TABLES

    records = read_results(ROOT / "results" / "paper.jsonl")
    own = [r for r in records if r["data"] == "kdd2015-pm25" and not r["quick"]]
    table = PAPER_TABLES["kdd2015"]
    block = next(b for b in blocks_of(table) if b.title == "MAE, kdd2015-pm25")
    rows = [["PM2.5, MAE", *(column.label for column in block.columns), "the paper", "time"]]
    for row in rows_of(table, block, own):
        if row.measured:
            ours = [ours_text(figure, block) for figure in row.figures]
            theirs = (
                paper_tables()[name].figure(row.name.partition("@")[0], "kdd2015-pm25", "mae")
                for name in ("kdd2015", "ablation-kdd2015")
            )
            told = next((figure for figure in theirs if figure is not None), None)
            rows.append([row_text(row), *ours, figure_text(told, block), time_text(row)])
    origin = pd.DataFrame(own).tail(1)
    commits = ", ".join(sorted({str(r["commit"]) for r in own}))
    command = "cdsa reproduce kdd2015", "cdsa reproduce ablation-kdd2015"
    return markdown(rows, origin.assign(command="`, `".join(command), commit=commits))


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


TABLES = {
    table.__name__: table
    for table in (pm25, demo, spine, complexity, ratios, growth, wall, throughput, manners)
}
