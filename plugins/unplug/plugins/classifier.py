"""The classifier of pictures: one logit a class, over the trunk that age predictors stand on too.

Shapes: B batch, G classes, H = W = image_size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import Tensor

from unplug.core import IOSpec, TensorSpec

from .class_names import check_classes
from .picture_model import PictureModel, picture_spec


class Classifier(PictureModel, tags=["image-classification", "on-device"]):
    """Picture to the logits of classes; their probabilities are softmax(z).

    Args:
        size: see `AgePredictor`.
        image_size: H and W of the input in pixels, 32 to 224.
        classes: G names in the order of the logits, 2 to 1,000.
        dropout: probability in front of the classifier, 0 to 0.9.
        random_features, own_answer: see `AgePredictor`.
        network: the network of size "adopted", see `Adopted`.

    Raises:
        InputError: an argument outside its range.

    Example:
        >>> import torch
        >>> model = Classifier(image_size=32, classes=("cat", "dog", "ship")).eval()
        >>> model(torch.zeros(2, 3, 32, 32))["logits"].shape
        torch.Size([2, 3])
    """

    model_type: ClassVar[str] = "classes"
    called: ClassVar[str] = "Picture classifier"
    architecture: ClassVar[str] = "picture-classes"
    group_word: ClassVar[str] = "classes"

    def __init__(
        self,
        size: str = "nano",
        image_size: int = 64,
        classes: Sequence[str] = (),
        dropout: float = 0.0,
        random_features: int = 0,
        own_answer: bool = False,
        network: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        check_classes(classes)
        self.classes = tuple(classes)
        self._keep(size, image_size, dropout, network, random_features, own_answer)

    def forward(self, image_BCHW: Tensor) -> dict[str, Tensor]:
        """``logits`` (B, G) of RGB images in [0, 1], H = W = `image_size`."""
        return {"logits": self.answered(image_BCHW)}

    @property
    def groups(self) -> int:
        """G, the number of classes."""
        return len(self.classes)

    def answers(self) -> dict[str, Any]:
        """The names of the classes."""
        return {"classes": list(self.classes)}

    @property
    def iospec(self) -> IOSpec:
        """The named tensors, with a batch of one."""
        logits = TensorSpec(
            name="logits", shape=(1, self.groups), layout="NC", description="One logit per class"
        )
        image = picture_spec(self.image_size, "A picture, cropped to a square")
        return IOSpec(inputs=(image,), outputs=(logits,))
