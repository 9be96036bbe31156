"""From paths on a command line to an audit: loads what is named, checks that it belongs together."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from unplug.export import RUNTIMES, TARGETS, Artifact, load_artifact
from unplug.plugins.checkpoint import Checkpoint, load_checkpoint
from unplug.plugins.errors import ArtifactError, CheckpointError, InputError
from unplug.plugins.files import sha256_file
from unplug.sdk.data import Split, load_dataset, read_forget_file
from unplug.sdk.data.dataset import OnBad
from unplug.sdk.forget import forget
from unplug.sdk.forget.run import check_oracle, request_split
from unplug.sdk.train.run import load_sets, recipe_of, split_of

from .predictor import ArtifactPredictor, CheckpointPredictor, Predictor
from .report import AuditReport
from .run import audit, check_forget_size


@dataclass(frozen=True, kw_only=True)
class AuditRequest:
    """The arguments of ``unplug audit``, see its help."""

    subjects: Sequence[Path]
    spec: str
    on_bad: OnBad
    forget_file: Path
    original: Path | None
    retrained: Path | None
    references: Sequence[Path]
    train_references: int
    attacks: Sequence[str] | None
    seed: int
    work: Path


def run_audit(request: AuditRequest, device: torch.device, say: Callable[[str], None], show: bool) -> AuditReport:
    """Loads everything and audits it.

    Raises:
        InputError: the original cannot be told, or models do not belong to this request.
    """
    checkpoints = {path: load_checkpoint(path, expect="age") for path in request.subjects if (path / "config.json").is_file()}
    artifacts, unavailable = _artifact_paths([subject for subject in request.subjects if subject not in checkpoints])
    original = load_checkpoint(_original_path(request, checkpoints), expect="age")
    recipe = recipe_of(original)
    dataset = load_dataset(request.spec, recipe.image_size, on_bad=request.on_bad, show=show)
    ids = read_forget_file(request.forget_file, dataset)
    split = request_split(original, dataset, ids)
    check_forget_size(len(split.forget))
    predictors: list[Predictor] = [CheckpointPredictor(name="original", role="original", checkpoint=original)]
    for checkpoint in checkpoints.values():
        if checkpoint.sha256 == original.sha256:
            continue
        _check_unlearned(checkpoint, original, split)
        name = "unlearned" if len(checkpoints) == 1 else checkpoint.path.name
        predictors.append(CheckpointPredictor(name=name, role="unlearned", checkpoint=checkpoint))
    if request.retrained is not None:
        oracle = load_checkpoint(request.retrained, expect="age")
        check_oracle(oracle, split, recipe)
        predictors.append(CheckpointPredictor(name="retrained", role="retrained", checkpoint=oracle))
    known = {item.sha256 for item in predictors}
    loaded = [load_artifact(path) for path in artifacts]
    if checkpoints:
        _check_artifacts(loaded, known)
    elif loaded:
        unavailable["lineage"] = "no checkpoint was given, so nothing shows that the files come from this request's forget step"
    predictors += [ArtifactPredictor(name=item.path.name, artifact=item) for item in loaded]
    references = [load_checkpoint(path, expect="age") for path in request.references]
    for reference in references:
        check_oracle(reference, split, recipe)
    _check_references(references, known)
    for number in range(request.train_references):
        say(f"training reference model {number + 1} of {request.train_references} ...")
        path = request.work / f"reference-{number}"
        seed = request.seed + 1000 + number
        references.append(forget(original, dataset, ids, "retrain", path, seed=seed, device=device, show=show))
    edges = tuple(original.model.age_edges)
    report = audit(
        predictors, load_sets(dataset, split, edges, device), split,
        edges=edges, data={"spec": request.spec, "digest": dataset.digest, "samples": len(dataset)},
        references=[CheckpointPredictor(name=item.path.name, role="retrained", checkpoint=item) for item in references],
        attacks=request.attacks, seed=request.seed, show=show,
    )  # fmt: skip
    return replace(report, skipped={**report.skipped, **unavailable})


def _check_unlearned(checkpoint: Checkpoint, original: Checkpoint, split: Split) -> None:
    """Refuses a model that was made from another original, or for another request."""
    lineage = checkpoint.record.get("lineage") or {}
    if lineage.get("original_sha256") != original.sha256:
        raise CheckpointError(str(checkpoint.path), "it was not made from this original", "Pass its own --original DIR")
    if set(split_of(checkpoint).forget) != set(split.forget):
        raise CheckpointError(
            str(checkpoint.path), "it forgot another forget set than this one", "Give the file of its request"
        )


def _check_artifacts(artifacts: Sequence[Artifact], known: Set[str]) -> None:
    """Refuses exported files of other weights than those that are audited beside them."""
    for artifact in artifacts:
        if artifact.card.checkpoint_sha256 not in known:
            why = "it was exported from other weights than the checkpoints given"
            raise ArtifactError(str(artifact.path), why, "Export it again, or audit it without them")


def _check_references(references: Sequence[Checkpoint], known: Set[str]) -> None:
    """A reference that is also the oracle, or that is given twice, would make RMIA compare a model with itself."""
    seen = set(known)
    for reference in references:
        if reference.sha256 in seen:
            why = "it is given already, as a model or as another reference"
            raise CheckpointError(str(reference.path), why, "Train references with other seeds: --train-references 1")
        seen.add(reference.sha256)


def _artifact_paths(subjects: Sequence[Path]) -> tuple[list[Path], dict[str, str]]:
    """Exported files that are named, or that named bundles hold; and those of bundles that cannot run here, with the reason."""
    from unplug.sdk.release.bundle import verify_bundle

    found: list[Path] = []
    unavailable: dict[str, str] = {}
    for subject in subjects:
        if not subject.exists():
            raise InputError(str(subject), "no such checkpoint, exported file or bundle", "Check the path")
        if not (subject / "manifest.json").is_file():
            found.append(subject)
            continue
        cards = [name for name in verify_bundle(subject).files if name.startswith("artifacts/") and name.count("/") == 1]
        for name in sorted(name.removesuffix(".json") for name in cards if name.endswith(".json")):
            card = load_artifact(subject / name).card
            reason = RUNTIMES.get(TARGETS.get(card.target).runtime).unavailable()
            if reason is None:
                found.append(subject / name)
            else:
                unavailable[card.file] = reason
    return found, unavailable


def _original_path(request: AuditRequest, checkpoints: dict[Path, Checkpoint]) -> Path:
    if request.original is not None:
        return request.original
    for checkpoint in checkpoints.values():
        lineage = checkpoint.record.get("lineage")
        if lineage is None and checkpoint.record.get("role") == "original":
            return checkpoint.path
        recorded = Path(str((lineage or {}).get("original")))
        # As it was named then, and beside the unlearned model: people move both together, and work from other folders.
        for place in (recorded, checkpoint.path.parent / recorded.name):
            weights = place / "model.safetensors"
            if weights.is_file() and sha256_file(weights) == (lineage or {}).get("original_sha256"):
                return place
    raise InputError("audit", "the original that the forget step started from is not where it was", "Pass --original DIR")
