"""`cdsa info`, `cdsa score`, `cdsa demo` and what all commands have in common."""

import json
import logging
import subprocess
import sys
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest

import cdsa as library
from cdsa.cli import OLD_COMMANDS, OLD_OPTIONS, main
from cdsa.cli import score as score_command
from cdsa.datasets import nyc_weather
from commands import invoke, refused, run
from conftest import network
from frames import long, panel, wide


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "in.csv"
    panel(network(steps=200)).to_csv(path, index=False)
    return path


def test_info_shows_what_was_detected(table):
    text = run("info", table)
    for words in (
        "panel",
        "3 stations with coordinates",
        "every 1 h",
        "200 steps",
        "pm25",
        "Longest gaps",
    ):
        assert words in text


def test_info_fits_a_terminal_of_80_columns(table):
    assert max(map(len, run("info", table).splitlines())) <= 80


def test_info_sketches_missing_values_over_time(tmp_path):
    cube = network(steps=200, missing=0.0, measurements=2)
    cube[100:150, :, 0] = np.nan
    panel(cube).to_csv(tmp_path / "in.csv", index=False)
    rows = [line for line in run("info", tmp_path / "in.csv").splitlines() if "·" in line]
    assert "█" in rows[0] and rows[0].split()[1].startswith("·") and "█" not in rows[1]


def test_info_json_is_one_array_of_flat_objects(table):
    records = json.loads(run("info", table, "--json"))
    assert [r["measurement"] for r in records] == ["pm25", "temp"]
    assert all(not isinstance(v, dict | list) for r in records for v in r.values())


def test_fill_writes_what_the_library_fills(table, tmp_path):
    run("fill", table, "-o", tmp_path / "out.csv", "--method", "linear")
    source = library.open_source(table)
    expected = source.filled(library.fill(source.cube, "linear"))
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "out.csv", dtype=str),
        expected.reset_index(drop=True),
        check_dtype=False,
    )


def test_fill_estimates_the_error_unless_the_check_is_off(table, tmp_path):
    assert "expected error" in run("fill", table, "-o", tmp_path / "a.csv", "--method", "linear")
    assert "expected error" not in run(
        "fill", table, "-o", tmp_path / "b.csv", "--no-check", "--method", "linear"
    )


def test_fill_counts_sources(table, tmp_path):
    records = json.loads(
        run("fill", table, "-o", tmp_path / "out.csv", "--json", "--method", "linear")
    )
    missing = network(steps=200).isnull().sum(("time", "location")).values.tolist()
    assert [r["filled"] for r in records] == missing and all(r["unfillable"] == 0 for r in records)
    assert all(r["expected_mae"] > 0 for r in records)


def test_fill_writes_one_row_per_filled_cell_to_the_detail_file(table, tmp_path):
    run("fill", table, "-o", tmp_path / "out.csv", "--detail", tmp_path / "detail.csv",
        "--method", "linear")  # fmt: skip
    assert len(pd.read_csv(tmp_path / "detail.csv")) == int(network(steps=200).isnull().sum())


def test_directions_and_bounds_hold_for_filled_values(tmp_path):
    cube = network(steps=100)
    frame = panel(cube)
    wind = np.where(frame["temp"].isna(), np.nan, (350 + 20 * np.sin(np.arange(len(frame)))) % 360)
    frame["temp"] = wind
    frame.to_csv(tmp_path / "in.csv", index=False)
    options = ["--method", "mean", "--direction", "temp", "--bounds", "pm25=12:", "--no-check"]
    run("fill", tmp_path / "in.csv", "-o", tmp_path / "out.csv", *options)
    out = pd.read_csv(tmp_path / "out.csv")
    filled = out["temp"][frame["temp"].isna()]
    assert (np.abs((filled + 180) % 360 - 180) < 60).all()
    assert (out["pm25"][frame["pm25"].isna()] >= 12).all() and (out["pm25"] < 12).any()


def test_missing_codes_may_be_negative_numbers(tmp_path):
    panel(network()).fillna(-999).to_csv(tmp_path / "in.csv", index=False)
    records = json.loads(run("info", tmp_path / "in.csv", "--missing", "-999,999999", "--json"))
    assert records[0]["missing"] > 0


def test_wide_tables_get_coordinates_from_a_file(tmp_path):
    cube = network()
    wide(cube).to_csv(tmp_path / "in.csv", index=False)
    pd.DataFrame({"id": cube["location"], "lat": cube["lat"], "lon": cube["lon"]}).to_csv(
        tmp_path / "places.csv", index=False
    )
    text = run(
        "info",
        tmp_path / "in.csv",
        "--locations",
        tmp_path / "places.csv",
        "--measurements",
        "pm25",
    )
    assert "wide" in text and "with coordinates" in text and "pm25" in text


def test_score_json_has_the_promised_fields(table):
    options = ["--methods", "mean,linear", "--hide", "bursts:0.3", "--repeat", "2", "--json"]
    command = [sys.executable, "-m", "cdsa", "score", table, *options]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    records = json.loads(result.stdout)
    assert len(records) == 2 * 2 * 3
    fields = [
        "method",
        "measurement",
        "hide",
        "repeat",
        "mae",
        "rmse",
        "mse",
        "mre",
        "mape",
        "seconds",
    ]
    assert [name for name in records[0] if name in fields] == fields
    assert {r["repeat"] for r in records} == {0, 1}


def test_score_lists_the_best_method_first(table):
    lines = run("score", table, "--methods", "mean,linear", "--hide", "bursts:0.3").splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("method"))
    assert lines[first + 1].startswith("linear") and lines[first + 2].startswith("mean")


def test_score_shows_the_spread_over_repeats(table):
    assert "±" in run("score", table, "--methods", "mean", "--hide", "bursts:0.3", "--repeat", "3")


def test_score_agrees_with_the_library(table):
    records = json.loads(
        run("score", table, "--methods", "linear", "--hide", "random:0.4", "--json")
    )
    scored = library.score(library.open_cube(table), "linear", "random:0.4")
    assert records[0]["mae"] == scored.records()[0]["mae"]


def test_score_records_where_its_numbers_come_from(table, tmp_path):
    for _ in range(2):
        run(
            "score",
            table,
            "--methods",
            "mean",
            "--hide",
            "random:0.4",
            "--record",
            tmp_path / "r.jsonl",
        )
    lines = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert len(lines) == 6 and {"command", "commit", "machine", "seed", "mae"} <= set(lines[0])


def test_the_list_of_methods_ends_with_auto():
    assert run("methods").splitlines()[-1].startswith("auto, the default of cdsa fill")


def test_an_output_of_unknown_format_is_refused(table, tmp_path):
    message = refused("fill", table, "-o", tmp_path / "x.xlsx", "--method", "linear")
    assert "cannot write" in message and "its suffix must be one of .csv" in message


def test_methods_json_has_the_promised_fields():
    records = json.loads(run("methods", "--json"))
    assert [r["name"] for r in records] == [m.name for m in library.list_methods()]
    assert {"name", "task", "needs", "extra", "paper"} <= set(records[0])


def test_misspelt_and_old_names_are_refused_with_the_right_one(table):
    for command, option, word, answer in (
        ("score", "--methods", "linea", "did you mean 'linear'"),
        ("score", "--hide", "burst:0.1", "did you mean 'bursts'"),
        ("info", "--layout", "panl", "did you mean 'panel'"),
        ("info", "--bounds", "pm25=low", "humid=0:100"),
        ("info", "--angle", "pm25", "--angle is now --direction"),
        ("info", "--unit", "pm25=ug", "--unit is now --units"),
    ):
        assert answer in refused(command, table, option, word)


@pytest.mark.parametrize(
    ("words", "message"),
    [(old, f"'cdsa {old}' is now 'cdsa {new}'") for old, new in OLD_COMMANDS.items()]
    + [(" ".join(old), f"{old[1]} is now {new}") for old, new in OLD_OPTIONS.items()],
)
def test_an_old_name_is_refused_with_the_new_one(words, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["cdsa", *words.split()])
    monkeypatch.setattr(logging.getLogger("cdsa"), "propagate", True)  # restored afterwards
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2 and capsys.readouterr().err == f"cdsa: {message}\n"


def test_warnings_about_a_table_are_printed_with_the_result(tmp_path):
    frame = panel(network(steps=100))
    frame.loc[:20, "pm25"] = -999
    frame.to_csv(tmp_path / "in.csv", index=False)
    assert "warning: " in run("info", tmp_path / "in.csv")


def test_an_unknown_option_exits_with_2(table):
    assert invoke("info", table, "--nonsense").exit_code == 2


def test_a_bug_shows_no_traceback(monkeypatch, capsys):
    monkeypatch.delenv("CDSA_DEBUG", raising=False)
    monkeypatch.setattr(logging.getLogger("cdsa"), "propagate", True)  # restored afterwards
    monkeypatch.setattr("cdsa.cli.app.app", lambda: 1 / 0)
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1 and "something went wrong inside cdsa" in capsys.readouterr().err


def test_long_and_panel_tables_give_the_same_scores(tmp_path):
    for name, form in (("a.csv", panel), ("b.csv", long)):
        form(network(steps=100)).to_csv(tmp_path / name, index=False)
    first, second = (
        json.loads(
            run("score", tmp_path / name, "--methods", "linear", "--hide", "random:0.4", "--json")
        )
        for name in ("a.csv", "b.csv")
    )
    assert [r["mae"] for r in first] == [r["mae"] for r in second]


def test_the_demo_runs_from_the_summary_to_the_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    methods = ["linear", "climatology", "knn", "cdsa"]  # all methods would take a minute
    assert set(methods) < set(score_command.usable_methods(library.open_demo()))
    monkeypatch.setattr(score_command, "usable_methods", lambda cube: methods)
    frame = pd.read_csv(files("cdsa") / "data" / "nyc_weather.csv.gz")
    source = library.open_source(frame[frame["time"] < "2013-01-15"], units=nyc_weather.UNITS)
    assert library.open_demo().sizes["time"] == 8730  # so would all times
    monkeypatch.setattr(nyc_weather, "open_demo_source", lambda: source)
    text = run("demo", "--minutes", 0.02)
    for words in ("330 steps", "pressure", "linear", "climatology", "knn", "cdsa", "wrote"):
        assert words in text
    filled = pd.read_csv(tmp_path / "cdsa-demo" / "filled.csv")
    assert len(filled) == 330 * 3 and filled.notna().all().all()
    assert len(pd.read_csv(tmp_path / "cdsa-demo" / "detail.csv")) > 100
    assert "<h2>Series</h2>" in (tmp_path / "cdsa-demo" / "report.html").read_text()
    assert max(map(len, text.splitlines())) <= 80
