"""Tables of the time and memory of the default network, of all methods, and of the server."""

from results import NotMeasuredError, load, load_latest, to_markdown


def our_step() -> str:
    """A training step, relative to the machine's peak."""
    records = load_latest("default", "step")
    rows = [["window", "windows a step", "threads", "seconds", "share of the matmul peak"]]
    rows += [
        [r.window.replace("x", " x "), f"{r.batch_size:.0f}", f"{r.threads:.0f}",
         f"{r.seconds:.3f}", f"{r.share_of_peak:.1%}"]
        for r in records.itertuples()
    ]  # fmt: skip
    return to_markdown(rows, records)


def our_throughput() -> str:
    """Training windows per CPU second, compared with an earlier commit."""
    records = load("default")
    records = records[records["what"] == "throughput"]
    if not len(records):
        raise NotMeasuredError("throughput")
    records = records[records["when"] == records.groupby("size")["when"].transform("max")]
    head = ["window", "code", "windows per CPU s", "ratio", "windows", "error on hidden cells"]
    rows = [head]
    for size, group in records.groupby("size", sort=False):
        rate = group["windows_per_cpu_second"]
        for r in group.itertuples():
            name = f"commit {r.against}" if r.code == "earlier" else "now"
            ratio = f"{r.windows_per_cpu_second / rate.iloc[0]:.2f}"
            speed = f"{r.windows_per_cpu_second:.1f}"
            window = str(size).replace("x", " x ")
            rows.append([window, name, speed, ratio, f"{r.windows:,.0f}", f"{r.mae:.4f}"])
    return to_markdown(rows, records, "python benchmarks/throughput.py")


def our_kalman_seconds() -> str:
    """CPU seconds in which kalman is fitted and fills, compared with an earlier commit."""
    records = load("default")
    records = records[records["what"] == "kalman seconds"]
    if not len(records):
        raise NotMeasuredError("kalman seconds")
    records = records[records["when"] == records.groupby("size")["when"].transform("max")]
    head = ["stations x measurements", "code", "fit, CPU s", "fill, CPU s", "error on hidden cells"]
    rows = [head]
    for r in records.itertuples():
        name = f"commit {r.against}" if r.code == "earlier" else "now"
        seconds = (f"{r.cpu_seconds_fit:.1f}", f"{r.cpu_seconds_fill:.1f}")
        series = str(r.size).partition("x")[2].replace("x", " x ")
        rows.append([series, name, *seconds, f"{r.mae:.4f}"])
    return to_markdown(rows, records, "python benchmarks/throughput.py --method kalman")


def our_hammer() -> str:
    """Random damage: the last run of each kind and seed."""
    records = load("hammer").drop_duplicates(["kind", "seed"], keep="last")
    rows = [["kind", "seed", "cases", "failed", "of the others", "slowest, CPU s", "peak, MiB"]]
    for r in records.itertuples():
        figures = [f"{r.seed}", f"{r.cases:,}", f"{r.failed:,}", r.outcomes]
        rows.append([r.kind, *figures, f"{r.slowest_cpu_seconds:.1f}", f"{r.peak_mib:.0f}"])
    return to_markdown(rows, records, "make hammer")


def our_parallel() -> str:
    """The same step on one core and on all cores, with waiting threads that spin or sleep."""
    records = load_latest("default", "parallel")
    means = records.pivot_table("times_faster", ["window", "wait"], "execution", sort=False)
    rows = [["window", "waiting threads", "PyTorch's threads", "data parallel"]]
    for (window, wait), row in means.iterrows():
        speeds = (row["torch's threads"], row["data parallel"])
        cells = (f"{speed:.2f} x one core" for speed in speeds)
        rows.append([window.replace("x", " x "), wait, *cells])
    return to_markdown(rows, records)


def our_fill() -> str:
    """Time to fill a year of hours at 36 stations."""
    records = load_latest("default", "fill")
    rows = [["a year at 36 stations", "seconds"]]
    rows += [[r.filled, f"{r.seconds:.1f}"] for r in records.itertuples()]
    return to_markdown(rows, records)


def our_memory() -> str:
    """Peak memory for one year and for ten."""
    records = load_latest("default", "memory")
    rows = [["steps", "MiB before", "MiB at the peak", "MiB filled"]]
    rows += [
        [f"{r.steps:,.0f}", f"{r.before_mib:.0f}", f"{r.mib:.0f}", f"{r.out_mib:.0f}"]
        for r in records.itertuples()
    ]
    return to_markdown(rows, records)


def our_race() -> str:
    """CPU time to reach an error of 12."""
    records = load_latest("default", "race")
    rows = [["method", "CPU seconds", "MAE then"]]
    for name, group in records.groupby("method", sort=False):
        last = group.iloc[-1]
        rows.append([str(name), f"{last['cpu_seconds']:.0f}", f"{last['mae']:.2f}"])
    return to_markdown(rows, records)


def our_baselines() -> str:
    """Memory and time of every method on tables of the paper's sizes."""
    records = load("baselines").drop_duplicates(["method", "shape", "task"], keep="last")
    shapes = list(records["shape"].unique())
    heads = (f"{shape.replace('x', ' x ')}, {unit}" for shape in shapes for unit in ("MiB", "s"))
    rows = [["method", "task", *heads]]
    for (name, task), group in records.groupby(["method", "task"], sort=False):
        by_shape = group.set_index("shape").reindex(shapes)
        values = by_shape[["mib", "seconds"]].to_numpy().ravel()
        cells = (f"{value:,.0f}" if value == value else "-" for value in values)
        rows.append([str(name), str(task), *cells])
    return to_markdown(rows, records, "python benchmarks/baselines.py")


def our_server() -> str:
    """The server under load."""
    records = load_latest("serving")
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
    return to_markdown(rows, records)


TABLES = {
    table.__name__: table
    for table in (
        our_step,
        our_throughput,
        our_kalman_seconds,
        our_hammer,
        our_parallel,
        our_fill,
        our_memory,
        our_race,
        our_baselines,
        our_server,
    )
}
