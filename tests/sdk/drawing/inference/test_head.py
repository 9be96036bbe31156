"""A head that a phone updates: exact, the same in every language, and a hostile file."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save
from tests.vectors.app.networks import CLASSES
from tests.vectors.head.make import KINDS, owned

from unplug.core import InputError
from unplug.sdk.drawing.inference import DeviceHead, HeadFacts, load_head

HERE = Path(__file__).parents[3] / "vectors" / "head"
LIMITS = json.loads((HERE / "limits.json").read_text(encoding="utf-8"))
both_kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def start() -> DeviceHead:
    return load_head(HERE / "start.safetensors")


@both_kinds
def test_the_vectors_that_all_languages_share(kind: str, tmp_path: Path) -> None:
    head = load_head(HERE / kind / "start.safetensors")
    vectors = json.loads((HERE / kind / "steps.json").read_text(encoding="utf-8"))
    for step in vectors["steps"]:
        picture = step["name"], np.array(step["features"]), step["truth"]
        assert head.commitment(*picture).hex() == step["commitment"]
        head = (head.add if step["do"] == "add" else head.remove)(*picture)
    head.save(tmp_path / "head.safetensors")
    mine, theirs = (
        load(path.read_bytes())
        for path in (tmp_path / "head.safetensors", HERE / kind / "end.safetensors")
    )
    assert all(np.array_equal(mine[name], theirs[name]) for name in theirs)
    answer, (weight_KD, bias_K) = head.answer(np.array(vectors["asked"])), head.weights()
    for name, value in (("weights", weight_KD), ("bias", bias_K), *answer.items()):
        np.testing.assert_allclose(
            value, vectors[name], rtol=0, atol=vectors["tolerance"] * np.abs(vectors[name]).max()
        )


@both_kinds
def test_its_owners_picture_through_the_trunk_of_the_vectors(kind: str) -> None:
    wanted = json.loads((HERE / kind / "own.json").read_text(encoding="utf-8"))
    found, labels = owned(HERE / "age-trunk.fp32.onnx", HERE / kind), {}
    for name, value in found.items():
        if name.startswith("label"):
            labels[name] = value
        else:
            np.testing.assert_allclose(value, wanted[name], rtol=1e-5, err_msg=name)
    assert all(wanted[name] == label for name, label in labels.items())
    if kind == "classes":
        assert wanted["label_now"] == CLASSES[int(wanted["truth"])] != wanted["label_before"]
    else:
        assert abs(wanted["now"] - wanted["truth"]) < abs(wanted["before"] - wanted["truth"])


@both_kinds
def test_the_weights_are_the_ridge_regression_of_who_is_in(kind: str) -> None:
    """Against the textbook's solve on the pictures themselves; sums are rounded to 20 bits, hence
    the tolerance.
    """
    start, rng = load_head(HERE / kind / "start.safetensors"), np.random.default_rng(0)
    most = len(CLASSES) if kind == "classes" else 90
    pooled_NC, truth_N = np.abs(rng.normal(size=(40, 6))), rng.integers(0, most, 40)
    head = replace(start, sums_KK=np.zeros_like(start.sums_KK), committed=frozenset())
    for number, (pooled_C, truth) in enumerate(zip(pooled_NC, truth_N, strict=True)):
        head = head.add(f"p{number}", pooled_C, float(truth))
    grid = head.facts.grid
    lifted_ND = np.maximum(np.rint(pooled_NC / grid) * grid @ head.lift_DC.T + head.offset_D, 0.0)
    x_NP = np.column_stack([lifted_ND, np.ones(40)])
    penalty_P = np.array([head.facts.ridge * 40] * 8 + [0.0])
    if kind == "classes":
        target_NK = np.eye(len(CLASSES))[truth_N]
    else:
        soft_NG = np.exp(-0.5 * ((head.center_G - truth_N[:, None]) / 4.0) ** 2)
        target_NK = np.column_stack([soft_NG / soft_NG.sum(axis=1, keepdims=True), truth_N])
    solved_PK = np.linalg.solve(x_NP.T @ x_NP + np.diag(penalty_P), x_NP.T @ target_NK)
    weight_KD, bias_K = head.weights()
    np.testing.assert_allclose(np.column_stack([weight_KD, bias_K]), solved_PK.T, rtol=0, atol=1e-3)


@both_kinds
def test_forgetting_undoes_adding_in_any_order(kind: str) -> None:
    start, rng = load_head(HERE / kind / "start.safetensors"), np.random.default_rng(1)
    most = len(CLASSES) if kind == "classes" else 100
    pictures = [
        (f"new-{number}", np.abs(rng.normal(size=6)), float(rng.integers(0, most)))
        for number in range(60)
    ]
    head = start
    for picture in pictures:
        head = head.add(*picture)
    for index in rng.permutation(len(pictures)):
        head = head.remove(*pictures[index])
    assert np.array_equal(head.sums_KK, start.sums_KK) and head.committed == start.committed


@pytest.mark.parametrize(
    ("what", "name", "features", "age", "why"),
    [
        ("add", "picture-1", None, None, "it is in this head already"),
        ("remove", "picture-1", None, 33.25, "is not in this head"),
        ("remove", "picture-11", np.ones(6), 3.0, "is not in this head"),
        ("add", "new", np.ones(5), 3.0, "5 features where this trunk has 6"),
        ("add", "new", np.full(6, np.nan), 3.0, "are no numbers"),
        ("add", "new", np.ones(6), -1.0, "it is not an age"),
        ("add", "new", np.ones(6), 128.0, "it is not an age"),
        ("add", "new", np.ones(6), float("nan"), "it is not an age"),
    ],
)
def test_what_cannot_be_added_or_forgotten(
    start: DeviceHead, what: str, name: str, features: Any, age: float | None, why: str
) -> None:
    known = np.array([1.0, 2.0, 0.5, 0.25, 1.5, 0.75])
    head = start.add("picture-1", known, 20.0)
    features_C = known if features is None else features
    with pytest.raises(InputError, match=why):
        getattr(head, what)(name, features_C, 20.0 if age is None else age)


@pytest.mark.parametrize("number", [-1.0, 4.0, 0.5, float("nan")])
def test_a_number_that_is_of_no_class(number: float) -> None:
    head = load_head(HERE / "classes" / "start.safetensors")
    with pytest.raises(InputError, match="no class has this number"):
        head.add("new", np.ones(6), number)


def test_the_last_picture_stays() -> None:
    head = load_head(HERE / "end.safetensors")
    alone = replace(head, sums_KK=np.zeros_like(head.sums_KK), committed=frozenset())
    one = alone.add("only", np.ones(6), 40.0)
    with pytest.raises(InputError, match="nobody would be left"):
        one.remove("only", np.ones(6), 40.0)


def edited(change: str) -> bytes:
    """The start's file with one thing changed, and its digest as it was."""
    raw = (HERE / "start.safetensors").read_bytes()
    size = int.from_bytes(raw[:8], "little")
    text, tensors = json.loads(raw[8 : 8 + size])["__metadata__"]["unplug"], load(raw)
    if change == "sums":
        tensors["sums"][5] += 1
    elif change == "fewer":
        tensors["committed"] = tensors["committed"][1:]
    elif change == "type":
        tensors["lift"] = tensors["lift"].astype(np.float64)
    elif change == "nan":
        tensors["offset"][0] = np.nan
    elif change == "more":
        tensors["other"] = np.zeros(3, np.float32)
    elif change == "grid":
        text = text.replace('"grid": 0.001953125', '"grid": -1.0')
    elif "=" in change:
        name, value = change.split("=")
        text = json.dumps(json.loads(text) | {name: float(value)})
    elif change == "key":
        text = text.replace('"ridge"', '"code": "x", "ridge"')
    return bytes(save(tensors, metadata={"unplug": text}))


BEYOND = ["ridge=1e308", "ridge=1e-320", "grid=1e-300", "grid=1e300", "scale=1e308", "scale=1e-40"]


@pytest.mark.parametrize("change", ["sums", "fewer", "type", "nan", "more", "grid", "key", *BEYOND])
def test_a_head_that_was_edited_is_refused(change: str, tmp_path: Path) -> None:
    path = tmp_path / "head.safetensors"
    path.write_bytes(edited(change))
    with pytest.raises(InputError, match=r"head\.safetensors"):
        load_head(path)


@pytest.mark.parametrize(
    ("kind", "change"),
    [(kind, item) for kind in KINDS for item in LIMITS["refused"][kind]],
    ids=str,
)
def test_what_a_head_may_not_say_of_itself(
    kind: str, change: dict[str, Any], tmp_path: Path
) -> None:
    path, raw = tmp_path / "head.safetensors", (HERE / kind / "start.safetensors").read_bytes()
    size = int.from_bytes(raw[:8], "little")
    said = json.loads(json.loads(raw[8 : 8 + size])["__metadata__"]["unplug"]) | change
    kept = {name: value for name, value in said.items() if value is not None}
    path.write_bytes(save(load(raw), metadata={"unplug": json.dumps(kept)}))
    with pytest.raises(InputError, match=r"head\.safetensors"):
        load_head(path)


@pytest.mark.parametrize("more", [0, 1])
def test_as_many_groups_as_a_head_may_have(more: int, tmp_path: Path) -> None:
    names = tuple(f"class {number}" for number in range(LIMITS["groups"] + more))
    size, path = len(names) + 2, tmp_path / "head.safetensors"
    head = DeviceHead(
        facts=HeadFacts(trunk_sha256="0" * 64, grid=1.0, ridge=1.0, scale=1.0, classes=names),
        lift_DC=np.ones((1, 1)),
        offset_D=np.ones(1),
        center_G=np.zeros(len(names)),
        sums_KK=np.zeros((size, size), np.int64),
        committed=frozenset(),
    )
    head.add("one", np.ones(1), len(names) - 1.0).save(path)
    if more:
        with pytest.raises(InputError, match="larger than any head"):
            load_head(path)
    else:
        assert load_head(path).answer(np.ones((1, 1)))["logits"].argmax() == len(names) - 1


def test_an_answer_that_is_no_number_is_none(start: DeviceHead) -> None:
    huge = replace(start, lift_DC=start.lift_DC * 1e300)
    with pytest.raises(InputError, match="it answers with something other than numbers"):
        huge.answer(np.full((1, 6), 1e30))
    with pytest.raises(InputError, match="far larger than any of this trunk"):
        start.add("a", np.full(6, 1e30), 30.0)


def test_no_harm_to_a_head_is_anything_but_one_error(tmp_path: Path) -> None:
    rng, raw, path = (
        np.random.default_rng(3),
        (HERE / "start.safetensors").read_bytes(),
        tmp_path / "head.safetensors",
    )
    for _ in range(300):
        harmed = bytearray(raw)
        for _ in range(int(rng.integers(1, 4))):
            harmed[int(rng.integers(len(harmed)))] = int(rng.integers(256))
        path.write_bytes(
            bytes(harmed[: int(rng.integers(1, len(harmed) + 1))] if rng.random() < 0.3 else harmed)
        )
        try:
            load_head(path).answer(np.ones((1, 6)))
        except InputError:
            continue
        assert bytes(harmed) == raw or load(bytes(harmed)).keys() == load(raw).keys()


def test_it_needs_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from unplug.sdk.drawing.inference import load_head; "
        f"print(len(load_head({str(HERE / 'start.safetensors')!r}).committed))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "10"
    )
