"""The closed form: sums that adding and removing leave exact, and the head that they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from unplug.core import DataError, InputError, read_json
from unplug.plugins import AgePredictor, AgeTrunk, load_checkpoint, save_checkpoint
from unplug.sdk.drawing.inference import load_head
from unplug.sdk.forgetting.unlearning import ClosedForm, build_design, device_head
from unplug.sdk.forgetting.unlearning.designs import trunk as designs_trunk
from unplug.sdk.forgetting.unlearning.designs.closed_form import HeadSums, contribution
from unplug.sdk.forgetting.unlearning.designs.trunk import check_apart
from unplug.sdk.learning.data import Dataset, load_dataset
from unplug.sdk.learning.training import split_of

from .conftest import CONSENTED, CPU, RECIPE, TRUNK, World


@pytest.fixture
def closed(worlds: dict[str, World]) -> World:
    return worlds["closed-form"]


def test_a_thousand_requests_in_a_row_leave_no_trace() -> None:
    """Adding and removing at random, the sums stay those of the members, and so does the head (a
    float64 Gram would drift).
    """
    generator = torch.Generator().manual_seed(0)
    x_ND = torch.randn(60, 12, generator=generator, dtype=torch.float64).relu()
    y_NK = torch.rand(60, 4, generator=generator).double() * torch.tensor([1.0, 1.0, 1.0, 100.0])
    digests = {f"s{row:02}": bytes([row] * 32) for row in range(60)}
    names = list(digests)

    def added(sums: HeadSums, rows: list[int]) -> HeadSums:
        sums.add(x_ND[rows], y_NK[rows], {names[row]: digests[names[row]] for row in rows})
        return sums

    members = set(range(60))
    sums = added(HeadSums.empty(12, 3, 1), sorted(members))
    for row in torch.randint(60, (1000,), generator=generator).tolist():
        if row in members and len(members) > 30:
            sums.remove(x_ND[[row]], y_NK[[row]], [names[row]])
            members.discard(row)
        elif row not in members:
            added(sums, [row])
            members.add(row)
    fresh = added(HeadSums.empty(12, 3, 1), sorted(members))
    assert torch.equal(sums.head.sums, fresh.head.sums) and sums.committed == fresh.committed
    assert all(map(torch.equal, sums.solve(0.01), fresh.solve(0.01)))


def test_the_head_is_the_ridge_regression_of_its_features(closed: World) -> None:
    """Against the textbook's solve in float64; features are rounded to 2^-14, hence the tolerance."""
    form, original = closed.form, closed.original
    feature_ND, target_NK = contribution(original.model, closed.rows)
    x_NP = torch.cat([feature_ND, torch.ones(len(feature_ND), 1, dtype=torch.float64)], 1)
    penalty_P = torch.full((x_NP.shape[1],), form.ridge * len(x_NP), dtype=torch.float64)
    penalty_P[-1] = 0.0
    expected_PK = torch.linalg.solve(x_NP.T @ x_NP + penalty_P.diag(), x_NP.T @ target_NK)
    weight_KD, bias_K = form.load(original).solve(form.ridge)
    answers = feature_ND @ weight_KD.T + bias_K
    assert torch.allclose(answers, x_NP @ expected_PK, atol=2e-2, rtol=1e-3)
    age = original.model(pixels(closed, closed.split.retain))["expected_age"][:, 0].double()
    assert torch.allclose(age, answers[:, -1].clamp(0, 100), atol=0.2)


def test_the_head_reads_the_trunks_own_answer_as_it_is(closed: World) -> None:
    """The last features are slope (p - least) of the trunk's probabilities p of the groups, from 0
    to 32 over its own pictures, or less where p varies by less than half.
    """
    model, trunk = closed.original.model, load_checkpoint(closed.original.path.with_name(TRUNK))
    own = load_dataset(CONSENTED, 32, show=False)
    seen = split_of(trunk).retain
    image_NCHW = torch.from_numpy(own.pixels(own.indices(seen))).permute(0, 3, 1, 2) / 255.0
    with torch.no_grad():
        likely_NG = trunk.model(image_NCHW)["age_logits"].softmax(1).double()
        pooled_NC, groups = model.pooled(image_NCHW).double(), model.groups
        lifted_NG = model.lift(pooled_NC.float()).relu()[:, -groups:].double()
    assert model.answer_channels == groups and torch.equal(pooled_NC[:, -groups:], likely_NG)
    least_G, most_G = likely_NG.aminmax(dim=0)
    expected_NG = 32.0 * (likely_NG - least_G) / (most_G - least_G).clamp(min=0.5)
    assert torch.allclose(lifted_NG, expected_NG, atol=0.1)
    assert torch.equal(AgeTrunk.of(model)(image_NCHW)["features"], model.pooled(image_NCHW))


def test_a_model_of_before_reads_features_alone(tmp_path: Path) -> None:
    before = AgePredictor(image_size=32, random_features=20)
    before.save_pretrained(tmp_path)
    assert "own_answer" not in read_json(tmp_path / "config.json")
    opened = AgePredictor.from_pretrained(tmp_path)
    assert opened.own is None and opened.answer_channels == 0


def test_too_few_features_for_the_answer(
    personal: Dataset,
    consented: Dataset,
    closed: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over a trunk that is there, and before one is trained: by the borders of its recipe too."""
    monkeypatch.setattr(designs_trunk, "train_pictures", lambda *_, **__: pytest.fail("it trained"))
    trunk = load_checkpoint(closed.original.path.with_name(TRUNK))
    four = replace(RECIPE, edges=(0.0, 10.0, 20.0, 40.0, 100.0))
    for count, recipe, over in (
        (13, RECIPE, {"trunk": trunk}),
        (13, RECIPE, {"trunk_data": consented}),
        (4, four, {"trunk_data": consented}),
    ):
        how: Any = {"device": CPU, "show": False, **over}
        with pytest.raises(InputError, match=f"own answer takes {count} of them. Give `random_f"):
            ClosedForm(random_features=count).train(
                personal, closed.split, recipe, tmp_path / "age", **how
            )
        assert list(tmp_path.iterdir()) == []


def pixels(world: World, ids: Sequence[str]) -> Tensor:
    image_NHWC = world.personal.pixels(world.personal.indices(ids))
    return torch.from_numpy(image_NHWC).permute(0, 3, 1, 2) / 255.0


def test_a_picture_adds_the_same_in_any_company(closed: World) -> None:
    names, together = closed.split.retain, closed.rows
    feature_ND, _ = contribution(closed.original.model, together)
    for name in names[::9]:
        alone = closed.rows_of([name])
        assert alone.committed[name] == together.committed[name]
        (feature_D,), _ = contribution(closed.original.model, alone)
        assert torch.equal(feature_D, feature_ND[names.index(name)])


def test_people_are_compared_by_picture_and_by_name(personal: Dataset, consented: Dataset) -> None:
    check_apart(personal, consented)
    with pytest.raises(DataError, match="90 personal pictures are in it too: face-"):
        check_apart(personal, personal)
    same_people = load_dataset("synth:n=20,subjects=10,seed=2", 32, show=False)
    other_views = replace(same_people, images=255 - same_people.images)
    with pytest.raises(DataError, match="10 of the people are in it too"):
        check_apart(other_views, consented)


def test_settings_out_of_range() -> None:
    for setting in ("ridge=0", "ridge=1e308", "ridge=1e-320", "random_features=5000"):
        with pytest.raises(InputError, match="out of range"):
            build_design("closed-form", dict([setting.split("=")]))


def test_a_phone_answers_and_forgets_as_the_checkpoint_does(closed: World, tmp_path: Path) -> None:
    """The NumPy reference over features of the trunk by itself, beside the network and the server's
    forget step.

    What the server added is taken out with the server's own features: another machine's rounding
    gives other commitments.
    """
    original, gone = closed.original, list(closed.split.train[:3])
    save_checkpoint(AgeTrunk.of(original.model), tmp_path / "trunk", record={}, card="")
    trunk = load_checkpoint(tmp_path / "trunk", expect="age-trunk").model
    image_NCHW = pixels(closed, closed.personal.ids)
    with torch.no_grad():
        features_NC = trunk(image_NCHW)["features"].double().numpy()
        answers = original.model(image_NCHW)
    device_head(original, "0" * 64).save(tmp_path / "head.safetensors")
    head = load_head(tmp_path / "head.safetensors")
    for name, value in head.answer(features_NC).items():
        np.testing.assert_allclose(value, answers[name].numpy(), atol=2e-3)

    server = closed.without(gone, tmp_path / "server")
    rows = closed.rows_of(gone)
    for name, pooled_C, age in zip(
        gone, rows.pooled_NC.numpy(), rows.truth_N.tolist(), strict=True
    ):
        assert head.commitment(name, pooled_C, age) == rows.committed[name]
        head = head.remove(name, pooled_C, age)
    theirs = device_head(server, "0" * 64)
    assert np.array_equal(head.sums_KK, theirs.sums_KK) and head.committed == theirs.committed
