"""Scores that once were told wrongly."""

import numpy as np
import pytest

import cdsa
from cdsa.errors import ConfigError
from cdsa.io.source import open_source
from cdsa.workflows.score import summarise
from small_sources import GAPPY, NAN, RISING, panel, round_trip


def test_a_sensor_that_never_changes_does_not_outweigh_the_others():
    # the standard deviation of many times 0.1 is a rounding error, not zero
    frame = panel(x=GAPPY[:6], still=0.1)
    scored = cdsa.score(cdsa.open_cube(frame), "mean", "random:0.4", seed=1)
    assert scored.table()["mae"].item() < 5


def test_a_measurement_called_all_is_one_of_its_own():
    frame = panel(x=RISING[:6], **{"all": RISING[:6] * 2})
    records = cdsa.score(cdsa.open_cube(frame), "linear", "random:0.4").records()
    assert [(r["measurement"], r["overall"]) for r in records] == [
        ("x", False),
        ("all", False),
        ("all", True),
    ]


def test_the_unit_is_that_of_what_was_scored():
    frame = panel(a=np.full(6, NAN), b=RISING[:6])
    cube = cdsa.open_cube(frame, units={"a": "K", "b": "hPa"})
    assert cdsa.score(cube, "linear", "random:0.7").records("location")[0]["unit"] == "hPa"


def test_the_relative_error_over_all_is_relative_to_the_values():
    rng = np.random.default_rng(0)
    frame = panel(a=1000 + 0.3 * rng.normal(size=6), b=500 + 0.1 * rng.normal(size=6))
    scored = cdsa.score(cdsa.open_cube(frame), "mean", "random:0.4")
    assert scored.table()["mre"].item() < 0.01


def test_a_score_with_no_answer_can_be_summed_up():

    class Silent:
        def fit(self, cube):
            return self

        def fill(self, cube):
            return cube

    scored = cdsa.score(cdsa.open_cube(panel(x=RISING[:6])), Silent(), "random:0.4")
    assert len(summarise([scored])) == 1 and scored.repeat == 0


def test_gap_classes_stand_in_order():
    cube = cdsa.open_demo()[:2000]
    order = cdsa.score(cube, "linear", "bursts:0.5").table("gap").index.tolist()
    assert order == [name for name in ("1", "2-5", "6-23", "24-71", "72+") if name in order]


def test_several_methods_in_one_score_are_refused_in_words():
    with pytest.raises(ConfigError, match="once for each"):
        cdsa.score(cdsa.open_cube(panel(x=RISING[:6])), ["linear", "mean"])


def test_sources_and_scores_show_themselves_in_a_line():
    source = open_source(panel(x=GAPPY[:6]))
    assert repr(source).startswith("<Source DataFrame: panel") and len(repr(source)) < 200
    assert repr(cdsa.score(source.cube, "linear", "random:0.4")).startswith("<Score linear: MAE")


def test_doubts_are_logged_for_those_who_open_a_cube(caplog):
    cdsa.open_cube(panel(wind_dir=[10.0, 350.0, -999.0, 20.0, 30.0, 40.0]))
    assert "--missing -999" in caplog.text
    cdsa.open_cube(panel(wind_dir=[10.0, 350.0, 20.0, 20.0, 30.0, 40.0]))
    assert "--direction wind_dir" in caplog.text


def test_filled_values_have_no_rounding_noise():
    result = round_trip(panel(x=[0.1, NAN, 0.3, 12.1, NAN, 12.692]))
    assert [repr(v) for v in result["x"]][1::3] == ["0.2", "12.396"]
