"""A family: several trunks share one exact head, and one forget step serves all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.once import once
from torch import nn

from unplug.core import CheckpointError, InputError, sha256_file
from unplug.plugins import AgeTrunk, PictureModel, load_checkpoint, save_checkpoint
from unplug.sdk.drawing.inference import load_head
from unplug.sdk.forgetting.tasks import train_age
from unplug.sdk.forgetting.unlearning import (
    ClosedForm,
    device_head,
    forget,
    members_of,
    ranking,
)
from unplug.sdk.forgetting.unlearning.designs import over_trunk, trunk
from unplug.sdk.forgetting.unlearning.designs.family import (
    PENALTIES,
    Kin,
    Link,
    bent,
    best_reference,
    linked,
    ridges,
)
from unplug.sdk.forgetting.unlearning.designs.trunk import TrunkRows, moments
from unplug.sdk.learning.data import load_dataset, make_split
from unplug.sdk.learning.training import ImageSet, Recipe, split_of

from ....cli.calls import refused, run, said
from ....conftest import CPU

SIDE, FORM = 32, ClosedForm(random_features=48)
PERSONAL, CONSENTED = "synth:n=150,subjects=150,seed=1", "synth:n=160,subjects=80,seed=2"
TRUNKS = {
    "small": "16:16x1e1,24x1,32x1:64",
    "nano": "8:12x1e2,16x1:48",
    "other": "12:16x1e2,24x1:64",
}
"""Sizes that are trained within seconds."""
FAMILY = " ".join(f"--family {name}" for name in TRUNKS)
TRAIN = f"train age --data {PERSONAL} --forgettable closed-form --set random_features=48"


def make(root: Path) -> None:
    agreed = load_dataset(CONSENTED, SIDE, show=False)
    split = make_split(agreed, seed=0)
    how: dict[str, Any] = {"device": CPU, "show": False}
    for seed, (name, size) in enumerate(TRUNKS.items()):
        recipe = Recipe(size=size, image_size=SIDE, epochs=7, batch_size=16)
        train_age(agreed, split, recipe, root / name, seed=seed, **how)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        run(f"{TRAIN} {FAMILY} --out family")


@pytest.fixture
def here(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = once(tmp_path_factory, "family", make)
    monkeypatch.chdir(folder)
    return folder


def files(folder: Path) -> dict[str, str]:
    """Every weight file and the sums, by hash."""
    return {
        str(path.relative_to(folder)): sha256_file(path) for path in folder.rglob("*.safetensors")
    }


def test_members_are_models_with_their_own_trunk_and_one_head(here: Path) -> None:
    family = load_checkpoint(here / "family", expect="age")
    design, members = family.record["design"], members_of(family)
    assert {design["reference"], *members} == {*TRUNKS} and len(members) == 2
    head = family.model.classifier.weight
    for name, member in members.items():
        alone, weights = load_checkpoint(here / name).model.state_dict(), member.model.state_dict()
        theirs = [key for key in weights if key.startswith(("stem.", "blocks.", "head."))]
        assert theirs and all(torch.equal(weights[key], alone[key]) for key in theirs)
        assert torch.equal(member.model.classifier.weight, head)
        assert member.model.age_centers.tolist() == family.model.age_centers.tolist()
        assert member.record["metrics"]["test"]["n"] == 30
        assert not (member.path / "design.safetensors").exists()
        assert f", {TRUNKS[name]}, {SIDE} px" in (member.path / "README.md").read_text()


def test_the_lift_of_a_member_is_the_map_before_the_lift_of_the_best(here: Path) -> None:
    """Of pictures that no trunk saw it says about what the best one's says, as is on record."""
    family = load_checkpoint(here / "family")
    data = load_dataset(CONSENTED, SIDE, show=False)
    held = split_of(load_checkpoint(here / "nano"), data)
    pixels = torch.from_numpy(data.pixels(data.indices((*held.validation, *held.test))))
    image_NCHW = pixels.permute(0, 3, 1, 2) / 255.0
    with torch.no_grad():
        wanted_ND = family.model.lift(family.model.pooled(image_NCHW))
        for name, member in members_of(family).items():
            answer_ND = member.model.lift(member.model.pooled(image_NCHW))
            left = (answer_ND - wanted_ND).square().sum()
            explained = 1.0 - float(left / (wanted_ND - wanted_ND.mean(0)).square().sum())
            told = family.record["design"]["members"][name]["explained"]
            # in random directions, of pictures that were added to the map after they had judged it
            assert told - 0.15 < explained < 1.0


def test_the_map_is_a_ridge_regression_by_hand() -> None:
    """argmin of the mean square and p |W s|^2, s the spreads: normal equations over columns with a
    mean of 0, and the mean's answer is the mean.
    """
    rng = np.random.default_rng(0)
    x_NC, y_NK = (torch.from_numpy(rng.normal(size=(60, width))) for width in (3, 2))
    x_NC = x_NC * torch.tensor([1.0, 5.0, 0.2]) + 3.0
    (mean_C, spread_C), penalties = moments(x_NC), (1e-9, 0.5)
    for penalty, (weight_KC, bias_K) in zip(penalties, ridges(x_NC, y_NK, penalties), strict=True):
        z_NC = (x_NC - mean_C) / spread_C
        gram_CC = z_NC.T @ z_NC + penalty * len(z_NC) * torch.eye(3)
        wanted_CK = torch.linalg.solve(gram_CC, z_NC.T @ (y_NK - y_NK.mean(0)))
        assert torch.allclose(weight_KC, wanted_CK.T / spread_C)
        assert torch.allclose(weight_KC @ mean_C + bias_K, y_NK.mean(0))


def kin(name: str, x_NC: torch.Tensor, truth_N: torch.Tensor, *layers: Any) -> Kin:
    """A trunk with these features of seen and of held pictures, under a lift and a head."""
    network = nn.ModuleDict()
    for part, (weight, bias) in zip(("lift", "classifier"), layers, strict=True):
        network[part] = nn.Linear(len(weight[0]), len(weight))
        network[part].load_state_dict({"weight": torch.tensor(weight), "bias": torch.tensor(bias)})
    network.classifier, network.more = network["classifier"], int(len(weight) == 1)
    network.answer_channels = 0  # type: ignore[assignment]
    unread: Any = None
    ids = tuple(map(str, range(len(x_NC))))
    rows = TrunkRows(
        ids=ids,
        people=ids,
        pooled_NC=x_NC,
        truth_N=truth_N,
        committed=dict.fromkeys(ids, b""),
    )
    known: Any = SimpleNamespace(every=rows)
    return Kin(
        name=name,
        trunk=unread,
        model=cast(PictureModel, network),
        known=known,
        seen_ids=ids,
        held_ids=ids,
    )


def test_the_best_trunk_may_be_a_poor_reference() -> None:
    """Its features say t as (s t, s), of a sign s that no other knows: its head is right, and over
    the others it says 0.
    """
    sign_N = torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0, -1.0]).double()
    truth_N = torch.tensor([1.0, 2.0, 3.0] * 2).double()
    secret_NC = torch.stack([sign_N * truth_N, sign_N], dim=1)
    # t = relu(s t + 9 s - 9) + relu(-s t - 9 s - 9)
    apart = ([[1.0, 9.0], [-1.0, -9.0]], [-9.0, -9.0]), ([[1.0, 1.0]], [0.0])
    plain = ([[1.0]], [0.0]), ([[1.0]], [0.125])
    one = kin("one", secret_NC, truth_N, *apart)
    other = kin("other", truth_N[:, None], truth_N, *plain)
    assert linked(one, one) == Link(penalty=0.0, explained=1.0, error=0.0)
    # nothing linear tells one from the other: a map says the mean, 0 there and 2 here
    for reference, member, error in ((one, other, 2.0), (other, one, 2.125 / 3)):
        link = linked(reference, member)
        assert link.error == pytest.approx(error) and abs(link.explained) < 1e-9
    for family in ([one, other], [other, one]):
        best, links = best_reference(family)
        assert best is other and links["other"].error == 0.125 and len(links) == 2


def test_of_labels_the_error_is_the_share_of_wrong_ones_and_the_better_map_breaks_a_tie() -> None:
    x_NC = torch.tensor([[-2.0], [-1.0], [1.0], [2.0]]).double()
    label_N = torch.tensor([0.0, 1.0, 1.0, 1.0]).double()
    layers = ([[1.0], [-1.0]], [0.0, 0.0]), ([[0.0, 1.0], [1.0, 0.0]], [0.0, 0.0])
    reference = kin("a", x_NC, label_N, *layers)
    assert linked(reference, reference).error == 0.25
    double = linked(reference, kin("b", 2.0 * x_NC, label_N, *layers))
    assert double.error == 0.25 and double.penalty == min(PENALTIES)
    assert double.explained == pytest.approx(1.0, abs=1e-5)


def test_a_bent_map_has_the_spread_of_the_reference_and_its_own_answer() -> None:
    generator = torch.Generator().manual_seed(0)
    mine_NC = torch.randn(500, 4, generator=generator, dtype=torch.float64)
    noise_NC = torch.randn(500, 3, generator=generator, dtype=torch.float64)
    theirs_NC = 2.0 * mine_NC[:, :3] + noise_NC + 5.0
    (ridge,) = ridges(mine_NC, theirs_NC, (1.0,))
    link = Link(penalty=1.0, spread=True, own=True, explained=0.5, error=0.0)
    weight_KC, bias_K = bent(ridge, link, mine_NC, theirs_NC, 1)
    mapped_NK = mine_NC @ weight_KC.T + bias_K
    torch.testing.assert_close(mapped_NK[:, :2].std(0), theirs_NC[:, :2].std(0))
    torch.testing.assert_close(mapped_NK[:, :2].mean(0), theirs_NC[:, :2].mean(0))
    assert torch.equal(mapped_NK[:, 2], mine_NC[:, 3])
    plain = bent(ridge, replace(link, spread=False, own=False), mine_NC, theirs_NC, 1)
    assert all(map(torch.equal, plain, ridge))
    # what is explained by next to nothing is not blown up: three times as wide at most
    weak = ridge[0] * 1e-6, ridge[1]
    wide_KC, _ = bent(weak, replace(link, own=False), mine_NC, theirs_NC, 1)
    torch.testing.assert_close(wide_KC, 3.0 * weak[0])


def test_consented_pictures_alone_decide_the_reference_and_the_maps(
    here: Path, tmp_path: Path
) -> None:
    """Other people give other heads over the same trunks and lifts; the order of the trunks gives
    the same bytes.
    """
    family = load_checkpoint(here / "family")
    others = TRAIN.replace("n=150,subjects=150,seed=1", "n=90,subjects=90,seed=4")
    run(f"{others} {FAMILY} --out {tmp_path / 'others'}")
    second = load_checkpoint(tmp_path / "others")
    assert second.sha256 != family.sha256
    for name in ("reference", "errors", "trunk_sha256", "scale"):
        assert second.record["design"][name] == family.record["design"][name]
    for name, member in members_of(family).items():
        mine = members_of(second)[name].record["design"]["trunk_sha256"]
        assert mine == member.record["design"]["trunk_sha256"]
    turned = " ".join(f"--family {name}" for name in reversed(TRUNKS))
    run(f"{TRAIN} {turned} --out {tmp_path / 'turned'}")
    assert files(tmp_path / "turned") == files(here / "family")


def test_members_are_listed_by_what_they_err(here: Path) -> None:
    family = load_checkpoint(here / "family")
    errors = family.record["design"]["errors"]
    assert {*errors} == {*TRUNKS} and ranking(family) == sorted(errors, key=errors.__getitem__)
    names = [name for name in ranking(family) if name != family.record["design"]["reference"]]
    assert [*members_of(family)] == names and ranking(members_of(family)[names[0]]) == []


def test_one_step_is_a_refit_of_every_member(here: Path, tmp_path: Path) -> None:
    """After 1, 10 and 100 requests, one after another: the files are those of a refit."""
    data = load_dataset(PERSONAL, SIDE, show=False)
    model, gone = load_checkpoint(here / "family"), list[str]()
    names, before = split_of(model, data).train, files(here / "family")
    for count in (1, 9, 90):
        asked = names[len(gone) : len(gone) + count]
        gone += asked
        how: dict[str, Any] = {"device": CPU, "show": False}
        price = FORM.price(model, data, asked)
        if count == 9:  # one by one
            for name in asked:
                model = forget(model, data, [name], None, tmp_path / f"{count}-{name}", **how)
        else:
            model = forget(model, data, asked, None, tmp_path / str(count), **how)
            assert model.record["forget"]["cost"]["compute_fraction"] == price
        start = load_checkpoint(here / "family")
        refit = forget(start, data, gone, "retrain", tmp_path / f"refit-{count}", **how)
        assert files(model.path) == files(refit.path)
        assert {*files(model.path).values()}.isdisjoint(before.values())
    row = load_checkpoint(model.path / "members" / next(iter(members_of(model)))).record
    assert row["role"] == "unlearned" and row["forget"]["exact"]


def test_the_command_names_the_members(here: Path, tmp_path: Path) -> None:
    name = split_of(load_checkpoint("family"), load_dataset(PERSONAL, SIDE, show=False)).train[0]
    (tmp_path / "who.txt").write_text(name + "\n")
    asked = f"--data {PERSONAL} --forget {tmp_path / 'who.txt'} --out {tmp_path / 'x'}"
    assert "the same head is in its members: " in run(f"forget family {asked}").output
    member = next(iter(members_of(load_checkpoint("family"))))
    assert "Give the family's folder" in refused(f"forget family/members/{member} {asked}0")
    told = said(f"evaluate family/members/{member} --data {PERSONAL}")
    assert told


def test_the_phone_of_a_member_has_a_head_of_its_own(here: Path, tmp_path: Path) -> None:
    member = next(iter(members_of(load_checkpoint(here / "family")).values()))
    save_checkpoint(AgeTrunk.of(member.model), tmp_path / "trunk", record={}, card="")
    network = load_checkpoint(tmp_path / "trunk").model
    device_head(member, "0" * 64).save(tmp_path / "head.safetensors")
    head = load_head(tmp_path / "head.safetensors")
    image_NCHW = torch.rand(3, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        features_NC = network(image_NCHW)["features"].double().numpy()
        answers = member.model(image_NCHW)
    for name, value in head.answer(features_NC).items():
        np.testing.assert_allclose(value, answers[name].numpy(), atol=2e-3)
    added = head.add("anna", features_NC[0], 31.0)
    assert not np.array_equal(added.sums_KK, head.sums_KK)
    assert np.array_equal(added.remove("anna", features_NC[0], 31.0).sums_KK, head.sums_KK)


@contextmanager
def passes(stop_at: int = -1) -> Iterator[list[int]]:
    """The number of pictures of each pass of a trunk; one of them is killed."""
    made, one = list[int](), trunk.pooled

    def counted(model: PictureModel, data: ImageSet, *, show: bool) -> torch.Tensor:
        if len(made) == stop_at:
            raise KeyboardInterrupt
        made.append(len(data))
        return one(model, data, show=show)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trunk, "pooled", counted)
        yield made


def killed(step: str, line: str) -> None:
    """A command that ends where it takes this step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(over_trunk, step, lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        run(line, code=130)


def test_a_killed_training_goes_on(here: Path, tmp_path: Path) -> None:
    """Wherever it ends no pass is made twice, and the same command gives the same bytes."""
    out, work = tmp_path / "again", tmp_path / ".again.training"
    line = f"{TRAIN} {FAMILY} --out {out}"
    with passes() as made:
        run(f"{TRAIN} {FAMILY} --out {tmp_path / 'whole'}")
    assert len(made) == 4 and made[0] == made[1] == made[2] == 160
    for before in range(4):
        with passes(stop_at=before) as first:
            run(line, code=130)
        assert not out.exists() and len([*work.glob("*.safetensors")]) == before
        if before:
            assert {path.stat().st_mode & 0o777 for path in work.iterdir()} == {0o600}
        with passes() as second:
            killed("best_reference" if before < 3 else "model_card", line)
        with passes() as third:
            run(line)
        assert [*first, *second, *third] == made
        assert files(out) == files(here / "family") == files(tmp_path / "whole")
        assert not work.exists()
        shutil.rmtree(out)


def test_what_a_killed_training_left_is_of_the_same_inputs_or_not_used(
    here: Path, tmp_path: Path
) -> None:
    out, work = tmp_path / "again", tmp_path / ".again.training"
    line = f"{TRAIN} {FAMILY} --out {out}"
    killed("model_card", line.replace("seed=1", "seed=9"))
    killed("model_card", f"{line} --seed 1")
    with passes() as made:
        run(line)
    assert len(made) == 1, "consented features do not depend on people or on the seed"
    assert files(out) == files(here / "family") and not work.exists()
    shutil.rmtree(out)
    killed("model_card", line)
    for path in work.iterdir():
        path.write_bytes(path.read_bytes()[:100])
    said = refused(line)
    assert "cannot go on from it" in said and "restart" in said and not out.exists()
    run(f"{line} --restart")
    assert files(out) == files(here / "family") and not work.exists()


def flat(source: Path, out: Path) -> None:
    """A copy of a trunk whose features say nothing."""
    shutil.copytree(source, out)
    weights = {
        name: value * 0 if name.startswith("head.") and value.is_floating_point() else value
        for name, value in load_file(out / "model.safetensors").items()
    }
    save_file(weights, out / "model.safetensors")
    record = json.loads((out / "unplug.json").read_text())
    record["weights_sha256"] = sha256_file(out / "model.safetensors")
    (out / "unplug.json").write_text(json.dumps(record))


def test_families_that_are_none(here: Path, tmp_path: Path) -> None:
    out = f"--out {tmp_path / 'out'}"
    small = f"train age --data {CONSENTED} --size {TRUNKS['nano']} --epochs 1"
    run(f"{small} --pixels 40 --out {tmp_path / 'wide'}")
    run(f"{small} --pixels 32 --edges 0,18,100 --out {tmp_path / 'two'}")
    run(f"{small.replace('seed=2', 'seed=3')} --pixels 32 --out {tmp_path / 'elsewhere'}")
    run(f"{small.replace(CONSENTED, PERSONAL)} --pixels 32 --out {tmp_path / 'personal'}")
    shutil.copytree(here / "nano", tmp_path / "small")
    flat(here / "other", tmp_path / "flat")
    for more, why in {
        "wide": "it takes 40 pixels where nano takes 32",
        "two": "it has other age groups than nano",
        "elsewhere": "it is not the data that",
        "personal": "it is not the data that",
        "flat": "and at least 20 % are needed",
        "small": "another trunk has the same name",
    }.items():
        line = f"{TRAIN} --family nano --family small --family {tmp_path / more} {out}"
        assert why in refused(line), more
        assert not (tmp_path / "out").exists()
    for line, why in {
        f"{TRAIN} --family nano": "two trunks or more share the head",
        f"{TRAIN} {FAMILY} --trunk nano": "two trunks or more share the head",
        f"train age --data {PERSONAL} {FAMILY}": (
            "it belongs to a design. Give --forgettable closed-form as well"
        ),
        f"train age --data {PERSONAL} --forgettable shards {FAMILY}": "share the head of",
        f"{TRAIN.replace('age', 'classes')} {FAMILY}": "Give a checkpoint of type 'classes'",
        f"{TRAIN} {FAMILY} --edges 0,18,100": "the groups are those of the",
        f"{TRAIN.replace(PERSONAL, CONSENTED)} {FAMILY}": "personal pictures are in it too",
        f"{TRAIN} --family nano --family family": "it cannot be a trunk",
    }.items():
        assert why in refused(f"{line} {out}"), line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("edit", ["head", "trunk", "gone", "name", "facts", "errors"])
def test_a_broken_family_is_refused(here: Path, tmp_path: Path, edit: str) -> None:
    place = tmp_path / "copy"
    shutil.copytree(here / "family", place)
    member = next(iter(members_of(load_checkpoint(place)).values())).path
    record = json.loads((place / "unplug.json").read_text())
    if edit == "gone":
        shutil.rmtree(member)
    elif edit in ("name", "facts", "errors"):
        design = record["design"]
        if edit == "errors":
            design["errors"] = dict.fromkeys(design["errors"], "least")
        elif edit == "name":
            design["members"] = {"../nano": {}}
            design["errors"] = {"../nano": 1.0, design["reference"]: 1.0}
        else:
            design["members"] = dict.fromkeys(design["members"])
        (place / "unplug.json").write_text(json.dumps(record))
    else:
        tensors = load_file(member / "model.safetensors")
        tensors["classifier.bias" if edit == "head" else "lift.bias"] += 0.5
        save_file(tensors, member / "model.safetensors")
        theirs = json.loads((member / "unplug.json").read_text())
        theirs["weights_sha256"] = sha256_file(member / "model.safetensors")
        (member / "unplug.json").write_text(json.dumps(theirs))
    data = load_dataset(PERSONAL, SIDE, show=False)
    with pytest.raises((CheckpointError, InputError)):
        start = load_checkpoint(place)
        gone = split_of(start, data).train[:1]
        forget(start, data, gone, None, tmp_path / "out", device=CPU, show=False)
    assert not (tmp_path / "out").exists()
