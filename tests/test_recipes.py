"""What is measured for the paper's tables: methods, rates, protocols and settings."""

import pytest

from cdsa.methods.registry import REGISTRY
from cdsa.paper import runner
from cdsa.paper.runner import experiment_key
from cdsa.paper.tables import TABLES, plan_experiments


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_the_simple_method_that_is_hard_to_beat(name):
    table = TABLES[name]
    if name != "complexity":
        assert ("last" if table.data == ("metr-la",) else "linear") in table.methods
    for cell in plan_experiments(table):
        assert cell.method.split(":")[0].split("@")[0] in REGISTRY


def test_the_tables_are_the_papers_ten():
    assert list(TABLES) == [
        "complexity", "nyc", "kdd2015", "kdd2018", "metr-la", "losses", "ablation-nyc",
        "ablation-kdd2015", "ablation-kdd2018", "ablation-metr-la",
    ]  # fmt: skip


def test_rates_trials_and_protocols_are_the_papers():
    nyc = list(plan_experiments(TABLES["nyc"], methods=["linear"]))
    assert len(nyc) == 8 * 5
    assert [cell.rate for cell in nyc[:8]] == [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    pm25 = {cell.protocol for cell in plan_experiments(TABLES["kdd2015"], methods=["mean"])}
    assert pm25 == {"in-sample", "out-of-sample"}
    ahead = {cell.protocol for cell in plan_experiments(TABLES["metr-la"], methods=["last"])}
    assert ahead == {"80/20", "70/10/20"}
    losses = [cell.loss for cell in plan_experiments(TABLES["losses"])]
    assert losses == [None, "rmse", "mse", "mae", "rmse+mae"]


TO_FILL = {  # batch and learning rate
    "mtsi": (32, 2e-3),
    "brits": (16, 1e-3),
    "dcrnn": (8, 3e-3),
    "iin": (16, 2e-3),
}


AHEAD = {
    "fc-lstm": (32, 1e-3),
    "mtsi": (32, 2e-3),
    "brits": (16, 1e-3),
    "dcrnn": (32, 3e-3),
    "dst-gcnn": (32, 2e-3),
    "gaan": (0, 3e-3),  # chosen by the number of stations
}


@pytest.mark.parametrize("name", ["nyc", "kdd2015", "kdd2018", "metr-la"])
def test_rivals_learn_by_their_own_settings_from_every_window_for_all_their_minutes(name):
    table = TABLES[name]
    ahead = 12 if name == "metr-la" else 0
    wanted = dict(AHEAD if ahead else TO_FILL)
    if name == "nyc":
        wanted["dcrnn"] = (2, 3e-3)  # a larger batch of two hundred stations takes seconds
    found = set()
    for cell in plan_experiments(table, rates=[0.5] if len(table.rates) > 1 else None, seeds=[0]):
        if cell.method in wanted:
            made = runner.build_method(cell, ahead)
            found.add(cell.method)
            made = made.settled() if cell.method == "dcrnn" else made
            assert (made.train.batch, made.train.rate) == wanted[cell.method], cell.label
            assert (made.stride, made.horizon, made.train.patience) == (1, ahead, 0), cell.label
            assert made.train.minutes == 10 and made.steps == (12 if ahead else made.steps)
    trained = {m for m in table.methods if REGISTRY[m.split(":")[0].split("@")[0]].trains}
    assert found == {method for method in trained if "cdsa" not in method}


def test_another_budget_or_seed_is_another_cell():
    ways = ({"minutes": 1}, {"minutes": 2}, {"minutes": 1, "seeds": [1]})
    chosen = {"methods": ["cdsa-paper"], "rates": [0.5]}
    found = [
        cell for more in ways for cell in plan_experiments(TABLES["kdd2018"], **chosen, **more)
    ]
    assert len({experiment_key(cell) for cell in found}) == len(found) == 3
