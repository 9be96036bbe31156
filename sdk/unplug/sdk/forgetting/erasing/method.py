"""What an erasure method is, and the registry of those that unplug knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from unplug.core import Registry
from unplug.sdk.forgetting.unlearning import with_settings

from .problem import EraseProblem
from .text_map import TextMap


class Erasure(Protocol):
    """A frozen dataclass of hyperparameters that takes concepts out of a base.

    With a method ``refuse`` it says of a base's name, before anything is drawn, why it cannot.
    """

    def __call__(self, problem: EraseProblem) -> TextMap | None:
        """Changes the UNet of ``problem.base`` in place, or trains all of it anew and says so in
        ``problem.trained``.

        Returns:
            The map of text states that the whole change is, where it is one, see `TextMap.bake`.
        """


_HERE = "unplug.sdk.forgetting.erasing.methods"
ERASURES: Registry[Callable[[], Erasure]] = Registry(
    "erasure",
    {
        "uce": f"{_HERE}.uce:UCE",
        "rece": f"{_HERE}.rece:RECE",
        "speed": f"{_HERE}.speed:SPEED",
        "mace": f"{_HERE}.mace:MACE",
        "relabel": f"{_HERE}.relabel:Relabel",
        "esd": f"{_HERE}.esd:ESD",
        "ca": f"{_HERE}.ca:ConceptAblation",
        "salun": f"{_HERE}.salun:SalientRelabel",
        "spm": f"{_HERE}.spm:SPM",
        "retrain": f"{_HERE}.retrain:TrainedAnew",
    },
    group="unplug.erasures",
)
DEFAULT_ERASURE = "uce"


def build_erasure(name: str, options: Mapping[str, str] | None = None) -> Erasure:
    """An erasure method with some hyperparameters set from text (``--set rank=4``).

    Raises:
        InputError: an unknown method or hyperparameter, or a value of the wrong type.

    Example:
        >>> build_erasure("uce", {"rank": "4"}).rank
        4
    """
    return with_settings(ERASURES.get(name)(), options or {}, f"erasure {name}")
