"""A third party's networks: whatever can be built of `blocks`, by a seed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import torch
from huggingface_hub import PyTorchModelHubMixin
from torch import Tensor, nn

from unplug.core import IOSpec, Job, Reply, TensorSpec
from unplug.plugins import ConvNormAct, InvertedBottleneck, save_checkpoint
from unplug.plugins.blocks import init_weights


class RandomNet(nn.Module, PyTorchModelHubMixin):
    """Strides, kernels, expansions and odd sizes by the seed."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = random.Random(seed)
        width = draw.choice([3, 8, 13, 16])
        layers: list[nn.Module] = [
            ConvNormAct(3, width, kernel=draw.choice([1, 3, 5]), stride=draw.choice([1, 2]))
        ]
        for _ in range(draw.randint(1, 4)):
            wider = draw.choice([width, width, width + draw.randint(1, 9)])
            stride, expand = draw.choice([1, 1, 2]), draw.randint(1, 6)
            kernel = draw.choice([3, 5, 7])
            layers.append(
                InvertedBottleneck(width, wider, stride=stride, expand=expand, kernel=kernel)
            )
            width = wider
        self.layers = nn.Sequential(*layers).apply(init_weights)
        self.side = draw.randint(9, 33)
        sides = (1, 3, self.side, self.side)
        with torch.inference_mode():
            shape = tuple(self.eval().layers(torch.zeros(sides)).shape)
        image = TensorSpec(name="image", shape=sides, layout="NCHW", range=(0.0, 1.0), colour="RGB")
        features = TensorSpec(name="features", shape=shape, layout="NCHW")
        pooled = TensorSpec(name="pooled", shape=shape[:2], layout="NC")
        self.iospec = IOSpec(inputs=(image,), outputs=(features, pooled))

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        features = self.layers(image)
        pooled = nn.functional.adaptive_avg_pool2d(features, 1).flatten(1)
        return {"features": features, "pooled": pooled}


def make(job: Job) -> Reply:
    """The checkpoint of a seed."""
    seed, path = job.values["seed"], Path(job.values["path"])
    torch.manual_seed(seed)
    net = RandomNet(seed=seed).train()
    with torch.no_grad():
        for _ in range(5):
            net(torch.rand(16, 3, net.side, net.side))
    save_checkpoint(net.eval(), path, record={}, card="Of a test.")
    (path / "config.json").write_text(json.dumps({"model_type": "random", "seed": seed}))
    return Reply(values={"iospec": net.iospec.to_dict()})
