"""The release of a family: every member's files, one equality, and a head that a phone takes alone."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from unplug.core import InputError, read_json, write_json
from unplug.plugins import load_checkpoint
from unplug.sdk.drawing.inference import (
    FRAME_MS,
    choose_member,
    decision_in,
    family_in,
    take_head,
)
from unplug.sdk.evidence.assurance import Limits, ask, decide, runnable
from unplug.sdk.forgetting.tasks import train_age
from unplug.sdk.forgetting.unlearning import ClosedForm, members_of, ranking
from unplug.sdk.journey import audit, replay, run
from unplug.sdk.learning.data import load_dataset, make_split
from unplug.sdk.learning.training import Recipe
from unplug.sdk.releasing import release
from unplug.sdk.releasing.evidence import ReleaseEvidence
from unplug.sdk.releasing.gates_forgetting import Equality
from unplug.trust.bundle import BundleCheckFailed, read_manifest, verify_bundle
from unplug.trust.bundle.binding import model_problems

from ..conftest import CPU, QUICK

pytestmark = pytest.mark.long
SIZES = {"small": "16:16x1e1,24x1,32x1:64", "nano": "8:12x1e2,16x1:48"}


def retimed(bundle: Path, times: tuple[float | None, ...], out: Path) -> Path:
    """A copy of a bundle whose members, best first, took other times."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(bundle, out)
    manifest = json.loads((out / "manifest.json").read_text())
    for told, ms in zip(manifest["postprocessing"]["family"]["members"], times, strict=True):
        told["latency_ms"] = ms
    write_json(out / "manifest.json", manifest)
    return out


def test_all_members_ship_on_one_equality(tmp_path: Path) -> None:
    personal = load_dataset("synth:n=90,subjects=45,seed=1", 32, show=False)
    consented = load_dataset("synth:n=160,subjects=80,seed=2", 32, show=False)
    split, own = make_split(personal, seed=0), make_split(consented, seed=0)
    trunks, how = [], dict[str, Any]()
    for seed, (name, size) in enumerate(SIZES.items()):
        recipe = Recipe(size=size, image_size=32, epochs=10, batch_size=16)
        how = {"seed": seed, "device": CPU, "show": False}
        trunks.append(train_age(consented, own, recipe, tmp_path / name, **how))
    original = ClosedForm(random_features=32).train(
        personal, split, recipe, tmp_path / "age", family=trunks, device=CPU, show=False
    )
    answers = ask([original.path], personal, show=False)
    limits = Limits(age=40.0, max_fpr=0.9, max_fnr=0.9)
    write_json(tmp_path / "decision.json", asdict(decide(answers, limits)[0]))
    names = ("max_decision_shift", "max_group_shift", "max_calibration_shift")
    config = replace(
        QUICK,
        method=None,
        targets=("onnx",),
        decision=tmp_path / "decision.json",
        gates=replace(QUICK.gates, **dict.fromkeys(names, 1.0)),
    )
    bundles = []
    for count in (1, 2):
        place = tmp_path / f"{count}.unplug"
        how = {"device": CPU, "say": lambda _line: None, "show": False}
        ids, work = split.train[:count], tmp_path / f"work-{count}"
        done = release(original, personal, ids, place, work, config, **how)
        gates = {gate["name"]: gate for gate in done.summary["gates"]}
        assert gates["equality"]["value"] == 0.0 and gates["parity"]["passed"]
        tensors = len(original.model.state_dict())
        assert f" of {tensors}" not in gates["equality"]["detail"]
        bundles.append((place, verify_bundle(place)))
    (first, old), (second, new) = bundles
    families = [family_in(item.postprocessing, "manifest.json") for item in (old, new)]
    assert families[0] is not None and families[1] is not None
    listed = families[0].members
    assert [one.name for one in listed] == ranking(original)
    assert all(one.latency_ms for one in listed) and choose_member(listed, 1e6) == listed[0]
    (place,) = (n for n, one in enumerate(listed) if one.name not in members_of(original))
    reference, member = listed[place], listed[1 - place]
    assert reference.checkpoint_sha256 == old.lineage.checkpoint_sha256
    shipped = [name for name in old.files if name.startswith("members/")]
    name = f"members/{member.name}/age.fp32.onnx"
    decision = decision_in(old.postprocessing, "manifest.json")
    assert decision is not None and decision.fitted_on(old.files[name].sha256)
    for held in decision.models:
        assert decision.over_from >= held.over_from and decision.under_to <= held.under_to
    assert {held.name for held in decision.models} >= {name, Path(name).name}
    assert shipped == [name, f"{name}.json"] and f"| {name} |" in (first / "README.md").read_text()
    assert not any("design" in item for item in old.files)
    report = read_json(first / "reports" / "audit.json")
    roles = ("original", "unlearned", "retrained")
    assert [model["name"] for model in report["models"]] == [
        *roles,
        *(f"{role}/members/{member.name}" for role in roles),
    ]
    assert report["models"][4]["sha256"] == member.checkpoint_sha256
    given: dict[str, Any] = {"original": original, "rounding": False, "show": False}
    seen = audit(
        [first], personal, split.train[:2], retrained=tmp_path / "work-2" / "retrained", **given
    )
    files = [model.name for model in seen.models if model.role == "artifact"]
    assert files == [Path(name).name, name]
    # the bundle is asked as a whole, by the family's checkpoint
    asked = ask([first], personal, checkpoints=[tmp_path / "work-1" / "unlearned"], show=False)
    assert [item.name for item in asked] == [f"1.unplug/{Path(name).name}", f"1.unplug/{name}"]
    assert asked[0].people.apart == "held out" and not np.allclose(*(a.logits_NG for a in asked))
    found, skipped = runnable([first])
    assert [place.relative_to(first).as_posix() for place in found] == [
        f"artifacts/{Path(name).name}",
        name,
    ]
    assert not skipped and asked[1].name.endswith(ask(found[1:], personal, show=False)[0].name)
    again = replay(first, tmp_path / "work-1" / "unlearned", device="cpu", show=False)
    assert {name, f"artifacts/{Path(name).name}", "shared-head.safetensors"} < {*again.equal}
    assert again.differs == ()
    parts = read_json(first / "reports" / "bom.cdx.json")["components"]
    hashes = {part["name"]: part["hashes"][0]["content"] for part in parts if "hashes" in part}
    assert hashes[member.name] == member.checkpoint_sha256
    for item in (name, f"artifacts/{Path(name).name}", "shared-head.safetensors"):
        assert hashes[item] == old.files[item].sha256
    assert read_json(first / "reports" / f"parity-{member.name}.json")["rows"]
    fits, slow = FRAME_MS, FRAME_MS + 1
    for times, taken in (
        ((fits, fits), listed[0]),
        ((slow, fits), listed[1]),
        ((fits, None), listed[0]),
        ((None, fits), listed[1]),
    ):
        timed = retimed(first, times, tmp_path / "timed")
        answer = run(timed, 0)
        own = "artifacts" if taken is reference else f"members/{member.name}"
        assert answer.model == str(timed / own / Path(name).name) and answer.holds
        assert answer.notes[-1].startswith(f"the member {taken.name} ran, the best of its family")
    for times, why in (((slow, slow), "the fastest takes 34 ms"), ((None, None), "none was timed")):
        with pytest.raises(InputError, match=f"budget 33 ms: no member fits: {why}"):
            run(retimed(first, times, tmp_path / "timed"), 0)
    # a phone that holds the member's file takes the head alone
    before, after = (load_file(place / "shared-head.safetensors") for place in (first, second))
    later = families[1].members[1 - place]
    assert later.trunk_sha256 == member.trunk_sha256
    named = (member.checkpoint_sha256, later.checkpoint_sha256)
    taken = take_head((first / name).read_bytes(), before, after, named)
    assert hashlib.sha256(taken).hexdigest() == new.files[name].sha256 != old.files[name].sha256
    assert new.files["shared-head.safetensors"].bytes < 4096

    broken = tmp_path / "broken"
    for edit, why in (
        ("weights", "was made from other weights"),
        ("files", "it holds no exported file in members/"),
        ("own", f"members/{member.name} is not a member that its family lists"),
        ("reference", "its family does not list the model of its lineage"),
        ("audit", f"its audit is about another members/{member.name} than its family lists"),
    ):
        shutil.copytree(first, broken)
        manifest = json.loads((broken / "manifest.json").read_text())
        told = manifest["postprocessing"]["family"]["members"]
        if edit in ("weights", "own"):
            other = "0" * 64 if edit == "weights" else reference.checkpoint_sha256
            told[1 - place]["checkpoint_sha256"] = other
        elif edit == "reference":
            del told[place]
        elif edit == "audit":
            report = read_json(broken / "reports" / "audit.json")
            report["models"][-2]["sha256"] = reference.checkpoint_sha256
            write_json(broken / "reports" / "audit.json", report)
        else:
            shutil.rmtree(broken / "members")
            manifest["files"] = {
                key: value for key, value in manifest["files"].items() if key not in shipped
            }
        write_json(broken / "manifest.json", manifest)
        assert any(why in problem for problem in model_problems(broken, read_manifest(broken)))
        shutil.rmtree(broken)
    with pytest.raises(BundleCheckFailed):
        (first / name).write_bytes(taken)
        verify_bundle(first)

    unlearned, oracle = (load_checkpoint(work / kind) for kind in ("unlearned", "retrained"))
    evidence = ReleaseEvidence(results={"unlearned": unlearned, "retrained": oracle})
    (gate,) = Equality().judge(evidence)
    assert gate.passed
    shutil.rmtree(oracle.path / "members")
    alone = {"members": {}, "errors": {reference.name: 1.0}}
    record = {**oracle.record, "design": {**oracle.record["design"], **alone}}
    (gate,) = Equality().judge(evidence.plus("retrained", replace(oracle, record=record)))
    assert not gate.passed, "a refit without the members shows nothing of them"
    assert asdict(gate)["value"] > 1.0
