"""Tables of what the default network and the page's server cost."""

from measured import every, latest, markdown, origin_of


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


def our_rivals() -> str:
    """Memory and time of every method on tables as large as the paper's."""
    records = every("rivals", ["method", "shape", "task"])
    shapes = list(records["shape"].unique())
    heads = (f"{shape.replace('x', ' x ')}, {what}" for shape in shapes for what in ("MiB", "s"))
    rows = [["method", "task", *heads]]
    for (name, task), own in records.groupby(["method", "task"], sort=False):
        found = own.set_index("shape").reindex(shapes)
        cells = zip(found["mib"], found["seconds"], strict=True)
        told = (f"{x:,.0f}" if x == x else "-" for pair in cells for x in pair)
        rows.append([str(name), str(task), *told])
    return markdown(rows, origin_of(records, "python benchmarks/rivals.py"))


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
    table.__name__: table
    for table in (our_step, our_parts, our_fill, our_memory, our_race, our_rivals, our_server)
}
