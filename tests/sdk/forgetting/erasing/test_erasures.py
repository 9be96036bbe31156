"""What every registered erasure keeps to."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.sdk.drawing.diffusion.conftest import Killed, kill_after

from unplug.core import InputError
from unplug.sdk.drawing.diffusion import base_digest, steps, weights_digest
from unplug.sdk.forgetting.erasing import ERASURES, Concept, TextMap, build_erasure
from unplug.sdk.forgetting.erasing.text_map import CROSS
from unplug.sdk.forgetting.erasing.tuning import PairRows

from .conftest import FEW, Make

KINDS = ("v_prediction", "epsilon")
ON_A_BASE = sorted(set(ERASURES) - {"retrain"})
"""Training anew needs a record and data: see its own tests."""
TUNED = [name for name in sorted(ERASURES) if hasattr(ERASURES.get(name)(), "steps")]
BROAD = [name for name in TUNED if hasattr(ERASURES.get(name)(), "layers")]


def build(name: str, **more: str) -> Any:
    return build_erasure(name, {**(FEW if name in TUNED else {}), **more})


def changed(before: Any, after: Any) -> set[str]:
    old = before.state_dict()
    return {name for name, value in after.state_dict().items() if not torch.equal(value, old[name])}


@pytest.mark.parametrize(
    "kind", [KINDS[0], *(pytest.param(kind, marks=pytest.mark.nightly) for kind in KINDS[1:])]
)
@pytest.mark.parametrize("name", ON_A_BASE)
def test_the_unet_alone_is_changed_and_alike_by_the_same_seed(
    make: Make, name: str, kind: str
) -> None:
    wishes: dict[str, Any] = {"earlier": (Concept(words="sleepy"),), "retained": ("sad", "big")}
    digests, whole = set[str](), base_digest(make(kind).base)
    for _ in range(2):
        problem = make(kind, **wishes)
        edit = build(name)(problem)
        assert all(value.isfinite().all() for value in problem.base.unet.state_dict().values())
        assert changed(problem.original.unet, problem.base.unet)
        assert base_digest(problem.original) == whole
        for part in ("vae", "text_encoder"):
            one, other = getattr(problem.base, part), getattr(problem.original, part)
            assert weights_digest(one) == weights_digest(other)
        digests.add(weights_digest(problem.base.unet))
        assert edit is None or isinstance(edit, TextMap)
        if isinstance(edit, TextMap):
            edit.bake(problem.original.unet)
            assert not changed(problem.original.unet, problem.base.unet)
    assert len(digests) == 1


@pytest.mark.nightly
@pytest.mark.parametrize("name", BROAD)
def test_cross_layers_are_keys_and_values_of_cross_attention(make: Make, name: str) -> None:
    for layers in ("cross", "all"):
        problem = make()
        build(name, layers=layers)(problem)
        names = changed(problem.original.unet, problem.base.unet)
        assert all(one.removesuffix(".weight").endswith(CROSS) for one in names) is (
            layers == "cross"
        )


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["esd", "ca", "mace"])
def test_other_seeds_steps_and_wishes_give_other_weights(make: Make, name: str) -> None:
    problems = [
        (make(), {}),
        (make(seed=2), {}),
        (make(), {"steps": "1"}),
        (make(concepts=(Concept(words="sleepy"),)), {}),
        (make(earlier=(Concept(words="sleepy"),)), {}),
        (make(retained=("adorable",)), {}),
    ]
    for problem, more in problems:
        build(name, **more)(problem)
    assert len({weights_digest(problem.base.unet) for problem, _ in problems}) == len(problems)


@pytest.mark.parametrize("name", ["esd", "mace"])
def test_a_killed_run_goes_on_to_the_same_weights(
    make: Make, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "SAVE_EVERY_S", 0.0)
    whole = make()
    build(name)(whole)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_after(patch, PairRows, 2)
        build(name)(make(work=tmp_path))
    problem = make(work=tmp_path)
    with monkeypatch.context() as patch:
        kill_after(patch, PairRows, 1)
        build(name)(problem)
    assert weights_digest(problem.base.unet) == weights_digest(whole.base.unet)


@pytest.mark.parametrize("name", ON_A_BASE)
def test_settings_out_of_range_are_refused(name: str) -> None:
    ranged = [one for one in fields(ERASURES.get(name)()) if "range" in one.metadata]
    assert ranged
    for setting in ranged:
        low, high = setting.metadata["range"]
        wrong = {str(low - 1), "nan", "much", ""} | ({str(high + 1)} if high < 1e12 else set())
        for value in wrong:
            with pytest.raises(InputError):
                build_erasure(name, {setting.name: value})
    if name in BROAD:
        with pytest.raises(InputError, match="no such choice"):
            build_erasure(name, {"layers": "none"})


@pytest.mark.parametrize("name", ["uce", "rece", "speed", "mace"])
def test_words_that_no_prompt_has_room_for_are_refused(make: Make, name: str) -> None:
    problem = make(prompts=tuple("a portrait of a child " * count for count in (9, 10)))
    with pytest.raises(InputError, match="shorter prompts"):
        build(name)(problem)
