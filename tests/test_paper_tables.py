"""The experiments of the paper's tables: methods, rates, protocols and settings."""

from pathlib import Path

import pytest

from cdsa.core.records import read_results
from cdsa.datasets.registry import get_dataset
from cdsa.methods.registry import REGISTRY
from cdsa.paper import runner
from cdsa.paper.runner import experiment_key
from cdsa.paper.tables import AS_PUBLISHED, COMPLEXITY_SIZES, TABLES, plan_experiments


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_the_strongest_simple_method(name):
    table = TABLES[name]
    if table.task != "profile":
        assert ("last" if table.task == "forecast" else "linear") in table.methods
    for experiment in plan_experiments(table):
        assert experiment.method.split(":")[0].split("@")[0] in REGISTRY


def test_the_tables_are_the_papers_ten():
    assert list(TABLES) == [
        "complexity", "nyc", "kdd2015", "kdd2018", "metr-la", "losses", "ablation-nyc",
        "ablation-kdd2015", "ablation-kdd2018", "ablation-metr-la",
    ]  # fmt: skip


def test_rates_trials_and_protocols_are_the_papers():
    nyc = list(plan_experiments(TABLES["nyc"], methods=["linear"]))
    assert len(nyc) == 8 * 5
    assert [experiment.rate for experiment in nyc[:8]] == [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    pm25 = plan_experiments(TABLES["kdd2015"], methods=["mean"])
    assert {experiment.protocol for experiment in pm25} == {"in-sample", "out-of-sample"}
    forecasts = plan_experiments(TABLES["metr-la"], methods=["last"])
    assert {experiment.protocol for experiment in forecasts} == {"80/20", "70/10/20"}
    losses = [experiment.loss for experiment in plan_experiments(TABLES["losses"])]
    assert losses == [None, "rmse", "mse", "mae", "rmse+mae"]


FILL_SETTINGS = {  # batch and learning rate
    "mtsi": (32, 2e-3),
    "brits": (16, 1e-3),
    "dcrnn": (8, 3e-3),
    "iin": (16, 2e-3),
}
FORECAST_SETTINGS = {
    "fc-lstm": (32, 1e-3),
    "mtsi": (32, 2e-3),
    "brits": (16, 1e-3),
    "dcrnn": (32, 3e-3),
    "dst-gcnn": (32, 2e-3),
    "gaan": (0, 3e-3),  # chosen by the number of stations
}


@pytest.mark.parametrize("name", ["nyc", "kdd2015", "kdd2018", "metr-la"])
def test_baselines_train_with_their_own_settings_on_every_window_for_all_their_minutes(name):
    table = TABLES[name]
    horizon = 12 if table.task == "forecast" else 0
    expected = dict(FORECAST_SETTINGS if horizon else FILL_SETTINGS)
    if name == "nyc":
        expected["dcrnn"] = (2, 3e-3)  # a larger batch of two hundred stations takes seconds
    checked = set()
    rates = [0.5] if len(table.rates) > 1 else None
    for experiment in plan_experiments(table, rates=rates, seeds=[0]):
        if experiment.method in expected:
            method = runner.build_network(experiment, horizon)
            checked.add(experiment.method)
            method = method.resolve() if experiment.method == "dcrnn" else method
            train, label = method.train, experiment.label
            assert (train.batch_size, train.lr) == expected[experiment.method], label
            assert (method.stride, method.horizon, train.patience) == (1, horizon, 0), label
            assert train.minutes == 10 and (method.window == 12 or not horizon), label
    trained = {m for m in table.methods if REGISTRY[m.split(":")[0].split("@")[0]].trains}
    assert checked == {method for method in trained if "cdsa" not in method}


def test_another_budget_or_seed_is_another_experiment():
    variants = ({"minutes": 1}, {"minutes": 2}, {"minutes": 1, "seeds": [1]})
    keys = [
        experiment_key(experiment)
        for more in variants
        for experiment in plan_experiments(
            TABLES["kdd2018"], methods=["cdsa-paper"], rates=[0.5], **more
        )
    ]
    assert len(set(keys)) == len(keys) == 3


def test_recorded_data_are_described_as_the_data_sets_describe_themselves():
    """Otherwise no record would be found again."""
    records = read_results(Path(__file__).parents[1] / "results" / "paper.jsonl")
    for name, measured_on in {(r["data"], r["measured_on"]) for r in records}:
        if name != COMPLEXITY_SIZES:
            differences = [form.difference for form in get_dataset(name).file_sets]
            assert measured_on.startswith((AS_PUBLISHED, *filter(None, differences))), measured_on


def test_every_recorded_experiment_is_found_again():
    """Otherwise it would be run again under another name."""
    records = read_results(Path(__file__).parents[1] / "results" / "paper.jsonl")
    for record in records:
        planned = plan_experiments(
            TABLES[record["table"]],
            methods=[record["method"]],
            data=[record["data"]],
            protocols=[record["protocol"]],
            rates=None if record["rate"] is None else [record["rate"]],
            seeds=[record["seed"]],
            minutes=record["minutes"],
        )
        assert tuple(record[name] for name in runner.KEYS) in map(experiment_key, planned)
