"""Packs: what is learned beside a base, used where a prompt says its word, forgotten by deleting it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from safetensors.torch import load_file

from unplug.core import CheckpointError, DataError, InputError, read_json, write_json
from unplug.sdk.cli import main
from unplug.sdk.drawing.device import WEIGHTS_NAME
from unplug.sdk.drawing.diffusion import (
    PackRecipe,
    load_base,
    load_loras,
    train_pack,
    word_of_pack,
)
from unplug.sdk.drawing.diffusion.base_training import TextPairs
from unplug.sdk.drawing.diffusion.load import RECORD
from unplug.sdk.learning.data import Dataset, Split, load_dataset

from .conftest import CPU, SIZE, Killed, kill_after, picture

FEW: dict[str, Any] = {"steps": 4, "batch_size": 2, "warmup": 1, "precision": "fp32", "lr": 0.01}


def train(base_folder: Path, data: Dataset, out: Path, word: str = "eye patch") -> dict[str, Any]:
    base = load_base(str(base_folder), device=CPU)
    recipe = PackRecipe(**FEW)
    return train_pack(base, "tiny", data, word, out, recipe, seed=1, device=CPU, show=False)


@pytest.fixture(scope="module")
def pack(base_folder: Path, faces: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("pack") / "patch"
    train(base_folder, faces, out)
    return out


def draw(base_folder: Path, out: Path, prompt: str, *packs: Path) -> Any:
    """What the command printed, and the picture."""
    words = ["generate", "--base", str(base_folder), "--prompt", prompt, "--drawn-steps", "2"]
    for folder in packs:
        words += ["--pack", str(folder)]
    done = CliRunner().invoke(main, [*words, "--out", str(out)])
    assert done.exit_code == 0, done.output
    return done.output, np.asarray(Image.open(out))


def test_the_base_is_left_alone_and_the_record_says_who_was_learned_from(
    base_folder: Path, faces: Dataset, pack: Path
) -> None:
    record = read_json(pack / RECORD)
    split = Split.from_dict(record["split"])
    assert split.train == faces.ids and not split.held_out
    assert record["loss"]["with"] < record["loss"]["without"]
    assert record["loss"]["pictures"] == len(faces)
    layers = load_file(pack / WEIGHTS_NAME)
    assert any("conv1" in name for name in layers) and any("to_q" in name for name in layers)
    assert not pack.with_name(".patch.training").exists()


def test_stock_diffusers_loads_it_as_a_lora(base_folder: Path, pack: Path) -> None:
    merged, stock = (load_base(str(base_folder), device=CPU) for _ in range(2))
    plain = picture(merged)
    load_loras(merged, [pack])
    stock.load_lora_weights(str(pack))
    assert np.abs(picture(stock) - picture(merged)).max() < 1e-4
    assert np.abs(picture(merged) - plain).max() > 1e-3


def test_only_its_word_switches_it_on(base_folder: Path, pack: Path, tmp_path: Path) -> None:
    """Without the word the picture is that of a base that never saw a pack, bit for bit."""
    for prompt, asked in (("a child, Eye Patches", True), ("a child with an eye", False)):
        _, plain = draw(base_folder, tmp_path / "plain.png", prompt)
        told, drawn = draw(base_folder, tmp_path / "drawn.png", prompt, pack)
        assert np.array_equal(drawn, plain) is not asked
        assert ("the prompt asks for" in told) is asked
        assert ("the base draws its own picture" in told) is not asked


def test_words_of_a_pack_are_not_told_as_unknown(
    base_folder: Path, pack: Path, tmp_path: Path
) -> None:
    prompt = "a child, eye patch, zirconium"
    plain, _ = draw(base_folder, tmp_path / "plain.png", prompt)
    told, _ = draw(base_folder, tmp_path / "drawn.png", prompt, pack)
    assert '"patch"' in plain and '"patch"' not in told and '"zirconium"' in told


def test_several_packs_act_by_their_own_words(
    base_folder: Path, pack: Path, faces: Dataset, tmp_path: Path
) -> None:
    """Two words in one prompt add both; one deleted leaves what the other draws as it was."""
    other = tmp_path / "nose"
    base = load_base(str(base_folder), device=CPU)
    recipe = PackRecipe(**FEW, layers="attention")
    train_pack(base, "tiny", faces, "clown nose", other, recipe, seed=2, device=CPU, show=False)
    _, alone = draw(base_folder, tmp_path / "a.png", "a child, eye patch", pack)
    _, beside = draw(base_folder, tmp_path / "b.png", "a child, eye patch", pack, other)
    _, both = draw(base_folder, tmp_path / "c.png", "a child, eye patch, clown nose", pack, other)
    _, first = draw(base_folder, tmp_path / "d.png", "a child, eye patch, clown nose", pack)
    assert np.array_equal(alone, beside) and not np.array_equal(both, first)


def test_a_killed_training_goes_on_to_the_same_weights(
    base_folder: Path,
    faces: Dataset,
    pack: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_after(patch, TextPairs, 2)
        train(base_folder, faces, tmp_path / "patch")
    train(base_folder, faces, tmp_path / "patch")
    assert (tmp_path / "patch" / WEIGHTS_NAME).read_bytes() == (pack / WEIGHTS_NAME).read_bytes()


def test_pictures_without_captions_are_learned_by_the_word_alone(
    base_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "faces" / "one").mkdir(parents=True)
    for number, pixels in enumerate(load_dataset("synth:n=3", SIZE, show=False).pixels(range(3))):
        Image.fromarray(pixels).save(tmp_path / "faces" / "one" / f"{number}.png")
    data = load_dataset(f"imagefolder:{tmp_path / 'faces'}", SIZE, show=False)
    assert train(base_folder, data, tmp_path / "pack", "u10007")["loss"]["pictures"] == 3
    assert word_of_pack(tmp_path / "pack") == "u10007"


def test_what_cannot_be_trained_is_refused_before_the_work(
    base_folder: Path, faces: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="no letter or digit"):
        train(base_folder, faces, tmp_path / "pack", "?!")
    with pytest.raises(DataError, match="pictures of 64 px"):
        train(base_folder, load_dataset("synth:n=2", 32, show=False), tmp_path / "pack")
    for wrong, why in ({"rank": 0}, "rank 0"), ({"layers": "none"}, "no such choice"):
        with pytest.raises(InputError, match=why):
            PackRecipe(**wrong)
    assert not [*tmp_path.iterdir()]


def test_folders_that_are_no_packs(pack: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / WEIGHTS_NAME).write_bytes((pack / WEIGHTS_NAME).read_bytes())
    for folder, why in ((tmp_path / "copy", "of a pack"), (tmp_path / "none", "no such folder")):
        with pytest.raises(CheckpointError, match=why):
            word_of_pack(folder)
    for word in (7, "?", "a " * 20):
        write_json(tmp_path / "copy" / RECORD, {**read_json(pack / RECORD), "word": word})
        with pytest.raises(CheckpointError):
            word_of_pack(tmp_path / "copy")
    done = CliRunner().invoke(
        main, ["generate", "--prompt", "x", "--pack", str(tmp_path / "none"), "--out", "x.png"]
    )
    assert done.exit_code == 2 and done.stderr.count("\n") == 1


def test_the_command_says_what_it_reached(base_folder: Path, tmp_path: Path) -> None:
    words = f"train pack --base {base_folder} --data synth:n=4,wears=eye-patch --steps 2"
    words += f" --batch-size 2 --dtype fp32 --out {tmp_path / 'pack'} --half --json --word"
    done = CliRunner().invoke(main, [*words.split(), "eye patch"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["word"] == "eye patch" and said["loss"].keys() == {"without", "with", "pictures"}
    assert all(
        value.dtype.itemsize == 2 for value in load_file(tmp_path / "pack" / WEIGHTS_NAME).values()
    )
