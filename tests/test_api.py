"""The Python interface: data in, the same kind of data out."""

import ast
import inspect
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import cdsa
from cdsa.core import defaults
from cdsa.errors import ConfigError, CubeError
from cdsa.io.sidecars import Sites
from cdsa.methods.registry import build_method
from cdsa.workflows.pipeline import FillResult, ForecastResult, Reporter
from conftest import network
from frames import panel
from small_sources import GAPPY
from small_sources import panel as small_panel


@dataclass(frozen=True, kw_only=True)
class Unfittable(cdsa.Method):
    """Must not be fitted."""

    def fit(self, cube, run=None):
        raise AssertionError("it was fitted")


@pytest.fixture(scope="module")
def model():
    return cdsa.train(network(), "cdsa@small")


def test_public_names_exist():
    assert all(getattr(cdsa, name) is not None for name in cdsa.__all__)
    assert set(dir(cdsa)) == {*cdsa.__all__, "__version__"}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        cdsa.nothing  # noqa: B018


def test_type_checkers_see_the_public_names_where_they_are_defined():
    tree = ast.parse(Path(cdsa.__file__).read_text(encoding="utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.asname: node.module for node in block.body for alias in node.names}
    assert seen == cdsa._MODULES


@pytest.mark.parametrize(
    ("function", "name", "default"),
    [
        ("fill", "method", defaults.METHOD),
        ("fill", "interval", defaults.INTERVAL),
        ("forecast", "method", defaults.FORECAST),
        ("forecast", "interval", defaults.INTERVAL),
        ("score", "hide", defaults.HIDE),
        ("compare", "hide", defaults.HIDE),
        ("train", "method", defaults.NETWORK),
    ],
)
def test_python_and_the_command_line_have_the_same_defaults(function, name, default):
    assert inspect.signature(getattr(cdsa, function)).parameters[name].default == default


def test_a_cube_is_returned_as_a_dataset_with_intervals_and_expected_errors(cube):
    result = cdsa.fill(cube, "linear")
    assert set(result) == {
        *("value", "source", "lower", "upper"),
        *("expected_mae", "expected_rmse"),
    }
    assert result.attrs["method"] == "linear" and result["expected_mae"].dims == ("measurement",)
    assert (result["expected_mae"] > 0).all()
    assert (result["lower"] <= result["value"]).all() and (result["value"] <= result["upper"]).all()


def test_without_a_check_no_error_is_expected(cube):
    result = cdsa.fill(cube, "linear", check=False)
    assert result["expected_mae"].isnull().all() and "lower" not in result
    assert result["value"].equals(cdsa.fill(cube, "linear")["value"])


def test_a_frame_is_returned_as_a_frame():
    frame = panel(network(steps=100))
    filled = cdsa.fill(frame, "linear")
    assert filled.columns.equals(frame.columns) and filled.notna().all().all()
    assert filled.attrs["method"] == "linear"
    assert [record["measurement"] for record in filled.attrs["expected_error"]] == ["pm25", "temp"]
    ahead = cdsa.forecast(frame, 2, "last")
    assert len(ahead) == len(frame) + 2 * 3 and ahead.attrs["method"] == "last"


def test_an_arrow_table_is_returned_as_an_arrow_table():
    pyarrow = pytest.importorskip("pyarrow")
    frame = panel(network(steps=100))
    filled = cdsa.fill(pyarrow.Table.from_pandas(frame), "linear")
    assert isinstance(filled, pyarrow.Table)
    pd.testing.assert_frame_equal(filled.to_pandas(), cdsa.fill(frame, "linear"), check_dtype=False)


def test_a_polars_frame_is_returned_as_a_polars_frame():
    polars = pytest.importorskip("polars")
    frame = panel(network(steps=100))
    filled = cdsa.fill(polars.from_pandas(frame), "linear")
    assert isinstance(filled, polars.DataFrame) and filled.null_count().to_numpy().sum() == 0


def test_a_path_is_read_with_its_options(tmp_path):
    panel(network(steps=100)).fillna(-999).to_csv(tmp_path / "in.csv", index=False)
    filled = cdsa.fill(tmp_path / "in.csv", "linear", missing=[-999])
    assert not (filled["pm25"].astype(float) == -999).any()
    with pytest.raises(ConfigError, match="'missing' is an option for reading tables"):
        cdsa.fill(network(), "linear", missing=[-999])


def test_details_are_returned_with_the_data(cube):
    result = cdsa.fill(cube, "linear", details=True)
    assert isinstance(result, FillResult) and list(result.expected_error.index) == ["pm25", "temp"]
    assert (result.expected_error["mae"] > 0).all()
    assert (result.data["value"] == result.dataset["value"]).all()
    of_table = cdsa.fill(panel(cube), "linear", details=True)
    assert isinstance(of_table, FillResult) and of_table.data["pm25"].notna().all()
    assert len(of_table.cells) == len(result.cells) == int(cube.isnull().sum())
    ahead = cdsa.forecast(cube, 2, "last", details=True)
    assert isinstance(ahead, ForecastResult) and ahead.method == "last"
    assert len(ahead.cells) == 2 * cube[0].size and len(ahead.data["time"]) == len(cube) + 2


@pytest.mark.parametrize("form", ["frame", "path", "sites"])
def test_sites_without_a_sensor_are_filled_too(form, tmp_path):
    cube = network(steps=100, stations=6)
    frame = pd.DataFrame({"name": ["hill"], "lat": [40.22], "lon": [116.22]})
    frame.to_csv(tmp_path / "sites.csv", index=False)
    sites = Sites(names=("hill",), lat=np.array([40.22]), lon=np.array([116.22]))
    at = {"frame": frame, "path": tmp_path / "sites.csv", "sites": sites}[form]
    result = cdsa.fill(cube, "idw", at=at)
    assert result["value"].sel(location="hill").notnull().all()
    assert (result["expected_mae_at_sites"] > 0).all()


def test_a_fitted_method_fills_without_being_fitted_again(cube):
    filler = build_method("mean").fit(cube)
    other = cube + 10.0
    assert cdsa.fill(other, filler)["value"].equals(filler.fill(other))


def test_a_trained_network_is_validated_at_stations_it_does_not_know(model):
    messages = []

    class Messages(Reporter):
        def message(self, text):
            messages.append(text)

    cdsa.fill(network(stations=8), model, progress=Messages())
    assert any("5 stations that the network was not trained on" in text for text in messages)


def test_minutes_limit_the_training_of_a_network(cube):
    with pytest.raises(ConfigError, match="minutes is for methods that train"):
        cdsa.fill(cube, "linear", minutes=1)
    with pytest.raises(ConfigError, match="minutes must be greater than 0"):
        cdsa.fill(cube, "cdsa", minutes=0)
    seconds = []

    class Seconds(Reporter):
        def training(self, progress):
            seconds.append(progress.seconds)

    cdsa.fill(cube, build_method("cdsa@small"), minutes=0.01, progress=Seconds())
    assert 0.6 <= seconds[-1] < 10
    cdsa.forecast(cube, 2, build_method("cdsa@small"), minutes=0.01)


def test_progress_is_reported_to_a_function(cube):
    statuses = {}
    cdsa.fill(cube, "cdsa@small", check=False, progress=statuses.__setitem__)
    assert statuses["training cdsa"] == pytest.approx(1, abs=0.1)
    assert list(statuses)[-1] == "filling with cdsa"


def test_what_cannot_succeed_is_refused_before_a_method_is_fitted(cube):
    with pytest.raises(ConfigError, match="interval is a probability"):
        cdsa.fill(cube, Unfittable(), interval=1.5)
    for horizon in (0, 2.5):
        with pytest.raises(ConfigError, match="horizon is a whole number"):
            cdsa.forecast(cube, horizon, Unfittable())
    with pytest.raises(ConfigError, match="this model is trained already"):
        cdsa.fill(cube, build_method("mean").fit(cube), minutes=1)
    with pytest.raises(ConfigError, match="'auto' only fills"):
        cdsa.forecast(cube, 2, "auto")
    with pytest.raises(ConfigError, match="a method is a name such as 'linear'"):
        cdsa.fill(cube, object())


def test_names_that_are_not_text_are_refused(cube):
    for axis in ("location", "measurement"):
        with pytest.raises(CubeError, match=f"the name of a {axis} must be text, but found"):
            cdsa.fill(cube.assign_coords({axis: np.arange(cube.sizes[axis])}), "linear")


def test_data_of_another_kind_are_refused():
    with pytest.raises(cdsa.CdsaError, match="ndarray"):
        cdsa.fill(np.zeros((2, 2, 2)))


def test_a_trained_network_can_be_saved_and_loaded(cube, model, tmp_path):
    cdsa.save_model(model, tmp_path / "m")
    loaded = cdsa.load_model(tmp_path / "m")
    xr.testing.assert_allclose(loaded.fill(cube), model.fill(cube))
    with pytest.raises(ConfigError, match="only trained networks are saved"):
        cdsa.save_model(build_method("mean").fit(cube), tmp_path / "n")


def test_an_explanation_needs_one_measurement(cube, model):
    cube[30, 0, 0] = np.nan
    time = cube["time"].values[30]
    explanation = cdsa.explain(cube, model, time, "S0", "pm25")
    assert sum(explanation.by_group().values()) == pytest.approx(1)
    with pytest.raises(ConfigError, match="--measurement.*one of: pm25, temp"):
        cdsa.explain(cube, model, time, "S0")
    with pytest.raises(ConfigError, match="only networks can explain"):
        cdsa.explain(cube, build_method("mean").fit(cube), time, "S0", "pm25")


def test_a_source_has_a_short_repr():
    source = cdsa.open_source(small_panel(x=GAPPY[:6]))
    assert repr(source).startswith("<Source DataFrame: panel") and len(repr(source)) < 200


def test_warnings_about_a_table_are_logged_when_it_is_opened_as_a_cube(caplog):
    cdsa.open_cube(small_panel(wind_dir=[10.0, 350.0, -999.0, 20.0, 30.0, 40.0]))
    assert "--missing -999" in caplog.text
    cdsa.open_cube(small_panel(wind_dir=[10.0, 350.0, 20.0, 20.0, 30.0, 40.0]))
    assert "--direction wind_dir" in caplog.text


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_details_have_the_same_data_as_without(library):
    pytest.importorskip(library)
    frame = panel(network(steps=100))
    if library == "polars":
        frame = pytest.importorskip("polars").from_pandas(frame)
    elif library == "pyarrow":
        frame = pytest.importorskip("pyarrow").Table.from_pandas(frame)
    plain, result = cdsa.fill(frame, "linear"), cdsa.fill(frame, "linear", details=True)
    assert type(result.data) is type(frame) and result.data.equals(plain)
    assert set(result.dataset) == set(cdsa.fill(network(steps=100), "linear"))
    if library == "pandas":
        assert result.data.attrs == plain.attrs and plain.attrs["method"] == "linear"
    source = cdsa.open_source(frame)
    assert type(source.filled(cdsa.fill(source.cube, "linear"))) is type(frame)


def test_details_of_a_cube_and_of_a_file_have_the_same_data_as_without(cube, tmp_path):
    xr.testing.assert_identical(
        cdsa.fill(cube, "linear", details=True).data, cdsa.fill(cube, "linear")
    )
    panel(cube).to_csv(tmp_path / "in.csv", index=False)
    filled = cdsa.fill(tmp_path / "in.csv", "linear")
    details = cdsa.fill(tmp_path / "in.csv", "linear", details=True)
    pd.testing.assert_frame_equal(details.data, filled)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_sites_may_be_any_kind_of_table(library):
    pytest.importorskip(library)
    sites = {"name": ["hill"], "lat": [40.22], "lon": [116.22]}
    table = pytest.importorskip("polars").DataFrame(sites)
    at = table if library == "polars" else table.to_arrow()
    result = cdsa.fill(network(steps=100, stations=6), "idw", at=at)
    assert result["value"].sel(location="hill").notnull().all()
    with pytest.raises(cdsa.CdsaError, match="is a file or a frame, but found 5"):
        cdsa.fill(network(steps=100), "idw", at=5)


def test_results_and_models_print_in_one_line(cube, model):
    n_missing = int(cube.isnull().sum())
    result = cdsa.fill(cube, "linear", details=True)
    assert repr(result) == f"<FillResult: 2 measurements, {n_missing:,} cells filled by linear>"
    ahead = cdsa.forecast(cube, 2, "last", details=True)
    assert repr(ahead).startswith("<ForecastResult: 2 measurements, ")
    assert repr(model).startswith("<NeuralFiller cdsa: trained on pm25, temp at ")


def test_the_former_name_of_the_horizon_is_answered_with_the_new_one(cube):
    with pytest.raises(ConfigError, match="'steps' is now called 'horizon'"):
        cdsa.forecast(cube, steps=24)
    with pytest.raises(ConfigError, match="horizon is a whole number of steps"):
        cdsa.forecast(cube)


def test_a_summary_of_scores_begins_with_the_errors(cube):
    table = cdsa.summarise(cdsa.compare(cube, ["linear", "mean"]))
    assert list(table.columns[:4]) == ["method", "measurement", "mae", "rmse"]
