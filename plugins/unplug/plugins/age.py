"""The face-age predictor: age groups and an expected age from one small image.

Shapes: B batch, G age groups, H = W = image_size.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from huggingface_hub import PyTorchModelHubMixin
from torch import Tensor, nn

from unplug.core import InputError, IOSpec, TensorSpec

from .adopted import Adopted, Normalized
from .adopted_trunk import AdoptedTrunk
from .age_sizes import ADOPTED, MAX_IMAGE_SIZE, MIN_IMAGE_SIZE, SIZES, Size, check_edges
from .blocks import ConvNormAct, InvertedBottleneck, init_weights, network_line
from .bounds import check_whole, is_whole
from .checkpoint import WEIGHTS, find_checkpoint, load_checkpoint
from .model_spec import describe_weights

AGE_EDGES = (0, 6, 13, 16, 18, 21, 25, 30, 40, 50, 60, 70, 80, 100)
"""Default group borders in years: group g holds ages in [edge_g, edge_g+1), the last one everything
above. Laws ask at 13, 16, 18 and 21, and shops challenge at 21 and 25: at a border P(age >= T)
needs no assumption about ages within a group.
"""


MAX_RANDOM_FEATURES = 4096


def stage_strides(image_size: int, stages: int) -> tuple[int, ...]:
    """Strides of the stem and of each stage, so that the last feature map is 4 to 7 pixels wide.

    Args:
        image_size: side of the input in pixels, 32 to 224.
        stages: number of stages after the stem; the first stage always keeps its resolution.

    Returns:
        1 + `stages` strides of 1 or 2.

    Example:
        >>> stage_strides(64, 5)
        (2, 1, 2, 2, 2, 1)
    """
    halvings = (
        math.ceil(image_size / 7) - 1
    ).bit_length()  # the fewest that leave at most 7 pixels
    return (2, 1, *(2 if index < halvings - 1 else 1 for index in range(stages - 1)))


class AgePredictor(
    nn.Module, PyTorchModelHubMixin, library_name="unplug-sdk", tags=["face-age", "on-device"]
):
    """Face image to age-group logits and an expected age.

    expected_age = sum_g softmax(z)_g * c_g, with c_g the mean training age of group g. With
    `random_features` D > 0 the classifier is linear in D fixed random features of the pooled trunk,
    relu(A x + a), and says the age itself, held between the first and the last border: what a ridge
    regression can fit, and forget, in closed form.

    Args:
        size: "nano" (0.3 M parameters), "small" (1 M) or "base" (6 M).
        image_size: H and W of the input in pixels, 32 to 224.
        age_edges: G + 1 rising group borders in years.
        age_centers: G ages in years that the expectation uses; default: the middle of each group.
        dropout: probability in front of the classifier, 0 to 0.9.
        random_features: D, 0 to 4,096.
        network: the network of size "adopted": how to build somebody else's network, see `Adopted`;
            it replaces trunk and classifier, or, where it says a tap, the trunk.

    Raises:
        InputError: an argument outside its range.

    Example:
        >>> model = AgePredictor(size="nano", image_size=32).eval()
        >>> outputs = model(torch.zeros(2, 3, 32, 32))
        >>> outputs["age_logits"].shape, outputs["expected_age"].shape
        (torch.Size([2, 13]), torch.Size([2, 1]))

    Reference:
        Sandler et al., MobileNetV2, 2018; Rothe et al., Deep EXpectation, 2015, section 3 (expected
        age); Cho and Saul, Kernel Methods for Deep Learning, 2009, section 2 (the kernel of random
        rectified features).
    """

    def __init__(
        self,
        size: str = "nano",
        image_size: int = 64,
        age_edges: Sequence[float] = AGE_EDGES,
        age_centers: Sequence[float] | None = None,
        dropout: float = 0.0,
        random_features: int = 0,
        network: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        edges = tuple(float(edge) for edge in age_edges)
        centers = (
            tuple(age_centers)
            if age_centers is not None
            else tuple((a + b) / 2 for a, b in itertools.pairwise(edges))
        )
        _check_arguments(size, image_size, edges, centers, dropout, random_features, network)
        self.size, self.image_size, self.age_edges = size, image_size, edges
        self.adopted = None if network is None else Adopted.from_dict(network)
        self.network: Normalized | AdoptedTrunk | None = None
        self.dropout = nn.Dropout(dropout)
        self.lift: nn.Linear | None = None
        self.register_buffer("age_centers", torch.tensor(centers, dtype=torch.float32))
        if self.adopted is None:
            self._own(SIZES[size], random_features)
        elif self.adopted.tap is None:
            self.network = Normalized(self.adopted, self.groups)
        else:
            self._over(self.adopted.tap.channels, random_features)
            self.network = AdoptedTrunk(self.adopted)

    age_centers: Tensor

    def __repr__(self) -> str:
        """One line: its size, its input, its groups and its parameters."""
        return network_line(self, f"{self.size} at {self.image_size} px, {self.groups} age groups")

    def _own(self, table: Size, random_features: int) -> None:
        """Trunk and classifier of ours."""
        stem_stride, *strides = stage_strides(self.image_size, len(table.stages))
        self.stem = ConvNormAct(3, table.stem, stride=stem_stride)
        channels, blocks = table.stem, []
        for stage, stride in zip(table.stages, strides, strict=True):
            for index in range(stage.blocks):
                blocks.append(
                    InvertedBottleneck(
                        channels,
                        stage.channels,
                        stride=stride if index == 0 else 1,
                        expand=stage.expand,
                        kernel=stage.kernel,
                    )
                )
                channels = stage.channels
        self.blocks = nn.Sequential(*blocks)
        self.head = ConvNormAct(channels, table.head, kernel=1)
        self._over(table.head, random_features)
        self.apply(init_weights)

    def _over(self, channels: int, random_features: int) -> None:
        """What stands over a trunk."""
        if random_features:
            self.lift = nn.Linear(channels, random_features)
        self.classifier = nn.Linear(
            random_features or channels, self.groups + (random_features > 0)
        )

    def forward(self, image_BCHW: Tensor) -> dict[str, Tensor]:
        """Logits and expected age of RGB images in [0, 1].

        Args:
            image_BCHW: float RGB images, H = W = `image_size`, values in [0, 1].

        Returns:
            ``age_logits`` (B, G) and ``expected_age`` (B, 1) in years.
        """
        if self.network is not None and self.lift is None:
            answer_BK = self.network(image_BCHW)
        elif self.lift is None:
            answer_BK = self.classifier(self.dropout(self.pooled(image_BCHW)))
        if self.lift is None:
            age_B1 = (answer_BK.softmax(dim=1) * self.age_centers).sum(dim=1, keepdim=True)
            return {"age_logits": answer_BK, "expected_age": age_B1}
        answer_BK = self.classifier(nn.functional.relu(self.lift(self.pooled(image_BCHW))))
        # Two rectifiers, not a clamp: GPU delegates leave that to the CPU.
        youngest, oldest = self.age_edges[0], self.age_edges[-1]
        above_B1 = nn.functional.relu(answer_BK[:, self.groups :] - youngest)
        age_B1 = oldest - nn.functional.relu(oldest - youngest - above_B1)
        return {"age_logits": answer_BK[:, : self.groups], "expected_age": age_B1}

    def pooled(self, image_BCHW: Tensor) -> Tensor:
        """The trunk's features (B, C), averaged over the picture; images as for `forward`.

        Raises:
            InputError: the network was adopted as a whole.
        """
        if self.network is None:
            return pooled(self, image_BCHW)
        if self.lift is None:
            what, why = "an adopted network", "its trunk is not known"
            raise InputError(what, why, "Adopt it with `--trunk`, or train one of our sizes")
        features_BC: Tensor = self.network(image_BCHW)
        return features_BC

    @property
    def groups(self) -> int:
        """G, the number of age groups."""
        return len(self.age_edges) - 1

    @property
    def iospec(self) -> IOSpec:
        """The named tensors, with a batch of one."""
        return IOSpec(
            inputs=(face_spec(self.image_size),),
            outputs=(
                TensorSpec(
                    name="age_logits",
                    shape=(1, self.groups),
                    layout="NC",
                    description="One logit per age group",
                ),
                TensorSpec(
                    name="expected_age",
                    shape=(1, 1),
                    layout="NC",
                    range=self._ages,
                    description="Expected age in years",
                ),
            ),
        )

    @property
    def _ages(self) -> tuple[float, float]:
        if self.lift is not None:
            return self.age_edges[0], self.age_edges[-1]
        return float(self.age_centers.min()), float(self.age_centers.max())

    def save_pretrained(self, save_directory: str | Path, **kwargs: Any) -> str | None:
        """Hub-style save (``config.json`` + ``model.safetensors``) that also records the model
        type.
        """
        config = {
            "model_type": "age",
            "size": self.size,
            "image_size": self.image_size,
            "age_edges": list(self.age_edges),
            "age_centers": [float(center) for center in self.age_centers],
            "dropout": self.dropout.p,
            **({} if self.lift is None else {"random_features": self.lift.out_features}),
            **({} if self.adopted is None else {"network": self.adopted.to_dict()}),
        }
        self.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # safetensors views what layers share
        return super().save_pretrained(save_directory, config=config, **kwargs)

    def _save_pretrained(self, save_directory: Path) -> None:
        super()._save_pretrained(save_directory)
        describe_weights(
            save_directory / WEIGHTS,
            architecture=f"face-age-{self.size}",
            title=f"Face-age predictor, {self.size}, {self.image_size} px",
            resolution=f"{self.image_size}x{self.image_size}",
        )

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        subfolder: str = "",
        **hub: Any,
    ) -> Self:
        """Loads it in eval mode, from a folder or the hub; nothing of its files is trusted.

        huggingface_hub's own falls back to a pickle, and leaves missing tensors as they are.

        Args:
            pretrained_model_name_or_path: a folder, or the name of a repository on the hub.
            subfolder: the model's folder below it.
            hub: see `find_checkpoint`.

        Raises:
            CheckpointError: see `load_checkpoint`.
            InputError: an argument that is not known here.
        """
        folder = find_checkpoint(pretrained_model_name_or_path, WEIGHTS, subfolder=subfolder, **hub)
        model: Self = load_checkpoint(folder, expect="age").model
        return model


def face_spec(side: int) -> TensorSpec:
    """The picture that age models take, of a batch of one."""
    return TensorSpec(
        name="image",
        shape=(1, 3, side, side),
        layout="NCHW",
        range=(0.0, 1.0),
        colour="RGB",
        description="A face, cropped to a square",
    )


def pooled(trunk: Any, image_BCHW: Tensor) -> Tensor:
    """Features (B, C) of a network with ``stem``, ``blocks`` and ``head``, averaged over the
    picture.
    """
    x_BCHW = trunk.head(trunk.blocks(trunk.stem(image_BCHW * 2.0 - 1.0)))
    # Pooling, not a mean over two axes: LiteRT's converter would transpose in front of that.
    return nn.functional.adaptive_avg_pool2d(x_BCHW, 1).flatten(1)


def _check_arguments(
    size: str,
    image_size: int,
    edges: Sequence[float],
    centers: Sequence[float],
    dropout: float,
    random_features: int,
    network: Mapping[str, Any] | None,
) -> None:
    if (size == ADOPTED) != (network is not None):
        raise InputError(
            f"size {size!r}",
            f"a network of others belongs to size {ADOPTED!r}, and only to it",
            "Adopt it again",
        )
    if size not in (*SIZES, ADOPTED):
        raise InputError(
            f"size {size!r}", "no such age predictor", f"Choose one of {', '.join(SIZES)}"
        )
    if not is_whole(image_size, MIN_IMAGE_SIZE, MAX_IMAGE_SIZE):
        raise InputError(
            f"image size {image_size}",
            "out of range",
            f"Use {MIN_IMAGE_SIZE} to {MAX_IMAGE_SIZE} pixels",
        )
    check_edges(edges)
    if not all(map(math.isfinite, centers)):
        raise InputError(
            "age_centers", "one of them is not a number", "Give one finite age per group"
        )
    if len(centers) != len(edges) - 1:
        raise InputError(
            "age_centers",
            f"{len(centers)} given for {len(edges) - 1} groups",
            "Give one finite age per group",
        )
    if not 0.0 <= dropout <= 0.9:
        raise InputError(f"dropout {dropout}", "out of range", "Use 0 to 0.9")
    tapped = network is not None and "tap" in network
    if network is not None and (dropout or bool(random_features) != tapped):
        raise InputError(
            "an adopted network", "it has its own features and dropout", "Leave both at 0"
        )
    check_whole("random_features", random_features, 0, MAX_RANDOM_FEATURES)
