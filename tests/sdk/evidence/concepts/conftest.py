"""The base of random weights that diffusion's tests have, one from which a word was erased, and a
judge of nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from unplug.core import Estimate
from unplug.sdk.evidence.concepts import Judge, JudgeFacts
from unplug.sdk.evidence.concepts.presence import PresenceNet
from unplug.sdk.forgetting.erasing import Concept, erase

from ...drawing.diffusion.conftest import CPU
from ...drawing.diffusion.conftest import base as base
from ...drawing.diffusion.conftest import base_folder as base_folder
from ...drawing.diffusion.conftest import plugin_folder as plugin_folder

WORD = "hat"


@pytest.fixture(scope="session")
def erased_folder(base_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("erased") / "without-hat"
    erase(str(base_folder), [Concept(words=WORD)], out, seed=1, device=CPU, show=False)
    return out


@pytest.fixture(scope="session")
def judge() -> Judge:
    torch.manual_seed(0)
    sure = Estimate(value=1.0, low=0.9, high=1.0)
    facts = JudgeFacts(
        concept=WORD,
        recall=sure,
        false_alarms=Estimate(value=0.0, low=0.0, high=0.1),
        trained=(20, 20),
        held_out=(20, 20),
        source="nothing",
        size=64,
        seed=0,
        recipe={},
    )
    return Judge(net=PresenceNet().eval(), facts=facts)
