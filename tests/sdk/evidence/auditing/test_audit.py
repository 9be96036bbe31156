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
import torch
from click.testing import CliRunner
from numpy.typing import NDArray

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
from unplug.sdk.cli import main
from unplug.sdk.drawing.conditions import real_inputs
from unplug.sdk.evidence.auditing import (
    ArtifactPredictor,
    AuditConfig,
    AuditReport,
    CheckpointPredictor,
    Estimate,
    Exports,
    OutputDistance,
    Rounding,
    audit,
    make_exports,
    run_audit,
    task_deltas,
)
from unplug.sdk.evidence.auditing.exports import load_exports
from unplug.sdk.evidence.auditing.rounding import Compared, Said, measure_rounding, total_variation
from unplug.sdk.evidence.statistics import resamples
from unplug.sdk.forgetting.tasks import AgeTask, task_of
from unplug.sdk.learning.data import load_dataset
from unplug.sdk.learning.training import ClassPredictions, predict

from ...conftest import CPU, RECIPE, World

AGES = AgeTask(recipe=RECIPE, edges=tuple(map(float, AGE_EDGES)))

ARTIFACT_AUC_TOLERANCE = (
    0.02  # fp32 outputs differ in the last bits: at most a few ranks change places
)


def run(
    world: World, *predictors: CheckpointPredictor | ArtifactPredictor, **options: object
) -> AuditReport:
    split = world.split.with_forget(world.forget_ids)
    edges = tuple(world.original.model.age_edges)
    return audit(
        predictors, world.sets, split, edges=edges, data={"spec": world.spec}, show=False, **options
    )  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def report(world: World, artifacts: dict[str, Artifact]) -> AuditReport:
    return run(
        world,
        CheckpointPredictor(name="original", role="original", checkpoint=world.original, task=AGES),
        CheckpointPredictor(
            name="unlearned", role="unlearned", checkpoint=world.unlearned, task=AGES
        ),
        CheckpointPredictor(name="retrained", role="retrained", checkpoint=world.oracle, task=AGES),
        CheckpointPredictor(name="twin", role="unlearned", checkpoint=world.oracle, task=AGES),
        ArtifactPredictor(name="age.fp32.tflite", artifact=artifacts["age.fp32.tflite"], task=AGES),
        references=[
            CheckpointPredictor(
                name="reference", role="retrained", checkpoint=world.oracle, task=AGES
            )
        ],
    )


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
        assert (
            attack.minus_retrained.value,
            attack.minus_retrained.low,
            attack.minus_retrained.high,
        ) == (0.0, 0.0, 0.0)
    assert twin.utility == report.model("retrained").utility
    assert not [alarm for alarm in report.alarms if alarm.model == "twin"]


def test_utility_of_models_and_files(
    world: World, report: AuditReport, artifacts: dict[str, Artifact]
) -> None:
    for name, part in (
        ("retain", world.sets.train),
        ("forget", world.sets.forget),
        ("test", world.sets.test),
    ):
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
    shipped, checkpoint = report.model("age.fp32.tflite"), report.model("unlearned")
    assert (shipped.role, shipped.target, shipped.precision) == ("artifact", "litert", "fp32")
    assert shipped.sha256 == artifacts["age.fp32.tflite"].card.sha256 != checkpoint.sha256
    for name, attack in checkpoint.attacks.items():
        assert shipped.attacks[name].auc.value == pytest.approx(
            attack.auc.value, abs=ARTIFACT_AUC_TOLERANCE
        )
    for name, utility in checkpoint.utility.items():
        assert shipped.utility[name].mae.value == pytest.approx(utility.mae.value, abs=1e-3)


def test_a_seed_is_a_report_and_the_original_is_found(world: World) -> None:
    item = CheckpointPredictor(
        name="unlearned", role="unlearned", checkpoint=world.unlearned, task=AGES
    )
    one, same, other = run(world, item, seed=1), run(world, item, seed=1), run(world, item, seed=2)
    assert asdict(one) == asdict(same)
    assert one.models[0].attacks["loss"].auc.low != other.models[0].attacks["loss"].auc.low
    assert one.models[0].attacks["loss"].auc.value == other.models[0].attacks["loss"].auc.value
    item = CheckpointPredictor(
        name="unlearned", role="unlearned", checkpoint=world.unlearned, task=AGES
    )
    found = run(world, item)
    assert "loss" in found.models[0].attacks
    assert {"rmia", "lira"} <= set(found.skipped)
    assert "reference" in found.skipped["rmia"]
    assert "retain privacy" in found.skipped and "oracle" in found.skipped
    found = run_audit(
        config_for(world, world.unlearned.path, retrained=world.oracle.path), CPU, print, False
    )
    assert [(model.name, model.sha256) for model in found.models] == [
        ("original", world.original.sha256),
        ("unlearned", world.unlearned.sha256),
        ("retrained", world.oracle.sha256),
    ]
    assert found.settings["split_sha256"] == world.unlearned.record["split"]["sha256"]
    alone = run_audit(config_for(world, world.original.path), CPU, print, False)
    assert [model.name for model in alone.models] == ["original"]


def part(world: World, keep: NDArray[np.bool_]) -> World:
    """The same world with a smaller forget set."""
    index = torch.from_numpy(np.flatnonzero(keep))
    forget = world.sets.forget
    smaller = replace(
        forget,
        ids=tuple(forget.ids[number] for number in index),
        image_NCHW=forget.image_NCHW[index],
        age_N=forget.age_N[index],
        group_N=forget.group_N[index],
        subject_N=forget.subject_N[keep],
    )
    return replace(world, sets=replace(world.sets, forget=smaller))


@pytest.mark.parametrize("kind", ["one group", "one subject"])
def test_odd_forget_sets_are_audited_and_marked(world: World, kind: str) -> None:
    forget = world.sets.forget
    labels = forget.group_N.numpy() if kind == "one group" else forget.subject_N
    values, counts = np.unique(labels, return_counts=True)
    smaller = part(world, labels == values[counts.argmax()])
    models = [
        CheckpointPredictor(name=role, role=role, checkpoint=item, task=AGES)  # type: ignore[arg-type]
        for role, item in (
            ("original", world.original),
            ("unlearned", world.unlearned),
            ("retrained", world.oracle),
        )
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
        subjects=subjects,
        spec=world.spec,
        on_bad="error",
        forget_file=world.forget_file,
        original=None,
        retrained=None,
        references=(),
        train_references=0,
        attacks=None,
        seed=0,
        work=Path("/nowhere"),
    )
    return replace(plain, **options)  # type: ignore[arg-type]


def test_refused_before_work(
    world: World, artifacts: dict[str, Artifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = world.dataset.samples[int(world.dataset.indices(world.forget_ids[:1])[0])].subject
    (tmp_path / "other.txt").write_text(f"subject:{person}\n")
    other = config_for(
        world, world.unlearned.path, retrained=world.oracle.path, forget_file=tmp_path / "other.txt"
    )
    with pytest.raises(CheckpointError, match="another forget set"):
        run_audit(other, CPU, print, False)
    with pytest.raises(InputError, match="`original`"):
        run_audit(config_for(world, artifacts["age.fp32.tflite"].path), CPU, print, False)
    with pytest.raises(InputError, match="no such checkpoint, exported file or bundle"):
        run_audit(
            config_for(world, tmp_path / "nothing", original=world.original.path), CPU, print, False
        )
    copy = tmp_path / "retrained"
    shutil.copytree(world.oracle.path, copy)
    record = json.loads((copy / "unplug.json").read_text())
    record["recipe"]["epochs"] += 1
    (copy / "unplug.json").write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match="another recipe"):
        run_audit(config_for(world, world.unlearned.path, retrained=copy), CPU, print, False)
    monkeypatch.setattr(
        "unplug.sdk.evidence.auditing.audit_files.forget",
        lambda *_a, **_k: pytest.fail("a reference was trained"),
    )
    (tmp_path / "one.txt").write_text(world.forget_ids[0] + "\n")
    with pytest.raises(DataError, match="at least two"):
        run_audit(
            config_for(
                world, world.unlearned.path, forget_file=tmp_path / "one.txt", train_references=1
            ),
            CPU,
            print,
            False,
        )


def test_the_original_under_an_oracles_record_is_refused(world: World, tmp_path: Path) -> None:
    """Also where the record's hash was made to fit: an oracle whose weights are the original's was
    never retrained.
    """
    shutil.copytree(world.oracle.path, copy := tmp_path / "retrained")
    shutil.copyfile(world.original.path / "model.safetensors", copy / "model.safetensors")
    with pytest.raises(CheckpointError, match="describes other weights"):
        run_audit(config_for(world, world.unlearned.path, retrained=copy), CPU, print, False)
    record = json.loads((copy / "unplug.json").read_text())
    (copy / "unplug.json").write_text(
        json.dumps(record | {"weights_sha256": world.original.sha256})
    )
    for option in ({"retrained": copy}, {"references": [copy]}):
        with pytest.raises(CheckpointError, match=r"nothing was retrained"):
            run_audit(config_for(world, world.unlearned.path, **option), CPU, print, False)
    with pytest.raises(CheckpointError, match="nothing was forgotten"):
        run_audit(config_for(world, copy, original=world.original.path), CPU, print, False)


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
    off = run_audit(
        config_for(world, world.unlearned.path, file, rounding=False), CPU, print, False
    )
    assert off.rounding == () and off.skipped["rounding"] == "it was switched off"


def says(probabilities: list[list[float]], ages: list[float]) -> ClassPredictions:
    n = len(ages)
    return ClassPredictions(
        logits_NG=np.log(np.array(probabilities)) + 3.0,
        age_N=np.array(ages),
        true_age_N=np.zeros(n),
        true_group_N=np.zeros(n, np.int64),
    )


def test_total_variation_by_hand() -> None:
    one = says([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]], [1.0, 2.0])
    other = says([[0.5, 0.3, 0.2], [0.6, 0.1, 0.3]], [1.0, 2.0])
    assert total_variation(one, other) == pytest.approx([0.3, 0.1])
    assert total_variation(one, one) == pytest.approx([0.0, 0.0])


def row(kept: Estimate | None, **more: object) -> Rounding:
    nought = OutputDistance(years=Estimate(value=1.0), variation=Estimate(value=0.1))
    plain = Rounding(
        model="age.fp16.tflite",
        sha256="0" * 64,
        target="litert",
        precision="fp16",
        original_sha256="1" * 64,
        original_given=False,
        codes=None,
        retrained_codes=None,
        distance={"forget": nought, "test": nought},
        retrained={},
        checkpoint={},
        kept=kept,
        minus_retrained=None,
        auc_shift={"loss": Estimate(value=0.0, low=-0.01, high=0.01)},
        notes=(),
    )
    return replace(plain, **more)  # type: ignore[arg-type]


RISE = {"loss": Estimate(value=0.06, low=0.03, high=0.09)}
VAGUE = {"loss": Estimate(value=0.0, low=-0.05, high=0.05)}


@pytest.mark.parametrize(
    ("item", "outcome", "words"),
    [
        (
            row(Estimate(value=0.99, low=0.97, high=1.01)),
            "nothing back",
            "Quantization brought nothing back",
        ),
        (
            row(Estimate(value=0.99, low=0.97, high=1.01), precision="fp32"),
            "nothing back",
            "Export brought nothing back",
        ),
        (row(Estimate(value=0.99, low=0.90, high=1.08)), "open", "too wide"),
        (row(Estimate(value=0.99, low=0.97, high=1.01), auc_shift=VAGUE), "open", "is open"),
        (row(Estimate(value=0.99, low=0.97, high=1.01), auc_shift={}), "open", "is open"),
        (row(Estimate(value=0.70, low=0.60, high=0.80)), "part back", "30 % (20 to 40 %)"),
        (row(Estimate(value=1.20, low=1.10, high=1.30)), "further away", "further"),
        (
            row(Estimate(value=0.99, low=0.97, high=1.01), auc_shift=RISE),
            "easier to attack",
            "rose by 0.060",
        ),
        (row(Estimate(value=0.99)), "open", "too few subjects"),
        (row(None), "open", "cannot be told"),
        (row(None, distance={}), "not run", "not run here"),
    ],
)
def test_the_outcome_is_what_the_intervals_say(item: Rounding, outcome: str, words: str) -> None:
    assert item.outcome == outcome
    assert words in item.sentence()
    assert ("nothing back" in item.sentence()) == (outcome == "nothing back")


@pytest.fixture(scope="module")
def original_files(world: World, tmp_path_factory: pytest.TempPathFactory) -> list[Artifact]:
    out = tmp_path_factory.mktemp("original-files")
    return export_checkpoint(
        world.original.path, targets=("litert",), precisions=("fp32",), out=out
    )


@pytest.fixture(scope="module")
def audited(
    world: World, artifacts: dict[str, Artifact], original_files: list[Artifact]
) -> AuditReport:
    named = config_for(
        world,
        world.unlearned.path,
        artifacts["age.fp32.tflite"].path,
        original_artifacts=[original_files[0].path],
    )
    return run_audit(named, CPU, print, False)


@pytest.mark.nightly
@pytest.mark.long
def test_an_exact_export_keeps_the_edit(
    audited: AuditReport, original_files: list[Artifact]
) -> None:
    (found,) = audited.rounding
    assert (found.target, found.precision, found.original_given) == ("litert", "fp32", True)
    assert found.original_sha256 == original_files[0].card.sha256
    assert (
        found.codes is not None and found.codes.unmatched == 0 and found.codes.changed is not None
    )
    assert found.codes.changed > 0.9  # msg trains every weight
    assert found.kept is not None and found.kept.value == pytest.approx(1.0, abs=1e-3)
    assert found.retrained == {} and found.minus_retrained is None
    for name, distance in found.distance.items():
        assert distance.years.value == pytest.approx(found.checkpoint[name].years.value, abs=1e-3)
    assert found.outcome == "nothing back"


@pytest.mark.long
def test_distances_and_an_undone_edit(
    world: World, audited: AuditReport, original_files: list[Artifact]
) -> None:
    own, before = (
        predict(world.unlearned.model, world.sets.forget),
        predict(world.original.model, world.sets.forget),
    )
    found = audited.rounding[0].checkpoint["forget"]
    assert found.years.value == pytest.approx(np.abs(own.age_N - before.age_N).mean())
    assert found.variation.value == pytest.approx(total_variation(own, before).mean())
    # The original's own file in place of the unlearned model's: the whole edit came back.
    sets, file = world.sets, original_files[0]
    own = Said(
        forget=predict(world.original.model, sets.forget),
        test=predict(world.original.model, sets.test),
    )
    edited = Said(
        forget=predict(world.unlearned.model, sets.forget),
        test=predict(world.unlearned.model, sets.test),
    )
    known = Compared(
        name="age",
        task=task_of(world.unlearned, device=CPU),
        own=own,
        checkpoint=edited,
        original=own,
        auc_shift={},
    )
    weights = resamples(sets.forget.subject_N, sets.test.subject_N).forget_RF
    found = measure_rounding(Exports(artifact=file, original=file), known, sets, weights, 0)
    assert found.codes is not None and found.codes.changed == 0.0
    assert found.kept is not None and found.kept.high is not None and found.kept.high < 1e-3
    assert found.outcome == "part back"
    assert "100 % (100 to 100 %)" in found.sentence()


@pytest.mark.long
def test_files_that_do_not_fit(
    world: World, artifacts: dict[str, Artifact], original_files: list[Artifact], tmp_path: Path
) -> None:
    with pytest.raises(ArtifactError, match="not exported from"):
        load_exports([artifacts["age.fp32.tflite"].path], world.original, "--original-artifact")
    with pytest.raises(ArtifactError, match="already"):
        load_exports([original_files[0].path] * 2, world.original, "--original-artifact")
    item = artifacts["age.fp32.tflite"]
    other = replace(item, card=replace(item.card, precision="int3"))
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
    named = config_for(world, world.unlearned.path, file.path, retrained=world.oracle.path)
    report = run_audit(named, CPU, print, False)
    assert len(report.rounding) == len(seen) == int(known)
    for made in seen:
        assert made.retrained is not None and file.card.calibration is not None
        assert (
            made.original.card.calibration
            == made.retrained.card.calibration
            == file.card.calibration
        )
        assert made.original.card.iospec == made.retrained.card.iospec == file.card.iospec
        assert made.retrained.card.checkpoint_sha256 == world.oracle.sha256
    if not known:
        assert "are not known here" in report.skipped["rounding (litert int8-static)"]


FILE = "age.fp32.tflite"


def test_errors_of_a_file_beside_those_of_a_checkpoint(
    world: World, artifacts: dict[str, Artifact]
) -> None:
    """Its own, the oracle's, and of the first few samples of the test set alone: the mean of
    differences, sample by sample.
    """
    file, test = artifacts[FILE], world.sets.test
    own, oracle = (
        predict(world.unlearned.model, test).error_N,
        predict(world.oracle.model, test).error_N,
    )
    for checkpoint, errors_N, most in (
        (world.unlearned, own, 10**6),
        (world.oracle, oracle, 10**6),
        (world.unlearned, own, 7),
    ):
        (found,) = task_deltas(checkpoint, world.dataset, [file], most=most)
        assert (found.file, found.unit, found.samples) == (FILE, "years", min(most, len(test)))
        assert found.checkpoint_error == pytest.approx(errors_N[:most].mean())
        assert found.delta == pytest.approx(np.mean((own - errors_N)[:most]), abs=1e-3)
        assert found.delta == pytest.approx(found.error - found.checkpoint_error, abs=1e-9)
        assert (
            found.low is not None
            and found.high is not None
            and found.low <= found.delta <= found.high
        )
    assert abs(np.mean(own - oracle)) > 0.01
    other = load_dataset("synth:n=30,subjects=30,seed=9", 32, show=False)
    with pytest.raises(InputError, match="not what the model was trained on"):
        task_deltas(world.unlearned, other, [file], most=5)


@pytest.mark.long
def test_the_command(world: World, artifacts: dict[str, Artifact], tmp_path: Path) -> None:
    words = [
        "parity",
        str(artifacts[FILE].path),
        "--checkpoint",
        str(world.unlearned.path),
        "--task",
        "12",
    ]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2 and "--task: there are no samples with labels" in done.stderr
    data = ["--data", world.spec, "--out", str(tmp_path / "parity.json")]
    done = CliRunner().invoke(main, [*words, *data, "--json"])
    assert done.exit_code == 0, done.stderr
    (row,) = json.loads(done.stdout)["task"]
    assert row["samples"] == 12 and json.loads((tmp_path / "parity.json").read_text())["task"] == [
        row
    ]
    assert "12 test samples; the checkpoint: " in CliRunner().invoke(main, [*words, *data]).stdout
