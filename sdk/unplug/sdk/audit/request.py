"""From paths on a command line to an audit: loads what is named, checks that it belongs together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from unplug.export import load_artifact
from unplug.plugins.checkpoint import Checkpoint, load_checkpoint
from unplug.plugins.errors import CheckpointError, InputError
from unplug.sdk.data import load_dataset, read_forget_file
from unplug.sdk.data.dataset import OnBad
from unplug.sdk.forget import forget
from unplug.sdk.forget.run import check_oracle, request_split
from unplug.sdk.train.run import load_sets, recipe_of

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
    artifacts = [path for subject in request.subjects if subject not in checkpoints for path in _artifact_paths(subject)]
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
        name = "unlearned" if len(checkpoints) == 1 else checkpoint.path.name
        predictors.append(CheckpointPredictor(name=name, role="unlearned", checkpoint=checkpoint))
    if request.retrained is not None:
        oracle = load_checkpoint(request.retrained, expect="age")
        check_oracle(oracle, split, recipe)
        predictors.append(CheckpointPredictor(name="retrained", role="retrained", checkpoint=oracle))
    predictors += [ArtifactPredictor(name=path.name, artifact=load_artifact(path)) for path in artifacts]
    references = [load_checkpoint(path, expect="age") for path in request.references]
    for reference in references:
        check_oracle(reference, split, recipe)
    for number in range(request.train_references):
        say(f"training reference model {number + 1} of {request.train_references} ...")
        path = request.work / f"reference-{number}"
        seed = request.seed + 1000 + number
        references.append(forget(original, dataset, ids, "retrain", path, seed=seed, device=device, show=show))
    edges = tuple(original.model.age_edges)
    return audit(
        predictors, load_sets(dataset, split, edges, device), split,
        edges=edges, data={"spec": request.spec, "digest": dataset.digest, "samples": len(dataset)},
        references=[CheckpointPredictor(name=item.path.name, role="retrained", checkpoint=item) for item in references],
        attacks=request.attacks, seed=request.seed, show=show,
    )  # fmt: skip


def _artifact_paths(subject: Path) -> list[Path]:
    """The exported files that a path names: one file, or all that a bundle holds and that can run here."""
    if (subject / "manifest.json").is_file():
        from unplug.sdk.release.bundle import verify_bundle

        manifest = verify_bundle(subject)
        cards = sorted(name for name in manifest.files if name.startswith("artifacts/") and name.count("/") == 1)
        return [subject / name.removesuffix(".json") for name in cards if name.endswith(".json") and ".mlpackage" not in name]
    if not subject.exists():
        raise InputError(str(subject), "no such checkpoint, exported file or bundle", "Check the path")
    return [subject]


def _original_path(request: AuditRequest, checkpoints: dict[Path, Checkpoint]) -> Path:
    if request.original is not None:
        return request.original
    for checkpoint in checkpoints.values():
        lineage = checkpoint.record.get("lineage")
        if lineage is None and checkpoint.record.get("role") == "original":
            return checkpoint.path
        if lineage is not None and Path(str(lineage.get("original"))).is_dir():
            found = load_checkpoint(Path(lineage["original"]), expect="age")
            if found.sha256 == lineage.get("original_sha256"):
                return found.path
            raise CheckpointError(str(found.path), "it has changed since the forget step", "Pass --original DIR")
    raise InputError("audit", "the original model cannot be told from the subjects", "Pass --original DIR")
