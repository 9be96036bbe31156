"""What a job leaves: one safetensors file with named arrays, and facts as JSON in its
metadata.
"""

from __future__ import annotations

import json
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unplug.core import InputError, atomic_path, check_content, check_there

from .job import FleetJob

SCHEMA = "unplug-fleet/1"
MAX_RESULT_BYTES = 4 * 2**30  # a model of a billion float32 numbers; what ships has six million
MAX_HEADER_BYTES = 64 * 2**20  # names, shapes and facts
AGAIN = "Remove it and run the job again"
NOT_OURS = "This is not a file that unplug wrote"


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a job function returns and what is read back.

    Args:
        tensors: arrays of booleans, integers or floats by name.
        facts: JSON-able, without NaN.
    """

    tensors: dict[str, NDArray[Any]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def refused(self) -> dict[str, str] | None:
        """What, why, fix and kind of the typed error with which the job declined, or None."""
        refusal: dict[str, str] | None = self.facts.get("refused")
        return refusal


@dataclass(frozen=True, kw_only=True)
class Order:
    """A job on its way to a worker, with the fingerprint that its result will carry."""

    job: FleetJob
    fingerprint: str
    given: str


def pack(result: object, order: Order) -> bytes:
    """The bytes of a result's file.

    Raises:
        TypeError, ValueError: it is not a `Result`, its tensors are not plain arrays, its facts are
            not JSON.
    """
    from safetensors.numpy import save

    if not isinstance(result, Result):
        raise TypeError(f"the job returned {type(result).__name__}, not a Result")
    arrays = {}
    for name, value in result.tensors.items():
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
            raise TypeError(f"tensor {name!r} is not an array of booleans, integers or floats")
        arrays[name] = value.copy(order="C")
    record = {
        "schema": SCHEMA,
        "name": order.job.name,
        "fingerprint": order.fingerprint,
        "given": order.given,
        "facts": result.facts,
    }
    text = json.dumps(record, sort_keys=True, allow_nan=False)
    if len(text) > MAX_HEADER_BYTES // 2:
        raise ValueError(f"the facts are {len(text)} bytes of JSON; put long lists into tensors")
    return bytes(save(arrays, metadata={"unplug": text}))


def result_path(out: Path, name: str) -> Path:
    """``OUT/NAME.safetensors``; `InputError` where the name is not a plain file name."""
    return Path(out) / f"{FleetJob(name=name, target='unplug:name').name}.safetensors"


def write_result(out: Path, name: str, packed: bytes) -> None:
    """Writes a packed result, atomically."""
    with atomic_path(result_path(out, name), private=True) as temporary:
        temporary.write_bytes(packed)


def read_result(out: Path, name: str) -> Result:
    """Reads the result of a job; nothing of the file is trusted.

    Raises:
        InputError: no such file, not a regular one, too large, not whole, or not a result of that
            job.
    """
    from safetensors import SafetensorError, safe_open

    path = result_path(out, name)
    record = read_record(path)
    if record["name"] != name:
        raise InputError(
            str(path),
            f"it holds the result of job {record['name']!r}",
            "Restore it or run the job again",
        )
    try:
        with safe_open(path, framework="np") as handle:
            tensors = {key: handle.get_tensor(key) for key in handle.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        # the last of these: a type that numpy lacks
        raise InputError(str(path), f"not a whole result ({error})", AGAIN) from error
    return Result(tensors=tensors, facts=record["facts"])


def has_result(out: Path, name: str, fingerprint: str) -> bool:
    """True where a whole result of that job is there that carries the fingerprint.

    Args:
        out, name: the folder and the job's name, see `read_result`.
        fingerprint: the fingerprint that `run_jobs` got, or the job's own (`job_fingerprint`).
    """
    path = result_path(out, name)
    try:
        record = read_record(path)
    except InputError:
        return False
    return record["name"] == name and fingerprint in (record["given"], record["fingerprint"])


def read_record(path: Path) -> dict[str, Any]:
    """The metadata of a result: schema, name, fingerprint, given, facts.

    Raises:
        InputError: it is not a whole result.
    """
    from safetensors import SafetensorError, safe_open

    try:
        _check_size(path)
        with safe_open(path, framework="np") as handle:
            raw = (handle.metadata() or {}).get("unplug")
        record = json.loads(raw) if raw is not None else None
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise InputError(str(path), f"not a whole result ({error})", AGAIN) from error
    kinds = {"schema": str, "name": str, "fingerprint": str, "given": str, "facts": dict}
    if not isinstance(record, dict) or record.keys() != kinds.keys() or record["schema"] != SCHEMA:
        raise InputError(str(path), "it is not the result of a fleet's job", AGAIN)
    if not all(isinstance(record[key], kind) for key, kind in kinds.items()):
        raise InputError(str(path), "its metadata is of another form", AGAIN)
    return record


def _check_size(path: Path) -> None:
    """Refuses anything but a regular file, and one that is larger than any result, before anything
    is mapped into memory.
    """
    check_there(path)
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise InputError(str(path), "it is not a regular file", AGAIN)
    if status.st_size > MAX_RESULT_BYTES:
        raise InputError(str(path), f"larger than {MAX_RESULT_BYTES} bytes", NOT_OURS)
    check_content(path)
    # A safetensors file begins with the length of its JSON header, 8 bytes, little-endian:
    # looked at before the library does.
    with path.open("rb") as handle:
        header = int.from_bytes(handle.read(8), "little")
    if header > MAX_HEADER_BYTES:
        why = f"its header is larger than {MAX_HEADER_BYTES} bytes"
        raise InputError(str(path), why, NOT_OURS)
