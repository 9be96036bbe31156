"""Core AI through its Python package: on Linux and older Macs its own interpreter, from macOS 27 on
Apple's framework.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unplug.core import Array, ArtifactError, IOSpec

from ..targets.coreai import ENTRY
from .base import Placement, PythonPackage, Runner, check_tensors


@dataclass(frozen=True)
class CoreAIRuntime(PythonPackage):
    """Compiles the asset and runs its one function. The interpreter is there for numbers; its times
    say nothing of a phone.
    """

    name: str = "coreai"
    suffix: str = ".aimodel"
    modules: tuple[str, ...] = ("coreai.runtime",)
    package: str = "coreai-core"
    extra: str = "coreai"
    delegates: tuple[str, ...] = ("default",)

    def open(self, path: Path, iospec: IOSpec, *, threads: int, delegate: str) -> Runner:
        """Compiles the asset; the package chooses threads and devices by itself.

        Raises:
            ArtifactError: the asset is broken, or is not what its card says.
        """
        loop = asyncio.new_event_loop()
        try:
            model, function = loop.run_until_complete(_loaded(path))
            asked = function.desc
            inputs = {name: _form(asked.input_descriptor(name)) for name in asked.input_names}
            outputs = {name: _form(asked.output_descriptor(name)) for name in asked.output_names}
        except (RuntimeError, ValueError, KeyError, OSError) as error:
            raise ArtifactError(
                str(path), f"Core AI cannot load it ({error})", "Export it again"
            ) from error
        check_tensors(path, iospec, inputs, outputs)
        return _CoreAIRunner(loop, model, function, iospec, Placement(delegate_asked=delegate))


async def _loaded(path: Path) -> tuple[Any, Any]:
    from coreai.authoring.asset import AIModelAsset

    # What the interpreter compiles to lies in a temporary folder that is gone when this block ends;
    # it has read it by then.
    async with AIModelAsset.load(path).executable() as model:
        return model, model.load_function(ENTRY)


def _form(described: Any) -> tuple[tuple[int, ...], str]:
    return tuple(-1 if size is None else int(size) for size in described.shape), str(
        described.dtype
    )


class _CoreAIRunner:
    def __init__(
        self, loop: Any, model: Any, function: Any, iospec: IOSpec, placement: Placement
    ) -> None:
        self.placement = placement
        self._loop, self._model, self._function, self._iospec = loop, model, function, iospec
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, Any] = {}

    def feed(self, inputs: Mapping[str, Array]) -> None:
        from coreai.runtime import NDArray

        self._inputs = {
            tensor.name: NDArray(np.array(inputs[tensor.name])) for tensor in self._iospec.inputs
        }

    def invoke(self) -> None:
        self._outputs = self._loop.run_until_complete(self._function(inputs=self._inputs))

    def read(self) -> dict[str, Array]:
        return {
            tensor.name: np.array(self._outputs[tensor.name].numpy())
            for tensor in self._iospec.outputs
        }


RUNTIME = CoreAIRuntime()
