"""What an export target is: the protocol that TARGETS holds, and what a converter is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from unplug.core import Array, IOSpec

IOS = (17, 18)
"""Versions that a Core ML file can be made for; a file for an older one runs on newer ones too."""

OLDEST_IOS = IOS[0]


@dataclass(frozen=True, kw_only=True)
class TargetSource:
    """The model to convert, as its child process sees it.

    Args:
        model: a torch module in eval mode; its forward takes the inputs in IOSpec order and returns
            the outputs by name or, as a list, in IOSpec order.
        iospec: its named tensors.
        model_type: key of `unplug.plugins.checkpoint.MODELS`.
        description: the model's description in one line.
        facts: keys of the file's own metadata, see `file_facts`.
        ios: the oldest iOS that a Core ML file shall run on, see `IOS`.
    """

    model: Any
    iospec: IOSpec
    model_type: str
    description: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    ios: int = OLDEST_IOS


class Target(Protocol):
    """One export format. The parent reads the attributes; `prepare` and `write` run in a child
    process.

    Args:
        name: key in TARGETS.
        suffix: the suffix of the artifact's name, with the dot.
        precisions: names of PRECISIONS that it can write.
        modules: imports it needs; looked for before any work starts.
        distributions: packages whose versions the card records.
        extra: the unplug extra that installs them.
        runtime: name in RUNTIMES that runs its artifacts.
    """

    @property
    def name(self) -> str: ...
    @property
    def suffix(self) -> str: ...
    @property
    def precisions(self) -> tuple[str, ...]: ...
    @property
    def modules(self) -> tuple[str, ...]: ...
    @property
    def distributions(self) -> tuple[str, ...]: ...
    @property
    def extra(self) -> str: ...
    @property
    def runtime(self) -> str: ...

    def prepare(self, source: TargetSource) -> Any:
        """Does once what all precisions share, and returns it."""
        ...

    def write(
        self, prepared: Any, precision: str, path: Path, calibration: Mapping[str, Array]
    ) -> None:
        """Writes one artifact to `path`; `calibration` has samples of each input by name, or
        nothing.
        """
        ...
