"""Tables of the default network's accuracy."""

import pandas as pd
from results import NotMeasuredError, format_mean, load, load_latest, load_paper, to_markdown

from cdsa.core.gaps import GAP_CLASSES
from cdsa.paper.published import paper_tables

MIN_CELLS = 50
"""The coverage of fewer cells is not shown."""


def our_pm25() -> str:
    """The default network on PM2.5 with several training budgets."""
    records = load_paper("kdd2015-pm25", by=("threads",), method="cdsa", cells="test-months")
    head = ["protocol", "minutes", "threads", "steps", "seeds", "MAE", "CRPS", "in 90% interval"]
    rows = [head]
    used = []
    for (protocol, minutes, threads), group in records.groupby(["protocol", "minutes", "threads"]):
        group = group[group["commit"] == group.sort_values("when")["commit"].iloc[-1]]
        used.append(group)
        rows.append(
            [
                str(protocol),
                f"{minutes:g}",
                f"{threads:.0f}",
                f"{group['trained_steps'].mean():,.0f}",
                str(len(group)),
                format_mean(group, "mae", ".2f"),
                format_mean(group, "crps"),
                format_mean(group, "coverage", ".1%"),
            ]
        )
    return to_markdown(rows, pd.concat(used), "cdsa paper run kdd2015 --methods cdsa")


def our_peers() -> str:
    """All methods on the open networks: error on bursts and on silent stations, and CPU time."""
    records = load("peers")
    records = records[records["mae"].notna()]
    records = records.drop_duplicates(["network", "method", "seed", "hidden"], keep="last")
    networks = list(dict.fromkeys(records["network"]))
    rows = [["method", *(f"{name}, {unit}" for name in networks for unit in ("MAE", "CPU s"))]]
    for method, group in records.groupby("method", sort=False):
        row = [str(method)]
        for name in networks:
            at = group[group["network"] == name].groupby("hidden").mean(numeric_only=True)
            if len(at):
                errors = (f"{at.loc[hidden, 'mae']:.3f}" for hidden in ("bursts", "blocks"))
                row += [" / ".join(errors), f"{at['cpu_seconds'].iloc[0]:.0f}"]
            else:
                row += ["-", "-"]
        rows.append(row)
    return to_markdown(rows, records, "python benchmarks/peers.py --minutes 3 --seed 0")


def our_forecasts() -> str:
    """All methods on forecasts of 24 hours: mean error and errors at some hours ahead."""
    records = load("forecasts")
    records = records.drop_duplicates(["network", "method", "seed", "minutes"], keep="last")
    hours = (1, 3, 6, 12, 24)
    rows = [["network", "method", "seeds", *(f"{hour} h" for hour in hours), "mean", "CPU s"]]
    for (network, method), group in records.groupby(["network", "method"], sort=False):
        errors = [format_mean(group, f"mae_{hour}h") for hour in hours]
        seconds = f"{group['cpu_seconds'].mean():.0f}"
        seeds = str(group["seed"].nunique())
        mean = format_mean(group, "mae")
        rows.append([str(network), str(method), seeds, *errors, mean, seconds])
    return to_markdown(rows, records, "python benchmarks/forecasts.py --minutes 3 --seed 0")


def our_rates(data: str, metric: str, baselines: list[str], table: str) -> str:
    """The default network and baselines at several missing rates, on the same hidden cells; of
    several budgets the last."""
    records = load_paper(data)
    ours = records[records["method"] == "cdsa"]
    ours = ours[ours["minutes"] == ours.groupby("rate")["minutes"].transform("last")]
    paper = paper_tables()[table]
    comparable = data == "kdd2018"
    names = [*baselines, *(["the paper's CDSA"] if comparable else []), "cdsa"]
    last = ["below the best simple one", "in 90% interval", "minutes", "threads", "steps"]
    rows = [["missing", *names, *last]]
    for rate, group in ours.groupby("rate"):
        at = records[(records["rate"] == rate) & records["seed"].isin(group["seed"])]
        simple = {name: at[at["method"] == name][metric].mean() for name in baselines}
        published = paper.figure("cdsa-paper", f"{rate:g}", metric) if comparable else None
        rows.append(
            [
                f"{rate:.0%}",
                *(f"{value:.3f}" for value in simple.values()),
                *([f"{published:.3f}"] if comparable else []),
                f"**{format_mean(group, metric)}**",
                f"{1 - group[metric].mean() / min(simple.values()):.1%}",
                format_mean(group, "coverage", ".1%"),
                format_mean(group, "minutes", "g"),
                f"{group['threads'].mean():.0f}",
                f"{group['trained_steps'].mean():,.0f}",
            ]
        )
    return to_markdown(rows, ours, f"cdsa paper run {table} --methods cdsa")


def our_kdd2018() -> str:
    return our_rates("kdd2018", "mse", ["linear"], "kdd2018")


def our_nyc() -> str:
    return our_rates("nyc-traffic", "rmse", ["linear", "knn"], "nyc")


def our_intervals() -> str:
    """Coverage of 90% intervals, by gap length and at the worst station."""
    classes = [str(name) for name, _ in GAP_CLASSES]
    rows = [["data", "minutes", "overall", *(f"gaps of {c}" for c in classes), "worst station"]]
    all_records = []
    for data, cells in (("kdd2015-pm25", "test-months"), ("kdd2018", "all")):
        records = load_paper(data, method="cdsa", cells=cells)
        if "coverage_worst_station" not in records:
            raise NotMeasuredError(data)
        records = records[records["coverage_worst_station"].notna()]
        all_records.append(records)
        for (protocol, rate, minutes), group in records.groupby(
            ["protocol", "rate", "minutes"], dropna=False
        ):
            label = f"{data}, {protocol}" if pd.isna(rate) else f"{data}, {rate:.0%} missing"
            by_gap = [
                format_mean(group, f"coverage_gap_{c}", ".1%")
                if group.get(f"count_gap_{c}", pd.Series([0])).sum() >= MIN_CELLS
                else "-"
                for c in classes
            ]
            overall = format_mean(group, "coverage", ".1%")
            worst = format_mean(group, "coverage_worst_station", ".1%")
            rows.append([label, f"{minutes:g}", overall, *by_gap, worst])
    commands = "cdsa paper run kdd2015 --methods cdsa`, `cdsa paper run kdd2018 --methods cdsa"
    return to_markdown(rows, pd.concat(all_records), commands)


def our_metr_la() -> str:
    """Forecasts an hour ahead, with the longest budget of each method."""
    records = load_paper("metr-la")
    baselines = ["fc-lstm", "mtsi", "brits", "dcrnn", "dst-gcnn", "gaan"]
    methods = ["last", "climatology", *baselines, "cdsa-paper-forecast", "cdsa"]
    records = records[records["method"].isin(methods) & records["loss"].isna()]
    rows = [["protocol", "method", "15 min", "30 min", "60 min", "mean", "minutes"]]
    for protocol in ("80/20", "70/10/20"):
        for method in methods:
            group = records[(records["protocol"] == protocol) & (records["method"] == method)]
            group = group[(group["minutes"] == group["minutes"].max()) | group["minutes"].isna()]
            if len(group):
                groups = [group[group["horizon"] == h] for h in ("15", "30", "60", "mean")]
                errors = [format_mean(group, "mae", ".2f") for group in groups]
                rows.append([protocol, method, *errors, format_mean(groups[0], "minutes", "g")])
    return to_markdown(rows, records, "cdsa paper run metr-la")


def our_stations() -> str:
    """Whole stations hidden."""
    records = load_latest("default", "stations")
    means = records.pivot_table("mae", "draw", "method", sort=False)
    below = [name for name in means.columns if name != "cdsa"]
    rows = [["6 of 36 stations", *means.columns, *(f"below {name}" for name in below)]]
    for draw, row in [*means.iterrows(), ("mean", means.mean())]:
        cells = [f"{value:.2f}" for value in row]
        label = f"draw {draw:.0f}" if draw != "mean" else "mean"
        rows.append([label, *cells, *(f"{1 - row['cdsa'] / row[name]:.1%}" for name in below)])
    return to_markdown(rows, records)


def our_weather() -> str:
    """Temperature and humidity."""
    records = load_latest("default", "weather")
    means = records.pivot_table("mae", ["data", "cells"], "method", sort=False)
    rows = [["data", "hidden", "linear", "cdsa", "below"]]
    for (data, cells), row in means.iterrows():
        below = f"{1 - row['cdsa'] / row['linear']:.1%}"
        rows.append([data, cells, f"{row['linear']:.3f}", f"{row['cdsa']:.3f}", below])
    return to_markdown(rows, records)


def our_expected() -> str:
    """The error that a score expects before a fill, and the actual one."""
    records = load_latest("default", "expected")
    rows = [["data", "method", "expected", "actual", "difference"]]
    keys = ["data", "rate", "method"]
    for (data, rate, method), group in records.groupby(keys, sort=False, dropna=False):
        difference = group["expected"].mean() / group["actual"].mean() - 1
        errors = [format_mean(group, name, ".2f") for name in ("expected", "actual")]
        label = data if pd.isna(rate) else f"{data}, {rate:.0%} missing"
        rows.append([label, method, *errors, f"{difference:+.1%}"])
    return to_markdown(rows, records)


def our_explanations() -> str:
    """How deleting the cells with the largest contributions changes a value."""
    records = load("explanations").drop_duplicates("method", keep="last")
    rows = [["network", "minutes", "values", "changed more by the top ten", "their share"]]
    rows += [
        [r.method, f"{r.minutes:g}", f"{r.cases}", f"{r.moved_more:.1%}",
         f"{r.share_of_deleted:.1%}"]
        for r in records.itertuples()
    ]  # fmt: skip
    return to_markdown(rows, records, "python benchmarks/explanations.py")


TABLES = {
    table.__name__: table
    for table in (
        our_pm25,
        our_peers,
        our_forecasts,
        our_kdd2018,
        our_nyc,
        our_intervals,
        our_metr_la,
        our_stations,
        our_weather,
        our_expected,
        our_explanations,
    )
}
