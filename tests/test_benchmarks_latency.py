"""`benchmarks.plugin_latency`: turns that rotate, and no rank for a file that computes something
else.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks import plugin_latency as module
from benchmarks.plugin_latency import BUDGETS, PLUGIN, inputs_of, markdown, measure, summary

from unplug.core import IOSpec
from unplug.plugins import ConditioningPlugin

NAMES = (*BUDGETS, PLUGIN)
UNET = {
    "block_out_channels": [8, 16],
    "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
    "sample_size": 8,
}


@pytest.fixture(scope="module")
def iospec() -> IOSpec:
    torch.manual_seed(0)
    return ConditioningPlugin.for_unet(UNET, condition="canny", size="nano").iospec


class Runner:
    """Answers with the input's mean in every output, wrong by a share of it."""

    placement = SimpleNamespace(nodes_delegated=1, nodes_total=1)

    def __init__(self, name: str, iospec: IOSpec, wrong: float, log: list[str]) -> None:
        self.name, self.iospec, self.wrong, self.log = name, iospec, wrong, log

    def feed(self, inputs: dict[str, Any]) -> None:
        self.value = float(next(iter(inputs.values())).mean()) * (1.0 + self.wrong)

    def invoke(self) -> None:
        self.log.append(self.name)

    def read(self) -> dict[str, Any]:
        return {
            item.name: np.full(item.shape, self.value, np.float32) for item in self.iospec.outputs
        }


def run(
    iospec: IOSpec, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, float]
) -> tuple[dict[str, Any], list[str]]:
    log: list[str] = []

    def open_file(path: Any, spec: IOSpec, **_: Any) -> Runner:
        return Runner(path.stem, spec, wrong.get(path.stem, 0.0), log)

    monkeypatch.setattr(module, "RUNTIMES", {"litert": SimpleNamespace(open=open_file)})
    monkeypatch.setattr(module, "TURN_SECONDS", 0.0)
    mean = float(inputs_of(iospec)["condition"].mean())
    wanted = {
        f"{name}/{item.name}": np.full(item.shape, mean, np.float32)
        for name in NAMES
        for item in iospec.outputs
    }
    values = {
        "paths": {name: f"{name}.tflite" for name in NAMES},
        "iospecs": dict.fromkeys(NAMES, iospec.to_dict()),
        "threads": 1,
        "rounds": 4,
    }
    job: Any = SimpleNamespace(values=values, arrays=wanted, progress=lambda *_: None)
    return measure(job).values, log


def test_every_round_starts_from_another_model(
    iospec: IOSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, log = run(iospec, monkeypatch, {})
    full, light, plugin = NAMES
    turns = log[len(NAMES) :: 2]  # a run that is not counted and one that is
    assert turns == [
        full,
        light,
        plugin,
        light,
        plugin,
        full,
        plugin,
        full,
        light,
        full,
        light,
        plugin,
    ]


def test_files_that_compute_the_same_are_ranked(
    iospec: IOSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured, _ = run(iospec, monkeypatch, {NAMES[0]: 1e-5})
    found = summary(measured)
    assert all("ratio" in item for item in found.values())
    assert measured["parity"][PLUGIN] == {"psnr_db": None, "max_abs_error": 0.0}
    assert 95 < measured["parity"][NAMES[0]]["psnr_db"] < 105


def test_a_file_that_computes_something_else_is_not_ranked(
    iospec: IOSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured, _ = run(iospec, monkeypatch, {NAMES[0]: 0.01})
    found = summary(measured)
    assert "ratio" not in found[NAMES[0]] and "ratio" in found[NAMES[1]]
    facts = {name: {"parameters": 1_000_000, "macs": 10**9} for name in NAMES}
    first = markdown({"facts": facts, "results": found, **measured}).splitlines()[2]
    assert first.endswith("| not ranked | ≥ 20 | 40 |")
