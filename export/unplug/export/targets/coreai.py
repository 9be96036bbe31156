"""Core AI, Apple's successor of Core ML: a model asset (``.aimodel``) by coreai-torch, for iOS 27
and macOS 27 on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unplug.core import Array

from .base import TargetSource

ENTRY = "main"
"""The one function of an asset."""


@dataclass(frozen=True)
class CoreAI:
    """The function `ENTRY` has the IOSpec's names; a folder of the program, its hash and a few
    facts.

    There is fp32 alone: the converter has no precisions of its own, and a network of halves
    throughout, which it does take, misses what fp16 must reach.
    """

    name: str = "coreai"
    suffix: str = ".aimodel"
    precisions: tuple[str, ...] = ("fp32",)
    modules: tuple[str, ...] = ("coreai_torch", "coreai")
    distributions: tuple[str, ...] = ("coreai-torch", "coreai-core", "torch")
    extra: str = "coreai"
    runtime: str = "coreai"

    def prepare(self, source: TargetSource) -> tuple[Any, TargetSource]:
        """The program in Core AI's operators."""
        import torch
        from coreai_torch import TorchConverter, get_decomp_table

        from .wrappers import Positional, examples

        exported = torch.export.export(Positional(source), examples(source)).run_decompositions(
            get_decomp_table()
        )
        # Its other mode, which is the default, writes source paths of this machine into the file.
        converter = TorchConverter(mode=TorchConverter.Mode.RELEASE)
        converter.add_exported_program(
            exported,
            input_names=[tensor.name for tensor in source.iospec.inputs],
            output_names=[tensor.name for tensor in source.iospec.outputs],
            entrypoint_name=ENTRY,
        )
        return converter.to_coreai(), source

    def write(
        self,
        prepared: tuple[Any, TargetSource],
        precision: str,
        path: Path,
        calibration: Mapping[str, Array],
    ) -> None:
        """Saves the asset, with the model's description."""
        from coreai.runtime import AIModelAssetMetadata

        program, source = prepared
        facts = AIModelAssetMetadata()
        facts.model_description = source.description
        program.save_asset(path, facts)


TARGET = CoreAI()
