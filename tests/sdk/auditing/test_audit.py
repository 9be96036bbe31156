"""The audit on a tiny real model and on its exported file."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from unplug.core import CheckpointError, DataError, InputError, ReportError, read_dataclass
from unplug.export import RUNTIMES, Artifact
from unplug.sdk.auditing import ArtifactPredictor, AuditConfig, AuditReport, CheckpointPredictor, Estimate, audit, run_audit
from unplug.sdk.training import predict

from ..conftest import CPU, World

ARTIFACT_AUC_TOLERANCE = 0.02  # fp32 outputs differ in the last bits: at most a few ranks change places


def run(world: World, *predictors: CheckpointPredictor | ArtifactPredictor, **options: object) -> AuditReport:
    split = world.split.with_forget(world.forget_ids)
    edges = tuple(world.original.model.age_edges)
    return audit(predictors, world.sets, split, edges=edges, data={"spec": world.spec}, show=False, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def report(world: World, artifacts: dict[str, Artifact]) -> AuditReport:
    return run(
        world,
        CheckpointPredictor(name="original", role="original", checkpoint=world.original),
        CheckpointPredictor(name="unlearned", role="unlearned", checkpoint=world.unlearned),
        CheckpointPredictor(name="retrained", role="retrained", checkpoint=world.oracle),
        CheckpointPredictor(name="twin", role="unlearned", checkpoint=world.oracle),
        ArtifactPredictor(name="age.fp32.tflite", artifact=artifacts["age.fp32.tflite"]),
        references=[CheckpointPredictor(name="reference", role="retrained", checkpoint=world.oracle)],
    )


def test_a_report_survives_json_with_its_intervals_or_reasons(report: AuditReport, tmp_path: Path) -> None:
    report.save(tmp_path / "audit.json")
    assert read_dataclass(AuditReport, tmp_path / "audit.json", ReportError) == report
    raw = json.loads((tmp_path / "audit.json").read_text())
    assert raw["schema"] == "unplug-audit/1"
    assert len(raw["models"][0]["attacks"]["loss"]["forget_scores"]) == raw["forget"]["samples"]
    for model in report.models:
        for name, attack in model.attacks.items():
            assert set(attack.tpr) == set(attack.tpr_interval) | set(attack.tpr_missing)
            assert all(rate in attack.tpr_missing[rate] for rate in attack.tpr_missing), name
            assert all(attack.tpr[rate] == item.value for rate, item in attack.tpr_interval.items())
        assert model.logistic_accuracy is not None and model.logistic_accuracy.low is not None
        assert model.worst_subject is not None or "worst subject" in report.skipped
        assert (model.retain_privacy is None) == (model.role in ("original", "retrained"))
    told = report.model("unlearned").retain_privacy
    assert told is not None and told.minus_original is not None and told.original is not None
    assert told.minus_original.value == pytest.approx(told.auc.value - told.original.value)
    twin = report.model("twin").retain_privacy
    assert twin is not None and twin.minus_retrained == Estimate(value=0.0, low=0.0, high=0.0)
    twin = report.model("twin")
    assert twin.distance is not None
    assert {name: (gap.value, gap.low, gap.high) for name, gap in twin.distance.items()} == {
        "forget": (0.0, 0.0, 0.0),
        "test": (0.0, 0.0, 0.0),
    }
    for attack in twin.attacks.values():
        assert attack.minus_retrained is not None
        assert (attack.minus_retrained.value, attack.minus_retrained.low, attack.minus_retrained.high) == (0.0, 0.0, 0.0)
    assert twin.utility == report.model("retrained").utility
    assert not [alarm for alarm in report.alarms if alarm.model == "twin"]


def test_utility_is_what_the_predictions_say(world: World, report: AuditReport) -> None:
    for name, part in (("retain", world.sets.train), ("forget", world.sets.forget), ("test", world.sets.test)):
        said = predict(world.unlearned.model, part)
        utility = report.model("unlearned").utility[name]
        assert utility.n == len(part)
        assert utility.mae.value == pytest.approx(np.abs(said.age_N - part.age_N.numpy()).mean())
        groups = said.logits_NG.argmax(axis=1) == part.group_N.numpy()
        assert utility.accuracy.value == pytest.approx(groups.mean())
        low, high = utility.mae.low, utility.mae.high
        assert low is not None and high is not None and low < utility.mae.value < high
        assert sum(row.n for row in utility.per_group) == len(part)
        people = utility.per_subject
        assert people is not None and people.subjects == len(np.unique(part.subject_N))
        assert people.worst[0]["mae"] == max(row["mae"] for row in people.worst)


def test_an_exported_file_is_run_by_its_own_runtime(world: World, report: AuditReport, artifacts: dict[str, Artifact]) -> None:
    shipped, checkpoint = report.model("age.fp32.tflite"), report.model("unlearned")
    assert (shipped.role, shipped.target, shipped.precision) == ("artifact", "litert", "fp32")
    assert shipped.sha256 == artifacts["age.fp32.tflite"].card.sha256 != checkpoint.sha256
    for name, attack in checkpoint.attacks.items():
        assert shipped.attacks[name].auc.value == pytest.approx(attack.auc.value, abs=ARTIFACT_AUC_TOLERANCE)
    for name, utility in checkpoint.utility.items():
        assert shipped.utility[name].mae.value == pytest.approx(utility.mae.value, abs=1e-3)


def test_a_seed_is_a_report_and_what_it_skips_has_its_reason(world: World) -> None:
    item = CheckpointPredictor(name="unlearned", role="unlearned", checkpoint=world.unlearned)
    one, same, other = run(world, item, seed=1), run(world, item, seed=1), run(world, item, seed=2)
    assert asdict(one) == asdict(same)
    assert one.models[0].attacks["loss"].auc.low != other.models[0].attacks["loss"].auc.low
    assert one.models[0].attacks["loss"].auc.value == other.models[0].attacks["loss"].auc.value
    item = CheckpointPredictor(name="unlearned", role="unlearned", checkpoint=world.unlearned)
    found = run(world, item)
    assert "loss" in found.models[0].attacks
    assert {"rmia", "lira"} <= set(found.skipped)
    assert "reference" in found.skipped["rmia"]
    assert "retain privacy" in found.skipped and "oracle" in found.skipped


def part(world: World, keep: NDArray[np.bool_]) -> World:
    """The same world with a smaller forget set."""
    index = torch.from_numpy(np.flatnonzero(keep))
    forget = world.sets.forget
    smaller = replace(
        forget, ids=tuple(forget.ids[number] for number in index), image_NCHW=forget.image_NCHW[index],
        age_N=forget.age_N[index], group_N=forget.group_N[index], subject_N=forget.subject_N[keep],
    )  # fmt: skip
    return replace(world, sets=replace(world.sets, forget=smaller))


@pytest.mark.parametrize("kind", ["one group", "one subject"])
def test_odd_forget_sets_are_audited_and_marked(world: World, kind: str) -> None:
    forget = world.sets.forget
    labels = forget.group_N.numpy() if kind == "one group" else forget.subject_N
    values, counts = np.unique(labels, return_counts=True)
    smaller = part(world, labels == values[counts.argmax()])
    models = [
        CheckpointPredictor(name=role, role=role, checkpoint=item)  # type: ignore[arg-type]
        for role, item in (("original", world.original), ("unlearned", world.unlearned), ("retrained", world.oracle))
    ]
    found = run(smaller, *models)
    assert found.forget["samples"] == counts.max() > 1
    if kind == "one group":
        assert "one group only" in found.skipped["forget groups"]
    else:
        assert found.forget["subjects"] == 1
        assert found.model("unlearned").utility["forget"].mae.low is None
        assert "forget interval" in found.skipped and "worst subject" in found.skipped
        assert found.alarms == ()
    assert AuditReport(**vars(found)).to_dict()["schema"] == "unplug-audit/1"


def config_for(world: World, *subjects: Path, **options: object) -> AuditConfig:
    plain = AuditConfig(
        subjects=subjects, spec=world.spec, on_bad="error", forget_file=world.forget_file, original=None, retrained=None,
        references=(), train_references=0, attacks=None, seed=0, work=Path("/nowhere"),
    )  # fmt: skip
    return replace(plain, **options)  # type: ignore[arg-type]


def test_the_original_is_found_through_the_record(world: World) -> None:
    found = run_audit(config_for(world, world.unlearned.path, retrained=world.oracle.path), CPU, print, False)
    assert [(model.name, model.sha256) for model in found.models] == [
        ("original", world.original.sha256),
        ("unlearned", world.unlearned.sha256),
        ("retrained", world.oracle.sha256),
    ]
    assert found.settings["split_sha256"] == world.unlearned.record["split"]["sha256"]
    alone = run_audit(config_for(world, world.original.path), CPU, print, False)
    assert [model.name for model in alone.models] == ["original"]


def test_refused_before_work(
    world: World, artifacts: dict[str, Artifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = world.dataset.samples[int(world.dataset.indices(world.forget_ids[:1])[0])].subject
    (tmp_path / "other.txt").write_text(f"subject:{person}\n")
    other = config_for(world, world.unlearned.path, retrained=world.oracle.path, forget_file=tmp_path / "other.txt")
    with pytest.raises(CheckpointError, match="another forget set"):
        run_audit(other, CPU, print, False)
    with pytest.raises(InputError, match="--original DIR"):
        run_audit(config_for(world, artifacts["age.fp32.tflite"].path), CPU, print, False)
    with pytest.raises(InputError, match="no such checkpoint, exported file or bundle"):
        run_audit(config_for(world, tmp_path / "nothing", original=world.original.path), CPU, print, False)
    copy = tmp_path / "retrained"
    shutil.copytree(world.oracle.path, copy)
    record = json.loads((copy / "unplug.json").read_text())
    record["recipe"]["epochs"] += 1
    (copy / "unplug.json").write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match="another recipe"):
        run_audit(config_for(world, world.unlearned.path, retrained=copy), CPU, print, False)
    monkeypatch.setattr("unplug.sdk.auditing.audit_files.forget", lambda *_a, **_k: pytest.fail("a reference was trained"))
    (tmp_path / "one.txt").write_text(world.forget_ids[0] + "\n")
    with pytest.raises(DataError, match="at least two"):
        run_audit(
            config_for(world, world.unlearned.path, forget_file=tmp_path / "one.txt", train_references=1), CPU, print, False
        )


@pytest.mark.long
def test_an_artifact_that_cannot_run_is_marked(
    world: World, artifacts: dict[str, Artifact], monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = type(RUNTIMES.get("litert"))
    monkeypatch.setattr(runtime, "unavailable", lambda _self: "no such machine")
    file = artifacts["age.fp32.tflite"].path
    found = run_audit(config_for(world, world.unlearned.path, file), CPU, print, False)
    assert found.skipped[file.name] == "no such machine"
    assert file.name not in [model.name for model in found.models]
    (row,) = found.rounding
    assert row.distance == {} and row.codes is not None and "no such machine" in row.notes
    off = run_audit(config_for(world, world.unlearned.path, file, rounding=False), CPU, print, False)
    assert off.rounding == () and off.skipped["rounding"] == "it was switched off"
