"""The judge: what it is asked, what it learns, and where it is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.studies.control import judge as module
from benchmarks.studies.control.errors import drawn_landmarks
from benchmarks.studies.control.judge import (
    ATTRIBUTES,
    IGNORED,
    Faces,
    Judge,
    JudgeLoss,
    agreement,
    examine,
    face_words,
    named_words,
    targets,
    train_judge,
    vocabulary,
    words_of,
)

from unplug.sdk.drawing.diffusion import StepRecipe, train_steps
from unplug.sdk.learning.data import Dataset, load_dataset, parse_spec
from unplug.sdk.learning.data.prompts import _EXPRESSION, _PERSON, prompt_of
from unplug.sdk.learning.faces import attributes_of

pytestmark = pytest.mark.study

CPU = torch.device("cpu")
QUICK = StepRecipe(steps=2, batch_size=4, warmup=1, precision="fp32")


@pytest.fixture(scope="module")
def faces() -> Dataset:
    return load_dataset("synth:n=24,subjects=24,seed=6", 64, show=False)


def test_every_named_word_stands_in_the_prompt_and_no_other(faces: Dataset) -> None:
    source = parse_spec(faces.spec)
    seen = set()
    for sample, words in zip(faces.samples, words_of(faces), strict=True):
        prompt = prompt_of(attributes_of(source.params(sample.payload)))
        named = named_words(words)
        said = named | {
            "age": _PERSON[named["age"]],
            "expression": _EXPRESSION[named["expression"]],
        }
        assert all(word in prompt for word in said.values()), (prompt, said)
        assert set(words) - set(named) <= {"beard", "glasses"}
        seen |= set(named)
    assert seen == set(ATTRIBUTES)


def test_a_bald_head_has_no_hair_colour() -> None:
    attributes = {"background": "teal plain", "hair_style": "bald", "hair_colour": "grey"}
    rest = dict.fromkeys(("age", "expression", "skin", "eyes", "beard", "glasses", "clothes"), "x")
    assert (
        "hair colour" not in face_words(attributes | rest)
        and face_words(attributes | rest)["hair style"] == "bald"
    )


def test_only_synthetic_faces_have_words_and_drawn_landmarks(tmp_path: Path) -> None:
    from PIL import Image

    Image.new("RGB", (64, 64)).save(tmp_path / "a.png")
    (tmp_path / "a.txt").write_text("nothing")
    other = load_dataset(f"captions:{tmp_path}", 64, show=False)
    assert words_of(other) is None and drawn_landmarks(other, [0]) is None


def test_drawn_landmarks_are_the_renderers(faces: Dataset) -> None:
    from unplug.sdk.learning.faces import LANDMARK_NAMES, render

    landmarks = drawn_landmarks(faces, [3, 1])
    assert landmarks is not None and landmarks.shape == (2, len(LANDMARK_NAMES), 2)
    np.testing.assert_array_equal(
        landmarks[0], render(parse_spec(faces.spec).params(3), 64).landmarks
    )


def test_targets_by_hand() -> None:
    words = [{"skin": "fair", "eyes": "blue"}, {"skin": "tan"}, {"skin": "deep", "eyes": "grey"}]
    known = vocabulary(words[:2], ("skin", "eyes", "glasses"))
    assert known == {"skin": ("fair", "tan"), "eyes": ("blue",)}
    assert targets(words, known).tolist() == [[0, 0], [1, IGNORED], [IGNORED, IGNORED]]


def test_agreement_by_hand() -> None:
    read = {"skin": ["fair", "tan", "tan"], "glasses": ["none", "gold glasses", "none"]}
    wanted = [
        {"skin": "fair"},
        {"skin": "fair", "glasses": "gold glasses"},
        {"glasses": "gold glasses"},
    ]
    shares = agreement(read, wanted)
    np.testing.assert_array_equal(
        [shares["skin"], shares["glasses"]], [[1.0, 0.0, np.nan], [np.nan, 1.0, 0.0]]
    )


def test_the_loss_leaves_out_what_a_face_does_not_show() -> None:
    torch.manual_seed(0)
    model = JudgeLoss(Judge({"skin": ("a", "b"), "eyes": ("c", "d")})).eval()
    image, generator = torch.rand(2, 3, 64, 64), torch.Generator()
    with torch.no_grad():
        logits = model.judge(image)
        both = model(image, torch.tensor([[0, 1], [1, IGNORED]]), generator)
        one = model(image, torch.tensor([[0, IGNORED], [1, IGNORED]]), generator)
    skin = torch.nn.functional.cross_entropy(logits["skin"], torch.tensor([0, 1]))
    eyes = torch.nn.functional.cross_entropy(logits["eyes"][:1], torch.tensor([1]))
    assert float(both) == pytest.approx(float((skin + eyes) / 2)) and float(one) == pytest.approx(
        float(skin)
    )


def test_it_learns_a_colour_in_one_place_and_reads_unseen_pictures() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (160, 32, 32, 3)).astype(np.uint8)
    label = rng.integers(0, 3, 160)
    for index, colour in enumerate(label):
        images[index, 24:, 8:24] = 40
        images[index, 24:, 8:24, colour] = 220
    words = [{"clothes": ("red", "green", "blue")[colour]} for colour in label]
    known = vocabulary(words, ("clothes",))
    torch.manual_seed(0)
    draw = Faces(images, np.arange(120), targets(words[:120], known), CPU)
    recipe = StepRecipe(steps=25, batch_size=16, lr=4e-3, warmup=5, ema=0.9, precision="fp32")
    done = train_steps(JudgeLoss(Judge(known)), draw, recipe, seed=0, device=CPU, show=False)
    features, read = examine(done.model.judge, images[120:], CPU)
    right = agreement(read, words[120:])["clothes"]
    assert features.shape == (40, 192) and features.dtype == np.float64
    assert right.mean() > 0.7, "guessing is right in a third"


def test_faces_are_drawn_with_their_own_words() -> None:
    images = np.stack([np.full((32, 32, 3), value, np.uint8) for value in (10, 90, 200)])
    draw = Faces(images, np.array([2, 0]), np.array([[7], [8]]), CPU)
    batch = draw(torch.Generator().manual_seed(1), 12)
    value_B = (batch["image_BCHW"].mean(dim=(1, 2, 3)) * 255).round().int().tolist()
    assert {
        (value, int(target))
        for value, target in zip(value_B, batch["target_BA"][:, 0], strict=True)
    } == {(200, 7), (10, 8)}


def test_large_pictures_are_averaged_down() -> None:
    judge = Judge({"skin": ("a", "b")}).eval()
    small = torch.rand(1, 3, 128, 128)
    with torch.no_grad():
        torch.testing.assert_close(
            judge.features(small),
            judge.features(small.repeat_interleave(2, 2).repeat_interleave(2, 3)),
        )


# Where it is kept


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "diffusion"


def train(faces: Dataset, recipe: StepRecipe = QUICK) -> module.TrainedJudge:
    return train_judge(faces, words_of(faces), faces.ids[:16], recipe, device=CPU, show=False)


def test_it_is_trained_once_and_a_broken_file_again(
    faces: Dataset, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, whole = set[int](), Faces.__init__

    def spy(self: Faces, images: np.ndarray, rows: np.ndarray, *rest: Any) -> None:
        seen.update(int(row) for row in rows)
        whole(self, images, rows, *rest)

    monkeypatch.setattr(Faces, "__init__", spy)
    first = train(faces)
    assert seen == {int(row) for row in faces.rows[:16]}  # no other faces than it may learn from
    assert sorted(path.suffix for path in cache.iterdir() if path.name.startswith("judge")) == [
        ".people",
        ".safetensors",
    ]
    with monkeypatch.context() as patch:
        patch.setattr(module, "train_steps", lambda *_, **__: pytest.fail("it was trained again"))
        assert train(faces).sha256 == first.sha256
    (path,) = cache.glob("judge-*.safetensors")
    path.write_bytes(path.read_bytes()[:-100])
    again = train(faces)
    assert again.sha256 != "" and again.samples == 16
    pixels = faces.pixels(range(4))
    np.testing.assert_array_equal(
        examine(first.judge, pixels, CPU)[0], examine(again.judge, pixels, CPU)[0]
    )
    train(faces, StepRecipe(steps=1, batch_size=4, warmup=1, precision="fp32"))
    train_judge(faces, words_of(faces), faces.ids[:15], QUICK, device=CPU, show=False)
    # other recipes and other faces have their own
    assert len(list(cache.glob("judge-*.safetensors"))) == 3
