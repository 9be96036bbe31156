"""The audit on a tiny real model and on its exported file, whose rounding may undo an edit: by
hand, by intervals, on files.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.intervals import ends
from tests.sdk.cli.calls import fail
from tests.sdk.evidence.commands import call

from unplug.core import (
    ArtifactError,
    CheckpointError,
    DataError,
    InputError,
    ReportError,
    read_dataclass,
)
from unplug.export import RUNTIMES, Artifact, export_checkpoint
from unplug.plugins import AGE_EDGES
from unplug.sdk import audit as audit_files
from unplug.sdk.drawing.conditions import real_inputs
from unplug.sdk.evidence.auditing import (
    ArtifactPredictor,
    AuditReport,
    CheckpointPredictor,
    Estimate,
    Exports,
    OutputDistance,
    Rounding,
    audit,
    make_exports,
    task_deltas,
)
from unplug.sdk.evidence.auditing.exports import load_exports
from unplug.sdk.evidence.auditing.rounding import Compared, Said, measure_rounding, total_variation
from unplug.sdk.evidence.statistics import resamples
from unplug.sdk.forgetting.tasks import AgeTask, task_of
from unplug.sdk.learning.data import load_dataset
from unplug.sdk.learning.training import predict

from ...conftest import CPU, RECIPE, World

AGES = AgeTask(recipe=RECIPE, edges=tuple(map(float, AGE_EDGES)))
FILE = "age.fp32.tflite"
AUC_TOLERANCE = 0.02
"""Outputs in fp32 differ in the last bits: at most a few ranks change places."""
NOTHING = Estimate(value=0.0, low=0.0, high=0.0)


def asked(world: World, *roles: str) -> list[CheckpointPredictor]:
    """The three models by their roles; a twin is the oracle that says it was unlearned."""
    models = {"original": world.original, "unlearned": world.unlearned, "retrained": world.oracle}
    return [
        CheckpointPredictor(
            name=role,
            role="unlearned" if role == "twin" else role,
            checkpoint=models.get(role, world.oracle),
            task=AGES,
        )
        for role in roles
    ]


def run(world: World, *models: Any, **options: Any) -> AuditReport:
    split = world.split.with_forget(world.forget_ids)
    settings = {"edges": AGES.edges, "data": {"spec": world.spec}, "show": False}
    return audit(models, world.sets, split, **settings, **options)


def on_files(world: World, *models: Path, **options: Any) -> AuditReport:
    """`unplug audit` of files, from Python."""
    given = {"forget_ids": world.forget_file, "device": "cpu", **options}
    return audit_files(models, world.spec, **given)


@pytest.fixture(scope="module")
def report(world: World, artifacts: dict[str, Artifact]) -> AuditReport:
    file = ArtifactPredictor(name=FILE, artifact=artifacts[FILE], task=AGES)
    models = asked(world, "original", "unlearned", "retrained", "twin")
    return run(world, *models, file, references=asked(world, "retrained"))


def test_a_report_survives_json_with_its_intervals_or_reasons(
    report: AuditReport, tmp_path: Path
) -> None:
    report.save(tmp_path / "audit.json")
    assert read_dataclass(AuditReport, tmp_path / "audit.json", ReportError) == report
    raw = json.loads((tmp_path / "audit.json").read_text())
    assert raw["schema"] == "unplug-audit/1"
    assert len(raw["models"][0]["attacks"]["loss"]["forget_scores"]) == raw["forget"]["samples"]
    for model in report.models:
        for name, attack in model.attacks.items():
            assert set(attack.tpr) == set(attack.tpr_interval) | set(attack.tpr_missing)
            assert all(rate in attack.tpr_missing[rate] for rate in attack.tpr_missing), name
            assert all(attack.tpr[rate] == row.value for rate, row in attack.tpr_interval.items())
        assert ends(model.logistic_accuracy)
        assert model.worst_subject is not None or "worst subject" in report.skipped
        assert (model.retain_privacy is None) == (model.role in ("original", "retrained"))
    privacy = report.model("unlearned").retain_privacy
    assert privacy.minus_original.value == pytest.approx(privacy.auc.value - privacy.original.value)


def test_the_oracle_under_another_name_is_the_oracle(report: AuditReport) -> None:
    twin = report.model("twin")
    assert twin.distance == {"forget": NOTHING, "test": NOTHING}
    assert {attack.minus_retrained for attack in twin.attacks.values()} == {NOTHING}
    assert twin.retain_privacy.minus_retrained == NOTHING
    assert twin.utility == report.model("retrained").utility
    assert "twin" not in {alarm.model for alarm in report.alarms}


def test_utility_of_models_and_files(
    world: World, report: AuditReport, artifacts: dict[str, Artifact]
) -> None:
    sets = {"retain": world.sets.train, "forget": world.sets.forget, "test": world.sets.test}
    for name, part in sets.items():
        answers = predict(world.unlearned.model, part)
        utility = report.model("unlearned").utility[name]
        assert utility.n == len(part) == sum(row.n for row in utility.per_group)
        assert utility.mae.value == pytest.approx(np.abs(answers.age_N - part.age_N.numpy()).mean())
        right_N = answers.logits_NG.argmax(axis=1) == part.group_N.numpy()
        assert utility.accuracy.value == pytest.approx(right_N.mean())
        low, high = ends(utility.mae)
        assert low < utility.mae.value < high
        people = utility.per_subject
        assert people.subjects == len(np.unique(part.subject_N))
        assert people.worst[0]["mae"] == max(row["mae"] for row in people.worst)
    shipped, checkpoint = report.model(FILE), report.model("unlearned")
    assert (shipped.role, shipped.target, shipped.precision) == ("artifact", "litert", "fp32")
    assert shipped.sha256 == artifacts[FILE].card.sha256 != checkpoint.sha256
    for name, attack in checkpoint.attacks.items():
        ours = shipped.attacks[name].auc.value
        assert ours == pytest.approx(attack.auc.value, abs=AUC_TOLERANCE)
    for name, utility in checkpoint.utility.items():
        assert shipped.utility[name].mae.value == pytest.approx(utility.mae.value, abs=1e-3)


def test_a_seed_is_a_report_that_says_what_is_missing(world: World) -> None:
    one, same, other = (run(world, *asked(world, "unlearned"), seed=seed) for seed in (1, 1, 2))
    assert asdict(one) == asdict(same)
    loss, theirs = (item.models[0].attacks["loss"].auc for item in (one, other))
    assert loss.low != theirs.low and loss.value == theirs.value
    assert {"rmia", "lira", "retain privacy", "oracle"} <= set(one.skipped)
    assert "reference" in one.skipped["rmia"]


def test_the_original_is_found_by_the_record(world: World) -> None:
    whole = on_files(world, world.unlearned.path, retrained=world.oracle.path)
    assert [(model.name, model.sha256) for model in whole.models] == [
        ("original", world.original.sha256),
        ("unlearned", world.unlearned.sha256),
        ("retrained", world.oracle.sha256),
    ]
    assert whole.settings["split_sha256"] == world.unlearned.record["split"]["sha256"]
    alone = on_files(world, world.original.path)
    assert [model.name for model in alone.models] == ["original"]


@pytest.mark.parametrize("kind", ["one group", "one subject"])
def test_odd_forget_sets_are_audited_and_marked(world: World, kind: str) -> None:
    forget = world.sets.forget
    labels = forget.group_N.numpy() if kind == "one group" else forget.subject_N
    values, counts = np.unique(labels, return_counts=True)
    part = forget.subset(np.flatnonzero(labels == values[counts.argmax()]).tolist())
    smaller = replace(world, sets=replace(world.sets, forget=part))
    odd = run(smaller, *asked(world, "original", "unlearned", "retrained"))
    assert odd.forget["samples"] == counts.max() > 1
    if kind == "one group":
        assert "one group only" in odd.skipped["forget groups"]
    else:
        assert odd.forget["subjects"] == 1
        assert odd.model("unlearned").utility["forget"].mae.low is None
        assert "forget interval" in odd.skipped and "worst subject" in odd.skipped
        assert odd.alarms == ()


def test_refused_before_work(
    world: World, artifacts: dict[str, Artifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "unplug.sdk.evidence.auditing.audit_files.forget",
        lambda *_a, **_k: pytest.fail("a reference was trained"),
    )
    person = world.dataset.samples[int(world.dataset.indices(world.forget_ids[:1])[0])].subject
    shutil.copytree(world.oracle.path, copy := tmp_path / "retrained")
    record = json.loads((copy / "unplug.json").read_text())
    record["recipe"]["epochs"] += 1
    (copy / "unplug.json").write_text(json.dumps(record))
    unlearned, nothing = world.unlearned.path, tmp_path / "nothing"
    wrong: list[tuple[type[Exception], str, Path, dict[str, Any]]] = [
        (CheckpointError, "another forget set", unlearned, {"forget_ids": [f"subject:{person}"]}),
        (InputError, "`original`", artifacts[FILE].path, {}),
        (InputError, "no such checkpoint, exp", nothing, {"original": world.original.path}),
        (CheckpointError, "another recipe", unlearned, {"retrained": copy}),
        (
            DataError,
            "at least two",
            unlearned,
            {"forget_ids": world.forget_ids[:1], "train_references": 1},
        ),
    ]
    for error, words, path, options in wrong:
        with pytest.raises(error, match=words):
            on_files(world, path, **options)


def test_the_original_under_an_oracles_record_is_refused(world: World, tmp_path: Path) -> None:
    """Also where the record's hash was made to fit: an oracle whose weights are the original's was
    never retrained.
    """
    shutil.copytree(world.oracle.path, copy := tmp_path / "retrained")
    shutil.copyfile(world.original.path / "model.safetensors", copy / "model.safetensors")
    with pytest.raises(CheckpointError, match="describes other weights"):
        on_files(world, world.unlearned.path, retrained=copy)
    record = json.loads((copy / "unplug.json").read_text())
    (copy / "unplug.json").write_text(
        json.dumps(record | {"weights_sha256": world.original.sha256})
    )
    for option in ({"retrained": copy}, {"references": [copy]}):
        with pytest.raises(CheckpointError, match=r"nothing was retrained"):
            on_files(world, world.unlearned.path, **option)
    with pytest.raises(CheckpointError, match="nothing was forgotten"):
        on_files(world, copy, original=world.original.path)


@pytest.mark.long
def test_an_artifact_that_cannot_run_is_marked(
    world: World, artifacts: dict[str, Artifact], monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = type(RUNTIMES.get("litert"))
    monkeypatch.setattr(runtime, "unavailable", lambda _self: "no such machine")
    models = world.unlearned.path, artifacts[FILE].path
    marked = on_files(world, *models)
    assert marked.skipped[FILE] == "no such machine"
    assert FILE not in [model.name for model in marked.models]
    (file,) = marked.rounding
    assert file.distance == {} and file.codes is not None and "no such machine" in file.notes
    off = on_files(world, *models, rounding=False)
    assert off.rounding == () and off.skipped["rounding"] == "it was switched off"


RISE = {"loss": Estimate(value=0.06, low=0.03, high=0.09)}
VAGUE = {"loss": Estimate(value=0.0, low=-0.05, high=0.05)}
CALM = {"loss": Estimate(value=0.0, low=-0.01, high=0.01)}
FAR = OutputDistance(years=Estimate(value=1.0), variation=Estimate(value=0.1))
WHOLE = (0.99, 0.97, 1.01)


@pytest.mark.parametrize(
    ("kept", "more", "outcome", "words"),
    [
        (WHOLE, {}, "nothing back", "Quantization brought nothing back"),
        (WHOLE, {"precision": "fp32"}, "nothing back", "Export brought nothing back"),
        ((0.99, 0.90, 1.08), {}, "open", "too wide"),
        (WHOLE, {"auc_shift": VAGUE}, "open", "is open"),
        (WHOLE, {"auc_shift": {}}, "open", "is open"),
        ((0.70, 0.60, 0.80), {}, "part back", "it kept 70 % (60 to 80 %)"),
        ((1.20, 1.10, 1.30), {}, "further away", "further"),
        (WHOLE, {"auc_shift": RISE}, "easier to attack", "rose by 0.060"),
        ((0.99, None, None), {}, "open", "too few subjects"),
        (None, {}, "open", "cannot be told"),
        (None, {"distance": {}}, "not run", "not run here"),
    ],
)
def test_the_outcome_is_what_the_intervals_say(
    kept: tuple[float, float | None, float | None] | None,
    more: dict[str, Any],
    outcome: str,
    words: str,
) -> None:
    facts: dict[str, Any] = {
        **dict.fromkeys(("codes", "retrained_codes", "minus_retrained")),
        **dict.fromkeys(("model", "sha256", "target", "original_sha256"), "x"),
        "original_given": False,
        "retrained": {},
        "checkpoint": {},
        "notes": (),
        "precision": "fp16",
        "distance": {"forget": FAR, "test": FAR},
        "auc_shift": CALM,
        "kept": kept and Estimate(value=kept[0], low=kept[1], high=kept[2]),
    }
    rounding = Rounding(**facts | more)
    assert rounding.outcome == outcome
    assert words in rounding.sentence()
    assert ("nothing back" in rounding.sentence()) == (outcome == "nothing back")


@pytest.fixture(scope="module")
def original_file(world: World, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    out = tmp_path_factory.mktemp("original-files")
    (file,) = export_checkpoint(
        world.original.path, targets=("litert",), precisions=("fp32",), out=out
    )
    return file


@pytest.mark.long
def test_an_exact_export_keeps_the_edit(
    world: World, artifacts: dict[str, Artifact], original_file: Artifact
) -> None:
    models = world.unlearned.path, artifacts[FILE].path
    (row,) = on_files(world, *models, original_artifacts=[original_file.path]).rounding
    assert (row.target, row.precision, row.original_given) == ("litert", "fp32", True)
    assert row.original_sha256 == original_file.card.sha256
    assert row.codes.unmatched == 0
    assert row.codes.changed > 0.9  # msg trains every weight
    assert row.kept.value == pytest.approx(1.0, abs=1e-3)
    assert row.retrained == {} and row.minus_retrained is None
    for name, distance in row.distance.items():
        assert distance.years.value == pytest.approx(row.checkpoint[name].years.value, abs=1e-3)
    assert row.outcome == "nothing back"
    ours, before = (
        predict(model.model, world.sets.forget) for model in (world.unlearned, world.original)
    )
    edit = row.checkpoint["forget"]
    assert edit.years.value == pytest.approx(np.abs(ours.age_N - before.age_N).mean())
    assert edit.variation.value == pytest.approx(total_variation(ours, before).mean())


@pytest.mark.long
def test_an_undone_edit(world: World, original_file: Artifact) -> None:
    """The original's own file in place of the unlearned model's: the whole edit came back."""
    sets = world.sets
    original, edited = (
        Said(forget=predict(model.model, sets.forget), test=predict(model.model, sets.test))
        for model in (world.original, world.unlearned)
    )
    known = Compared(
        name="age",
        task=task_of(world.unlearned, device=CPU),
        own=original,
        checkpoint=edited,
        original=original,
        auc_shift={},
    )
    weights = resamples(sets.forget.subject_N, sets.test.subject_N).forget_RF
    exports = Exports(artifact=original_file, original=original_file)
    row = measure_rounding(exports, known, sets, weights, 0)
    assert row.codes.changed == 0.0 and ends(row.kept)[1] < 1e-3
    assert row.outcome == "part back" and "it kept 0 % (0 to 0 %)" in row.sentence()


@pytest.mark.long
def test_files_that_do_not_fit(
    world: World, artifacts: dict[str, Artifact], original_file: Artifact, tmp_path: Path
) -> None:
    for paths, words in (
        ([artifacts[FILE].path], "not exported"),
        ([original_file.path] * 2, "al"),
    ):
        with pytest.raises(ArtifactError, match=words):
            load_exports(paths, world.original, "--original-artifact")
    file = artifacts[FILE]
    other = replace(file, card=replace(file.card, precision="int3"))
    made, unable = make_exports([other], world.original, None, {}, {}, tmp_path, print)
    assert made == []
    assert unable == {
        "rounding (litert int3)": "this unplug cannot export it, so give `original_artifact`"
    }


@pytest.mark.long
@pytest.mark.parametrize("known", [pytest.param(True, marks=pytest.mark.nightly), False])
def test_counterparts_share_the_calibration(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """Drawn again from what the model may remember; samples from elsewhere cannot be, and the
    report says so.
    """
    inputs = real_inputs(world.unlearned, world.dataset, 16, part="retain" if known else "test")
    (file,) = export_checkpoint(
        world.unlearned.path,
        targets=["litert"],
        precisions=["int8-static"],
        out=tmp_path,
        calibration=inputs,
        layout="NHWC",
    )
    seen: list[Exports] = []

    def spy(*args: Any, **options: Any) -> tuple[list[Exports], dict[str, str]]:
        made, unable = make_exports(*args, **options)
        seen.extend(made)
        return made, unable

    monkeypatch.setattr("unplug.sdk.evidence.auditing.audit_files.make_exports", spy)
    report = on_files(world, world.unlearned.path, file.path, retrained=world.oracle.path)
    assert len(report.rounding) == len(seen) == int(known)
    for made in seen:
        for card in (made.original.card, made.retrained.card):
            assert (card.calibration, card.iospec) == (file.card.calibration, file.card.iospec)
        assert made.retrained.card.checkpoint_sha256 == world.oracle.sha256
    if not known:
        assert "are not known here" in report.skipped["rounding (litert int8-static)"]


def test_errors_of_a_file_beside_those_of_a_checkpoint(
    world: World, artifacts: dict[str, Artifact]
) -> None:
    """Its own, the oracle's, and of the first few samples of the test set alone: the mean of
    differences, sample by sample.
    """
    file, test = artifacts[FILE], world.sets.test
    ours, oracle = (predict(model.model, test).error_N for model in (world.unlearned, world.oracle))
    for checkpoint, errors_N, most in (
        (world.unlearned, ours, 10**6),
        (world.oracle, oracle, 10**6),
        (world.unlearned, ours, 7),
    ):
        (row,) = task_deltas(checkpoint, world.dataset, [file], most=most)
        assert (row.file, row.unit, row.samples) == (FILE, "years", min(most, len(test)))
        assert row.checkpoint_error == pytest.approx(errors_N[:most].mean())
        assert row.delta == pytest.approx(np.mean((ours - errors_N)[:most]), abs=1e-3)
        assert row.delta == pytest.approx(row.error - row.checkpoint_error, abs=1e-9)
        assert row.low <= row.delta <= row.high
    assert abs(np.mean(ours - oracle)) > 0.01
    other = load_dataset("synth:n=30,subjects=30,seed=9", 32, show=False)
    with pytest.raises(InputError, match="not what the model was trained on"):
        task_deltas(world.unlearned, other, [file], most=5)


@pytest.mark.long
def test_the_command(world: World, artifacts: dict[str, Artifact], tmp_path: Path) -> None:
    out = tmp_path / "parity.json"
    words = f"parity {artifacts[FILE].path} --checkpoint {world.unlearned.path} --task 12".split()
    assert "--task: there are no samples with labels" in fail(*words).line
    text = call(*words, "--data", world.spec, "--out", out)
    assert "12 test samples; the checkpoint: " in text
    (row,) = json.loads(out.read_text())["task"]
    assert row["samples"] == 12
