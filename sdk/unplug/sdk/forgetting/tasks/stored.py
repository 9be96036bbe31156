"""Tasks whose models are stored as checkpoints, and their registry; packages add theirs by the
entry point `unplug.tasks`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import nn

from unplug.core import CheckpointError, Registry, progress
from unplug.plugins import Checkpoint
from unplug.sdk.learning.data import Dataset, Split
from unplug.sdk.learning.training import Predictions, Sets, Task

from .memory import Footprint
from .needs import Need


class StoredTask(Task):
    """A task that the command line can forget with, audit and release: besides its `Task`, how its
    checkpoints are handled.

    Attributes:
        model_type: key of `unplug.plugins.checkpoint.MODELS`, and of the task in `TASKS`.
        schema: the schema of its checkpoints' records.
        unit: the unit of its error on a sample, "years" or "loss".
        lacks: features that no model of the kind has, so that a method that needs them is refused
            before anything is computed.
        error_name: the name of its error on unseen samples.
        error_digits: that its error is printed with.
        image_size: side in pixels of the pictures that it is trained on.
    """

    model_type: ClassVar[str]
    schema: ClassVar[str]
    unit: ClassVar[str]
    lacks: ClassVar[tuple[Need, ...]]
    error_name: ClassVar[str]
    error_digits: ClassVar[int]

    @classmethod
    @abstractmethod
    def open(cls, checkpoint: Checkpoint, *, device: torch.device, base: str | None) -> Self:
        """The task that a checkpoint was trained by, ready on a device; `base` is the diffusion
        base of a plugin.
        """

    @property
    @abstractmethod
    def image_size(self) -> int: ...

    @abstractmethod
    def sets(
        self, dataset: Dataset, split: Split, device: torch.device, *, show: bool = False
    ) -> Sets:
        """The sets of a split on the device; `show` draws progress bars of what takes long."""

    @abstractmethod
    def network(self, model: nn.Module) -> nn.Module:
        """What the forget step changes: the stored model, with whatever it needs to compute a loss."""

    @abstractmethod
    def stored(self, network: nn.Module) -> nn.Module:
        """The inverse of `network`: what is saved."""

    @abstractmethod
    def metrics(self, network: nn.Module, part: Any) -> dict[str, Any]:
        """Use of a model on one set, JSON-ready, with ``n`` and ``loss``."""

    def measured(
        self, network: nn.Module, parts: Mapping[str, Any], *, show: bool = False
    ) -> dict[str, dict[str, Any]]:
        """`metrics` of several sets; `show` draws a progress bar."""
        rows = {}
        with progress(total=sum(map(len, parts.values())), label="measure", show=show) as bar:
            for name, part in parts.items():
                rows[name] = self.metrics(network, part)
                bar.update(len(part))
        return rows

    @abstractmethod
    def describe(self, row: dict[str, Any]) -> str:
        """A row of `metrics` in words."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What every record of the kind carries besides the common fields."""

    @abstractmethod
    def check_twin(self, other: Checkpoint) -> None:
        """Refuses a retrained model that cannot be compared with the original; `CheckpointError`
        says why.
        """

    @abstractmethod
    def card(self, record: dict[str, Any]) -> str:
        """Markdown for ``README.md`` of a checkpoint."""

    @abstractmethod
    def title(self, checkpoint: Checkpoint) -> str:
        """What a model is, in a few words that begin the card of its bundle."""

    @abstractmethod
    def processing(self, checkpoint: Checkpoint) -> dict[str, Any]:
        """How an app feeds a model and reads it: ``preprocessing`` and ``postprocessing`` of a
        bundle's manifest.
        """

    @abstractmethod
    def footprint(self, network: nn.Module, device: torch.device) -> Footprint:
        """Memory that one pass takes, for the estimate of a forget step."""

    @abstractmethod
    def resident(self, samples: int) -> int:
        """Bytes on the device that some samples take throughout."""

    @abstractmethod
    def predict_artifact(self, artifact: Any, parts: Sequence[Any]) -> list[Predictions]:
        """What an exported file says of some sets, in its own runtime."""


TASKS: Registry[type[StoredTask]] = Registry(
    "task",
    {
        "age": "unplug.sdk.forgetting.tasks.age:AgeTask",
        "classes": "unplug.sdk.forgetting.tasks.classes:ClassTask",
        "plugin": "unplug.sdk.forgetting.tasks.plugin:PluginTask",
    },
    group="unplug.tasks",
)


def task_of(checkpoint: Checkpoint, *, device: torch.device, base: str | None = None) -> StoredTask:
    """Opens the task of a checkpoint.

    Args:
        checkpoint: a checkpoint with the record of its training.
        device: the device to compute on.
        base: the diffusion base of a plugin; None takes the base in the record.

    Raises:
        CheckpointError: the checkpoint is of a type without a task, or lacks the record that is
            needed.
    """
    if checkpoint.model_type not in TASKS:
        why = f"models of type {checkpoint.model_type} cannot be forgotten with"
        raise CheckpointError(str(checkpoint.path), why, f"Use one of {', '.join(TASKS)}")
    return TASKS.get(checkpoint.model_type).open(checkpoint, device=device, base=base)
