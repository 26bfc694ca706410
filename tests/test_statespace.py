import numpy as np
import pytest

from cdsa.core import statespace
from cdsa.core.statespace import CHUNK, StateSpace, chunk_steps


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    transition = 0.6 * np.eye(4) + 0.1 * rng.normal(size=(4, 4))
    factor = rng.normal(size=(4, 4))
    innovation = 0.2 * factor @ factor.T + 0.1 * np.eye(4)
    stationary = innovation
    for _ in range(200):
        stationary = transition @ stationary @ transition.T + innovation
    return StateSpace(transition, innovation, np.full(4, 0.05), stationary)


def simulate(model, n_steps, seed=1):
    rng = np.random.default_rng(seed)
    states = np.zeros((n_steps, 4))
    states[0] = rng.multivariate_normal(np.zeros(4), model.stationary)
    for t in range(1, n_steps):
        states[t] = model.transition @ states[t - 1]
        states[t] += rng.multivariate_normal(np.zeros(4), model.innovation)
    return states + np.sqrt(model.noise) * rng.normal(size=states.shape)


def predicted_table(model, values, observed):
    mean, variance = model.predict(values[:, None], observed[:, None])
    return mean[:, 0], variance[:, 0]


@pytest.mark.parametrize("numbers", [1.0, 1e7])
def test_each_value_is_predicted_from_all_others_as_in_one_large_gaussian(
    model, numbers, monkeypatch
):
    monkeypatch.setattr(statespace, "MAX_NUMBERS", numbers)
    n_steps = CHUNK + 30  # more than one chunk
    values = simulate(model, n_steps)
    observed = np.random.default_rng(2).random(values.shape) < 0.6
    observed[40:70] = False
    covariance = np.zeros((n_steps, 4, n_steps, 4))
    for t in range(n_steps):
        lagged = model.stationary
        for later in range(t, n_steps):
            covariance[later, :, t], covariance[t, :, later] = lagged, lagged.T
            lagged = model.transition @ lagged
    covariance = covariance.reshape(4 * n_steps, -1) + np.diag(np.tile(model.noise, n_steps))
    seen = np.flatnonzero(observed)
    mean, variance = np.empty((2, values.size))
    for cell in range(values.size):
        others = seen[seen != cell]
        gain = np.linalg.solve(covariance[np.ix_(others, others)], covariance[others, cell])
        mean[cell] = gain @ values.ravel()[others]
        variance[cell] = covariance[cell, cell] - gain @ covariance[others, cell]
    predicted = predicted_table(model, values, observed)
    np.testing.assert_allclose(predicted[0].ravel(), mean, atol=1e-10)
    np.testing.assert_allclose(predicted[1].ravel(), variance, atol=1e-10)


def test_a_prediction_does_not_see_what_was_not_observed(model):
    values = simulate(model, 50)
    observed = np.random.default_rng(3).random(values.shape) < 0.5
    changed = np.where(observed, values, 1e6)
    assert np.array_equal(
        predicted_table(model, values, observed), predicted_table(model, changed, observed)
    )


def test_em_finds_the_transition_and_the_innovation_of_a_simulation(model):
    values = simulate(model, 6000)
    scale = values.std(axis=0)
    observed = np.random.default_rng(4).random(values.shape) < 0.7
    fitted = StateSpace.fit(values / scale, observed, n_iterations=8)
    transition = model.transition * scale / scale[:, None]
    innovation = model.innovation / scale / scale[:, None]
    np.testing.assert_allclose(fitted.transition, transition, atol=0.12)
    np.testing.assert_allclose(fitted.innovation, innovation, atol=0.12)


def test_chunks_have_observations_and_are_spread_over_the_table():
    observed = np.zeros((10 * CHUNK, 2), dtype=bool)
    observed[: 2 * CHUNK] = observed[7 * CHUNK :] = True
    steps = chunk_steps(observed, 4 * CHUNK)
    assert steps.shape == (CHUNK, 4) and observed[steps].all()
    assert steps.min() == 0 and steps.max() == len(observed) - 1


def test_the_mean_of_a_gap_is_the_sum_of_its_weights_times_the_values(model):
    values = simulate(model, 40)
    observed = np.random.default_rng(4).random(values.shape) < 0.6
    cells = ((0, 1), (17, 3), (39, 0))
    observed[tuple(zip(*cells, strict=True))] = False
    for step, series in cells:
        weights = model.weights(observed, step, series)
        assert (weights[~observed] == 0).all()
        mean = predicted_table(model, values, observed)[0][step, series]
        assert (weights * values)[observed].sum() == pytest.approx(mean, abs=1e-9)
