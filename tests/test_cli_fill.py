"""`cdsa fill` and `cdsa forecast`: choose a method, give intervals, fill sites without a sensor."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from rich.console import Console

import cdsa as library
from cdsa.cli import console
from cdsa.cli.progress import ConsoleReporter
from commands import invoke, one_line, refused, run
from conftest import network
from frames import long, panel, wide

QUICK = ("--minutes", 0.01)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("fill") / "in.csv"
    panel(network(steps=200)).to_csv(path, index=False)
    return path


@pytest.fixture
def sites(tmp_path):
    path = tmp_path / "sites.csv"
    path.write_text("name,lat,lon\nhill,40.05,116.05\nlake,40.15,116.15\n")
    return path


def test_fill_chooses_a_method_and_reports_why(table, tmp_path):
    text = run("fill", table, "-o", tmp_path / "out.csv", *QUICK)
    assert "chose " in text and "cells hidden for" in text and "linear" in text
    assert "expected error" in text and pd.read_csv(tmp_path / "out.csv").notna().all().all()


@pytest.mark.parametrize(
    ("terminals", "json", "expected"),
    [
        ((), False, "out"),
        (("err",), False, "out"),  # standard output is redirected to a file
        (("out", "err"), False, "err"),  # printed above the progress bars
        ((), True, "err"),
    ],
)
def test_result_lines_go_to_standard_output_unless_they_would_collide_with_bars(
    terminals, json, expected, monkeypatch
):
    for name in ("out", "err"):
        monkeypatch.setattr(console, name, Console(force_terminal=name in terminals))
    assert ConsoleReporter(json=json).out is getattr(console, expected)


def test_a_simpler_method_is_used_where_it_is_better(table, tmp_path):
    records = json.loads(run("fill", table, "-o", tmp_path / "out.csv", "--json", *QUICK))
    methods = "linear,climatology,idw,knn,mice"
    words = ("--methods", methods, "--hide", "bursts:+0.1", "--json")
    scores = json.loads(run("score", table, *words))
    for record in records:
        errors = {
            r["method"]: r["mae"] for r in scores if r["measurement"] == record["measurement"]
        }
        best = min(errors, key=lambda name: errors[name])
        assert record["method"] == "cdsa" or errors[record["method"]] <= errors[best] / 0.9


def test_a_small_table_is_interpolated(tmp_path):
    panel(network(steps=20)).to_csv(tmp_path / "in.csv", index=False)
    records = json.loads(run("fill", tmp_path / "in.csv", "-o", tmp_path / "out.csv", "--json"))
    assert {r["method"] for r in records} == {"linear"}


def test_the_detail_file_has_lower_and_upper_bounds(table, tmp_path):
    widths = {}
    for level in (0.5, 0.95):
        path = tmp_path / f"{level}.csv"
        run("fill", table, "-o", tmp_path / f"o{level}.csv", "--method", "cdsa", "--detail", path,
            "--interval", level, "--no-check", *QUICK)  # fmt: skip
        detail = pd.read_csv(path)
        assert (detail["lower"] <= detail["value"]).all()
        assert (detail["value"] <= detail["upper"]).all()
        widths[level] = (detail["upper"] - detail["lower"]).mean()
    assert widths[0.5] < widths[0.95]
    assert "is a probability" in refused("fill", table, "-o", "x.csv", "--interval", 90)


def test_baselines_get_intervals_from_the_check(table, tmp_path):
    path = tmp_path / "d.csv"
    run("fill", table, "-o", tmp_path / "o.csv", "--method", "linear", "--detail", path)
    detail = pd.read_csv(path)
    assert (detail["lower"] < detail["value"]).all() and (detail["value"] < detail["upper"]).all()


def test_sites_are_checked_by_hiding_whole_stations(tmp_path, sites):
    panel(network(steps=200, stations=6)).to_csv(tmp_path / "in.csv", index=False)
    text = one_line(run("fill", tmp_path / "in.csv", "-o", tmp_path / "o.csv", "--at", sites,
        "--extend", *QUICK))  # fmt: skip
    assert "for sites without a sensor: error" in text and "idw" in text and "cdsa" in text
    assert "expected error at sites" in text
    assert "measured cells of stations that were hidden" in text
    assert library.open_cube(tmp_path / "o.csv").notnull().all()


def test_gaps_of_stations_keep_their_intervals_if_sites_are_added(tmp_path, sites):
    panel(network(steps=400, stations=8)).to_csv(tmp_path / "in.csv", index=False)
    widths = {}
    for name, words in (("gaps", ()), ("more", ("--at", sites))):
        text = run("fill", tmp_path / "in.csv", "-o", tmp_path / f"{name}.csv", "--method",
                   "linear", "--detail", tmp_path / f"{name}-d.csv", *words)  # fmt: skip
        detail = pd.read_csv(tmp_path / f"{name}-d.csv")
        detail = detail[~detail["location"].isin(["hill", "lake"])]
        widths[name] = (detail["upper"] - detail["lower"]).to_numpy()
        assert "the longest gap filled has 400" not in one_line(text)  # a site has no gaps
    np.testing.assert_allclose(widths["more"], widths["gaps"])


def test_what_is_never_negative_is_filled_so_unless_told_otherwise(tmp_path):
    cube = (network(steps=300, stations=2, measurements=1) - 10) ** 4
    panel(cube).to_csv(tmp_path / "in.csv", index=False)
    words = ("fill", tmp_path / "in.csv", "-o", tmp_path / "o.csv", "--method", "linear")
    words = (*words, "--detail", tmp_path / "cells.csv", "--overwrite")
    run(*words)
    assert pd.read_csv(tmp_path / "cells.csv")["lower"].min() == 0
    run(*words, "--bounds", "pm25=:")
    assert pd.read_csv(tmp_path / "cells.csv")["lower"].min() < 0


@pytest.mark.parametrize("option", ["-o", "--detail"])
@pytest.mark.parametrize("command", [("fill",), ("forecast", "--horizon", 2)])
def test_the_input_is_never_replaced(command, option, table, tmp_path):
    content = table.read_bytes()
    words = {"-o": tmp_path / "o.csv"} | {option: table}
    outputs = [word for pair in words.items() for word in pair]
    message = refused(*command, table, "--method", "last", "--overwrite", *outputs)
    assert "is the input and is not replaced. Choose another name" in message
    assert table.read_bytes() == content


def test_the_coverage_is_reported_at_any_level(tmp_path):
    panel(network(steps=900)).to_csv(tmp_path / "in.csv", index=False)
    words = ("-o", tmp_path / "o.csv", "--method", "linear", "--interval", 0.8)
    text = run("fill", tmp_path / "in.csv", *words)
    assert "90% intervals contain" in one_line(text)


def test_intervals_that_hold_too_few_values_are_pointed_out(tmp_path, monkeypatch):
    panel(network(steps=900)).to_csv(tmp_path / "in.csv", index=False)
    words = ("fill", tmp_path / "in.csv", "-o", tmp_path / "o.csv", "--method", "linear")
    assert "too narrow" not in run(*words)
    monkeypatch.setattr("cdsa.workflows.advice.MIN_COVERAGE", 1.0)
    monkeypatch.setattr("cdsa.workflows.advice.MIN_GROUP", 1)
    report = tmp_path / "report.html"
    text = one_line(run(*words, "--overwrite", "--report", report))
    assert "warning: the 90% intervals are too narrow: of the hidden values they contain" in text
    assert "of pm25" in text and "in gaps of" in text and "too few at" not in text
    assert "intervals are too narrow" in report.read_text()


def test_a_method_that_cannot_forecast_is_not_recommended_for_it(table):
    text = one_line(run("score", table, "--hide", "last:6", "--methods", "linear,last"))
    assert "--horizon 6 -o OUT --method last" in text and "--method linear" not in text


def test_the_method_of_a_forecast_is_not_chosen_by_trial(table, tmp_path):
    message = refused("forecast", table, "--horizon", 6, "-o", tmp_path / "o.csv", "--method",
        "auto")  # fmt: skip
    assert "'auto' only fills" in message and "cdsa score --hide last:6" in message


def test_sites_far_from_all_stations_are_reported(table, tmp_path):
    (tmp_path / "swapped.csv").write_text("name,lat,lon\nhill,20.05,40.05\n")
    words = ("--at", tmp_path / "swapped.csv", "--method", "idw", "--no-check")
    result = invoke("fill", table, "-o", tmp_path / "o.csv", *words)
    assert "Are lat and lon right?" in one_line(result.stderr)


def test_netcdf_has_the_bounds_of_every_variable(table, tmp_path):
    run("fill", table, "-o", tmp_path / "out.nc", "--method", "cdsa", "--no-check", *QUICK)
    with xr.open_dataset(tmp_path / "out.nc") as dataset:
        assert (dataset["pm25_lower"] <= dataset["pm25_upper"]).all()


@pytest.mark.parametrize("layout", ["panel", "long", "wide"])
def test_sites_are_added_in_the_layout_of_the_table(layout, tmp_path, sites):
    cube = network(steps=200, measurements=1 if layout == "wide" else 2)
    {"panel": panel, "long": long, "wide": wide}[layout](cube).to_csv(
        tmp_path / "in.csv", index=False
    )
    words = []
    if layout != "panel":
        (tmp_path / "stations.csv").write_text(
            "name,lat,lon\nS0,40,116\nS1,40.1,116.1\nS2,40.2,116.2\n"
        )
        words = ["--locations", tmp_path / "stations.csv"]
    run("fill", tmp_path / "in.csv", "-o", tmp_path / "out.csv", "--at", sites, "--method", "cdsa",
        "--extend", *words, *QUICK)  # fmt: skip
    filled = library.open_cube(tmp_path / "out.csv")
    assert filled["location"].values.tolist() == ["S0", "S1", "S2", "hill", "lake"]
    assert filled.notnull().all() and filled.sizes["time"] == 200
    if layout == "panel":
        assert filled["lat"].values[3:].tolist() == [40.05, 40.15]


def test_sites_are_added_to_arrays(tmp_path, sites):
    library.open_source(panel(network(steps=100))).save(
        library.fill(network(steps=100), "linear"), tmp_path / "in.nc"
    )
    run("fill", tmp_path / "in.nc", "-o", tmp_path / "out.nc", "--at", sites, "--method", "cdsa",
        "--no-check", *QUICK)  # fmt: skip
    filled = library.open_cube(tmp_path / "out.nc")
    assert filled["location"].values.tolist()[3:] == ["hill", "lake"] and filled.notnull().all()
    assert filled["lat"].values[3:].tolist() == [40.05, 40.15]


@pytest.mark.parametrize("more", [(), ("--no-check",)])
def test_a_network_that_is_not_inductive_fills_no_sites(table, tmp_path, sites, more):
    words = ("--at", sites, "--method", "iin@small", *more)
    message = refused("fill", table, "-o", tmp_path / "o.csv", *words)
    assert "'iin' only knows the stations it was trained on" in message
    assert "Use cdsa, kalman, kriging or idw" in message
    assert not (tmp_path / "o.csv").exists()


def test_sites_that_cannot_be_added_are_refused(table, tmp_path):
    def fill_at(name, text):
        (tmp_path / name).write_text(text)
        return refused("fill", table, "-o", tmp_path / "o.csv", "--at", tmp_path / name, *QUICK)

    assert "already a station 'S1'" in fill_at("same.csv", "name,lat,lon\nS1,40.05,116.05\n")
    message = fill_at("bare.csv", "name,x\nhill,40.05\n")
    assert "bare.csv must have a column of names and the columns lat and lon" in message
    message = fill_at("far.csv", "name,lat,lon\nhill,140.05,16.05\n")
    assert "far.csv has 140.05 for 'hill'. Correct it there" in message


def test_forecast_uses_what_is_known_in_advance(tmp_path):
    cube = network(steps=150)
    cube[-6:, :, 0] = np.nan
    panel(cube).to_csv(tmp_path / "in.csv", index=False)
    run("forecast", tmp_path / "in.csv", "--horizon", 6, "--known", "temp", "-o",
        tmp_path / "out.csv", *QUICK)  # fmt: skip
    result = library.open_cube(tmp_path / "out.csv")
    assert result.sizes["time"] == 150 and result[-6:, :, 0].notnull().all()
    assert (result[:-6].isnull() == cube[:-6].isnull()).all()


def test_what_is_not_known_in_advance_is_refused_and_what_may_be_is_reported(tmp_path):
    cube = network(steps=150)
    panel(cube).to_csv(tmp_path / "bare.csv", index=False)
    words = ("--horizon", 6, "-o", tmp_path / "o.csv", "--known")
    message = refused("forecast", tmp_path / "bare.csv", *words, "temp", *QUICK)
    assert "there are none after 2020-01-07T05:00:00" in message
    cube[-6:, :, 0] = np.nan
    panel(cube).to_csv(tmp_path / "in.csv", index=False)
    assert "did you mean 'temp'" in refused("forecast", tmp_path / "in.csv", *words, "tmp")
    result = invoke("forecast", tmp_path / "in.csv", "--method", "last", *words[:-1])
    assert "use --known temp" in one_line(result.stderr)


def test_every_step_of_a_forecast_is_written_whatever_is_known(tmp_path):
    cube = network(steps=150)
    cube[-6:, :, 0] = np.nan
    table = long(cube).dropna(subset=["value"])
    table.to_csv(tmp_path / "in.csv", index=False)
    for horizon in (12, 4):
        path = tmp_path / f"{horizon}.csv"
        text = run("forecast", tmp_path / "in.csv", "--horizon", horizon, "--known", "temp", "-o",
                   path, "--method", "last")  # fmt: skip
        result = pd.read_csv(path)
        pm25 = result[result["measurement"] == "pm25"]
        assert len(pm25) == len(table[table["measurement"] == "pm25"]) + 3 * horizon
        assert result["value"].notna().all() and "2020-01-07 00:00 to" in text


def test_a_forecaster_is_saved_with_what_it_knows_in_advance(tmp_path):
    panel(network(steps=150)).to_csv(tmp_path / "in.csv", index=False)
    words = ("--forecast", 4, "--known", "temp", *QUICK)
    run("train", tmp_path / "in.csv", "-o", tmp_path / "m", *words)
    cube = network(steps=150)
    cube[-4:, :, 0] = np.nan
    panel(cube).to_csv(tmp_path / "in.csv", index=False)
    use = ("forecast", tmp_path / "in.csv", "--horizon", 4, "--model", tmp_path / "m", "-o")
    run(*use, tmp_path / "out.csv", "--known", "temp")
    assert "trained with temp known in advance" in refused(*use, tmp_path / "no.csv")
    assert "--known is for forecasters" in refused(
        "train", tmp_path / "in.csv", "-o", tmp_path / "n", "--known", "temp"
    )


def test_a_saved_network_fills_stations_it_was_not_trained_on(tmp_path):
    for name, stations in (("three", 3), ("five", 5)):
        panel(network(steps=150, stations=stations)).to_csv(tmp_path / f"{name}.csv", index=False)
    run("train", tmp_path / "three.csv", "-o", tmp_path / "m", *QUICK)
    run("fill", tmp_path / "five.csv", "--model", tmp_path / "m", "-o", tmp_path / "out.csv")
    assert library.open_cube(tmp_path / "out.csv").notnull().all()
