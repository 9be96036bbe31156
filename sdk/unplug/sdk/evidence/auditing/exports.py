"""The exported files that an artifact's rounding is measured against: the original's and the
oracle's, of the same form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from unplug.core import ArtifactError, MissingExtraError
from unplug.export import (
    OLDEST_IOS,
    TARGETS,
    Artifact,
    export_checkpoint,
    load_artifact,
    runtime_of,
)
from unplug.plugins import Checkpoint

Say = Callable[[str], None]
Form = tuple[str, str]
"""Target and precision."""
Inputs = Mapping[str, NDArray[Any]]
NO_CALIBRATIONS: Mapping[Form, Inputs] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Exports:
    """One artifact and, in the same target and precision, what the original and the oracle became.

    Args:
        artifact: an artifact of the unlearned model.
        original: the artifact of the model before forgetting.
        retrained: the artifact of the oracle, where there is one.
        given: the original's file came from outside; else it was made for this audit.
    """

    artifact: Artifact
    original: Artifact
    retrained: Artifact | None = None
    given: bool = False


def _alike(
    target: str,
    precisions: Sequence[str],
    calibrations: Mapping[Form, Inputs],
    models: Mapping[Form, Artifact],
) -> list[tuple[list[str], dict[str, Any]]]:
    """Precisions that are exported in one go, and how: of one calibration, one layout and one
    system.
    """
    groups: dict[tuple[object, ...], tuple[list[str], dict[str, Any]]] = {}
    for precision in precisions:
        form = target, precision
        card, calibration = models[form].card, calibrations.get(form)
        layout = "NHWC" if any(item.layout == "NHWC" for item in card.iospec.inputs) else "NCHW"
        how = {"calibration": calibration, "layout": layout, "ios": card.minimum_ios or OLDEST_IOS}
        groups.setdefault((id(calibration), layout, how["ios"]), ([], how))[0].append(precision)
    return list(groups.values())


def form_of(artifact: Artifact) -> Form:
    """Target and precision of an artifact."""
    return artifact.card.target, artifact.card.precision


def not_run_here(artifact: Artifact) -> str | None:
    """Why an artifact cannot run on this machine, or None when it can."""
    return runtime_of(artifact).unavailable()


def load_exports(paths: Sequence[Path], checkpoint: Checkpoint, flag: str) -> dict[Form, Artifact]:
    """Artifacts given by the user, by form.

    Raises:
        ArtifactError: one that was not exported from this checkpoint, or two of one form.
    """
    by_form: dict[Form, Artifact] = {}
    for path in paths:
        artifact = load_artifact(path)
        if artifact.card.checkpoint_sha256 != checkpoint.sha256:
            why = f"it was not exported from {checkpoint.path.name}"
            raise ArtifactError(
                str(path),
                why,
                f"Give files of that checkpoint to {flag}, or none: they are made then",
            )
        if form_of(artifact) in by_form:
            raise ArtifactError(
                str(path),
                f"{flag} has another {' '.join(form_of(artifact))} file already",
                "Give one of each",
            )
        by_form[form_of(artifact)] = artifact
    return by_form


def make_exports(
    artifacts: Sequence[Artifact],
    original: Checkpoint,
    retrained: Checkpoint | None,
    given: dict[Form, Artifact],
    given_retrained: dict[Form, Artifact],
    folder: Path,
    say: Say,
    workers: int = 1,
    calibrations: Mapping[Form, Inputs] = NO_CALIBRATIONS,
) -> tuple[list[Exports], dict[str, str]]:
    """Finds or makes what each artifact is compared with.

    Args:
        artifacts: artifacts of unlearned models.
        original: the model before forgetting.
        retrained: the oracle, or None.
        given, given_retrained: files that need not be made, by form.
        folder: the folder to export to.
        say: told what takes time.
        workers: targets converted at the same time.
        calibrations: the calibration data of the artifacts of each form, if any; the artifacts made
            here get the same.

    Returns:
        One `Exports` an artifact that can be compared, and why the others cannot.
    """
    forms = list(dict.fromkeys(form_of(item) for item in artifacts))
    unable: dict[str, str] = {}
    blind = {form_of(item) for item in artifacts if item.card.calibration} - calibrations.keys()
    for target, precision in sorted(blind):
        unable[f"rounding ({target} {precision})"] = (
            "the samples that calibrated it are not known here, so nothing can be calibrated "
            "alike; give `original_artifact` and `retrained_artifact`"
        )
    # Of several files of one form the first says how its counterparts are exported.
    models = {form_of(item): item for item in reversed(artifacts)}

    def made(checkpoint: Checkpoint, missing: list[Form], name: str) -> dict[Form, Artifact]:
        place = folder / name
        return _make(checkpoint, missing, models, place, say, unable, workers, calibrations)

    missing = [form for form in forms if form not in given and form not in blind]
    before = given | made(original, missing, "original")
    oracle = dict(given_retrained)
    if retrained is not None:
        missing = [form for form in forms if form not in oracle and form in before.keys() - blind]
        oracle |= made(retrained, missing, "retrained")
    return [
        Exports(
            artifact=item, original=before[form], retrained=oracle.get(form), given=form in given
        )
        for item in artifacts
        if (form := form_of(item)) in before
    ], unable


def _make(
    checkpoint: Checkpoint,
    forms: Sequence[Form],
    models: Mapping[Form, Artifact],
    folder: Path,
    say: Say,
    unable: dict[str, str],
    workers: int,
    calibrations: Mapping[Form, Inputs],
) -> dict[Form, Artifact]:
    """Exports by target; a target whose converter is missing, or that cannot be made alike, is told
    and left out.
    """
    wanted: dict[str, list[str]] = {}
    for target, precision in forms:
        if precision in TARGETS.get(target).precisions:
            wanted.setdefault(target, []).append(precision)
        else:
            unable[f"rounding ({target} {precision})"] = (
                "this unplug cannot export it, so give `original_artifact`"
            )
    for target, precisions in wanted.items():
        say(
            f"exporting {checkpoint.path.name} to {target} {', '.join(precisions)} to compare with "
            "..."
        )

    def export(target: str) -> list[Artifact] | MissingExtraError:
        try:
            return [
                item
                for precisions, how in _alike(target, wanted[target], calibrations, models)
                for item in export_checkpoint(
                    checkpoint.path,
                    targets=[target],
                    precisions=precisions,
                    out=folder / target,
                    **how,
                )
            ]
        except MissingExtraError as error:
            return error

    by_form: dict[Form, Artifact] = {}
    with ThreadPoolExecutor(workers) as pool:  # the work is done in child processes
        for target, made in zip(wanted, pool.map(export, wanted), strict=True):
            if isinstance(made, MissingExtraError):
                unable[f"rounding ({target})"] = str(made).rstrip(".")
            else:
                by_form |= {form_of(item): item for item in made}
    return by_form
