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

from cdsa.gaps import CLASSES
from cdsa.results import read_results

ROOT = Path(__file__).parents[1]
FEW_CELLS = 50
"""Below so many, a share says nothing."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


class NotMeasuredError(Exception):
    """There is no record of it."""


def latest(name: str, what: str | None = None) -> pd.DataFrame:
    """The records of the last run in a results file; of several kinds, of this one."""
    path = ROOT / "results" / f"{name}.jsonl"
    records = pd.DataFrame(read_results(path) if path.exists() else [])
    if what is not None and len(records):
        records = records[records["what"] == what]
    if not len(records):
        raise NotMeasuredError(name)
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
    from cdsa.experiments.paper import paper_tables
    from cdsa.experiments.recipes import TABLES as PAPER_TABLES
    from cdsa.experiments.tables import (
        blocks_of,
        figure_text,
        ours_text,
        row_text,
        rows_of,
        time_text,
    )  # fmt: skip

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


def measured(data: str, **wanted: object) -> pd.DataFrame:
    """Records of the paper's tables on a data set, the last of each; no quick ones."""
    records = pd.DataFrame(read_results(ROOT / "results" / "paper.jsonl"))
    chosen = (records["data"] == data) & ~records["quick"].astype(bool)
    for name, value in wanted.items():
        chosen &= records[name] == value
    keys = ["method", "protocol", "rate", "seed", "minutes", "settings", "cells", "horizon"]
    return records[chosen].drop_duplicates([*keys, "loss"], keep="last")


def origin_of(records: pd.DataFrame, command: str) -> pd.DataFrame:
    """Where several records come from."""
    if not len(records):
        raise NotMeasuredError(command)
    commits = ", ".join(sorted(set(records["commit"])))
    return records.tail(1).assign(command=command, commit=commits)


def figure(records: pd.DataFrame, name: str, digits: str = ".3f") -> str:
    """The mean over seeds of a figure, and how many there are if several."""
    values = records[name].dropna().astype(float)
    if not len(values):
        return "-"
    spread = f" ± {values.std():{digits}}" if len(values) > 1 else ""
    return f"{values.mean():{digits}}{spread}"


def our_pm25() -> str:
    """The default network on PM2.5 after several budgets."""
    records = measured("kdd2015-pm25", method="cdsa", cells="test-months")
    head = ["protocol", "minutes", "threads", "steps", "seeds", "MAE", "CRPS", "in 90% interval"]
    rows = [head]
    for (protocol, minutes, threads), own in records.groupby(["protocol", "minutes", "threads"]):
        rows.append(
            [
                str(protocol),
                f"{minutes:g}",
                f"{threads:.0f}",
                f"{own['trained_steps'].mean():,.0f}",
                str(len(own)),
                figure(own, "mae", ".2f"),
                figure(own, "crps"),
                figure(own, "coverage", ".1%"),
            ]
        )
    return markdown(rows, origin_of(records, "cdsa reproduce kdd2015 --methods cdsa"))


def our_rates(data: str, metric: str, rivals: list[str], table: str) -> str:
    """The default network beside others at several missing rates."""
    from cdsa.experiments.paper import paper_tables

    records = measured(data)
    ours = records[records["method"] == "cdsa"]
    paper = paper_tables()[table]
    told = data == "kdd2018"
    names = [*rivals, *(["the paper's CDSA"] if told else []), "cdsa"]
    rows = [["missing", *names, "below the best simple one", "in 90% interval", "minutes", "steps"]]
    for (rate, _), own in ours.groupby(["rate", "minutes"]):
        at = records[records["rate"] == rate]
        simple = {name: at[at["method"] == name][metric].mean() for name in rivals}
        theirs = paper.figure("cdsa-paper", f"{rate:g}", metric) if told else None
        rows.append(
            [
                f"{rate:.0%}",
                *(f"{value:.3f}" for value in simple.values()),
                *([f"{theirs:.3f}"] if told else []),
                f"**{figure(own, metric)}**",
                f"{1 - own[metric].mean() / min(simple.values()):.1%}",
                figure(own, "coverage", ".1%"),
                figure(own, "minutes", "g"),
                f"{own['trained_steps'].mean():,.0f}",
            ]
        )
    return markdown(rows, origin_of(ours, f"cdsa reproduce {table} --methods cdsa"))


def our_kdd2018() -> str:
    return our_rates("kdd2018", "mse", ["linear"], "kdd2018")


def our_nyc() -> str:
    return our_rates("nyc-traffic", "rmse", ["linear", "knn"], "nyc")


def our_intervals() -> str:
    """How often 90% intervals held, by length of the gap and at the worst station."""
    classes = [str(name) for name, _ in CLASSES]
    rows = [["data", "minutes", "overall", *(f"gaps of {c}" for c in classes), "worst station"]]
    found = []
    for data, cells in (("kdd2015-pm25", "test-months"), ("kdd2018", "all")):
        records = measured(data, method="cdsa", cells=cells)
        if "coverage_least_station" not in records:
            raise NotMeasuredError(data)
        records = records[records["coverage_least_station"].notna()]
        found.append(records)
        for (protocol, rate, minutes), own in records.groupby(
            ["protocol", "rate", "minutes"], dropna=False
        ):
            what = f"{data}, {protocol}" if pd.isna(rate) else f"{data}, {rate:.0%} missing"
            by_gap = [
                figure(own, f"coverage_gap_{c}", ".1%")
                if own.get(f"count_gap_{c}", pd.Series([0])).sum() >= FEW_CELLS
                else "-"
                for c in classes
            ]
            whole = figure(own, "coverage", ".1%")
            worst = figure(own, "coverage_least_station", ".1%")
            rows.append([what, f"{minutes:g}", whole, *by_gap, worst])
    origin = origin_of(pd.concat(found), "cdsa reproduce kdd2015, kdd2018 --methods cdsa")
    return markdown(rows, origin)


def our_metr_la() -> str:
    """Forecasts an hour ahead."""
    records = measured("metr-la")
    methods = ["last", "climatology", "cdsa-paper-forecast", "cdsa"]
    records = records[records["method"].isin(methods) & records["loss"].isna()]
    rows = [["protocol", "method", "15 min", "30 min", "60 min", "mean", "minutes"]]
    for protocol in ("80/20", "70/10/20"):
        for method in methods:
            own = records[(records["protocol"] == protocol) & (records["method"] == method)]
            if len(own):
                parts = [own[own["horizon"] == h] for h in ("15", "30", "60", "mean")]
                told = [figure(part, "mae", ".2f") for part in parts]
                rows.append([protocol, method, *told, figure(parts[0], "minutes", "g")])
    ours = records[records["method"] == "cdsa"]
    return markdown(rows, origin_of(ours, "cdsa reproduce metr-la --methods cdsa"))


def our_step() -> str:
    """A training step beside the machine's peak."""
    records = latest("default", "step")
    rows = [["window", "windows a step", "threads", "seconds", "share of the matmul peak"]]
    rows += [
        [r.window.replace("x", " x "), f"{r.batch:.0f}", f"{r.threads:.0f}", f"{r.seconds:.3f}",
         f"{r.share_of_peak:.1%}"]
        for r in records.itertuples()
    ]  # fmt: skip
    return markdown(rows, records)


def our_parts() -> str:
    """The same step on one core and on all, by threads that spin or sleep."""
    records = latest("default", "parts")
    means = records.pivot_table("times_faster", ["window", "wait"], "way", sort=False)
    rows = [["window", "threads that wait", "PyTorch's threads", "parts"]]
    for (window, wait), row in means.iterrows():
        ways = (row["torch's threads"], row["parts"])
        rows.append([window.replace("x", " x "), wait, *(f"{way:.2f} x one core" for way in ways)])
    return markdown(rows, records)


def our_stations() -> str:
    """Whole stations hidden."""
    records = latest("default", "stations")
    means = records.pivot_table("mae", "draw", "method", sort=False)
    below = [name for name in means.columns if name != "cdsa"]
    rows = [["6 of 36 stations", *means.columns, *(f"below {name}" for name in below)]]
    for draw, row in [*means.iterrows(), ("mean", means.mean())]:
        cells = [f"{value:.2f}" for value in row]
        label = f"draw {draw:.0f}" if draw != "mean" else "mean"
        rows.append([label, *cells, *(f"{1 - row['cdsa'] / row[name]:.1%}" for name in below)])
    return markdown(rows, records)


def our_weather() -> str:
    """Temperature and humidity."""
    records = latest("default", "weather")
    means = records.pivot_table("mae", ["data", "cells"], "method", sort=False)
    rows = [["data", "hidden", "linear", "cdsa", "below"]]
    for (data, cells), row in means.iterrows():
        below = f"{1 - row['cdsa'] / row['linear']:.1%}"
        rows.append([data, cells, f"{row['linear']:.3f}", f"{row['cdsa']:.3f}", below])
    return markdown(rows, records)


def our_fill() -> str:
    """A year of hours at 36 stations filled; memory of one year and of ten."""
    records = latest("default", "fill")
    rows = [["a year at 36 stations", "seconds"]]
    rows += [[r.filled, f"{r.seconds:.1f}"] for r in records.itertuples()]
    return markdown(rows, records)


def our_memory() -> str:
    """Peak memory when a cube gets ten times longer."""
    records = latest("default", "memory")
    rows = [["steps", "MiB before", "MiB at the peak", "MiB filled"]]
    rows += [
        [f"{r.steps:,.0f}", f"{r.before_mib:.0f}", f"{r.mib:.0f}", f"{r.out_mib:.0f}"]
        for r in records.itertuples()
    ]
    return markdown(rows, records)


def our_race() -> str:
    """CPU time to reach an error of 12."""
    records = latest("default", "race")
    rows = [["method", "CPU seconds", "MAE then"]]
    for name, own in records.groupby("method", sort=False):
        last = own.iloc[-1]
        rows.append([str(name), f"{last['cpu_seconds']:.0f}", f"{last['mae']:.2f}"])
    return markdown(rows, records)


def our_reasons() -> str:
    """What deleting the cells named first does to a value."""
    path = ROOT / "results" / "reasons.jsonl"
    records = pd.DataFrame(read_results(path) if path.exists() else [])
    if not len(records):
        raise NotMeasuredError("reasons")
    records = records.drop_duplicates("method", keep="last")
    rows = [["network", "minutes", "values", "moved more by the ten named first", "their share"]]
    rows += [
        [r.method, f"{r.minutes:g}", f"{r.cases}", f"{r.moved_more:.1%}",
         f"{r.share_of_deleted:.1%}"]
        for r in records.itertuples()
    ]  # fmt: skip
    return markdown(rows, origin_of(records, "python benchmarks/reasons.py"))


def our_server() -> str:
    """The page's server under load."""
    records = latest("serving")
    head = [
        "tables",
        "MB each",
        "at once",
        "lost",
        "mixed up",
        "seconds",
        "MiB before",
        "at the peak",
    ]
    rows = [head]
    rows += [
        [f"{r.tables:.0f} {r.what}", f"{r.megabytes:.2g}", f"{r.at_once:.0f}", f"{r.lost:.0f}",
         f"{r.mixed_up:.0f}", f"{r.seconds:.1f}", f"{r.before_mib:.0f}", f"{r.peak_mib:.0f}"]
        for r in records.itertuples()
    ]  # fmt: skip
    return markdown(rows, records)


TABLES = {
    "pm25": pm25,
    "demo": demo,
    "spine": spine,
    "complexity": complexity,
    "ratios": ratios,
    "growth": growth,
    "wall": wall,
    "throughput": throughput,
    "manners": manners,
    "our_pm25": our_pm25,
    "our_kdd2018": our_kdd2018,
    "our_intervals": our_intervals,
    "our_nyc": our_nyc,
    "our_metr_la": our_metr_la,
    "our_step": our_step,
    "our_parts": our_parts,
    "our_stations": our_stations,
    "our_weather": our_weather,
    "our_fill": our_fill,
    "our_memory": our_memory,
    "our_race": our_race,
    "our_reasons": our_reasons,
    "our_server": our_server,
}


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
