"""Problems of erasure on bases of random weights, one for each kind of prediction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.drawing.diffusion.conftest import CPU, tiny_pipeline

from unplug.sdk.drawing.diffusion import Sampling, load_base
from unplug.sdk.drawing.diffusion.small import diffusers
from unplug.sdk.forgetting.erasing import Concept, EraseProblem

FEW = {"steps": "3", "batch_size": "2", "pictures": "2"}
"""Settings of erasures that take gradient steps."""
PROMPTS = tuple(f"a portrait of a{what} child" for what in ("", " sad", " big", " shy"))
Make = Callable[..., EraseProblem]


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A base that predicts velocities down to pure noise, and one that predicts noise as Stable
    Diffusion 1.5 does.
    """
    root = tmp_path_factory.mktemp("erasing")
    pipe = tiny_pipeline(root / "tokenizer")
    pipe.save_pretrained(root / "v_prediction")
    how = {"prediction_type": "epsilon", "rescale_betas_zero_snr": False}
    pipe.scheduler = diffusers().DDIMScheduler.from_config(pipe.scheduler.config, **how)
    pipe.save_pretrained(root / "epsilon")
    return {kind: root / kind for kind in ("v_prediction", "epsilon")}


@pytest.fixture
def make(folders: dict[str, Path]) -> Make:
    """A problem on a fresh base; keywords replace its fields."""

    def problem(kind: str = "v_prediction", **changed: Any) -> EraseProblem:
        base, original = (load_base(str(folders[kind]), device=CPU) for _ in range(2))
        made = EraseProblem(
            base=base,
            original=original,
            concepts=(Concept(words="adult", target="smile"),),
            prompts=PROMPTS,
            sampling=Sampling(steps=2, guidance=2.0, solver=None),
            seed=1,
            device=CPU,
        )
        return replace(made, **changed)

    return problem
