"""A base exported whole draws what diffusers draws from the same noise; the command draws with it,
and says what is wrong.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image

from unplug.core import InputError, read_json
from unplug.export import psnr_db
from unplug.plugins import save_checkpoint
from unplug.sdk import generate
from unplug.sdk.cli import main
from unplug.sdk.drawing.conditions import FaceFinder, FaceFrame, Steering, draw_conditions
from unplug.sdk.drawing.device import (
    PIPELINE,
    GeneratorSource,
    Words,
    draw,
    export_generator,
    latent,
    load_pipeline,
)
from unplug.sdk.drawing.diffusion import CONTROLS, scheduled_guidance
from unplug.sdk.drawing.diffusion.steered_pictures import load_plugin

from ...cli.calls import fail, leftovers
from ..diffusion.conftest import SIZE, steering_plugin, tiny_unet

pytestmark = pytest.mark.long

LEAST_DB = 60.0
PROMPT = "a portrait of a child, smiling"
STEPS = 6


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    drawn = np.zeros((SIZE, SIZE, 3), np.uint8)
    drawn[10:20, 5:40] = 255
    path = tmp_path_factory.mktemp("edges") / "edges.png"
    Image.fromarray(drawn).save(path)
    return path


@pytest.mark.parametrize("solver", ["ddim", "dpm++"])
@pytest.mark.parametrize("steered", [False, True])
def test_it_is_diffusers_picture(
    generator: Path, base: Any, plugin_folder: Path, edges: Path, solver: Any, steered: bool
) -> None:
    from diffusers import DDIMScheduler, DPMSolverMultistepScheduler

    condition_HWC = np.asarray(Image.open(edges))
    z = latent(11, load_pipeline(generator).latent_shape)
    pipe = (
        CONTROLS.get("plugin")().pipeline(base, load_plugin(str(plugin_folder)))
        if steered
        else base
    )
    scheduler, kinds = pipe.scheduler, {"ddim": DDIMScheduler, "dpm++": DPMSolverMultistepScheduler}
    pipe.scheduler = kinds[solver].from_config(scheduler.config)
    pipe.set_progress_bar_config(disable=True)
    with torch.no_grad(), scheduled_guidance(pipe, 3.0, "linear"):
        wanted = pipe(
            PROMPT,
            negative_prompt="sad",
            num_inference_steps=STEPS,
            guidance_scale=3.0,
            latents=torch.from_numpy(z),
            output_type="latent",
            height=SIZE,
            width=SIZE,
            **({"image": Image.fromarray(condition_HWC)} if steered else {}),
        ).images
        shown = (
            (base.vae.decode(wanted / base.vae.config.scaling_factor).sample / 2 + 0.5)
            .clamp(0, 1)
            .numpy()
        )
    pipe.scheduler = scheduler
    steers = (Steering(plugin="canny", image=condition_HWC),) if steered else ()
    words = Words(prompt=PROMPT, negative="sad", steps=STEPS, guidance=3.0, solver=solver)
    mine = draw(generator, words, seeds=(11,), steerings=steers)
    assert (
        psnr_db(wanted.numpy(), mine.latents[0]) >= LEAST_DB
        and psnr_db(shown, mine.decoded[0]) >= LEAST_DB
    )
    assert mine.runtime == "onnx" and mine.peak_bytes > 0 and len(mine.seconds) == 1


def test_the_record_says_what_the_base_is(generator: Path, base: Any) -> None:
    found = load_pipeline(generator)
    assert (found.name, found.image_size, found.latent_shape) == (
        "tiny",
        SIZE,
        (4, SIZE // 8, SIZE // 8),
    )
    assert np.allclose(
        found.schedule.alphas_cumprod, base.scheduler.alphas_cumprod.double().numpy(), rtol=2e-5
    )
    assert found.schedule.final_alpha_cumprod == pytest.approx(
        float(base.scheduler.final_alpha_cumprod), rel=1e-5
    )
    assert (
        found.scaling_factor == base.vae.config.scaling_factor
        and found.plugins["canny"].condition == "canny"
    )
    assert (
        list(found.tokenizer.encode(PROMPT).ids)
        == base.tokenizer(PROMPT, padding="max_length").input_ids
    )
    assert {item.file for part in found.parts().values() for item in part.files} == {
        "text_encoder/text_encoder.fp32.onnx",
        "unet/guided_unet.fp32.onnx",
        "decoder/decoder.fp32.onnx",
        "canny/plugin.fp32.onnx",
    }


def test_python_draws_the_framed_face_too(
    generator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`unplug.sdk.generate` frames the face of a photograph on exported files, as it does on a
    diffusers base.
    """
    rng = np.random.default_rng(0)
    photo, task = tmp_path / "photo.png", tmp_path / "face.task"
    Image.fromarray(rng.integers(0, 256, (4, 6, 3), np.uint8)).resize(
        (120, 80), Image.Resampling.NEAREST
    ).save(photo)
    task.write_bytes(bytes(64))
    monkeypatch.setattr(FaceFinder, "faces", lambda *_: np.array([[[60.0, 10.0], [100.0, 50.0]]]))
    whole = Steering(plugin="canny", image=photo, photo=True)
    framed = replace(whole, frame=FaceFrame(task=str(task)))
    (drawn_HWC,) = draw_conditions([framed], ["canny"], SIZE)
    plain, face, given = (
        np.asarray(generate(PROMPT, [item], base=str(generator), steps=2).pictures[0])
        for item in (whole, framed, Steering(plugin="canny", image=drawn_HWC))
    )
    assert np.array_equal(face, given) and not np.array_equal(face, plain)


def said(*args: object) -> dict[str, Any]:
    result = CliRunner().invoke(main, [*map(str, args), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def call(folder: Path, out: Path, *more: object) -> tuple[object, ...]:
    return ("generate", "--base", folder, "--prompt", PROMPT, "--steps", 2, "--out", out, *more)


def test_the_command_draws_with_files(generator: Path, edges: Path, tmp_path: Path) -> None:
    value = said(*call(generator, tmp_path / "a.png", "--seed", 4))
    assert (
        value["runtime"] == "onnx"
        and value["guidance"] == 3.0
        and value["tokens_read"] == value["prompt_tokens"] == 9
    )
    with Image.open(tmp_path / "a.png") as picture:
        facts = json.loads(picture.info["unplug"])
        assert b"digitalsourcetype/trainedAlgorithmicMedia" in picture.info["xmp"]
        assert (
            picture.size == (SIZE, SIZE)
            and facts["seed"] == 4
            and facts["noise"] == "philox4x32-10/box-muller"
        )
    said(*call(generator / PIPELINE, tmp_path / "b.png", "--seed", 4))
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    steer = ("--plugin", "canny", "--condition-image", edges)
    value = said(
        *call(
            generator,
            tmp_path / "c.png",
            "--seed",
            4,
            "--count",
            2,
            "--solver",
            "dpm++",
            *steer,
            "--strength",
            0.5,
        )
    )
    assert [Path(name).name for name in value["pictures"]] == ["c-4.png", "c-5.png"] and value[
        "solver"
    ] == "dpm++"
    assert Image.open(tmp_path / "c.png").size == (4 + 3 * (SIZE + 4), SIZE + 8)


def test_a_photograph_and_a_drawn_condition_steer_files_together(
    generator: Path, edges: Path, tmp_path: Path
) -> None:
    steer = ("--plugin", "canny", "--plugin", "canny", "--strength", 1, "--strength", 0)
    # the outline of the bar: another condition than the bar itself
    photo = (
        "--photo",
        edges,
        "--set",
        "canny.low=20",
    )
    drawn = {}
    for name, pictures in {
        "photo": (*photo, "--condition-image", edges),
        "edges": ("--condition-image", edges, *photo),
    }.items():
        value = said(*call(generator, tmp_path / f"{name}.png", *steer, *pictures))
        assert [item["photo"] for item in value["guides"]] == [name == "photo", name != "photo"]
        assert [item["options"] for item in value["guides"]].count({"low": "20"}) == 1
        drawn[name] = np.asarray(Image.open(tmp_path / f"{name}.png"))
    said(*call(generator, tmp_path / "one.png", "--plugin", "canny", "--condition-image", edges))
    assert np.array_equal(drawn["edges"], np.asarray(Image.open(tmp_path / "one.png")))
    assert not np.array_equal(drawn["photo"], drawn["edges"])


def test_the_command_needs_no_torch(generator: Path, edges: Path, tmp_path: Path) -> None:
    """Nor anything else beside the runtime, NumPy and Pillow; nor does the process that runs the
    file: neither finds them.
    """
    (tmp_path / "blocked").mkdir()
    for name in (
        "torch",
        "diffusers",
        "transformers",
        "tokenizers",
        "cv2",
        "onnx",
        "safetensors",
        "huggingface_hub",
    ):
        (tmp_path / "blocked" / f"{name}.py").write_text("raise ImportError('blocked by a test')\n")
    code = "import sys; from unplug.sdk.cli import main; main(sys.argv[1:])"
    words = [
        *map(
            str,
            call(generator, tmp_path / "a.png", "--plugin", "canny", "--condition-image", edges),
        )
    ]
    import os

    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "blocked")},
    )
    assert done.returncode == 0 and done.stdout.startswith(
        f"saved {tmp_path / 'a.png'} (1 picture"
    ), done.stderr


def test_prompts_that_nobody_trained_on(generator: Path, tmp_path: Path) -> None:
    for prompt, told in (
        ("", False),
        ("zyzzyva qwrtz", True),
        ("\U0001f642\U0001f469\u200d\U0001f467", True),
    ):
        words = (
            "generate",
            "--base",
            generator,
            "--prompt",
            prompt,
            "--steps",
            1,
            "-o",
            tmp_path / "a.png",
        )
        result = CliRunner().invoke(main, [*map(str, words)], catch_exceptions=False)
        assert result.exit_code == 0 and ("was never taught" in result.stderr) == told
    words = (
        "generate",
        "--base",
        generator,
        "--prompt",
        "child " * 2000,
        "--steps",
        1,
        "-o",
        tmp_path / "b.png",
    )
    result = CliRunner().invoke(main, [*map(str, words)])
    assert result.exit_code == 0
    assert "has 2002 tokens: the base reads the first 16 only" in result.stderr
    assert "more than 65536" in fail(*words[:4], "a" * 70_000, *words[5:]).line


def test_wrong_options_end_in_one_line(
    generator: Path, base_folder: Path, edges: Path, tmp_path: Path
) -> None:
    out = tmp_path / "x.png"
    Image.new("RGB", (SIZE, SIZE)).save(tmp_path / "black.png")
    (tmp_path / "empty.png").write_bytes(b"")
    steer = ("--plugin", "canny", "--condition-image")
    for more, words in {
        ("--target", "litert"): "its text_encoder has no such file, but onnx fp32",
        ("--precision", "int4"): "onnx int4",
        ("--size", "32"): "--size: exported files cannot follow it",
        ("--lora", "x.safetensors"): "--lora: tiny was exported without slots for it",
        ("--variant", "x"): (
            "variant x: tiny was exported without it. Export it with `unplug export --variant "
            "NAME=WEIGHTS`"
        ),
        ("--plugin", "depth", "--condition-image", edges): "was exported without it. It has canny",
        (*steer, tmp_path / "black.png"): "black.png: the condition is empty",
        (
            "--plugin",
            "canny",
            "--photo",
            tmp_path / "black.png",
        ): "black.png: the condition is empty",
        (*steer, edges, "--crop", "face"): "only photographs are cropped",
        (*steer, tmp_path / "empty.png"): "empty.png",
        (*steer, tmp_path / "gone.png"): "gone.png: no such file",
        ("--negative", "sad", "--guidance", "1"): "without guidance it has no effect",
        ("--plugin", "canny"): "1 plugin and 0 pictures",
    }.items():
        assert words in fail(*call(generator, out, *more)).line, more
    for option, value in (("--target", "onnx"), ("--variant", "x")):
        assert (
            f"{option}: it is of exported files"
            in fail(*call(base_folder, out, option, value)).line
        )
    assert not out.exists()


def test_broken_folders_end_in_one_line(generator: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.png"

    def broken(name: str) -> Path:
        return Path(shutil.copytree(generator, tmp_path / name))

    (broken("gone") / "decoder/decoder.fp32.onnx").unlink()
    (broken("text") / PIPELINE).write_text("hello")
    swapped = broken("swapped") / "decoder/decoder.fp32.onnx"
    swapped.write_bytes(swapped.read_bytes()[::-1])
    raw = read_json(broken("paths") / PIPELINE)
    raw["unet"]["files"][0]["file"] = "../gone/unet/guided_unet.fp32.onnx"
    (tmp_path / "paths" / PIPELINE).write_text(json.dumps(raw))
    (broken("loop") / PIPELINE).unlink()
    (tmp_path / "loop" / PIPELINE).symlink_to(PIPELINE)
    assert "decoder.fp32.onnx: no such file" in fail(*call(tmp_path / "gone", out)).line
    assert "does not follow its schema" in fail(*call(tmp_path / "text", out)).line
    assert "SHA-256 differs" in fail(*call(tmp_path / "swapped", out)).line
    assert "no plain path inside the folder" in fail(*call(tmp_path / "paths", out)).line
    assert "error: " in fail(*call(tmp_path / "loop", out)).line


@pytest.mark.nightly
def test_the_command_exports_a_base_with_its_plugin(
    base_folder: Path, plugin_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "files"
    value = said(
        "export",
        base_folder,
        plugin_folder,
        "--to",
        "onnx,litert,coreml",
        "--precision",
        "fp16",
        "--check",
        2,
        "--out",
        out,
    )
    assert {item["part"] for item in value["artifacts"]} == {
        "text_encoder",
        "unet",
        "decoder",
        "plugins.canny",
    }
    assert all(row["status"] == "pass" for report in value["parity"] for row in report["rows"])
    assert {"pipeline.json", "unet/parity.json"} <= set(leftovers(out)) and load_pipeline(
        out
    ).name == "base"
    for target, runtime in (("onnx", "onnx"), ("litert", "litert"), ("coreml", "mil")):
        assert said(*call(out, tmp_path / "a.png", "--target", target))["runtime"] == runtime


def test_what_cannot_be_exported_whole(
    base_folder: Path, plugin_folder: Path, tmp_path: Path
) -> None:
    call = ("export", base_folder, "--to", "onnx", "--precision", "fp32", "--out", tmp_path / "out")
    assert (
        "2 whole bases" in fail(*call, Path(shutil.copytree(base_folder, tmp_path / "twin"))).line
    )
    assert "--calibrate: it is of one model" in fail(*call, "--calibrate", "synth:n=4").line
    with pytest.raises(InputError, match="int8-static"):
        export_generator(
            GeneratorSource(name="x", folder=base_folder),
            targets=["onnx"],
            precisions=["int8-static"],
            out=tmp_path,
        )
    other = tmp_path / "other"
    save_checkpoint(
        steering_plugin(tiny_unet(channels=(16, 32, 32))), other, record={}, card="# Card\n"
    )
    line = fail(*call, other).line
    assert "it was made for another base" in line and "Train it beside this base" in line
    assert not (tmp_path / "out").exists()
