"""From paths to an audit: loads what is named, and checks that all of it is about one request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from unplug.core import ArtifactError, CheckpointError, InputError, progress, sha256_file
from unplug.export import Artifact, digest_inputs, load_artifact
from unplug.plugins import MEMBERS, Checkpoint, load_checkpoint, weights_file
from unplug.sdk.drawing.conditions import real_inputs
from unplug.sdk.evidence.fleet import References, load_references
from unplug.sdk.forgetting.tasks import StoredTask, task_of
from unplug.sdk.forgetting.unlearning import check_oracle, forget, members_of, request_split
from unplug.sdk.learning.data import (
    Dataset,
    OnBad,
    Split,
    as_trained,
    load_again,
    load_dataset,
    read_forget_file,
    resolve_names,
)
from unplug.sdk.learning.training import Sets, split_of
from unplug.trust.bundle import artifact_paths

from .attack import ATTACKS
from .audit_report import SWITCHED_OFF, AuditReport, Relearning, Role, called
from .audit_run import audit, check_forget_size
from .evidence import AuditEvidence
from .exports import Exports, Form, Inputs, form_of, load_exports, make_exports, not_run_here
from .predictor import ArtifactPredictor, CheckpointPredictor, Predictor
from .relearning import Censored, forget_loss, relearn

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class AuditedModels:
    """What a request names, loaded and checked.

    Args:
        original, unlearned, retrained, references: checkpoints; the unlearned ones by name.
        artifacts: exported files, those that cannot run here among them.
        dataset, forget_ids, split: the request's data, forget set and split.
        task: the task of the original, on `device`.
        fleet: references that left people out, where they are given.
        others: other pictures of the same people, where they are given.
        skipped: results that cannot be shown, each with the reason.
        member: the member of a family that all of it is of; None of a reference, or of no family.
    """

    original: Checkpoint
    unlearned: dict[str, Checkpoint]
    retrained: Checkpoint | None
    references: list[Checkpoint]
    artifacts: list[Artifact]
    dataset: Dataset
    forget_ids: tuple[str, ...]
    split: Split
    task: StoredTask
    device: torch.device
    fleet: References | None
    others: Dataset | None
    skipped: dict[str, str]
    member: str | None = None

    @property
    def known(self) -> set[str]:
        """Weights of what is audited, or compared with."""
        models = (self.original, *self.unlearned.values(), self.retrained)
        return {model.sha256 for model in models if model is not None}


def load_audited(
    models: Sequence[Path],
    data: str | Dataset,
    forget_ids: Path | Sequence[str],
    *,
    on_bad: OnBad,
    original: Path | None,
    retrained: Path | None,
    references: Sequence[Path],
    fleet: Path | None,
    attacks: Sequence[str] | None,
    others: str | None,
    base: str | None,
    device: torch.device,
    show: bool,
) -> AuditedModels:
    """Loads all that `unplug.sdk.audit` names, before anything is trained or exported for it.

    Raises:
        InputError: the original cannot be told, or there is no such attack.
        CheckpointError, ArtifactError: a model that does not belong to this request.
    """
    for name in attacks or ():
        ATTACKS.get(name)
    checkpoints = {
        path: _whole(load_checkpoint(path)) for path in models if (path / "config.json").is_file()
    }
    files = artifact_paths([path for path in models if path not in checkpoints], members=True)
    before = _whole(load_checkpoint(original or _original_path(checkpoints.values())))
    task = task_of(before, device=device, base=base)
    if isinstance(data, str):
        size, record = task.image_size, before.record
        data = load_again(data, size, record, on_bad=on_bad, show=show)
    data = as_trained(data, before.record)
    ids = (
        read_forget_file(forget_ids, data)
        if isinstance(forget_ids, Path)
        else resolve_names(forget_ids, data, "forget_ids")
    )
    split = request_split(before, data, ids)
    check_forget_size(len(split.forget), exact=fleet is not None)
    unlearned = _unlearned(checkpoints.values(), before, split, data)
    kind = before.model_type
    oracle = None if retrained is None else _whole(load_checkpoint(retrained, expect=kind))
    trained = [_whole(load_checkpoint(path, expect=kind)) for path in references]
    for model in (oracle, *trained):
        if model is not None:
            check_oracle(model, split, task.recipe)
            task.check_twin(model)
    models_of = [model for model in (before, *unlearned.values(), oracle) if model is not None]
    families = [(model, *members_of(model).values()) for model in models_of]
    known = {model.sha256 for family in families for model in family}
    artifacts = [load_artifact(path) for path in files]
    skipped = _checked_artifacts(artifacts, known if checkpoints else None)
    _check_references(trained, known)
    return AuditedModels(
        original=before,
        unlearned=unlearned,
        retrained=oracle,
        references=trained,
        artifacts=artifacts,
        dataset=data,
        forget_ids=ids,
        split=split,
        task=task,
        device=device,
        fleet=None if fleet is None else load_references(fleet, before, task, data),
        others=None if others is None else load_dataset(others, task.image_size, show=show),
        skipped=skipped,
    )


def counterparts(
    audited: AuditedModels,
    original_artifacts: Sequence[Path],
    retrained_artifacts: Sequence[Path],
    folder: Path,
    say: Say,
    *,
    rounding: bool,
) -> tuple[list[Exports], dict[str, str]]:
    """What each file's rounding is measured against, made in a folder where it is not given; and
    why some cannot be.
    """
    oracle = audited.retrained
    if retrained_artifacts and oracle is None:
        raise InputError(
            "`retrained_artifacts`",
            "there is no retrained model that it belongs to",
            "Give `retrained` as well",
        )
    given = load_exports(original_artifacts, audited.original, "`original_artifacts`")
    theirs = (
        {} if oracle is None else load_exports(retrained_artifacts, oracle, "`retrained_artifacts`")
    )
    # Exports of the original and of the oracle themselves have no edit that rounding could undo.
    ends = {model.sha256 for model in (audited.original, oracle) if model is not None}
    edited = [file for file in audited.artifacts if file.card.checkpoint_sha256 not in ends]
    if not edited or not rounding:
        return [], {"rounding": SWITCHED_OFF} if edited else {}
    return make_exports(
        edited,
        audited.original,
        oracle,
        given,
        theirs,
        folder,
        say,
        calibrations=_calibrations(edited, audited),
    )


def _calibrations(artifacts: Sequence[Artifact], audited: AuditedModels) -> dict[Form, Inputs]:
    """Samples that calibrated some files, drawn again as ``unplug export --calibrate`` drew them,
    where their digest fits.
    """
    inputs_of: dict[Form, Inputs] = {}
    owners = {model.sha256: model for model in audited.unlearned.values()}

    @cache  # the same samples for all files of one export: exported in one go then
    def drawn(owner: str, samples: int) -> tuple[Inputs, str]:
        inputs = real_inputs(owners[owner], audited.dataset, samples, part="retain")
        return inputs, digest_inputs(inputs)

    for file in artifacts:
        facts, owner = file.card.calibration, file.card.checkpoint_sha256
        if facts is not None and owner in owners:
            inputs, digest = drawn(owner, facts.samples)
            if digest == facts.sha256:
                inputs_of[form_of(file)] = inputs
    return inputs_of


def train_more_references(
    audited: AuditedModels, count: int, folder: Path, seed: int, say: Say, show: bool
) -> list[Checkpoint]:
    """Reference models, each for a whole retraining, into folders of their own."""
    trained = []
    for number in range(count):
        say(f"training reference model {number + 1} of {count} ...")
        trained.append(
            forget(
                audited.original,
                audited.dataset,
                audited.forget_ids,
                "retrain",
                folder / f"reference-{number}",
                task=audited.task,
                seed=seed + 1000 + number,
                device=audited.device,
                show=show,
            )
        )
    return trained


def audit_all(
    audited: AuditedModels,
    references: Sequence[Checkpoint],
    exports: Sequence[Exports],
    *,
    sets: Sets,
    evidence: AuditEvidence,
    exact: bool,
    attacks: Sequence[str] | None,
    relearn: bool,
    seed: int,
    say: Say,
    show: bool,
) -> AuditReport:
    """The audit of all that is loaded, against references that are given or trained.

    Args:
        audited: the models and the request.
        references: models for RMIA and LiRA.
        exports: the files that its own are compared with.
        sets: the sets of the request, on the device.
        evidence: further sets that attacks read.
        exact: see `audit`.
        attacks: names; None takes all that can run.
        relearn: measure how soon each model learns the forget set again.
        seed: the seed of the resampling.
        say: told of each long step.
        show: progress bars.
    """
    task, dataset = audited.task, audited.dataset
    report = audit(
        _predictors(audited),
        sets,
        audited.split,
        edges=task.edges,
        data={"spec": dataset.spec, "digest": dataset.digest, "samples": len(dataset)},
        references=[_predictor(model.path.name, "retrained", model, task) for model in references],
        fleet=audited.fleet,
        attacks=attacks,
        exports=exports,
        evidence=evidence,
        exact=exact,
        seed=seed,
        show=show,
    )
    report = replace(report, skipped=report.skipped | audited.skipped)
    if not relearn:
        return report
    oracle, name = audited.retrained, called("retrained", audited.member)
    models = audited.unlearned | ({} if oracle is None else {name: oracle})
    say(f"relearning the forget set, three runs each of {', '.join(models) or 'no model'} ...")
    times = relearn_times(audited.original, models, sets, task, seed, show=show)
    rows = (replace(model, relearning=times.get(model.name)) for model in report.models)
    return replace(report, models=tuple(rows))


def _predictor(name: str, role: Role, model: Checkpoint, task: StoredTask) -> CheckpointPredictor:
    return CheckpointPredictor(name=name, role=role, checkpoint=model, task=task)


def _predictors(audited: AuditedModels) -> list[Predictor]:
    """All models that can be asked here: checkpoints first."""
    task, member = audited.task, audited.member
    name = called("original", member)
    predictors: list[Predictor] = [_predictor(name, "original", audited.original, task)]
    predictors += [
        _predictor(name, "unlearned", model, task) for name, model in audited.unlearned.items()
    ]
    if audited.retrained is not None:
        name = called("retrained", member)
        predictors.append(_predictor(name, "retrained", audited.retrained, task))
    place = "" if member is None else f"{MEMBERS}/{member}/"
    return predictors + [
        ArtifactPredictor(name=f"{place}{file.path.name}", artifact=file, task=task)
        for file in audited.artifacts
        if file.card.file not in audited.skipped
    ]


def relearn_times(
    original: Checkpoint,
    models: Mapping[str, Checkpoint],
    sets: Sets,
    task: StoredTask,
    seed: int,
    *,
    show: bool = True,
) -> dict[str, Relearning]:
    """Relearn time of each model by name; the original's loss on the forget set is what it must
    come down to.

    Args:
        original: the model before forgetting.
        models: unlearned and retrained checkpoints.
        sets: sets on the device; only the forget set is learned.
        task: the original's.
        seed: the seed of the first of three runs per model.
        show: progress bar.
    """
    device = sets.forget.device
    before = task.network(original.model).to(device)
    target = forget_loss(before, sets.forget, task)
    times: dict[str, Relearning] = {}
    how: Any = {"target_loss": target, "seeds": (seed, seed + 1, seed + 2)}
    with progress(label="relearn", show=show) as bar:
        for name, checkpoint in models.items():
            model = task.network(checkpoint.model).to(device)
            took = relearn([model], sets.forget, task, **how, tell=bar.update)
            mean, reason = (None, took.reason) if isinstance(took, Censored) else (took.mean, None)
            times[name] = Relearning(
                passes=took.passes, mean=mean, target_loss=target, reason=reason
            )
    return times


def _whole(checkpoint: Checkpoint) -> Checkpoint:
    """Refuses a member of a family by itself: only its family tells what it was made from."""
    if "member" in (checkpoint.record.get("design") or {}):
        why, fix = "it is a member: its family is audited as a whole", "Give the family's folder"
        raise CheckpointError(str(checkpoint.path), why, fix)
    return checkpoint


def _unlearned(
    checkpoints: Collection[Checkpoint], original: Checkpoint, split: Split, dataset: Dataset
) -> dict[str, Checkpoint]:
    """The models by name that are not the original; refuses those of another original or request,
    and those in which nothing was forgotten.
    """
    unlearned = {}
    for checkpoint in checkpoints:
        lineage, where = checkpoint.record.get("lineage") or {}, str(checkpoint.path)
        if checkpoint.sha256 == original.sha256:
            if checkpoint.record.get("role") in ("unlearned", "retrained"):
                why = "its weights are the original's: nothing was forgotten"
                raise CheckpointError(where, why, "Run `unplug forget` again, with a larger budget")
            continue
        if lineage.get("original_sha256") != original.sha256:
            why = "it was not made from this original"
            raise CheckpointError(where, why, "Pass its own `original`")
        if set(split_of(checkpoint, dataset).forget) != set(split.forget):
            why = "it forgot another forget set than this one"
            raise CheckpointError(where, why, "Give the file of its request")
        unlearned["unlearned" if len(checkpoints) == 1 else checkpoint.path.name] = checkpoint
    return unlearned


def _checked_artifacts(artifacts: Sequence[Artifact], known: Set[str] | None) -> dict[str, str]:
    """What cannot be shown of exported files; refuses those of other weights than the checkpoints
    that are audited with them, where there are any.
    """
    skipped = {
        file.card.file: reason for file in artifacts if (reason := not_run_here(file)) is not None
    }
    if known is None and artifacts:
        skipped["lineage"] = (
            "no checkpoint was given, so nothing shows that the files come from this request's "
            "forget step"
        )
    for file in artifacts:
        if known is not None and file.card.checkpoint_sha256 not in known:
            why = "it was exported from other weights than the checkpoints given"
            raise ArtifactError(str(file.path), why, "Export it again, or audit it without them")
    return skipped


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


def _original_path(checkpoints: Collection[Checkpoint]) -> Path:
    """Where the original is that the checkpoints came from, by their records.

    Raises:
        InputError: it is neither where it was nor next to them.
    """
    for checkpoint in checkpoints:
        lineage = checkpoint.record.get("lineage") or {}
        if not lineage and checkpoint.record.get("role") == "original":
            return checkpoint.path
        recorded = Path(str(lineage.get("original")))
        # As it was named then, and next to the unlearned model: people move both together, and work
        # from other folders.
        for place in (recorded, checkpoint.path.parent / recorded.name):
            weights = weights_file(place)
            if weights.is_file() and sha256_file(weights) == lineage.get("original_sha256"):
                return place
    raise InputError(
        "audit",
        "the original that the forget step started from is not where it was",
        "Pass `original`",
    )
