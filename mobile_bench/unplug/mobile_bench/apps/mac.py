"""Real Core ML on somebody's Mac, over ssh: its outputs come back, and what they are worth is
judged here.

The Mac needs `unplug-coreml` on its PATH, which ``ios_demo/UnplugCore`` builds. One ssh call
carries a folder there and the outputs back, as tar both ways; nothing stays on the Mac, and what
comes back is hostile until it was read.
"""

from __future__ import annotations

import io
import math
import re
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unplug.core import (
    Array,
    DeviceError,
    InputError,
    OutputError,
    TensorSpec,
    git_revision,
    installed_versions,
    parse_json,
    temporary_folder,
)
from unplug.export import (
    PRECISIONS,
    Artifact,
    ParityReport,
    ParityRow,
    Reference,
    check_inputs,
    compare,
    digest_inputs,
    vector_name,
    verdict,
)

from ..devices.bench_device import BenchJob, Plan
from ..exchange import Exchange
from .driven_app import write_folder

RUNTIME = "coreml-app"
UNITS = ("all", "ane", "gpu", "cpu")
SECONDS = 1800.0
MAX_SPARE_BYTES = 2**24
"""Of what comes back beside the outputs: headers, and the rows."""
_HOST = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9_][A-Za-z0-9_.:-]*")
REMOTE = (
    "d=$(mktemp -d) && trap 'rm -rf \"$d\"' EXIT && export COPYFILE_DISABLE=1 "
    'PATH="$PATH:/usr/local/bin:/opt/homebrew/bin" && '
    'tar -xf - -C "$d" && { unplug-coreml "$d" > "$d/rows.json" || [ $? = 1 ]; } && mkdir -p '
    '"$d/outputs" && '
    'tar -cf - -C "$d" rows.json outputs'
)
"""What the Mac does; exit code 1 of `unplug-coreml` says that it found a difference, which is
judged here.
"""


def parity_on_mac(
    host: str,
    artifacts: Sequence[Artifact],
    reference: Reference,
    inputs: Mapping[str, Array],
    *,
    units: str = "all",
) -> ParityReport:
    """Compares Core ML packages, run by Core ML itself, with their checkpoint.

    Args:
        host: as ssh takes it, ``user@mac``; keys only, it asks for no password.
        artifacts: of one model.
        reference: the checkpoint's outputs of the inputs.
        inputs: name to array of N samples.
        units: that Core ML may use, one of `UNITS`.

    Raises:
        InputError: an odd host or unit, or a wrong input.
        DeviceError: the Mac is not reached, lacks `unplug-coreml`, or sent something else.
    """
    if not _HOST.fullmatch(host) or len(host) > 255:
        raise InputError(
            f"--coreml-host {host[:80]!r}", "it is no host that ssh takes", "Write user@mac"
        )
    if units not in UNITS:
        raise InputError(
            f"units {units!r}", "Core ML has none of this name", f"Use {', '.join(UNITS)}"
        )
    samples = check_inputs(artifacts[0].card.iospec, inputs)
    jobs = [_job(artifact, reference, inputs, units) for artifact in artifacts]
    expected = [None if job.not_run else reference.outputs for job in jobs]
    found: dict[str, bytes] = {}
    if any(job.not_run is None for job in jobs):
        with temporary_folder("unplug-mac-") as local:
            folder = write_folder(Exchange(jobs, expected, Plan(threads=1)), local / "bench")
            found = _members(
                _carried(host, folder, local / "back.tar", _allowed_bytes(jobs, samples))
            )
    told = _rows(found.get("rows.json"), host) if found else {}
    rows = [
        row
        for number, job in enumerate(jobs)
        for row in _compared(number, job, reference, samples, found, told)
    ]
    return ParityReport(
        checkpoint_sha256=reference.checkpoint_sha256,
        model_type=reference.model_type,
        inputs_sha256=digest_inputs(inputs),
        samples=samples,
        rows=tuple(rows),
        versions=installed_versions(["numpy"]),
        git_revision=git_revision(),
    )


def _job(
    artifact: Artifact, reference: Reference, inputs: Mapping[str, Array], units: str
) -> BenchJob:
    reason = (
        None
        if artifact.path.suffix == ".mlpackage"
        else f"Core ML does not run {artifact.card.target} files"
    )
    return BenchJob(
        artifact=artifact,
        runtime=RUNTIME,
        runtime_version=None,
        delegate=units,
        inputs=inputs,
        reference=reference,
        not_run=reason,
    )


def _allowed_bytes(jobs: Sequence[BenchJob], samples: int) -> int:
    outputs = sum(
        _count(spec) * 4 + 2048 for job in jobs for spec in job.artifact.card.iospec.outputs
    )
    return samples * outputs + MAX_SPARE_BYTES


def _count(spec: TensorSpec) -> int:
    return math.prod(spec.shape)


def _carried(host: str, folder: Path, back: Path, most: int) -> bytes:
    """The folder there, and the tar of what came back."""
    there = folder.with_suffix(".tar")
    with tarfile.open(there, "w") as tar:
        tar.add(folder, arcname=".")
    command = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "--", host, REMOTE]
    try:
        with there.open("rb") as given, back.open("wb") as taken:
            done = subprocess.run(
                command,
                stdin=given,
                stdout=taken,
                stderr=subprocess.PIPE,
                timeout=SECONDS,
                check=False,
            )
    except FileNotFoundError as error:
        raise DeviceError("ssh", "it is not on PATH", "Install OpenSSH's client") from error
    except subprocess.TimeoutExpired as error:
        raise DeviceError(host, f"it took over {SECONDS:.0f} s", "Look at the Mac") from error
    except OSError as error:
        raise OutputError(str(back), error.strerror or str(error), "Free some space") from error
    if done.returncode:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[-300:]
        raise DeviceError(
            host,
            f"it gave nothing back ({said})",
            "Build unplug-coreml there (ios_demo/README.md); try ssh by hand",
        )
    if back.stat().st_size > most:
        raise DeviceError(
            host,
            f"it sent {back.stat().st_size} bytes where {most} would do",
            "Update unplug-coreml on it",
        )
    return back.read_bytes()


def _members(raw: bytes) -> dict[str, bytes]:
    """The plain files of a tar, in memory; nothing is unpacked to disk."""
    found = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
            for member in tar:
                handle = tar.extractfile(member) if member.isfile() else None
                if handle is not None:
                    found[member.name.removeprefix("./")] = handle.read()
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise DeviceError(
            "the Mac", f"it sent no tar ({error})", "Update unplug-coreml on it"
        ) from error
    return found


def _rows(raw: bytes | None, host: str) -> dict[int, dict[str, Any]]:
    """What the tool says of each job, for its version and for why there are no outputs."""
    try:
        value = parse_json(raw or b"")
        if value["schema"] != "unplug-coreml/1":
            raise ValueError(f"its schema is {value['schema']!r}")
        return {int(row["number"]): dict(row) for row in value["rows"]}
    except (ValueError, TypeError, KeyError) as error:
        raise DeviceError(
            host, f"unplug-coreml said something else ({str(error)[:100]})", "Update it"
        ) from error


def _compared(
    number: int,
    job: BenchJob,
    reference: Reference,
    samples: int,
    found: Mapping[str, bytes],
    told: Mapping[int, Mapping[str, Any]],
) -> list[ParityRow]:
    """A row an output of one job."""
    card, said, rows = job.artifact.card, told.get(number, {}), []
    version = (
        str(said["runtime_version"])[:200] if isinstance(said.get("runtime_version"), str) else None
    )
    for spec in card.iospec.outputs:
        row = ParityRow(
            file=card.file,
            artifact_sha256=card.sha256,
            target=card.target,
            precision=card.precision,
            output=spec.name,
            status="not_run",
            reason=job.not_run,
            threshold_db=PRECISIONS.get(card.precision).min_psnr_db,
            psnr_db=None,
            exact=False,
            max_abs_error=None,
            cosine=None,
            runtime=f"{RUNTIME} ({job.delegate})",
            runtime_version=version,
        )
        if job.not_run is None:
            row = _judged(
                row, card.checkpoint_sha256, reference, _output(number, spec, samples, found), said
            )
        rows.append(row)
    return rows


def _judged(
    row: ParityRow,
    weights: str,
    reference: Reference,
    output: Array | None,
    said: Mapping[str, Any],
) -> ParityRow:
    if output is None:
        return replace(
            row,
            status="fail",
            reason=str(said.get("reason") or "the Mac sent no such output")[:300],
        )
    difference = compare(reference.outputs[row.output], output)
    reason = verdict(difference, row.threshold_db)
    if weights != reference.checkpoint_sha256:
        reason = f"it was exported from other weights ({weights[:12]})" + (
            f"; {reason}" if reason else ""
        )
    return replace(
        row,
        status="fail" if reason else "pass",
        reason=reason,
        psnr_db=difference.psnr_db,
        exact=difference.exact,
        max_abs_error=difference.max_abs_error,
        cosine=difference.cosine,
    )


def _output(
    number: int, spec: TensorSpec, samples: int, found: Mapping[str, bytes]
) -> Array | None:
    parts = []
    for sample in range(samples):
        raw = found.get(f"outputs/{number}/{vector_name(sample, spec.name)}")
        if raw is None or len(raw) != 4 * _count(spec):
            return None
        parts.append(np.frombuffer(raw, "<f4").reshape(spec.shape))
    return np.concatenate(parts)
