"""Networks saved to a folder and loaded again."""

import hashlib
import json
import os
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load, save

from cdsa.core.cube import append_times
from cdsa.errors import ConfigError, OutputError
from cdsa.methods.engine.persistence import load_filler, open_folder, save_filler
from cdsa.nn.types import MANNERS
from cdsa.training.checkpoint import FORMAT, CheckpointError
from conftest import network
from small_networks import small_paper


@pytest.fixture(scope="module")
def cube():
    return network(steps=100, stations=3, measurements=2)


@pytest.fixture(scope="module")
def filler(cube):
    return small_paper().fit(cube)


@pytest.fixture
def folder(filler, tmp_path):
    save_filler(filler, tmp_path / "model", command="cdsa train ...")
    return tmp_path / "model"


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("forecast", [False, True], ids=["fill", "forecast"])
def test_a_loaded_network_fills_as_the_saved_one(cube, manner, forecast, tmp_path):
    train = replace(small_paper().train, epochs=1)
    filler = small_paper(manner, forecast=forecast, train=train).fit(cube)
    save_filler(filler, tmp_path / "model")
    loaded = load_filler(tmp_path / "model", device="cpu")
    longer = append_times(cube, 4) if forecast else cube
    assert loaded.fill(longer).equals(filler.fill(longer))
    assert loaded.method == filler.method and loaded.signature == filler.signature
    assert loaded.validation_errors == filler.validation_errors
    assert len(filler.validation_errors) == 2


def test_the_document_describes_the_network(folder):
    document = json.loads((folder / "model.json").read_text())
    assert document["method"] == "cdsa-paper" and document["settings"]["model"]["n_layers"] == 2
    assert document["signature"]["locations"] == ["S0", "S1", "S2"]
    assert document["signature"]["step"] == "1 h"
    assert document["signature"]["coordinates"][0] == [40.0, 116.0]
    assert document["provenance"]["command"] == "cdsa train ..."
    assert {error["measurement"] for error in document["errors"]} == {"pm25", "temp"}
    assert sorted(path.name for path in folder.iterdir()) == ["model.json", "weights.safetensors"]


def truncate(path):
    path.write_bytes(path.read_bytes()[:-10])


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def write_a_list(path):
    path.write_text("[]")


def write_a_pickle(path):
    torch.save({"network.x": torch.ones(2)}, path)


def nest(path):
    path.write_text("[" * 200_000)


def link_to_a_device(path):
    path.unlink()
    path.symlink_to("/dev/zero")


def link_to_a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def delete(path):
    path.unlink()


DAMAGES = (
    truncate, flip_a_bit, write_a_list, write_a_pickle, nest, link_to_a_device, link_to_a_pipe,
    delete,
)  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["weights.safetensors", "model.json"])
def test_a_damaged_file_is_refused(folder, name, damage):
    damage(folder / name)
    with pytest.raises(CheckpointError, match=name):
        load_filler(folder)


def sign(folder, weights):
    """Weights with checksums as if they had been saved."""
    content = weights if isinstance(weights, bytes) else save(weights)
    (folder / "weights.safetensors").write_bytes(content)
    document = json.loads((folder / "model.json").read_text())
    document["weights_sha256"] = hashlib.sha256(content).hexdigest()
    del document["sha256"]
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    (folder / "model.json").write_text(json.dumps(document | {"sha256": digest}))


def test_weights_that_are_no_numbers_are_refused(folder):
    weights = load((folder / "weights.safetensors").read_bytes())
    name = next(name for name in weights if name.startswith("network."))
    weights[name] = torch.full_like(weights[name], torch.nan)
    sign(folder, weights)
    with pytest.raises(CheckpointError, match="must be finite numbers, but those of"):
        load_filler(folder)
    sign(folder, b"no safetensors")
    with pytest.raises(CheckpointError, match="truncated or changed"):
        load_filler(folder)


def test_settings_changed_by_hand_are_refused(folder):
    path = folder / "model.json"
    path.write_text(path.read_text().replace('"n_layers": 2', '"n_layers": 3'))
    with pytest.raises(CheckpointError, match="truncated or changed since it was saved"):
        load_filler(folder)


def test_a_folder_of_an_older_format_is_refused(folder):
    path = folder / "model.json"
    document = json.loads(path.read_text()) | {"format": FORMAT - 1}
    del document["sha256"]
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(document | {"sha256": digest}))
    with pytest.raises(CheckpointError, match=f"has format {FORMAT - 1}, but .* {FORMAT}"):
        load_filler(folder)


def test_a_folder_without_a_network_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="there is no folder"):
        load_filler(tmp_path / "none")
    with pytest.raises(CheckpointError, match="holds no trained network"):
        load_filler(tmp_path)
    (tmp_path / "training.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match="not finished"):
        load_filler(tmp_path)


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    for overwrite in (False, True):
        with pytest.raises(OutputError, match="not empty and holds no network"):
            open_folder(tmp_path, overwrite=overwrite)
    assert (tmp_path / "thesis.tex").exists()


def test_a_finished_network_is_overwritten_on_request_only(folder):
    with pytest.raises(OutputError, match="--overwrite"):
        open_folder(folder, overwrite=False)
    assert not open_folder(folder, overwrite=True)
    assert not list(folder.iterdir())


def test_a_filler_without_a_network_cannot_be_saved(tmp_path):
    filler = small_paper().fit(network(steps=1, missing=0.0))
    with pytest.raises(ConfigError, match="too few data to train on"):
        save_filler(filler, tmp_path / "model")
