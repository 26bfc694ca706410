from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from cdsa.core import defaults
from cdsa.core.cube import units_of
from cdsa.core.masks import Bursts, GivenMask
from cdsa.core.metrics import Errors, measure
from cdsa.errors import ConfigError
from cdsa.methods.registry import build_method
from cdsa.workflows.score import Score, compare, hidden_cells, score, summarise
from cdsa.workflows.select import better_for, choose, in_words
from conftest import network


@dataclass(frozen=True)
class Spy:
    """Fills with zeros and remembers every array it was ever shown."""

    seen: list

    def fit(self, cube):
        self.seen.append(cube)
        return self

    def fill(self, cube):
        self.seen.append(cube)
        return cube.fillna(0.0)


WAYS = ["random:0.5", "bursts:0.5", "blocks:0.5", "stations:1", "last:5"]


@pytest.mark.parametrize("test", [None, 0.5])
@pytest.mark.parametrize("hide", WAYS)
def test_a_spying_method_never_sees_a_hidden_cell(hide, test):
    cube = network(steps=80)
    spy = Spy([])
    score(cube, spy, hide, seed=3, test=test)
    hidden = hidden_cells(cube, hide, seed=3, test=test)
    secrets = cube.to_numpy()[hidden.to_numpy()]  # every value is unlike every other: noise
    assert len(spy.seen) == 2 and len(secrets) > 0
    for shown in spy.seen:
        everything = [shown, *shown.coords.values()] + [
            xr.DataArray(v) for v in shown.attrs.values()
        ]
        for part in everything:
            if np.issubdtype(part.dtype, np.floating):
                assert not np.isin(secrets, part.to_numpy()).any()
        base = shown.to_numpy().base  # nor through the memory behind a view
        assert base is None or not np.isin(secrets, np.asarray(base, dtype=float)).any()


@pytest.mark.parametrize("test", [None, 0.5])
def test_changing_the_hidden_truth_changes_no_guess(test):
    cube = network(steps=80)
    hidden = hidden_cells(cube, "bursts:0.4", seed=0, test=test)
    shown = []
    for truth in (cube, cube.where(~hidden, 1e6)):
        spy = Spy([])
        score(truth, spy, GivenMask(hidden=hidden), test=test)
        shown.append(spy.seen)
    assert all(a.identical(b) for a, b in zip(*shown, strict=True))


def test_with_a_test_share_the_method_learns_from_the_start_only():
    cube = network(steps=80)
    spy = Spy([])
    score(cube, spy, "random:0.5", test=0.25)
    learnt, filled = spy.seen
    assert learnt[60:].isnull().all() and learnt[:60].identical(cube[:60])
    assert filled["time"].identical(cube["time"][60:])


def test_every_method_is_asked_for_the_same_cells(cube):
    scores = list(compare(cube, ["mean", "linear"], "bursts:0.4", repeats=2))
    cells = {(s.method, s.repeat): s.errors.by("location")["cells"].tolist() for s in scores}
    assert cells["mean", 0] == cells["linear", 0] and cells["mean", 1] == cells["linear", 1]
    assert cells["mean", 0] != cells["mean", 1]


def test_a_perfect_method_has_no_error(cube):
    @dataclass(frozen=True)
    class Oracle:
        def fit(self, visible):
            return self

        def fill(self, visible):
            return visible.fillna(cube)

    scored = score(cube, Oracle(), "random:0.4")
    assert scored.table()["mae"].item() == 0 and scored.unanswered == 0


def test_cells_left_open_are_reported_not_hidden(cube):
    @dataclass(frozen=True)
    class Lazy:
        def fit(self, visible):
            return self

        def fill(self, visible):
            return visible

    scored = score(cube, Lazy(), "random:0.4")
    assert scored.unanswered == scored.hidden > 0


def test_records_are_flat_and_complete(cube):
    record = score(cube, "linear", "bursts:0.4").records()[0]
    wanted = ["method", "measurement", "hide", "repeat", "mae", "rmse", "mse", "mre", "mape"]
    assert [key for key in record if key in wanted] == wanted and "seconds" in record
    assert all(
        isinstance(value, str | int | float)
        for name, value in record.items()
        if name not in ("crps", "coverage", "width")  # a straight line does not tell them
    )


def test_several_measurements_are_summed_up_in_standard_deviations(cube):
    records = score(cube, "linear", "bursts:0.4").records()
    assert [r["measurement"] for r in records] == ["pm25", "temp", "all"] and records[-1][
        "unit"
    ] == "standard deviations"


def test_the_best_is_marked_once_per_measurement(cube):
    table = summarise(list(compare(cube, ["mean", "linear"], "bursts:0.4", repeats=3)))
    assert table.groupby("measurement")["best"].sum().eq(1).all() and (table["spread"] > 0).all()


def test_expected_error_hides_a_tenth_of_what_is_there(cube):
    expected = score(cube, "linear")
    assert expected.hidden == pytest.approx(0.1 * int(cube.notnull().sum()), abs=1)


def test_too_little_to_hide_is_said():
    cube = network(steps=2, stations=1, measurements=1, missing=0.0)
    with pytest.raises(ConfigError, match="too few measured cells"):
        score(cube, "linear")


def test_no_repeats_are_refused(cube):
    with pytest.raises(ConfigError, match="at least once"):
        list(compare(cube, ["mean"], repeats=0))


def test_a_straight_line_beats_the_mean_on_a_smooth_wave(cube):
    line, mean = (score(cube, m, "random:0.4").table()["mae"].item() for m in ("linear", "mean"))
    assert line < mean / 2


def test_a_score_is_named_as_it_was_asked_for(cube):
    asked = score(cube, "cdsa-paper@small", minutes=0.001)
    assert asked.method == "cdsa-paper@small"


def test_a_method_object_can_be_scored(cube):
    assert score(cube, build_method("linear"), "random:0.4").method == "linear"


def parts_of(errors, cells=300):
    """Scores of methods, by the errors of each on measurements of so many hidden cells."""
    found = []
    for method, by in errors.items():
        cube = network(steps=cells, stations=1, measurements=len(by), missing=0.0)
        hidden = xr.ones_like(cube, dtype=bool)
        told = cube + np.array(list(by))
        sums = measure(told, cube, hidden, cube.where(~hidden))
        found.append(replace(BLANK, method=method, errors=sums, units=units_of(cube)))
    return found


BLANK = Score("x", "given", 0, Errors(pd.DataFrame()), 300, 0, 3, {}, 0.1)


def test_a_measurement_gets_another_method_only_if_that_is_clearly_better():
    scores = parts_of({"one": (1.0, 1.0, 1.0), "two": (0.95, 2.0, 0.5), "three": (9.0, 9.0, 0.6)})
    kinds = [str(kind) for kind in scores[0].table("measurement").index]
    assert better_for(scores, "one") == {kinds[2]: "two"}
    assert better_for(parts_of({"one": (1.0,), "two": (0.1,)}, cells=100), "one") == {}


def test_what_is_chosen_by_measurement_fills_each_with_its_own_and_says_so():
    cube = network(steps=400, stations=4, measurements=2, missing=0.1)
    steps = np.arange(400)
    cube[:, :, 1] = np.where(cube[:, :, 1].isnull(), np.nan, (steps // 5 % 2)[:, None] * 9.0)
    cube = cube.copy(data=cube.to_numpy())
    choice = choose(["linear", "idw"], cube, "bursts:+0.2", parted=True)
    alone = choose([choice.best], cube, "bursts:+0.2")
    assert choice.parts
    assert in_words("a", {"x": "b", "y": "c", "z": "b"}) == "a; b for x, z; c for y"
    for kind in (str(name) for name in cube["measurement"].to_numpy()):
        name = choice.parts.get(kind, choice.best)
        own = build_method(name).fit(cube).fill(cube).sel(measurement=kind)
        np.testing.assert_array_equal(choice.filler.fill(cube).sel(measurement=kind), own)
        scored = next(one for one in choice.scores if one.method == name)
        told = choice.expected.table("measurement").loc[kind]
        assert told["mae"] == scored.table("measurement").loc[kind, "mae"]
    whole, ends = choice.filler.fill_intervals(cube, [0.9])
    gap = cube.isnull().to_numpy()
    assert (ends[0][0].to_numpy()[gap] <= whole.to_numpy()[gap]).all()
    assert choice.expected.errors.overall()["mae"] < alone.expected.errors.overall()["mae"]


def test_intervals_of_simple_methods_hold_where_whole_stations_drop_out():
    rng = np.random.default_rng(0)
    common = np.cumsum(rng.normal(size=(1500, 4, 1)), axis=0) / 3
    values = np.concatenate([common, 2 * common + 0.05 * rng.normal(size=common.shape)], axis=2)
    cube = network(steps=1500, stations=4, measurements=2, missing=0).copy(data=values)
    truth, gone = cube.copy(), values.copy()
    for _ in range(40):
        start = int(rng.integers(0, 1480))
        gone[start : start + 15, int(rng.integers(4))] = np.nan
    cube = cube.copy(data=gone)
    choice = choose(["mice"], cube, defaults.HIDE)
    _, ((low, high),) = choice.filler.fill_intervals(cube, [0.9])
    missing = cube.isnull()
    held = ((truth >= low) & (truth <= high)).where(missing).mean()
    assert 0.8 < float(held) < 0.98
    assert 0.8 < choice.expected.errors.overall()["coverage"] < 0.98


def test_no_coverage_is_told_where_there_are_too_few_cells_to_tell_it_from():
    cube = network(steps=120, stations=2, measurements=1, missing=0.3)
    choice = choose(["linear"], cube, "random:+0.2")
    assert np.isnan(choice.expected.errors.overall()["coverage"])


@pytest.mark.parametrize("rate", [0.3, 0.8])
def test_the_error_to_expect_is_that_of_the_tables_own_gaps(rate):
    truth = network(steps=3000, stations=6, measurements=1, missing=0.0)
    hidden = Bursts(rate=rate)(truth, np.random.default_rng(1))
    sparse = truth.where(~hidden)
    filled = build_method("linear").fit(sparse).fill(sparse)
    real = measure(filled, truth, hidden, sparse).overall()["mae"]
    told = score(sparse, "linear", "like-data:+0.1").errors.overall()["mae"]
    assert told == pytest.approx(real, rel=0.15)
    chosen = choose(["linear"], sparse, hidden_cells(sparse, "like-data:+0.1", seed=0), alike=True)
    assert chosen.expected.errors.overall()["mae"] == pytest.approx(told)
