"""From paths to an audit: loads what is named, and checks that all of it is about one request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import torch

from unplug.core import ArtifactError, CheckpointError, InputError, sha256_file, temporary_folder
from unplug.export import Artifact, digest_inputs, load_artifact
from unplug.plugins import Checkpoint, load_checkpoint, weights_file
from unplug.sdk.drawing.conditions import real_inputs
from unplug.sdk.evidence.fleet import load_references
from unplug.sdk.forgetting.tasks import StoredTask, task_of
from unplug.sdk.forgetting.unlearning import check_oracle, forget, request_split
from unplug.sdk.learning.data import (
    Dataset,
    OnBad,
    Split,
    load_dataset,
    read_forget_file,
    resolve_names,
)
from unplug.sdk.learning.training import Sets, split_of
from unplug.trust.bundle import artifact_paths

from .audit_report import SWITCHED_OFF, AuditReport, Relearning, Role
from .audit_run import audit, check_forget_size
from .evidence import gather
from .exports import Exports, Form, Inputs, form_of, load_exports, make_exports, not_run_here
from .predictor import ArtifactPredictor, CheckpointPredictor, Predictor
from .relearning import Censored, forget_loss, relearn

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class AuditConfig:
    """The arguments of `unplug.sdk.audit`; data and forget set may be loaded already."""

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
    fleet: Path | None = None
    others: str | None = None


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
    task: StoredTask


def run_audit(config: AuditConfig, device: torch.device, say: Say, show: bool) -> AuditReport:
    """Loads everything and audits it.

    Raises:
        InputError: the original cannot be told, or models do not belong to this config.
    """
    loaded = _load(config, device, show)
    with temporary_folder("unplug-audit-") as folder:
        exports, unable = _exports(config, loaded, folder, say)
        references = [*loaded.references, *_train_references(config, loaded, device, say, show)]
        return _audit(config, loaded, exports, unable, references, device, say, show)


def _load(config: AuditConfig, device: torch.device, show: bool) -> _Loaded:
    checkpoints = {
        path: load_checkpoint(path) for path in config.subjects if (path / "config.json").is_file()
    }
    paths = artifact_paths([subject for subject in config.subjects if subject not in checkpoints])
    original = load_checkpoint(config.original or _original_path(checkpoints))
    task = task_of(original, device=device, base=config.base)
    given, named = config.spec, config.forget_file
    dataset = (
        load_dataset(given, task.image_size, on_bad=config.on_bad, show=show)
        if isinstance(given, str)
        else given
    )
    ids = (
        read_forget_file(named, dataset)
        if isinstance(named, Path)
        else resolve_names(named, dataset, "forget_ids")
    )
    split = request_split(original, dataset, ids)
    check_forget_size(len(split.forget), exact=config.fleet is not None)
    unlearned = {}
    for checkpoint in checkpoints.values():
        if checkpoint.sha256 != original.sha256:
            _check_unlearned(checkpoint, original, split, dataset)
            unlearned["unlearned" if len(checkpoints) == 1 else checkpoint.path.name] = checkpoint
        elif checkpoint.record.get("role") in ("unlearned", "retrained"):
            why = "its weights are the original's: nothing was forgotten"
            raise CheckpointError(
                str(checkpoint.path), why, "Run `unplug forget` again, with a larger budget"
            )
    expect = original.model_type
    retrained = (
        None if config.retrained is None else load_checkpoint(config.retrained, expect=expect)
    )
    references = [load_checkpoint(path, expect=expect) for path in config.references]
    for model in (*(() if retrained is None else (retrained,)), *references):
        check_oracle(model, split, task.recipe)
        task.check_twin(model)
    known = {
        item.sha256
        for item in (original, *unlearned.values(), *(() if retrained is None else (retrained,)))
    }
    artifacts = [load_artifact(path) for path in paths]
    skipped = {
        item.card.file: reason for item in artifacts if (reason := not_run_here(item)) is not None
    }
    if checkpoints:
        _check_artifacts(artifacts, known)
    elif artifacts:
        skipped["lineage"] = (
            "no checkpoint was given, so nothing shows that the files come from this request's "
            "forget step"
        )
    _check_references(references, known)
    return _Loaded(
        original=original,
        unlearned=unlearned,
        retrained=retrained,
        artifacts=artifacts,
        references=references,
        dataset=dataset,
        forget_ids=ids,
        split=split,
        skipped=skipped,
        task=task,
    )


def _exports(
    config: AuditConfig, loaded: _Loaded, folder: Path, say: Say
) -> tuple[list[Exports], dict[str, str]]:
    """What each file's rounding is measured against."""
    if config.retrained_artifacts and loaded.retrained is None:
        raise InputError(
            "`retrained_artifacts`",
            "there is no retrained model that it belongs to",
            "Give `retrained` as well",
        )
    ends = {
        loaded.original.sha256,
        *(() if loaded.retrained is None else (loaded.retrained.sha256,)),
    }
    edited = [item for item in loaded.artifacts if item.card.checkpoint_sha256 not in ends]
    given = load_exports(config.original_artifacts, loaded.original, "`original_artifacts`")
    oracle = (
        {}
        if loaded.retrained is None
        else load_exports(config.retrained_artifacts, loaded.retrained, "`retrained_artifacts`")
    )
    if not edited:
        return [], {}
    if not config.rounding:
        return [], {"rounding": SWITCHED_OFF}
    calibrations = _calibrations(edited, loaded)
    return make_exports(
        edited,
        loaded.original,
        loaded.retrained,
        given,
        oracle,
        folder,
        say,
        calibrations=calibrations,
    )


def _calibrations(artifacts: Sequence[Artifact], loaded: _Loaded) -> dict[Form, Inputs]:
    """Samples that calibrated some files, drawn again as ``unplug export --calibrate`` drew them,
    where their digest fits.
    """
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


def _train_references(
    config: AuditConfig, loaded: _Loaded, device: torch.device, say: Say, show: bool
) -> list[Checkpoint]:
    found = []
    for number in range(config.train_references):
        say(f"training reference model {number + 1} of {config.train_references} ...")
        path = config.work / f"reference-{number}"
        seed = config.seed + 1000 + number
        found.append(
            forget(
                loaded.original,
                loaded.dataset,
                loaded.forget_ids,
                "retrain",
                path,
                task=loaded.task,
                seed=seed,
                device=device,
                show=show,
            )
        )
    return found


def _audit(
    config: AuditConfig,
    loaded: _Loaded,
    exports: Sequence[Exports],
    unable: dict[str, str],
    references: Sequence[Checkpoint],
    device: torch.device,
    say: Say,
    show: bool,
) -> AuditReport:
    original, dataset, retrained, task = (
        loaded.original,
        loaded.dataset,
        loaded.retrained,
        loaded.task,
    )
    named: list[tuple[str, Role, Checkpoint]] = [("original", "original", original)]
    named += [(name, "unlearned", item) for name, item in loaded.unlearned.items()]
    named += [] if retrained is None else [("retrained", "retrained", retrained)]
    predictors: list[Predictor] = [
        CheckpointPredictor(name=name, role=role, checkpoint=item, task=task)
        for name, role, item in named
    ]
    runnable = [item for item in loaded.artifacts if item.card.file not in loaded.skipped]
    predictors += [
        ArtifactPredictor(name=item.path.name, artifact=item, task=task) for item in runnable
    ]
    sets = task.sets(dataset, loaded.split, device, show=show)
    others = (
        None if config.others is None else load_dataset(config.others, task.image_size, show=show)
    )
    report = audit(
        predictors,
        sets,
        loaded.split,
        edges=task.edges,
        data={"spec": loaded.dataset.spec, "digest": dataset.digest, "samples": len(dataset)},
        references=[
            CheckpointPredictor(name=item.path.name, role="retrained", checkpoint=item, task=task)
            for item in references
        ],
        fleet=None
        if config.fleet is None
        else load_references(config.fleet, original, task, dataset),
        attacks=config.attacks,
        exports=exports,
        evidence=gather(sets, dataset, task, others=others),
        seed=config.seed,
        show=show,
    )
    if config.relearn:
        models = loaded.unlearned | ({} if retrained is None else {"retrained": retrained})
        say(f"relearning the forget set, three runs each of {', '.join(models) or 'no model'} ...")
        times = relearn_times(original, models, sets, task, config.seed)
        report = replace(
            report,
            models=tuple(replace(item, relearning=times.get(item.name)) for item in report.models),
        )
    return replace(report, skipped={**report.skipped, **loaded.skipped, **unable})


def relearn_times(
    original: Checkpoint, models: Mapping[str, Checkpoint], sets: Sets, task: StoredTask, seed: int
) -> dict[str, Relearning]:
    """Relearn time of each model by name; the original's loss on the forget set is what it must
    come down to.

    Args:
        original: the model before forgetting.
        models: unlearned and retrained checkpoints.
        sets: on the device; only the forget set is learned.
        task: the original's.
        seed: of the first of three runs a model.
    """
    device = sets.forget.device
    before = task.network(original.model).to(device)
    target = forget_loss(before, sets.forget, task)
    found = {}
    for name, checkpoint in models.items():
        model = task.network(checkpoint.model).to(device)
        seeds = (seed, seed + 1, seed + 2)
        took = relearn([model], sets.forget, task, target_loss=target, seeds=seeds)
        if isinstance(took, Censored):
            found[name] = Relearning(passes=took.passes, target_loss=target, reason=took.reason)
        else:
            found[name] = Relearning(
                passes=took.passes, mean=took.mean, target_loss=took.target_loss
            )
    return found


def _check_unlearned(
    checkpoint: Checkpoint, original: Checkpoint, split: Split, dataset: Dataset
) -> None:
    """Refuses a model that was made from another original, or for another request."""
    lineage = checkpoint.record.get("lineage") or {}
    if lineage.get("original_sha256") != original.sha256:
        raise CheckpointError(
            str(checkpoint.path), "it was not made from this original", "Pass its own `original`"
        )
    if set(split_of(checkpoint, dataset).forget) != set(split.forget):
        raise CheckpointError(
            str(checkpoint.path),
            "it forgot another forget set than this one",
            "Give the file of its request",
        )


def _check_artifacts(artifacts: Sequence[Artifact], known: Set[str]) -> None:
    """Refuses exported files of other weights than those that are audited beside them."""
    for artifact in artifacts:
        if artifact.card.checkpoint_sha256 not in known:
            why = "it was exported from other weights than the checkpoints given"
            raise ArtifactError(
                str(artifact.path), why, "Export it again, or audit it without them"
            )


def _check_references(references: Sequence[Checkpoint], known: Set[str]) -> None:
    """A reference that is also the oracle, or that is given twice, would make RMIA compare a model
    with itself.
    """
    seen = set(known)
    for reference in references:
        if reference.sha256 in seen:
            why = "it is given already, as a model or as another reference"
            raise CheckpointError(
                str(reference.path), why, "Train references with other seeds: `train_references=1`"
            )
        seen.add(reference.sha256)


def _original_path(checkpoints: Mapping[Path, Checkpoint]) -> Path:
    """Where the original is that the checkpoints came from, by their records.

    Raises:
        InputError: it is neither where it was nor beside them.
    """
    for checkpoint in checkpoints.values():
        lineage = checkpoint.record.get("lineage")
        if lineage is None and checkpoint.record.get("role") == "original":
            return checkpoint.path
        recorded = Path(str((lineage or {}).get("original")))
        # As it was named then, and beside the unlearned model: people move both together, and work
        # from other folders.
        for place in (recorded, checkpoint.path.parent / recorded.name):
            weights = weights_file(place)
            if weights.is_file() and sha256_file(weights) == (lineage or {}).get("original_sha256"):
                return place
    raise InputError(
        "audit",
        "the original that the forget step started from is not where it was",
        "Pass `original`",
    )
