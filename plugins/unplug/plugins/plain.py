"""A plain convolutional network for studies that train hundreds of models: three convolutions and a
linear layer.

Shapes: B batch, G groups.
"""

from __future__ import annotations

from torch import Tensor, nn

WIDTHS = {"plain": (16, 32, 64), "plain-wide": (32, 64, 128)}
"""Channels of the three convolutions, by the network's name."""

CELLS = 4
"""Side of the map that the classifier reads: every position has weights of its own, so that small
sets are memorised.
"""


class PlainNetwork(nn.Module):
    """Square images to logits, twenty times as fast as ``nano`` to train at 32 pixels, and of no
    use in a product.

    Three convolutions with batch norm and ReLU (4x4 of stride 4, then twice 3x3, the last of stride
    2), averaged to 4x4 cells, flattened, and one linear layer.

    Args:
        groups: G.
        widths: channels of the three convolutions; the second network of `WIDTHS` has three times
            the weights of the first.

    Example:
        >>> import torch
        >>> PlainNetwork(10).eval()(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    def __init__(self, groups: int, widths: tuple[int, int, int] = WIDTHS["plain"]) -> None:
        super().__init__()
        first, second, third = widths
        self.features = nn.Sequential(
            nn.Conv2d(3, first, 4, stride=4, bias=False),
            nn.BatchNorm2d(first),
            nn.ReLU(),
            nn.Conv2d(first, second, 3, padding=1, bias=False),
            nn.BatchNorm2d(second),
            nn.ReLU(),
            nn.Conv2d(second, third, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(third),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(CELLS),
            nn.Flatten(),
        )
        self.classifier = nn.Linear(third * CELLS * CELLS, groups)

    def forward(self, image_BCHW: Tensor) -> Tensor:
        """Logits (B, G) of images (B, 3, H, W) in [0, 1]."""
        answer: Tensor = self.classifier(self.features(image_BCHW))
        return answer
