"""The stages between a request and its evidence; each is one method and leaves its result in the work folder."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from unplug.core import CheckpointError, InputError, hold, write_json
from unplug.export import Artifact, ParityReport, export_checkpoint, looks_at_samples, measure_parity
from unplug.mobile_bench import BenchReport, Plan, bench_artifacts
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.assurance import PROTOCOLS, AgeProtocol, Asking, EvaluationReport, JudgedModels, ask, judge, people_of
from unplug.sdk.auditing import (
    SWITCHED_OFF,
    ArtifactPredictor,
    AuditReport,
    Certification,
    CheckpointPredictor,
    Exports,
    Inputs,
    audit,
    criticise,
    form_of,
    gather,
    make_exports,
    read_certification,
    relearn_times,
)
from unplug.sdk.conditions import example_inputs, real_inputs
from unplug.sdk.data import Dataset, Split, keyed, load_dataset
from unplug.sdk.fleet import References, load_references
from unplug.sdk.inference import DecisionRecord
from unplug.sdk.report import FaceSheet
from unplug.sdk.tasks import StoredTask
from unplug.sdk.training import training_dir
from unplug.sdk.unlearning import DEFAULT_METHOD, design_of, forget, needs_answers, request_split

from .contents import face_samples
from .deciding import Decided, decide_release, decision_of
from .gates import ReleaseConfig

PARITY_SAMPLES = 16
CALIBRATION_SAMPLES = 128


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything that the gates look at and the bundle is made of."""

    task: StoredTask
    original: Checkpoint
    retrained: Checkpoint | None
    unlearned: Checkpoint
    artifacts: Sequence[Artifact]
    parity: ParityReport
    audit: AuditReport
    bench: BenchReport
    certified: Certification | None = None
    decided: Decided | None = None
    evaluation: EvaluationReport | None = None


@dataclass(frozen=True, kw_only=True)
class Stages:
    """What all stages of one release share; see `release` for the fields."""

    original: Checkpoint
    dataset: Dataset
    forget_ids: Sequence[str]
    config: ReleaseConfig
    work: Path
    device: torch.device
    task: StoredTask
    show: bool
    restart: bool = False

    @property
    def split(self) -> Split:
        """The original's split with this request's forget set."""
        return request_split(self.original, self.dataset, self.forget_ids)

    @property
    def design(self) -> str | None:
        """The original's design, or None."""
        return design_of(self.original)

    @cached_property
    def fleet(self) -> References | None:
        """References that left people out, where a fleet is given."""
        folder = self.config.fleet
        return None if folder is None else load_references(folder, self.original, self.task, self.dataset)

    @cached_property
    def certified(self) -> Certification | None:
        """What is known of the method, where a certification is given; see `read_certification`."""
        config = self.config
        if config.certification is None:
            return None
        people = {sample.person for sample in self.dataset.samples if sample.id in set(self.forget_ids)}
        return read_certification(
            config.certification, self.original, self.dataset, config.method or DEFAULT_METHOD, config.options, config.budget,
            None if self.fleet is None else self.fleet.sha256, len(people),
        )  # fmt: skip

    @cached_property
    def decision(self) -> DecisionRecord | None:
        """The decision that is in force, where one is given; see `decision_of`."""
        return decision_of(self)

    @cached_property
    def protocol(self) -> AgeProtocol | None:
        """How models are judged at age limits, where that is asked for.

        Raises:
            InputError: no such protocol, or a model that says no age.
            DataError: data that its numbers cannot be had of.
        """
        name = self.config.evaluate
        if name is None:
            return None
        found = PROTOCOLS.get(name)
        if self.original.model_type != "age":
            why = f"a {self.original.model_type} model says no age"
            raise InputError(f"--evaluate {name}", why, "Leave it out")
        found.check(people_of(self.dataset, [self.split])[0])
        return found

    @property
    def needs_oracle(self) -> bool:
        """Whether a model must be retrained: a fleet has models that never saw them."""
        return self.exact or self.config.oracle or self.config.fleet is None

    @property
    def exact(self) -> bool:
        """Whether forgetting is exact by construction, so that an equality shows it and no attack has to."""
        return self.design is not None or self.config.method == "retrain"

    def retrain(self, name: str, seed: int) -> Checkpoint:
        """The oracle or a reference model; a folder that fits the request and the seed is used again."""
        path = self.work / name
        if path.is_dir() and (found := self._fitting(path, seed)) is not None:
            with hold(path):  # a kill may have come between the model and the end of its training
                shutil.rmtree(training_dir(path), ignore_errors=True)
            return found
        return self._forget("retrain", path, seed)

    def model(self, name: str) -> Checkpoint:
        """A model that a stage left in the work folder."""
        return load_checkpoint(self.work / name, expect=self.task.model_type)

    def _fitting(self, path: Path, seed: int) -> Checkpoint | None:
        try:
            found = load_checkpoint(path, expect=self.task.model_type)
        except CheckpointError:
            return None
        record = found.record
        fits = (
            record.get("split", {}).get("sha256") == keyed(self.split).sha256
            and record.get("seed") == seed
            and record.get("lineage", {}).get("original_sha256") == self.original.sha256
        )
        return found if fits else None

    def unlearn(self, oracle: Checkpoint | None) -> Checkpoint:
        """The forget step, by the design where the original has one."""
        config = self.config
        if self.design is not None:
            return self._forget(config.method, self.work / "unlearned", config.seed)
        fleet = self.fleet if needs_answers(config.method) else None
        return self._forget(
            config.method, self.work / "unlearned", config.seed, budget=config.budget, options=config.options, oracle=oracle,
            outside=None if fleet is None else fleet.out_of_fold(self.split.forget, config.seed),
        )  # fmt: skip

    def _forget(self, method: str | None, path: Path, seed: int, **options: Any) -> Checkpoint:
        return forget(
            self.original, self.dataset, self.forget_ids, method, path,
            task=self.task, seed=seed, device=self.device, show=self.show, restart=self.restart, **options,
        )  # fmt: skip

    def export(self, unlearned: Checkpoint, calibration: Inputs | None) -> list[Artifact]:
        """Every target in every precision; `calibration` is of `calibration`."""
        config = self.config
        return export_checkpoint(
            unlearned.path, targets=config.targets, precisions=config.precisions, out=self.work / "artifacts",
            workers=config.workers, calibration=calibration,
        )  # fmt: skip

    def calibration(self, unlearned: Checkpoint) -> Inputs | None:
        """Samples of the retain set, where a precision looks at any."""
        if not looks_at_samples(self.config.precisions):
            return None
        return real_inputs(unlearned, self.dataset, CALIBRATION_SAMPLES, part="retain")

    def parity(self, unlearned: Checkpoint, artifacts: Sequence[Artifact]) -> ParityReport:
        """Artifacts against the checkpoint, on samples of the test set."""
        inputs = real_inputs(unlearned, self.dataset, PARITY_SAMPLES, part="test")
        report = measure_parity(artifacts, unlearned.path, inputs)
        report.save(self.work / "parity.json")
        return report

    def inputs(self, model: Checkpoint, count: int) -> dict[str, Any]:
        """Procedural inputs, never pictures of people."""
        return example_inputs(model.model_type, model.model.iospec, count)

    def counterparts(
        self, artifacts: Sequence[Artifact], calibration: Inputs | None, retrained: Checkpoint | None, folder: Path
    ) -> tuple[list[Exports], dict[str, str]]:
        """The original and the oracle exported as what ships, to `folder`; see `make_exports`."""
        if not self.config.rounding:
            return [], {"rounding": SWITCHED_OFF}
        known = {} if calibration is None else {form_of(item): calibration for item in artifacts if item.card.calibration}
        return make_exports(artifacts, self.original, retrained, {}, {}, folder, lambda _: None, self.config.workers, known)

    def audit(
        self,
        models: dict[str, Checkpoint],
        references: Sequence[Checkpoint],
        artifacts: Sequence[Artifact],
        parity: ParityReport,
        compared: tuple[Sequence[Exports], dict[str, str]] = ((), {}),
    ) -> AuditReport:
        """The three models, and every artifact that runs here, by the same attacks; `compared` is of `counterparts`."""
        task = self.task
        sets = task.sets(self.dataset, self.split, self.device, show=self.show)
        runnable = {row.file for row in parity.rows if row.status != "not_run"}
        report = audit(
            [
                *(CheckpointPredictor(name=role, role=role, checkpoint=item, task=task) for role, item in models.items()),  # type: ignore[arg-type]
                *(
                    ArtifactPredictor(name=item.path.name, artifact=item, task=task)
                    for item in artifacts
                    if item.path.name in runnable
                ),
            ],
            sets,
            self.split,
            edges=task.edges,
            data={"spec": self.dataset.spec, "digest": self.dataset.digest, "samples": len(self.dataset)},
            references=[
                CheckpointPredictor(name=item.path.name, role="retrained", checkpoint=item, task=task) for item in references
            ],
            fleet=self.fleet,
            exports=compared[0],
            exact=self.exact,
            seed=self.config.seed,
            show=self.show,
        )
        report = replace(report, skipped={**report.skipped, **compared[1]})
        if self.config.gates.min_relearn_of_retrained is not None and not self.exact:
            learned = {name: item for name, item in models.items() if name != "original"}
            times = relearn_times(self.original, learned, sets, task, self.config.seed)
            report = replace(report, models=tuple(replace(item, relearning=times.get(item.name)) for item in report.models))
        return report

    def criticise(self, report: AuditReport, models: dict[str, Checkpoint]) -> AuditReport:
        """The audit with the attacks that read more than its sets, on the checkpoints; of models of pictures alone."""
        task, config = self.task, self.config
        others = None if config.others is None else load_dataset(config.others, task.image_size, show=self.show)
        sets = task.sets(self.dataset, self.split, self.device, show=self.show)
        evidence = gather(sets, self.dataset, task, others=others)
        if "views" in evidence.missing:
            return report
        named = [CheckpointPredictor(name=role, role=role, checkpoint=item, task=task) for role, item in models.items()]  # type: ignore[arg-type]
        return criticise(report, named, sets, evidence, fleet=self.fleet, seed=config.seed)

    def decide(self, record: DecisionRecord, unlearned: Checkpoint, artifacts: Sequence[Artifact], path: Path) -> None:
        """Whether the decision moved, and the one that ships, to `path`."""
        write_json(path, asdict(decide_release(self, record, unlearned, artifacts)))

    def evaluate(self, protocol: AgeProtocol, models: Sequence[Checkpoint], artifacts: Sequence[Artifact], path: Path) -> None:
        """What models and files are worth at age limits, on the test set, to `path`."""
        asked = JudgedModels(models=[*(item.path for item in models), *(item.path for item in artifacts)], data=self.dataset)
        answers = ask(asked, device=self.device, show=self.show)
        judge(answers, protocol, Asking(seed=self.config.seed)).save(path)

    def faces(self, models: dict[str, Checkpoint]) -> FaceSheet:
        """People of the test set, none of them forgotten, with what each model says."""
        return face_samples(self.task.sets(self.dataset, self.split, self.device, show=self.show), self.dataset, models)

    @property
    def plan(self) -> Plan:
        """How to bench on this machine."""
        config = self.config
        return Plan(
            iterations=config.bench_iterations, repeats=config.bench_repeats, threads=config.threads, seed=config.seed
        )  # fmt: skip

    def bench(self, unlearned: Checkpoint, artifacts: Sequence[Artifact]) -> BenchReport:
        """Latency on this machine, with the checkpoint's outputs as the parity reference."""
        report = bench_artifacts(artifacts, plan=self.plan, inputs=self.inputs(unlearned, 2), checkpoint=unlearned.path)
        report.save(self.work / "bench.json")
        return report
