"""The case torch-global-state: what else the process has switched changes no byte of a model, and
stays switched.
"""

from __future__ import annotations

import contextlib
import hashlib
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image, ImageFile

from unplug.sdk import DataError, load_checkpoint, load_dataset, make_split, train, unlearn

CASE = Path(__file__).resolve().parents[1] / "cases" / "torch-global-state" / "state.py"
SWITCHES: dict[str, Callable[[], Any]] = {
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
    "meta": lambda: torch.device("meta"),
    "threads": lambda: torch.set_num_threads(3),
    "matmul": lambda: torch.set_float32_matmul_precision("medium"),
}


@pytest.fixture(autouse=True)
def as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.set_float32_matmul_precision("highest")


def digest(folder: str | Path) -> str:
    return hashlib.sha256((Path(folder) / "model.safetensors").read_bytes()).hexdigest()


def test_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    modes = ("plain", "nograd", "inference", "float64")
    for mode in modes:
        monkeypatch.setattr(sys, "argv", ["state.py", mode])
        runpy.run_path(str(CASE))
    assert not torch.is_grad_enabled() and torch.get_default_dtype() == torch.float64
    assert len({digest(f"model-{mode}") for mode in modes}) == 1


def trained(out: str) -> tuple[str, str]:
    data = load_dataset("synth:n=60,subjects=20", size=32, show=False)
    split = make_split(data)
    train(data, split, out=out, size="nano", epochs=1)
    loaded = load_checkpoint(out)
    unlearn(loaded, data, [split.retain[0]], out=f"{out}-without", method="finetune", budget=1.0)
    return digest(out), digest(f"{out}-without")


@pytest.mark.long
def test_other_switches_and_other_steps() -> None:
    expected = trained("plain")
    for name, switch in SWITCHES.items():
        torch.manual_seed(len(name))
        before = torch.get_rng_state()
        with switch() or contextlib.nullcontext():
            assert trained(name) == expected, name
        assert torch.equal(torch.get_rng_state(), before), name


def test_a_truncated_picture_is_found_though_somebody_told_pillow_to_fill_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("pictures/a").mkdir(parents=True)
    noise = torch.arange(64 * 64 * 3, dtype=torch.uint8).reshape(64, 64, 3).numpy()
    Image.fromarray(noise).save("pictures/a/0.jpg")
    Image.fromarray(noise[::-1]).save("pictures/a/1.jpg")
    raw = Path("pictures/a/0.jpg").read_bytes()
    Path("pictures/a/0.jpg").write_bytes(raw[: len(raw) // 2])
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(DataError, match="truncated"):
        load_dataset("imagefolder:pictures", size=32, show=False)
