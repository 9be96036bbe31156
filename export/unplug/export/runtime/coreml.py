"""Core ML through coremltools: on macOS only, because Apple's framework does the work."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unplug.core import Array, IOSpec

from .base import Placement, PythonPackage, Runner

COMPUTE_UNITS = {"cpu": "CPU_ONLY", "gpu": "CPU_AND_GPU", "ane": "CPU_AND_NE", "all": "ALL"}


@dataclass(frozen=True)
class CoreMLRuntime(PythonPackage):
    """Runs ML Programs with `coremltools.models.MLModel.predict`, on macOS alone."""

    name: str = "coreml"
    suffix: str = ".mlpackage"
    modules: tuple[str, ...] = ("coremltools",)
    package: str = "coremltools"
    extra: str = "coreml"
    delegates: tuple[str, ...] = tuple(COMPUTE_UNITS)

    def unavailable(self) -> str | None:
        """Core ML is a part of macOS and iOS."""
        return (
            None
            if sys.platform == "darwin"
            else f"Core ML runs on macOS only, and this is {sys.platform}"
        )

    def open(self, path: Path, iospec: IOSpec, *, threads: int, delegate: str) -> Runner:
        """Compiles the package for the chosen compute units; Core ML itself chooses the threads."""
        import coremltools as ct

        model = ct.models.MLModel(str(path), compute_units=ct.ComputeUnit[COMPUTE_UNITS[delegate]])
        # Core ML does not say where an operator ran, so what was got stays unknown.
        return _CoreMLRunner(model, iospec, Placement(delegate_asked=delegate))


class _CoreMLRunner:
    def __init__(self, model: Any, iospec: IOSpec, placement: Placement) -> None:
        self.placement = placement
        self._model, self._iospec = model, iospec
        self._inputs: dict[str, Array] = {}
        self._outputs: dict[str, Any] = {}

    def feed(self, inputs: Mapping[str, Array]) -> None:
        self._inputs = dict(inputs)

    def invoke(self) -> None:
        self._outputs = self._model.predict(self._inputs)

    def read(self) -> dict[str, Array]:
        return {
            spec.name: np.asarray(self._outputs[spec.name], dtype=spec.dtype).reshape(spec.shape)
            for spec in self._iospec.outputs
        }


RUNTIME = CoreMLRuntime()
