"""Tables of how good the default network is."""

import pandas as pd
from measured import ROOT, NotMeasuredError, figure, latest, markdown, measured, origin_of

from cdsa.core.gaps import GAP_CLASSES
from cdsa.core.records import read_results

FEW_CELLS = 50
"""Below so many, a share says nothing."""


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
    """The default network beside others at several missing rates, on the same hidden cells; of
    several budgets the one measured last."""
    from cdsa.paper.published import paper_tables

    records = measured(data)
    ours = records[records["method"] == "cdsa"]
    ours = ours[ours["minutes"] == ours.groupby("rate")["minutes"].transform("last")]
    paper = paper_tables()[table]
    told = data == "kdd2018"
    names = [*rivals, *(["the paper's CDSA"] if told else []), "cdsa"]
    last = ["below the best simple one", "in 90% interval", "minutes", "threads", "steps"]
    rows = [["missing", *names, *last]]
    for rate, own in ours.groupby("rate"):
        at = records[(records["rate"] == rate) & records["seed"].isin(own["seed"])]
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
                f"{own['threads'].mean():.0f}",
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
    classes = [str(name) for name, _ in GAP_CLASSES]
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
    """Forecasts an hour ahead; of several budgets the longest."""
    records = measured("metr-la")
    rivals = ["fc-lstm", "mtsi", "brits", "dcrnn", "dst-gcnn", "gaan"]
    methods = ["last", "climatology", *rivals, "cdsa-paper-forecast", "cdsa"]
    records = records[records["method"].isin(methods) & records["loss"].isna()]
    rows = [["protocol", "method", "15 min", "30 min", "60 min", "mean", "minutes"]]
    for protocol in ("80/20", "70/10/20"):
        for method in methods:
            own = records[(records["protocol"] == protocol) & (records["method"] == method)]
            own = own[(own["minutes"] == own["minutes"].max()) | own["minutes"].isna()]
            if len(own):
                parts = [own[own["horizon"] == h] for h in ("15", "30", "60", "mean")]
                told = [figure(part, "mae", ".2f") for part in parts]
                rows.append([protocol, method, *told, figure(parts[0], "minutes", "g")])
    return markdown(rows, origin_of(records, "cdsa reproduce metr-la"))


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


def our_expected() -> str:
    """The error that is told before a fill, beside the real one."""
    records = latest("default", "expected")
    rows = [["data", "method", "told", "real", "told is off by"]]
    keys = ["data", "rate", "method"]
    for (data, rate, method), own in records.groupby(keys, sort=False, dropna=False):
        off = own["told"].mean() / own["real"].mean() - 1
        told, real = (figure(own, name, ".2f") for name in ("told", "real"))
        what = data if pd.isna(rate) else f"{data}, {rate:.0%} missing"
        rows.append([what, method, told, real, f"{off:+.1%}"])
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


TABLES = {
    table.__name__: table
    for table in (
        our_pm25,
        our_kdd2018,
        our_nyc,
        our_intervals,
        our_metr_la,
        our_stations,
        our_weather,
        our_expected,
        our_reasons,
    )
}
