"""What a network computes on the way, operator by operator, whatever it is made of.

Hooks of modules see neither functions nor kernels that are computed from others; these are where
the numbers go through. Imported in child processes only: it needs torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

See = Callable[[str, Any, tuple[Any, ...], dict[str, Any]], Any]
"""Told of an operator before it runs: path of the innermost module, operator, arguments. What it
returns is the result.
"""


class _Dispatch(TorchDispatchMode):
    def __init__(self, inside: Sequence[str], see: See) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.inside, self.see = inside, see

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.see(self.inside[-1], func, args, kwargs or {})


@contextmanager
def _paths(model: nn.Module) -> Iterator[list[str]]:
    """The paths of the modules that are running, the innermost last."""
    inside = ["the model"]
    handles = []
    for name, module in model.named_modules():
        if name:
            handles.append(
                module.register_forward_pre_hook(
                    lambda _module, _given, path=name: inside.append(path)
                )
            )
            handles.append(
                module.register_forward_hook(lambda _module, _given, _output: inside.pop() and None)
            )
    try:
        yield inside
    finally:
        for handle in handles:
            handle.remove()


def watched(model: nn.Module, inputs: Sequence[Tensor], see: See) -> Any:
    """Runs a model without gradients and lets `see` compute each of its operators.

    Attention is taken apart into its products, as converters do.

    Args:
        model: a model in eval mode.
        inputs: the inputs in the order of the forward.
        see: called with (path, operator, arguments, named arguments).

    Example:
        >>> seen = []
        >>> def see(path, func, args, kwargs):
        ...     seen.append((path, func.overloadpacket.__name__))
        ...     return func(*args, **kwargs)
        >>> net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU())
        >>> _ = watched(net, [torch.zeros(1, 3, 2, 2)], see)
        >>> seen
        [('0', 'convolution'), ('1', 'relu')]
    """
    products = nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH)
    with _paths(model) as inside, torch.no_grad(), products, _Dispatch(inside, see):
        return model(*inputs)
