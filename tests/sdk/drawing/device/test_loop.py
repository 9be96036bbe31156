"""The loop by itself, on networks that are formulas: what is fed when, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.core import Array, DataError, InputError
from unplug.sdk.drawing.conditions import Steering
from unplug.sdk.drawing.device import Pipeline, Words, generate, latent, sampling_table

from .toy import LATENT, RESIDUAL, SIDE, networks, toy, with_schedule

EDGES = np.zeros((SIDE, SIDE, 3), np.uint8)
EDGES[3] = 255
WORDS = ("negative", "steps", "guidance", "solver")


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    return toy(tmp_path_factory.mktemp("toy"))


def drawn(pipeline: Pipeline, prompt: str = "a child", **more: Any) -> Any:
    words = {name: more.pop(name) for name in WORDS if name in more}
    return generate(pipeline, networks(), Words(prompt=prompt, **words), **more)


def watched(pipeline: Pipeline, words: Words, **more: Any) -> tuple[Any, list[dict[str, Array]]]:
    """The picture, and what the UNet was fed at each step."""
    fed, parts = list[dict[str, Array]](), networks()

    def unet(given: Mapping[str, Array]) -> dict[str, Array]:
        fed.append(dict(given))
        answer: dict[str, Array] = parts["unet"](given)
        return answer

    return generate(pipeline, parts | {"unet": unet}, words, **more), fed


def test_the_same_words_and_seed_are_the_same_picture(pipeline: Pipeline) -> None:
    one, two = drawn(pipeline, seed=3), drawn(pipeline, seed=3)
    assert np.array_equal(one.image_HWC, two.image_HWC) and np.array_equal(one.latent, two.latent)
    assert one.image_HWC.shape == (SIDE, SIDE, 3) and one.image_HWC.dtype == np.uint8
    for other in (
        drawn(pipeline, seed=4),
        drawn(pipeline, "an adult", seed=3),
        drawn(pipeline, seed=3, steps=5),
        drawn(pipeline, seed=3, guidance=2.0),
        drawn(pipeline, seed=3, negative="sad"),
        drawn(pipeline, seed=3, solver="dpm++"),
        drawn(with_schedule(pipeline, "v_prediction, zero terminal SNR"), seed=3),
    ):
        assert not np.array_equal(other.latent, one.latent)


def test_one_step_by_hand(pipeline: Pipeline) -> None:
    """DDIM with one step: z = sqrt(a') D + sqrt(1 - a') p, with p the guided prediction."""
    words = Words(prompt="a child", steps=1, guidance=2.0)
    drawn_picture, (given,) = watched(pipeline, words, seed=9)
    z = latent(9, LATENT)
    assert np.array_equal(given["sample"], z) and given["timestep"].tolist() == [1.0]
    answer = networks()["unet"](given)
    negative = answer["noise_pred_negative"]
    p = negative + 2 * (answer["noise_pred"] - negative)
    a, after = pipeline.schedule.alphas_cumprod[1], pipeline.schedule.final_alpha_cumprod
    data = (z - np.sqrt(1 - a) * p) / np.sqrt(a)
    wanted = np.sqrt(after) * data + np.sqrt(1 - after) * p
    assert np.allclose(drawn_picture.latent, wanted, rtol=1e-5, atol=1e-6)


def test_every_step_is_told(pipeline: Pipeline) -> None:
    told: list[tuple[int, int]] = []
    drawn(pipeline, steps=6, watch=lambda done, total, _latent: told.append((done, total)))
    assert told == [(number, 6) for number in range(1, 7)]
    assert sampling_table(pipeline.schedule, 6, "dpm++").previous_S[1] < 0


def test_plugins_add_up_by_their_strength(pipeline: Pipeline) -> None:
    alone = 2 * EDGES.mean() / 255 - 1  # the input's range is -1 to 1
    half = Steering(plugin="canny", image=EDGES, strength=0.5)
    whole = Steering(plugin="canny", image=EDGES)
    for steerings, wanted in (((), 0.0), ((whole,), alone), ((half, half, half), 1.5 * alone)):
        _, (given,) = watched(pipeline, Words(prompt="x", steps=1), steerings=steerings)
        assert float(given[RESIDUAL][0, 0, 0, 0]) == pytest.approx(wanted, abs=1e-6)


def steered(image: Any, plugin: str = "canny") -> dict[str, Any]:
    return {"steerings": (Steering(plugin=plugin, image=image),)}


EMPTY = "empty: all its pixels are of one colour"


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"guidance": 0.5}, InputError, "guidance 0.5: out of range"),
        ({"guidance": float("nan")}, InputError, "guidance nan: out of range"),
        ({"guidance": 1.0, "negative": "sad"}, InputError, "without guidance it has no effect"),
        ({"steps": 0}, InputError, "0 steps: out of range"),
        ({"seed": -1}, InputError, "seed -1: out of range"),
        (steered(EDGES, "depth"), InputError, "plugin 'depth': the pipeline has none of this name"),
        (steered(Path("edges.png")), InputError, "condition of canny: it is a file"),
        (steered(np.zeros((SIDE, SIDE, 3), np.uint8)), DataError, EMPTY),
        (steered(np.full((SIDE, SIDE, 3), 255, np.uint8)), DataError, EMPTY),
        (steered(np.zeros((0, 0, 3), np.uint8)), DataError, EMPTY),
        (steered(EDGES[:8]), DataError, r"its shape is \(8, 16, 3\)"),
    ],
)
def test_what_is_not_drawn(
    pipeline: Pipeline, more: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        drawn(pipeline, **more)


def test_a_unet_without_guidance_is_asked_about_the_prompt_alone(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    unguided = toy(tmp_path, guided=False)
    assert not unguided.guided and pipeline.guided
    picture, fed = watched(unguided, Words(prompt="a child"), seed=3)
    assert list(map(set, fed)) == [{"sample", "timestep", "encoder_hidden_states", RESIDUAL}] * 4
    assert np.array_equal(picture.latent, drawn(pipeline, seed=3, guidance=1.0).latent)
    with pytest.raises(InputError, match="guidance 2: toy draws without"):
        drawn(unguided, guidance=2.0)
    with pytest.raises(InputError, match="without guidance it has no effect"):
        drawn(unguided, negative="sad")
