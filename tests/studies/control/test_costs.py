"""Operations counted on a pipeline whose cost is known, and timing that takes turns."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.studies.control import costs
from benchmarks.studies.control.costs import (
    load_timing,
    measure_costs,
    picture_macs,
    speeds,
    time_pictures,
)
from PIL import Image

from unplug.sdk.drawing.diffusion import Sampling

pytestmark = pytest.mark.study


class Pipe:
    """A matrix product of 1,000 multiply-accumulates before sampling, 300 a step, and 50 of
    attention.
    """

    def __init__(self, log: list[str] | None = None, name: str = "") -> None:
        self.log, self.name = [] if log is None else log, name
        self.vae = SimpleNamespace(
            config=SimpleNamespace(scaling_factor=2.0, block_out_channels=(1,) * 4),
            decode=lambda latent: SimpleNamespace(sample=latent),
        )
        self.image_processor = SimpleNamespace(
            postprocess=lambda decoded, output_type: [Image.new("RGB", (8, 8)) for _ in decoded]
        )

    def set_progress_bar_config(self, **_: Any) -> None:
        pass

    def __call__(self, prompts: list[str], *, num_inference_steps: int, **_: Any) -> Any:
        self.log.append(self.name)
        torch.zeros(10, 10) @ torch.zeros(10, 10)
        for _step in range(num_inference_steps):
            torch.zeros(3, 10) @ torch.zeros(10, 10)
        return SimpleNamespace(images=torch.zeros(len(prompts), 4, 1, 1))


def setup(steps: int = 25, rounds: int = 4) -> Any:
    return SimpleNamespace(
        request=SimpleNamespace(rounds=rounds),
        sampling=Sampling(steps=steps, guidance=3.0, solver=None),
        prompts=["a"],
        picture_seeds=[0],
        dataset=SimpleNamespace(size=8),
        device=torch.device("cpu"),
        show=False,
    )


def test_macs_are_those_of_all_steps() -> None:
    for steps in (1, 2, 25, 50):
        assert picture_macs(setup(steps), Pipe(), {}) == 1000 + 300 * steps


def test_fused_attention_on_the_cpu_is_counted() -> None:
    class Attention(Pipe):
        def __call__(self, prompts: list[str], **more: Any) -> Any:
            torch.nn.functional.scaled_dot_product_attention(
                *(torch.zeros(1, 2, 5, 8) for _ in range(3))
            )
            return super().__call__(prompts, **more)

    assert picture_macs(setup(1), Attention(), {}) == 1300 + 2 * (2 * 5 * 5 * 8)


def test_every_round_runs_all_from_another_one_on_after_a_warm_up() -> None:
    log: list[str] = []
    pipes = {name: (Pipe(log, name), {}) for name in "abc"}
    seconds = time_pictures(setup(rounds=3), pipes)
    assert "".join(log) == "abc" + "bca" + "cab" + "abc"
    assert {name: len(values) for name, values in seconds.items()} == {"a": 3, "b": 3, "c": 3}


def test_medians_quartiles_and_ratios_within_a_round() -> None:
    rows = speeds({"base": [1.0, 10.0, 1.0, 1.0, 1.0], "slow": [1.5, 15.0, 1.5, 1.5, 3.0]})
    assert (rows["base"].median, rows["base"].ratio) == (1.0, 1.0)
    assert (rows["slow"].low, rows["slow"].median, rows["slow"].high) == (1.5, 1.5, 3.0)
    assert (rows["slow"].ratio_low, rows["slow"].ratio, rows["slow"].ratio_high) == (
        1.5,
        1.5,
        1.5,
    )
    assert rows["slow"].seconds == (1.5, 15.0, 1.5, 1.5, 3.0)


def test_seconds_are_found_again_only_where_they_belong(tmp_path: Path) -> None:
    path = tmp_path / "timing.json"
    load = {"load_before": 1.0, "load_after": 2.0}
    assert load_timing(path, "k", ["a"], 2) is None
    path.write_text(json.dumps({"key": "k", "seconds": {"a": [1.0, 2.0]}, **load}))
    assert load_timing(path, "k", ["a"], 2) == {"seconds": {"a": [1.0, 2.0]}, **load}
    assert load_timing(path, "other", ["a"], 2) is None
    assert load_timing(path, "k", ["a", "b"], 2) is None
    assert load_timing(path, "k", ["a"], 3) is None
    for bad in (
        "[]",
        "{",
        json.dumps({"key": "k", "seconds": {"a": [1.0, 2.0]}}),
        json.dumps({"key": "k", "seconds": {"a": [1.0, -2.0]}, **load}),
        json.dumps({"key": "k", "seconds": {"a": 3}, **load}),
    ):
        path.write_text(bad)
        assert load_timing(path, "k", ["a"], 2) is None


@pytest.mark.parametrize(
    ("name", "change"),
    [("describe_device", lambda _: "another"), ("installed", lambda _: {"torch": "0"})],
)
def test_seconds_of_another_machine_or_torch_are_not_taken(
    name: str, change: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    asked = setup(rounds=2)
    asked.request.out, asked.base, asked.base_sha256 = tmp_path, Pipe(log, "base"), "b"
    asked.condition_NHWC = np.zeros((1, 8, 8, 3), np.uint8)
    for count in (
        2 + 3,
        2 + 3 + 2,
        2 + 3 + 2 + 2 + 3,
    ):  # two runs for the operations; three for the times, once a machine
        rows, timing = measure_costs(asked, {})
        assert len(log) == count
        assert set(rows) == {"base"} and set(timing) == {"load_before", "load_after", "attention"}
        if len(log) == 7:
            monkeypatch.setattr(costs, name, change)
