"""What fill and forecast do for a newcomer: choose, tell intervals, add places."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import cdsa as library
from commands import invoke, one_line, refused, run
from conftest import network
from frames import long, panel, wide

QUICK = ("--minutes", 0.01)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("filling") / "in.csv"
    panel(network(steps=200)).to_csv(path, index=False)
    return path


@pytest.fixture
def places(tmp_path):
    path = tmp_path / "places.csv"
    path.write_text("name,lat,lon\nhill,40.05,116.05\nlake,40.15,116.15\n")
    return path


def test_fill_chooses_by_itself_and_says_so(table, tmp_path):
    text = run("fill", table, "-o", tmp_path / "out.csv", *QUICK)
    assert "chose " in text and "cells hidden for" in text and "linear" in text
    assert "expected error" in text and pd.read_csv(tmp_path / "out.csv").notna().all().all()


def test_a_simpler_method_is_used_where_it_is_better(table, tmp_path):
    records = json.loads(run("fill", table, "-o", tmp_path / "out.csv", "--json", *QUICK))
    scores = json.loads(
        run(
            "score",
            table,
            "--methods",
            "linear,climatology,idw,knn,mice",
            "--json",
            "--hide",
            "bursts:+0.1",
        )
    )
    for record in records:  # of a measurement, one that is clearly better there
        errors = {
            r["method"]: r["mae"] for r in scores if r["measurement"] == record["measurement"]
        }
        best = min(errors, key=lambda name: errors[name])
        assert record["method"] == "cdsa" or errors[record["method"]] <= errors[best] / 0.9


def test_too_small_a_table_gets_a_straight_line(tmp_path):
    panel(network(steps=20)).to_csv(tmp_path / "in.csv", index=False)
    records = json.loads(run("fill", tmp_path / "in.csv", "-o", tmp_path / "out.csv", "--json"))
    assert {r["method"] for r in records} == {"linear"}


def test_the_detail_has_lower_and_upper_ends(table, tmp_path):
    widths = {}
    for share in (0.5, 0.95):
        detail = tmp_path / f"{share}.csv"
        run("fill", table, "-o", tmp_path / f"o{share}.csv", "--method", "cdsa", "--detail", detail,
            "--interval", share, "--no-check", *QUICK)  # fmt: skip
        found = pd.read_csv(detail)
        assert (found["lower"] <= found["value"]).all() and (found["value"] <= found["upper"]).all()
        widths[share] = (found["upper"] - found["lower"]).mean()
    assert widths[0.5] < widths[0.95]
    assert "between 0 and 1" in refused("fill", table, "-o", "x.csv", "--interval", 90)


def test_simple_methods_get_intervals_from_the_check(table, tmp_path):
    detail = tmp_path / "d.csv"
    run("fill", table, "-o", tmp_path / "o.csv", "--method", "linear", "--detail", detail)
    found = pd.read_csv(detail)
    assert (found["lower"] < found["value"]).all() and (found["value"] < found["upper"]).all()


def test_places_are_checked_by_hiding_whole_stations(tmp_path, places):
    panel(network(steps=200, stations=6)).to_csv(tmp_path / "in.csv", index=False)
    text = run("fill", tmp_path / "in.csv", "-o", tmp_path / "o.csv", "--at", places, *QUICK)
    text = " ".join(text.split())
    assert "for places without a sensor: error" in text and "idw" in text and "cdsa" in text
    assert "expected error at places" in text
    assert "measured cells of stations hidden whole" in text
    filled = library.open_cube(tmp_path / "o.csv")
    assert filled.notnull().all()


def test_gaps_of_stations_keep_their_own_intervals_where_places_are_added(tmp_path, places):
    panel(network(steps=400, stations=8)).to_csv(tmp_path / "in.csv", index=False)
    widths = {}
    for name, words in (("gaps", ()), ("more", ("--at", places))):
        told = run("fill", tmp_path / "in.csv", "-o", tmp_path / f"{name}.csv", "--method",
                   "linear", "--detail", tmp_path / f"{name}-d.csv", *words)  # fmt: skip
        found = pd.read_csv(tmp_path / f"{name}-d.csv")
        found = found[~found["location"].isin(["hill", "lake"])]
        widths[name] = (found["upper"] - found["lower"]).to_numpy()
        assert "the longest gap filled has 400" not in " ".join(told.split())  # a place has none
    np.testing.assert_allclose(widths["more"], widths["gaps"])


def test_what_was_never_negative_and_now_may_be_is_pointed_out(tmp_path):
    cube = abs(network(steps=300, stations=2, measurements=1) - 10) / 100
    panel(cube).to_csv(tmp_path / "in.csv", index=False)
    words = ["fill", str(tmp_path / "in.csv"), "-o", str(tmp_path / "o.csv"), "--method", "linear"]
    told = " ".join(runner.invoke(app, words).stderr.split())
    assert "pm25 was never below zero" in told and "--bounds pm25=0:" in told
    bounded = runner.invoke(app, [*words, "--bounds", "pm25=0:", "--overwrite"]).stderr
    assert "never below zero" not in bounded


def test_whether_intervals_held_is_told_whatever_was_asked_for(tmp_path):
    panel(network(steps=900)).to_csv(tmp_path / "in.csv", index=False)
    words = ("-o", tmp_path / "o.csv", "--method", "linear", "--interval", 0.8)
    text = run("fill", tmp_path / "in.csv", *words)
    assert "90% intervals held" in " ".join(text.split())


def test_what_cannot_forecast_is_not_named_for_it(table):
    text = " ".join(run("score", table, "--hide", "last:6", "--methods", "linear,last").split())
    assert "--method last" in text and "--method linear" not in text


def test_forecasts_are_not_chosen_by_trial(table, tmp_path):
    told = refused("forecast", table, "--horizon", 6, "-o", tmp_path / "o.csv", "--method", "auto")
    assert "'auto' is for fill" in told and "cdsa score --hide last:6" in told


def test_places_far_from_all_stations_are_remarked_on(table, tmp_path):
    (tmp_path / "swapped.csv").write_text("name,lat,lon\nhill,20.05,40.05\n")
    words = ("--at", tmp_path / "swapped.csv", "--method", "idw", "--no-check")
    done = runner.invoke(app, ["fill", str(table), "-o", str(tmp_path / "o.csv"), *map(str, words)])
    assert "Are lat and lon right?" in " ".join(done.stderr.split())


def test_intervals_stand_in_netcdf_beside_their_variable(table, tmp_path):
    run("fill", table, "-o", tmp_path / "out.nc", "--method", "cdsa", "--no-check", *QUICK)
    with xr.open_dataset(tmp_path / "out.nc") as found:
        assert (found["pm25_lower"] <= found["pm25_upper"]).all()


@pytest.mark.parametrize("layout", ["panel", "long", "wide"])
def test_places_without_a_sensor_are_added_in_the_tables_own_layout(layout, tmp_path, places):
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
    run("fill", tmp_path / "in.csv", "-o", tmp_path / "out.csv", "--at", places, "--method", "cdsa",
        *words, *QUICK)  # fmt: skip
    found = library.open_cube(tmp_path / "out.csv")
    assert found["location"].values.tolist() == ["S0", "S1", "S2", "hill", "lake"]
    assert found.notnull().all() and found.sizes["time"] == 200
    if layout == "panel":
        assert found["lat"].values[3:].tolist() == [40.05, 40.15]


def test_places_are_added_to_arrays_too(tmp_path, places):
    library.open_source(panel(network(steps=100))).save(
        library.fill(network(steps=100), "linear"), tmp_path / "in.nc"
    )
    run("fill", tmp_path / "in.nc", "-o", tmp_path / "out.nc", "--at", places, "--method", "cdsa",
        "--no-check", *QUICK)  # fmt: skip
    found = library.open_cube(tmp_path / "out.nc")
    assert found["location"].values.tolist()[3:] == ["hill", "lake"] and found.notnull().all()
    assert found["lat"].values[3:].tolist() == [40.05, 40.15]


@pytest.mark.parametrize("more", [(), ("--no-check",)])
def test_a_network_that_is_tied_to_its_stations_fills_no_places(table, tmp_path, places, more):
    words = ("--at", places, "--method", "iin@small", *more)
    told = " ".join(refused("fill", table, "-o", tmp_path / "o.csv", *words).split())
    assert "'iin' knows the stations it is trained on" in told
    assert "Use cdsa, dcrnn, kriging or idw" in told
    assert not (tmp_path / "o.csv").exists()


def test_places_that_cannot_be_added_are_answered(table, tmp_path):
    (tmp_path / "same.csv").write_text("name,lat,lon\nS1,40.05,116.05\n")
    told = refused("fill", table, "-o", tmp_path / "o.csv", "--at", tmp_path / "same.csv", *QUICK)
    assert "already a station 'S1'" in told
    (tmp_path / "bare.csv").write_text("name,x\nhill,40.05\n")
    told = refused("fill", table, "-o", tmp_path / "o.csv", "--at", tmp_path / "bare.csv", *QUICK)
    assert "bare.csv must have a column of names and the columns lat and lon" in told
    (tmp_path / "far.csv").write_text("name,lat,lon\nhill,140.05,16.05\n")
    told = refused("fill", table, "-o", tmp_path / "o.csv", "--at", tmp_path / "far.csv", *QUICK)
    assert "far.csv has 140.05 for 'hill'. Correct it there" in told


def test_forecast_uses_what_is_known_in_advance(tmp_path):
    cube = network(steps=150)
    cube[-6:, :, 0] = np.nan
    panel(cube).to_csv(tmp_path / "in.csv", index=False)
    run("forecast", tmp_path / "in.csv", "--horizon", 6, "--known", "temp", "-o",
        tmp_path / "out.csv", *QUICK)  # fmt: skip
    found = library.open_cube(tmp_path / "out.csv")
    assert found.sizes["time"] == 150 and found[-6:, :, 0].notnull().all()
    before = cube[:-6].isnull()
    assert (found[:-6].isnull() == before).all()
    bare = tmp_path / "bare.csv"
    panel(network(steps=150)).to_csv(bare, index=False)
    told = refused("forecast", bare, "--horizon", 6, "--known", "temp", "-o", "o.csv", *QUICK)
    assert "nothing stands behind 2020-01-07T05:00:00" in told
    words = ("forecast", tmp_path / "in.csv", "--horizon", 6, "--method", "last", "-o")
    done = runner.invoke(app, [*map(str, words), str(tmp_path / "unsaid.csv")])
    assert "say --known temp" in " ".join(done.stderr.split())
    told = refused("forecast", tmp_path / "in.csv", "--horizon", 6, "--known", "tmp", "-o", "o.csv")
    assert "did you mean 'temp'" in told


def test_every_step_of_a_forecast_is_written_whatever_is_known(tmp_path):
    cube = network(steps=150)
    cube[-6:, :, 0] = np.nan
    table = long(cube).dropna(subset=["value"])
    table.to_csv(tmp_path / "in.csv", index=False)
    for steps, rows in ((12, 12), (4, 4)):
        out = tmp_path / f"{steps}.csv"
        text = run("forecast", tmp_path / "in.csv", "--horizon", steps, "--known", "temp", "-o", out,
                   "--method", "last")  # fmt: skip
        found = pd.read_csv(out)
        pm25 = found[found["measurement"] == "pm25"]
        assert len(pm25) == len(table[table["measurement"] == "pm25"]) + 3 * rows
        assert found["value"].notna().all() and "2020-01-07 00:00 to" in text


def test_a_forecaster_is_kept_with_what_it_knows_in_advance(tmp_path):
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


def test_a_saved_network_fills_stations_it_never_saw(tmp_path):
    for name, stations in (("three", 3), ("five", 5)):
        panel(network(steps=150, stations=stations)).to_csv(tmp_path / f"{name}.csv", index=False)
    run("train", tmp_path / "three.csv", "-o", tmp_path / "m", *QUICK)
    run("fill", tmp_path / "five.csv", "--model", tmp_path / "m", "-o", tmp_path / "out.csv")
    assert library.open_cube(tmp_path / "out.csv").notnull().all()
