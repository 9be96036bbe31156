"""Core ML through coremltools: on macOS only, because Apple's framework does the work."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unplug.core import Array, IOSpec, installed_versions

from .base import FunctionRunner, Placement, Runner

COMPUTE_UNITS = {"cpu": "CPU_ONLY", "gpu": "CPU_AND_GPU", "ane": "CPU_AND_NE", "all": "ALL"}


@dataclass(frozen=True)
class CoreMLRuntime:
    """Runs ML Programs with `coremltools.models.MLModel.predict`, on macOS alone."""

    name: str = "coreml"
    suffix: str = ".mlpackage"
    modules: tuple[str, ...] = ("coremltools",)
    package: str = "coremltools"
    extra: str = "coreml"
    delegates: tuple[str, ...] = tuple(COMPUTE_UNITS)

    def version(self) -> str | None:
        """The version of coremltools."""
        return installed_versions([self.package]).get(self.package)

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

        def compute(given: dict[str, Array]) -> dict[str, Array]:
            made = model.predict(given)
            return {
                spec.name: np.asarray(made[spec.name], dtype=spec.dtype).reshape(spec.shape)
                for spec in iospec.outputs
            }

        # Core ML does not say where an operator ran, so what was got stays unknown.
        return FunctionRunner(compute, Placement(delegate_asked=delegate))


RUNTIME = CoreMLRuntime()
