"""`cdsa plot`: each kind of plot from the command line."""

import numpy as np
import pytest

from cdsa.workflows.score import hidden_cells
from commands import invoke, refused, run
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
    run("train", file, "-o", model, "--preset", "small")
    return file, model


@pytest.mark.parametrize("kind", ["gaps", "series", "map", "errors", "explanation", "attention"])
def test_each_kind_is_plotted(kind, files, cube, tmp_path):
    file, model = files
    time, location, measurement = nth_gap(cube, 60)
    words = ["plot", kind, file, "-o", tmp_path / "p.png"]
    if kind in ("series", "explanation", "attention"):
        words += ["--location", location, "--measurement", measurement, "--model", model]
    if kind in ("explanation", "attention"):
        words += ["--time", time]
    if kind in ("errors", "map"):
        words += ["--methods", "linear"]
    run(*words)
    assert (tmp_path / "p.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sketch"], "sketch"),
        (["explanation"], "give --model, --time and --location"),
        (["series"], "--measurement"),
        (["gaps", "--from", "2031-01-01"], "no step between"),
        (["gaps", "--time", "2024-01-01"], "'cdsa plot gaps' does not use --time"),
        (["map", "--hide", "random", "--to", "2031-01-01"], "does not use --to"),
        (["errors", "--location", "A"], "It uses --methods, --hide"),
        (["map", "--methods", "linear,mean"], "one method, but --methods has linear, mean"),
        (["series", "--methods", "linear,mean"], "shows one method"),
        (["map", "--hide", "random:0.5"], "Give --methods too"),
        (["gaps", "--minutes", "5"], "--minutes is for training a network, and none is"),
        (["map", "--seed", "5"], "--seed is for training a network, and none is"),
        (["series", "--model", "m", "--methods", "linear"], "either --methods or --model"),
        (["series", "--model", "m", "--epochs", "5"], "--epochs is for training a network"),
        (["gaps", "--from", "noon"], "a time is written as"),
    ],
)
def test_a_plot_that_cannot_be_drawn_is_refused(words, message, files, tmp_path):
    kind, *options = words
    assert message in refused("plot", kind, files[0], "-o", tmp_path / "p.png", *options)
    assert not (tmp_path / "p.png").exists()


@pytest.fixture
def plotted(monkeypatch):
    """The arguments of the plotting functions."""
    arguments = {}

    def replace(name):
        def spy(data, ax, **options):
            arguments[name] = (data, options)
            return ax

        monkeypatch.setattr(f"cdsa.plots.{name}", spy)

    for name in ("plot_gaps", "plot_series", "plot_errors"):
        replace(name)
    return arguments


@pytest.mark.parametrize(
    ("first", "last", "period"),
    [
        ("2020-01-02T00:00", "2020-01-02T05:00", ("2020-01-01T22", "2020-01-02T03")),
        ("2020-01-02T00:00Z", "2020-01-02T05:00Z", ("2020-01-02T00", "2020-01-02T05")),
        ("2020-01-02", "2020-01-03", ("2020-01-01T22", "2020-01-03T21")),
    ],
)
def test_a_period_is_given_in_the_format_of_the_table(first, last, period, cube, plotted, tmp_path):
    frame = panel(cube)
    frame["time"] = [f"{time}+02:00" for time in frame["time"]]
    frame.to_csv(tmp_path / "in.csv", index=False)
    words = ("plot", "gaps", tmp_path / "in.csv", "-o", tmp_path / "p.png")
    run(*words, "--from", first, "--to", last)
    times = plotted["plot_gaps"][0]["time"].values
    assert (times[0], times[-1]) == tuple(map(np.datetime64, period))


@pytest.mark.parametrize("by", [["--methods", "mean"], ["--model"], []])
def test_a_filled_series_is_shown_with_its_hidden_truth(by, files, cube, plotted, tmp_path):
    file, model = files
    by = [*by, model] if by == ["--model"] else by
    words = ("plot", "series", file, "-o", tmp_path / "p.png", "--measurement", "temp")
    result = invoke(*words, "--hide", "bursts:+0.3", *by)
    assert result.exit_code == 0, result.output
    assert ("may have been trained on" in result.stderr) == ("--model" in by)
    dataset, options = plotted["plot_series"]
    hidden = hidden_cells(cube, "bursts:+0.3", seed=0)
    np.testing.assert_allclose(options["truth"], cube.where(hidden))
    hidden = hidden.to_numpy()
    assert (dataset["source"].to_numpy()[hidden] == "filled").all()
    same = np.isclose(dataset["value"].to_numpy()[hidden], cube.to_numpy()[hidden])
    assert same.mean() < 0.05  # one may be right by chance


def test_the_seed_of_scores_is_the_one_that_was_given(files, plotted, tmp_path, monkeypatch):
    seeds = []

    def spy(request, cube, logdir):
        seeds.append((request.seed, request.build("cdsa").seed))

    monkeypatch.setattr("cdsa.cli.score.compare_with_progress", spy)
    words = ("plot", "errors", files[0], "-o", tmp_path / "p.png", "--methods", "cdsa")
    run(*words, "--seed", 7)
    assert seeds == [(7, 7)]
