"""A plugin's folder, opened by diffusers alone: with its code, or not at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from diffusers import AutoModel, T2IAdapter
from diffusers.utils import dynamic_modules_utils

from unplug.plugins import CODE_FILE, ConditioningPlugin, load_checkpoint

from .unets import tiny_unet, trained


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(dynamic_modules_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    trained(tiny_unet(), condition="canny").save_pretrained(tmp_path / "plugin")
    return tmp_path / "plugin"


def test_auto_model_opens_it_if_its_code_may_run(folder: Path) -> None:
    opened = AutoModel.from_pretrained(str(folder), trust_remote_code=True)
    ours = load_checkpoint(folder).model
    assert type(opened) is ConditioningPlugin
    with torch.no_grad():
        image = torch.rand(1, 3, 64, 64)
        theirs, mine = (model(image) for model in (opened, ours))
    assert all(torch.equal(one, other) for one, other in zip(theirs, mine, strict=True))
    assert theirs[0].abs().max() > 0


def test_it_says_why_it_does_not_open(folder: Path) -> None:
    with pytest.raises(ValueError, match="trust_remote_code"):
        AutoModel.from_pretrained(str(folder), trust_remote_code=False)
    with pytest.raises(ValueError, match=r"open it with unplug\.plugins\.ConditioningPlugin"):
        T2IAdapter.from_pretrained(str(folder))


def test_without_unplug_the_code_names_its_distribution(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", folder / CODE_FILE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and "install the distribution unplug-sdk" in done.stderr


def test_unplug_itself_runs_no_code_of_a_folder(folder: Path) -> None:
    (folder / CODE_FILE).write_text("raise SystemExit('it ran')\n", encoding="utf-8")
    assert load_checkpoint(folder).model_type == "plugin"
    assert ConditioningPlugin.from_pretrained(folder).config.condition == "canny"
