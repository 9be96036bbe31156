"""The package's door, its registries and its schemas."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import unplug.export
from unplug.core import schema_text
from unplug.export import PRECISIONS, RUNTIMES, TARGETS, Runtime
from unplug.export.schemas import SCHEMAS
from unplug.export.targets.base import Target

HEAVY = ("torch", "numpy", "pydantic", "onnx", "onnxruntime", "litert_torch", "ai_edge_litert", "coremltools")


def test_all_is_complete_and_sorted() -> None:
    assert unplug.export.__all__ == sorted(unplug.export.__all__)
    for name in unplug.export.__all__:
        assert getattr(unplug.export, name) is not None
    with pytest.raises(AttributeError, match="nothing_here"):
        _ = unplug.export.nothing_here


def test_import_is_light() -> None:
    script = f"import sys, unplug.export; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    script = f"""
import sys, unplug.export
for name in set(unplug.export.__all__) - {{"flop_counter", "channels_last"}}:  # these two work on torch's own objects
    getattr(unplug.export, name)
for registry in (unplug.export.TARGETS, unplug.export.RUNTIMES, unplug.export.PRECISIONS):
    for name in registry:
        registry.get(name)
print([name for name in {HEAVY} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['numpy']"


@pytest.mark.parametrize("name", list(TARGETS))
def test_target_contract(name: str) -> None:
    target: Target = TARGETS.get(name)
    assert target.name == name
    assert target.suffix.startswith(".")
    assert "fp32" in target.precisions and set(target.precisions) <= set(PRECISIONS)
    assert target.runtime in RUNTIMES
    assert target.modules and target.distributions and target.extra


@pytest.mark.parametrize("name", list(RUNTIMES))
def test_runtime_contract(name: str) -> None:
    runtime: Runtime = RUNTIMES.get(name)
    assert runtime.name == name
    assert runtime.modules and runtime.delegates and runtime.extra
    reason = runtime.unavailable()
    assert reason is None or reason


@pytest.mark.parametrize("name", list(PRECISIONS))
def test_precision_contract(name: str) -> None:
    assert PRECISIONS.get(name).name == name
    assert PRECISIONS.get(name).min_psnr_db > 0


def test_suffixes_differ() -> None:
    assert len({TARGETS.get(name).suffix for name in TARGETS}) == len(list(TARGETS))


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_committed_schemas_are_current(name: str) -> None:
    committed = Path(unplug.export.__file__).parent / "schemas" / name
    assert committed.read_text() == schema_text(SCHEMAS[name]), "run: python -m unplug.export.schemas"
    fields = json.loads(committed.read_text())["properties"]
    assert fields["schema"]["const"] == name.removesuffix(".json").replace("-1", "/1")
