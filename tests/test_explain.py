"""Explanations: shares of measured cells in a filled value."""

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
from cdsa.methods.engine.persistence import save_filler
from cdsa.methods.explanation import Cell
from cdsa.methods.neural.cdsa_network import CdsaNetworkConfig
from cdsa.methods.registry import build_method
from cdsa.nn.context import WindowContext
from cdsa.nn.types import Sizes
from conftest import network
from frames import panel

NETWORKS = ["cdsa", "cdsa-paper", "cdsa-paper:shared", "cdsa-paper:joint"]


def trained(name, cube):
    return build_method(f"{name}@small").fit(cube)


@pytest.fixture(scope="module")
def cube():
    return network(steps=60, stations=4, measurements=3, missing=0.3)


@pytest.fixture(scope="module")
def filler(cube):
    return trained("cdsa", cube)


def nth_cell(mask, number):
    """Time, location and measurement of the n-th cell of a mask."""
    position = np.argwhere(mask.to_numpy())[number]
    return tuple(mask[axis].to_numpy()[i] for axis, i in zip(mask.dims, position, strict=True))


def nth_gap(cube, number=0):
    return nth_cell(cube.isnull(), number)


@pytest.mark.parametrize("name", NETWORKS)
def test_shares_are_of_measured_cells_and_sum_to_one(name, cube):
    filler = trained(name, cube)
    for number in (0, 40, 100):
        explanation = filler.explain(cube, *nth_gap(cube, number))
        shares = explanation.shares
        assert shares.sum().item() == pytest.approx(1, abs=1e-5) and (shares >= 0).all()
        assert (shares.where(explanation.values.isnull(), 0) == 0).all()
        largest = [contribution.share for contribution in explanation.top(5)]
        assert largest == sorted(largest, reverse=True) and largest[0] == shares.max().item()
        filled = filler.fill(cube).sel(explanation.cell._asdict())
        assert explanation.value == pytest.approx(filled.item(), rel=1e-6)


def test_an_untrained_default_network_attributes_by_interpolation():
    values = torch.arange(6.0).unflatten(0, (1, 6, 1, 1)) + 1
    observed = torch.tensor([0, 1, 0, 0, 0, 1]).bool().unflatten(0, (1, 6, 1, 1))
    torch.manual_seed(0)
    model = CdsaNetworkConfig(d_model=8, n_heads=2, n_layers=1).build(Sizes(6, 1, 1), 0, 0)
    with torch.no_grad():  # no residual
        model.head[-1].weight.zero_()
        model.head[-1].bias.zero_()
    context = WindowContext(
        calendar=torch.zeros(1, 6, 0),
        climatology=torch.full((1, 6, 1, 1), torch.nan),
        distance=torch.zeros(1, 1),
        station_similarity=torch.zeros(1, 1),
        step_variance=torch.full((1,), 1e-9),
        variable_ids=torch.zeros(1, dtype=torch.long),
    )
    shares = model.contributions(values, observed, context, (2, 0, 0)).flatten()
    torch.testing.assert_close(shares[[1, 5]], torch.tensor([0.75, 0.25]), atol=0.02, rtol=0)
    assert shares[[0, 2, 3, 4]].abs().max() == 0


def test_the_order_of_stations_does_not_matter(cube, filler):
    cell = nth_gap(cube, 20)
    shares = filler.explain(cube, *cell).shares
    permuted = filler.explain(cube.isel(location=[2, 0, 3, 1]), *cell).shares
    np.testing.assert_allclose(permuted.sel(location=shares["location"]), shares, atol=1e-6)


def test_a_direction_is_one_measurement(cube):
    degrees = (cube * 40 % 360).assign_coords(is_direction=("measurement", [True, False, False]))
    filler = trained("cdsa", degrees)
    for number in range(0, 30, 3):
        shares = filler.explain(degrees, *nth_gap(degrees, number)).shares
        assert shares.sum().item() == pytest.approx(1, abs=1e-5) and shares.dims == degrees.dims


def test_each_measured_cell_belongs_to_one_group(cube, filler):
    explanation = filler.explain(cube, *nth_gap(cube, 10))
    assert sum(explanation.by_group().values()) == pytest.approx(1, abs=1e-5)
    _, here, this = explanation.cell
    elsewhere = next(name for name in cube["location"].values if name != here)
    other = next(name for name in cube["measurement"].values if name != this)
    series = [(here, this), (elsewhere, this), (here, other), (elsewhere, other)]
    for group, (location, measurement) in enumerate(series):
        shares = xr.zeros_like(explanation.shares)
        shares.loc[{"location": location, "measurement": measurement}] = 1 / shares.sizes["time"]
        sums = list(replace(explanation, shares=shares).by_group().values())
        assert sums == pytest.approx([float(number == group) for number in range(4)])


def test_a_time_may_be_text(cube, filler):
    time, location, measurement = nth_gap(cube, 10)
    first, second = (filler.explain(cube, t, location, measurement) for t in (time, str(time)))
    assert first.cell == second.cell == Cell(time, location, measurement)
    assert first.value == second.value


@pytest.mark.slow
def test_deleting_the_largest_contributions_changes_a_value_more_than_deleting_others():
    cube = network(steps=300, stations=5, measurements=2, missing=0.2)
    filler = trained("cdsa", cube)
    rng, n_larger = np.random.default_rng(0), 0
    for number in rng.choice(np.isnan(cube.to_numpy()).sum(), 15, replace=False):
        explanation = filler.explain(cube, *nth_gap(cube, number))
        shares, cell = explanation.shares.to_numpy(), explanation.cell._asdict()
        cells = np.argwhere(shares > 0)
        order = np.argsort(-shares[tuple(cells.T)])
        value, changes = filler.fill(explanation.values).sel(cell), []
        for deleted in (cells[order[:5]], cells[rng.choice(len(cells), 5, replace=False)]):
            visible = explanation.values.copy()
            visible.to_numpy()[tuple(deleted.T)] = np.nan
            changes.append(abs(filler.fill(visible).sel(cell) - value))
        n_larger += bool(changes[0] > changes[1])
    assert n_larger >= 12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"location": "nowhere"}, "nowhere"),
        ({"measurement": "x"}, "measurement"),
        ({"time": "2019-01-01"}, "the nearest is"),
        ({"time": "noon"}, "a time is written as"),
    ],
)
def test_a_cell_outside_the_cube_is_refused(cube, filler, change, message):
    cell = Cell(*nth_gap(cube))._replace(**change)
    with pytest.raises(ConfigError, match=message):
        filler.explain(cube, *cell)


def test_a_measured_cell_is_refused(cube, filler):
    with pytest.raises(ConfigError, match="was measured"):
        filler.explain(cube, *nth_cell(cube.notnull(), 0))


@pytest.fixture(scope="module")
def saved(cube, filler, tmp_path_factory):
    """A table and a folder with a network that was trained on it."""
    folder = tmp_path_factory.mktemp("explain")
    panel(cube).to_csv(folder / "air.csv", index=False)
    save_filler(filler, folder / "model")
    return folder


def run_explain(saved, file, cell, *options):
    time, location, measurement = map(str, cell)
    words = ["explain", str(file), "--model", str(saved / "model"), "--time", time]
    return CliRunner().invoke(
        app, [*words, "--location", location, "--measurement", measurement, *options]
    )


def test_the_command_shows_the_largest_contributions(saved, cube):
    cell = nth_gap(cube, 30)
    result = run_explain(saved, saved / "air.csv", cell)
    assert result.exit_code == 0, result.output
    assert max(map(len, result.output.splitlines())) <= 80
    output = " ".join(result.output.split())
    for text in (cell[1], cell[2], "filled with", "same series, other times;", "the remaining"):
        assert text in output
    records = json.loads(run_explain(saved, saved / "air.csv", cell, "--top", "3", "--json").stdout)
    assert len(records) == 3 and records[0]["share"] >= records[1]["share"]
    assert records[0]["value"] is not None
    groups = {name: share for name, share in records[0].items() if name.startswith("from_")}
    assert "from_other_stations_and_measurements" in groups
    assert len(groups) == 4 and sum(groups.values()) == pytest.approx(1, abs=1e-5)
    for name, share in groups.items():
        words = name.removeprefix("from_").replace("_", " ")
        assert f"{share:.0%} {words}" in output.replace(",", "")


def test_the_command_lists_no_shares_that_round_to_nothing(saved, cube):
    output = run_explain(saved, saved / "air.csv", nth_gap(cube, 30), "--top", "5000").output
    assert "0.1%" in output and " 0.0%" not in output


def test_an_explanation_is_a_table_too(cube, filler):
    explanation = filler.explain(cube, *nth_gap(cube, 30))
    table = explanation.to_frame()
    assert list(table.columns) == ["time", "location", "measurement", "value", "share"]
    assert table["share"].sum() == pytest.approx(1, abs=1e-5)
    assert table["share"].iloc[0] == explanation.top(1)[0].share
    assert repr(explanation).startswith("<Explanation: ") and len(repr(explanation)) < 100


def test_the_command_reads_and_writes_times_as_the_table_does(saved, cube, tmp_path):
    frame = panel(cube)
    frame["time"] = [f"{time}+02:00" for time in frame["time"]]
    frame.to_csv(tmp_path / "in.csv", index=False)
    local, *names = map(str, nth_gap(cube, 30))
    utc = cube.assign_coords(time=cube["time"] - np.timedelta64(2, "h"))
    save_filler(trained("cdsa", utc), tmp_path / "model")
    result = run_explain(tmp_path, tmp_path / "in.csv", (local[:19], *names), "--json")
    time = json.loads(result.stdout)[0]["of_time"]
    assert time[:10] == local[:10] and time[11:16] == local[11:16] and time.endswith("+02:00")


def test_the_command_asks_which_measurement(saved, cube):
    time, location, _ = map(str, nth_gap(cube, 30))
    words = ["explain", str(saved / "air.csv"), "--model", str(saved / "model"), "--time", time]
    result = CliRunner().invoke(app, [*words, "--location", location])
    assert result.exit_code != 0 and "choose one measurement with --measurement: pm25, temp" in str(
        result.exception
    )


@pytest.mark.parametrize("name", ["brits", "cdsa-paper:independent"])
def test_networks_without_maps_between_cells_are_refused(name, cube):
    with pytest.raises(ConfigError, match="cannot explain|the independent manner does not have"):
        trained(name, cube).explain(cube, *nth_gap(cube))


def test_windows_without_observations_have_no_part_in_the_shares():
    cube = network(steps=120, stations=3, measurements=1, missing=0.1)
    cube[40:80] = np.nan
    filler = trained("cdsa", cube)
    location, measurement = str(cube["location"].values[0]), str(cube["measurement"].values[0])
    assert (filler.network.window, filler.network.stride) == (12, 6)
    for step in (42, 47, 72, 77):  # one window of two is empty
        explanation = filler.explain(cube, cube["time"].values[step], location, measurement)
        assert explanation.shares.sum().item() == pytest.approx(1, abs=1e-5)
    for step in (48, 60, 71):  # both are
        explanation = filler.explain(cube, cube["time"].values[step], location, measurement)
        assert explanation.shares.sum().item() == 0 and explanation.top() == []
        assert np.isfinite(explanation.value)


def test_the_benchmark_records_the_command_that_was_run(tmp_path, monkeypatch):
    words = ["benchmarks/explanations.py", "--methods", "cdsa", "--seed", "3", "--record"]
    words.append(str(tmp_path / "results.jsonl"))
    monkeypatch.setattr("sys.argv", words)
    script = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "explanations.py"))
    main = script["main"]
    monkeypatch.setitem(main.__globals__, "measure_network", lambda *_: {"moved_more": 1.0})
    main()
    assert read_results(tmp_path / "results.jsonl")[0]["command"] == "python " + " ".join(words)


def test_a_time_with_a_zone_is_converted(cube, filler):
    cell = nth_gap(cube, 5)
    local = pd.Timestamp(cell[0]).tz_localize("UTC").tz_convert("Asia/Tokyo")
    assert filler.explain(cube, local, *cell[1:]).cell.time == cell[0]


def test_the_context_of_a_forecaster_is_refused(cube):
    cube = cube.copy()
    cube[0, 0, 0] = np.nan
    filler = build_method("cdsa@small", horizon=4).fit(cube)
    time, location, measurement = (cube[axis].values[0] for axis in cube.dims)
    with pytest.raises(ConfigError, match="none of the first"):
        filler.explain(cube, time, str(location), str(measurement))


def test_a_measurement_that_is_missing_from_the_table_is_explained(cube, filler):
    visible = cube.copy()
    visible[:, :, 1] = np.nan
    location, measurement = str(cube["location"].values[0]), str(cube["measurement"].values[1])
    explanation = filler.explain(visible, cube["time"].values[20], location, measurement)
    assert explanation.shares.sum().item() == pytest.approx(1, abs=1e-5)
