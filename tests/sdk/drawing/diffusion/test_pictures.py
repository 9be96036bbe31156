"""Pictures from prompts and conditions: sizes, seeds, strengths, several plugins, and pictures that
are none.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from unplug.core import CheckpointError, DataError, InputError
from unplug.plugins import save_checkpoint
from unplug.plugins.conditions import build_condition
from unplug.sdk.drawing.conditions import Steering, draw_conditions
from unplug.sdk.drawing.diffusion import draw_each, draw_pictures, generate, image_grid, vae
from unplug.sdk.drawing.diffusion import steered_pictures as pictures
from unplug.sdk.drawing.diffusion.steered_pictures import MAX_PICTURES, decode, load_plugin
from unplug.sdk.learning.data import Dataset

from .conftest import SIZE, steering_plugin, tiny_unet

PROMPTS = ["a child", "an adult, sad", "smiling"]


def arrays(drawn: list[Image.Image]) -> list[Any]:
    return [np.asarray(picture).astype(int) for picture in drawn]


def far(one: Any, other: Any) -> int:
    return int(np.abs(one - other).max())


@pytest.fixture(scope="module")
def face(faces: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("faces") / "face.png"
    Image.fromarray(faces.pixels([0])[0]).save(path)
    return path


@pytest.fixture(scope="module")
def edges(faces: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("edges") / "edges.png"
    Image.fromarray(build_condition("canny").render(faces.pixels([0])[0], SIZE)).save(path)
    return path


def test_a_seed_is_a_picture_in_any_batch(base: Any) -> None:
    seeds, how = [5, 6, 5], {"size": SIZE, "steps": 2}
    together = arrays(generate(base, [*PROMPTS[:2], PROMPTS[0]], seeds=seeds, **how))
    apart = arrays(generate(base, [*PROMPTS[:2], PROMPTS[0]], seeds=seeds, batch_size=2, **how))
    assert all(far(a, b) <= 1 for a, b in zip(together, apart, strict=True))
    assert far(together[0], together[2]) <= 1 < far(together[0], together[1])
    assert together[0].shape == (SIZE, SIZE, 3)
    assert (
        far(arrays(generate(base, PROMPTS[:1], seeds=[5], guidance=1.0, **how))[0], together[0]) > 1
    )
    assert (
        far(arrays(generate(base, PROMPTS[:1], seeds=[5], negative="sad", **how))[0], together[0])
        > 0
    )


def test_guidance_that_rises_is_a_loop_with_a_scale_of_its_own_at_each_step(base: Any) -> None:
    guidance, steps, seed, side = 4.0, 3, 5, SIZE // 8
    how: dict[str, Any] = {"size": SIZE, "steps": steps, "guidance": guidance}
    drawn, other = (
        arrays(generate(base, ["a child"], seeds=[seed], schedule=schedule, **how))[0]
        for schedule in ("linear", "constant")
    )
    assert far(drawn, other) > 1
    scheduler, noise = base.scheduler, torch.Generator().manual_seed(seed)
    scheduler.set_timesteps(steps)
    ids = base.tokenizer(["", "a child"], padding="max_length", return_tensors="pt").input_ids
    with torch.no_grad():
        states = base.text_encoder(ids)[0]
        z = torch.randn((1, base.unet.config.in_channels, side, side), generator=noise)
        for time in scheduler.timesteps:
            negative, prompt = base.unet(torch.cat([z, z]), time, states).sample.chunk(2)
            share = 2 * (1 - float(time) / scheduler.config.num_train_timesteps)
            told = negative + (1 + (guidance - 1) * share) * (prompt - negative)
            z = scheduler.step(told, time, z).prev_sample
    (wanted,) = arrays(decode(base, z))
    assert far(drawn, wanted) <= 1
    assert not base.unet._forward_hooks, "what was lent is given back"


def test_a_list_is_cut_into_the_batches_of_the_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []

    class Pipe:
        def set_progress_bar_config(self, **_: Any) -> None: ...

        def __call__(self, prompts: list[str], **given: Any) -> Any:
            calls.append((prompts, *(given[name] for name in ("image", "same", "negative_prompt"))))
            return type("Out", (), {"images": prompts})

    monkeypatch.setattr(pictures, "decode", lambda _, latents: latents)
    how: dict[str, Any] = {"image": [1, 2, 3], "shared": {"same": [7, 8]}, "batch_size": 2}
    drawn: Any = generate(Pipe(), list("abc"), seeds=[1, 2, 3], size=8, **how)
    assert drawn == ["a", "b", "c"]
    assert calls == [(["a", "b"], [1, 2], [7, 8], ["", ""]), (["c"], [3], [7, 8], [""])]


def test_the_bare_base_and_latents_a_few_at_a_time(
    base: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, conditions = draw_pictures(base, PROMPTS[:1], seeds=[0], steps=2)
    assert drawn[0].size == (SIZE, SIZE) and conditions == []
    larger, _ = draw_pictures(base, PROMPTS[:1], seeds=[0], steps=1, size=72)
    assert larger[0].size == (72, 72)
    # By their pixels: 16 pictures of 512 px would ask for 8 GiB at once.
    decode, sizes = base.vae.decode, list[int]()

    def watched(latent_Bchw: Any) -> Any:
        sizes.append(len(latent_Bchw))
        return decode(latent_Bchw)

    monkeypatch.setattr(base.vae, "decode", watched)
    how: dict[str, Any] = {"seeds": [0, 1, 2], "size": SIZE, "steps": 1}
    together = arrays(generate(base, PROMPTS, **how))
    monkeypatch.setattr(vae, "MAX_PIXELS", 2 * SIZE**2)
    apart = arrays(generate(base, PROMPTS, **how))
    assert sizes == [3, 2, 1] and all(far(a, b) <= 1 for a, b in zip(together, apart, strict=True))


def test_strengths_from_none_to_double(
    base: Any, plugin_folder: Path, edges: Path, tmp_path: Path
) -> None:
    save_checkpoint(steering_plugin(base.unet, 8), tmp_path / "other", record={}, card="")
    one, other = (
        Steering(plugin=str(folder), image=edges) for folder in (plugin_folder, tmp_path / "other")
    )

    def drawn(*steerings: Steering) -> list[Any]:
        pictures, conditions = draw_pictures(base, PROMPTS[:2], steerings, seeds=[0, 1], steps=2)
        assert len(conditions) == len(steerings) and len(pictures) == 2
        assert all(far(np.asarray(edge), np.asarray(Image.open(edges))) == 0 for edge in conditions)
        return arrays(pictures)

    bare, alone, muted = drawn(), drawn(one), replace(other, strength=0.0)
    assert all(far(a, b) == 0 for a, b in zip(drawn(replace(one, strength=0.0)), bare, strict=True))
    assert far(alone[0], bare[0]) > 3 and far(drawn(replace(one, strength=2.0))[0], alone[0]) > 3
    assert all(far(a, b) <= 1 for a, b in zip(drawn(one, muted), alone, strict=True))
    assert far(drawn(one, other)[0], alone[0]) > 3


def test_each_picture_follows_its_own(base: Any, plugin_folder: Path, edges: Path) -> None:
    lines = np.asarray(Image.open(edges))
    each = [
        Steering(plugin=str(plugin_folder), image=image)
        for image in (lines, np.roll(lines, 9, axis=0))
    ]
    together = draw_each(base, PROMPTS[:2], each, seeds=[0, 1], steps=2)
    for number, drawn in enumerate(arrays(together)):
        prompt = PROMPTS[number : number + 1]
        own, other = (
            arrays(draw_pictures(base, prompt, [each[one]], seeds=[number], steps=2)[0])[0]
            for one in (number, 1 - number)
        )
        assert far(drawn, own) <= 1 and far(drawn, other) > 3


def test_what_cannot_be_drawn_is_refused(
    base: Any, plugin_folder: Path, edges: Path, tmp_path: Path
) -> None:
    plugin = steering_plugin(tiny_unet(channels=(16, 24, 32)))
    save_checkpoint(plugin, tmp_path / "other", record={}, card="")
    one, other = (
        [Steering(plugin=str(folder), image=edges)]
        for folder in (plugin_folder, tmp_path / "other")
    )
    eight = "no multiple of 8 from 8 to 4096"
    for steerings, size, words in (
        *(([], size, f"size {size}: {eight}") for size in (70, 4, 4104, -8)),
        (one, 70, "size 70: no multiple of 16 from 8 to 4096. Use 64"),
        (one, 8, "no multiple of 16.*Use 16"),
        (other, None, r"made for another base \(.*Use the base that it was trained for"),
    ):
        with pytest.raises(InputError, match=words):
            draw_pictures(base, ["x"], steerings, seeds=[0], size=size)
    with pytest.raises(InputError, match=f"{MAX_PICTURES + 1} pictures: too many for one call"):
        draw_pictures(base, ["x"] * (MAX_PICTURES + 1), seeds=[0])
    for strength in (-0.1, 10.1, float("nan"), float("inf")):
        with pytest.raises(InputError, match=r"strength .*: out of range. Use 0"):
            Steering(plugin="canny", image=Path("x.png"), strength=strength)


def test_plugins_by_name_and_by_folder(
    base: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder called canny must not change what `--plugin canny` means; a path says which one is
    meant.
    """
    for name in ("canny", "mine"):
        plugin = steering_plugin(base.unet, condition="depth")
        save_checkpoint(plugin, tmp_path / name, record={}, card="")
    monkeypatch.chdir(tmp_path)
    assert load_plugin("canny").config.condition == "canny"
    for name in ("./canny", str(tmp_path / "canny"), "mine"):
        assert load_plugin(name).config.condition == "depth"
    for name in ("cany", "../x", "base"):
        why = f"{name}: no such plugin.*or one of: canny, depth, face_landmark"
        with pytest.raises(CheckpointError, match=why):
            load_plugin(name)
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match=r"no model\.safetensors"):
        load_plugin(str(tmp_path / "empty"))


def condition_of(**given: Any) -> np.ndarray[Any, Any]:
    (drawn_HWC,) = draw_conditions([Steering(plugin="x", **given)], ["canny"], SIZE)
    return drawn_HWC


def test_conditions_of_every_mode_and_size(edges: Path, tmp_path: Path, face: Path) -> None:
    whole = Image.open(edges)
    wide = Image.new("RGB", (SIZE + 40, SIZE), (255, 0, 0))
    wide.paste(whole, (20, 0))
    large = whole.resize((2 * SIZE, 2 * SIZE), Image.Resampling.NEAREST)
    for changed in (whole.convert("L"), whole.convert("RGBA"), wide, large):
        changed.save(tmp_path / "changed.png")
        drawn = condition_of(image=tmp_path / "changed.png")
        assert drawn.shape == (SIZE, SIZE, 3)
        error = np.abs(np.asarray(drawn).astype(int) - np.asarray(whole))
        assert error.mean() < 25 if changed is large else error.max() == 0
    drawn = condition_of(image=face, photo=True)
    assert np.array_equal(np.asarray(drawn), np.asarray(Image.open(edges)))
    loose = condition_of(image=face, photo=True, options={"low": "10", "high": "20"})
    assert np.asarray(loose).sum() > np.asarray(drawn).sum()
    with pytest.raises(InputError, match="condition canny: it has no setting 'task'"):
        condition_of(image=face, photo=True, options={"task": "x"})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("photo", [False, True])
def test_pictures_that_are_none(tmp_path: Path, edges: Path, photo: bool) -> None:
    (tmp_path / "text.png").write_text("no picture")
    (tmp_path / "cut.png").write_bytes(edges.read_bytes()[:60])
    header = bytearray(edges.read_bytes())
    header[16:24] = (9_500).to_bytes(4, "big") * 2  # what Pillow calls a bomb from 90 megapixels on
    (tmp_path / "bomb.png").write_bytes(bytes(header))
    Image.new("RGB", (15, 40), (9, 8, 7)).save(tmp_path / "dot.png")
    with pytest.raises(DataError, match=r"dot\.png: 15x40 pixels are too few"):
        condition_of(image=tmp_path / "dot.png", photo=photo)
    for name in ("text", "cut", "bomb", "gone"):
        with pytest.raises(DataError, match=f"{name}.png"):
            condition_of(image=tmp_path / f"{name}.png", photo=photo)


def test_a_grid_puts_every_picture_in_its_place() -> None:
    rows = [
        [Image.new("RGB", (8, 8), (10 * row + column + 1,) * 3) for column in range(3)]
        for row in range(2)
    ]
    pixels = np.asarray(image_grid(rows, gap=2))
    assert pixels.shape == (2 + 2 * 10, 2 + 3 * 10, 3)
    for row in range(2):
        for column in range(3):
            cell = pixels[2 + 10 * row : 10 + 10 * row, 2 + 10 * column : 10 + 10 * column]
            assert (cell == 10 * row + column + 1).all()
    assert (pixels[:2] == 255).all() and (pixels[10:12] == 255).all()
    odd = [Image.new("RGBA", (4, 4), (9, 9, 9, 0)), Image.new("RGB", (16, 16))]
    rows = [[Image.new("L", (16, 16), 7)], odd]
    pixels = np.asarray(image_grid(rows, labels=["one", "another row"], side=16))
    left = pixels.shape[1] - 2 * 20
    assert left > 40 and pixels.shape[0] == 4 + 2 * 20
    for top, value in ((4, 7), (24, 9)):
        assert (pixels[top : top + 16, left : left + 16] == value).all()
    assert (pixels[:, : left - 4] < 128).any(), "no words were written"
