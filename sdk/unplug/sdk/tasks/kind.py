"""What a kind of model is, and the registry of kinds: packages add theirs through the entry points `unplug.tasks`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import torch
from torch import nn

from unplug.core import CheckpointError, Registry
from unplug.plugins import Checkpoint
from unplug.sdk.data import Dataset, Split
from unplug.sdk.training import Family, Predictions, Sets

from .needs import Need


class Kind(Protocol):
    """A checkpoint's kind, opened for one device: everything that forgetting, auditing and releasing ask of it.

    Attributes:
        model_type: key of `unplug.plugins.checkpoint.MODELS`.
        schema: of its record.
        unit: of its error on a sample, "years" or "loss".
        lacks: what no model of the kind has, so that a method that needs it is refused before anything is computed.
    """

    model_type: ClassVar[str]
    schema: ClassVar[str]
    unit: ClassVar[str]
    lacks: ClassVar[tuple[Need, ...]]

    @property
    def family(self) -> Family:
        """How its models are built and trained."""

    @property
    def image_size(self) -> int:
        """Side in pixels of the pictures that it is trained on."""

    def sets(self, dataset: Dataset, split: Split, *, show: bool = False) -> Sets:
        """The sets of a split on the device; `show` draws progress bars of what takes long."""

    def network(self, model: nn.Module) -> nn.Module:
        """What the forget step changes: the stored model, with whatever it needs to compute a loss."""

    def stored(self, network: nn.Module) -> nn.Module:
        """The inverse of `network`: what is saved."""

    def metrics(self, network: nn.Module, part: Any) -> dict[str, Any]:
        """Use of a model on one set, JSON-ready, with ``n`` and ``loss``."""

    def describe(self, row: dict[str, Any]) -> str:
        """A row of `metrics` in words."""

    def facts(self) -> dict[str, Any]:
        """What every record of the kind carries beside the common fields."""

    def check_twin(self, other: Checkpoint) -> None:
        """Refuses a retrained model that cannot stand beside the original; `CheckpointError` says why."""

    def card(self, record: dict[str, Any]) -> str:
        """Markdown for ``README.md``."""

    def footprint(self, network: nn.Module) -> Any:
        """Memory of one pass, see `unplug.sdk.unlearning.memory.Footprint`."""

    def resident(self, samples: int) -> int:
        """Bytes on the device that some samples take throughout."""

    def predict_artifact(self, artifact: Any, parts: Sequence[Any]) -> list[Predictions]:
        """What an exported file says of some sets, in its own runtime."""


TASKS: Registry[Callable[..., Kind]] = Registry(
    "kind",
    {"age": "unplug.sdk.tasks.age:AgeKind", "plugin": "unplug.sdk.tasks.plugin:PluginKind"},
    group="unplug.tasks",
)


def kind_of(checkpoint: Checkpoint, *, device: torch.device, base: str | None = None) -> Kind:
    """Opens the kind of a checkpoint.

    Args:
        checkpoint: with the record of its training.
        device: where to compute.
        base: of a plugin: the diffusion base beside it; None takes the one in the record.

    Raises:
        CheckpointError: of a type that cannot be forgotten with, or without the record that is needed.
    """
    if checkpoint.model_type not in TASKS:
        why = f"models of type {checkpoint.model_type} cannot be forgotten with"
        raise CheckpointError(str(checkpoint.path), why, f"Use one of {', '.join(TASKS)}")
    return TASKS.get(checkpoint.model_type)(checkpoint, device=device, base=base)
