"""Packs in an exported base: the prompt's words switch them on, and deleting one is as if it had
never been there.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from unplug.core import ArtifactError, InputError, ReportError, read_json, write_json
from unplug.export import psnr_db
from unplug.sdk.drawing.device import (
    PIPELINE,
    LoraSlots,
    Words,
    draw,
    drop_pack,
    latent,
    load_pipeline,
    pack_name,
    read_variant,
    stack_rows,
    variants_for,
    web_files,
    write_variant,
)
from unplug.sdk.drawing.diffusion import load_base, load_loras
from unplug.sdk.drawing.diffusion.shipped import PACK_SCHEMA

from ...cli.calls import fail
from ..diffusion.conftest import CPU, SIZE, save_lora
from .test_exported import said
from .toy import SLOTS, change, toy

ROWS = np.arange(1, 9, dtype=np.float32).reshape(2, 4)
LEAST_DB = 60.0
SEED = 11


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A toy with slots for two rows: a variant of one, a pack of one and a pack of two."""
    held: Any = {
        "style": (ROWS[:1], None),
        "hat": (ROWS[1:], None, "red hat"),
        "eye-patch": (ROWS, None, "eye patch"),
    }
    toy(tmp_path / "files", held)
    return tmp_path / "files"


def test_who_acts(folder: Path) -> None:
    pipeline = load_pipeline(folder)
    assert pipeline.packs() == {"eye-patch": "eye patch", "hat": "red hat"}
    for prompt, variant, names in (
        ("a child", None, ()),
        ("style", None, ()),
        ("a Red Hat", None, ("hat",)),
        ("red hats, eye-patch", None, ("eye-patch", "hat")),
        ("red hats", "style", ("style", "hat")),
        ("red hats, eye patch", "hat", ("hat", "eye-patch")),
    ):
        assert variants_for(pipeline, prompt, variant) == names
    with pytest.raises(InputError, match=r"variant hat: it is a pack, .* by saying 'red hat'"):
        variants_for(pipeline, "a hat", "hat")
    with pytest.raises(InputError, match="variant red hat: toy was exported without it"):
        variants_for(pipeline, "a red hat", "red hat")


def test_rows_lie_below_each_other_or_are_too_many(folder: Path) -> None:
    pipeline = load_pipeline(folder)
    rows = {name: read_variant(pipeline, folder, name) for name in pipeline.variants}
    stacked = stack_rows(SLOTS, {name: rows[name] for name in ("style", "hat")})
    np.testing.assert_array_equal(stacked, ROWS)
    assert stack_rows(SLOTS, {}) is None
    why = "'eye-patch' and 'hat': they have 3 ranks together, and the base has slots for 2"
    with pytest.raises(InputError, match=why):
        stack_rows(SLOTS, {name: rows[name] for name in ("eye-patch", "hat")})
    with pytest.raises(InputError, match=why):
        draw(folder, Words(prompt="a red hat, an eye patch"))


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("variants hat word", "Eye Patches", "its packs eye-patch and hat have one word"),
        ("variants hat word", " red hat", "its pack hat has the word ' red hat', which no prompt"),
        ("variants hat word", "red  hat", "no prompt says"),
        ("variants hat word", "?", "no prompt says"),
        ("variants hat word", "x" * 65, "no prompt says"),
        ("variants hat word", 7, "schema"),
        ("variants style words", "x", "schema"),
    ],
)
def test_records_that_do_not_hold(folder: Path, place: str, value: object, words: str) -> None:
    *way, last = place.split()
    change(folder, " ".join(way), lambda held: {**held, last: value})
    with pytest.raises(ReportError, match=words):
        load_pipeline(folder)


def test_a_folder_without_packs_is_what_it_was(folder: Path) -> None:
    style, hat = (read_json(folder / PIPELINE)["variants"][name] for name in ("style", "hat"))
    assert style.keys() == {"file", "sha256", "bytes", "defaults"}
    assert hat.keys() == style.keys() | {"word"} and hat["word"] == "red hat"


def test_names_of_packs() -> None:
    assert pack_name("Eye Patches") == "eye-patch" and pack_name("u10007") == "u10007"
    others = {pack_name(word) for word in ("jose", "Jos\u00e9", "\u65e5\u672c", "\u65e5\u8a9e")}
    assert len(others) == 4 and all(name.isascii() for name in others)


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_deleting_leaves_what_never_had_it(folder: Path, tmp_path: Path) -> None:
    without: Any = {"style": (ROWS[:1], None), "hat": (ROWS[1:], None, "red hat")}
    toy(tmp_path / "without", without)
    drop_pack(folder, "EYE patches")
    assert tree(folder) == tree(tmp_path / "without")
    with pytest.raises(InputError, match=r"toy has no pack of this word.*red hat"):
        drop_pack(folder, "eye patch")
    drop_pack(folder / PIPELINE, "red hat")
    toy(tmp_path / "bare", {"style": (ROWS[:1], None)})
    assert tree(folder) == tree(tmp_path / "bare")


def test_the_last_one_leaves_no_folder_and_a_cut_off_call_goes_on(tmp_path: Path) -> None:
    held: Any = {"hat": (ROWS[1:], None, "red hat")}
    toy(tmp_path / "files", held)
    (tmp_path / "files" / "variants" / "hat.lora").unlink()
    drop_pack(tmp_path / "files", "red hat")
    toy(tmp_path / "bare", {})
    assert tree(tmp_path / "files") == tree(tmp_path / "bare")
    assert not (tmp_path / "files" / "variants").exists()


def test_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    file = folder / "variants" / "hat.lora"
    file.rename(tmp_path / "precious")
    file.symlink_to(tmp_path / "precious")
    with pytest.raises(ArtifactError, match="it is a link"):
        drop_pack(folder, "red hat")
    assert (tmp_path / "precious").exists()


# Of a real base


@pytest.fixture(scope="module")
def slotted(base_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny base exported with slots. Tests must not write to it."""
    out = tmp_path_factory.mktemp("slotted") / "files"
    said("export", base_folder, *ONNX, "--lora-slots", "--out", out)
    return out


ONNX = ("--to", "onnx", "--precision", "fp32")
WORD = "u10{:03}"
"""Of many packs."""


def rows_of(number: int, slots: LoraSlots) -> NDArray[np.float32]:
    """Random weights of rank 8, each picture's own."""
    rng = np.random.default_rng(number)
    return rng.normal(0, 0.05, (8, slots.width)).astype(np.float32)


def with_packs(slotted: Path, out: Path, numbers: Iterable[int]) -> Path:
    """The exported base with packs beside its files, as an export leaves them."""
    shutil.copytree(slotted, out)
    pipeline = load_pipeline(out)
    assert pipeline.lora is not None
    packs = {
        WORD.format(number): write_variant(
            out, WORD.format(number), rows_of(number, pipeline.lora), None, WORD.format(number)
        )
        for number in numbers
    }
    replace(pipeline, variants=packs).save(out)
    return out


def drawn(folder: Path, prompt: str, **how: Any) -> NDArray[np.float32]:
    words = Words(prompt=prompt, steps=2, guidance=2.0)
    return draw(folder, words, seeds=(SEED,), **how).decoded[0]


@pytest.mark.long
@pytest.mark.parametrize("count", [1, 10, 100])
def test_one_of_many_is_deleted_and_the_others_draw_as_before(
    slotted: Path, tmp_path: Path, count: int
) -> None:
    """Bit for bit: the base, another pack, and two of the others in one prompt."""
    folder = with_packs(slotted, tmp_path / "many", range(count))
    gone, others = (
        WORD.format(count // 2),
        [WORD.format(n) for n in range(count) if n != count // 2],
    )
    prompts = [others[0], " ".join(others[:1] + others[-1:]), others[-1]] if others else []
    before = [drawn(folder, prompt) for prompt in prompts]
    bare = drawn(slotted, "a child")
    np.testing.assert_array_equal(drawn(folder, "a child"), bare)
    assert np.abs(drawn(folder, gone) - drawn(slotted, gone)).max() > 1e-3
    assert len({array.tobytes() for array in before}) == len(before)
    drop_pack(folder, gone)
    for prompt, wanted in zip(prompts, before, strict=True):
        np.testing.assert_array_equal(drawn(folder, prompt), wanted)
    np.testing.assert_array_equal(drawn(folder, gone), drawn(slotted, gone))
    never = with_packs(slotted, tmp_path / "never", (n for n in range(count) if n != count // 2))
    assert tree(folder) == tree(never)
    assert len(web_files(folder)) - len(web_files(slotted)) == count - 1


@pytest.mark.long
def test_two_of_rank_8_fit_and_three_do_not(slotted: Path, tmp_path: Path) -> None:
    folder = with_packs(slotted, tmp_path / "three", range(3))
    one, two, three = map(WORD.format, range(3))
    drawn(folder, f"{one} {two}")
    why = f"'{one}' and '{two}' and '{three}': they have 24 ranks together, .* slots for 16"
    with pytest.raises(InputError, match=why):
        drawn(folder, f"{three}, {one} and {two}")


def packs_in(base_folder: Path, folder: Path) -> tuple[Path, Path]:
    """Random LoRA weights with the records of packs."""
    for seed, word in enumerate(("eye patch", "clown nose")):
        place = save_lora(base_folder, folder / word, seed)
        base = {"name": "tiny", "sha256": "0" * 64}
        write_json(place / "unplug.json", {"schema": PACK_SCHEMA, "word": word, "base": base})
    return folder / "eye patch", folder / "clown nose"


@pytest.mark.nightly
def test_the_commands(base_folder: Path, slotted: Path, tmp_path: Path) -> None:
    """Exported beside a base, two words in one prompt draw what diffusers draws with both merged."""
    patch, nose = packs_in(base_folder, tmp_path)
    out = tmp_path / "files"
    given = ("--pack", patch, "--pack", nose)
    value = said("export", base_folder, *ONNX, *given, "--variant", f"style={patch}", "--out", out)
    assert value["foreign_loras"] == [str(patch), str(nose)]
    pipeline = load_pipeline(out)
    assert pipeline.packs() == {"clown-nose": "clown nose", "eye-patch": "eye patch"}
    merged = load_base(str(base_folder), device=CPU)
    load_loras(merged, [patch, nose])
    how: Any = {"num_inference_steps": 2, "guidance_scale": 2.0, "output_type": "latent"}
    z, prompt = torch.from_numpy(latent(SEED, pipeline.latent_shape)), "an eye patch, clown noses"
    merged.set_progress_bar_config(disable=True)
    with torch.no_grad():
        wanted = merged(prompt, latents=z, height=SIZE, width=SIZE, **how).images
    made = draw(out, Words(prompt=prompt, steps=2, guidance=2.0), seeds=(SEED,))
    assert made.packs == ("clown nose", "eye patch")
    assert psnr_db(wanted.numpy(), made.latents[0]) >= LEAST_DB
    np.testing.assert_array_equal(drawn(out, "a nose"), drawn(slotted, "a nose"))
    beside = drawn(out, "a clown nose", loras=(patch,))
    np.testing.assert_array_equal(drawn(out, "a clown nose", variant="style"), beside)

    call = ("generate", "--base", out, "--drawn-steps", 2, "--out", tmp_path / "x.png", "--prompt")
    value = said(*call, "an eye patch")
    assert value["exported_packs"] == ["eye patch"] and "exported_packs" not in said(*call, "a")
    assert "with a pack for 'eye patch'" in fail(*call, "an eye patch", "--pack", patch).line
    assert "it is a pack" in fail(*call, "a nose", "--variant", "clown-nose").line

    said("export", base_folder, *ONNX, "--pack", nose, "--out", out)
    assert [path.name for path in (out / "variants").iterdir()] == ["clown-nose.lora"]


def test_what_cannot_be_exported_ends_in_one_line(base_folder: Path, tmp_path: Path) -> None:
    patch, nose = packs_in(base_folder, tmp_path)
    out, again = tmp_path / "out", shutil.copytree(patch, tmp_path / "again")
    for base, given, words in (
        (base_folder, ("--pack", patch, "--pack", again), "two packs have the word 'eye patch'"),
        (
            base_folder,
            ("--pack", patch, "--variant", f"eye-patch={nose}"),
            "a variant is eye-patch",
        ),
        (base_folder, ("--pack", tmp_path / "gone"), "no such folder"),
        (base_folder / "unet", ("--pack", patch), "is for a whole base"),
    ):
        assert words in fail("export", base, *ONNX, "--out", out, *given).line
    assert not out.exists()
