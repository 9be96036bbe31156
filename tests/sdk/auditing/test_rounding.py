"""Exported files beside their checkpoint: errors in the task, what rounding did to an edit, and the whole way on real files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from unplug.core import ArtifactError, InputError
from unplug.export import Artifact, export_checkpoint
from unplug.sdk.auditing import AuditReport, Estimate, Exports, OutputDistance, Rounding, make_exports, run_audit, task_deltas
from unplug.sdk.auditing.exports import load_exports
from unplug.sdk.auditing.rounding import Compared, Said, measure_rounding, total_variation
from unplug.sdk.cli import main
from unplug.sdk.conditions import real_inputs
from unplug.sdk.data import load_dataset
from unplug.sdk.statistics import resamples
from unplug.sdk.training import Predictions, predict

from ..conftest import CPU, World
from .test_audit import config_for


def says(probabilities: list[list[float]], ages: list[float]) -> Predictions:
    n = len(ages)
    return Predictions(
        logits_NG=np.log(np.array(probabilities)) + 3.0, age_N=np.array(ages), true_age_N=np.zeros(n),
        true_group_N=np.zeros(n, np.int64),
    )  # fmt: skip


def test_total_variation_by_hand() -> None:
    one = says([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]], [1.0, 2.0])
    other = says([[0.5, 0.3, 0.2], [0.6, 0.1, 0.3]], [1.0, 2.0])
    assert total_variation(one, other) == pytest.approx([0.3, 0.1])
    assert total_variation(one, one) == pytest.approx([0.0, 0.0])


def row(kept: Estimate | None, **more: object) -> Rounding:
    nought = OutputDistance(years=Estimate(value=1.0), variation=Estimate(value=0.1))
    plain = Rounding(
        model="age.fp16.tflite", sha256="0" * 64, target="litert", precision="fp16", original_sha256="1" * 64,
        original_given=False, codes=None, retrained_codes=None, distance={"forget": nought, "test": nought}, retrained={},
        checkpoint={}, kept=kept, minus_retrained=None, auc_shift={"loss": Estimate(value=0.0, low=-0.01, high=0.01)}, notes=(),
    )  # fmt: skip
    return replace(plain, **more)  # type: ignore[arg-type]


RISE = {"loss": Estimate(value=0.06, low=0.03, high=0.09)}
VAGUE = {"loss": Estimate(value=0.0, low=-0.05, high=0.05)}


@pytest.mark.parametrize(
    ("item", "outcome", "words"),
    [
        (row(Estimate(value=0.99, low=0.97, high=1.01)), "nothing back", "Quantization brought nothing back"),
        (row(Estimate(value=0.99, low=0.97, high=1.01), precision="fp32"), "nothing back", "Export brought nothing back"),
        (row(Estimate(value=0.99, low=0.90, high=1.08)), "open", "too wide"),
        (row(Estimate(value=0.99, low=0.97, high=1.01), auc_shift=VAGUE), "open", "is open"),
        (row(Estimate(value=0.99, low=0.97, high=1.01), auc_shift={}), "open", "is open"),
        (row(Estimate(value=0.70, low=0.60, high=0.80)), "part back", "30 % (20 to 40 %)"),
        (row(Estimate(value=1.20, low=1.10, high=1.30)), "further away", "further"),
        (row(Estimate(value=0.99, low=0.97, high=1.01), auc_shift=RISE), "easier to attack", "rose by 0.060"),
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
    return export_checkpoint(world.original.path, targets=("litert",), precisions=("fp32",), out=out)


@pytest.fixture(scope="module")
def audited(world: World, artifacts: dict[str, Artifact], original_files: list[Artifact]) -> AuditReport:
    named = config_for(
        world, world.unlearned.path, artifacts["age.fp32.tflite"].path, original_artifacts=[original_files[0].path]
    )
    return run_audit(named, CPU, print, False)


@pytest.mark.long
def test_an_exact_export_keeps_the_edit(audited: AuditReport, original_files: list[Artifact]) -> None:
    (found,) = audited.rounding
    assert (found.target, found.precision, found.original_given) == ("litert", "fp32", True)
    assert found.original_sha256 == original_files[0].card.sha256
    assert found.codes is not None and found.codes.unmatched == 0 and found.codes.changed is not None
    assert found.codes.changed > 0.9  # msg trains every weight
    assert found.kept is not None and found.kept.value == pytest.approx(1.0, abs=1e-3)
    assert found.retrained == {} and found.minus_retrained is None
    for name, distance in found.distance.items():
        assert distance.years.value == pytest.approx(found.checkpoint[name].years.value, abs=1e-3)
    assert found.outcome == "nothing back"


def test_the_distance_is_the_predictions(world: World, audited: AuditReport) -> None:
    own, before = predict(world.unlearned.model, world.sets.forget), predict(world.original.model, world.sets.forget)
    found = audited.rounding[0].checkpoint["forget"]
    assert found.years.value == pytest.approx(np.abs(own.age_N - before.age_N).mean())
    assert found.variation.value == pytest.approx(total_variation(own, before).mean())


def test_an_export_that_undoes_the_edit_is_told(world: World, original_files: list[Artifact]) -> None:
    """The original's own file in place of the unlearned model's: the whole edit came back."""
    sets, file = world.sets, original_files[0]
    own = Said(forget=predict(world.original.model, sets.forget), test=predict(world.original.model, sets.test))
    edited = Said(forget=predict(world.unlearned.model, sets.forget), test=predict(world.unlearned.model, sets.test))
    known = Compared(name="age", own=own, checkpoint=edited, original=own, auc_shift={})
    weights = resamples(sets.forget.subject_N, sets.test.subject_N).forget_RF
    found = measure_rounding(Exports(artifact=file, original=file), known, sets, weights, 0)
    assert found.codes is not None and found.codes.changed == 0.0
    assert found.kept is not None and found.kept.high is not None and found.kept.high < 1e-3
    assert found.outcome == "part back"
    assert "100 % (100 to 100 %)" in found.sentence()


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
    assert unable == {"rounding (litert int3)": "this unplug cannot export it, so give --original-artifact"}


@pytest.mark.long
@pytest.mark.parametrize("known", [pytest.param(True, marks=pytest.mark.slow), False])
def test_counterparts_share_the_calibration(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    """Drawn again from what the model may remember; samples from elsewhere cannot be, and the report says so."""
    inputs = real_inputs(world.unlearned, world.dataset, 16, part="retain" if known else "test")
    (file,) = export_checkpoint(
        world.unlearned.path, targets=["litert"], precisions=["int8-static"], out=tmp_path, calibration=inputs, layout="NHWC"
    )
    seen: list[Exports] = []

    def spy(*args: Any, **options: Any) -> tuple[list[Exports], dict[str, str]]:
        made, unable = make_exports(*args, **options)
        seen.extend(made)
        return made, unable

    monkeypatch.setattr("unplug.sdk.auditing.audit_files.make_exports", spy)
    named = config_for(world, world.unlearned.path, file.path, retrained=world.oracle.path)
    report = run_audit(named, CPU, print, False)
    assert len(report.rounding) == len(seen) == int(known)
    for made in seen:
        assert made.retrained is not None and file.card.calibration is not None
        assert made.original.card.calibration == made.retrained.card.calibration == file.card.calibration
        assert made.original.card.iospec == made.retrained.card.iospec == file.card.iospec
        assert made.retrained.card.checkpoint_sha256 == world.oracle.sha256
    if not known:
        assert "are not known here" in report.skipped["rounding (litert int8-static)"]


FILE = "age.fp32.tflite"


def test_errors_of_a_file_beside_those_of_a_checkpoint(world: World, artifacts: dict[str, Artifact]) -> None:
    """Its own, the oracle's, and of the first few samples of the test set alone: the mean of differences, sample by sample."""
    file, test = artifacts[FILE], world.sets.test
    own, oracle = predict(world.unlearned.model, test).error_N, predict(world.oracle.model, test).error_N
    for checkpoint, errors_N, most in ((world.unlearned, own, 10**6), (world.oracle, oracle, 10**6), (world.unlearned, own, 7)):
        (found,) = task_deltas(checkpoint, world.dataset, [file], most=most)
        assert (found.file, found.unit, found.samples) == (FILE, "years", min(most, len(test)))
        assert found.checkpoint_error == pytest.approx(errors_N[:most].mean())
        assert found.delta == pytest.approx(np.mean((own - errors_N)[:most]), abs=1e-3)
        assert found.delta == pytest.approx(found.error - found.checkpoint_error, abs=1e-9)
        assert found.low is not None and found.high is not None and found.low <= found.delta <= found.high
    assert abs(np.mean(own - oracle)) > 0.01
    other = load_dataset("synth:n=30,subjects=30,seed=9", 32, show=False)
    with pytest.raises(InputError, match="not what the model was trained on"):
        task_deltas(world.unlearned, other, [file], most=5)


@pytest.mark.long
def test_the_command(world: World, artifacts: dict[str, Artifact], tmp_path: Path) -> None:
    words = ["parity", str(artifacts[FILE].path), "--checkpoint", str(world.unlearned.path), "--task", "12"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2 and "--task: there are no samples with labels" in done.stderr
    data = ["--data", world.spec, "--out", str(tmp_path / "parity.json")]
    done = CliRunner().invoke(main, [*words, *data, "--json"])
    assert done.exit_code == 0, done.stderr
    (row,) = json.loads(done.stdout)["task"]
    assert row["samples"] == 12 and json.loads((tmp_path / "parity.json").read_text())["task"] == [row]
    assert "12 test samples; the checkpoint: " in CliRunner().invoke(main, [*words, *data]).stdout
