"""A release loads each model once, builds its split once and loads its tensors once, whatever
stages it has.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from unplug.plugins import load_checkpoint
from unplug.sdk.forgetting.tasks import AgeTask
from unplug.sdk.forgetting.unlearning import request_split
from unplug.sdk.releasing import ReleaseConfig

from ..conftest import QUICK, World
from .conftest import releasing

WATCHED = {
    inspect.unwrap(load_checkpoint).__code__: lambda known: f"load {Path(known['path']).name}",
    inspect.unwrap(request_split).__code__: lambda _: "split",
    inspect.unwrap(AgeTask.sets).__code__: lambda _: "tensors",
}


def counted(world: World, folder: Path, config: ReleaseConfig) -> Counter[str]:
    """How often each of what is watched is called in this process."""
    calls = Counter[str]()

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code in WATCHED:
            calls[WATCHED[frame.f_code](frame.f_locals)] += 1

    sys.setprofile(note)
    try:
        releasing(world, folder, config, oracle=None)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.nightly
def test_what_is_made_and_what_is_found_are_loaded_once(world: World, tmp_path: Path) -> None:
    config = replace(QUICK, targets=("onnx",), faces=True, evaluate="fate-aev")
    models = {f"load {name}": 1 for name in ("retrained", "reference-0", "unlearned")}
    assert counted(world, tmp_path, config) == {"split": 1, "tensors": 1, **models}
    again = counted(world, tmp_path, replace(config, bench_iterations=4))
    assert again == {"split": 1, **models}, "nothing is computed on the sets a second time"
