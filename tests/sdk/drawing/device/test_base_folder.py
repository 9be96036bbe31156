"""A base's folder is read without diffusers: the same levels as diffusers', and nothing guessed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.core import CheckpointError
from unplug.sdk.drawing.device import GeneratorSource, check_source, export_generator
from unplug.sdk.drawing.device.base_folder import noise_levels, read_schedule

STABLE = {"beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012}


@pytest.mark.parametrize(
    "config",
    [
        {"beta_schedule": "linear", "beta_start": 0.0001, "beta_end": 0.02},
        STABLE,
        {"beta_schedule": "squaredcos_cap_v2"},
        {**STABLE, "rescale_betas_zero_snr": True},
        {"trained_betas": [0.1, 0.2, 0.3], "num_train_timesteps": 3},
    ],
    ids=lambda config: ",".join(map(str, config.values()))[:40],
)
def test_noise_levels_are_diffusers(config: dict[str, Any]) -> None:
    """Theirs are a product of a thousand factors in float32."""
    from diffusers import DDIMScheduler

    theirs = DDIMScheduler(**{"num_train_timesteps": 1000, **config}).alphas_cumprod
    wanted = theirs.double().numpy()
    assert np.allclose(noise_levels(Path("x"), config), wanted, rtol=3e-4, atol=1e-7)


def test_what_a_scheduler_does_not_say_is_its_own_default(tmp_path: Path) -> None:
    def read(**config: Any) -> Any:
        (tmp_path / "scheduler").mkdir(exist_ok=True)
        (tmp_path / "scheduler/scheduler_config.json").write_text(json.dumps(config))
        return read_schedule(tmp_path)

    plain = read(_class_name="PNDMScheduler", set_alpha_to_one=False, steps_offset=1)
    assert (plain.spacing, plain.steps_offset) == ("leading", 1)
    assert plain.final_alpha_cumprod == plain.alphas_cumprod[0]
    assert read(_class_name="EulerDiscreteScheduler").spacing == "linspace"
    assert read(_class_name="DDIMScheduler", clip_sample=False).final_alpha_cumprod == 1.0
    with pytest.raises(CheckpointError, match="data that is clipped"):
        read(_class_name="DDIMScheduler")


LEVELS, WORDS = "scheduler/scheduler_config.json", "tokenizer/tokenizer_config.json"


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        (LEVELS, {"_class_name": "FlowMatchEulerDiscreteScheduler"}, "is not known here"),
        (LEVELS, {"prediction_type": "sample"}, "that predicts sample is not known here"),
        (LEVELS, {"clip_sample": True}, "data that is clipped"),
        (LEVELS, {"beta_schedule": "sigmoid"}, "beta_schedule 'sigmoid'"),
        (LEVELS, {"beta_end": 2.0}, "betas are not between 0 and 1"),
        (LEVELS, {"num_train_timesteps": 10**8}, "100000000 noise levels"),
        (LEVELS, {"beta_start": "x"}, "its beta_start is x"),
        (WORDS, {"tokenizer_class": "T5Tokenizer"}, "a T5Tokenizer is not known here"),
        (WORDS, {"bos_token": "<gone>"}, "its tokens are broken"),
        ("tokenizer/tokenizer.json", {"model": {"type": "Unigram"}}, "not a byte-pair encoding"),
        ("vae/config.json", {"scaling_factor": None}, "scaling_factor"),
        ("vae/config.json", {"sample_size": 128}, "its decoder draws 128 pixels"),
    ],
)
def test_bases_that_are_not_known_here(
    base_folder: Path, tmp_path: Path, file: str, change: dict[str, Any], words: str
) -> None:
    folder = Path(shutil.copytree(base_folder, tmp_path / "base"))
    (folder / file).write_text(json.dumps(json.loads((folder / file).read_text()) | change))
    source = GeneratorSource(name="x", folder=folder)
    with pytest.raises(CheckpointError, match=words):
        check_source(source)
        export_generator(source, targets=["onnx"], precisions=["fp32"], out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
