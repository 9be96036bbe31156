"""The processes of a training: alone, on the device asked for, without accelerate a typed error."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from unplug.core import MissingExtraError
from unplug.sdk.diffusion import processes

from .conftest import CPU


def test_alone() -> None:
    team = processes(CPU)
    assert (team.num_processes, team.is_main_process, team.device) == (1, True, CPU)
    with team.main_process_first():
        pass
    team.wait_for_everyone()


def test_the_device_of_an_earlier_training_does_not_stay() -> None:
    processes(CPU).device = torch.device("cuda")  # as a training on a GPU leaves accelerate
    assert processes(CPU).device == CPU


def test_without_accelerate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(MissingExtraError, match=r"accelerate is not installed.*unplug\[diffusion\]"):
        processes(CPU)


def test_the_package_opens_without_torch() -> None:
    code = "import sys, unplug.sdk.diffusion as d; print(sorted(d.__all__)[0], {'torch', 'diffusers'} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split(" ", 1)[1].strip() == "set()"
