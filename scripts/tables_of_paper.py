"""Tables of the demo, of files, and of the paper's network."""

import pandas as pd
from results import ROOT, load_latest, to_markdown

from cdsa.core.records import read_results
from cdsa.paper.compare import build_blocks
from cdsa.paper.published import paper_tables
from cdsa.paper.tables import TABLES as PAPER_TABLES


def spine() -> str:
    """Time and memory on a million cells."""
    records = load_latest("spine")
    rows = [["a million cells", "seconds", "MiB", "times `read_csv`"]]
    for r in records.itertuples():
        what = {"read_csv": "`pandas.read_csv`", "info": "`cdsa info`", "fill": "`cdsa fill`"}[
            r.what
        ]
        rows.append([f"{what}, {r.layout}", f"{r.seconds:.1f}", f"{r.mib:.0f}", f"{r.ratio:.1f}"])
    return to_markdown(rows, records)


def complexity() -> str:
    """Operations and parameters of the four manners, and the paper's."""
    records = load_latest("attention", "complexity")
    rows = [["manner", "10^9 operations", "the paper", "10^5 parameters", "the paper"]]
    rows += [
        [r.manner, f"{r.flops / 1e9:.2f}", f"{r.paper_flops / 1e9:.2f}",
         f"{r.parameters / 1e5:.2f}", f"{r.paper_parameters / 1e5:.2f}"]
        for r in records.itertuples()
    ]  # fmt: skip
    return to_markdown(rows, records)


def ratios() -> str:
    """The two ratios that the paper's table shows."""
    records = load_latest("attention", "complexity").set_index("manner")
    rows = [["ratio", "here", "the paper"]]
    for column, manner, other, label in (
        ("flops", "joint", "decomposed", "operations, joint / decomposed"),
        ("parameters", "decomposed", "shared", "parameters, decomposed / shared"),
    ):
        values = (records[f"{prefix}{column}"] for prefix in ("", "paper_"))
        rows.append([label, *(f"{value[manner] / value[other]:.1f}" for value in values)])
    return to_markdown(rows, records)


def growth() -> str:
    """How the cost of each manner grows when an axis doubles."""
    records = load_latest("attention", "growth")
    first = records[records["doubled"] == ""].set_index("manner")
    rows = [["manner", "doubled", "operations", "parameters", "seconds", "memory"]]
    for r in records[records["doubled"] != ""].itertuples():
        base = first.loc[r.manner]
        memory = (r.mib - r.mib_before) / max(base["mib"] - base["mib_before"], 1)
        cells = [r.flops / base["flops"], r.parameters / base["parameters"],
                 r.seconds / base["seconds"], memory]  # fmt: skip
        rows.append([r.manner, r.doubled, *(f"x {cell:.1f}" for cell in cells)])
    return to_markdown(rows, records)


def wall() -> str:
    """One window of 432 x 186 x 1 cells, forward and backward."""
    records = load_latest("attention", "wall")
    rows = [["manner", "layers", "peak GiB", "limit GiB", "seconds", "eight layers"]]
    rows += [
        [r.manner, f"{r.n_layers:.0f}", f"{r.mib / 1024:.2f}", f"{r.limit_mib / 1024:.0f}",
         f"{r.seconds:.1f}", f"{r.eight_layers_seconds:,.0f} s"]
        for r in records.itertuples()
    ]  # fmt: skip
    return to_markdown(rows, records)


def throughput() -> str:
    """Training speed of the four manners."""
    records = load_latest("attention", "throughput")
    rows = [["window", "manner", "windows a second", "share of the peak", "parameters"]]
    rows += [
        [r.sizes.replace("x", " x "), r.manner, f"{r.windows_per_second:.3g}",
         f"{r.share_of_peak:.1%}", f"{r.parameters:,.0f}"]
        for r in records.itertuples()
    ]  # fmt: skip
    return to_markdown(rows, records)


def manners() -> str:
    """The four manners after two minutes each on the demo data."""
    records = load_latest("manners")
    means = records.pivot_table("mae", "measurement", "method", sort=False)
    rows = [["measurement", *(name.removeprefix("cdsa-paper:") for name in means.columns)]]
    rows += [[str(name), *(f"{v:#.3g}" for v in row)] for name, row in means.iterrows()]
    return to_markdown(rows, records)


def pm25() -> str:
    """KDD-2015 PM2.5 for both protocols and both sets of cells, and the paper's figures."""
    records = read_results(ROOT / "results" / "paper.jsonl")
    records = [r for r in records if r["data"] == "kdd2015-pm25" and not r["quick"]]
    blocks = build_blocks(PAPER_TABLES["kdd2015"], records)
    block = next(b for b in blocks if b.title.startswith("MAE, kdd2015-pm25"))
    rows = [["PM2.5, MAE", *(column.label for column in block.columns), "the paper", "time"]]
    for row in block.rows:
        if row.measured:
            ours = [block.format_ours(figure) for figure in row.figures]
            figures = (
                paper_tables()[name].figure(row.name.partition("@")[0], "kdd2015-pm25", "mae")
                for name in ("kdd2015", "ablation-kdd2015")
            )
            published = next((figure for figure in figures if figure is not None), None)
            rows.append([row.label, *ours, block.format(published), row.time])
    commands = "cdsa paper run kdd2015`, `cdsa paper run ablation-kdd2015"
    return to_markdown(rows, pd.DataFrame(records), commands)


def demo() -> str:
    """MAE of every method on the demo data; the mean over repeats, the best in bold."""
    records = load_latest("demo")
    means = records.pivot_table("mae", "measurement", "method", sort=False)
    units = records.groupby("measurement")["unit"].first()
    rows = [["measurement", *means.columns]]
    for name, row in means.iterrows():
        label = f"{name} ({units[name]})" if name != "all" else "all (in standard deviations)"
        best = row.min()
        rows.append([label, *(f"**{v:#.3g}**" if v == best else f"{v:#.3g}" for v in row)])
    return to_markdown(rows, records)


TABLES = {
    table.__name__: table
    for table in (pm25, demo, spine, complexity, ratios, growth, wall, throughput, manners)
}
