"""The exported files that an artifact's rounding is measured against: the original's and the oracle's, of the same form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from unplug.export import RUNTIMES, TARGETS, Artifact, export_checkpoint, load_artifact
from unplug.export.runtime.base import Runtime
from unplug.plugins.checkpoint import Checkpoint
from unplug.plugins.errors import ArtifactError, MissingExtraError

Say = Callable[[str], None]
Form = tuple[str, str]
"""Target and precision."""


@dataclass(frozen=True, kw_only=True)
class Exports:
    """One artifact and, in the same target and precision, what the original and the oracle became.

    Args:
        artifact: of the unlearned model.
        original: of the model before forgetting.
        retrained: of the oracle, where there is one.
        given: the original's file came from outside; else it was made for this audit.
    """

    artifact: Artifact
    original: Artifact
    retrained: Artifact | None = None
    given: bool = False


def form_of(artifact: Artifact) -> Form:
    """Target and precision of an artifact."""
    return artifact.card.target, artifact.card.precision


def not_run_here(artifact: Artifact) -> str | None:
    """Why an artifact cannot run on this machine, or None when it can."""
    runtime: Runtime = RUNTIMES.get(TARGETS.get(artifact.card.target).runtime)
    return runtime.unavailable()


def load_exports(paths: Sequence[Path], checkpoint: Checkpoint, flag: str) -> dict[Form, Artifact]:
    """Artifacts given by the user, by form.

    Raises:
        ArtifactError: one that was not exported from this checkpoint, or two of one form.
    """
    found: dict[Form, Artifact] = {}
    for path in paths:
        artifact = load_artifact(path)
        if artifact.card.checkpoint_sha256 != checkpoint.sha256:
            why = f"it was not exported from {checkpoint.path.name}"
            raise ArtifactError(str(path), why, f"Give files of that checkpoint to {flag}, or none: they are made then")
        if form_of(artifact) in found:
            raise ArtifactError(str(path), f"{flag} has another {' '.join(form_of(artifact))} file already", "Give one of each")
        found[form_of(artifact)] = artifact
    return found


def make_exports(
    artifacts: Sequence[Artifact],
    original: Checkpoint,
    retrained: Checkpoint | None,
    given: dict[Form, Artifact],
    given_retrained: dict[Form, Artifact],
    folder: Path,
    say: Say,
) -> tuple[list[Exports], dict[str, str]]:
    """Finds or makes what each artifact is compared with.

    Args:
        artifacts: of unlearned models.
        original: the model before forgetting.
        retrained: the oracle, or None.
        given, given_retrained: files that need not be made, by form.
        folder: where to export to.
        say: told what takes time.

    Returns:
        One `Exports` an artifact that can be compared, and why the others cannot.
    """
    forms = list(dict.fromkeys(form_of(item) for item in artifacts))
    unable: dict[str, str] = {}
    before = given | _make(original, [form for form in forms if form not in given], folder / "original", say, unable)
    oracle = dict(given_retrained)
    if retrained is not None:
        wanted = [form for form in forms if form not in oracle and form in before]
        oracle |= _make(retrained, wanted, folder / "retrained", say, unable)
    made = [
        Exports(artifact=item, original=before[form], retrained=oracle.get(form), given=form in given)
        for item in artifacts
        if (form := form_of(item)) in before
    ]
    return made, unable


def _make(
    checkpoint: Checkpoint, forms: Sequence[Form], folder: Path, say: Say, unable: dict[str, str]
) -> dict[Form, Artifact]:
    """Exports by target; a target whose converter is missing, or that cannot be made alike, is told and left out."""
    found: dict[Form, Artifact] = {}
    for target in dict.fromkeys(target for target, _ in forms):
        known = TARGETS.get(target).precisions
        asked = [precision for name, precision in forms if name == target]
        for precision in asked:
            if precision not in known:
                unable[f"rounding ({target} {precision})"] = "this unplug cannot export it, so give --original-artifact"
        precisions = [precision for precision in asked if precision in known]
        if not precisions:
            continue
        say(f"exporting {checkpoint.path.name} to {target} {', '.join(precisions)} to compare with ...")
        try:
            made = export_checkpoint(checkpoint.path, targets=[target], precisions=precisions, out=folder / target)
        except MissingExtraError as error:
            unable[f"rounding ({target})"] = str(error).rstrip(".")
        else:
            found |= {form_of(item): item for item in made}
    return found
