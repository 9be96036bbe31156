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


ERASURES: Registry[Callable[[], Erasure]] = Registry(
    "erasure",
    {
        "uce": "unplug.sdk.forgetting.erasing.methods.uce:UCE",
        "rece": "unplug.sdk.forgetting.erasing.methods.rece:RECE",
        "speed": "unplug.sdk.forgetting.erasing.methods.speed:SPEED",
        "mace": "unplug.sdk.forgetting.erasing.methods.mace:MACE",
        "relabel": "unplug.sdk.forgetting.erasing.methods.relabel:Relabel",
        "esd": "unplug.sdk.forgetting.erasing.methods.esd:ESD",
        "ca": "unplug.sdk.forgetting.erasing.methods.ca:ConceptAblation",
        "salun": "unplug.sdk.forgetting.erasing.methods.salun:SalientRelabel",
        "spm": "unplug.sdk.forgetting.erasing.methods.spm:SPM",
        "retrain": "unplug.sdk.forgetting.erasing.methods.retrain:TrainedAnew",
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
