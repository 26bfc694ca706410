"""How any network learns from a cube: hide what to examine it on, scale, cut, train, examine."""

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from torch import nn

from cdsa.core.circular import base_names, to_components
from cdsa.core.config import to_dict
from cdsa.core.scaler import Scaler
from cdsa.core.splits import time_mask
from cdsa.errors import ConfigError, unknown
from cdsa.methods.engine.context import ContextBuilder
from cdsa.methods.engine.predictor import Predictor, pick_device, warn_isolated_stations
from cdsa.methods.engine.validation import (
    MAX_VALIDATION_WINDOWS,
    Validator,
    choose_holdout,
    spread_evenly,
)
from cdsa.methods.wrapper import bare
from cdsa.nn.types import Sizes
from cdsa.training.checkpoint import TRAINING
from cdsa.training.loop import train
from cdsa.training.masking import Task
from cdsa.training.state import TrainingStore
from cdsa.training.windows import Windows, cut

if TYPE_CHECKING:
    from cdsa.methods.engine.estimator import Neural


def fit_network(
    method: "Neural", cube: xr.DataArray, context_length: int, horizon: int
) -> Predictor:
    """Hide what to validate on, scale what is left, cut it into windows, train."""
    length, run, device = context_length + horizon, method.run, pick_device(method.run.device)
    exam_steps, hidden = choose_holdout(cube, length, horizon, method.train, method.seed)
    plain = to_components(cube)
    names = plain["measurement"].to_numpy()
    asked = hidden.sel(measurement=base_names(names)).assign_coords(measurement=names)
    # a forecaster is examined on a time of its own, a filler on cells hidden in the same time
    learnt_steps = ~exam_steps if horizon else np.ones_like(exam_steps)
    visible = plain.where(~asked & time_mask(learnt_steps, plain))
    scaler = Scaler.fit(visible)
    scaled, seen = scaler.normalise(plain), scaler.normalise(visible)
    frame = where = exam_where = None
    if method.model.uses_context:
        edges = method.edges_for(plain["location"].to_numpy())
        if edges:
            warn_isolated_stations(edges, plain["location"].to_numpy())
        frame, kinds = ContextBuilder.fit(seen, length, edges), np.arange(len(names))
        where = frame.build(seen, kinds, training=True)
        exam_where = frame.build(
            seen, kinds, training=not horizon
        )  # nothing of its time was learnt
    stride = min(length, method.stride or max(1, length // 4))
    windows = _with_observations(
        cut(bare(scaled.where(~asked)), length, stride, part=learnt_steps, context=where),
        horizon or length,
    )
    exam = cut(
        bare(scaled), length, horizon or length, target=asked, part=exam_steps, context=exam_where
    )
    exam = _at_most(
        _with_observations(exam, horizon) if horizon else _with_targets(exam),
        MAX_VALIDATION_WINDOWS,
    )
    sizes = Sizes(length, plain.sizes["location"], len(names))
    model = build_network(method, sizes, horizon, frame.n_calendar_features if frame else 0)
    task = make_task(method, names, horizon)
    run.on_start(method)
    place = train(
        model.to(device),
        windows.to(device),
        exam.to(device),
        method.train,
        seed=method.seed,
        task=task,
        store=_store(method, cube),
        on_progress=run.on_progress,
        should_stop=run.should_stop,
    )
    network = Predictor(
        model=model,
        scaler=scaler,
        locations=plain["location"].to_numpy(),
        measurements=names,
        context_length=context_length,
        horizon=horizon,
        device=device,
        train_state=place,
        context_builder=frame,
        inductive=method.model.inductive,
        known_covariates=method.known_covariates if horizon else (),
    )
    errors, calibration = Validator(network, cube, hidden, exam_steps).validate(method.seed)
    if frame is not None:  # what was kept for the exam is known to users, too
        frame = ContextBuilder.fit(scaled, length, frame.edges)
    return replace(network, context_builder=frame, errors=errors, calibration=calibration)


def build_network(method: "Neural", sizes: Sizes, ahead: int, clocks: int) -> nn.Module:
    """The network with its first weights, which depend on the seed only."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(method.seed)  # the world's generators stay as they are
        return method.model.build(sizes, ahead, clocks)


def fingerprint(method: "Neural", cube: xr.DataArray) -> str:
    """Of what a training is about, settings and data; its minutes may be changed on the way."""
    cube = to_components(cube)
    timeless = replace(method, train=replace(method.train, minutes=None))
    digest = hashlib.sha256(json.dumps(to_dict(timeless), sort_keys=True).encode())
    digest.update(cube.to_numpy().tobytes())
    for axis in cube.dims:
        digest.update("\0".join(map(str, cube[axis].to_numpy())).encode())
    for name in ("lat", "lon"):
        if name in cube.coords:
            digest.update(cube[name].to_numpy().astype(np.float64).tobytes())
    return digest.hexdigest()


def _store(method: "Neural", own: xr.DataArray) -> TrainingStore | None:
    """Where the run is written down, if it is."""
    folder = method.run.folder
    if folder is None:
        return None
    settings = json.dumps(to_dict(method))
    return TrainingStore(folder / TRAINING, fingerprint(method, own), settings)


def make_task(method: "Neural", names: NDArray[np.str_], ahead: int) -> Task:
    """What the network is to learn."""
    bases = base_names(names)
    strange = [name for name in method.known_covariates if name not in bases]
    if strange:
        raise ConfigError(unknown("measurement known in advance", strange[0], sorted(set(bases))))
    return Task(
        horizon=ahead,
        known=torch.as_tensor(np.isin(bases, method.known_covariates))
        if ahead and method.known_covariates
        else None,
        tied_variables=torch.as_tensor(np.unique(bases, return_inverse=True)[1]),
    )


def _with_observations(windows: Windows, last: int) -> Windows:
    """Those windows with a measured cell in their `last` steps."""
    there = windows.observed.flatten(1).any(dim=1)
    return windows.keep(there[windows.steps[:, -last:]].any(dim=1))


def _with_targets(windows: Windows) -> Windows:
    """Those windows with a cell that is asked for."""
    return windows.keep(windows.target.flatten(1).any(dim=1)[windows.steps].any(dim=1))


def _at_most(windows: Windows, most: int) -> Windows:
    """At most so many windows, over all the time."""
    return windows.keep(torch.as_tensor(spread_evenly(len(windows), most)))
