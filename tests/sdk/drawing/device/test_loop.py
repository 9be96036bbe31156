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


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    return toy(tmp_path_factory.mktemp("toy"))


def drawn(pipeline: Pipeline, prompt: str = "a child", **more: Any) -> Any:
    words = {
        name: more.pop(name) for name in ("negative", "steps", "guidance", "solver") if name in more
    }
    return generate(pipeline, networks(), Words(prompt=prompt, **words), **more)  # type: ignore[arg-type]


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
        drawn(with_schedule(pipeline, "v_prediction, zero terminal SNR"), seed=3),
    ):
        assert not np.array_equal(other.latent, one.latent)


def test_one_step_by_hand(pipeline: Pipeline) -> None:
    """DDIM with one step: z = sqrt(a') D + sqrt(1 - a') p, with p the guided prediction."""
    seen: list[Mapping[str, Array]] = []
    parts: dict[str, Any] = networks()
    plain = parts["unet"]

    def unet(given: Mapping[str, Array]) -> Any:
        seen.append(dict(given))
        return plain(given)

    found = generate(
        pipeline, parts | {"unet": unet}, Words(prompt="a child", steps=1, guidance=2.0), seed=9
    )
    (given,) = seen
    z = latent(9, LATENT)
    assert np.array_equal(given["sample"], z) and given["timestep"].tolist() == [1.0]
    said = plain(given)
    p = said["noise_pred_negative"] + 2 * (said["noise_pred"] - said["noise_pred_negative"])
    a, after = pipeline.schedule.alphas_cumprod[1], pipeline.schedule.final_alpha_cumprod
    data = (z - np.sqrt(1 - a) * p) / np.sqrt(a)
    assert np.allclose(
        found.latent, np.sqrt(after) * data + np.sqrt(1 - after) * p, rtol=1e-5, atol=1e-6
    )


def test_every_step_is_told_and_solvers_differ(pipeline: Pipeline) -> None:
    told: list[tuple[int, int]] = []
    drawn(pipeline, steps=6, watch=lambda done, total, _latent: told.append((done, total)))
    assert told == [(number, 6) for number in range(1, 7)]
    assert not np.array_equal(drawn(pipeline, solver="dpm++").latent, drawn(pipeline).latent)
    assert sampling_table(pipeline.schedule, 6, "dpm++").previous_S[1] < 0


def test_plugins_add_up_by_their_strength(pipeline: Pipeline) -> None:
    fed: list[Array] = []
    parts: dict[str, Any] = networks()
    plain = parts["unet"]

    def unet(given: Mapping[str, Array]) -> Any:
        fed.append(given[RESIDUAL])
        return plain(given)

    def residual(*steerings: Steering) -> float:
        fed.clear()
        generate(pipeline, parts | {"unet": unet}, Words(prompt="x", steps=1), steerings=steerings)
        return float(fed[0][0, 0, 0, 0])

    alone = 2 * EDGES.mean() / 255 - 1  # the input's range is -1 to 1
    assert residual() == 0.0
    assert residual(Steering(plugin="canny", image=EDGES)) == pytest.approx(alone, abs=1e-6)
    half = Steering(plugin="canny", image=EDGES, strength=0.5)
    assert residual(half, half, half) == pytest.approx(1.5 * alone, abs=1e-6)


def test_long_prompts_are_cut_and_said_so(pipeline: Pipeline) -> None:
    found = drawn(pipeline, "a" * 10_000)
    assert found.prompt.cut and found.prompt.tokens > 1000 and not found.negative.cut
    for prompt in ("", "zyzzyva qwrtz", "\U0001f642\U0001f469\u200d\U0001f467"):
        assert not drawn(pipeline, prompt).prompt.cut


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"guidance": 0.5}, "guidance 0.5: out of range"),
        ({"guidance": float("nan")}, "guidance nan: out of range"),
        ({"guidance": 1.0, "negative": "sad"}, "without guidance it has no effect"),
        ({"steps": 0}, "0 steps: out of range"),
        ({"seed": -1}, "seed -1: out of range"),
        (
            {"steerings": (Steering(plugin="depth", image=EDGES),)},
            "plugin 'depth': the pipeline has none of this name",
        ),
        (
            {"steerings": (Steering(plugin="canny", image=Path("edges.png")),)},
            "condition of canny: it is a file",
        ),
    ],
)
def test_wrong_numbers_and_names(pipeline: Pipeline, more: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        drawn(pipeline, **more)


@pytest.mark.parametrize(
    ("condition_HWC", "words"),
    [
        (np.zeros((SIDE, SIDE, 3), np.uint8), "empty: all its pixels are of one colour"),
        (np.full((SIDE, SIDE, 3), 255, np.uint8), "empty"),
        (np.zeros((0, 0, 3), np.uint8), "empty"),
        (EDGES[:8], "its shape is \\(8, 16, 3\\)"),
    ],
)
def test_conditions_that_steer_nothing(pipeline: Pipeline, condition_HWC: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        drawn(pipeline, steerings=(Steering(plugin="canny", image=condition_HWC),))


def test_the_loop_needs_no_torch(tmp_path: Path) -> None:
    """Neither to import all of it nor to draw: in a process that would fail to find it."""
    import subprocess
    import sys

    code = f"""
import sys
for name in ("torch", "diffusers", "transformers", "tokenizers", "onnx", "cv2"):
    sys.modules[name] = None
import unplug.sdk.drawing.device as device
for name in device.__all__:
    getattr(device, name)
import importlib.util, types
package = types.ModuleType("toys"); package.__path__ = [{str(Path(__file__).parent)!r}]; sys.modules["toys"] = package
from toys.toy import networks, toy
from pathlib import Path
pipeline = toy(Path({str(tmp_path)!r}))
made = device.generate(device.load_pipeline(Path({str(tmp_path)!r})), networks(), device.Words(prompt="a child"))
print(made.image_HWC.shape, sys.modules.get("torch"))
"""
    root = Path(__file__).parents[4]  # of the package tests, which the toy imports
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=root
    )
    assert done.stdout == "(16, 16, 3) None\n", done.stderr[-2000:]


def test_a_unet_without_guidance_is_asked_about_the_prompt_alone(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    own = toy(tmp_path, guided=False)
    assert not own.guided and pipeline.guided
    seen: list[set[str]] = []
    parts: dict[str, Any] = networks()
    plain = parts["unet"]

    def unet(given: Mapping[str, Array]) -> Any:
        seen.append(set(given))
        return plain(given)

    found = generate(own, parts | {"unet": unet}, Words(prompt="a child"), seed=3)
    assert seen == [{"sample", "timestep", "encoder_hidden_states", RESIDUAL}] * 4
    assert np.array_equal(found.latent, drawn(pipeline, seed=3, guidance=1.0).latent)
    with pytest.raises(InputError, match="guidance 2: toy draws without"):
        drawn(own, guidance=2.0)
    with pytest.raises(InputError, match="without guidance it has no effect"):
        drawn(own, negative="sad")
