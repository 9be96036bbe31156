"""The trunk of a predictor by itself: what a phone runs once a picture before its own head
answers.

Shapes: B batch, C pooled channels, H = W = image_size.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from unplug.core import IOSpec, TensorSpec, write_json

from .age import AgePredictor, face_spec
from .bounds import check_whole
from .checkpoint import WEIGHTS
from .picture_model import PictureModel, pooled
from .tap import MAX_CHANNELS


class AgeTrunk(nn.Module):
    """Picture to the pooled features that a head is linear in, after its lift
    (`unplug.sdk.drawing.inference.DeviceHead`).

    Args:
        size: the size, see `AgePredictor`.
        image_size: H and W of the input in pixels, 32 to 224.
        network: how somebody else's trunk is built, of size "adopted", see `Adopted`.
        own_answer: G, the groups of the trunk's own answer, which lies after the features; 0 leaves
            it out.

    Raises:
        InputError: an argument outside its range.

    Example:
        >>> import torch
        >>> AgeTrunk(size="nano", image_size=32).eval()(torch.zeros(2, 3, 32, 32))["features"].shape[0]
        2
    """

    def __init__(
        self,
        size: str = "nano",
        image_size: int = 64,
        network: Mapping[str, Any] | None = None,
        own_answer: int = 0,
    ) -> None:
        super().__init__()
        whole = AgePredictor(size=size, image_size=image_size, network=network, random_features=1)
        assert whole.lift is not None
        self.size, self.image_size, self.adopted = size, image_size, whole.adopted
        check_whole("own_answer", own_answer, 0, MAX_CHANNELS)
        features = whole.lift.in_features
        self.own = nn.Linear(features, own_answer) if own_answer else None
        self.channels = features + own_answer
        self.network = whole.network
        if self.network is None:
            self.stem, self.blocks, self.head = whole.stem, whole.blocks, whole.head

    @classmethod
    def of(cls, model: PictureModel) -> AgeTrunk:
        """The trunk of a predictor, with its weights."""
        network = None if model.adopted is None else model.adopted.to_dict()
        own = 0 if model.own is None else model.own.out_features
        trunk = cls(model.size, model.image_size, network=network, own_answer=own)
        weights = model.state_dict()
        trunk.load_state_dict({name: weights[name] for name in trunk.state_dict()})
        return trunk.eval()

    def forward(self, image_BCHW: Tensor) -> dict[str, Tensor]:
        """``features`` (B, C) of RGB images in [0, 1], H = W = `image_size`."""
        if self.network is not None:
            return {"features": self.network(image_BCHW)}
        return {"features": pooled(self, image_BCHW)}

    @property
    def iospec(self) -> IOSpec:
        """The named tensors, with a batch of one."""
        features = TensorSpec(
            name="features",
            shape=(1, self.channels),
            layout="NC",
            description="What the head is computed over",
        )
        return IOSpec(inputs=(face_spec(self.image_size),), outputs=(features,))

    def save_pretrained(self, save_directory: str | Path) -> None:
        """Writes ``config.json`` and ``model.safetensors`` into an existing folder, for
        `save_checkpoint`.
        """
        from safetensors.torch import save_file

        folder = Path(save_directory)
        write_json(
            folder / "config.json",
            {
                "model_type": "age-trunk",
                "size": self.size,
                "image_size": self.image_size,
                **({} if self.adopted is None else {"network": self.adopted.to_dict()}),
                **({} if self.own is None else {"own_answer": self.own.out_features}),
            },
        )
        save_file(
            {name: value.contiguous() for name, value in self.state_dict().items()},
            folder / WEIGHTS,
        )
