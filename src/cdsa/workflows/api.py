"""The Python interface: data in, the same kind of data out."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import xarray as xr

from cdsa.core import defaults
from cdsa.core.cube import DIMS, check_cube, has_coordinates
from cdsa.errors import ConfigError
from cdsa.io.sidecars import Sites, read_sites
from cdsa.io.source import Source, open_source, source_of_cube
from cdsa.methods.base import Filler, Method
from cdsa.methods.explanation import Explanation
from cdsa.methods.registry import MethodOptions
from cdsa.workflows import pipeline
from cdsa.workflows.pipeline import ProgressCallback, Reporter, WorkflowResult
from cdsa.workflows.score import Hide, Score


def fill(
    data: Any,
    method: str | Method | Filler = "auto",
    *,
    at: Any = None,
    max_gap: str | None = None,
    extend: bool = False,
    interval: float = 0.9,
    check: bool = True,
    minutes: float | None = None,
    seed: int | None = None,
    device: str = "auto",
    progress: ProgressCallback | Reporter | None = None,
    details: bool = False,
    **options: object,
) -> Any:
    """Fill the gaps of a table or a cube.

    Parameters
    ----------
    data
        A path, a pandas, polars or pyarrow table, or an xarray object.
    method
        A name from `cdsa.list_methods()`, a `Method`, or a model from `cdsa.load_model`. The
        default, 'auto', trains the network `cdsa` and combines it with simpler methods, weighted by
        how they predict measured cells that were hidden; without `check` it is `cdsa` alone.
    at
        Sites without a sensor, to fill as well: a path or a table with name, lat and lon.
    max_gap
        Longest gap that is filled, such as '6h'; longer ones are left open.
    extend
        Fill before the first and after the last value of a station too, and measurements that it
        never had.
    interval
        Nominal coverage of the prediction intervals; 0.9 by default.
    check
        Hide a tenth of the measured cells first, to estimate the error.
    minutes
        Training time of a network; chosen by the size of the data if not given.
    seed
        Seed of a network's first weights and its training.
    device
        Where a network runs: 'auto', 'cpu', 'cuda' or 'mps'.
    progress
        Called with a status and the completed fraction.
    details
        Return a `FillResult` with `data`, `cells` (value, source and bounds of every filled cell),
        `expected_error` and `dataset` (as for a cube) instead of the data alone.
    **options
        Reading options, such as `missing=[-999]` or `directions=["wind_dir"]`; see
        `cdsa.open_source`.

    Returns
    -------
    DataFrame or Dataset
        The same kind of data: the filled table for a table or a path. For a cube, a `Dataset` with
        `value`, `source` ('observed', 'filled', 'unfillable', or why a cell was left open:
        'gap_too_long', 'outside_lifetime' of its station, or 'never_measured' there), `lower`,
        `upper` and, by measurement, `expected_mae` and `expected_rmse`, and with sites
        `expected_mae_at_sites`. A pandas frame has the method and the expected errors in its
        `attrs`.

    Raises
    ------
    CdsaError
        If the data or the settings are not valid; the message says what to do.

    Examples
    --------
    >>> import pandas as pd
    >>> import cdsa
    >>> hours = pd.date_range("2020-01-01", periods=3, freq="h")
    >>> frame = pd.DataFrame({"time": hours, "station": "A", "pm25": [1.0, None, 3.0]})
    >>> cdsa.fill(frame, "linear")["pm25"].tolist()
    [1.0, 2.0, 3.0]
    """
    request = pipeline.FillRequest(
        method=method,
        options=MethodOptions(minutes=minutes, seed=seed),
        interval=interval,
        check=check,
        at=None if at is None else at if isinstance(at, Sites) else read_sites(at),
        max_gap=max_gap,
        extend=extend,
        device=device,
    )
    request.validate()
    source = _open(data, options)
    stations = source.cube
    if method == defaults.AUTO and at is None and _is_cube(data):
        stations = _without_empty_sites(stations)
    result = pipeline.run_fill(request, source, _reporter(progress), stations=stations)
    return _finish(result, details=details)


def forecast(
    data: Any,
    horizon: int = 0,
    method: str | Method | Filler = "cdsa",
    *,
    known: Sequence[str] = (),
    interval: float = 0.9,
    minutes: float | None = None,
    seed: int | None = None,
    device: str = "auto",
    progress: ProgressCallback | Reporter | None = None,
    details: bool = False,
    **options: object,
) -> Any:
    """Forecast a table or a cube: the same data with the steps after its end.

    Parameters
    ----------
    data
        A path, a pandas, polars or pyarrow table, or an xarray object.
    horizon
        Steps to forecast.
    method
        A name from `cdsa.list_methods()` that forecasts, a `Method`, or a model from
        `cdsa.load_model`. By default 'cdsa'.
    known
        Measurements whose future values are in the data already, such as a weather forecast. The
        forecast then begins after the last step at which anything else was measured.
    interval
        Nominal coverage of the prediction intervals; 0.9 by default.
    minutes
        Training time of a network.
    seed
        Seed of a network's first weights and its training.
    device
        Where a network runs: 'auto', 'cpu', 'cuda' or 'mps'.
    progress
        Called with a status and the completed fraction.
    details
        Return a `ForecastResult` instead of the data alone.
    **options
        Reading options, as for `cdsa.open_source`.

    Returns
    -------
    DataFrame or Dataset
        The same kind of data, as for `cdsa.fill`. Measured values and gaps before the forecast stay
        as they are; `source` is 'observed', 'missing', 'forecast' or 'unfillable'.

    Examples
    --------
    >>> import pandas as pd
    >>> import cdsa
    >>> hours = pd.date_range("2020-01-01", periods=3, freq="h")
    >>> frame = pd.DataFrame({"time": hours, "station": "A", "pm25": [1.0, 2.0, 3.0]})
    >>> cdsa.forecast(frame, 2, "last")["pm25"].tolist()
    [1.0, 2.0, 3.0, 3.0, 3.0]
    """
    if "steps" in options:
        raise ConfigError("the argument 'steps' is now called 'horizon'")
    request = pipeline.ForecastRequest(
        horizon=horizon,
        method=method,
        options=MethodOptions(minutes=minutes, seed=seed),
        interval=interval,
        known_covariates=tuple(known),
        device=device,
    )
    request.validate()
    result = pipeline.run_forecast(request, _open(data, options), _reporter(progress))
    return _finish(result, details=details)


def score(
    data: Any,
    method: str | Method,
    hide: Hide = "like-data:+0.1",
    *,
    test: float | None = None,
    minutes: float | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: ProgressCallback | Reporter | None = None,
    **options: object,
) -> Score:
    """Measure how well a method recovers measured cells that were hidden from it.

    Parameters
    ----------
    data
        A path, a pandas, polars or pyarrow table, or an xarray object.
    method
        A name from `cdsa.list_methods()` or a `Method`.
    hide
        What to hide: 'like-data:0.2' (gaps like the data's own), 'random:0.2', 'bursts:0.2',
        'blocks:0.2', 'stations:2', 'last:12', a strategy from `cdsa.masks`, or a boolean cube. By
        default 'like-data:+0.1', a tenth of the measured cells.
    test
        Fit on the first part of the record only and score on the last part, of this share.
    minutes
        Training time of a network.
    seed
        Chooses the hidden cells, the same for every method, and a network's first weights.
    device
        Where a network runs: 'auto', 'cpu', 'cuda' or 'mps'.
    progress
        Called with a status and the completed fraction.
    **options
        Reading options, as for `cdsa.open_source`.

    Returns
    -------
    Score
        Errors by measurement, location or gap length: `score.table("gap")`.

    Examples
    --------
    >>> import cdsa
    >>> demo = cdsa.open_demo()[:200]
    >>> score = cdsa.score(demo, "linear", "bursts:0.2")
    >>> score
    <Score linear: MAE 0.328 standard deviations on 916 hidden cells>
    >>> score.table("gap").index.tolist()
    ['1', '2-5', '6-23', '24-71']
    """
    budget = MethodOptions(minutes=minutes)
    request = pipeline.CompareRequest(
        methods=(method,), hide=hide, seed=seed, test=test, options=budget, device=device
    )
    request.validate()
    return pipeline.run_compare(request, _open(data, options).cube, _reporter(progress))[0]


def compare(
    data: Any,
    methods: Sequence[str | Method],
    hide: Hide = "like-data:+0.1",
    *,
    repeats: int = 1,
    test: float | None = None,
    minutes: float | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: ProgressCallback | Reporter | None = None,
    **options: object,
) -> list[Score]:
    """Score several methods on the same hidden cells.

    Parameters
    ----------
    data
        A path, a pandas, polars or pyarrow table, or an xarray object.
    methods
        Names from `cdsa.list_methods()` or `Method` objects.
    hide
        What to hide, as for `cdsa.score`.
    repeats
        How often to repeat, with other cells hidden each time.
    test
        Fit on the first part of the record only and score on the last part, of this share.
    minutes
        Training time of each network.
    seed
        Chooses the hidden cells, the same for every method, and the networks' first weights.
    device
        Where networks run: 'auto', 'cpu', 'cuda' or 'mps'.
    progress
        Called with a status and the completed fraction.
    **options
        Reading options, as for `cdsa.open_source`.

    Returns
    -------
    list of Score
        One per repeat and method. `cdsa.summarise(scores)` turns them into a table.

    Examples
    --------
    >>> import cdsa
    >>> scores = cdsa.compare(cdsa.open_demo()[:200], ["linear", "mean"], "bursts:0.2")
    >>> [score.method for score in scores]
    ['linear', 'mean']
    """
    request = pipeline.CompareRequest(
        methods=tuple(methods),
        hide=hide,
        repeats=repeats,
        seed=seed,
        test=test,
        options=MethodOptions(minutes=minutes),
        device=device,
    )
    request.validate()
    return pipeline.run_compare(request, _open(data, options).cube, _reporter(progress))


def train(
    data: Any,
    method: str | Method = "cdsa",
    *,
    horizon: int = 0,
    known: Sequence[str] = (),
    minutes: float | None = None,
    seed: int | None = None,
    device: str = "auto",
    progress: ProgressCallback | Reporter | None = None,
    **options: object,
) -> Filler:
    """Train a network, to fill or forecast other data with it.

    Parameters
    ----------
    data
        A path, a pandas, polars or pyarrow table, or an xarray object.
    method
        A method that trains: a name from `cdsa.list_methods()` or a `Method`. By default 'cdsa'.
    horizon
        Steps to forecast; 0 for a network that fills.
    known
        Measurements whose future values will be known when a forecast is made.
    minutes
        Training time; chosen by the size of the data if not given.
    seed
        Seed of the first weights and the training.
    device
        Where the network runs: 'auto', 'cpu', 'cuda' or 'mps'.
    progress
        Called with a status and the completed fraction.
    **options
        Reading options, as for `cdsa.open_source`.

    Returns
    -------
    Filler
        A model for `cdsa.fill`, `cdsa.forecast`, `cdsa.explain` and `cdsa.save_model`.

    Examples
    --------
    >>> import cdsa
    >>> demo = cdsa.open_demo()[:100]
    >>> model = cdsa.train(demo, "cdsa@small")
    >>> cdsa.fill(demo, model).attrs["method"]
    'cdsa'
    """
    request = pipeline.TrainRequest(
        method=method,
        options=MethodOptions(minutes=minutes, seed=seed),
        horizon=horizon,
        known_covariates=tuple(known),
        device=device,
    )
    request.validate()
    return pipeline.run_train(request, _open(data, options).cube, _reporter(progress))


def explain(
    data: Any,
    model: Filler,
    time: object,
    location: str,
    measurement: str | None = None,
    **options: object,
) -> Explanation:
    """Show which measured cells a filled value comes from.

    Parameters
    ----------
    data
        The data with the gap: a path, a pandas, polars or pyarrow table, or an xarray object.
    model
        A trained network, from `cdsa.train` or `cdsa.load_model`.
    time
        Time of the cell, such as '2024-03-01T12:00'.
    location
        Name of its station.
    measurement
        Its measurement; may be left out if there is only one.
    **options
        Reading options, as for `cdsa.open_source`.

    Returns
    -------
    Explanation
        Its value, the largest contributions (`top()`; all as a table with `to_frame()`) and their
        sums by group (`by_group()`).

    Examples
    --------
    >>> import cdsa
    >>> demo = cdsa.open_demo()[:60].sel(measurement=["temp"])
    >>> demo[30, 0, 0] = float("nan")
    >>> model = cdsa.train(demo, "cdsa@small")
    >>> why = cdsa.explain(demo, model, demo["time"].values[30], "EWR")
    >>> abs(sum(why.by_group().values()) - 1) < 1e-6
    True
    """
    return pipeline.run_explain(model, _open(data, options).cube, time, location, measurement)


def load_model(folder: str | Path, *, device: str = "auto") -> Filler:
    """Load a network that `cdsa train` or `cdsa.save_model` wrote.

    Parameters
    ----------
    folder
        The folder of the model.
    device
        'auto', 'cpu', 'cuda' or 'mps'.

    Returns
    -------
    Filler
        A model for `cdsa.fill`, `cdsa.forecast` and `cdsa.explain`.

    Examples
    --------
    >>> import tempfile
    >>> import cdsa
    >>> demo = cdsa.open_demo()[:100]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cdsa.save_model(cdsa.train(demo, "cdsa@small"), folder)
    ...     filled = cdsa.fill(demo, cdsa.load_model(folder))
    >>> filled.attrs["method"]
    'cdsa'
    """
    from cdsa.methods.engine.persistence import load_filler

    return load_filler(folder, device=device)


def save_model(model: Filler, folder: str | Path) -> None:
    """Save a trained network, with everything that is needed to use it.

    Parameters
    ----------
    model
        A trained network, from `cdsa.train`.
    folder
        The folder to write to; it is created if necessary.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import cdsa
    >>> model = cdsa.train(cdsa.open_demo()[:100], "cdsa@small")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cdsa.save_model(model, folder)
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['model.json', 'weights.safetensors']
    """
    from cdsa.methods.engine.estimator import NeuralFiller
    from cdsa.methods.engine.persistence import save_filler

    if not isinstance(model, NeuralFiller):
        raise ConfigError("only trained networks are saved; other methods are fitted in seconds")
    save_filler(model, folder)


def _reporter(progress: ProgressCallback | Reporter | None) -> Reporter:
    return progress if isinstance(progress, Reporter) else Reporter(progress)


def _is_cube(data: object) -> bool:
    """Whether data are a cube already: an array with the dimensions of one."""
    return isinstance(data, xr.DataArray) and set(data.dims) == set(DIMS)


def _without_empty_sites(cube: xr.DataArray) -> xr.DataArray:
    """The cube without locations that have coordinates but no value, unless all are so."""
    empty = cube.isnull().all(("time", "measurement")).to_numpy() & has_coordinates(cube)
    return cube.isel(location=~empty) if empty.any() and not empty.all() else cube


def _open(data: Any, options: dict[str, object]) -> Source:
    """The data opened as a source; a cube is checked and used as it is."""
    if not _is_cube(data):
        return open_source(data, **options)
    for name in options:
        raise ConfigError(f"'{name}' is an option for reading tables, but found a cube")
    check_cube(data)
    return source_of_cube(data)


def _finish(result: WorkflowResult, *, details: bool) -> Any:
    """The result with the expected errors in its dataset, or its data only."""
    table = result.expected_error.drop(columns="method").astype(float)
    errors = {f"expected_{name}": ("measurement", table[name].to_numpy()) for name in table}
    result = replace(result, dataset=result.dataset.assign(errors))
    return result if details else result.data
