"""`cdsa plot`: each kind of picture from the command line."""

import numpy as np
import pytest
from typer.testing import CliRunner

from cdsa.cli.app import app
from cdsa.workflows.score import hidden_cells
from commands import run
from conftest import network
from frames import panel
from test_explain import nth_gap


@pytest.fixture(scope="module")
def cube():
    return network(steps=120, stations=4, measurements=2, missing=0.25)


@pytest.fixture(scope="module")
def files(tmp_path_factory, cube):
    folder = tmp_path_factory.mktemp("plot")
    file, model = folder / "air.csv", folder / "model"
    panel(cube).to_csv(file, index=False)
    done = CliRunner().invoke(app, ["train", str(file), "-o", str(model), "--preset", "small"])
    assert done.exit_code == 0
    return file, model


@pytest.mark.parametrize("kind", ["gaps", "series", "map", "errors", "reasons", "attention"])
def test_the_command_draws_each_kind(kind, files, cube, tmp_path):
    file, model = files
    time, location, measurement = (str(part) for part in nth_gap(cube, 60))
    words = ["plot", kind, str(file), "-o", str(tmp_path / "p.png")]
    if kind in ("series", "reasons", "attention"):
        words += ["--location", location, "--measurement", measurement, "--model", str(model)]
    if kind in ("reasons", "attention"):
        words += ["--time", time]
    if kind in ("errors", "map"):
        words += ["--methods", "linear"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "p.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["sketch"], "sketch"),
        (["reasons"], "give --model, --time and --location"),
        (["series"], "--measurement"),
        (["gaps", "--from", "2031-01-01"], "no step between"),
        (["gaps", "--time", "2024-01-01"], "gaps makes no use of --time"),
        (["map", "--hide", "random", "--to", "2031-01-01"], "map makes no use of --to"),
        (["errors", "--location", "A"], "it takes --methods, --hide"),
        (["map", "--methods", "linear,mean"], "of one method, but --methods names linear, mean"),
        (["series", "--methods", "linear,mean"], "of one method"),
        (["map", "--hide", "random:0.5"], "Name --methods"),
        (["gaps", "--minutes", "5"], "--minutes is for training a network, and none is"),
        (["map", "--seed", "5"], "--seed is for training a network, and none is"),
        (["series", "--model", "m", "--methods", "linear"], "either --methods or --model"),
        (["series", "--model", "m", "--epochs", "5"], "--epochs is for training a network"),
        (["gaps", "--from", "noon"], "a time is written as"),
    ],
)
def test_a_wish_that_cannot_be_met_is_explained(words, told, files, tmp_path):
    kind, *more = words
    line = ["plot", kind, str(files[0]), "-o", str(tmp_path / "p.png"), *more]
    done = CliRunner().invoke(app, line)
    assert done.exit_code != 0 and told in str(done.exception)
    assert not (tmp_path / "p.png").exists()


@pytest.fixture
def drawn(monkeypatch):
    """What the command hands to the functions that draw."""
    seen = {}

    def keep(name):
        def draw(data, ax, **more):
            seen[name] = (data, more)
            return ax

        monkeypatch.setattr(f"cdsa.plots.{name}", draw)

    for name in ("plot_gaps", "plot_series", "plot_errors"):
        keep(name)
    return seen


@pytest.mark.parametrize(
    ("first", "last", "ends"),
    [
        ("2020-01-02T00:00", "2020-01-02T05:00", ("2020-01-01T22", "2020-01-02T03")),
        ("2020-01-02T00:00Z", "2020-01-02T05:00Z", ("2020-01-02T00", "2020-01-02T05")),
        ("2020-01-02", "2020-01-03", ("2020-01-01T22", "2020-01-03T21")),
    ],
)
def test_a_stretch_of_time_is_said_as_the_table_writes_its_own(
    first, last, ends, cube, drawn, tmp_path
):
    frame = panel(cube)
    frame["time"] = [f"{time}+02:00" for time in frame["time"]]
    frame.to_csv(tmp_path / "in.csv", index=False)
    words = ["plot", "gaps", str(tmp_path / "in.csv"), "-o", str(tmp_path / "p.png")]
    done = CliRunner().invoke(app, [*words, "--from", first, "--to", last])
    assert done.exit_code == 0, done.output
    times = drawn["plot_gaps"][0]["time"].values
    assert (times[0], times[-1]) == tuple(map(np.datetime64, ends))


@pytest.mark.parametrize("by", [["--methods", "mean"], ["--model"], []])
def test_a_series_is_shown_beside_what_was_hidden_of_it(by, files, cube, drawn, tmp_path):
    file, model = files
    by = [*by, str(model)] if by == ["--model"] else by
    words = ["plot", "series", str(file), "-o", str(tmp_path / "p.png"), "--measurement", "temp"]
    done = CliRunner().invoke(app, [*words, "--hide", "bursts:+0.3", *by])
    assert done.exit_code == 0, done.output
    assert ("may have been trained on" in done.output) == ("--model" in by)
    result, told = drawn["plot_series"]
    hidden = hidden_cells(cube, "bursts:+0.3", seed=0)
    np.testing.assert_allclose(told["truth"], cube.where(hidden))
    gone = hidden.to_numpy()
    assert (result["source"].to_numpy()[gone] == "filled").all()
    same = np.isclose(result["value"].to_numpy()[gone], cube.to_numpy()[gone])
    assert same.mean() < 0.05  # one may be right by chance


def test_the_seed_of_scores_is_the_one_that_was_given(files, drawn, tmp_path, monkeypatch):
    seeds = []

    def spy(request, cube, logdir):
        seeds.append((request.seed, request.build("cdsa").seed))

    monkeypatch.setattr("cdsa.cli.score.compare_with_progress", spy)
    words = ("plot", "errors", files[0], "-o", tmp_path / "p.png", "--methods", "cdsa")
    run(*words, "--seed", 7)
    assert seeds == [(7, 7)]
