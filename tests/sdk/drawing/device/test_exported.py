"""A base exported whole draws what diffusers draws from the same noise; the command draws with it,
and says what is wrong.
"""

from __future__ import annotations

import json
import os
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

from unplug.core import InputError
from unplug.export import psnr_db
from unplug.plugins import DECODER_SIZES, QuickDecoder, save_checkpoint
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
    latents_sha256,
    load_pipeline,
)
from unplug.sdk.drawing.device.base_folder import read_scales
from unplug.sdk.drawing.diffusion import CONTROLS, scheduled_guidance
from unplug.sdk.drawing.diffusion.steered_pictures import load_plugin, solve_with

from ...cli.calls import fail, leftovers
from ..diffusion.conftest import SIZE, steering_plugin, tiny_unet

pytestmark = pytest.mark.long

LEAST_DB = 60.0
PROMPT = "a portrait of a child, smiling"


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
    z, pipe, image = latent(11, load_pipeline(generator).latent_shape), base, Image.open(edges)
    how = {"height": SIZE, "width": SIZE, "guidance_scale": 3.0, "negative_prompt": "sad"}
    if steered:
        pipe = CONTROLS.get("plugin")().pipeline(base, load_plugin(str(plugin_folder)))
        how["image"] = image
    scheduler = pipe.scheduler
    solve_with(pipe, solver)
    pipe.set_progress_bar_config(disable=True)
    with torch.no_grad(), scheduled_guidance(pipe, 3.0, "linear"):
        how |= {"num_inference_steps": 6, "output_type": "latent"}
        wanted = pipe(PROMPT, latents=torch.from_numpy(z), **how).images
        shown = base.vae.decode(wanted / base.vae.config.scaling_factor).sample / 2 + 0.5
    pipe.scheduler = scheduler
    words = Words(prompt=PROMPT, negative="sad", steps=6, guidance=3.0, solver=solver)
    steerings = (Steering(plugin="canny", image=np.asarray(image)),) if steered else ()
    drawn = draw(generator, words, seeds=(11,), steerings=steerings)
    assert psnr_db(wanted.numpy(), drawn.latents[0]) >= LEAST_DB
    assert psnr_db(shown.clamp(0, 1).numpy(), drawn.decoded[0]) >= LEAST_DB
    assert drawn.runtime == "onnx" and drawn.peak_bytes > 0 and len(drawn.seconds) == 1


def test_the_record_says_what_the_base_is(generator: Path, base: Any) -> None:
    pipeline, scheduler = load_pipeline(generator), base.scheduler
    shape = (4, SIZE // 8, SIZE // 8)
    assert (pipeline.name, pipeline.image_size, pipeline.latent_shape) == ("tiny", SIZE, shape)
    levels = scheduler.alphas_cumprod.double().numpy()
    assert np.allclose(pipeline.schedule.alphas_cumprod, levels, rtol=2e-5)
    last = float(scheduler.final_alpha_cumprod)
    assert pipeline.schedule.final_alpha_cumprod == pytest.approx(last, rel=1e-5)
    assert pipeline.scaling_factor == base.vae.config.scaling_factor
    assert pipeline.plugins["canny"].condition == "canny"
    assert {file.file for part in pipeline.parts().values() for file in part.files} == {
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
    photo, task = tmp_path / "photo.png", tmp_path / "face.task"
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    Image.fromarray(pixels).resize((120, 80), Image.Resampling.NEAREST).save(photo)
    task.write_bytes(bytes(64))
    monkeypatch.setattr(FaceFinder, "faces", lambda *_: np.array([[[60.0, 10.0], [100.0, 50.0]]]))
    whole = Steering(plugin="canny", image=photo, photo=True)
    framed = replace(whole, frame=FaceFrame(task=str(task)))
    (drawn_HWC,) = draw_conditions([framed], ["canny"], SIZE)
    plain, face, given = (
        np.asarray(generate(PROMPT, [steering], base=str(generator), steps=2).pictures[0])
        for steering in (whole, framed, Steering(plugin="canny", image=drawn_HWC))
    )
    assert np.array_equal(face, given) and not np.array_equal(face, plain)


def said(*args: object) -> dict[str, Any]:
    result = CliRunner().invoke(main, [*map(str, args), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def call(folder: Path, out: Path, *more: object) -> tuple[object, ...]:
    return (
        "generate",
        "--base",
        folder,
        "--prompt",
        PROMPT,
        "--drawn-steps",
        2,
        "--out",
        out,
        *more,
    )


def test_the_command_draws_with_files(generator: Path, edges: Path, tmp_path: Path) -> None:
    one, again, several = (tmp_path / f"{name}.png" for name in "abc")
    value = said(*call(generator, one, "--seed", 4))
    assert value["runtime"] == "onnx" and value["guidance"] == 3.0
    assert value["tokens_read"] == value["prompt_tokens"] == 9
    with Image.open(one) as picture:
        facts = json.loads(picture.info["unplug"])
        assert picture.size == (SIZE, SIZE) and facts["seed"] == 4
        assert facts["noise"] == "philox4x32-10/box-muller"
    said(*call(generator / PIPELINE, again, "--seed", 4))
    assert one.read_bytes() == again.read_bytes()
    steer = ("--plugin", "canny", "--condition", edges, "--strength", 0.5)
    how = ("--seed", 4, "--count", 2, "--solver", "dpm++")
    value = said(*call(generator, several, *how, *steer))
    assert [Path(name).name for name in value["pictures"]] == ["c-4.png", "c-5.png"]
    assert value["solver"] == "dpm++"
    assert Image.open(several).size == (4 + 3 * (SIZE + 4), SIZE + 8)


def test_the_command_needs_no_torch(generator: Path, edges: Path, tmp_path: Path) -> None:
    """Nor anything else beside the runtime, NumPy and Pillow; nor does the process that runs the
    file: neither finds them.
    """
    (tmp_path / "blocked").mkdir()
    blocked = "torch diffusers transformers tokenizers cv2 onnx safetensors huggingface_hub"
    for name in blocked.split():
        (tmp_path / "blocked" / f"{name}.py").write_text("raise ImportError('blocked by a test')\n")
    code = "import sys; from unplug.sdk.cli import main; main(sys.argv[1:])"
    steer = ("--plugin", "canny", "--condition", edges)
    path = os.pathsep.join([str(tmp_path / "blocked"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, call(generator, tmp_path / "a.png", *steer))],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path},
    )
    saved = f"saved {tmp_path / 'a.png'} (1 picture"
    assert done.returncode == 0 and done.stdout.startswith(saved), done.stderr


def test_wrong_options_end_in_one_line(
    generator: Path, base_folder: Path, edges: Path, tmp_path: Path
) -> None:
    out, black = tmp_path / "x.png", tmp_path / "black.png"
    Image.new("RGB", (SIZE, SIZE)).save(black)
    (tmp_path / "empty.png").write_bytes(b"")
    exported = "tiny was exported without it"
    steer = ("--plugin", "canny", "--condition")
    for more, words in {
        ("--target", "litert"): "its text_encoder has no such file, but onnx fp32",
        ("--precision", "int4"): "onnx int4",
        ("--pixels", "32"): "--pixels: exported files cannot follow it",
        ("--lora", "x.safetensors"): "--lora: tiny was exported without slots for it",
        ("--variant", "x"): f"variant x: {exported}. Export it with `unplug export --variant NAME",
        ("--plugin", "depth", "--condition", edges): f"{exported}. It has canny",
        (*steer, black): "black.png: the condition is empty",
        ("--plugin", "canny", "--image", black): "black.png: the condition is empty",
        (*steer, edges, "--crop", "face"): "only photographs are cropped",
        (*steer, tmp_path / "empty.png"): "empty.png",
        (*steer, tmp_path / "gone.png"): "gone.png: no such file",
        ("--negative", "sad", "--guidance", "1"): "without guidance it has no effect",
        ("--plugin", "canny"): "1 plugin and 0 pictures",
    }.items():
        assert words in fail(*call(generator, out, *more)).line, more
    for option in ("--target", "--variant"):
        line = fail(*call(base_folder, out, option, "onnx")).line
        assert f"{option}: it is of exported files" in line
    assert not out.exists()


@pytest.mark.nightly
def test_the_command_exports_a_base_with_its_plugin(
    base_folder: Path, plugin_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "files"
    how = ("--to", "onnx,litert,coreml", "--precision", "fp16", "--check", 2, "--out", out)
    value = said("export", base_folder, plugin_folder, *how)
    parts = {"text_encoder", "unet", "decoder", "plugins.canny"}
    assert {artifact["part"] for artifact in value["artifacts"]} == parts
    assert all(row["status"] == "pass" for report in value["parity"] for row in report["rows"])
    assert {"pipeline.json", "unet/parity.json"} <= set(leftovers(out))
    assert load_pipeline(out).name == "base"
    for target, runtime in (("onnx", "onnx"), ("litert", "litert"), ("coreml", "mil")):
        assert said(*call(out, tmp_path / "a.png", "--target", target))["runtime"] == runtime


def test_a_quick_decoder_is_exported_in_the_decoder_s_place(
    base_folder: Path, tmp_path: Path
) -> None:
    """The pictures of the files are torch's with the same decoder; without it they are others."""
    torch.manual_seed(3)
    scale, shift = read_scales(base_folder)
    quick = QuickDecoder(
        image_size=SIZE,
        latent_channels=4,
        **DECODER_SIZES["nano"],
        scaling_factor=scale,
        shift_factor=shift,
        latents_sha256=latents_sha256(base_folder),
    )
    save_checkpoint(quick, tmp_path / "quick", record={}, card="# Card\n")
    out = tmp_path / "out"
    words = ("--to", "onnx", "--precision", "fp32", "--decoder", tmp_path / "quick", "--out", out)
    said("export", base_folder, *words)
    pipeline = load_pipeline(out)
    assert pipeline.decoder.model_type == "quick_decoder"
    drawn = draw(out, Words(prompt=PROMPT, steps=2), seeds=[4]).images[0] / 255
    pictures = {
        name: np.asarray(
            generate(
                PROMPT,
                base=str(base_folder),
                decoder=name,
                seed=4,
                steps=2,
                guidance=pipeline.defaults.guidance,
                solver=pipeline.defaults.solver,
                engine="torch",
                show=False,
            ).pictures[0]
        )
        / 255
        for name in (str(tmp_path / "quick"), "autoencoder")
    }
    assert psnr_db(pictures[str(tmp_path / "quick")], drawn) >= 45  # both are of 8 bits
    assert psnr_db(pictures["autoencoder"], drawn) < 30
    line = fail(
        "generate",
        "--base",
        out,
        "--decoder",
        tmp_path / "quick",
        "--prompt",
        "x",
        "-o",
        tmp_path / "a.png",
    )
    assert "exported files have the decoder" in line.line


def test_what_cannot_be_exported_whole(
    base_folder: Path, plugin_folder: Path, tmp_path: Path
) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    call = ("export", base_folder, "--to", "onnx", "--precision", "fp32", "--out", out)
    assert "2 whole bases" in fail(*call, shutil.copytree(base_folder, tmp_path / "twin")).line
    assert "--calibrate: it is of one model" in fail(*call, "--calibrate", "synth:n=4").line
    source = GeneratorSource(name="x", folder=base_folder)
    with pytest.raises(InputError, match="int8-static"):
        export_generator(source, targets=["onnx"], precisions=["int8-static"], out=tmp_path)
    plugin = steering_plugin(tiny_unet(channels=(16, 32, 32)))
    save_checkpoint(plugin, other, record={}, card="# Card\n")
    line = fail(*call, other).line
    assert "it was made for another base" in line and "Train it with this base" in line
    assert not out.exists()
