import numpy as np
import pytest
import xarray as xr

from cdsa.core.gaps import gap_lengths
from cdsa.core.masks import (
    AtRandom,
    Blocks,
    Bursts,
    GivenMask,
    LastSteps,
    Stations,
    drop_outs,
    natural_gap_lengths,
    parse_hide,
)
from cdsa.errors import ConfigError
from conftest import network

STRATEGIES = [
    "like-data:0.4",
    "like-data:+0.1",
    "random:0.4",
    "bursts:0.4",
    "blocks:0.4",
    "random:+0.1",
    "bursts:+0.1",
    "stations:1",
    "last:5",
]


def final_rate(cube, hidden):
    return float(cube.where(~hidden).isnull().mean())


@pytest.mark.parametrize("text", STRATEGIES)
def test_only_observed_cells_are_hidden(text, cube, rng):
    hidden = parse_hide(text)(cube, rng)
    assert hidden.any() and not (hidden & cube.isnull()).any()


@pytest.mark.parametrize("text", STRATEGIES)
def test_the_same_seed_hides_the_same_cells_and_another_seed_others(text, cube):
    first, same, other = (parse_hide(text)(cube, np.random.default_rng(s)) for s in (1, 1, 4))
    assert first.equals(same)
    assert text.startswith("last") or not first.equals(other)


@pytest.mark.parametrize("text", STRATEGIES)
def test_hiding_does_not_change_the_cube(text, cube, rng):
    before = cube.copy(deep=True)
    parse_hide(text)(cube, rng)
    assert cube.identical(before)


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.8, 0.9])
@pytest.mark.parametrize("kind", [AtRandom, Bursts, Blocks])
def test_the_final_missing_rate_is_hit(kind, rate, rng):
    cube = network(steps=400, stations=8, measurements=1, missing=0.1)
    assert final_rate(cube, kind(rate=rate)(cube, rng)) == pytest.approx(rate, abs=0.005)


@pytest.mark.parametrize("seed", range(5))
def test_bursts_hit_the_rate_on_a_small_cube(seed):
    cube = network(steps=48, stations=2, measurements=1, missing=0.05, seed=seed)
    hidden = Bursts(rate=0.3)(cube, np.random.default_rng(seed))
    assert final_rate(cube, hidden) == pytest.approx(0.3, abs=0.005)


def test_bursts_are_as_long_as_the_natural_gaps(rng):
    cube = network(steps=2000, stations=6, measurements=1, missing=0.0)
    values = cube.to_numpy().copy()
    for start in range(50, 1900, 60):  # natural gaps of 20 steps, all alike
        values[start : start + 20, ::2] = np.nan
    gappy = cube.copy(data=values)
    assert set(natural_gap_lengths(gappy)) == {20}
    untouched = Bursts(share=0.05)(gappy, rng).to_numpy()[:, 1::2]  # series without natural gaps
    lengths = gap_lengths(untouched)
    assert np.median(lengths) == 20


def test_burst_lengths_follow_the_distribution_of_natural_gaps(rng):
    cube = network(steps=4000, stations=4, measurements=1, missing=0.0)
    values = cube.to_numpy().copy()
    for number, start in enumerate(range(50, 3900, 40)):  # three gaps of 2 steps to one of 30
        values[start : start + (30 if number % 4 == 0 else 2), 0] = np.nan
    gappy = cube.copy(data=values)
    drawn = gap_lengths(Bursts(share=0.05)(gappy, rng).to_numpy()[:, 1:])
    assert np.median(drawn) == 2 and 30 in drawn
    assert drawn.mean() == pytest.approx(9.0, rel=0.25)


def test_the_papers_start_probability_gives_the_papers_missing_rate(rng):
    # the authors' walk: at each step a gap starts with chance 0.618, int(N(6.35, 9.81)) steps long
    cube = network(steps=6000, stations=4, measurements=1, missing=0.0)
    walked = np.zeros(cube.shape[:2], dtype=bool)
    for series in range(4):
        t = 0
        while t < 6000:
            length = int(rng.normal(6.35, 9.81)) if rng.random() < 0.618 else 0
            walked[t : t + max(length, 0), series] = True
            t += max(length, 1)
    hidden = Bursts(rate=float(walked.mean()))(cube, rng).to_numpy()[:, :, 0]
    assert walked.mean() == pytest.approx(0.9, abs=0.01)
    assert gap_lengths(hidden).mean() == pytest.approx(gap_lengths(walked).mean(), rel=0.15)


def test_a_rate_below_the_current_missing_rate_is_refused(rng):
    with pytest.raises(
        ConfigError, match=r"% is already missing and the requested rate is 1.0%.*bursts:\+0.01"
    ):
        AtRandom(rate=0.01)(network(missing=0.3), rng)


def test_a_measurement_without_observations_does_not_count(rng):
    cube = network(missing=0.0)
    cube[:, :, 1] = np.nan
    hidden = AtRandom(rate=0.2)(cube, rng)
    assert hidden[:, :, 0].mean() == pytest.approx(0.2, abs=0.005)


def test_blocks_hide_neighbouring_stations_together(rng):
    cube = network(steps=500, stations=6, measurements=1, missing=0.0)
    hidden = Blocks(share=0.01, steps=10, stations=2)(cube, rng).to_numpy()[:, :, 0]
    at_once = hidden.sum(axis=1)
    assert at_once.max() == 2
    stations = np.flatnonzero(hidden[np.argmax(at_once)])
    assert np.diff(stations) == 1  # stations are in a row: neighbours differ by one


def test_whole_stations_are_hidden(cube, rng):
    visible = cube.where(~Stations(count=2)(cube, rng))
    assert int(visible.notnull().any(("time", "measurement")).sum()) == 1


def test_all_stations_cannot_be_hidden(cube, rng):
    with pytest.raises(ConfigError, match="one must stay"):
        Stations(count=3)(cube, rng)


def test_the_last_steps_are_hidden(cube, rng):
    hidden = LastSteps(count=5)(cube, rng)
    assert cube.where(~hidden)[-5:].isnull().all() and not hidden[:-5].any()


def test_a_given_mask_is_aligned_by_its_labels(cube, rng):
    mask = xr.zeros_like(cube, dtype=bool)
    mask.loc["2020-01-01 03:00", "S1", "pm25"] = True
    reversed_mask = mask.isel(location=[2, 1, 0])
    hidden = GivenMask(hidden=reversed_mask)(cube, rng)
    assert int(hidden.sum()) == int(
        cube.sel(time="2020-01-01 03:00", location="S1", measurement="pm25").notnull()
    )


def test_the_last_value_of_a_measurement_is_never_hidden(rng):
    cube = network(steps=4, stations=1, measurements=2, missing=0.0)
    cube[1:, :, 1] = np.nan
    hidden = AtRandom(share=0.99)(cube, rng)
    assert cube.where(~hidden).notnull().any(("time", "location")).all()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("own:+0.1", r"like-data:\+0.1"),
        ("burst:0.2", "did you mean 'bursts'"),
        ("bursts", "bursts:0.2"),
        ("stations:two", "stations:2"),
        ("random:1.5", "between 0 and 1"),
        ("last:0", "last steps"),
    ],
)
def test_an_invalid_strategy_is_answered(text, match, cube, rng):
    with pytest.raises(ConfigError, match=match):
        parse_hide(text)(cube, rng)


def outages(steps: int = 600, seed: int = 0) -> xr.DataArray:
    """A cube whose stations drop out as a whole, for a dozen hours at a time."""
    cube = network(steps=steps, stations=4, measurements=2, missing=0, seed=seed)
    rng = np.random.default_rng(seed)
    values = cube.to_numpy().copy()
    for _ in range(16):
        start = int(rng.integers(0, steps - 12))
        values[start : start + 12, int(rng.integers(4))] = np.nan
    return cube.copy(data=values)


def test_like_data_hides_together_what_drops_out_together():
    cube = outages()
    hidden = parse_hide("like-data:+0.1")(cube, np.random.default_rng(0))
    assert int(hidden.sum()) == pytest.approx(0.1 * int(cube.notnull().sum()), abs=1)
    first, second = hidden.to_numpy()[:, :, 0], hidden.to_numpy()[:, :, 1]
    assert (first == second).mean() > 0.99  # but for the last gap, which is shortened
    assert not (hidden & cube.isnull()).any()
    bursts = parse_hide("bursts:+0.1")(cube, np.random.default_rng(0)).to_numpy()
    assert (bursts[:, :, 0] == bursts[:, :, 1]).mean() < 0.9


def test_like_data_leaves_most_of_the_neighbourhood_visible():
    cube = network(steps=1000, stations=8, measurements=1, missing=0)
    sparse = cube.where(~Bursts(rate=0.8)(cube, np.random.default_rng(1)))
    hidden = parse_hide("like-data:+0.1")(sparse, np.random.default_rng(0))
    for steps in np.array_split(np.arange(1000), 10):
        n_observed, n_hidden = (
            int(cells.isel(time=steps).sum()) for cells in (sparse.notnull(), hidden)
        )
        assert n_hidden < 0.3 * n_observed


def test_a_drop_out_is_missing_as_a_whole():
    missing = np.zeros((50, 6, 4), dtype=bool)
    missing[3:9] = True  # the network
    missing[20:30, 1] = True  # a station
    missing[25, 2, 3] = missing[40:42, 5, 0] = True  # single series
    number = drop_outs(missing)
    assert ((number > 0) == missing).all()
    groups = number[3:9], number[20:30, 1], number[25, 2, 3], number[40:42, 5, 0]
    assert [len(np.unique(group)) for group in groups] == [1, 1, 1, 1]
    assert len(np.unique(number)) == 5


def test_like_data_uses_bursts_if_there_are_hardly_any_gaps():
    cube = network(steps=200, missing=0)
    like_data, bursts = (
        parse_hide(f"{kind}:+0.1")(cube, np.random.default_rng(3))
        for kind in ("like-data", "bursts")
    )
    assert like_data.equals(bursts)


def test_like_data_does_not_copy_a_long_absence_of_a_station():
    cube = outages()
    late = cube.where((cube["location"] != "S1") | (cube["time"] > cube["time"][300]))
    for seed in range(5):
        hidden = parse_hide("like-data:+0.1")(late, np.random.default_rng(seed))
        assert gap_lengths(hidden.to_numpy()).max() <= 40  # a few that touch, not three hundred


def test_like_data_adds_bursts_if_the_gaps_are_too_few():
    cube = network(steps=5000, stations=4, missing=0)
    values = cube.to_numpy().copy()
    values[np.arange(12) * 300, 0, 0] = np.nan
    cube = cube.copy(data=values)
    hidden = parse_hide("like-data:0.2")(cube, np.random.default_rng(0))
    assert float((hidden | cube.isnull()).mean()) == pytest.approx(0.2, abs=1e-3)
