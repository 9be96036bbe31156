"""``unplug release``: forget, audit, export, parity, bench, then a bundle, or one clear refusal and no bundle."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from unplug.export import Artifact, ParityReport, export_checkpoint, measure_parity
from unplug.mobile_bench import BenchReport, bench_artifacts
from unplug.plugins.checkpoint import Checkpoint, load_checkpoint
from unplug.plugins.errors import CheckpointError, GateFailed
from unplug.plugins.files import write_json
from unplug.sdk.audit import ArtifactPredictor, AuditReport, CheckpointPredictor, audit
from unplug.sdk.audit.run import check_forget_size
from unplug.sdk.data import Dataset
from unplug.sdk.forget import forget
from unplug.sdk.forget.run import request_split
from unplug.sdk.train.run import load_sets

from .bundle import Content, check_free, write_bundle
from .card import bundle_card
from .faces import face_samples
from .gates import (
    GateResult,
    Gates,
    artifact_gate,
    bench_gate,
    budget_gate,
    forgetting_gates,
    parity_gate,
)
from .vectors import synthetic_inputs, write_vectors

SCHEMA = "unplug-release/1"
PARITY_SAMPLES = 16
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class ReleaseConfig:
    """How to release.

    Args:
        method: of the forget step.
        options: its hyperparameters, as text.
        budget: fraction of retraining.
        references: reference models for RMIA, each a retraining with another seed.
        targets, precisions: what to export.
        gates: what must hold.
        bench_iterations, bench_repeats, threads: of the host bench.
        workers: targets converted at the same time.
        seed: of everything random.
    """

    method: str = "msg"
    options: dict[str, str] = field(default_factory=dict)
    budget: float = 0.05
    references: int = 1
    targets: tuple[str, ...] = ("litert", "coreml", "onnx")
    precisions: tuple[str, ...] = ("fp32", "fp16")
    gates: Gates = field(default_factory=Gates)
    bench_iterations: int = 50
    bench_repeats: int = 3
    threads: int = 2
    workers: int = 2
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Release:
    """What a release did: the bundle, and the JSON files that a report is made from."""

    bundle: Path
    reports: tuple[Path, ...]
    summary: dict[str, Any]


def release(
    original: Checkpoint,
    dataset: Dataset,
    forget_ids: Sequence[str],
    out: Path,
    work: Path,
    config: ReleaseConfig,
    *,
    oracle: Checkpoint | None = None,
    device: torch.device,
    say: Say,
    show: bool = True,
) -> Release:
    """Walks the whole way from a request to a bundle.

    Args:
        original: what was trained.
        dataset: what it was trained on.
        forget_ids: what the request names.
        out: bundle folder, written only when every gate holds.
        work: folder of the intermediate results. A model found there is used again if it fits this request, so a
            killed release goes on where it was.
        config: see `ReleaseConfig`.
        oracle: the retrained model; None makes it in `work`.
        device: where to compute.
        say: called with one line a stage.
        show: progress bars.

    Raises:
        GateFailed: a gate does not hold; the message says which and by how much. No bundle is written.
        DataError: a forget set that cannot be forgotten or audited.
        OutputError: something else is at `out`.
    """
    check_forget_size(len(set(forget_ids)))
    check_free(out)
    stages = _Stages(say)
    retrain = _Trainer(original, dataset, forget_ids, config, device, show)
    with stages("retrain (oracle)"):
        oracle = oracle or retrain.get(work / "retrained", config.seed)
    with stages(f"train {config.references} reference model(s)"):
        references = [retrain.get(work / f"reference-{n}", config.seed + 1000 + n) for n in range(config.references)]
    with stages(f"forget by {config.method}"):
        unlearned = forget(
            original, dataset, forget_ids, config.method, work / "unlearned",
            budget=config.budget, options=config.options, oracle=oracle, seed=config.seed, device=device, show=show,
        )  # fmt: skip
    with stages("export"):
        artifacts = export_checkpoint(
            unlearned.path, targets=config.targets, precisions=config.precisions, out=work / "artifacts", workers=config.workers
        )
    with stages("parity"):
        inputs = synthetic_inputs(unlearned.model.image_size, PARITY_SAMPLES)
        parity = measure_parity(artifacts, unlearned.path, inputs)
        parity.save(work / "parity.json")
    with stages("audit"):
        models = {"original": original, "unlearned": unlearned, "retrained": oracle}
        report = _audit(models, references, artifacts, parity, dataset, forget_ids, config, device, show, work)
    with stages("bench"):
        timed = {name: array[:1] for name, array in inputs.items()}
        bench = bench_artifacts(
            artifacts, iterations=config.bench_iterations, repeats=config.bench_repeats, threads=config.threads,
            inputs=timed, checkpoint=unlearned.path, seed=config.seed,
        )  # fmt: skip
        bench.save(work / "bench.json")
    gates = check_gates(config.gates, unlearned, report, parity, bench)
    summary = {
        "schema": SCHEMA,
        "title": out.name,
        "gates": [gate.to_dict() for gate in gates],
        "passed": all(gate.passed for gate in gates),
        "seconds": stages.seconds,
    }
    write_json(work / "release.json", summary)
    reports = tuple(_report_paths(work, models.values(), artifacts))
    failed = [gate for gate in gates if not gate.passed]
    if failed:
        raise GateFailed(
            "release refused", "; ".join(gate.explain() for gate in failed),
            f"No bundle was written. `unplug report {work}/*.json -o report.html` shows why",
        )  # fmt: skip
    with stages("bundle"):
        _bundle(original, unlearned, artifacts, report, parity, bench, summary, out, work)
    return Release(bundle=out, reports=reports, summary=summary)


def check_gates(
    gates: Gates, unlearned: Checkpoint, report: AuditReport, parity: ParityReport, bench: BenchReport
) -> list[GateResult]:
    """Every gate of a release."""
    return [
        *forgetting_gates(gates, report),
        budget_gate(gates, unlearned.record["forget"]["cost"]),
        parity_gate(gates, parity),
        artifact_gate(gates, report),
        bench_gate(gates, bench),
    ]


class _Stages:
    """Says what runs and remembers how long it took."""

    def __init__(self, say: Say) -> None:
        self._say, self.seconds = say, {}
        self._name, self._start = "", 0.0

    seconds: dict[str, float]

    def __call__(self, name: str) -> _Stages:
        self._name = name
        return self

    def __enter__(self) -> None:
        self._start = time.perf_counter()
        self._say(f"{self._name} ...")

    def __exit__(self, *error: object) -> None:
        self.seconds[self._name] = round(time.perf_counter() - self._start, 2)


@dataclass(frozen=True)
class _Trainer:
    """Retrained models, made once: a folder that fits the request and the seed is used again."""

    original: Checkpoint
    dataset: Dataset
    forget_ids: Sequence[str]
    config: ReleaseConfig
    device: torch.device
    show: bool

    def get(self, path: Path, seed: int) -> Checkpoint:
        split = request_split(self.original, self.dataset, self.forget_ids)
        if path.is_dir():
            try:
                found = load_checkpoint(path, expect="age")
            except CheckpointError:
                found = None
            if found is not None and self._fits(found, split.sha256, seed):
                return found
        return forget(
            self.original, self.dataset, self.forget_ids, "retrain", path, seed=seed, device=self.device, show=self.show
        )

    def _fits(self, found: Checkpoint, split_sha256: str, seed: int) -> bool:
        record = found.record
        return (
            record.get("split", {}).get("sha256") == split_sha256
            and record.get("seed") == seed
            and record.get("lineage", {}).get("original_sha256") == self.original.sha256
        )


def _audit(
    models: dict[str, Checkpoint],
    references: Sequence[Checkpoint],
    artifacts: Sequence[Artifact],
    parity: ParityReport,
    dataset: Dataset,
    forget_ids: Sequence[str],
    config: ReleaseConfig,
    device: torch.device,
    show: bool,
    work: Path,
) -> AuditReport:
    original = models["original"]
    edges = tuple(original.model.age_edges)
    split = request_split(original, dataset, forget_ids)
    sets = load_sets(dataset, split, edges, device)
    runnable = {row.file for row in parity.rows if row.status != "not_run"}
    report = audit(
        [
            *(CheckpointPredictor(name=role, role=role, checkpoint=item) for role, item in models.items()),  # type: ignore[arg-type]
            *(ArtifactPredictor(name=item.path.name, artifact=item) for item in artifacts if item.path.name in runnable),
        ],
        sets,
        split,
        edges=edges,
        data={"spec": dataset.spec, "digest": dataset.digest, "samples": len(dataset)},
        references=[
            CheckpointPredictor(name=f"reference-{n}", role="retrained", checkpoint=item) for n, item in enumerate(references)
        ],
        seed=config.seed,
        show=show,
    )
    report.save(work / "audit.json")
    write_json(work / "faces.json", face_samples(sets, models))
    return report


def _report_paths(work: Path, models: Any, artifacts: Sequence[Artifact]) -> list[Path]:
    cards = [item.path.with_name(item.path.name + ".json") for item in artifacts]
    records = [item.path / "unplug.json" for item in models]
    return [*(work / f"{name}.json" for name in ("release", "audit", "parity", "bench", "faces")), *records, *cards]


def _bundle(
    original: Checkpoint,
    unlearned: Checkpoint,
    artifacts: Sequence[Artifact],
    report: AuditReport,
    parity: ParityReport,
    bench: BenchReport,
    summary: dict[str, Any],
    out: Path,
    work: Path,
) -> None:
    vectors = work / "test_vectors"
    vectors.mkdir(parents=True, exist_ok=True)
    write_vectors(unlearned, vectors)
    spent = unlearned.record["forget"]
    facts = {
        "model_type": unlearned.model_type,
        "iospec": unlearned.model.iospec.to_dict(),
        "preprocessing": {"crop": "centre square", "resize": unlearned.model.image_size, "scale": "pixel / 255"},
        "postprocessing": {"age_edges": list(unlearned.model.age_edges), "unit": "years"},
        "lineage": {
            "original_sha256": original.sha256,
            "checkpoint_sha256": unlearned.sha256,
            "data_digest": report.data["digest"],
            "forget_set_sha256": spent["set_sha256"],
            "forget_samples": spent["samples"],
            "method": spent["method"],
            "compute_fraction": spent["cost"]["compute_fraction"],
            "ledger_head": None,
        },
        "gates": summary["gates"],
        "versions": report.versions,
    }
    reports = {
        "audit.json": report.to_dict(),
        "parity.json": asdict(parity),
        "bench.json": asdict(bench),
        "release.json": summary,
    }
    # A data spec is a path of the machine that trained: it stays home.
    reports["audit.json"]["data"].pop("spec", None)
    card = bundle_card(out.name, unlearned, report, artifacts, summary)
    write_bundle(Content(artifacts=artifacts, reports=reports, vectors=vectors, card=card, facts=facts), out)
