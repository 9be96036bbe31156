"""A law over networks that nobody drew: whatever is built of `blocks` computes the same numbers in
every target.

The networks come from another distribution's entry point, as a third party's would.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.exported import EVERYWHERE

from unplug.core import IOSpec, call_in_child
from unplug.export import export_checkpoint, measure_parity, random_inputs
from unplug.plugins.checkpoint import MODELS

MODULE = '''
import random

import torch
from huggingface_hub import PyTorchModelHubMixin
from torch import nn

from unplug.core import Reply
from unplug.core import IOSpec, TensorSpec
from unplug.plugins import save_checkpoint
from unplug.plugins.blocks import ConvNormAct, InvertedBottleneck, init_weights


class RandomNet(nn.Module, PyTorchModelHubMixin):
    """Strides, kernels, expansions and odd sizes by the seed."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = random.Random(seed)
        width = draw.choice([3, 8, 13, 16])
        layers = [ConvNormAct(3, width, kernel=draw.choice([1, 3, 5]), stride=draw.choice([1, 2]))]
        for _ in range(draw.randint(1, 4)):
            wider = draw.choice([width, width, width + draw.randint(1, 9)])
            layers.append(InvertedBottleneck(
                width, wider, stride=draw.choice([1, 1, 2]), expand=draw.randint(1, 6), kernel=draw.choice([3, 5, 7])
            ))
            width = wider
        self.layers = nn.Sequential(*layers).apply(init_weights)
        self.side = draw.randint(9, 33)
        with torch.inference_mode():
            shape = tuple(self.eval().layers(torch.zeros(1, 3, self.side, self.side)).shape)
        image = TensorSpec(name="image", shape=(1, 3, self.side, self.side), layout="NCHW", range=(0.0, 1.0), colour="RGB")
        features = TensorSpec(name="features", shape=shape, layout="NCHW")
        pooled = TensorSpec(name="pooled", shape=shape[:2], layout="NC")
        self.iospec = IOSpec(inputs=(image,), outputs=(features, pooled))

    def forward(self, image):
        features = self.layers(image)
        return {"features": features, "pooled": nn.functional.adaptive_avg_pool2d(features, 1).flatten(1)}


def make(job):
    torch.manual_seed(job.values["seed"])
    net = RandomNet(seed=job.values["seed"]).train()
    with torch.no_grad():
        for _ in range(5):
            net(torch.rand(16, 3, net.side, net.side))
    save_checkpoint(net.eval(), job.values["path"], record={}, card="Of a test.")
    config = job.values["path"] + "/config.json"
    with open(config, "w") as file:
        file.write('{"model_type": "random", "seed": %d}' % job.values["seed"])
    return Reply(values={"iospec": net.iospec.to_dict()})
'''


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The distribution: found by child processes, and put where this one, which reads entry points
    once, looks for names.
    """
    info = tmp_path / "random_nets-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: random-nets\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[unplug.models]\nrandom = random_nets:RandomNet\n")
    (tmp_path / "random_nets.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    assert "random" not in MODELS
    monkeypatch.setitem(MODELS._targets, "random", "random_nets:RandomNet")


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(6))
def test_all_targets_agree_with_torch(installed: None, tmp_path: Path, seed: int) -> None:
    checkpoint, layout = tmp_path / "net", ("NCHW", "NHWC")[seed % 2]
    made = call_in_child(
        "random_nets:make", {"path": str(checkpoint), "seed": seed}, what="make"
    ).values
    iospec = IOSpec.from_dict(made["iospec"])
    artifacts = export_checkpoint(
        checkpoint,
        targets=EVERYWHERE,
        precisions=["fp32", "fp16", "int8-static"],
        out=tmp_path / "out",
        calibration=random_inputs(iospec, 16, seed=1),
        layout=layout,
        workers=2,
    )
    report = measure_parity(
        artifacts, checkpoint, random_inputs(iospec.images_in(layout), 4, seed=2)
    )
    found = {
        (row.target, row.precision, row.output): (row.status, row.psnr_db) for row in report.rows
    }
    assert len(found) == len(EVERYWHERE) * 3 * 2 and {row.status for row in report.rows} == {
        "pass"
    }, found
    for target in EVERYWHERE:  # no precision is another one under its name
        fine, half, int8 = (
            found[target, name, "features"][1] for name in ("fp32", "fp16", "int8-static")
        )
        assert (fine is None or fine > half) and half > int8, (target, found)
