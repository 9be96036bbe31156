"""Networks that were built elsewhere, as the inside of an age predictor: a factory, what it is
called with, a normalization.

A name of ``timm:`` or ``torchvision:`` picks from those packages' own lists, ``unplug:plain`` and
``unplug:plain-wide`` are plain networks of ours, ``onnx:graph`` is a file among the weights. ``package.module:factory`` and
``./FILE.py:factory`` are code that a file names, so it is imported only where the operator trusts
it, see `factories`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from unplug.core import InputError, MissingExtraError, expanded

from .age_sizes import MAX_IMAGE_SIZE, ONNX
from .factories import away_from_here, call_of, check_trusted
from .tap import OnnxGraph, Tap

FORM = re.compile(
    r"([A-Za-z_][\w.]{0,200}|[^\x00-\x1f,?]{0,999}[/\\][^\x00-\x1f,?]{0,200}\.py)"
    r":[A-Za-z_][\w.-]{0,200}"
)
SCALARS = (str, int, float, bool, type(None))
MAX_ARGUMENTS, MAX_CALL = 32, 2000
OF_LISTS = {
    "drop_rate": (0, 0.9),
    "drop_path_rate": (0, 0.9),
    "dropout": (0, 0.9),
    "img_size": (16, MAX_IMAGE_SIZE),
    "width_mult": (0.1, 4),
}
POOLS = frozenset(
    ("global_pool", kind)
    for kind in ("", "avg", "max", "avgmax", "catavgmax", "fast", "token", "map")
)
"""What a network of a package's list may be called with, within bounds: nothing that reads a file
or fetches weights.
"""


@dataclass(frozen=True, kw_only=True)
class Adopted:
    """How a network is built again.

    Args:
        factory: ``timm:NAME``, ``torchvision:NAME``, ``package.module:factory``, or
            ``./FILE.py:factory``, whose path is made absolute.
        arguments: the arguments of the call, numbers and texts; a network of a list also gets the
            number of groups.
        mean, std: three numbers each: the network sees (RGB in [0, 1] - mean) / std.
        contiguous: it does not take channels-last memory (``view`` of a feature map, say), and
            computes in contiguous one.
        tap: the place of its features, of the trunk of a design; None of a network that answers.

    Raises:
        InputError: a name or value of another form.
    """

    factory: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)
    contiguous: bool = False
    tap: Tap | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.factory, str) or FORM.fullmatch(self.factory) is None:
            fix = "Write timm:NAME, torchvision:NAME, package.module:factory or ./FILE.py:factory"
            raise InputError(f"factory {str(self.factory)[:80]!r}", "it names no factory", fix)
        if self.is_file:
            place, _, name = self.factory.rpartition(":")
            factory = f"{expanded(place).absolute()}:{name}"
            object.__setattr__(self, "factory", factory)
        if not isinstance(self.arguments, Mapping) or len(self.arguments) > MAX_ARGUMENTS:
            raise InputError(
                f"factory {self.factory}",
                "its arguments are not a short list of names and values",
                "Give fewer",
            )
        for name, value in self.arguments.items():
            if not isinstance(name, str) or not isinstance(value, SCALARS):
                raise InputError(
                    f"argument {str(name)[:60]}",
                    "it is neither number nor text",
                    "Wrap it in a factory of your own",
                )
            if self.package in LISTS:
                _check_listed(self.package, name, value)
        if len(self.call) > MAX_CALL:
            raise InputError(
                f"factory {self.factory}",
                "its arguments are too long",
                "Give fewer, or shorter ones",
            )
        for what, three in (("mean", self.mean), ("std", self.std)):
            if len(three) != 3 or not all(
                isinstance(value, int | float) and abs(value) < 1e6 for value in three
            ):
                raise InputError(
                    what, "it is not three numbers", "Give one a colour, of values in [0, 1]"
                )
        if min(self.std) <= 0:
            raise InputError(
                "std",
                "one of them is not above 0",
                "Give the spread of each colour, of values in [0, 1]",
            )
        if not isinstance(self.contiguous, bool):
            raise InputError(
                "contiguous", "it is neither true nor false", "Adopt the network again"
            )

    @property
    def package(self) -> str:
        """The part in front of the last colon."""
        return self.factory.rpartition(":")[0]

    @property
    def is_file(self) -> bool:
        """Whether a path says where its code lies."""
        return any(sign in self.package for sign in "/\\")

    @property
    def call(self) -> str:
        """The factory and what it is called with, as lists of trusted ones name them."""
        return call_of(self.factory, self.arguments)

    @property
    def is_code(self) -> bool:
        """Whether its module is of somebody's choosing, and no list of networks."""
        return self.package not in LISTS

    def to_dict(self) -> dict[str, Any]:
        """What a ``config.json`` holds of it; `from_dict` is the inverse."""
        memory = {"contiguous": True} if self.contiguous else {}
        three = {"mean": list(self.mean), "std": list(self.std)}
        tap = {} if self.tap is None else {"tap": asdict(self.tap)}
        made = {"factory": self.factory, "arguments": dict(self.arguments)}
        return {**made, **three, **memory, **tap}

    @classmethod
    def from_dict(cls, raw: Any) -> Adopted:
        """The inverse of `to_dict`; `InputError` where it is of another form."""
        names = {"factory", "arguments", "mean", "std"}
        known = isinstance(raw, Mapping) and set(raw) - {"contiguous", "tap"} == names
        if not known or not all(isinstance(raw[key], list) for key in ("mean", "std")):
            raise InputError(
                "network", f"it is not an object of {', '.join(sorted(names))}", "Adopt it again"
            )
        three = {key: tuple(raw[key]) for key in ("mean", "std")}
        try:
            tap = {"tap": Tap(**raw["tap"])} if "tap" in raw else {}
        except TypeError as error:
            raise InputError("tap", "it is of another form", "Adopt the trunk again") from error
        return cls(**{**raw, **three, **tap})

    def build(self, groups: int) -> nn.Module:
        """The network, with weights that are not trained.

        Args:
            groups: G; it answers pictures (B, 3, H, W) with logits (B, G). Of a trunk `Tap.size`.

        Raises:
            InputError: not trusted, no such name, or what the factory raised or returned.
            MissingExtraError: its package is not installed.
        """
        name = self.factory.rpartition(":")[2]
        with (
            redirect_stdout(sys.stderr),
            away_from_here(),
        ):  # what other people's code prints is not an answer of ours
            return self._made(
                LISTS[self.package](name, groups) if self.package in LISTS else self._own(name)
            )

    def _made(self, make: Callable[..., Any]) -> nn.Module:
        try:
            network = make(**self.arguments)
        except (Exception, SystemExit) as error:
            why = f"it raised {type(error).__name__}: {_first_line(error)}"
            raise InputError(f"factory {self.factory}", why[:300], "Check `argument`") from error
        if not isinstance(network, nn.Module):
            raise InputError(
                f"factory {self.factory}",
                f"it returned {type(network).__name__}",
                "It has to return a torch.nn.Module",
            )
        return network

    def _own(self, name: str) -> Callable[..., Any]:
        check_trusted(self.call)
        try:
            factory: Any = _of_file(self.package) if self.is_file else import_module(self.package)
            for part in name.split("."):
                factory = getattr(factory, part)
        except (Exception, SystemExit) as error:
            why = (
                "its module ends the program"
                if isinstance(error, SystemExit)
                else getattr(error, "strerror", None) or _first_line(error)
            )
            fix = "Check the path and the name"
            if not self.is_file:
                fix = (
                    "A bare name is never searched for in the current folder: write "
                    f"./{self.package.removesuffix('.py')}.py:{name} for a file there; or install "
                    "its package, or name its folder in PYTHONPATH"
                )
            raise InputError(f"factory {self.factory}", why, fix) from error
        return factory  # type: ignore[no-any-return]


def _of_file(path: str) -> ModuleType:
    """The module that lies in a file: run once, under its path for a name, which no other has."""
    if path not in sys.modules:
        found = spec_from_file_location(path, path)
        if found is None or found.loader is None:
            raise ImportError("it is not a file of Python code")
        sys.modules[path] = module = module_from_spec(found)
        try:
            found.loader.exec_module(module)
        except BaseException:
            del sys.modules[path]
            raise
    return sys.modules[path]


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _of_timm(name: str, groups: int) -> Callable[..., Any]:
    try:
        import timm
    except ImportError as error:
        raise MissingExtraError("timm", "adopt") from error
    if name not in timm.list_models():
        raise InputError(
            f"timm:{name}",
            "timm has no such network",
            "`timm.list_models()` lists them; leave weights' tags out",
        )
    return lambda **arguments: timm.create_model(
        name, pretrained=False, num_classes=groups, **arguments
    )


def _of_torchvision(name: str, groups: int) -> Callable[..., Any]:
    try:
        from torchvision import models
    except ImportError as error:
        raise MissingExtraError("torchvision", "adopt") from error
    if name not in models.list_models(module=models):
        raise InputError(
            f"torchvision:{name}",
            "torchvision has no such classifier",
            "`torchvision.models.list_models()` lists them",
        )
    return lambda **arguments: models.get_model(name, weights=None, num_classes=groups, **arguments)


def _of_unplug(name: str, groups: int) -> Callable[..., Any]:
    from .plain import WIDTHS, PlainNetwork

    if name not in WIDTHS:
        fix = f"Use {' or '.join(f'unplug:{known}' for known in WIDTHS)}, or one of our sizes"
        raise InputError(f"unplug:{name}", "there is no such network", fix)
    return lambda: PlainNetwork(groups, WIDTHS[name])


LISTS: dict[str, Callable[[str, int], Callable[..., Any]]] = {
    ONNX: lambda _name, size: lambda: OnnxGraph(size),
    "timm": _of_timm,
    "torchvision": _of_torchvision,
    "unplug": _of_unplug,
}


def _check_listed(package: str, name: str, value: Any) -> None:
    """A stranger's checkpoint decides about the arguments of a list's networks, and so about memory
    and time.
    """
    low, high = OF_LISTS.get(name, (0, 0))
    number = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
    if name not in OF_LISTS and (name, value) not in POOLS:
        known = ", ".join(sorted({*OF_LISTS, "global_pool"}))
        why = f"{package}'s networks are built here with {known} alone"
        raise InputError(
            f"argument {name[:60]}", why, "Leave it out, or wrap it in a factory of your own"
        )
    if name in OF_LISTS and not number:
        raise InputError(
            f"argument {name}={str(value)[:60]}", "out of range", f"Use {low:g} to {high:g}"
        )


class Normalized(nn.Module):
    """A network after its normalization: logits (B, G) of RGB images (B, 3, H, W) in [0, 1]; see
    `Adopted`.

    Of several answers the first is taken, see `first_answer`: what others are for (auxiliary
    losses) only their owner knows.
    """

    mean_C11: Tensor
    std_C11: Tensor

    def __init__(self, adopted: Adopted, groups: int) -> None:
        super().__init__()
        self.contiguous = adopted.contiguous
        self.inner = adopted.build(groups)
        for name, three in (("mean_C11", adopted.mean), ("std_C11", adopted.std)):
            self.register_buffer(name, torch.tensor(three)[:, None, None], persistent=False)

    def forward(self, image_BCHW: Tensor) -> Tensor:
        """Logits (B, G) of RGB images in [0, 1], which the network sees normalized."""
        answer: Tensor = first_answer(self.inner(self.given(image_BCHW)))
        return answer

    def given(self, image_BCHW: Tensor) -> Tensor:
        """What the network sees of RGB images in [0, 1]."""
        if self.contiguous:
            image_BCHW = image_BCHW.contiguous()
        return (image_BCHW - self.mean_C11) / self.std_C11

    def _apply(self, fn: Any, recurse: bool = True) -> Normalized:
        """Code that moves the model asks for channels-last memory: a network that does not take it
        stays as it is.
        """
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.contiguous:
            for tensor in (*self.parameters(), *self.buffers()):
                tensor.data = tensor.data.contiguous()
        return self


def first_answer(answer: Any) -> Any:
    """What a network says of a picture where it says more: ``logits`` or ``out`` of names, else the
    first of several.

    Example:
        >>> first_answer((1, 2)), first_answer({"aux": 3, "out": 4}), first_answer(5)
        (1, 4, 5)
    """
    for name in ("logits", "out"):
        if isinstance(answer, Mapping) and name in answer:
            return answer[name]
        if not isinstance(answer, Mapping | Tensor) and hasattr(answer, name):
            return getattr(answer, name)
    return answer[0] if isinstance(answer, tuple | list) and answer else answer
