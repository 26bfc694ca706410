"""Our BRITS gives the same predictions as that of PyPOTS with the same weights; slow.

Runs only if CDSA_PYPOTS names the Python of an environment that has pypots.
"""

import os
import subprocess

import numpy as np
import pytest
import torch

from cdsa.methods.neural.brits import BritsConfig, Rits
from cdsa.nn.interpolation import steps_since_observed
from cdsa.nn.types import Sizes

PYTHON = os.environ.get("CDSA_PYPOTS")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason="CDSA_PYPOTS is not set"),
]
THEIRS = """
import sys
import numpy, torch
from pypots.data.utils import parse_delta
from pypots.nn.modules.brits.backbone import BackboneBRITS

torch.manual_seed(0)
model = BackboneBRITS(9, 4, 6).eval()
values, seen = torch.randn(3, 9, 4), (torch.rand(3, 9, 4) < 0.6).float()
values = values * seen
inputs = {}
for way, turn in (("forward", lambda x: x), ("backward", lambda x: x.flip(1))):
    mask = turn(seen)
    inputs[way] = {"X": turn(values), "missing_mask": mask, "deltas": parse_delta(mask)}
with torch.no_grad():
    _, first, *_ = model.rits_f(inputs, "forward")
    _, second, *_ = model.rits_b(inputs, "backward")
weights = {name: part.detach().numpy() for name, part in model.state_dict().items()}
numpy.savez(sys.argv[1], values=values, seen=seen, deltas=inputs["forward"]["deltas"],
            prediction=((first + second.flip(1)) / 2).numpy(), **weights)
"""


def copy_weights(rits: Rits, theirs, side: str) -> None:
    def weight(name: str) -> torch.Tensor:
        return torch.from_numpy(theirs[f"{side}.{name}"])

    with torch.no_grad():
        for ours, name in (
            (rits.cell, "rnn_cell"),
            (rits.history, "hist_reg"),
            (rits.balance, "combining_weight"),
        ):
            for kind, ours_weight in ours.named_parameters():
                ours_weight.copy_(weight(f"{name}.{kind}"))
        rits.features.weight.copy_(weight("feat_reg.W"))
        rits.features.bias.copy_(weight("feat_reg.b"))
        rits.state_decay.weight.copy_(weight("temp_decay_h.W"))
        rits.state_decay.bias.copy_(weight("temp_decay_h.b"))
        rits.value_decay.copy_(weight("temp_decay_x.W").diagonal())
        rits.value_decay_shift.copy_(weight("temp_decay_x.b"))


def test_brits_predicts_what_that_of_pypots_predicts(tmp_path):
    file = tmp_path / "theirs.npz"
    subprocess.run([str(PYTHON), "-c", THEIRS, str(file)], check=True, capture_output=True)
    theirs = np.load(file)
    model = BritsConfig(d_model=6).build(Sizes(9, 4, 1), 0, 0)
    copy_weights(model.forwards, theirs, "rits_f")
    copy_weights(model.backwards, theirs, "rits_b")
    values, seen = (torch.from_numpy(theirs[name]) for name in ("values", "seen"))
    torch.testing.assert_close(steps_since_observed(seen), torch.from_numpy(theirs["deltas"]))
    with torch.no_grad():
        ours = model(values.unsqueeze(-1), seen.unsqueeze(-1) > 0).squeeze(-1)
    torch.testing.assert_close(ours, torch.from_numpy(theirs["prediction"]), atol=1e-5, rtol=1e-4)
