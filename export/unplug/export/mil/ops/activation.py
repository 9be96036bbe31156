"""Activations."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as fn

from .arguments import Ops


def gelu(x: Tensor, mode: str = "EXACT") -> Tensor:
    if mode == "SIGMOID_APPROXIMATION":
        return x * torch.sigmoid(1.702 * x)
    return fn.gelu(x, approximate={"EXACT": "none", "TANH_APPROXIMATION": "tanh"}[mode])


def leaky_relu(x: Tensor, alpha: Tensor) -> Tensor:
    return fn.leaky_relu(x, float(alpha))


def prelu(x: Tensor, alpha: Tensor) -> Tensor:
    return fn.prelu(x, alpha)


def elu(x: Tensor, alpha: Tensor) -> Tensor:
    return fn.elu(x, float(alpha))


def sigmoid_hard(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    return (alpha * x + beta).clamp(0.0, 1.0)


def thresholded_relu(x: Tensor, alpha: Tensor) -> Tensor:
    return torch.where(x >= alpha, x, torch.zeros_like(x))


def softmax(x: Tensor, axis: Tensor) -> Tensor:
    return x.softmax(int(axis))


OPS: Ops = {
    "gelu": gelu,
    "relu": lambda x: x.relu(),
    "relu6": lambda x: x.clamp(0.0, 6.0),
    "sigmoid": lambda x: x.sigmoid(),
    "silu": lambda x: fn.silu(x),
    "softplus": lambda x: fn.softplus(x),
    "softsign": lambda x: fn.softsign(x),
    "leaky_relu": leaky_relu,
    "prelu": prelu,
    "elu": elu,
    "thresholded_relu": thresholded_relu,
    "sigmoid_hard": sigmoid_hard,
    "softmax": softmax,
}
