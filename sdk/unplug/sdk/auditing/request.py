"""From paths on a command line to an audit: loads what is named, checks that it belongs together."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import torch

from unplug.core import InputError
from unplug.export import Artifact, digest_inputs, load_artifact
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.conditions import real_inputs
from unplug.sdk.data import Dataset, OnBad, Split, load_dataset, read_forget_file
from unplug.sdk.tasks import Kind, kind_of
from unplug.sdk.unlearning import check_oracle, forget, request_split

from .exports import Exports, Form, Inputs, form_of, load_exports, make_exports, not_run_here
from .predictor import ArtifactPredictor, CheckpointPredictor, Predictor
from .report import AuditReport, Role
from .run import audit, check_forget_size
from .sides import relearn_times
from .subjects import artifact_paths, check_artifacts, check_references, check_unlearned, original_path

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class AuditRequest:
    """The arguments of ``unplug audit``, see its help; data and forget set may be loaded already."""

    subjects: Sequence[Path]
    spec: str | Dataset
    on_bad: OnBad
    forget_file: Path | Sequence[str]
    original: Path | None
    retrained: Path | None
    references: Sequence[Path]
    train_references: int
    attacks: Sequence[str] | None
    seed: int
    work: Path
    original_artifacts: Sequence[Path] = ()
    retrained_artifacts: Sequence[Path] = ()
    rounding: bool = True
    relearn: bool = False
    base: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Loaded:
    """What a request names, checked."""

    original: Checkpoint
    unlearned: dict[str, Checkpoint]
    retrained: Checkpoint | None
    artifacts: list[Artifact]
    references: list[Checkpoint]
    dataset: Dataset
    forget_ids: tuple[str, ...]
    split: Split
    skipped: dict[str, str]
    kind: Kind


def run_audit(request: AuditRequest, device: torch.device, say: Say, show: bool) -> AuditReport:
    """Loads everything and audits it.

    Raises:
        InputError: the original cannot be told, or models do not belong to this request.
    """
    loaded = _load(request, device, show)
    with tempfile.TemporaryDirectory(prefix="unplug-audit-") as folder:
        exports, unable = _exports(request, loaded, Path(folder), say)
        references = [*loaded.references, *_train_references(request, loaded, device, say, show)]
        return _audit(request, loaded, exports, unable, references, device, say, show)


def _load(request: AuditRequest, device: torch.device, show: bool) -> _Loaded:
    checkpoints = {path: load_checkpoint(path) for path in request.subjects if (path / "config.json").is_file()}
    paths = artifact_paths([subject for subject in request.subjects if subject not in checkpoints])
    original = load_checkpoint(request.original or original_path(checkpoints))
    kind = kind_of(original, device=device, base=request.base)
    given, named = request.spec, request.forget_file
    dataset = load_dataset(given, kind.image_size, on_bad=request.on_bad, show=show) if isinstance(given, str) else given
    ids = tuple(read_forget_file(named, dataset) if isinstance(named, Path) else named)
    split = request_split(original, dataset, ids)
    check_forget_size(len(split.forget))
    unlearned = {}
    for checkpoint in checkpoints.values():
        if checkpoint.sha256 != original.sha256:
            check_unlearned(checkpoint, original, split)
            unlearned["unlearned" if len(checkpoints) == 1 else checkpoint.path.name] = checkpoint
    expect = original.model_type
    retrained = None if request.retrained is None else load_checkpoint(request.retrained, expect=expect)
    references = [load_checkpoint(path, expect=expect) for path in request.references]
    for model in (*(() if retrained is None else (retrained,)), *references):
        check_oracle(model, split, kind.family.recipe)
        kind.check_twin(model)
    known = {item.sha256 for item in (original, *unlearned.values(), *(() if retrained is None else (retrained,)))}
    artifacts = [load_artifact(path) for path in paths]
    skipped = {item.card.file: reason for item in artifacts if (reason := not_run_here(item)) is not None}
    if checkpoints:
        check_artifacts(artifacts, known)
    elif artifacts:
        skipped["lineage"] = "no checkpoint was given, so nothing shows that the files come from this request's forget step"
    check_references(references, known)
    return _Loaded(
        original=original, unlearned=unlearned, retrained=retrained, artifacts=artifacts, references=references,
        dataset=dataset, forget_ids=ids, split=split, skipped=skipped, kind=kind,
    )  # fmt: skip


def _exports(request: AuditRequest, loaded: _Loaded, folder: Path, say: Say) -> tuple[list[Exports], dict[str, str]]:
    """What each file's rounding is measured against."""
    if request.retrained_artifacts and loaded.retrained is None:
        raise InputError("--retrained-artifact", "there is no retrained model that it belongs to", "Give --retrained as well")
    ends = {loaded.original.sha256, *(() if loaded.retrained is None else (loaded.retrained.sha256,))}
    edited = [item for item in loaded.artifacts if item.card.checkpoint_sha256 not in ends]
    given = load_exports(request.original_artifacts, loaded.original, "--original-artifact")
    oracle = {} if loaded.retrained is None else load_exports(
        request.retrained_artifacts, loaded.retrained, "--retrained-artifact"
    )  # fmt: skip
    if not edited:
        return [], {}
    if not request.rounding:
        return [], {"rounding": "it was switched off"}
    calibrations = _calibrations(edited, loaded)
    return make_exports(edited, loaded.original, loaded.retrained, given, oracle, folder, say, calibrations=calibrations)


def _calibrations(artifacts: Sequence[Artifact], loaded: _Loaded) -> dict[Form, Inputs]:
    """Samples that calibrated some files, drawn again as ``unplug export --calibrate`` drew them, where their digest fits."""
    found: dict[Form, Inputs] = {}
    owners = {item.sha256: item for item in loaded.unlearned.values()}

    @cache  # the same samples for all files of one export: exported in one go then
    def drawn(owner: str, samples: int) -> tuple[Inputs, str]:
        inputs = real_inputs(owners[owner], loaded.dataset, samples, part="retain")
        return inputs, digest_inputs(inputs)

    for item in artifacts:
        facts, owner = item.card.calibration, item.card.checkpoint_sha256
        if facts is not None and owner in owners:
            inputs, digest = drawn(owner, facts.samples)
            if digest == facts.sha256:
                found[form_of(item)] = inputs
    return found


def _train_references(request: AuditRequest, loaded: _Loaded, device: torch.device, say: Say, show: bool) -> list[Checkpoint]:
    found = []
    for number in range(request.train_references):
        say(f"training reference model {number + 1} of {request.train_references} ...")
        path = request.work / f"reference-{number}"
        seed = request.seed + 1000 + number
        found.append(
            forget(
                loaded.original,
                loaded.dataset,
                loaded.forget_ids,
                "retrain",
                path,
                kind=loaded.kind,
                seed=seed,
                device=device,
                show=show,
            )
        )
    return found


def _audit(
    request: AuditRequest, loaded: _Loaded, exports: Sequence[Exports], unable: dict[str, str],
    references: Sequence[Checkpoint], device: torch.device, say: Say, show: bool,
) -> AuditReport:  # fmt: skip
    original, dataset, retrained, kind = loaded.original, loaded.dataset, loaded.retrained, loaded.kind
    named: list[tuple[str, Role, Checkpoint]] = [("original", "original", original)]
    named += [(name, "unlearned", item) for name, item in loaded.unlearned.items()]
    named += [] if retrained is None else [("retrained", "retrained", retrained)]
    predictors: list[Predictor] = [
        CheckpointPredictor(name=name, role=role, checkpoint=item, kind=kind) for name, role, item in named
    ]
    runnable = [item for item in loaded.artifacts if item.card.file not in loaded.skipped]
    predictors += [ArtifactPredictor(name=item.path.name, artifact=item, kind=kind) for item in runnable]
    sets = kind.sets(dataset, loaded.split, show=show)
    report = audit(
        predictors, sets, loaded.split,
        edges=kind.family.edges, data={"spec": loaded.dataset.spec, "digest": dataset.digest, "samples": len(dataset)},
        references=[
            CheckpointPredictor(name=item.path.name, role="retrained", checkpoint=item, kind=kind) for item in references
        ],
        attacks=request.attacks, exports=exports, seed=request.seed, show=show,
    )  # fmt: skip
    if request.relearn:
        models = loaded.unlearned | ({} if retrained is None else {"retrained": retrained})
        say(f"relearning the forget set, three runs each of {', '.join(models) or 'no model'} ...")
        times = relearn_times(original, models, sets, kind, request.seed)
        report = replace(report, models=tuple(replace(item, relearning=times.get(item.name)) for item in report.models))
    return replace(report, skipped={**report.skipped, **loaded.skipped, **unable})
