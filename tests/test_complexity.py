"""Operations and parameters of the four manners."""

import json
from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from typer.testing import CliRunner

from cdsa.cli.app import app
from cdsa.errors import ConfigError
from cdsa.methods.neural.cdsa_paper import PaperConfig, PaperImputer
from cdsa.nn.types import MANNERS, Sizes
from cdsa.paper.complexity import PAPER_SIZES, WIDTHS, compare_costs, count_operations

COSTS = {cost.manner: cost for cost in compare_costs()}


def test_the_order_of_the_papers_table_is_reproduced():
    for cost in ("flops", "parameters"):
        ours = sorted(MANNERS, key=lambda manner: getattr(COSTS[manner], cost))
        theirs = sorted(MANNERS, key=lambda manner: getattr(COSTS[manner], f"paper_{cost}"))
        assert ours == theirs, cost


@pytest.mark.parametrize("manner", ["joint", "decomposed", "shared"])
def test_costs_are_close_to_the_papers(manner):
    cost = COSTS[manner]
    assert cost.flops == pytest.approx(cost.paper_flops, rel=0.1)
    assert cost.parameters == pytest.approx(cost.paper_parameters, rel=0.08)


def test_ratios_of_costs_are_close_to_the_papers():
    assert COSTS["joint"].flops / COSTS["decomposed"].flops == pytest.approx(13.4, rel=0.1)
    assert COSTS["decomposed"].parameters / COSTS["shared"].parameters == pytest.approx(36, rel=0.1)


def test_operations_are_those_of_the_equations():
    sizes = Sizes(4, 3, 2)
    config = PaperConfig(
        manner="joint", n_layers=1, last_layer_bare=True, n_heads=2, d_qk=3, d_v=3, d_ff=5
    )
    cells = sizes.cells
    linear = 2 * cells * (2 * 2 * 3 + 2 * 2 * 3)  # queries, keys, values, output: one channel
    attention = 2 * cells * cells * 2 * (3 + 3)
    assert count_operations(config, sizes)[0] == linear + attention + 2 * cells * (5 + 5)


@pytest.mark.parametrize("manner", ["independent", "decomposed", "shared"])  # joint is padded
def test_counting_computes_nothing_and_agrees_with_a_run(manner):
    sizes, config = Sizes(6, 5, 2), replace(WIDTHS, manner=manner)
    model, values = PaperImputer(config, sizes), torch.zeros(1, *sizes)
    with FlopCounterMode(display=False) as counter:
        model(values, values.bool())
    assert count_operations(config, sizes)[0] == counter.get_total_flops()


def test_huge_windows_are_refused():
    assert compare_costs(Sizes(1000, 1000, 10))[1].flops > 1e15
    with pytest.raises(ConfigError, match="are 10,000,000,000"):
        compare_costs(Sizes(100_000, 1000, 100))


def test_only_the_papers_window_size_has_the_papers_figures():
    assert all(cost.paper_flops is None for cost in compare_costs(Sizes(12, 5, 2)))
    assert PAPER_SIZES == (36, 36, 1)


def run(*words):
    done = CliRunner().invoke(app, ["paper", "complexity", *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_prints_the_papers_table():
    text = run()
    assert "the paper: 13.4" in text and "independent" in text
    records = json.loads(run("--json"))
    assert [set(record) for record in records] == 4 * [
        {"manner", "flops", "parameters", "paper_flops", "paper_parameters"}
    ]
    other = json.loads(run("--steps", 12, "--stations", 5, "--measurements", 2, "--json"))
    assert all(record["paper_flops"] is None and record["flops"] > 0 for record in other)
