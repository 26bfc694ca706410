"""What a report tells of a fill, and which of its cells are worth a look."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import xarray as xr

from cdsa.core.config import to_dict
from cdsa.core.cube import is_direction
from cdsa.core.gaps import gap_starts, run_lengths
from cdsa.core.metrics import standard_deviations
from cdsa.core.records import Value
from cdsa.core.text import format_interval
from cdsa.core.times import Clock
from cdsa.io.source import Source
from cdsa.workflows.score import Score
from cdsa.workflows.select import Chosen, main_part

WORST = 15


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportContent:
    """All that a report tells."""

    name: str
    """Of the file that was filled."""

    cube: xr.DataArray
    """As it was read."""

    result: xr.Dataset
    """As it was filled."""

    method: str
    parts: Mapping[str, str] = field(default_factory=dict)
    """Measurements that were filled by another method, and its name."""

    expected: Score | None = None
    """How what filled did on hidden cells."""

    scores: Sequence[Score] = ()
    """How all methods did that were tried on the same cells."""

    errors: Sequence[Mapping[str, Value]] = ()
    """Errors of a network's own exam, where no cells were hidden for it."""

    messages: Sequence[str] = ()
    """What was said of the choice."""

    settings: Mapping[str, object] = field(default_factory=dict)
    command: str = ""
    clock: Clock = field(default_factory=Clock)
    """How the file writes its times."""

    @property
    def interval(self) -> str:
        """Which interval filled cells have, such as '90% interval'; empty if they have none."""
        if not has_intervals(self.result):
            return ""
        return format_interval(self.result.attrs.get("interval"))

    def format_time(self, time: np.datetime64) -> str:
        """A time as the file writes it."""
        return self.clock.format(np.array([time], dtype="datetime64[ns]"))[0]


def collect(
    source: Source, result: xr.Dataset, choice: Chosen, *, name: str, command: str
) -> ReportContent:
    """What is to be told of a fill that was planned and carried out."""
    made = getattr(main_part(choice.filler), "method", None)
    return ReportContent(
        name=name,
        cube=source.cube,
        result=result,
        clock=source.content.clock,
        method=choice.best,
        parts=choice.parts,
        expected=choice.expected,
        scores=choice.scores,
        errors=choice.errors,
        messages=choice.told,
        settings={} if made is None else to_dict(made),
        command=command,
    )


def cells_to_check(story: ReportContent) -> pd.DataFrame:
    """Filled cells to check by hand, one of each gap and some of every measurement: those with the
    widest intervals or, where there are none, in the longest gaps."""
    result, cube = story.result, story.cube
    filled = (result["source"] == "filled").to_numpy()
    missing = cube.isnull().to_numpy()
    runs = run_lengths(missing)
    doubt = runs.astype(np.float64)
    if has_intervals(result):
        width = (result["upper"] - result["lower"]).to_numpy()
        turned = np.where(width >= 360, 360.0, width % 360)  # a direction's runs clockwise
        doubt = np.where(is_direction(cube), turned, width) / standard_deviations(cube)
    number = np.arange(len(missing))[:, None, None]
    first = np.maximum.accumulate(np.where(gap_starts(missing), number, 0), axis=0)
    where = np.argwhere(filled & np.isfinite(doubt))
    order = where[np.argsort(-doubt[tuple(where.T)], kind="stable")]
    gaps = np.column_stack([first[tuple(order.T)], order[:, 1:]])
    _, foremost = np.unique(gaps, axis=0, return_index=True)
    chosen = pd.DataFrame(order[np.sort(foremost)], columns=["t", "l", "m"])
    turn = chosen.groupby("m").cumcount().to_numpy()  # the worst of each first, then the second ...
    chosen = chosen.iloc[np.argsort(turn, kind="stable")[:WORST]]
    ends = [end for end in ("lower", "upper") if end in result]
    return pd.DataFrame(
        [
            {
                "step": t,
                "time": cube["time"].to_numpy()[t],
                "location": str(cube["location"].to_numpy()[l]),
                "measurement": str(cube["measurement"].to_numpy()[m]),
                "value": float(result["value"].to_numpy()[t, l, m]),
                "lower": np.nan,
                "upper": np.nan,
                **{end: float(result[end].to_numpy()[t, l, m]) for end in ends},
                "gap": int(runs[t, l, m]),
                "series": (int(l), int(m)),
            }
            for t, l, m in chosen.to_numpy()  # noqa: E741
        ]
    )


def has_intervals(result: xr.Dataset) -> bool:
    """Whether any filled cell has an interval."""
    return "lower" in result and bool(
        result["lower"].where(result["source"] == "filled").notnull().any()
    )
