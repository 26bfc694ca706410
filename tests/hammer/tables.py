"""Tables that are damaged at random, filled by the command line, and what must hold afterwards.

A case is a number. It chooses a valid table in some layout and format, mutations of its text, and
options. The same number always gives the same case, so a failure is repeated by its number, and
shrunk by leaving out mutations and options.
"""

import contextlib
import gzip
import io
import json
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd

import cdsa
from cdsa.cli import main
from cdsa.io.options import OPTIONS
from cdsa.io.source import open_source, save_cube

CPU_SECONDS = 20
MAX_MIB = 1024

ODD_ENTRIES = (
    *("", " ", "NaN", "nan", "NA", "null", "-", "--", "abc", "inf", "-inf", "1e400", "-1e308"),
    *("1e300", "1e-320", "-0.0", "0", "00012", "+5", " 7 ", "1,5", "1.234,5", "1 000", "1_000"),
    *("0x1F", "٣", "½", "1e5", "9" * 400, "0." + "1" * 300, "\u2212" + "5", "12%", "1/3", "True"),
    *("=1+1", "'5", '"', '"a', "a\nb", "\t", "\0", "[/red]", "<b>", "\ud7ff", "-999", "999999"),
)
ODD_TIMES = (
    *(
        "",
        "0",
        "now",
        "2020-13-01",
        "2020-02-30 00:00",
        "1677-01-01",
        "2300-01-01",
        "24:00",
        "9999",
    ),
    *("2020-01-01T24:00", "2020-01-01 00:00:00.123456789", "2020-01-01T00:00Z", "20200101"),
    *("2020-01-01 00:00+25:00", "01/02/2020 00:00", "1577836800", "2020-W01-1", "Jan 1 2020"),
    *("2020-01-01 00:00 +01:00", "2020-01-01T00:00:00-11:30", "12:00", "2020-001", "x" * 200),
)
ODD_NAMES = (
    *("", " ", "time", "station", "value", "lat", "lon", "x,y", 'q"q', "line\nbreak", "[/cm3]"),
    *("[bold]", "<script>", "a" * 300, "NaN", "0", "-", "Ä ö", "日本", "x [cm]", "y (°C)", "qc"),
    *("{station}", "pm25_flag", "=cmd()", "../../etc", "\u202e", "Unnamed: 0", "a_b", "c.d"),
)
SEPARATORS = (";", "\t", "|", " ")
TIME_FORMATS = (
    *("%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M", "%Y%m%d%H%M"),
    *("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M+01:00", "%d/%m/%y %H:%M"),
)

Rng = np.random.Generator
Grid = list[list[str]]
"""The entries of a table, the header first."""


@dataclass(frozen=True)
class Case:
    """A table, what is done to it, and the options of the fill."""

    number: int
    mutations: tuple[int, ...] = ()
    """Positions in `MUTATIONS`."""

    options: dict[str, str] = field(default_factory=dict)
    """Reading options by name."""

    words: tuple[str, ...] = ()
    """Other words of the command."""

    suffix: str = ".csv"

    def describe(self) -> dict[str, object]:
        names = [MUTATIONS[n].__name__ for n in self.mutations]
        return {
            "case": self.number,
            "mutations": names,
            "options": self.options,
            "words": list(self.words),
            "suffix": self.suffix,
        }


def pick(rng: Rng, choices):
    return choices[int(rng.integers(len(choices)))]


# --- valid tables ---------------------------------------------------------------------------------


def valid_table(rng: Rng) -> Grid:
    """A small table in any layout."""
    n_steps, n_stations = int(rng.integers(2, 40)), int(rng.integers(1, 5))
    measurements = [str(x) for x in rng.permutation(["pm25", "temp", "rain", "x y"])][
        : int(rng.integers(1, 4))
    ]
    step = pick(rng, ["1min", "10min", "1h", "1D", "7D", "MS"])
    start = pick(rng, ["2020-01-01", "2019-12-31 23:00", "2024-03-30", "2024-10-26 20:00"])
    form = pick(rng, TIME_FORMATS[:3]) if rng.random() < 0.8 else pick(rng, TIME_FORMATS)
    times = pd.date_range(start, periods=n_steps, freq=step).strftime(form).tolist()
    stations = [pick(rng, ["A", "st ", "S-", "0", "Ü"]) + str(n) for n in range(n_stations)]
    decimals, missing = int(rng.integers(0, 4)), rng.random() * 0.6
    base = np.cumsum(rng.normal(size=(n_steps, n_stations, len(measurements))), axis=0)
    values = np.abs(base) if rng.random() < 0.3 else 20 + 5 * base
    texts = np.vectorize(lambda x: f"{x:.{decimals}f}")(values)
    texts[rng.random(texts.shape) < missing] = ""
    located = rng.random() < 0.7
    match pick(rng, ["panel", "long", "wide", "pairs", "single"]):
        case "panel":
            head = ["time", "station", *(["lat", "lon"] if located else []), *measurements]
            rows = [
                [
                    time,
                    name,
                    *([f"{50 + l / 10}", f"{8 + l / 7:.3f}"] if located else []),
                    *texts[t, l],
                ]
                for t, time in enumerate(times)
                for l, name in enumerate(stations)  # noqa: E741
            ]
        case "long":
            head = ["date", "site", "parameter", "value"]
            rows = [
                [time, name, kind, texts[t, l, m]]
                for t, time in enumerate(times)
                for l, name in enumerate(stations)  # noqa: E741
                for m, kind in enumerate(measurements)
            ]
        case "wide":
            head = ["timestamp", *stations]
            rows = [[time, *texts[t, :, 0]] for t, time in enumerate(times)]
        case "pairs":
            head = ["time", *(f"{s}_{m}" for s in stations for m in measurements)]
            rows = [[time, *texts[t].ravel()] for t, time in enumerate(times)]
        case _:
            head = ["time", *measurements]
            rows = [[time, *texts[t, 0]] for t, time in enumerate(times)]
    return [head, *[[str(entry) for entry in row] for row in rows]]


# --- mutations ------------------------------------------------------------------------------------


def _cell(grid: Grid, rng: Rng) -> tuple[int, int]:
    row = int(rng.integers(1, len(grid))) if len(grid) > 1 else 0
    return row, int(rng.integers(len(grid[row]))) if grid[row] else 0


def odd_entry(grid: Grid, rng: Rng) -> None:
    row, column = _cell(grid, rng)
    if grid[row]:
        grid[row][column] = pick(rng, ODD_ENTRIES)


def odd_column(grid: Grid, rng: Rng) -> None:
    column, entry = _cell(grid, rng)[1], pick(rng, ODD_ENTRIES)
    for row in grid[1:]:
        if column < len(row) and rng.random() < 0.5:
            row[column] = entry


def odd_time(grid: Grid, rng: Rng) -> None:
    row, _ = _cell(grid, rng)
    if grid[row]:
        grid[row][0] = pick(rng, ODD_TIMES)


def odd_name(grid: Grid, rng: Rng) -> None:
    if grid[0]:
        grid[0][int(rng.integers(len(grid[0])))] = pick(rng, ODD_NAMES)


def odd_station(grid: Grid, rng: Rng) -> None:
    name, entry = grid[min(1, len(grid) - 1)][1:2], pick(rng, ODD_NAMES)
    for row in grid[1:]:
        if row[1:2] == name:
            row[1] = entry


def drop_rows(grid: Grid, rng: Rng) -> None:
    grid[1:] = [row for row in grid[1:] if rng.random() < 0.7]


def repeat_rows(grid: Grid, rng: Rng) -> None:
    grid += [list(grid[_cell(grid, rng)[0]]) for _ in range(int(rng.integers(1, 4)))]


def shuffle_rows(grid: Grid, rng: Rng) -> None:
    grid[1:] = [grid[1 + n] for n in rng.permutation(len(grid) - 1)]


def cut_row(grid: Grid, rng: Rng) -> None:
    row, column = _cell(grid, rng)
    del grid[row][column:]


def lengthen_row(grid: Grid, rng: Rng) -> None:
    grid[_cell(grid, rng)[0]] += ["1"] * int(rng.integers(1, 4))


def drop_column(grid: Grid, rng: Rng) -> None:
    column = _cell(grid, rng)[1]
    for row in grid:
        del row[column : column + 1]


def add_column(grid: Grid, rng: Rng) -> None:
    name, entry = pick(rng, (*ODD_NAMES, "note", "extra")), pick(rng, ODD_ENTRIES)
    for number, row in enumerate(grid):
        row.append(name if number == 0 else entry if rng.random() < 0.8 else str(number))


def swap_columns(grid: Grid, rng: Rng) -> None:
    order = rng.permutation(len(grid[0]))
    for number, row in enumerate(grid):
        if len(row) == len(order):
            grid[number] = [row[n] for n in order]


def empty_column(grid: Grid, rng: Rng) -> None:
    column = _cell(grid, rng)[1]
    for row in grid[1:]:
        if column < len(row):
            row[column] = ""


def constant_column(grid: Grid, rng: Rng) -> None:
    column, entry = _cell(grid, rng)[1], pick(rng, ["0", "5.5", "-3", "1e-18", "1e15"])
    for row in grid[1:]:
        if column < len(row) and row[column]:
            row[column] = entry


def scaled_column(grid: Grid, rng: Rng) -> None:
    column, factor = _cell(grid, rng)[1], 10.0 ** int(rng.integers(-20, 20))
    for row in grid[1:]:
        with contextlib.suppress(ValueError, IndexError):
            row[column] = repr(float(row[column]) * factor)


def spike(grid: Grid, rng: Rng) -> None:
    row, column = _cell(grid, rng)
    if column < len(grid[row]):
        grid[row][column] = "1e9"


def no_rows(grid: Grid, rng: Rng) -> None:
    del grid[1:]


def one_row(grid: Grid, rng: Rng) -> None:
    del grid[2:]


def other_coordinates(grid: Grid, rng: Rng) -> None:
    for name in ("lat", "lon"):
        if name in grid[0]:
            row = _cell(grid, rng)[0]
            column = grid[0].index(name)
            if column < len(grid[row]):
                grid[row][column] = pick(rng, ["", "91", "-181", "50", "x", "1e308"])


def units_row(grid: Grid, rng: Rng) -> None:
    grid.insert(1, ["", *["[cm]" for _ in grid[0][1:]]])


def preamble(grid: Grid, rng: Rng) -> None:
    grid[:0] = [["logger 5"], ["serial", "7"]][: int(rng.integers(1, 3))]


def mixed_time_formats(grid: Grid, rng: Rng) -> None:
    for row in grid[1:]:
        if row and rng.random() < 0.3:
            row[0] = row[0].replace(" ", "T")


def split_time(grid: Grid, rng: Rng) -> None:
    for number, row in enumerate(grid):
        if row:
            date, _, time = row[0].replace("T", " ").partition(" ")
            row[:1] = ["date", "time"] if number == 0 else [date, time]


MUTATIONS: tuple[Callable[[Grid, Rng], None], ...] = (
    odd_entry, odd_column, odd_time, odd_name, odd_station, drop_rows, repeat_rows, shuffle_rows,
    cut_row, lengthen_row, drop_column, add_column, swap_columns, empty_column, constant_column,
    scaled_column, spike, no_rows, one_row, other_coordinates, units_row, preamble,
    mixed_time_formats, split_time,
)  # fmt: skip


# --- bytes ----------------------------------------------------------------------------------------


def to_text(grid: Grid, separator: str, newline: str) -> str:
    frame_rows = []
    for row in grid:
        entries = [
            '"' + entry.replace('"', '""') + '"'
            if any(mark in entry for mark in (separator, '"', "\n"))
            else entry
            for entry in row
        ]
        frame_rows.append(separator.join(entries))
    return newline.join(frame_rows) + newline


def odd_bytes(data: bytes, rng: Rng) -> bytes:
    """Sometimes the bytes of a text are damaged too."""
    match int(rng.integers(12)):
        case 0:
            return data[: int(rng.integers(len(data) + 1))]
        case 1:
            return b"\xef\xbb\xbf" + data
        case 2:
            position = int(rng.integers(len(data) + 1))
            return data[:position] + bytes([int(rng.integers(256))]) + data[position:]
        case 3:
            return data + b"\n\n \n"
    return data


OPTION_VALUES: dict[str, tuple[str, ...]] = {
    "layout": ("panel", "long", "wide"),
    "time": ("time", "date", "timestamp", "date,time", "lat", "nothing"),
    "location": ("station", "site", "time", "lat"),
    "measurement": ("parameter", "station"),
    "value": ("value", "pm25"),
    "column_pattern": ("{station}_{measurement}", "{measurement}_{station}", "{station}"),
    "measurements": ("pm25", "temp,rain", "no", "pm25,pm25"),
    "missing": ("-999", "0", "abc,-", "nan", "1e400"),
    "step": ("1min", "1h", "6h", "1d", "1month", "0h", "x", "90min", "1us"),
    "duplicates": ("mean", "first"),
    "tz": ("UTC", "Europe/Berlin", "+05:30", "Mars/Base"),
    "time_format": (*TIME_FORMATS, "unix", "unix-ms", "mixed", "ISO8601", "%Y", "%%", "%Q"),
    "directions": ("temp", "pm25", "no"),
    "bounds": ("pm25=0:", "temp=0:100", "rain=:", "pm25=5:1", "pm25=1e308:", "x", "temp=nan:"),
    "digits": ("pm25=1", "temp=0", "rain=15", "pm25=99", "pm25=-1"),
    "units": ("pm25=ug/m3", "temp=[/red]", "rain="),
    "skip_rows": ("1", "2", "1,3", "2-2", "x", "0"),
    "separator": (*SEPARATORS, ",", "tab", "ab", ""),
    "decimal": (".", ","),
    "encoding": ("utf-8", "latin-1", "utf-16", "punycode", "nothing"),
    "lat": ("lat", "x"),
    "coordinates": ("false",),
}  # fmt: skip
WORDS = (
    *(("--max-gap", "3h"), ("--max-gap", "2d"), ("--max-gap", "x"), ("--extend",)),
    *(("--interval", "0.5"), ("--interval", "1.5"), ("--overwrite",), ("--no-check",), ("--json",)),
    *(("--method", "last"), ("--method", "mean"), ("--method", "idw"), ("--method", "climatology")),
)


def make_case(number: int) -> Case:
    rng = np.random.default_rng([number, 1])
    n_mutations = int(rng.choice([0, 0, 1, 1, 2, 3]))
    names = rng.permutation(list(OPTION_VALUES))[: int(rng.choice([0, 0, 0, 1, 1, 2]))]
    words: list[str] = ["--no-check"] if rng.random() < 0.8 else []
    for n in rng.permutation(len(WORDS))[: int(rng.choice([0, 0, 1, 2]))]:
        words += WORDS[n]
    return Case(
        number,
        tuple(int(n) for n in rng.integers(len(MUTATIONS), size=n_mutations)),
        {str(name): pick(rng, OPTION_VALUES[str(name)]) for name in names},
        tuple(words),
        pick(rng, [".csv", ".csv", ".csv", ".csv.gz", ".parquet", ".nc", ".zarr"]),
    )


def table_of(case: Case) -> tuple[Grid, bytes]:
    rng = np.random.default_rng([case.number, 2])
    grid = valid_table(rng)
    for n in case.mutations:
        with contextlib.suppress(IndexError):
            MUTATIONS[n](grid, np.random.default_rng([case.number, 3, n]))
    rng = np.random.default_rng([case.number, 4])
    separator = "," if rng.random() < 0.8 else pick(rng, SEPARATORS)
    encoding = pick(rng, ["utf-8"] * 9 + ["utf-16"])
    text = to_text(grid, separator, pick(rng, ["\n", "\n", "\r\n"]))
    data = text.encode(encoding, "surrogatepass")
    return grid, odd_bytes(data, rng) if case.mutations else data


def write_table(case: Case, folder: Path) -> Path | None:
    """The file of a case; None if it has no such form."""
    grid, data = table_of(case)
    path = folder / f"in{case.suffix}"
    if case.suffix == ".csv":
        path.write_bytes(data)
    elif case.suffix == ".csv.gz":
        path.write_bytes(gzip.compress(data))
    elif case.suffix == ".parquet":
        width = max(map(len, grid), default=0)
        rows = [row + [""] * (width - len(row)) for row in grid[1:]]
        head = [*grid[0], *[f"extra{n}" for n in range(width - len(grid[0]))]]
        frame = pd.DataFrame(rows, columns=head)
        if frame.columns.duplicated().any():
            return None
        for name in frame.columns:
            with contextlib.suppress(ValueError, TypeError, OverflowError):
                frame[name] = pd.to_numeric(frame[name].replace("", np.nan))
        try:
            frame.to_parquet(path)
        except Exception:  # no such file can be
            return None
    else:
        plain = folder / "plain.csv"
        plain.write_bytes(data)
        try:
            save_cube(_open(plain, case), path)
        except cdsa.CdsaError:
            return None
        finally:
            plain.unlink()
    return path


# --- what must hold -------------------------------------------------------------------------------


class WrongError(AssertionError):
    """Something that must hold does not."""


def command_of(case: Case, path: Path, output: Path) -> list[str]:
    words = ["fill", str(path), "-o", str(output)]
    words += [] if "--method" in case.words else ["--method", "linear"]
    for name, value in case.options.items():
        flag = OPTIONS[name].command_line_flag
        words += ["--no-coordinates"] if name == "coordinates" else [flag, value]
    return [*words, *case.words]


def run_command(words: list[str]) -> tuple[int, str, str]:
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", ["cdsa", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return code, out.getvalue(), err.getvalue()


def check(case: Case) -> str:
    """'filled', 'refused' or 'no such file'; raises what went wrong."""
    with tempfile.TemporaryDirectory(prefix="hammer-") as name:
        folder = Path(name)
        path = write_table(case, folder)
        if path is None:
            return "no such file"
        output = folder / f"out{case.suffix}"
        code, _, errors = run_command(command_of(case, path, output))
        if code not in (0, 2):
            raise WrongError(f"exit code {code}: {errors[-500:]}")
        if "Traceback" in errors:
            raise WrongError(f"traceback: {errors[-800:]}")
        extra = {p.name for p in folder.iterdir()} - {path.name, output.name}
        if extra:
            raise WrongError(f"leftovers: {extra}")
        if code == 2:
            if output.exists():
                raise WrongError("refused, but an output was written")
            if not errors.strip():
                raise WrongError("refused without a message")
            return "refused"
        _check_output(case, path, output)
        if case.suffix == ".csv" and not case.mutations:
            _check_order(case, path, output, folder)
        return "filled"


def _open(path: Path, case: Case):
    options = {name: False if value == "false" else value for name, value in case.options.items()}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return open_source(path, **options).cube


def _check_output(case: Case, path: Path, output: Path) -> None:
    before, after = _open(path, case), _open(output, case)
    for axis in ("time", "location", "measurement"):
        if set(before[axis].to_numpy().tolist()) - set(after[axis].to_numpy().tolist()):
            raise WrongError(f"the output lacks some {axis}s")
    if case.options.get("duplicates") == "mean":  # filled entries count in the next mean
        return
    same = after.sel({axis: before[axis] for axis in before.dims}).to_numpy()
    measured = before.notnull().to_numpy()
    if not np.array_equal(same[measured], before.to_numpy()[measured]):
        raise WrongError("a measured value changed")
    if len(after["time"]) != len(before["time"]):
        raise WrongError("the output has other time steps")
    if np.isinf(same).any():
        raise WrongError("an infinite value was filled in")


def _check_order(case: Case, path: Path, output: Path, folder: Path) -> None:
    """The order of rows does not matter; only for tables that are valid."""
    lines = path.read_bytes().splitlines(keepends=True)
    rng = np.random.default_rng([case.number, 5])
    skipped = len(lines) if "skip_rows" in case.options else 1
    rows = lines[skipped:]
    path.write_bytes(b"".join([*lines[:skipped], *[rows[n] for n in rng.permutation(len(rows))]]))
    other = folder / "other.csv"
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError:
        return
    if '"' in text or "duplicates" in case.options:
        return
    code, _, errors = run_command(command_of(case, path, other))
    if code:
        if "tz" in case.options:  # the second of a repeated hour is known by its row
            return
        raise WrongError(f"refused after its rows were shuffled: {errors[-300:]}")
    one, two = _open(output, case), _open(other, case)
    if not two.sel({axis: one[axis] for axis in one.dims}).equals(one):
        raise WrongError("the order of rows changed a value")


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Raise an error after too much CPU time."""

    def stop(*_):
        raise WrongError(f"more than {CPU_SECONDS} s of CPU time")

    old = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)


def failure_of(case: Case) -> str | None:
    """What goes wrong in a case, None if nothing does."""
    before = peak_mib()
    try:
        with limited():
            check(case)
    except WrongError as wrong:
        return str(wrong)
    except Exception:
        return "".join(traceback.format_exc()[-1500:])
    mib = peak_mib()
    return f"{mib:.0f} MiB" if mib > max(MAX_MIB, before) else None


def peak_mib() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def shrink(case: Case) -> Case:
    """A case with fewer mutations and options that still fails."""
    smaller = True
    while smaller:
        smaller = False
        candidates = [
            replace(case, mutations=(*case.mutations[:n], *case.mutations[n + 1 :]))
            for n in range(len(case.mutations))
        ]
        candidates += [
            replace(case, options={k: v for k, v in case.options.items() if k != name})
            for name in case.options
        ]
        candidates += [replace(case, words=())] if case.words else []
        candidates += [replace(case, suffix=".csv")] if case.suffix != ".csv" else []
        for candidate in candidates:
            if failure_of(candidate):
                case, smaller = candidate, True
                break
    return case


def report(case: Case, failure: str) -> str:
    return json.dumps(case.describe() | {"failure": failure}, ensure_ascii=False)
