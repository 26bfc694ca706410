import numpy as np
import pytest
import torch

from cdsa.core.gaps import (
    GAP_CLASSES,
    LONG_GAP,
    bridge_variance,
    effective_gap_lengths,
    gap_class,
    gap_lengths,
    run_lengths,
)
from cdsa.nn.interpolation import interpolate


def test_each_missing_cell_knows_the_length_of_its_gap():
    missing = np.array([1, 1, 0, 1, 0, 0, 1, 1, 1], dtype=bool)
    assert run_lengths(missing).tolist() == [2, 2, 0, 1, 0, 0, 3, 3, 3]


def test_gaps_of_one_series_do_not_run_into_another():
    missing = np.array([[1, 0], [1, 1], [0, 1]], dtype=bool)
    assert run_lengths(missing).tolist() == [[2, 0], [2, 2], [0, 2]]


def test_gaps_at_the_first_or_last_step_count_double():
    missing = np.array([[1, 1], [1, 1], [0, 1], [1, 1], [0, 1], [1, 1]], dtype=bool)
    assert effective_gap_lengths(missing)[:, 0].tolist() == [4, 4, 0, 1, 0, 2]
    assert effective_gap_lengths(missing)[:, 1].tolist() == [LONG_GAP] * 6


def test_each_gap_is_counted_once():
    missing = np.array([1, 1, 0, 1, 0, 1], dtype=bool)
    assert gap_lengths(missing).tolist() == [2, 1, 1]


def test_classes_are_closed_at_their_longest_gap():
    names = [GAP_CLASSES[n][0] for n in gap_class(np.array([1, 2, 5, 6, 23, 24, 71, 72, 9999]))]
    assert names == ["1", "2-5", "2-5", "6-23", "6-23", "24-71", "24-71", "72+", "72+"]


def test_bridge_variance_is_that_of_a_random_walk_tied_at_both_ends():
    missing = np.array([1, 0, 1, 0, 1, 1, 1, 0, 1, 1], dtype=bool)[:, None]
    expected = [1, 0, 1 / 2, 0, 3 / 4, 1, 3 / 4, 0, 1, 2]
    assert bridge_variance(missing)[:, 0].tolist() == pytest.approx(expected)
    assert np.isinf(bridge_variance(np.ones((3, 1), dtype=bool))).all()


def test_bridge_variance_agrees_with_the_input_of_the_network(rng):
    missing = rng.random((60, 5, 2)) < 0.6
    observed = torch.as_tensor(~missing)[None]
    easy = interpolate(torch.zeros(observed.shape, dtype=torch.float64), observed)
    assert easy.has_observation.all()
    np.testing.assert_allclose(bridge_variance(missing), easy.bridge_variance[0].numpy())
