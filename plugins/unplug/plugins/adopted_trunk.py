"""A network that was built elsewhere as the trunk of an exact design: its features, and what it
answers, read as numbers that a head is linear in.

Shapes: B batch, F features, K answers, C = F + 2 K numbers in all, H = W side in pixels.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unplug.core import InputError

from .adopted import Adopted, Normalized, first_answer
from .tap import OnnxGraph, Tap


def read_at(network: nn.Module, image_BCHW: Tensor, layer: str) -> tuple[Any, Any]:
    """What a layer says of pictures, and what the network answers.

    Args:
        network: a network of somebody else.
        image_BCHW: pictures as it sees them.
        layer: see `Tap`.

    Raises:
        InputError: no such layer, or the network does not come by it.
    """
    if isinstance(network, OnnxGraph):
        answers = network(image_BCHW)
        return answers[0], answers[-1]
    if not layer:
        answer = first_answer(network(image_BCHW))
        return answer, answer
    name, _, side = layer.partition(":")
    seen: list[Any] = []
    module = network.get_submodule(name)
    # for this pass alone: a copy of the network would keep a hook that writes elsewhere
    handle = (
        module.register_forward_pre_hook(lambda _module, given: seen.append(given[0]))
        if side
        else module.register_forward_hook(
            lambda _module, _given, answer: seen.append(first_answer(answer))
        )
    )
    try:
        answer = first_answer(network(image_BCHW))
    finally:
        handle.remove()
    if not seen:
        raise InputError(f"layer {name}", "the network does not come by it", "Name another layer")
    return seen[-1], answer


def vectors(value: Any) -> Tensor | None:
    """Features (B, F) of (B, F), (B, F, 1) or (B, F, 1, 1); None of another shape."""
    whole = isinstance(value, Tensor) and value.ndim >= 2 and value.shape[2:].numel() == 1
    return value.flatten(1) if whole else None


class AdoptedTrunk(nn.Module):
    """Pictures to features: (features, p, cumulative sums of p, its expectation) - shift, times
    scale, with p the probabilities of the network's own answer.

    Args:
        adopted: an `Adopted` with a tap.
    """

    shift_C: Tensor
    scale_C: Tensor
    views_KV: Tensor

    def __init__(self, adopted: Adopted) -> None:
        super().__init__()
        assert adopted.tap is not None
        self.tap: Tap = adopted.tap
        self.network = Normalized(adopted, self.tap.size)
        for name, start in (("shift_C", 0.0), ("scale_C", 1.0)):
            self.register_buffer(name, torch.full((self.tap.channels,), start))
        self.register_buffer("views_KV", answer_views(self.tap.answers), persistent=False)

    @property
    def inner(self) -> nn.Module:
        """The network as it was built elsewhere."""
        return self.network.inner

    def forward(self, image_BCHW: Tensor) -> Tensor:
        """Features (B, C) of RGB images in [0, 1]."""
        given_BCHW = self.network.given(image_BCHW)
        seen, answer = read_at(self.network.inner, given_BCHW, self.tap.layer)
        feature_BC = vectors(seen)
        assert feature_BC is not None  # asked when it was adopted
        if self.tap.answers:
            likely_BK = answer.softmax(dim=1) if self.tap.logits else answer
            feature_BC = torch.cat([feature_BC, likely_BK @ self.views_KV], dim=1)
        return (feature_BC - self.shift_C) * self.scale_C


def answer_views(answers: int) -> Tensor:
    """The matrix (K, 2 K) that makes of probabilities themselves, their cumulative sums but the
    last, which is 1, and their expectation as a place from 0 to 1.

    Example:
        >>> (torch.tensor([0.5, 0.25, 0.25]) @ answer_views(3)).tolist()
        [0.5, 0.25, 0.25, 0.5, 0.75, 0.375]
    """
    if not answers:
        return torch.zeros(0, 0)
    one_KK = torch.eye(answers)
    place_K1 = torch.arange(answers)[:, None] / max(answers - 1, 1)
    return torch.cat([one_KK, one_KK.cumsum(1)[:, :-1], place_K1], dim=1)
