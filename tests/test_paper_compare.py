"""Comparing records with the paper's numbers, and the pages of both."""

import pytest

from cdsa.paper.compare import Figure, build_blocks
from cdsa.paper.published import paper_tables
from cdsa.paper.render import render_html, render_markdown
from cdsa.paper.tables import TABLES


def record(method="linear", **more):
    values = {
        "table": "kdd2018", "method": method, "data": "kdd2018", "protocol": "in-sample",
        "cells": "all", "rate": 0.5, "horizon": None, "seed": 0, "loss": None, "minutes": None,
        "quick": False, "settings": "", "mse": 0.2, "seconds": 3.0, "measured_on": "as published",
        "trained_seconds": None, "commit": "abc", "machine": "m",
    }  # fmt: skip
    return values | more


def row(records, name, table="kdd2018"):
    block = next(build_blocks(TABLES[table], records))
    (match,) = (row for row in block.rows if row.name == name)
    return match


def test_the_published_tables_are_complete():
    tables = paper_tables()
    assert set(tables) == set(TABLES)
    for table in tables.values():
        for cells in table.rows.values():
            assert set(cells) == set(table.columns)
            for figures in cells.values():
                assert figures is None or set(figures) == set(table.metrics)
    assert tables["kdd2015"].figure("mean", "kdd2015-pm25", "mae") == 55.51
    assert tables["kdd2015"].figure("mean", "kdd2015-pm25", "mre") == 0.7797
    assert tables["metr-la"].figure("cdsa-paper-forecast", "60", "rmse") == 6.27
    assert tables["ablation-nyc"].figure("cdsa-paper:joint", "0.5", "rmse") is None
    assert tables["losses"].figure("mse", "mean", "mape") == 0.0919


@pytest.mark.parametrize("name", TABLES)
def test_every_column_of_a_block_has_a_published_column(name):
    paper = paper_tables()[name]
    blocks = list(build_blocks(TABLES[name]))
    assert {block.metric for block in blocks} == set(paper.metrics)
    for block in blocks:
        assert all(column.paper in paper.columns for column in block.columns)


def test_trials_are_averaged_with_their_spread():
    figure = row([record(mse=0.1), record(mse=0.3, seed=1)], "linear").figures[3]
    assert figure.ours == pytest.approx(0.2)
    assert figure.spread == pytest.approx(0.1414, rel=1e-3)


def test_the_longest_training_is_reported_and_quick_runs_only_if_there_is_no_other():
    short = record("cdsa-paper", minutes=1, mse=0.9)
    long = record("cdsa-paper", minutes=10, mse=0.3)
    quick = record("cdsa-paper", minutes=0.04, mse=0.01, quick=True)
    assert row([short, long, quick], "cdsa-paper").figures[3].ours == 0.3
    (block, *_) = build_blocks(TABLES["kdd2018"], [quick, record("linear")])
    figure = next(row for row in block.rows if row.name == "cdsa-paper").figures[3]
    assert block.format_ours(figure) == "0.010*"
    assert block.best_per_column()[3] == 0.2  # a quick run is never the best


def test_the_longest_training_is_chosen_per_cell():
    records = [
        record("cdsa-paper", rate=0.2, minutes=1, mse=0.9),
        record("cdsa-paper", rate=0.5, minutes=1, mse=0.8),
        record("cdsa-paper", rate=0.5, minutes=10, mse=0.3, seconds=610.0),
    ]
    chosen = row(records, "cdsa-paper")
    assert (chosen.figures[0].ours, chosen.figures[3].ours) == (0.9, 0.3)
    assert chosen.time == "10 min"


def test_the_papers_own_data_are_preferred_to_a_stand_in():
    real = record("cdsa-paper", minutes=1, mse=0.5)
    standin = record("cdsa-paper", minutes=10, mse=0.1, measured_on="a stand-in", seed=1)
    assert row([real, standin], "cdsa-paper").figures[3].ours == 0.5
    other = record("cdsa-paper", minutes=10, mse=0.2, measured_on="another stand-in")
    assert row([standin, other], "cdsa-paper").figures[3].ours == 0.2  # never a mean over data


def test_a_preset_is_compared_with_the_published_figure_of_its_method():
    figure = row([record("cdsa-paper@paper-kdd2018", minutes=1)], "cdsa-paper@paper-kdd2018")
    assert figure.figures[3].paper == 0.291


def test_the_last_of_duplicate_records_is_reported():
    assert row([record(mse=0.1), record(mse=0.3)], "linear").figures[3].ours == 0.3


def test_the_difference_is_relative_to_the_papers_figure():
    assert Figure(1.5, 1.2).difference == "+25%"
    assert Figure(1.1999, 1.2).difference == "0%"
    assert Figure(None, 1.2).difference == Figure(1.0, None).difference == ""


@pytest.mark.parametrize(
    "table, metric, value, text",
    [
        ("kdd2015", "mre", 0.77967, "77.97%"),
        ("kdd2015", "mae", 55.505, "55.51"),
        ("kdd2015", "mae", 0.61, "0.61"),
        ("kdd2018", "mse", 1.002, "1.002"),
        ("nyc", "rmse", 1.595, "1.595"),
        ("metr-la", "mape", 0.0699, "6.99%"),
        ("complexity", "operations", 0.24e9, "0.24"),
        ("complexity", "parameters", None, "-"),
    ],
)
def test_figures_have_the_decimals_of_the_paper(table, metric, value, text):
    block = next(block for block in build_blocks(TABLES[table]) if block.metric == metric)
    assert block.format(value) == text


def test_figures_in_another_unit_are_not_compared():
    more = {"table": "nyc", "data": "nyc-traffic", "rmse": 2.0}
    for unit, compared in (("mph", False), ("vehicles", True)):
        figure = row([record("cdsa-paper", unit=unit, **more)], "cdsa-paper", "nyc").figures[3]
        assert figure.paper == 1.214 and bool(figure.difference) == compared


def test_a_rate_that_the_paper_lacks_gets_a_column():
    page = render_markdown([record(rate=0.25)], "r.jsonl")
    assert "| 20% | 25% | 30% |" in page


def test_incomplete_records_are_left_out():
    page = render_markdown([record(), {"table": "kdd2018", "method": "x"}], "r.jsonl")
    assert "| x |" not in page


def test_a_page_has_both_figures_their_difference_the_data_and_the_time():
    records = [
        record("cdsa-paper", mse=0.5, minutes=10.0, settings="window=48", seconds=630.0,
               trained_seconds=600.0, trained_steps=900, parameters=12345,
               measured_on="a stand-in <of another kind>"),
        record("linear", mse=0.219),
    ]  # fmt: skip
    page = render_markdown(records, "r.jsonl")
    assert "| cdsa-paper |" in page and "0.500<br>(0.291 +72%)" in page
    assert "**0.219**" in page  # the best
    assert "10 min" in page and "a stand-in \\<of another kind\\>" in page
    assert "| 90% | parameters | time |" in page and "| 12,345 | 10 min |" in page
    assert "cdsa-paper trained for 10 min, 900 steps, 12,345 parameters, with window=48" in page
    assert "## kdd2018" in page and "## nyc" not in page
    assert page.index("linear (interpolation)") < page.index("| mean (of the station) |")
    web = render_html(records, "r.jsonl")
    assert "a stand-in &lt;of another kind&gt;" in web and "<small>(0.291 +72%)</small>" in web
    assert "http" not in web  # nothing is fetched from elsewhere


def test_a_record_appears_in_every_table_with_its_experiment():
    page = render_markdown([record("linear")], "r.jsonl")
    assert "## kdd2018" in page and "## ablation-kdd2018" in page


def test_each_loss_has_a_row():
    more = {"table": "losses", "data": "metr-la", "protocol": "80/20", "rate": None,
            "horizon": "30", "mae": 3.0, "rmse": 5.0, "mape": 0.08}  # fmt: skip
    records = [
        record("cdsa-paper-forecast", loss=loss, minutes=1.0, **more) for loss in ("rmse", "mae")
    ]
    names = [row.name for row in next(build_blocks(TABLES["losses"], records)).rows]
    assert names == ["rmse", "mse", "mae", "rmse+mae"]
    assert "## metr-la" not in render_markdown(records, "r.jsonl")
    other = record("cdsa-paper-forecast:joint", loss="rmse", minutes=1.0, **more | {"mae": 9.0})
    page = render_markdown([*records, other], "r.jsonl")
    assert "cdsa-paper-forecast:joint, rmse" in page and "3.00" in page and "9.00" in page


def test_the_last_value_appears_in_every_table_of_forecasts():
    last = record("last", table="metr-la", data="metr-la", protocol="80/20", rate=None,
                  horizon="30", mae=4.0, rmse=5.0, mape=0.08)  # fmt: skip
    page = render_markdown([last], "r.jsonl")
    assert all(f"## {name}" in page for name in ("metr-la", "losses", "ablation-metr-la"))
