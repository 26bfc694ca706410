"""Reasons: shares of measured cells that a network's own maps say a value comes from."""

import json
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from typer.testing import CliRunner

from cdsa.cli.app import app
from cdsa.core.records import read_results
from cdsa.errors import ConfigError
from cdsa.methods.explanation import Cell
from cdsa.methods.neural.cdsa import CdsaNetworkConfig
from cdsa.methods.registry import build_method
from cdsa.nn.attention import full_map
from cdsa.nn.context import WindowContext
from cdsa.nn.rollout import LayerTrace, one_hot_cell, residual_share, rollout
from cdsa.nn.types import AXES, Sizes
from conftest import network
from frames import panel

NETWORKS = ["cdsa", "cdsa-paper", "cdsa-paper:shared", "cdsa-paper:joint"]
SIZES = Sizes(6, 4, 2)


def trained(name, cube, **changes):
    method = build_method(f"{name}@small" if "@" not in name else name)
    return replace(method, **changes).fit(cube)


@pytest.fixture(scope="module")
def cube():
    return network(steps=60, stations=4, measurements=3, missing=0.3)


def a_gap(cube, number=0):
    t, l, m = np.argwhere(np.isnan(cube.to_numpy()))[number]  # noqa: E741
    axes = (cube["time"], cube["location"], cube["measurement"])
    return tuple(axis.to_numpy()[at] for axis, at in zip(axes, (t, l, m), strict=True))


def random_look(weighted: bool) -> LayerTrace:
    torch.manual_seed(0)
    maps = {axis: torch.rand(1, 3, n, n).softmax(-1) for axis, n in zip(AXES, SIZES, strict=True)}
    weight = torch.rand(1, *SIZES, 3) + 0.1 if weighted else None
    return LayerTrace(maps, torch.rand(1, *SIZES), weight)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_layer_hands_back_what_its_whole_map_says(weighted):
    look, cell = random_look(weighted), (2, 1, 1)
    row = full_map(look.maps)[0, :, 2, 1, 1]  # (h, s, k, n)
    if look.key_weight is not None:
        row = row * torch.einsum("sknh -> hskn", look.key_weight[0])
        row = row / row.flatten(1).sum(dim=1).unflatten(0, (-1, 1, 1, 1))
    torch.testing.assert_close(
        look.distribute(one_hot_cell(look.residual, cell))[0], row.mean(dim=0)
    )
    joint = LayerTrace({"cells": full_map(look.maps)}, look.residual)
    plain = look._replace(key_weight=None)
    share = torch.rand(1, *SIZES)
    torch.testing.assert_close(joint.distribute(share), plain.distribute(share))


def test_nothing_gets_lost_on_the_way_back():
    looks = [random_look(True), random_look(False), random_look(True)]
    assert rollout(looks, one_hot_cell(looks[0].residual, (0, 3, 0))).sum() == pytest.approx(1)
    before, added = torch.ones(1, 1, 1, 1, 4), torch.zeros(1, 1, 1, 1, 4)
    assert (
        residual_share(before, added).item() == 1 and residual_share(before, before).item() == 0.5
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_shares_are_of_measured_cells_and_sum_to_one(name, cube):
    filler = trained(name, cube)
    for number in (0, 40, 100):
        cell = a_gap(cube, number)
        reasons = filler.explain(cube, *cell)
        shares = reasons.shares
        assert shares.sum().item() == pytest.approx(1, abs=1e-5) and (shares >= 0).all()
        assert (shares.where(reasons.values.isnull(), 0) == 0).all()
        told = [reason.share for reason in reasons.top(5)]
        assert told == sorted(told, reverse=True) and told[0] == shares.max().item()
        filled = filler.fill(cube).sel(time=cell[0], location=cell[1], measurement=cell[2])
        assert reasons.value == pytest.approx(filled.item(), rel=1e-6)


def test_before_it_has_learnt_the_default_network_tells_of_the_line():
    values = torch.arange(6.0).unflatten(0, (1, 6, 1, 1)) + 1
    observed = torch.tensor([0, 1, 0, 0, 0, 1]).bool().unflatten(0, (1, 6, 1, 1))
    torch.manual_seed(0)
    model = CdsaNetworkConfig(d_model=8, n_heads=2, n_layers=1).build(Sizes(6, 1, 1), 0, 0)
    with torch.no_grad():  # a difference of nothing
        model.head[-1].weight.zero_()
        model.head[-1].bias.zero_()
    around = WindowContext(
        calendar=torch.zeros(1, 6, 0),
        climatology=torch.full((1, 6, 1, 1), torch.nan),
        distance=torch.zeros(1, 1),
        station_similarity=torch.zeros(1, 1),
        step_variance=torch.full((1,), 1e-9),
        variable_ids=torch.zeros(1, dtype=torch.long),
    )
    shares = model.contributions(values, observed, around, (2, 0, 0)).flatten()
    torch.testing.assert_close(shares[[1, 5]], torch.tensor([0.75, 0.25]), atol=0.02, rtol=0)
    assert shares[[0, 2, 3, 4]].abs().max() == 0


def test_the_order_of_stations_does_not_matter(cube):
    filler, cell = trained("cdsa", cube), a_gap(cube, 20)
    ours = filler.explain(cube, *cell).shares
    other = filler.explain(cube.isel(location=[2, 0, 3, 1]), *cell).shares
    np.testing.assert_allclose(other.sel(location=ours["location"]), ours, atol=1e-6)


def test_a_direction_is_one_measurement(cube):
    degrees = (cube * 40 % 360).assign_coords(is_direction=("measurement", [True, False, False]))
    filler = trained("cdsa", degrees)
    for number in range(0, 30, 3):
        cell = a_gap(degrees, number)
        reasons = filler.explain(degrees, *cell)
        assert reasons.shares.sum().item() == pytest.approx(1, abs=1e-5)
        assert reasons.shares.dims == degrees.dims


def test_each_measured_cell_belongs_to_one_part_of_what_a_value_comes_from(cube):
    whole = trained("cdsa", cube).explain(cube, *a_gap(cube, 10))
    assert sum(whole.by_group().values()) == pytest.approx(1, abs=1e-5)
    place, kind = whole.cell[1:]
    other = next(name for name in cube["location"].values if name != place)
    beside = next(name for name in cube["measurement"].values if name != kind)
    for number, (at, of) in enumerate(
        [(place, kind), (other, kind), (place, beside), (other, beside)]
    ):
        shares = xr.zeros_like(whole.shares)
        shares.loc[{"location": at, "measurement": of}] = 1 / shares.sizes["time"]
        told = list(replace(whole, shares=shares).by_group().values())
        assert told == pytest.approx([float(part == number) for part in range(4)])


def test_a_cell_may_be_given_as_one_or_in_three_parts(cube):
    filler, (time, place, kind) = trained("cdsa", cube), a_gap(cube, 10)
    ways = [(Cell(time, place, kind),), ((str(time), place, kind),), (time, place, kind)]
    first, *others = (filler.explain(cube, *way) for way in ways)
    assert first.cell == Cell(time, place, kind)
    for told in (*others, filler.explain(cube, cell=first.cell)):
        assert told.cell == first.cell and told.value == first.value
    for part in [(time,), (time, place), ((time, place),), ("now",)]:
        with pytest.raises(ConfigError, match="a cell has a time, a location and a measurement"):
            filler.explain(cube, *part)


@pytest.mark.slow
def test_deleting_the_foremost_cells_moves_a_value_more_than_deleting_others():
    cube = network(steps=300, stations=5, measurements=2, missing=0.2)
    filler = trained("cdsa", cube)
    rng, more = np.random.default_rng(0), 0
    for number in rng.choice(np.isnan(cube.to_numpy()).sum(), 15, replace=False):
        cell = a_gap(cube, number)
        reasons = filler.explain(cube, *cell)
        seen = np.argwhere(reasons.shares.to_numpy() > 0)
        order = np.argsort(-reasons.shares.to_numpy()[tuple(seen.T)])
        moved = []
        for gone in (seen[order[:5]], seen[rng.choice(len(seen), 5, replace=False)]):
            part = reasons.values.copy()
            part.to_numpy()[tuple(gone.T)] = np.nan
            told = filler.fill(part).sel(time=cell[0], location=cell[1], measurement=cell[2])
            whole = filler.fill(reasons.values)
            moved.append(abs(told - whole.sel(time=cell[0], location=cell[1], measurement=cell[2])))
        more += bool(moved[0] > moved[1])
    assert more >= 12


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"location": "nowhere"}, "nowhere"),
        ({"measurement": "x"}, "measurement"),
        ({"time": "2019-01-01"}, "the nearest is"),
        ({"time": "noon"}, "a time is written as"),
    ],
)
def test_a_cell_that_is_not_there_is_refused(cube, change, words):
    filler = trained("cdsa", cube)
    with pytest.raises(ConfigError, match=words):
        filler.explain(cube, Cell(*a_gap(cube))._replace(**change))


def test_a_measured_cell_needs_no_reason(cube):
    t, l, m = np.argwhere(np.isfinite(cube.to_numpy()))[0]  # noqa: E741
    cell = (cube["time"].values[t], cube["location"].values[l], cube["measurement"].values[m])
    with pytest.raises(ConfigError, match="was measured"):
        trained("cdsa", cube).explain(cube, *cell)


def test_the_command_names_the_cells(tmp_path, cube):
    file, model = tmp_path / "air.csv", tmp_path / "model"
    panel(cube).to_csv(file, index=False)
    runner = CliRunner()
    words = ["train", str(file), "-o", str(model), "--preset", "small"]
    assert runner.invoke(app, words).exit_code == 0
    time, location, measurement = (str(part) for part in a_gap(cube, 30))
    asked = ["--time", time, "--location", location, "--measurement", measurement]
    words = ["explain", str(file), "--model", str(model), *asked]
    done = runner.invoke(app, words)
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    for part in (measurement, location, "filled with", "comes from: own series at", "the rest"):
        assert part in said
    assert max(map(len, done.output.splitlines())) <= 80
    told = json.loads(runner.invoke(app, [*words, "--top", "3", "--json"]).stdout)
    assert len(told) == 3 and told[0]["share"] >= told[1]["share"] and told[0]["value"] is not None
    parts = {name: part for name, part in told[0].items() if name.startswith("from_")}
    assert "from_other_places_and_measurements" in parts
    assert len(parts) == 4 and sum(parts.values()) == pytest.approx(1, abs=1e-5)
    for name, part in parts.items():
        assert f"{name.removeprefix('from_').replace('_', ' ')} {part:.0%}" in said
    done = runner.invoke(app, words[:-2])
    assert done.exit_code != 0 and "--measurement" in str(done.exception or done.output)


@pytest.mark.parametrize("name", ["brits", "cdsa-paper:independent"])
def test_networks_without_maps_between_cells_say_so(name, cube):
    with pytest.raises(ConfigError, match="cannot say|the independent manner does not have"):
        trained(name, cube).explain(cube, *a_gap(cube))


def test_where_a_window_has_nothing_the_others_tell_all_of_it():
    cube = network(steps=120, stations=3, measurements=1, missing=0.1)
    cube[40:80] = np.nan
    filler = trained("cdsa", cube)
    place, kind = str(cube["location"].values[0]), str(cube["measurement"].values[0])
    assert (filler.network.window, filler.network.stride) == (12, 6)
    for step in (42, 47, 72, 77):  # one window of two is empty
        told = filler.explain(cube, (cube["time"].values[step], place, kind))
        assert told.shares.sum().item() == pytest.approx(1, abs=1e-5)
    for step in (48, 60, 71):  # both are
        told = filler.explain(cube, (cube["time"].values[step], place, kind))
        assert told.shares.sum().item() == 0 and told.top() == []
        assert np.isfinite(told.value)


def test_the_benchmark_records_the_command_that_was_run(tmp_path, monkeypatch):
    words = ["benchmarks/explanations.py", "--methods", "cdsa", "--seed", "3", "--record"]
    words.append(str(tmp_path / "told.jsonl"))
    monkeypatch.setattr("sys.argv", words)
    script = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "explanations.py"))
    main = script["main"]
    monkeypatch.setitem(main.__globals__, "measure_network", lambda *told: {"moved_more": 1.0})
    main()
    assert read_results(tmp_path / "told.jsonl")[0]["command"] == "python " + " ".join(words)


def test_a_time_with_a_zone_is_the_moment_it_says(cube):
    filler, cell = trained("cdsa", cube), a_gap(cube, 5)
    local = pd.Timestamp(cell[0]).tz_localize("UTC").tz_convert("Asia/Tokyo")
    assert filler.explain(cube, local, *cell[1:]).cell.time == cell[0]


def test_the_command_reads_and_writes_times_as_the_table_does(tmp_path, cube):
    frame = panel(cube)
    frame["time"] = [f"{time}+02:00" for time in frame["time"]]
    frame.to_csv(tmp_path / "in.csv", index=False)
    runner = CliRunner()
    words = ["train", str(tmp_path / "in.csv"), "-o", str(tmp_path / "m"), "--preset", "small"]
    assert runner.invoke(app, words).exit_code == 0
    time, location, measurement = (str(part) for part in a_gap(cube, 30))
    words = ["explain", str(tmp_path / "in.csv"), "--model", str(tmp_path / "m"), "--time"]
    words += [time[:19], "--location", location, "--measurement", measurement, "--json"]
    told = json.loads(runner.invoke(app, words).stdout)[0]["of_time"]
    assert told[:10] == time[:10] and told[11:16] == time[11:16] and told.endswith("+02:00")


def test_a_forecaster_says_nothing_of_what_it_looks_back_on(cube):
    method = build_method("cdsa@small", horizon=4)
    first = cube.copy()
    first[0, 0, 0] = np.nan
    time, place, kind = (cube[axis].values[0] for axis in cube.dims)
    with pytest.raises(ConfigError, match="the first"):
        method.fit(first).explain(first, time, str(place), str(kind))


def test_what_the_table_never_has_but_the_network_knows_has_reasons(cube):
    filler, part = trained("cdsa", cube), cube.copy()
    part[:, :, 1] = np.nan
    kind = str(cube["measurement"].values[1])
    reasons = filler.explain(part, cube["time"].values[20], str(cube["location"].values[0]), kind)
    assert reasons.shares.sum().item() == pytest.approx(1, abs=1e-5)
