import numpy as np
import pytest

from cdsa.core import covariance
from cdsa.core.covariance import (
    choose_shrinkage,
    inverse,
    precision_of,
    precisions,
    static_covariance,
)


@pytest.mark.parametrize("numbers", [1, 300_000])
def test_the_inverses_of_blocks_are_those_of_each_step_alone(numbers, monkeypatch):
    monkeypatch.setattr(covariance, "STATIC_NUMBERS", numbers)
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(12, 12))
    matrix, noise = factor @ factor.T, np.full(12, 0.1)
    observed = rng.random((60, 12)) < rng.random((60, 1))  # few values, or nearly all
    observed[0], observed[1] = False, True
    values = np.where(observed, rng.normal(size=observed.shape), 0.0)
    of_all = precisions(matrix + np.diag(noise), values, observed)
    of_each = precision_of(matrix, noise, observed)
    np.testing.assert_allclose(of_all.total, of_each.sum(axis=0), atol=1e-9)
    np.testing.assert_allclose(
        of_all.error, np.einsum("tsr, tr -> ts", of_each, values), atol=1e-10
    )
    np.testing.assert_allclose(of_all.diagonal, np.einsum("tss -> ts", of_each), atol=1e-10)


def test_the_covariance_of_one_moment_survives_many_gaps():
    rng = np.random.default_rng(5)
    factor = rng.normal(size=(2000, 1))
    values = factor + 0.3 * rng.normal(size=(2000, 6))
    values /= values.std(axis=0)
    observed = rng.random(values.shape) < 0.4
    covariance = static_covariance(np.where(observed, values, 0.0), observed)
    np.testing.assert_allclose(covariance, np.corrcoef(values.T), atol=0.1)


@pytest.mark.parametrize("n_series", [3, 20, 37, 90])
def test_inverses_are_exact_for_near_copies_too(n_series):
    rng = np.random.default_rng(n_series)
    directions = np.linalg.qr(rng.normal(size=(n_series, n_series)))[0]
    matrix = (directions * np.geomspace(1, 1e-6, n_series)) @ directions.T
    stack = np.stack([matrix, 2 * matrix])
    product = inverse((stack + stack.swapaxes(1, 2)) / 2) @ stack
    np.testing.assert_allclose(product, np.broadcast_to(np.eye(n_series), stack.shape), atol=1e-8)


def test_relations_that_do_not_hold_are_shrunk_and_others_are_kept():
    rng = np.random.default_rng(0)
    observed = np.ones((400, 60), dtype=bool)
    unrelated = rng.normal(size=observed.shape)
    copies = rng.normal(size=(400, 1)) + 0.01 * unrelated
    assert choose_shrinkage(unrelated, observed) > 0.3
    assert choose_shrinkage(copies, observed) < 0.01


def test_a_table_with_an_empty_half_keeps_its_covariance():
    values = np.random.default_rng(0).normal(size=(192, 3))
    observed = np.zeros(values.shape, dtype=bool)
    observed[96:] = True
    assert choose_shrinkage(values, observed) == 0.0
