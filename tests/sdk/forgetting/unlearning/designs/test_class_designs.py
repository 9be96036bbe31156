"""Exact designs over classes: who leaves leaves no trace, and labels that the trunk never had."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.once import once

from unplug.core import CheckpointError, sha256_file
from unplug.plugins import Checkpoint, Classifier, load_checkpoint
from unplug.sdk.forgetting.tasks import ClassTask
from unplug.sdk.forgetting.unlearning import members_of
from unplug.sdk.forgetting.unlearning.designs.over_trunk import _over
from unplug.sdk.learning.data import load_dataset

from ....cli.calls import refused, run
from ....conftest import CPU
from ...tasks.test_classes import COLOURS, draw

DATA = "--data imagefolder:pictures"
SIDE = 32
DESIGNS = {"closed-form": "", "shards": "--set shards=3 --set slices=2 --set epochs=6"}


def make(root: Path) -> None:
    rng = np.random.default_rng(1)
    for part, count in (("pictures", 12), ("agreed", 30)):
        for name, colour in COLOURS.items():
            (root / part / name).mkdir(parents=True)
            for number in range(count):
                place = root / part / name / f"{part}-{number:02d}.png"
                Image.fromarray(draw(rng, colour)).save(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        # four pixels a side are left: with two, so few pictures teach it little
        trunk = "--size nano:212211 --pixels 32 --epochs 16 --out trunk"
        run(f"train classes --data imagefolder:agreed {trunk}")
        for design, settings in DESIGNS.items():
            run(
                f"train classes {DATA} --forgettable {design} --trunk trunk {settings} --out {design}"
            )
        names = sorted(load_checkpoint(root / "shards").record["split"]["train"])
        for count in (1, 5):
            (root / f"forget-{count}.txt").write_text("\n".join(names[:count]) + "\n")


@pytest.fixture
def here(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = once(tmp_path_factory, "class-designs", make)
    monkeypatch.chdir(folder)
    return folder


def same(one: Checkpoint, other: Checkpoint) -> bool:
    weights = one.model.state_dict()
    return all(
        torch.equal(value, weights[name]) for name, value in other.model.state_dict().items()
    )


@pytest.mark.parametrize("design", DESIGNS)
def test_who_leaves_leaves_no_trace(here: Path, design: str, tmp_path: Path) -> None:
    original = load_checkpoint(here / design, expect="classes")
    assert isinstance(original.model, Classifier) and original.model.lift is not None
    assert original.record["labels"] == list(COLOURS)
    assert original.record["metrics"]["test"]["accuracy"] > 0.8
    asked = f"{DATA} --forget forget-1.txt"
    run(f"forget {design} {asked} --out {tmp_path}/one")
    asked = f"{DATA} --forget forget-5.txt"
    run(f"forget {tmp_path}/one {asked} --out {tmp_path}/five")
    run(f"forget {design} {asked} --method retrain --out {tmp_path}/refit")
    five, refit = load_checkpoint(tmp_path / "five"), load_checkpoint(tmp_path / "refit")
    assert same(five, refit) and not same(five, original)
    assert five.record["labels"] == list(COLOURS)


def test_one_step_takes_a_person_out_of_every_member_of_a_family(
    here: Path, tmp_path: Path
) -> None:
    """Labels in two sizes: after somebody left every file is a refit's, and what a member answers
    is what its own features say to the new head.
    """
    shutil.copytree(here / "pictures", tmp_path / "pictures")
    rows = [
        f"pictures/{path.parent.name}/{path.name},{path.parent.name},{path.stem}\n"
        for path in sorted((tmp_path / "pictures").rglob("*.png"))
    ]
    (tmp_path / "people.csv").write_text("path,label,subject\n" + "".join(rows))
    data = f"--data csv:{tmp_path}/people.csv"
    little = "train classes --data imagefolder:agreed --size 8:12x1e2,16x1:48 --pixels 32"
    run(f"{little} --epochs 8 --out {tmp_path}/little")
    family = f"--family trunk --family {tmp_path}/little --set random_features=48"
    run(f"train classes {data} --forgettable closed-form {family} --out {tmp_path}/family")
    original = load_checkpoint(tmp_path / "family", expect="classes")
    errors = original.record["design"]["errors"]
    assert {*errors} == {"trunk", "little"} and all(0.0 <= error < 0.3 for error in errors.values())

    dataset = load_dataset(f"csv:{tmp_path}/people.csv", SIDE, labelled=(), show=False)
    people = {sample.id: sample.subject for sample in dataset.samples}
    gone = people[original.record["split"]["train"][0]]
    (tmp_path / "who.txt").write_text(f"subject:{gone}\n")
    asked = f"{data} --forget {tmp_path}/who.txt"
    run(f"forget {tmp_path}/family {asked} --out {tmp_path}/after")
    run(f"forget {tmp_path}/family {asked} --method retrain --out {tmp_path}/refit")
    after = load_checkpoint(tmp_path / "after")
    assert after.record["forget"]["samples"] == 3 and after.record["forget"]["refitted"] is None
    hashes = [
        {
            str(path.relative_to(tmp_path / name)): sha256_file(path)
            for path in (tmp_path / name).rglob("*.safetensors")
        }
        for name in ("family", "after", "refit")
    ]
    assert len(hashes[0]) == 3 and hashes[1] == hashes[2]
    assert {*hashes[0].values()}.isdisjoint(hashes[1].values())

    picture_NCHW = torch.rand(5, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    (member,) = members_of(after).values()
    (before,) = members_of(original).values()
    head, model = after.model.classifier, member.model
    with torch.no_grad():
        lifted_ND = torch.relu(model.pooled(picture_NCHW) @ model.lift.weight.T + model.lift.bias)
        answers = model(picture_NCHW)["logits"]
        assert torch.allclose(answers, lifted_ND @ head.weight.T + head.bias, atol=1e-4)
        assert not torch.allclose(answers, before.model(picture_NCHW)["logits"], atol=1e-4)
    assert member.record["labels"] == list(COLOURS) and member.record["role"] == "unlearned"
    assert member.record["metrics"]["test"]["accuracy"] > 0.8


def test_the_head_is_the_ridge_solution_by_hand(here: Path) -> None:
    """W = (A'A + lam I)^-1 A'Y over relu(L x + l) of the pictures that are in."""
    checkpoint = load_checkpoint(here / "closed-form")
    model, facts = checkpoint.model, checkpoint.record["design"]
    data = load_dataset("imagefolder:pictures", SIDE, show=False)
    ids = checkpoint.record["split"]["train"]
    picture_NCHW = torch.from_numpy(
        data.pixels(data.indices(ids)).transpose(0, 3, 1, 2).astype(np.float32) / 255.0
    )
    with torch.no_grad():
        pooled_NC = model.pooled(picture_NCHW).double()
        pooled_NC = (pooled_NC / facts["grid"]).round() * facts["grid"]
        lifted_ND = (pooled_NC @ model.lift.weight.double().T + model.lift.bias.double()).relu()
    label_N = [data.samples[int(row)].label for row in data.indices(ids)]
    target_NG = torch.eye(3, dtype=torch.float64)[label_N]
    one_ND = torch.cat([lifted_ND, torch.ones(len(ids), 1)], dim=1)
    penalty = 0.1 * len(ids) * torch.eye(one_ND.shape[1], dtype=torch.float64)
    penalty[-1, -1] = 0.0
    solved_DG = torch.linalg.solve(one_ND.T @ one_ND + penalty, one_ND.T @ target_NG)
    expected_GD = facts["scale"] * solved_DG[:-1].T
    assert torch.allclose(model.classifier.weight.double(), expected_GD, atol=1e-3, rtol=1e-3)


def test_labels_that_the_trunk_never_had(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told before any picture is decoded."""
    folder = tmp_path / "more"
    for name, colour in {**COLOURS, "snow": (240, 240, 250)}.items():
        (folder / name).mkdir(parents=True)
        for number in range(4):
            picture = draw(np.random.default_rng(number), colour)
            Image.fromarray(picture).save(folder / name / f"{number}.png")
    train = f"train classes --data imagefolder:{folder} --forgettable closed-form"
    monkeypatch.setattr("unplug.sdk.learning.data.dataset.fingerprints", None)
    assert "label 'snow', which the model never had" in refused(f"{train} --trunk trunk --out x")
    assert not (here / "x").exists()


def test_a_trunk_is_a_classifier_of_ours(here: Path) -> None:
    run(f"train age --data synth:n=24,subjects=24 --size nano --pixels {SIDE} --epochs 1 --out age")
    train = f"train classes {DATA} --forgettable closed-form --trunk"
    assert "Give a checkpoint of type 'classes'" in refused(f"{train} age --out x")
    assert "it cannot be a trunk. Give a classifier of our sizes" in refused(
        f"{train} closed-form --trunk-data imagefolder:agreed --out x"
    )
    assert not (here / "x").exists()
    agreed = load_dataset("imagefolder:agreed", SIDE, show=False)
    with pytest.raises(CheckpointError, match="it cannot be a trunk"):
        _over(ClassTask, load_checkpoint(here / "closed-form"), agreed, 8)


def test_a_head_over_classes_answers_finite_logits_by_a_bounded_factor(here: Path) -> None:
    """Laplace's rule keeps the factor finite where every held picture is right."""
    for name in ("closed-form", "shards"):
        model = load_checkpoint(here / name).model.to(CPU)
        logits = model(torch.rand(2, 3, SIDE, SIDE))["logits"]
        assert logits.shape == (2, 3) and bool(logits.isfinite().all())
    scale = load_checkpoint(here / "closed-form").record["design"]["scale"]
    assert 1.0 <= scale < 100.0
