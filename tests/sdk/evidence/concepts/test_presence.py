"""Judges of one concept: what they learn from, what they say of themselves, and where they are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from unplug.core import CheckpointError, DataError, OutputError
from unplug.sdk.drawing.diffusion import load_base, to_image
from unplug.sdk.evidence.concepts import (
    ConceptPairs,
    Judge,
    JudgeRecipe,
    load_judge,
    pairs_of_draws,
    pairs_of_folders,
    pairs_of_spec,
    presence_rate,
    save_judge,
    through,
    train_judge,
)
from unplug.sdk.evidence.concepts import pairs as pairs_module
from unplug.sdk.evidence.concepts.presence import RECORD, WEIGHTS, PresenceNet, Views
from unplug.sdk.learning.data import load_dataset

from ...drawing.diffusion.conftest import tiny_pipeline

CPU = torch.device("cpu")
QUICK = JudgeRecipe(
    steps=30, batch_size=16, lr=4e-3, warmup=3, ema=0.8, precision="fp32", held_out=0.25
)


def squares(count: int, *, shown: bool) -> torch.Tensor:
    """Noise, with a bright square in one corner where the concept is shown."""
    image = torch.rand(count, 3, 32, 32, generator=torch.Generator().manual_seed(3)) - 0.5
    if shown:
        image[:, :, 4:14, 4:14] = 1.0
    return image


PAIRS = ConceptPairs(
    with_NCHW=squares(40, shown=True), without_NCHW=squares(40, shown=False), source="squares"
)


@pytest.fixture(scope="module")
def judge() -> Judge:
    return train_judge(PAIRS, "square", QUICK, seed=1, device=CPU)


def test_it_sees_the_concept_and_knows_its_own_errors(judge: Judge) -> None:
    fresh = torch.rand(20, 3, 32, 32) - 0.5
    shown = fresh.clone()
    shown[:, :, 4:14, 4:14] = 1.0
    assert (judge.presence(shown) > 0.5).all() and (judge.presence(fresh) < 0.5).all()
    facts = judge.facts
    assert facts.trained == (30, 30) and facts.held_out == (10, 10)
    # Clopper and Pearson's for 10 of 10 and 0 of 10: .025 ** (1 / 10)
    assert facts.recall.value == 1.0 and facts.recall.low == pytest.approx(0.69150, abs=1e-5)
    assert facts.false_alarms.high == pytest.approx(1 - 0.69150, abs=1e-5)
    again = train_judge(PAIRS, "square", QUICK, seed=1, device=CPU)
    assert np.array_equal(again.presence(shown), judge.presence(shown))


def test_a_concept_that_is_not_there_is_not_found() -> None:
    """Both sides alike: what it calls present on one it calls present on the other."""
    same = ConceptPairs(
        with_NCHW=PAIRS.without_NCHW, without_NCHW=PAIRS.without_NCHW, source="noise"
    )
    facts = train_judge(same, "nothing", QUICK, seed=2, device=CPU).facts
    assert facts.recall == facts.false_alarms


def test_pictures_of_a_pair_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """In batches, and on one side of what is held out."""
    number = torch.arange(40.0)[:, None, None, None].expand(40, 3, 32, 32) / 40
    drawn = Views(number, number, CPU)
    monkeypatch.setattr(
        torch,
        "rand",
        lambda *size, generator: (
            torch.full(size, 0.5) if len(size) > 1 else torch.linspace(0, 0.99, size[0])
        ),
    )
    batch = drawn(torch.Generator().manual_seed(1), 8)
    value_B = batch["image_BCHW"][:, 0, 0, 0]
    assert torch.equal(value_B[:4], value_B[4:]) and len(value_B.unique()) == 4
    assert batch["present_B"].tolist() == [1.0] * 4 + [0.0] * 4


def test_pictures_come_as_files_have_them_or_as_tensors(judge: Judge) -> None:
    pixels = np.full((2, 32, 32, 3), 128, np.uint8)
    pixels[0, 4:14, 4:14] = 255
    pictures = [Image.fromarray(one) for one in pixels]
    assert np.array_equal(judge.presence(pictures), judge.presence(to_image(pixels, CPU)))
    with pytest.raises(DataError, match="several sizes"):
        judge.presence([*pictures, Image.new("RGB", (16, 16))])
    rate = presence_rate([pictures[0], pictures[1], pictures[1], pictures[1]], judge)
    assert rate.value == 0.25 and rate.low == pytest.approx(0.00631, abs=1e-5)


def test_a_saved_judge_says_the_same(judge: Judge, tmp_path: Path) -> None:
    save_judge(judge, tmp_path / "judge")
    assert {path.name for path in (tmp_path / "judge").iterdir()} == {RECORD, WEIGHTS}
    again = load_judge(tmp_path / "judge", device=CPU)
    assert again.facts == judge.facts
    assert np.array_equal(again.presence(PAIRS.with_NCHW), judge.presence(PAIRS.with_NCHW))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(OutputError):
        save_judge(judge, tmp_path / "mine")


def test_folders_that_are_no_judges(judge: Judge, tmp_path: Path) -> None:
    save_judge(judge, folder := tmp_path / "judge")
    record, weights = json.loads((folder / RECORD).read_text()), load_file(folder / WEIGHTS)
    first = max(weights, key=lambda name: weights[name].ndim)
    harms: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"schema": "unplug-presence/9"}, weights),
        ({"recall": None}, weights),
        ({"surplus": 1}, weights),
        ({"size": "32"}, weights),
        ({}, {**weights, first: weights[first][:1].clone()}),
        ({}, {**weights, first: torch.full_like(weights[first], torch.nan)}),
        ({}, {name: value for name, value in weights.items() if name != first}),
    ]
    for changed, tensors in harms:
        (folder / RECORD).write_text(json.dumps(record | changed))
        save_file(tensors, folder / WEIGHTS)
        with pytest.raises(CheckpointError):
            load_judge(folder, device=CPU)
    with pytest.raises(CheckpointError):
        load_judge(tmp_path / "none", device=CPU)


@pytest.mark.parametrize(
    ("shown", "plain", "why"),
    [
        (squares(19, shown=True), squares(40, shown=False), "19 pictures"),
        (squares(20, shown=True), squares(20, shown=False)[..., :16, :16], "32 and 16 px"),
        (torch.zeros(20, 3, 40, 40), torch.zeros(20, 3, 40, 40), "multiple of 16"),
    ],
)
def test_pictures_that_nothing_can_be_learned_from(
    shown: torch.Tensor, plain: torch.Tensor, why: str
) -> None:
    pairs = ConceptPairs(with_NCHW=shown, without_NCHW=plain, source="x")
    with pytest.raises(DataError, match=why):
        train_judge(pairs, "x", QUICK, seed=0, device=CPU)


def test_pairs_of_drawn_faces_are_those_that_differ() -> None:
    """Glasses are put on whoever has none and is old enough; the others are no pairs."""
    plain = "synth:n=30,subjects=30,seed=2"
    pairs = pairs_of_spec(f"{plain},wears=glasses", plain, 32)
    data = load_dataset(plain, 32, show=False)
    without_30 = to_image(data.pixels(range(30)), CPU)
    assert 0 < len(pairs.with_NCHW) == len(pairs.without_NCHW) < 30
    assert all((without_30 == one).flatten(1).all(dim=1).any() for one in pairs.without_NCHW)
    changed = (pairs.with_NCHW != pairs.without_NCHW).any(dim=1).float().mean(dim=(1, 2))
    assert ((changed > 0) & (changed < 0.5)).all()
    for other, why in ((plain, "are those of"), ("synth:n=9,subjects=9,seed=2", "other samples")):
        with pytest.raises(DataError, match=why):
            pairs_of_spec(f"{plain}", other, 32)


def test_pairs_of_anybodys_folders(tmp_path: Path) -> None:
    for name, count in (("with", 3), ("without", 2)):
        (tmp_path / name / "all").mkdir(parents=True)
        for number in range(count):
            Image.new("RGB", (40, 40), (60 * number, 0, 0)).save(
                tmp_path / name / "all" / f"{number}.png"
            )
    pairs = pairs_of_folders(tmp_path / "with", tmp_path / "without", 32)
    assert pairs.with_NCHW.shape == (3, 3, 32, 32) and len(pairs.without_NCHW) == 2
    with pytest.raises(DataError):
        pairs_of_folders(tmp_path / "with", tmp_path / "none", 32)


def test_pairs_of_a_base_share_prompt_and_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_pipeline(tmp_path / "tokenizer").save_pretrained(tmp_path / "base")
    base = load_base(str(tmp_path / "base"), device=CPU)
    calls, draw = [], pairs_module.generate

    def noted(pipe: Any, prompts: Any, **how: Any) -> Any:
        calls.append((list(prompts), how["seeds"], how["steps"]))
        return draw(pipe, prompts, **how)

    monkeypatch.setattr(pairs_module, "generate", noted)
    pairs = pairs_of_draws(base, ["a child", "an adult"], "a hat", seeds=[4, 5], steps=1)
    assert calls == [
        (["a child, a hat", "an adult, a hat"], [4, 5], 1),
        (["a child", "an adult"], [4, 5], 1),
    ]
    assert pairs.with_NCHW.shape == (2, 3, 64, 64)
    assert not torch.equal(pairs.with_NCHW, pairs.without_NCHW)
    seen = through(base, pairs.with_NCHW)
    with torch.no_grad():
        assert torch.allclose(seen, base.vae(pairs.with_NCHW).sample.clamp(-1, 1), atol=1e-5)


def test_large_pictures_are_judged_at_a_smaller_side() -> None:
    net, image = PresenceNet().eval(), torch.rand(1, 3, 256, 256)
    small = torch.nn.functional.avg_pool2d(image, 2)
    with torch.no_grad():
        assert torch.allclose(net(image), net(small), atol=1e-5)
