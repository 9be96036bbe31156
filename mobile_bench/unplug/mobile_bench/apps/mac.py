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
from pathlib import Path
from typing import Any, Literal

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
    Artifact,
    ParityReport,
    ParityRow,
    Reference,
    check_inputs,
    digest_inputs,
    judged_row,
    parity_row,
    vector_name,
)

from ..devices.bench_device import BenchJob, Plan
from ..exchange import Exchange
from .driven_app import write_folder

RUNTIME = "coreml-app"
UNITS = "all"
"""The units that Core ML may use; it chooses among them itself."""
SECONDS = 1800.0
MAX_SPARE_BYTES = 2**24
"""Size of what comes back besides the outputs: headers, and the rows."""
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
) -> ParityReport:
    """Compares Core ML packages, run by Core ML itself, with their checkpoint.

    Args:
        host: the host as ssh takes it, ``user@mac``; keys only, it asks for no password.
        artifacts: artifacts made from one model.
        reference: the checkpoint's outputs of the inputs.
        inputs: name to array of N samples.

    Raises:
        InputError: an odd host, or a wrong input.
        DeviceError: the Mac is not reached, lacks `unplug-coreml`, or sent something else.
    """
    if not _HOST.fullmatch(host) or len(host) > 255:
        raise InputError(
            f"--coreml-host {host[:80]!r}", "it is not a host that ssh takes", "Write user@mac"
        )
    samples = check_inputs(artifacts[0].card.iospec, inputs)
    jobs = [_job(artifact, reference, inputs) for artifact in artifacts]
    expected = [None if job.not_run else reference.outputs for job in jobs]
    members: dict[str, bytes] = {}
    if any(job.not_run is None for job in jobs):
        with temporary_folder("unplug-mac-") as local:
            folder = write_folder(Exchange(jobs, expected, Plan(threads=1)), local / "bench")
            most = _allowed_bytes(jobs, samples)
            members = _members(_carried(host, folder, local / "back.tar", most))
    told = _rows(members.get("rows.json"), host) if members else {}
    rows = [
        row
        for number, job in enumerate(jobs)
        for row in _compared(number, job, reference, samples, members, told)
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


def _job(artifact: Artifact, reference: Reference, inputs: Mapping[str, Array]) -> BenchJob:
    other = f"Core ML does not run {artifact.card.target} files"
    return BenchJob(
        artifact=artifact,
        runtime=RUNTIME,
        runtime_version=None,
        delegate=UNITS,
        inputs=inputs,
        reference=reference,
        not_run=None if artifact.path.suffix == ".mlpackage" else other,
    )


def _allowed_bytes(jobs: Sequence[BenchJob], samples: int) -> int:
    outputs = sum(
        math.prod(spec.shape) * 4 + 2048
        for job in jobs
        for spec in job.artifact.card.iospec.outputs
    )
    return samples * outputs + MAX_SPARE_BYTES


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
        told = " ".join(done.stderr.decode("utf-8", "replace").split())[-300:]
        raise DeviceError(
            host,
            f"it gave nothing back ({told})",
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
    members = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
            for member in tar:
                handle = tar.extractfile(member) if member.isfile() else None
                if handle is not None:
                    members[member.name.removeprefix("./")] = handle.read()
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise DeviceError(
            "the Mac", f"it sent no tar ({error})", "Update unplug-coreml on it"
        ) from error
    return members


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
    members: Mapping[str, bytes],
    told: Mapping[int, Mapping[str, Any]],
) -> list[ParityRow]:
    """A row an output of one job."""
    answer, rows = told.get(number, {}), []
    version = answer.get("runtime_version")
    how: dict[str, Any] = {
        "runtime": f"{RUNTIME} ({job.delegate})",
        "version": version[:200] if isinstance(version, str) else None,
    }
    for spec in job.artifact.card.iospec.outputs:
        output = _output(number, spec, samples, members)
        if output is not None and job.not_run is None:
            rows.append(judged_row(job.artifact.card, spec.name, reference, output, **how))
            continue
        missing = str(answer.get("reason") or "the Mac sent no such output")[:300]
        status: Literal["fail", "not_run"] = "fail" if job.not_run is None else "not_run"
        rows.append(parity_row(job.artifact.card, spec.name, status, job.not_run or missing, **how))
    return rows


def _output(
    number: int, spec: TensorSpec, samples: int, members: Mapping[str, bytes]
) -> Array | None:
    parts = []
    for sample in range(samples):
        raw = members.get(f"outputs/{number}/{vector_name(sample, spec.name)}")
        if raw is None or len(raw) != 4 * math.prod(spec.shape):
            return None
        parts.append(np.frombuffer(raw, "<f4").reshape(spec.shape))
    return np.concatenate(parts)
