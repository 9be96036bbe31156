"""The face-age predictor: age groups and an expected age from one small image.

Shapes: B batch, G age groups, H = W = image_size.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from unplug.core import InputError, IOSpec, TensorSpec

from .age_sizes import check_edges
from .picture_model import PictureModel, picture_spec

AGE_EDGES = (0, 6, 13, 16, 18, 21, 25, 30, 40, 50, 60, 70, 80, 100)
"""Default group borders in years: group g holds ages in [edge_g, edge_g+1), the last one everything
above. Laws ask at 13, 16, 18 and 21, and shops challenge at 21 and 25: at a border P(age >= T)
needs no assumption about ages within a group.
"""


class AgePredictor(PictureModel, tags=["face-age", "on-device"]):
    """Face image to age-group logits and an expected age.

    expected_age = sum_g softmax(z)_g * c_g, with c_g the mean training age of group g. With
    `random_features` D > 0 the classifier is linear in D fixed random features of the pooled trunk,
    relu(A x + a), and says the age itself, held between the first and the last border: what a ridge
    regression can fit, and forget, in closed form.

    Args:
        size: "nano" (0.3 M parameters), "small" (1 M), "base" (6 M), or one written out, see
            `size_of`.
        image_size: H and W of the input in pixels, 32 to 224.
        age_edges: G + 1 rising group borders in years.
        age_centers: G ages in years that the expectation uses; default: the middle of each group.
        dropout: probability in front of the classifier, 0 to 0.9.
        random_features: D, 0 to 4,096.
        own_answer: the trunk's own probabilities of the groups lie after its pooled features.
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
        own_answer: bool = False,
        network: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        edges = tuple(float(edge) for edge in age_edges)
        centers = (
            tuple(age_centers)
            if age_centers is not None
            else tuple((a + b) / 2 for a, b in itertools.pairwise(edges))
        )
        check_edges(edges)
        _check_centers(centers, len(edges) - 1)
        self.age_edges = edges
        self._keep(size, image_size, dropout, network, random_features, own_answer)
        self.register_buffer("age_centers", torch.tensor(centers, dtype=torch.float32))

    age_centers: Tensor

    model_type: ClassVar[str] = "age"
    called: ClassVar[str] = "Face-age predictor"
    architecture: ClassVar[str] = "face-age"
    group_word: ClassVar[str] = "age groups"
    more: ClassVar[int] = 1

    def forward(self, image_BCHW: Tensor) -> dict[str, Tensor]:
        """Logits and expected age of RGB images in [0, 1].

        Args:
            image_BCHW: float RGB images, H = W = `image_size`, values in [0, 1].

        Returns:
            ``age_logits`` (B, G) and ``expected_age`` (B, 1) in years.
        """
        answer_BK = self.answered(image_BCHW)
        if self.lift is None:
            age_B1 = (answer_BK.softmax(dim=1) * self.age_centers).sum(dim=1, keepdim=True)
            return {"age_logits": answer_BK, "expected_age": age_B1}
        # Two rectifiers, not a clamp: GPU delegates leave that to the CPU.
        youngest, oldest = self.age_edges[0], self.age_edges[-1]
        above_B1 = nn.functional.relu(answer_BK[:, self.groups :] - youngest)
        age_B1 = oldest - nn.functional.relu(oldest - youngest - above_B1)
        return {"age_logits": answer_BK[:, : self.groups], "expected_age": age_B1}

    @property
    def groups(self) -> int:
        """G, the number of age groups."""
        return len(self.age_edges) - 1

    def answers(self) -> dict[str, Any]:
        """Borders and centres of the age groups."""
        centers = [float(center) for center in self.age_centers]
        return {"age_edges": list(self.age_edges), "age_centers": centers}

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


def face_spec(side: int) -> TensorSpec:
    """The picture that age models take, of a batch of one."""
    return picture_spec(side, "A face, cropped to a square")


def _check_centers(centers: Sequence[float], groups: int) -> None:
    if not all(map(math.isfinite, centers)):
        raise InputError(
            "age_centers", "one of them is not a number", "Give one finite age per group"
        )
    if len(centers) != groups:
        raise InputError(
            "age_centers",
            f"{len(centers)} given for {groups} groups",
            "Give one finite age per group",
        )
