"""JSON and hashes of files: bounded reads, atomic writes; every failure is one typed error."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from .errors import InputError
from .regular import MAX_HASHED_BYTES, open_regular, parse_json, read_regular
from .results import atomic_path

MAX_JSON_BYTES = 256 * 2**20  # a report with the raw samples of a large audit stays far below


def write_json(path: Path, value: Any, *, private: bool | None = None) -> None:
    """Writes `value` as canonical JSON (sorted keys, no NaN), atomically; `private` as in
    `atomic_path`.
    """
    text = json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n"
    with atomic_path(Path(path), private=private) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_json(path: Path, *, max_bytes: int = MAX_JSON_BYTES) -> Any:
    """Reads a JSON file of bounded size.

    Raises:
        InputError: missing, no regular file, unreadable, too large, not JSON, or nested beyond
            every schema.
    """
    raw = read_regular(Path(path), max_bytes=max_bytes)
    try:
        return parse_json(raw)
    except ValueError as error:
        raise InputError(
            str(path), f"not valid JSON ({error})", "Write it again or restore it from a copy"
        ) from error


def json_sha256(facts: Any) -> str:
    """SHA-256, 64 hexadecimal digits, over facts as JSON with sorted keys: the same facts in any
    order have the same one.

    Example:
        >>> json_sha256({"a": 1, "b": [2]}) == json_sha256({"b": (2,), "a": 1})
        True
    """
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def sha256_file(path: Path) -> str:
    """SHA-256 of a file, as 64 hexadecimal digits; `InputError` unless it is a regular file or
    beyond 64 GiB.
    """
    digest = hashlib.sha256()
    with open_regular(Path(path), max_bytes=MAX_HASHED_BYTES) as handle:
        while block := handle.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def sha256_tree(path: Path) -> tuple[str, int]:
    """SHA-256 over the sorted (relative path, file hash) pairs below `path`, and the bytes of all
    files.

    A single file has its own hash, so that one call serves ``.tflite`` files and ``.mlpackage``
    folders.

    Raises:
        InputError: there is neither a file nor a folder.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(str(path), "no such file or folder", "Check the path")
    if path.is_file():
        return sha256_file(path), path.stat().st_size
    digest, size = hashlib.sha256(), 0
    for file in sorted(item for item in path.rglob("*") if item.is_file()):
        digest.update(f"{file.relative_to(path).as_posix()}\0{sha256_file(file)}\n".encode())
        size += file.stat().st_size
    return digest.hexdigest(), size
