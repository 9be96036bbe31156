"""What an audit is about: finds the files that are named, and checks that they belong to one request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path

from unplug.core import ArtifactError, CheckpointError, InputError, sha256_file
from unplug.export import Artifact
from unplug.plugins import Checkpoint, weights_file
from unplug.sdk.data import Split
from unplug.sdk.training import split_of


def check_unlearned(checkpoint: Checkpoint, original: Checkpoint, split: Split) -> None:
    """Refuses a model that was made from another original, or for another request."""
    lineage = checkpoint.record.get("lineage") or {}
    if lineage.get("original_sha256") != original.sha256:
        raise CheckpointError(str(checkpoint.path), "it was not made from this original", "Pass its own --original DIR")
    if set(split_of(checkpoint).forget) != set(split.forget):
        raise CheckpointError(
            str(checkpoint.path), "it forgot another forget set than this one", "Give the file of its request"
        )


def check_artifacts(artifacts: Sequence[Artifact], known: Set[str]) -> None:
    """Refuses exported files of other weights than those that are audited beside them."""
    for artifact in artifacts:
        if artifact.card.checkpoint_sha256 not in known:
            why = "it was exported from other weights than the checkpoints given"
            raise ArtifactError(str(artifact.path), why, "Export it again, or audit it without them")


def check_references(references: Sequence[Checkpoint], known: Set[str]) -> None:
    """A reference that is also the oracle, or that is given twice, would make RMIA compare a model with itself."""
    seen = set(known)
    for reference in references:
        if reference.sha256 in seen:
            why = "it is given already, as a model or as another reference"
            raise CheckpointError(str(reference.path), why, "Train references with other seeds: --train-references 1")
        seen.add(reference.sha256)


def artifact_paths(subjects: Sequence[Path]) -> list[Path]:
    """Exported files that are named, and those that named bundles hold.

    Raises:
        InputError: a subject that is neither.
    """
    from unplug.sdk.bundle import verify_bundle

    found: list[Path] = []
    for subject in subjects:
        if not subject.exists():
            raise InputError(str(subject), "no such checkpoint, exported file or bundle", "Check the path")
        if not (subject / "manifest.json").is_file():
            found.append(subject)
            continue
        cards = [name for name in verify_bundle(subject).files if name.startswith("artifacts/") and name.count("/") == 1]
        found += [subject / name for name in sorted(card.removesuffix(".json") for card in cards if card.endswith(".json"))]
    return found


def original_path(checkpoints: Mapping[Path, Checkpoint]) -> Path:
    """Where the original is that the checkpoints came from, by their records.

    Raises:
        InputError: it is neither where it was nor beside them.
    """
    for checkpoint in checkpoints.values():
        lineage = checkpoint.record.get("lineage")
        if lineage is None and checkpoint.record.get("role") == "original":
            return checkpoint.path
        recorded = Path(str((lineage or {}).get("original")))
        # As it was named then, and beside the unlearned model: people move both together, and work from other folders.
        for place in (recorded, checkpoint.path.parent / recorded.name):
            weights = weights_file(place)
            if weights.is_file() and sha256_file(weights) == (lineage or {}).get("original_sha256"):
                return place
    raise InputError("audit", "the original that the forget step started from is not where it was", "Pass --original DIR")
