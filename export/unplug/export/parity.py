"""Parity: every output of every artifact against the checkpoint's, per name, with a tolerance a
precision.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from unplug.core import (
    STRICT,
    Array,
    Child,
    ConversionError,
    InputError,
    Progress,
    ReportError,
    UnknownOperatorError,
    git_revision,
    installed_versions,
    one_line,
    read_dataclass,
    settled,
    write_json,
)
from unplug.plugins import view_of

from .arithmetic import arithmetic, widened
from .artifact import Artifact, Card
from .checkpoint import Reference, reference_outputs
from .metrics import compare, verdict
from .precisions import PRECISIONS
from .runtime import RUNTIMES
from .runtime.base import Runtime, runtime_versions
from .session import Session, runtime_of
from .tensors import check_inputs, digest_inputs

SCHEMA: Literal["unplug-parity/1"] = "unplug-parity/1"
Status = Literal["pass", "fail", "not_run"]


@dataclass(frozen=True, kw_only=True)
class ParityRow:
    """One output of one artifact.

    Args:
        file, artifact_sha256, target, precision: the artifact.
        output: name of the output tensor.
        status: "pass", "fail", or "not_run" where nothing here can run the artifact, or an operator
            of it.
        reason: why it failed or was not run; None for a pass.
        threshold_db: PSNR that the precision must reach.
        psnr_db: 20 log10(max|reference| / rmse) over the batch; None when exact, undefined or not
            run.
        exact: every element equals the reference's.
        max_abs_error, cosine: the worst over the batch; None when undefined or not run.
        runtime, runtime_version: the runtime that ran it, or would have.
        arithmetic: the arithmetic that computed it on this machine, and the kernels; None if it was
            not run or does not tell.
        half_psnr_db: the PSNR of the checkpoint in half precision, by torch, where that widens the
            tolerance; None if it is not finite.
    """

    file: str
    artifact_sha256: str
    target: str
    precision: str
    output: str
    status: Status
    reason: str | None
    threshold_db: float
    psnr_db: float | None
    exact: bool
    max_abs_error: float | None
    cosine: float | None
    runtime: str
    runtime_version: str | None
    arithmetic: str | None = None
    half_psnr_db: float | None = None


@dataclass(frozen=True, kw_only=True)
class TaskDelta:
    """What an artifact's rounding costs in the task, on test samples.

    Args:
        file: the artifact.
        unit: the unit of the errors: "years" or "loss".
        samples: the number of samples that were compared.
        error, checkpoint_error: means.
        delta: mean of the differences, sample by sample.
        low, high: 95 % interval of `delta` over people, or None where there are too few.
    """

    file: str
    unit: str
    samples: int
    error: float
    checkpoint_error: float
    delta: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class ParityReport:
    """The rows of one measurement and what it was done with.

    Args:
        schema: always ``unplug-parity/1``.
        checkpoint_sha256: the hash of the reference's weights.
        model_type: the model type of the reference.
        inputs_sha256: `digest_inputs` of what went in.
        samples: N.
        rows: artifacts in the order given, outputs in IOSpec order.
        versions: the versions of Python, unplug, torch and the runtimes.
        git_revision: the git revision of this code, or None outside a git checkout.
        task: errors in the task as well, where they were asked for.
    """

    __pydantic_config__: ClassVar = STRICT

    schema: Literal["unplug-parity/1"] = SCHEMA
    checkpoint_sha256: str
    model_type: str
    inputs_sha256: str
    samples: int
    rows: tuple[ParityRow, ...]
    versions: dict[str, str]
    git_revision: str | None
    task: tuple[TaskDelta, ...] = ()

    __repr__ = one_line

    @property
    def passed(self) -> bool:
        """No row failed and at least one was run; look at `not_run` for what was left out."""
        statuses = {row.status for row in self.rows}
        return "fail" not in statuses and "pass" in statuses

    @property
    def not_run(self) -> tuple[ParityRow, ...]:
        """Rows that this machine could not measure."""
        return tuple(row for row in self.rows if row.status == "not_run")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the report as JSON, atomically."""
        write_json(Path(path), asdict(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ParityReport:
        """Reads a report; raises `ReportError` if the file is missing or does not follow the
        schema.
        """
        return read_dataclass(cls, Path(path), ReportError)


@settled
def measure_parity(
    artifacts: Artifact | Sequence[Artifact],
    checkpoint: Path,
    inputs: Mapping[str, Array],
    *,
    runtime: str | None = None,
    progress: Progress | None = None,
) -> ParityReport:
    """Compares artifacts with the checkpoint that they were made from.

    Args:
        artifacts: artifacts made from one model.
        checkpoint: the folder; an artifact made from other weights fails, however near its numbers
            are.
        inputs: name to array of N samples; see `random_inputs`.
        runtime: name in RUNTIMES of what runs all of them; default: that of each one's target, see
            `runtime_of`.
        progress: called with (artifacts done, artifacts in all, file name).

    Raises:
        InputError: no artifact, artifacts of several models, or a wrong input.
        CheckpointError: the checkpoint is missing or broken.
        ArtifactError: a file is not what its card says.
    """
    chosen = [artifacts] if isinstance(artifacts, Artifact) else list(artifacts)
    if not chosen:
        raise InputError("parity", "no artifact is given", "Name at least one exported file")
    iospec = chosen[0].card.iospec
    for artifact in chosen:
        if artifact.card.iospec != iospec:
            raise InputError(
                artifact.path.name,
                f"its tensors differ from those of {chosen[0].path.name}",
                "Measure it apart",
            )
    samples = check_inputs(iospec, inputs)
    runtimes = [
        runtime_of(artifact) if runtime is None else RUNTIMES.get(runtime) for artifact in chosen
    ]
    halves = any(
        widened(used.name, artifact.card.precision)
        for used, artifact in zip(runtimes, chosen, strict=True)
    )
    reference = reference_outputs(
        checkpoint, iospec, inputs, view=view_of(chosen[0].card.model_type), halves=halves
    )
    rows: list[ParityRow] = []
    with ExitStack() as stack:
        # one a runtime: what loads with it once serves all its files
        children: dict[str, Child] = {}
        for index, (artifact, used) in enumerate(zip(chosen, runtimes, strict=True)):
            if used.name not in children:
                children[used.name] = stack.enter_context(Child())
            rows += _measure(artifact, reference, inputs, used, children[used.name])
            if progress is not None:
                progress(index + 1, len(chosen), artifact.path.name)
    return ParityReport(
        checkpoint_sha256=reference.checkpoint_sha256,
        model_type=reference.model_type,
        inputs_sha256=digest_inputs(inputs),
        samples=samples,
        rows=tuple(rows),
        versions=installed_versions(["torch", "numpy"])
        | runtime_versions(RUNTIMES.get(row.runtime) for row in rows),
        git_revision=git_revision(),
    )


def _measure(
    artifact: Artifact,
    reference: Reference,
    inputs: Mapping[str, Array],
    runtime: Runtime,
    child: Child,
) -> list[ParityRow]:
    ran: dict[str, Any] = {"runtime": runtime.name, "version": runtime.version()}

    def without_outputs(status: Status, reason: str) -> list[ParityRow]:
        names = [tensor.name for tensor in artifact.card.iospec.outputs]
        return [parity_row(artifact.card, name, status, reason, **ran) for name in names]

    if (reason := runtime.unavailable()) is not None:
        return without_outputs("not_run", reason)
    try:
        outputs = Session(artifact, runtime=runtime.name, child=child).run(inputs)
    except UnknownOperatorError as error:
        return without_outputs("not_run", f"not checked: {error.why}")
    except ConversionError as error:
        # A crash of one artifact's runtime is a finding about that artifact; the others are still
        # measured.
        return without_outputs("fail", str(error))
    rows = [
        judged_row(artifact.card, tensor.name, reference, outputs[tensor.name], **ran)
        for tensor in artifact.card.iospec.outputs
    ]
    if not widened(runtime.name, artifact.card.precision):
        return rows
    return [_in_half_too(row, reference) for row in rows]


def _in_half_too(row: ParityRow, reference: Reference) -> ParityRow:
    """The row of a file in half precision that was computed in float32: it fails where half
    precision itself does.
    """
    if reference.halves is None:
        return row
    difference = compare(reference.outputs[row.output], reference.halves[row.output])
    row = replace(row, half_psnr_db=difference.psnr_db)
    reason = verdict(difference, row.threshold_db)
    if row.status != "pass" or reason is None:
        return row
    trouble = f"{reference.trouble}; " if reference.trouble else ""
    return replace(
        row,
        status="fail",
        reason=f"in half precision, which this host does not compute in: {trouble}{reason}",
    )


def judged_row(
    card: Card,
    output: str,
    reference: Reference,
    value: Array,
    *,
    runtime: str,
    version: str | None,
) -> ParityRow:
    """The row of an output that something computed.

    Args:
        card: the artifact's card.
        output: its name.
        reference: the checkpoint's reference outputs.
        value: the computed value.
        runtime, version: the runtime that ran it.
    """
    wanted = reference.outputs[output]
    difference = compare(wanted, value)
    reason = verdict(difference, PRECISIONS.get(card.precision).min_psnr_db)
    if card.checkpoint_sha256 != reference.checkpoint_sha256:
        reason = f"it was exported from other weights ({card.checkpoint_sha256[:12]})" + (
            f"; {reason}" if reason else ""
        )
    if reason is None and not wanted.any():
        reason = (
            "the checkpoint gives zeros only (a plugin before its training does), so nothing "
            "was compared"
        )
    row = parity_row(
        card, output, "fail" if reason else "pass", reason, runtime=runtime, version=version
    )
    return replace(
        row,
        psnr_db=difference.psnr_db,
        exact=difference.exact,
        max_abs_error=difference.max_abs_error,
        cosine=difference.cosine,
    )


def parity_row(
    card: Card,
    output: str,
    status: Status,
    reason: str | None,
    *,
    runtime: str,
    version: str | None,
) -> ParityRow:
    """A row without numbers.

    Args:
        card, output, runtime, version: see `judged_row`.
        status, reason: see `ParityRow`.
    """

    return ParityRow(
        file=card.file,
        artifact_sha256=card.sha256,
        target=card.target,
        precision=card.precision,
        output=output,
        status=status,
        reason=reason,
        threshold_db=PRECISIONS.get(card.precision).min_psnr_db,
        psnr_db=None,
        exact=False,
        max_abs_error=None,
        cosine=None,
        runtime=runtime,
        runtime_version=version,
        arithmetic=None if status == "not_run" else arithmetic(runtime, card.precision),
    )
