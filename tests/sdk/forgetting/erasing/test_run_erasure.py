"""``unplug erase``: what is written, what it loads as, one request after another, bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file
from torch import Tensor

from unplug.core import CheckpointError, InputError, read_json, write_json
from unplug.plugins import load_checkpoint
from unplug.sdk.cli import main
from unplug.sdk.drawing.diffusion import TextPairs, load_base
from unplug.sdk.forgetting.erasing import (
    ERASURE,
    MAP,
    Concept,
    erase,
    erased_record,
    load_map,
    solve_map,
    usual_prompts,
    write_mapped,
)
from unplug.sdk.forgetting.erasing.text_map import reads_text, state_pairs, text_states

from ...drawing.diffusion.conftest import CPU, Killed, kill_after, picture

PROMPTS = [f"a {word} child, smiling" for word in ("small", "tall", "sad", "old")] * 2
FEW = {"steps": "4", "batch_size": "2", "pictures": "4"}


def run(base: Path, out: Path, words: str = "eye patch", **how: Any) -> dict[str, Any]:
    fixed: dict[str, Any] = {"seed": 1, "device": CPU, "show": False, "prompts": PROMPTS}
    return erase(str(base), [Concept(words=words)], out, **fixed | how)


@pytest.fixture(scope="module")
def erased(base_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("erased") / "base"
    run(base_folder, out)
    return out


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "unet" / "diffusion_pytorch_model.safetensors")


def test_a_base_that_stock_diffusers_loads(base_folder: Path, erased: Path) -> None:
    from diffusers import StableDiffusionPipeline

    stock = StableDiffusionPipeline.from_pretrained(erased, safety_checker=None)
    ours = load_base(str(erased), device=CPU)
    assert torch.equal(torch.from_numpy(picture(stock)), torch.from_numpy(picture(ours)))
    before, after = weights(base_folder), weights(erased)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and all(".attn2.to_k." in name or ".attn2.to_v." in name for name in changed)
    record = read_json(erased / ERASURE)
    assert record["changed"] == {
        "tensors": len(changed),
        "bytes": sum(4 * before[name].numel() for name in changed),
    }
    text = "\n".join(path.read_text() for path in erased.rglob("*.json"))
    assert str(base_folder.parent) not in text.replace(json.dumps(str(base_folder)), "")


def test_prompts_with_the_words_read_as_prompts_without() -> None:
    """On the base that ships, with prompts that the map was not solved for."""
    base, glasses = load_base("small", device=CPU), Concept(words="glasses")
    learned, asked = (usual_prompts("small", ["glasses"], seed=seed)[:48] for seed in (1, 2))
    pairs = [(glasses.named(prompt), prompt) for prompt in learned]
    retained = text_states(base, ["", *learned]).flatten(0, 1)
    edit = solve_map(*state_pairs(base, pairs), retained, keep=0.5, rank=4)
    said, meant = (text_states(base, texts) for texts in ([glasses.named(p) for p in asked], asked))
    before = float((said - meant).norm())
    assert float((edit(said) - meant).norm()) < 0.5 * before
    assert float((edit(meant) - meant).norm()) < 0.2 * before


def test_the_map_is_the_weights(base_folder: Path, erased: Path) -> None:
    base, baked = (load_base(str(one), device=CPU) for one in (base_folder, erased))
    edit = load_map(erased / MAP, base.text_encoder)
    states = text_states(base, PROMPTS[:2]).float()
    layers, changed = reads_text(base.unet), reads_text(baked.unet)
    assert layers.keys() == changed.keys()
    for name, layer in layers.items():
        torch.testing.assert_close(changed[name](states), layer(edit(states)), atol=1e-5, rtol=1e-5)


def test_one_request_after_another(base_folder: Path, erased: Path, tmp_path: Path) -> None:
    """Two at once, and one after the other, are the same map; the record has both."""
    record = run(erased, tmp_path / "next", "clown nose", retained=["beard"])
    both = [Concept(words="eye patch"), Concept(words="clown nose")]
    how: dict[str, Any] = {"seed": 1, "device": CPU, "show": False, "prompts": PROMPTS}
    erase(str(base_folder), both, tmp_path / "once", retained=["beard"], **how)
    first, second = (load_file(tmp_path / name / MAP) for name in ("next", "once"))
    assert all(torch.equal(first[name], second[name]) for name in first)
    told = erased_record(str(tmp_path / "next"))
    assert told is not None and told.base == str(base_folder) and told.retained == ("beard",)
    assert [one.words for one in told.concepts] == ["eye patch", "clown nose"]
    assert len(record["concepts"]) == 2
    for words, why in (("Eye Patches", "erased before"), ("beard", "which is erased")):
        with pytest.raises(InputError, match=why):
            run(tmp_path / "next", tmp_path / "no", words)


def test_the_map_goes_into_the_text_encoder_for_export(
    base_folder: Path, erased: Path, tmp_path: Path
) -> None:
    write_mapped(erased, tmp_path)
    base = load_base(str(base_folder), device=CPU)
    mapped = load_checkpoint(tmp_path / "text_encoder").model
    ids = base.tokenizer("a child, eye patch", padding="max_length", return_tensors="pt").input_ids
    edit = load_map(erased / MAP, base.text_encoder)
    with torch.no_grad():
        expected = edit(base.text_encoder(ids)[0])
        torch.testing.assert_close(mapped(ids)[0], expected, atol=1e-5, rtol=1e-5)
    assert all(
        torch.equal(value, weights(base_folder)[name]) for name, value in weights(tmp_path).items()
    )


@pytest.mark.long
def test_a_killed_erasure_goes_on_to_the_same_weights(
    base_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how: dict[str, Any] = {"method": "relabel", "options": FEW}
    monkeypatch.setattr("unplug.sdk.drawing.diffusion.steps.SAVE_EVERY_S", 0.0)
    run(base_folder, tmp_path / "whole", **how)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_after(patch, TextPairs, 2)
        run(base_folder, tmp_path / "killed", **how)
    assert not (tmp_path / "killed").exists()
    run(base_folder, tmp_path / "killed", **how)
    whole, killed = (weights(tmp_path / name) for name in ("whole", "killed"))
    assert all(torch.equal(whole[name], killed[name]) for name in whole)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_maps_of_another_text_encoder_and_files_that_are_none(
    base_folder: Path, erased: Path, tmp_path: Path
) -> None:
    base = load_base(str(base_folder), device=CPU)
    with torch.no_grad():
        base.text_encoder.get_input_embeddings().weight[0, 0] += 1.0
    with pytest.raises(CheckpointError, match="made for another text encoder"):
        load_map(erased / MAP, base.text_encoder)
    broken = tmp_path / MAP
    tensors, whole = load_file(erased / MAP), (erased / MAP).read_bytes()
    for body, why in (
        (b"", "it is empty"),
        (whole[:-9], "not a map"),
        (b"\x80\x04N.", "not a map"),
    ):
        broken.write_bytes(body)
        with pytest.raises(CheckpointError, match=why):
            load_map(broken, load_base(str(base_folder), device=CPU).text_encoder)
    save_file({"first": tensors["first"]}, broken)
    with pytest.raises(CheckpointError, match="no map of states 32 wide"):
        load_map(broken, load_base(str(base_folder), device=CPU).text_encoder)
    with pytest.raises(CheckpointError, match=r"[Nn]o such file"):
        load_map(tmp_path / "none", base.text_encoder)


def test_a_record_that_is_none_or_of_another_base(erased: Path, tmp_path: Path) -> None:
    record = read_json(erased / ERASURE)
    for wrong in ({"schema": "x"}, {"concepts": [{"words": "?"}]}, {"base": None}, {"map": 7}):
        write_json(tmp_path / ERASURE, record | wrong)
        with pytest.raises(CheckpointError, match="not an erasure's record"):
            erased_record(str(tmp_path))
    write_json(tmp_path / ERASURE, record | {"base": record["base"] | {"sha256": "0" * 64}})
    with pytest.raises(CheckpointError, match="another base than the one"):
        run(tmp_path, tmp_path / "out", "hat")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--concept", "?!"], "no letter or digit"),
        (["--concept", "hat", "--set", "rank=0"], "out of range"),
        (["--concept", "hat", "--set", "rang=1"], "no setting"),
        (["--concept", "hat", "--method", "uec"], "uce"),
        (["--concept", "hat", "--instead", "a hat"], "asks for 'hat' itself"),
        (["--concept", "child"], "say none of"),
    ],
)
def test_one_line_and_nothing_written(
    base_folder: Path, tmp_path: Path, words: list[str], why: str
) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("\n".join(PROMPTS))
    out = tmp_path / "out"
    how = ["--prompts", str(prompts), "--out", str(out)]
    done = CliRunner().invoke(main, ["erase", str(base_folder), *words, *how])
    assert done.exit_code == 2 and done.stderr.count("\n") == 1 and why in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["prompts.txt"]


def test_a_folder_that_is_no_pipeline(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main, ["erase", str(tmp_path), "--concept", "hat", "--out", str(tmp_path / "out")]
    )
    assert done.exit_code == 2 and "not a diffusers folder" in done.stderr


def test_the_command_says_what_it_did(base_folder: Path, tmp_path: Path) -> None:
    words = ["erase", str(base_folder), "--concept", "eye patch", "--set", "rank=1", "--no-probe"]
    done = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["settings"]["rank"] == 1 and said["map"]["bytes"] < 1000
    again = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "out")])
    assert again.exit_code == 0 and "eye patch erased by uce" in again.output
