"""PyTorch itself, eager or compiled: what a checkpoint costs before it is exported. The reference
next to every runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unplug.core import Array, InputError, IOSpec

from .base import Placement, PythonPackage, Runner


@dataclass(frozen=True)
class Torch(PythonPackage):
    """Runs checkpoint folders; ``compiled`` is `torch.compile` of the whole graph, whose first run
    compiles.
    """

    name: str = "torch"
    suffix: str = ""
    modules: tuple[str, ...] = ("torch",)
    package: str = "torch"
    extra: str = "dev"
    delegates: tuple[str, ...] = ("eager", "compiled", "eager-cuda", "compiled-cuda")

    def open(self, path: Path, iospec: IOSpec, *, threads: int, delegate: str) -> Runner:
        """Loads the checkpoint.

        Raises:
            InputError: a CUDA delegate, and there is no CUDA device.
            CheckpointError: the checkpoint is broken.
        """
        import torch

        from unplug.plugins import load_checkpoint

        how, _, place = delegate.partition("-")
        if place and not torch.cuda.is_available():
            raise InputError(
                f"delegate {delegate!r}", "PyTorch finds no CUDA device", "Use eager or compiled"
            )
        torch.set_num_threads(threads)
        model = load_checkpoint(path).model.to(place or "cpu")
        network = torch.compile(model, fullgraph=True) if how == "compiled" else model
        adapter = torch.cuda.get_device_name() if place else None
        return _TorchRunner(
            network,
            iospec,
            place or "cpu",
            Placement(delegate_asked=delegate, delegate_got=delegate, adapter=adapter),
        )


class _TorchRunner:
    def __init__(self, network: Any, iospec: IOSpec, device: str, placement: Placement) -> None:
        self.placement = placement
        self._network, self._iospec, self._device = network, iospec, device
        self._inputs: list[Any] = []
        self._outputs: dict[str, Any] = {}

    def feed(self, inputs: Mapping[str, Array]) -> None:
        import torch

        self._inputs = [
            torch.from_numpy(np.array(inputs[item.name])).to(self._device)
            for item in self._iospec.inputs
        ]
        self._wait()

    def invoke(self) -> None:
        import torch

        with torch.inference_mode():
            self._outputs = self._iospec.name_outputs(self._network(*self._inputs))
        self._wait()

    def read(self) -> dict[str, Array]:
        return {name: value.cpu().numpy() for name, value in self._outputs.items()}

    def _wait(self) -> None:
        """CUDA returns before it has computed."""
        import torch

        if self._device != "cpu":
            torch.cuda.synchronize()


RUNTIME = Torch()
"""The runtime of checkpoint folders."""
