"""A base, and problems of erasure on bases of random weights, one for each kind of prediction."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from unplug.sdk.drawing.diffusion import Sampling
from unplug.sdk.drawing.diffusion.small import diffusers
from unplug.sdk.forgetting.erasing import Concept, EraseProblem

from ...drawing.diffusion.conftest import CPU, tiny_pipeline
from ...drawing.diffusion.conftest import base_folder as base_folder

FEW = {"steps": "3", "batch_size": "2", "pictures": "2"}
"""Settings of erasures that take gradient steps."""
PROMPTS = tuple(f"a portrait of a{what} child" for what in ("", " sad", " big", " shy"))
Make = Callable[..., EraseProblem]


@pytest.fixture(scope="session")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A base that predicts velocities down to pure noise, and one that predicts noise as Stable
    Diffusion 1.5 does.
    """
    pipe = tiny_pipeline(tmp_path_factory.mktemp("erasing"))
    for part in (pipe.unet, pipe.vae, pipe.text_encoder):
        part.requires_grad_(False).eval()
    how = {"prediction_type": "epsilon", "rescale_betas_zero_snr": False}
    scheduler = diffusers().DDIMScheduler.from_config(pipe.scheduler.config, **how)
    return {"v_prediction": pipe, "epsilon": with_parts(pipe, scheduler=scheduler)}


def with_parts(pipe: Any, **parts: Any) -> Any:
    return type(pipe)(**{**pipe.components, **parts}, requires_safety_checker=False)


@pytest.fixture
def make(bases: dict[str, Any]) -> Make:
    """A problem on a fresh base; keywords replace its fields."""

    def problem(kind: str = "v_prediction", **changed: Any) -> EraseProblem:
        base, original = (
            with_parts(bases[kind], unet=copy.deepcopy(bases[kind].unet)) for _ in range(2)
        )
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
