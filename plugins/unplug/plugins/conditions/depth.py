"""Depth by a transformers depth-estimation network, near and far as the network has them, in grey.

Reference: Ranftl et al., "Vision Transformers for Dense Prediction", ICCV 2021 (DPT); Yang et al.,
    "Depth Anything", CVPR 2024.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from unplug.core import (
    CheckpointError,
    DataError,
    InputError,
    MissingExtraError,
    check_contents,
    quiet,
)

from .condition import PILLOW, Condition, Parallel
from .picture import Picture, centre_square, checked, checked_size

VARIABLE = "UNPLUG_DEPTH_MODEL"
EXACT = "renderer:exact"
"""The model's name where no network estimates: the exact depth of the renderer that drew the
pictures.
"""
FIX = (
    "Name a folder or hub id of a transformers depth-estimation model with model.safetensors: "
    f"give `model=NAME`, or set {VARIABLE}"
)


def grey(depth_HW: NDArray[np.floating[Any]]) -> Picture:
    """Depth as three equal channels: v = round(255 (d - min d) / (max d - min d)); 0 everywhere
    where d is constant.

    Raises:
        DataError: a depth is not a number.

    Example:
        >>> grey(np.array([[1.0, 2.0, 3.0]]))[0, :, 0].tolist()
        [0, 128, 255]
    """
    if not np.isfinite(depth_HW).all():
        raise DataError(
            "picture", "the depth model gave something other than a number", "Use another model"
        )
    span = float(depth_HW.max() - depth_HW.min())
    scaled_HW = (
        np.zeros(depth_HW.shape)
        if span == 0.0
        else 255.0 * (depth_HW.astype(np.float64) - depth_HW.min()) / span
    )
    return np.repeat(np.round(scaled_HW).astype(np.uint8)[:, :, None], 3, axis=2)


@dataclass(frozen=True, kw_only=True)
class Depth(Condition):
    """Estimated depth, scaled to 0..255 picture by picture, as MediaPipe's Image Generator scales
    it.

    Args:
        model: folder or hub id; only safetensors are read, and no code that a model brings is run.
            "" takes the environment's ``UNPLUG_DEPTH_MODEL``. `EXACT` is the depth that drawn faces
            come with: it is not a network, and of any other picture there is none.
        revision: the revision of a hub id, "" for its newest; `resolve` puts the commit here. With
            `EXACT`, the renderer's revision.
        device: torch device; "auto" takes CUDA where it is.
    """

    model: str = field(default="", metadata={"path": True})
    revision: str = ""
    device: str = field(default="auto", metadata={"machine": True})

    kind: ClassVar[str] = "depth"
    description: ClassVar[str] = "estimated depth by a transformers model, grey"
    parallel: ClassVar[Parallel] = "none"
    packages: ClassVar[tuple[tuple[str, ...], ...]] = (("transformers",), ("torch",), PILLOW)

    @property
    def named(self) -> str:
        """The model that these settings name, or else the environment; "" where none is named."""
        return self.model or os.environ.get(VARIABLE, "")

    def resolve(self) -> Self:
        """The settings with a folder's absolute path, or the commit of a hub id; `EXACT` as it is.

        Raises:
            InputError: no model is named.
            CheckpointError: there is none of this name.
        """
        name = self.named
        if not name:
            raise InputError("condition depth", "it needs a model and none is named", FIX)
        if name == EXACT:
            return replace(self, model=EXACT)
        folder = Path(name)
        if folder.is_file():
            raise CheckpointError(name, "it is a file, not a model folder", FIX)
        if folder.is_dir():
            return replace(self, model=str(folder.resolve()))
        return replace(self, model=name, revision=_commit(name, self.revision))

    def __call__(self, image_HWC: Picture) -> Picture:
        """(H, W, 3).

        Raises:
            DataError: no picture.
            CheckpointError: no model.
            InputError: `EXACT`, of which a picture says nothing.
        """
        image_HWC = checked(image_HWC)
        return grey(self._depth(image_HWC, *image_HWC.shape[:2]))

    def render(self, image_HWC: Picture, size: int) -> Picture:
        """(size, size, 3) of the centre square; the network sees it before it is shrunk."""
        side = min(checked(image_HWC).shape[:2])
        return grey(
            self._depth(centre_square(image_HWC, min(side, 4096)), checked_size(size), size)
        )

    def _depth(self, image_HWC: Picture, height: int, width: int) -> NDArray[np.float32]:
        if self.named == EXACT:
            raise InputError(
                "condition depth",
                f"{EXACT} is known of drawn faces (synth:) only, not of a picture",
                FIX,
            )
        import torch

        processor, network, device = self._opened
        inputs = processor(images=image_HWC, return_tensors="pt")
        with torch.no_grad():
            depth_BHW = network(inputs["pixel_values"].to(device)).predicted_depth.float()
            resized_BCHW = torch.nn.functional.interpolate(
                depth_BHW[:, None], size=(height, width), mode="bicubic", align_corners=False
            )
        depth_HW: NDArray[np.float32] = resized_BCHW[0, 0].cpu().numpy()
        return depth_HW

    @cached_property
    def _opened(self) -> tuple[Any, Any, Any]:
        import torch

        try:
            import transformers
            from safetensors import SafetensorError
        except ImportError as error:
            raise MissingExtraError("transformers", "diffusion") from error
        library: Any = transformers
        resolved = self.resolve()
        name, revision = resolved.model, resolved.revision or "main"
        device = (
            ("cuda" if torch.cuda.is_available() else "cpu")
            if self.device == "auto"
            else self.device
        )
        if device != "cpu" and not (device.startswith("cuda") and torch.cuda.is_available()):
            raise InputError(
                f"depth device={device}", "there is no such device here", "Use auto, cpu or cuda"
            )
        how = {"revision": revision, "trust_remote_code": False}
        with quiet():
            try:
                processor = library.AutoImageProcessor.from_pretrained(name, backend="pil", **how)
                network = library.AutoModelForDepthEstimation.from_pretrained(
                    name, use_safetensors=True, **how
                )
            except (
                OSError,
                ValueError,
                KeyError,
                TypeError,
                RuntimeError,
                SafetensorError,
            ) as error:
                raise _unreadable(name, error) from error
        return processor, network.eval().to(device), device


@cache
def _commit(name: str, revision: str) -> str:
    """The commit of a hub id: its newest one today may be another tomorrow."""
    if re.fullmatch("[0-9a-f]{40}", revision):
        return revision
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, HFValidationError

    try:
        return Path(hf_hub_download(name, "config.json", revision=revision or None)).parent.name
    except (EntryNotFoundError, HFValidationError, OSError) as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: Exception) -> CheckpointError:
    check_contents(
        item for item in sorted(Path(name).glob("*")) if item.suffix in (".safetensors", ".json")
    )
    reason = (" ".join(str(error).split()) or type(error).__name__)[:300]
    return CheckpointError(name, f"no depth-estimation model can be read from it ({reason})", FIX)
