"""Trained networks written to a folder and read back."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

from cdsa.core.atomic import make_directory
from cdsa.core.config import from_dict, to_dict
from cdsa.core.records import provenance
from cdsa.core.scaler import Scaler
from cdsa.errors import CdsaError, ConfigError, OutputError
from cdsa.methods.calibration import Calibration
from cdsa.methods.engine.context import Frame, Slots, Usual
from cdsa.methods.engine.estimator import Neural, NeuralFiller
from cdsa.methods.engine.fit import build
from cdsa.methods.engine.predictor import Network, pick_device
from cdsa.methods.engine.signature import Axes
from cdsa.methods.registry import REGISTRY, class_of
from cdsa.nn.graph import Edge
from cdsa.nn.types import Sizes
from cdsa.training.checkpoint import (
    DOCUMENT,
    TRAINING,
    WEIGHTS,
    CheckpointError,
    load_checkpoint,
    save_checkpoint,
)
from cdsa.training.state import TrainState

NETWORK, BESIDE = "network.", "beside."


ARRAYS = ("mean", "spread", "station_means", "means")


def save_filler(filler: NeuralFiller, folder: str | Path, *, command: str = "") -> None:
    """Write a trained network; the folder then holds all that is needed to fill with it."""
    folder, network = Path(folder), filler.network
    if network is None:
        raise ConfigError("there was too little to learn from, so there is no network to save")
    make_directory(folder)
    arrays = {
        "mean": network.scaler.mean,
        "spread": network.scaler.std,
        "station_means": filler.station_means.transpose("location", "measurement"),
        "means": filler.means,
    }
    calibration, frame = network.calibration, network.frame
    tensors = {NETWORK + name: part for name, part in network.model.state_dict().items()}
    for name, array in arrays.items():
        tensors[BESIDE + name] = torch.from_numpy(array.to_numpy().astype(np.float64))
    if frame is not None:
        tensors[BESIDE + "usual_total"] = torch.from_numpy(frame.usual.total)
        tensors[BESIDE + "usual_count"] = torch.from_numpy(frame.usual.count)
        tensors[BESIDE + "likeness"] = torch.from_numpy(frame.likeness)
        tensors[BESIDE + "roughness"] = torch.from_numpy(frame.roughness)
        tensors[BESIDE + "measured"] = torch.from_numpy(frame.measured)
        tensors[BESIDE + "places"] = torch.from_numpy(frame.places)
    if calibration is not None:
        tensors[BESIDE + "factors"] = torch.from_numpy(calibration.factors)
    save_checkpoint(
        folder,
        tensors,
        {
            "method": filler.method.name,
            "settings": to_dict(filler.method),
            "window": {"past": network.past, "ahead": network.ahead},
            "axes": dataclasses.asdict(filler.axes),
            "network": {
                "locations": [str(name) for name in network.locations],
                "measurements": [str(name) for name in network.measurements],
                "variables": sum(part.numel() for part in network.model.parameters()),
            },
            "beside": {
                "locations": [str(n) for n in filler.station_means["location"].to_numpy()],
                "measurements": [str(n) for n in filler.means["measurement"].to_numpy()],
            },
            "frame": None
            if frame is None
            else {
                "unit": frame.unit,
                "cycles": list(frame.cycles),
                "slots": dataclasses.asdict(frame.usual.slots),
                "least": frame.least,
                "width": frame.width,
                "locations": [str(name) for name in frame.locations],
                "learnt": [[str(time) for time in part] for part in frame.learnt],
            },
            "calibration": None
            if calibration is None
            else {
                "measurements": list(calibration.measurements),
                "angles": list(calibration.is_direction),
                "windows": calibration.n_windows,
            },
            "training": dataclasses.asdict(network.place),
            "errors": list(network.errors),
            "provenance": provenance(command),
        },
    )


def open_folder(folder: Path, *, overwrite: bool) -> bool:
    """Make the folder of a training; whether there is one in it to go on with.

    A folder with a finished network, or with something else in it, is refused or, if it is ours
    and `overwrite`, emptied.
    """
    ours = [folder / name for name in (DOCUMENT, WEIGHTS, TRAINING)]
    make_directory(folder)
    others = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if others and not any(path in ours for path in others):
        raise OutputError(f"{folder} is not empty and holds no network. Choose another folder")
    if overwrite:
        for path in ours:
            path.unlink(missing_ok=True)
    elif (folder / DOCUMENT).exists() and not (folder / TRAINING).exists():
        raise OutputError(
            f"{folder} holds a trained network already. Choose another folder, or start anew with "
            "--overwrite"
        )
    return (folder / TRAINING).exists()


def finish_training(folder: Path) -> None:
    """Remove what was written down to go on from."""
    (folder / TRAINING).unlink(missing_ok=True)


def load_filler(folder: str | Path, *, device: str = "auto") -> NeuralFiller:
    """Read a trained network."""
    folder = Path(folder)
    tensors, document = load_checkpoint(folder)
    try:
        return _filler(tensors, document, pick_device(device))
    except CdsaError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as bad:
        raise CheckpointError(
            f"{folder} does not hold a network that this version of cdsa can use: {bad}"
        ) from bad


def _filler(
    tensors: dict[str, torch.Tensor], document: dict[str, Any], device: torch.device
) -> NeuralFiller:
    name = document["method"]
    if name not in REGISTRY or not REGISTRY[name].trains:
        raise CheckpointError(f"this version of cdsa has no method '{name}', which was trained")
    method: Neural = from_dict(class_of(REGISTRY[name]), document["settings"])
    beside = {n: tensors[BESIDE + n].numpy() for n in ARRAYS}
    window, own, around = document["window"], document["network"], document["beside"]
    locations, measurements = np.array(own["locations"]), np.array(own["measurements"])
    sizes = Sizes(window["past"] + window["ahead"], len(locations), len(measurements))
    frame = _frame(tensors, document["frame"], method.edges_for(locations))
    model = build(method, sizes, window["ahead"], frame.clocks if frame else 0)
    model.load_state_dict(
        {n.removeprefix(NETWORK): part for n, part in tensors.items() if n.startswith(NETWORK)}
    )
    kinds = {"measurement": measurements}
    network = Network(
        model=model.to(device),
        scaler=Scaler(
            xr.DataArray(beside["mean"], dims="measurement", coords=kinds),
            xr.DataArray(beside["spread"], dims="measurement", coords=kinds),
        ),
        locations=locations,
        measurements=measurements,
        past=window["past"],
        ahead=window["ahead"],
        device=device,
        place=TrainState(**document["training"]),
        errors=tuple(document["errors"]),
        frame=frame,
        fits_any=method.model.fits_any,
        known=method.known_covariates if window["ahead"] else (),
        calibration=_calibration(tensors, document["calibration"]),
    )
    axes: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in document["axes"].items()
    }
    if axes["places"] is not None:
        axes["places"] = tuple((lat, lon) for lat, lon in axes["places"])
    named = {key: around[f"{key}s"] for key in ("location", "measurement")}
    return NeuralFiller(
        station_means=xr.DataArray(
            beside["station_means"], dims=("location", "measurement"), coords=named
        ),
        means=xr.DataArray(
            beside["means"], dims="measurement", coords={"measurement": named["measurement"]}
        ),
        method=method,
        network=network,
        axes=Axes(**axes),
    )


def _frame(
    tensors: dict[str, torch.Tensor], told: dict[str, Any] | None, edges: tuple[Edge, ...]
) -> Frame | None:
    if told is None:
        return None
    total, count = (tensors[f"{BESIDE}usual_{part}"].numpy() for part in ("total", "count"))
    usual = Usual(Slots(**told["slots"]), total, count)
    names = ("likeness", "roughness", "places", "measured")
    likeness, rough, places, measured = (tensors[BESIDE + name].numpy() for name in names)
    return Frame(
        unit=told["unit"],
        cycles=tuple(told["cycles"]),
        usual=usual,
        likeness=likeness,
        roughness=rough,
        learnt=np.array(told["learnt"], dtype="datetime64[ns]").reshape(-1, 2),
        least=told["least"],
        measured=measured,
        locations=np.array(told["locations"]),
        places=places,
        edges=edges,
        width=told.get("width"),
    )


def _calibration(
    tensors: dict[str, torch.Tensor], told: dict[str, Any] | None
) -> Calibration | None:
    if told is None:
        return None
    factors = tensors[BESIDE + "factors"].numpy()
    return Calibration(factors, tuple(told["measurements"]), tuple(told["angles"]), told["windows"])
