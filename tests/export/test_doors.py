"""The package's registries."""

from __future__ import annotations

import subprocess
import sys

import pytest

from unplug.export import PRECISIONS, RUNTIMES, TARGETS, Runtime
from unplug.export.targets.base import Target

HEAVY = "torch numpy pydantic onnx onnxruntime litert_torch ai_edge_litert coremltools executorch coreai"
SCRIPT = f"""
import sys, unplug.export
for name in set(unplug.export.__all__) - {{"flop_counter"}}:  # it works on torch's own objects
    getattr(unplug.export, name)
for registry in (unplug.export.TARGETS, unplug.export.RUNTIMES, unplug.export.PRECISIONS):
    for name in registry:
        registry.get(name)
print([name for name in "{HEAVY}".split() if name in sys.modules])
"""


def test_names_and_registries_import_nothing_heavy() -> None:
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "['numpy']"


@pytest.mark.parametrize("name", list(TARGETS))
def test_target_contract(name: str) -> None:
    target: Target = TARGETS.get(name)
    suffixes = [TARGETS.get(other).suffix for other in TARGETS]
    assert target.name == name and target.runtime in RUNTIMES
    assert target.suffix.startswith(".") and suffixes.count(target.suffix) == 1
    assert {"fp32"} <= set(target.precisions) <= set(PRECISIONS)
    assert target.modules and target.distributions and target.extra


@pytest.mark.parametrize("name", list(RUNTIMES))
def test_runtime_contract(name: str) -> None:
    runtime: Runtime = RUNTIMES.get(name)
    assert runtime.name == name and runtime.modules and runtime.delegates and runtime.extra
    reason = runtime.unavailable()
    assert reason is None or reason


@pytest.mark.parametrize("name", list(PRECISIONS))
def test_precision_contract(name: str) -> None:
    assert PRECISIONS.get(name).name == name and PRECISIONS.get(name).min_psnr_db > 0
