"""The closed form: what it forgets it forgets bit for bit, whatever the order, and it refuses what would not be exact."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

from unplug.core import CheckpointError, DataError, InputError, UnplugError, sha256_file
from unplug.plugins import SUMS, Checkpoint, load_checkpoint
from unplug.sdk.cli import main
from unplug.sdk.data import Dataset, Split, load_dataset, make_split
from unplug.sdk.training import Recipe, split_of, to_tensors
from unplug.sdk.unlearning import ClosedForm, build_design, forget
from unplug.sdk.unlearning.designs.closed_form import Contribution, HeadSums, check_apart, contribution, load_sums

PERSONAL, CONSENTED = "synth:n=90,subjects=30,seed=1", "synth:n=80,subjects=40,seed=2"
RECIPE = Recipe(size="nano", image_size=32, epochs=1)
CPU = torch.device("cpu")
FORM = ClosedForm(random_features=48)


@pytest.fixture(scope="module")
def personal() -> Dataset:
    return load_dataset(PERSONAL, 32, show=False)


@pytest.fixture(scope="module")
def consented() -> Dataset:
    return load_dataset(CONSENTED, 32, show=False)


@pytest.fixture(scope="module")
def split(personal: Dataset) -> Split:
    return make_split(personal, seed=0)


@pytest.fixture(scope="module")
def original(personal: Dataset, consented: Dataset, split: Split, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    out = tmp_path_factory.mktemp("closed") / "age"
    return FORM.train(personal, split, RECIPE, out, trunk_data=consented, device=CPU, show=False)


def without(original: Checkpoint, dataset: Dataset, ids: Sequence[str], out: Path, method: str | None = None) -> Checkpoint:
    return forget(original, dataset, ids, method, out, device=CPU, show=False)


def same(first: Checkpoint, second: Checkpoint) -> bool:
    return all(torch.equal(value, second.model.state_dict()[name]) for name, value in first.model.state_dict().items())


def test_forgetting_gives_the_model_of_those_who_are_left(
    original: Checkpoint, personal: Dataset, split: Split, tmp_path: Path
) -> None:
    """In two requests, in one, or refitted from the others' pictures: the same weights and the same sums, bit for bit."""
    first, second = split.train[:4], split.train[7:9]
    step = without(without(original, personal, first, tmp_path / "one"), personal, second, tmp_path / "two")
    at_once = without(original, personal, [*second, *first], tmp_path / "both")
    refitted = without(original, personal, [*first, *second], tmp_path / "oracle", "retrain")
    assert same(step, at_once) and same(step, refitted) and not same(step, original)
    assert sha256_file(step.path / SUMS) == sha256_file(refitted.path / SUMS) != sha256_file(original.path / SUMS)
    assert [model.record["role"] for model in (original, step, refitted)] == ["original", "unlearned", "retrained"]
    facts = step.record["forget"]
    assert (facts["method"], facts["exact"], facts["refitted"], facts["samples"]) == ("closed-form", True, None, 2)
    assert facts["cost"]["compute_fraction"] == 2 / len(step.record["split"]["train"][6:])
    assert set(split_of(step, personal).forget) == {*first, *second}


def test_a_thousand_requests_in_a_row_leave_no_trace() -> None:
    """Adding and removing at random, the sums stay those of the members, and so does the head (a float64 Gram would drift)."""
    generator = torch.Generator().manual_seed(0)
    x_ND = torch.randn(60, 12, generator=generator, dtype=torch.float64).relu()
    y_NK = torch.cat([torch.rand(60, 3, generator=generator), torch.rand(60, 1, generator=generator) * 100], 1).double()

    def part(rows: list[int]) -> Contribution:
        return Contribution(
            feature_ND=x_ND[rows], target_NK=y_NK[rows], committed={f"s{row:02}": bytes([row] * 32) for row in rows}
        )

    sums, members = HeadSums.empty(12, 3), set(range(60))
    sums.add(part(sorted(members)))
    for _ in range(1000):
        row = int(torch.randint(60, (1,), generator=generator))
        if row in members and len(members) > 30:
            sums.remove(part([row]))
            members.discard(row)
        elif row not in members:
            sums.add(part([row]))
            members.add(row)
    fresh = HeadSums.empty(12, 3)
    fresh.add(part(sorted(members)))
    assert torch.equal(sums.head.sums, fresh.head.sums) and sums.committed == fresh.committed
    assert all(torch.equal(*pair) for pair in zip(sums.solve(0.01), fresh.solve(0.01), strict=True))


def test_the_head_is_the_ridge_regression_of_its_features(original: Checkpoint, personal: Dataset, split: Split) -> None:
    """Against the textbook's solve in float64; features are rounded to 2^-14, hence the tolerance."""
    facts = original.record["design"]
    data = to_tensors(personal, split.retain, original.model.age_edges, CPU)
    part = contribution(original.model, facts["grid"], data)
    x_NP = torch.cat([part.feature_ND, torch.ones(len(data), 1, dtype=torch.float64)], 1)
    penalty_P = torch.full((x_NP.shape[1],), FORM.ridge * len(data), dtype=torch.float64)
    penalty_P[-1] = 0.0
    expected_PK = torch.linalg.solve(x_NP.T @ x_NP + penalty_P.diag(), x_NP.T @ part.target_NK)
    weight_KD, bias_K = load_sums(original).solve(FORM.ridge)
    answers = x_NP[:, :-1] @ weight_KD.T + bias_K
    assert torch.allclose(answers, x_NP @ expected_PK, atol=2e-2, rtol=1e-3)
    says = original.model(data.batch(torch.arange(len(data))).image_BCHW)["expected_age"][:, 0].double()
    assert torch.allclose(says, answers[:, -1].clamp(0, 100), atol=0.2)


def test_a_picture_adds_the_same_in_any_company(original: Checkpoint, personal: Dataset, split: Split) -> None:
    grid, edges = original.record["design"]["grid"], original.model.age_edges
    together = contribution(original.model, grid, to_tensors(personal, split.retain, edges, CPU))
    for name in split.retain[::9]:
        alone = contribution(original.model, grid, to_tensors(personal, [name], edges, CPU))
        assert alone.committed[name] == together.committed[name]
        assert torch.equal(alone.feature_ND[0], together.feature_ND[split.retain.index(name)])


def test_only_the_pictures_of_the_forgotten_are_needed(
    original: Checkpoint, personal: Dataset, split: Split, tmp_path: Path
) -> None:
    gone = split.train[3]
    position = personal.ids.index(gone)
    left = replace(
        personal, samples=(personal.samples[position],), rows=personal.rows[position : position + 1], digest="0" * 64
    )
    assert same(without(original, left, [gone], tmp_path / "a"), without(original, personal, [gone], tmp_path / "b"))
    with pytest.raises(DataError, match="wanted samples are not in it"):
        without(original, left, [split.train[4]], tmp_path / "c")


def test_another_picture_under_the_name_is_refitted_or_refused(
    original: Checkpoint, personal: Dataset, split: Split, tmp_path: Path
) -> None:
    gone = split.train[3]
    images = personal.images.copy()
    images[personal.rows[personal.ids.index(gone)]] ^= 255
    changed = replace(personal, images=images)
    done = without(original, changed, [gone], tmp_path / "a")
    assert "refitted from the pictures of the others" in done.record["forget"]["refitted"]
    assert same(done, without(original, personal, [gone], tmp_path / "b"))
    position = personal.ids.index(gone)
    alone = replace(changed, samples=(personal.samples[position],), rows=personal.rows[position : position + 1])
    with pytest.raises(DataError, match="not those that were added"):
        without(original, alone, [gone], tmp_path / "c")
    assert not (tmp_path / "c").exists()


BROKEN = {
    "gone": "not there", "edited": "hash differs", "trunk": "its trunk is not", "head": "not the one that they give",
    "record": "does not describe a closed form \\(grid",
}  # fmt: skip


@pytest.mark.parametrize("edit", BROKEN)
def test_broken_sums_are_refused(original: Checkpoint, personal: Dataset, split: Split, tmp_path: Path, edit: str) -> None:
    place = tmp_path / "copy"
    shutil.copytree(original.path, place)
    record, weights = json.loads((place / "unplug.json").read_text()), load_file(place / "model.safetensors")
    if edit == "gone":
        (place / SUMS).unlink()
    elif edit == "edited":
        tensors = load_file(place / SUMS)
        tensors["sums"][0, 0] += 1
        save_file(tensors, place / SUMS)
    elif edit == "record":
        record["design"]["grid"] = "fine"
    else:
        weights["classifier.weight" if edit == "head" else sorted(weights)[-1]] += 0.5
        save_file(weights, place / "model.safetensors")
        record["weights_sha256"] = sha256_file(place / "model.safetensors")
    (place / "unplug.json").write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match=BROKEN[edit]):
        without(load_checkpoint(place), personal, split.train[:1], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_requests_that_cannot_be_met(original: Checkpoint, personal: Dataset, split: Split, tmp_path: Path) -> None:
    once = without(original, personal, split.train[:1], tmp_path / "once")
    for wanted, why in ((split.train[:1], "not in the sums"), (split.test[:1], "were not trained on")):
        with pytest.raises(DataError, match=why):
            without(once, personal, wanted, tmp_path / "out")
    with pytest.raises(UnplugError):
        without(original, personal, split.train, tmp_path / "out")
    with pytest.raises(InputError, match="another method would end that"):
        without(original, personal, split.train[:1], tmp_path / "out", "msg")
    with pytest.raises(InputError, match="costs what the request needs"):
        forget(original, personal, split.train[:1], None, tmp_path / "out", budget=0.05, device=CPU, show=False)
    with pytest.raises(InputError, match="no setting 'lam'"):
        build_design("closed-form", {"lam": "1"})
    with pytest.raises(InputError, match="out of range"):
        build_design("closed-form", {"ridge": "0"})
    assert not (tmp_path / "out").exists()


def test_nobody_may_be_in_both_sets_of_data(personal: Dataset, consented: Dataset, tmp_path: Path) -> None:
    check_apart(personal, consented)
    with pytest.raises(DataError, match="90 personal pictures are in it too: face-"):
        check_apart(personal, personal)
    same_people = load_dataset("synth:n=20,subjects=10,seed=2", 32, show=False)
    other_views = replace(same_people, images=255 - same_people.images)
    with pytest.raises(DataError, match="10 of the people are in it too"):
        check_apart(other_views, consented)


def test_from_the_command_line(original: Checkpoint, personal: Dataset, split: Split, tmp_path: Path) -> None:
    trunk, out = original.path.parent / "age-trunk", tmp_path / "age"
    run = CliRunner()
    trained = run.invoke(
        main, ["train", "age", "--forgettable", "closed-form", "--data", PERSONAL, "--trunk", str(trunk), "-o", str(out),
               "--set", "random_features=48", "--json"],
    )  # fmt: skip
    assert trained.exit_code == 0, trained.output
    assert same(load_checkpoint(out), original)
    (tmp_path / "who.txt").write_text(f"subject:{personal.samples[personal.ids.index(split.train[0])].subject}\n")
    forgot = run.invoke(
        main,
        ["forget", str(out), "--data", PERSONAL, "--forget", str(tmp_path / "who.txt"), "-o", str(tmp_path / "new"), "--json"],
    )
    assert forgot.exit_code == 0, forgot.output
    assert json.loads(forgot.stdout)["method"] == "closed-form"
    lonely = run.invoke(main, ["train", "age", "--data", PERSONAL, "--trunk", str(trunk), "-o", str(tmp_path / "x")])
    assert lonely.exit_code == 2 and "Give --forgettable closed-form as well" in lonely.output
    nothing = run.invoke(
        main,
        ["train", "age", "--data", PERSONAL, "--forgettable", "closed-form", "-o", str(tmp_path / "x"), "--image-size", "32"],
    )
    assert nothing.exit_code == 2 and "Give --trunk-data or --trunk" in nothing.output
