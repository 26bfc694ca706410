"""Fit a network to a cube: hold out, scale, build context, cut windows, train, validate."""

import hashlib
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.backbone import choose_transformations
from cdsa.core.circular import base_names
from cdsa.core.config import to_dict
from cdsa.core.cube import fillable
from cdsa.core.domain import Domain
from cdsa.core.prepare import PreparedCube
from cdsa.core.scaler import Scaler
from cdsa.core.splits import time_mask
from cdsa.errors import ConfigError, unknown
from cdsa.methods.engine.backbone import (
    TrainingBackbone,
    smooth_segments,
    smooth_windows,
    to_tensor,
)
from cdsa.methods.engine.context import ContextBuilder
from cdsa.methods.engine.predictor import Predictor, pick_device, warn_isolated_stations
from cdsa.methods.engine.validation import (
    MAX_VALIDATION_WINDOWS,
    Validator,
    choose_holdout,
    spread_evenly,
)
from cdsa.nn.types import Network, Sizes
from cdsa.training.callbacks import RunContext
from cdsa.training.checkpoint import TRAINING
from cdsa.training.loop import train
from cdsa.training.masking import Task
from cdsa.training.sampling import SmoothedWindows
from cdsa.training.shrinkage import shrink
from cdsa.training.state import TrainingStore
from cdsa.training.windows import Windows, cut

if TYPE_CHECKING:
    from cdsa.methods.engine.estimator import Neural


def fit_network(
    method: "Neural", data: PreparedCube, context_length: int, horizon: int, run: RunContext
) -> Predictor:
    """Train the network of a method; with a horizon, to forecast its last steps."""
    window, seed, device = context_length + horizon, method.seed, pick_device(run.device)
    data = _sort_by_name(data)
    cube, components = data.cube, data.components

    # hold out: later steps to validate a forecaster, cells of the same steps to validate a fill
    holdout_steps, hidden = choose_holdout(cube, window, horizon, method.train, seed)
    train_steps = ~holdout_steps if horizon else np.ones_like(holdout_steps)
    locations, names = components["location"].to_numpy(), components["measurement"].to_numpy()
    target = hidden.sel(measurement=base_names(names)).assign_coords(measurement=names)
    visible = components.where(~target & time_mask(train_steps, components))

    # scale
    scaler = Scaler.fit(visible)
    scaled, scaled_visible = scaler.normalise(components), scaler.normalise(visible)

    # build context; that of a forecaster's validation steps comes from the training steps alone
    builder = context = validation_context = None
    if method.model.uses_context:
        edges, variable_ids = method.edges_for(locations), np.arange(len(names))
        if edges:
            warn_isolated_stations(edges, locations)
        builder = ContextBuilder.fit(scaled_visible, window, edges)
        context = validation_context = builder.build(scaled_visible, variable_ids, training=True)
        if horizon:
            validation_context = builder.build(scaled_visible, variable_ids)
    # fit the model whose residual the network predicts
    started, passes, smoothed = time.perf_counter(), None, None
    if validation_context is not None and method.model.uses_backbone:
        transformations = choose_transformations(visible)
        passes = TrainingBackbone.fit(visible, scaler, window, transformations)
        if not horizon:
            smoothed = smooth_segments(passes.backbone, visible, scaler, holdout_steps, window)
            validation_context = replace(validation_context, record=to_tensor(smoothed))

    # cut windows
    stride = min(window, method.stride or max(1, window // 4))
    windows = cut(scaled.where(~target), window, stride, steps=train_steps, context=context)
    windows = _windows_with(windows.observed, windows, horizon or window)
    validation = cut(
        scaled,
        window,
        horizon or window,
        target=target,
        steps=holdout_steps,
        context=validation_context,
    )
    validated = validation.observed if horizon else validation.target
    validation = _windows_with(validated, validation, horizon or window)
    spaced = spread_evenly(len(validation), MAX_VALIDATION_WINDOWS)
    validation = validation.keep(torch.as_tensor(spaced))
    if passes is not None and horizon:
        steps, known = validation.steps.numpy(), method.known_covariates
        of_windows = smooth_windows(passes.backbone, components, scaler, steps, horizon, known)
        validation = replace(validation, smoothed=of_windows)

    # train
    model = build_network(method, Sizes(window, len(locations), len(names)), horizon, builder)
    task, store = _make_task(method, names, horizon), None
    if run.folder is not None:
        settings = json.dumps(to_dict(method))
        store = TrainingStore(run.folder / TRAINING, fingerprint(method, components), settings)
    run.on_start(method)
    draws = None
    if passes is not None:
        draws = SmoothedWindows(
            windows.to(device),
            passes.smooth,
            passes.fold,
            batch_size=method.train.batch_size,
            masking=method.train.masking,
            max_mask_ratio=method.train.max_mask_ratio,
            seed=seed,
            task=task,
        )
    train_state = train(
        model.to(device),
        windows.to(device),
        validation.to(device),
        method.train,
        seed=seed,
        task=task,
        smoothed=draws,
        seconds_before=time.perf_counter() - started,
        store=store,
        on_progress=run.on_progress,
        should_stop=run.should_stop,
    )

    # where that is better, shrink towards the model below
    if passes is not None:
        shrinkage = model.get_buffer("shrinkage")
        shrink(model, shrinkage, validation.to(device), method.train, task)

    # validate and calibrate
    predictor = Predictor(
        model=model,
        scaler=scaler,
        locations=locations,
        measurements=names,
        context_length=context_length,
        horizon=horizon,
        device=device,
        train_state=train_state,
        context_builder=builder,
        inductive=method.model.inductive,
        known_covariates=method.known_covariates if horizon else (),
        backbone=passes.backbone if passes else None,
    )
    validator = Validator(predictor, data, hidden, holdout_steps, smoothed)
    errors, calibration = validator.validate(seed)
    if builder is not None:  # from now on the held-out cells are known too
        builder = ContextBuilder.fit(scaled, window, builder.edges)
    return replace(predictor, context_builder=builder, errors=errors, calibration=calibration)


def _sort_by_name(data: PreparedCube) -> PreparedCube:
    """The fillable series sorted by name, so the order of a file does not affect the network."""
    cube, components = data.cube, data.components
    cube = cube.isel(measurement=fillable(cube)).sortby("location").sortby("measurement")
    names = components["measurement"].to_numpy()
    is_fillable = np.isin(base_names(names), cube["measurement"].to_numpy())
    # first plain measurements, then east components, then north ones
    order = sorted(names[is_fillable], key=lambda name: str(name).partition("\0")[::-1])
    components = components.isel(measurement=is_fillable).sortby("location").sel(measurement=order)
    return PreparedCube(cube, components, Domain.of(cube))


def build_network(
    method: "Neural", sizes: Sizes, horizon: int, builder: ContextBuilder | None
) -> Network:
    """The network with initial weights that depend on the seed only."""
    with torch.random.fork_rng(devices=[]):  # torch's global generator keeps its state
        torch.default_generator.manual_seed(method.seed)
        return method.model.build(sizes, horizon, builder.n_calendar_features if builder else 0)


def _make_task(method: "Neural", names: NDArray[np.str_], horizon: int) -> Task:
    """What is masked in training: cells to fill, or the horizon but for known covariates."""
    bases, covariates = base_names(names), method.known_covariates
    missing = [name for name in covariates if name not in bases]
    if missing:
        raise ConfigError(unknown("measurement known in advance", missing[0], sorted(set(bases))))
    known = torch.as_tensor(np.isin(bases, covariates)) if horizon and covariates else None
    mask_groups = torch.as_tensor(np.unique(bases, return_inverse=True)[1])
    return Task(horizon=horizon, known=known, mask_groups=mask_groups)


def fingerprint(method: "Neural", components: xr.DataArray) -> str:
    """A hash of settings and data; a training with the same one can be resumed. The minutes of
    training are left out, so that they can be changed."""
    timeless = replace(method, train=replace(method.train, minutes=None))
    digest = hashlib.sha256(json.dumps(to_dict(timeless), sort_keys=True).encode())
    digest.update(components.to_numpy().tobytes())
    for axis in components.dims:
        digest.update("\0".join(map(str, components[axis].to_numpy())).encode())
    for name in ("lat", "lon"):
        if name in components.coords:
            digest.update(components[name].to_numpy().astype(np.float64).tobytes())
    return digest.hexdigest()


def _windows_with(cells: torch.Tensor, windows: Windows, n_last: int) -> Windows:
    """The windows with any of these cells (t, l, m) in their last steps."""
    steps = cells.flatten(1).any(dim=1)
    return windows.keep(steps[windows.steps[:, -n_last:]].any(dim=1))
