"""Save a trained network to a folder and load it again."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor

from cdsa.core.atomic import make_directory
from cdsa.core.backbone import Backbone, Region
from cdsa.core.climatology import Climatology, Cycle, TimeBins
from cdsa.core.config import from_dict, to_dict
from cdsa.core.geo import Edge
from cdsa.core.records import provenance
from cdsa.core.scaler import Scaler
from cdsa.core.standardise import Standardiser
from cdsa.core.statespace import StateSpace
from cdsa.errors import CdsaError, ConfigError, OutputError
from cdsa.methods.calibration import Calibration
from cdsa.methods.engine.context import ContextBuilder
from cdsa.methods.engine.estimator import Neural, NeuralFiller
from cdsa.methods.engine.fit import build_network
from cdsa.methods.engine.predictor import Predictor, pick_device
from cdsa.methods.engine.signature import DataSignature
from cdsa.methods.registry import REGISTRY
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

Tensors = dict[str, Tensor]
Document = dict[str, Any]

UNUSABLE = (SafetensorError, LookupError, TypeError, ValueError, RuntimeError, AttributeError)
"""Errors of intact files that another version wrote."""

WEIGHT = "network."
"""Prefix of the network's parameters; other tensors are arrays of the data."""

CONTEXT_ARRAYS = (
    "station_similarity", "measurement_similarity", "step_variance", "measured", "coordinates",
    "station_ids",
)  # fmt: skip
CONTEXT_NUMBERS = ("distance_scale", "min_steps", "bandwidth")
"""Fields of a `ContextBuilder` that are saved as they are."""

SCALING_ARRAYS = ("offset", "mean", "std", "cyclic", "spread")
"""Fields of a `Standardiser` that are arrays."""

MEASUREMENT, STATION = ("measurement",), ("location", "measurement")


def save_filler(filler: NeuralFiller, folder: str | Path, *, command: str = "") -> None:
    """Write a trained network with all that is needed to fill with it."""
    folder, predictor = Path(folder), filler.network
    if predictor is None:
        raise ConfigError("there were too few data to train on, so there is no network to save")
    make_directory(folder)
    builder, calibration = predictor.context_builder, predictor.calibration
    arrays: dict[str, NDArray[Any]] = {
        "scaler.mean": predictor.scaler.mean.to_numpy().astype(np.float64),
        "scaler.std": predictor.scaler.std.to_numpy().astype(np.float64),
        "means.station": filler.station_means.transpose(*STATION).to_numpy().astype(np.float64),
        "means.measurement": filler.means.to_numpy().astype(np.float64),
    }
    document: Document = {
        "method": filler.method.name,
        "settings": to_dict(filler.method),
        "window": {"context_length": predictor.context_length, "horizon": predictor.horizon},
        "signature": asdict(filler.signature),
        "network": {
            "locations": _texts(predictor.locations),
            "measurements": _texts(predictor.measurements),
            "n_parameters": sum(p.numel() for p in predictor.model.parameters()),
        },
        "means": {
            "locations": _texts(filler.station_means["location"].to_numpy()),
            "measurements": _texts(filler.means["measurement"].to_numpy()),
        },
        "context": None,
        "backbone": None,
        "calibration": None,
        "training": asdict(predictor.train_state),
        "errors": list(predictor.errors),
        "provenance": provenance(command),
    }
    if builder is not None:
        arrays["context.climatology_total"] = builder.climatology.total
        arrays["context.climatology_count"] = builder.climatology.count
        arrays |= {f"context.{name}": getattr(builder, name) for name in CONTEXT_ARRAYS}
        document["context"] = {name: getattr(builder, name) for name in CONTEXT_NUMBERS} | {
            "cycles": list(builder.cycles),
            "time_bins": asdict(builder.climatology.time_bins),
            "locations": _texts(builder.locations),
            "trained_ranges": [_texts(bounds) for bounds in builder.trained_ranges],
        }
    if predictor.backbone is not None:
        backbone = predictor.backbone
        document["backbone"] = {
            "locations": _texts(backbone.locations),
            "measurements": _texts(backbone.measurements),
            "time_bins": [
                None if cycle is None else asdict(cycle.time_bins)
                for cycle in (region.scaling.cycle for region in backbone.regions)
            ],
        }
        for number, region in enumerate(backbone.regions):
            arrays |= {f"backbone.{number}.{n}": a for n, a in _region_arrays(region).items()}
    if calibration is not None:
        arrays["calibration.factors"] = calibration.factors
        arrays["calibration.station_factors"] = calibration.station_factors
        document["calibration"] = {
            "measurements": list(calibration.measurements),
            "directions": list(calibration.is_direction),
            "n_windows": calibration.n_windows,
        }
    weights = {WEIGHT + name: w for name, w in predictor.model.state_dict().items()}
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    save_checkpoint(folder, weights | tensors, document)


def open_folder(folder: Path, *, overwrite: bool) -> bool:
    """Make the folder of a training run; True if it holds an unfinished run to resume.

    A folder with a finished network or with other files is refused; with `overwrite`, a network
    or an unfinished run in it is deleted.
    """
    files = [folder / name for name in (DOCUMENT, WEIGHTS, TRAINING)]
    make_directory(folder)
    others = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if others and not any(path in files for path in others):
        raise OutputError(f"{folder} is not empty and holds no network. Choose another folder")
    if overwrite:
        for path in files:
            path.unlink(missing_ok=True)
    elif (folder / DOCUMENT).exists() and not (folder / TRAINING).exists():
        raise OutputError(
            f"{folder} already holds a trained network. Choose another folder, or start again with "
            "--overwrite"
        )
    return (folder / TRAINING).exists()


def finish_training(folder: Path) -> None:
    """Delete the state that an interrupted training resumes from."""
    (folder / TRAINING).unlink(missing_ok=True)


def load_filler(folder: str | Path, *, device: str = "auto") -> NeuralFiller:
    try:
        return _filler(*load_checkpoint(Path(folder)), pick_device(device))
    except CdsaError:
        raise
    except UNUSABLE as error:
        raise CheckpointError(
            f"{folder} does not hold a network that this version of cdsa can use: {error}"
        ) from error


def _filler(tensors: Tensors, document: Document, device: torch.device) -> NeuralFiller:
    name, means = document["method"], document["means"]
    if name not in REGISTRY or not REGISTRY[name].trains:
        raise CheckpointError(f"the network is of method '{name}', which this version lacks")
    method = from_dict(REGISTRY[name].load(), document["settings"])
    assert isinstance(method, Neural)
    return NeuralFiller(
        station_means=_labelled(tensors["means.station"], STATION, means),
        means=_labelled(tensors["means.measurement"], MEASUREMENT, means),
        method=method,
        network=_predictor(tensors, document, method, device),
        signature=_signature(document["signature"]),
    )


def _predictor(
    tensors: Tensors, document: Document, method: Neural, device: torch.device
) -> Predictor:
    names, window = document["network"], document["window"]
    locations, measurements = np.array(names["locations"]), np.array(names["measurements"])
    context_length, horizon = window["context_length"], window["horizon"]
    builder = _context_builder(tensors, document["context"], method.edges_for(locations))
    sizes = Sizes(context_length + horizon, len(locations), len(measurements))
    model = build_network(method, sizes, horizon, builder)
    weights = {n.removeprefix(WEIGHT): t for n, t in tensors.items() if n.startswith(WEIGHT)}
    for name, weight in weights.items():
        if weight.is_floating_point() and not weight.isfinite().all():
            raise CheckpointError(
                f"the weights of a network must be finite numbers, but those of '{name}' are not. "
                "Train again"
            )
    model.load_state_dict(weights)
    calibration, fields = None, document["calibration"]
    if fields is not None:
        calibration = Calibration(
            tensors["calibration.factors"].numpy(),
            tuple(fields["measurements"]),
            tuple(fields["directions"]),
            tuple(names["locations"]),
            tensors["calibration.station_factors"].numpy(),
            fields["n_windows"],
        )
    return Predictor(
        model=model.to(device),
        scaler=Scaler(
            _labelled(tensors["scaler.mean"], MEASUREMENT, names),
            _labelled(tensors["scaler.std"], MEASUREMENT, names),
        ),
        locations=locations,
        measurements=measurements,
        context_length=context_length,
        horizon=horizon,
        device=device,
        train_state=TrainState(**document["training"]),
        errors=tuple(document["errors"]),
        context_builder=builder,
        inductive=method.model.inductive,
        known_covariates=method.known_covariates if horizon else (),
        calibration=calibration,
        backbone=_backbone(tensors, document["backbone"]),
    )


def _region_arrays(region: Region) -> dict[str, NDArray[Any]]:
    scaling, model = region.scaling, region.model
    arrays: dict[str, NDArray[Any]] = {"rows": region.rows, "used": region.used}
    arrays |= {name: getattr(scaling, name) for name in SCALING_ARRAYS} | vars(model)
    if scaling.cycle is not None:
        arrays["cycle"] = scaling.cycle.means
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _backbone(tensors: Tensors, fields: Document | None) -> Backbone | None:
    if fields is None:
        return None
    regions = []
    for number, bins in enumerate(fields["time_bins"]):
        prefix = f"backbone.{number}."
        arrays = {
            name.removeprefix(prefix): tensor.numpy()
            for name, tensor in tensors.items()
            if name.startswith(prefix)
        }
        rows, used = arrays.pop("rows"), arrays.pop("used")
        cycle = None
        if bins is not None:
            cycle = Cycle(TimeBins(**bins), arrays.pop("cycle"))
        scaling = {name: arrays.pop(name) for name in SCALING_ARRAYS}
        standardiser = Standardiser(cycle=cycle, **scaling)
        regions.append(Region(rows, used, standardiser, StateSpace(**arrays)))
    locations, measurements = (np.array(fields[name]) for name in ("locations", "measurements"))
    return Backbone(locations, measurements, tuple(regions))


def _signature(fields: Document) -> DataSignature:
    tuples: Document = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    if tuples["coordinates"] is not None:
        tuples["coordinates"] = tuple((lat, lon) for lat, lon in tuples["coordinates"])
    return DataSignature(**tuples)


def _context_builder(
    tensors: Tensors, fields: Document | None, edges: tuple[Edge, ...]
) -> ContextBuilder | None:
    if fields is None:
        return None
    plain: dict[str, Any] = {name: fields[name] for name in CONTEXT_NUMBERS}
    plain |= {name: tensors[f"context.{name}"].numpy() for name in CONTEXT_ARRAYS}
    total, count = (tensors[f"context.climatology_{name}"].numpy() for name in ("total", "count"))
    return ContextBuilder(
        **plain,
        cycles=tuple(fields["cycles"]),
        climatology=Climatology(TimeBins(**fields["time_bins"]), total, count),
        trained_ranges=np.array(fields["trained_ranges"], dtype="datetime64[ns]").reshape(-1, 2),
        locations=np.array(fields["locations"]),
        edges=edges,
    )


def _labelled(tensor: Tensor, dims: tuple[str, ...], names: Document) -> xr.DataArray:
    return xr.DataArray(tensor.numpy(), dims=dims, coords={dim: names[f"{dim}s"] for dim in dims})


def _texts(values: NDArray[Any]) -> list[str]:
    return [str(value) for value in values]
