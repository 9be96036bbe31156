"""The evidence of a release: every stage once, in this run or in the one before that was killed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from unplug.core import ReportError, counted, installed_versions, read_dataclass, seconds, versions, write_json
from unplug.export import TARGETS, Artifact, ParityReport, card_path, load_artifact
from unplug.mobile_bench import BenchReport
from unplug.plugins import Checkpoint
from unplug.sdk.assurance import EvaluationReport, read_evaluation
from unplug.sdk.auditing import SWITCHED_OFF, AuditReport, Exports, not_run_here
from unplug.sdk.data import keyed
from unplug.sdk.training import describe_device
from unplug.sdk.unlearning import DEFAULT_METHOD, check_oracle, slow_clock

from .deciding import Decided
from .finished import Left, Progress
from .stages import Evidence, Stages

DECIDED = ".decision.json"
EVALUATION = "evaluation.json"
Compared = tuple[Sequence[Exports], dict[str, str]]


def common_facts(stages: Stages) -> dict[str, Any]:
    """What every stage of a release is made from."""
    split = keyed(stages.split)
    return {
        "original": stages.original.sha256, "data": [stages.dataset.spec, stages.dataset.digest], "split": split.sha256,
        "forget": split.forget_sha256, "task": stages.task.facts(), "device": describe_device(stages.device),
        "versions": versions(),
    }  # fmt: skip


def gather(stages: Stages, oracle: Checkpoint | None, progress: Progress) -> Evidence:
    """Walks from the request to the bench.

    Args:
        stages: of this release.
        oracle: the retrained model; None makes it.
        progress: what is finished already.
    """
    retrained, references = _retrained(stages, oracle, progress)
    unlearned = _unlearned(stages, retrained, progress)
    artifacts = _exported(stages, unlearned, progress)
    parity = _parity(stages, unlearned, artifacts, progress)
    audit = _audited(stages, unlearned, retrained, references, artifacts, parity, progress)
    decided = _decided(stages, unlearned, artifacts, progress)
    evaluation = _evaluated(stages, unlearned, retrained, artifacts, progress)
    _shown(stages, unlearned, retrained, progress)
    bench = _benched(stages, unlearned, artifacts, progress)
    return Evidence(
        task=stages.task, original=stages.original, retrained=retrained, unlearned=unlearned, artifacts=artifacts,
        parity=parity, audit=audit, bench=bench, certified=stages.certified, decided=decided,
        evaluation=evaluation,
    )  # fmt: skip


def _retrained(stages: Stages, oracle: Checkpoint | None, progress: Progress) -> tuple[Checkpoint | None, list[Checkpoint]]:
    config = stages.config

    def retrain(what: str, seeds: dict[str, int]) -> list[Checkpoint]:
        return progress.stage(
            what,
            {"seeds": seeds},
            lambda: Left(files=[stages.retrain(name, seed).path for name, seed in seeds.items()]),
            lambda _: [stages.model(name) for name in seeds],
        )

    if oracle is not None:
        with progress.timed("oracle (given)"):
            retrained = oracle
    elif not stages.needs_oracle:
        return None, []
    else:
        (retrained,) = retrain("retrain (oracle)", {"retrained": config.seed})
    if stages.exact or stages.fleet is not None:
        return retrained, []
    seeds = {f"reference-{number}": config.seed + 1000 + number for number in range(config.references)}
    return retrained, retrain(f"train {counted(config.references, 'reference model')}", seeds)


def _unlearned(stages: Stages, retrained: Checkpoint | None, progress: Progress) -> Checkpoint:
    config = stages.config
    if retrained is not None and config.method == "retrain" and stages.design is None:
        with progress.timed("forget by retraining: the oracle is what ships"):
            check_oracle(retrained, stages.split, stages.task.recipe)
            return retrained
    unlearned = progress.stage(
        f"forget by {config.method or stages.design or DEFAULT_METHOD}",
        {
            "method": config.method, "options": config.options, "budget": config.budget, "seed": config.seed,
            "oracle": None if retrained is None else retrained.sha256,
            "retrain_cost": None if retrained is None else retrained.record.get("cost"),
            "fleet": None if stages.fleet is None else stages.fleet.sha256,
        },
        lambda: Left(files=[stages.unlearn(retrained).path]),
        lambda _: stages.model("unlearned"),
    )  # fmt: skip
    if (slow := slow_clock(unlearned.record["forget"]["cost"])) is not None:
        progress.tell(slow)
    return unlearned


def _exported(stages: Stages, unlearned: Checkpoint, progress: Progress) -> list[Artifact]:
    config = stages.config

    def make() -> Left:
        made = stages.export(unlearned, stages.calibration(unlearned))
        files = [path for item in made for path in (item.path, card_path(item.path))]
        return Left(files=files, facts={"artifacts": [os.path.relpath(item.path, stages.work) for item in made]})

    return progress.stage(
        "export",
        {"model": unlearned.sha256, "targets": config.targets, "precisions": config.precisions, "converters": _converters()},
        make,
        lambda facts: [load_artifact(stages.work / path) for path in facts["artifacts"]],
    )


def _parity(stages: Stages, unlearned: Checkpoint, artifacts: Sequence[Artifact], progress: Progress) -> ParityReport:
    path = stages.work / "parity.json"

    def make() -> Left:
        stages.parity(unlearned, artifacts)
        return Left(files=[path])

    made_from = {"model": unlearned.sha256, "artifacts": _as_here(artifacts)}
    return progress.stage("parity", made_from, make, lambda _: ParityReport.load(path))


def _audited(
    stages: Stages, unlearned: Checkpoint, retrained: Checkpoint | None, references: Sequence[Checkpoint],
    artifacts: Sequence[Artifact], parity: ParityReport, progress: Progress,
) -> AuditReport:  # fmt: skip
    models = _models(stages, unlearned, retrained)
    folder, path = (stages.work / name for name in ("counterparts", "audit.json"))
    made_from = {
        "models": {name: item.sha256 for name, item in models.items()}, "references": [item.sha256 for item in references],
        "artifacts": _as_here(artifacts), "rounding": stages.config.rounding, "seed": stages.config.seed,
        "converters": _converters(), "fleet": None if stages.fleet is None else stages.fleet.sha256,
        "relearn": stages.config.gates.min_relearn_of_retrained is not None, "others": stages.config.others,
    }  # fmt: skip

    def compare() -> Left:
        made, unable = stages.counterparts(artifacts, stages.calibration(unlearned), retrained, folder)
        return Left(files=[folder] if made else [], facts={"made": [_facts(item, stages) for item in made], "unable": unable})

    def make(compared: Compared) -> Left:
        report = stages.audit(models, references, artifacts, parity, compared)
        started = time.perf_counter()
        report = stages.criticise(report, models)
        progress.tell(f"audit: {seconds(time.perf_counter() - started)} of it for attacks beyond the sets of the split")
        report.save(path)
        return Left(files=[path])

    compared: Compared = [], {"rounding": SWITCHED_OFF}
    if stages.config.rounding and not progress.has("audit", made_from):
        compared = progress.stage(
            "export the original and the oracle alike", made_from, compare, lambda facts: _made(facts, artifacts, stages)
        )
    report = progress.stage(
        "audit", made_from, lambda: make(compared), lambda _: read_dataclass(AuditReport, path, ReportError)
    )
    shutil.rmtree(folder, ignore_errors=True)
    return report


def _decided(
    stages: Stages, unlearned: Checkpoint, artifacts: Sequence[Artifact], progress: Progress
) -> Decided | None:  # fmt: skip
    """Whether the decision moved; its file is hidden, for it is no report of its own."""
    record, path = stages.decision, stages.work / DECIDED
    if record is None:
        path.unlink(missing_ok=True)  # of an earlier release here
        return None

    def make() -> Left:
        stages.decide(record, unlearned, artifacts, path)
        return Left(files=[path])

    made_from = {
        "decision": asdict(record), "data": stages.config.decision_data, "model": unlearned.sha256,
        "artifacts": _as_here(artifacts), "seed": stages.config.seed,
    }  # fmt: skip
    return progress.stage("decision", made_from, make, lambda _: read_dataclass(Decided, path, ReportError))


def _evaluated(
    stages: Stages, unlearned: Checkpoint, retrained: Checkpoint | None, artifacts: Sequence[Artifact], progress: Progress
) -> EvaluationReport | None:
    """What everything is worth at age limits, where that is asked for."""
    protocol, path = stages.protocol, stages.work / EVALUATION
    if protocol is None:
        path.unlink(missing_ok=True)  # of an earlier release here
        return None
    models = [stages.original, unlearned, *(() if retrained is None else (retrained,))]
    files = [item for item in artifacts if not_run_here(item) is None]

    def make() -> Left:
        stages.evaluate(protocol, models, files, path)
        return Left(files=[path])

    made_from = {
        "protocol": protocol.name, "models": [item.sha256 for item in models], "artifacts": _as_here(files),
        "seed": stages.config.seed,
    }  # fmt: skip
    return progress.stage("evaluation", made_from, make, lambda _: read_evaluation(path))


def _models(stages: Stages, unlearned: Checkpoint, retrained: Checkpoint | None) -> dict[str, Checkpoint]:
    found = {"original": stages.original, "unlearned": unlearned}
    return found if retrained is None else found | {"retrained": retrained}


def _shown(stages: Stages, unlearned: Checkpoint, retrained: Checkpoint | None, progress: Progress) -> None:
    """Pictures of people, where they were asked for; those of an earlier run that was asked are removed where not."""
    path = stages.work / "faces.json"
    if not stages.config.faces or "ages" in stages.task.lacks:
        path.unlink(missing_ok=True)
        return
    models = _models(stages, unlearned, retrained)

    def make() -> Left:
        write_json(path, asdict(stages.faces(models)))
        return Left(files=[path])

    progress.stage("pictures of people", {name: item.sha256 for name, item in models.items()}, make, lambda _: None)


def _benched(stages: Stages, unlearned: Checkpoint, artifacts: Sequence[Artifact], progress: Progress) -> BenchReport:
    path = stages.work / "bench.json"

    def make() -> Left:
        report = stages.bench(unlearned, artifacts)
        return Left(files=[path], final=all(row.valid for row in report.rows if row.status != "not_run"))

    made_from = {"model": unlearned.sha256, "artifacts": _as_here(artifacts), "plan": asdict(stages.plan)}
    return progress.stage("bench", made_from, make, lambda _: BenchReport.load(path))


def _converters() -> dict[str, str]:
    return installed_versions(sorted({name for target in TARGETS for name in TARGETS.get(target).distributions}))


def _as_here(artifacts: Sequence[Artifact]) -> dict[str, Any]:
    """Files by hash, and why one cannot run: a runtime that was installed meanwhile is tried."""
    return {item.path.name: [item.card.sha256, not_run_here(item)] for item in artifacts}


def _facts(made: Exports, stages: Stages) -> dict[str, Any]:
    retrained = None if made.retrained is None else os.path.relpath(made.retrained.path, stages.work)
    return {"of": made.artifact.path.name, "original": os.path.relpath(made.original.path, stages.work), "retrained": retrained}


def _made(facts: Mapping[str, Any], artifacts: Sequence[Artifact], stages: Stages) -> Compared:
    files = {item.path.name: item for item in artifacts}
    made = [
        Exports(
            artifact=files[item["of"]], original=load_artifact(stages.work / item["original"]),
            retrained=load_artifact(stages.work / item["retrained"]) if item["retrained"] else None,
        )
        for item in facts["made"]
    ]  # fmt: skip
    return made, dict(facts["unable"])
