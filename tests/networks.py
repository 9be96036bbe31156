"""Networks of "somebody else", as `unplug adopt` takes them."""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn


class Small(nn.Module):
    """A few convolutions with one answer an age group."""

    def __init__(self, groups: int, width: int = 8) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.last = nn.Linear(2 * width, groups)

    def forward(self, image_BCHW: Tensor) -> Tensor:
        answer: Tensor = self.last(self.features(image_BCHW))
        return answer


def small(groups: int = 13, width: int = 8) -> nn.Module:
    """What a factory looks like."""
    return Small(groups, width)


def says_one_number() -> nn.Module:
    """A regressor: no groups to decide by."""
    return Small(1)


def no_network() -> object:
    """Not even a module."""
    return torch.zeros(3)


def broken() -> nn.Module:
    """Raises when it is called."""
    raise RuntimeError("out of bananas")


class Buffered(Small):
    """Few parameters, and a buffer that no file holds."""

    def __init__(self, side: int) -> None:
        super().__init__(3)
        self.register_buffer("mask", torch.zeros(side, side), persistent=False)


def buffered(side: int = 8) -> nn.Module:
    """A factory whose argument decides about memory."""
    return Buffered(side)


def endless(groups: int) -> nn.Module:
    """Never returns."""
    while groups:
        time.sleep(1)
    return Small(groups)
