"""LiteRT's GPU delegate, on a real device or on Chromium's software one (see .ci/run)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from unplug.core import InputError
from unplug.export import Artifact, Session, compare, random_inputs, verdict

MIN_PSNR_DB = 60.0
needs_device = pytest.mark.skipif("VK_DRIVER_FILES" not in os.environ, reason="VK_DRIVER_FILES names no Vulkan driver")


@pytest.fixture(scope="module")
def artifacts(by_name: dict[str, Artifact]) -> dict[str, Artifact]:
    return {item.card.precision: item for item in by_name.values() if item.card.target == "litert"}


@needs_device
@pytest.mark.parametrize("precision", ["fp16", "int8-weight"])
def test_the_gpu_takes_all_of_it_and_agrees_with_the_cpu(artifacts: dict[str, Artifact], precision: str) -> None:
    item = artifacts[precision]
    inputs = random_inputs(item.card.iospec, 4, seed=2)
    on_gpu, on_cpu = (Session(item, delegate=name).run(inputs) for name in ("gpu", "xnnpack"))
    for name, wanted in on_cpu.items():
        assert verdict(compare(wanted, on_gpu[name]), MIN_PSNR_DB) is None, name
        assert not np.array_equal(wanted, on_gpu[name])  # it was another arithmetic


@needs_device
def test_static_int8_runs_there_within_its_own_tolerance(artifacts: dict[str, Artifact]) -> None:
    """The delegate computes in floats between the int8 tensors that the file names."""
    item = artifacts["int8-static"]
    inputs = random_inputs(item.card.iospec, 4, seed=2)
    on_gpu, on_cpu = (Session(item, delegate=name).run(inputs) for name in ("gpu", "xnnpack"))
    assert all(verdict(compare(wanted, on_gpu[name]), 30.0) is None for name, wanted in on_cpu.items())


def test_without_a_device_it_says_so(artifacts: dict[str, Artifact], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VK_DRIVER_FILES", str(tmp_path / "none.json"))
    inputs = random_inputs(artifacts["fp32"].card.iospec, 1, seed=2)
    with pytest.raises(InputError, match="delegate 'gpu': there is no GPU here"):
        Session(artifacts["fp32"], delegate="gpu").run(inputs)
