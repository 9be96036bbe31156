"""Artifacts: one exported file and, next to it, the card that says what it is (``<file>.json``).

A card and its file may come from anywhere, so `load_artifact` trusts neither.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from unplug.core import (
    STRICT,
    ArtifactError,
    InputError,
    IOSpec,
    TensorSpec,
    check_contents,
    check_there,
    read_dataclass,
    sha256_tree,
    write_json,
)
from unplug.plugins import check_classes

from .onnx_files import external_tensor

SCHEMA: Literal["unplug-artifact/1"] = "unplug-artifact/1"
MAX_CARD_BYTES = 2**20
# flatbuffers and protocol buffers end at 2 GiB; an .mlpackage may hold a little more
MAX_ARTIFACT_BYTES = 4 * 2**30
MAX_TREE_FILES = 4096
MAX_TENSOR_BYTES = 2**30
MAX_AGE = 1000.0  # years; borders of groups end where the youngest and the oldest of the data do
DTYPES = {
    "float32": 4,
    "float16": 2,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
EXPORTED = "Give a file that `unplug export` wrote"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """Samples that gave activations their ranges, and biases their correction.

    Args:
        samples: N.
        sha256: `digest_inputs` of them.
        corrected: convolutions whose biases were corrected.
        uncorrected: those that were left as they are, by their paths, each with the reason.
    """

    samples: int
    sha256: str
    corrected: int = 0
    uncorrected: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Card:
    """What an artifact is and where it comes from.

    Args:
        schema: always ``unplug-artifact/1``.
        target: name in TARGETS.
        precision: name in PRECISIONS.
        file: name of the artifact next to the card.
        sha256: the hash of the file, or of the folder's tree.
        bytes: the size of all its files.
        model_type: key of `unplug.plugins.checkpoint.MODELS`.
        iospec: its named tensors.
        config: the model's configuration, enough to use the artifact without torch.
        checkpoint_sha256: the hash of the weights that it was made from.
        calibration: the calibration data of its conversion, or None.
        minimum_ios: the oldest iOS that a Core ML file is made for, or None.
        flops: floating-point operations of one forward pass (two a multiply-accumulate), or None if
            not counted.
        parameters: the number of model parameters that take part in a forward pass, or None if not
            counted.
        versions: the versions of Python, unplug and the converter's packages.
        seconds: wall time to convert and write this precision; 0 in a bundle, where no times are
            signed.
        prepare_seconds: wall time, before that, that all precisions of the target shared; 0 in a
            bundle.
    """

    __pydantic_config__: ClassVar = STRICT

    schema: Literal["unplug-artifact/1"] = SCHEMA
    target: str
    precision: str
    file: str
    sha256: str
    bytes: int
    model_type: str
    iospec: IOSpec
    config: dict[str, Any]
    checkpoint_sha256: str
    calibration: Calibrated | None = None
    minimum_ios: int | None = None
    flops: int | None
    parameters: int | None = None
    versions: dict[str, str]
    seconds: float
    prepare_seconds: float


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """An exported file that has been checked against its card."""

    path: Path
    card: Card


def card_path(path: Path) -> Path:
    """Where the card of the artifact at `path` lies."""
    return path.with_name(f"{path.name}.json")


def write_card(path: Path, card: Card) -> Artifact:
    """Writes the card next to the artifact at `path`, atomically.

    Raises:
        OutputError: the folder cannot be written.
    """
    write_json(card_path(path), asdict(card))
    return Artifact(path=path, card=card)


def artifacts_at(path: Path) -> list[Path]:
    """The exported files of a folder, by their cards; of anything else, so of a file that is a
    folder, the path itself.

    Example:
        >>> artifacts_at(Path("age.fp32.onnx"))
        [PosixPath('age.fp32.onnx')]
    """
    if not path.is_dir() or card_path(path).is_file():
        return [path]
    return sorted(
        file for card in path.glob("*.*.json") if os.path.lexists(file := card.with_suffix(""))
    ) or [path]


def load_artifact(path: str | Path) -> Artifact:
    """Loads an artifact and checks it against its card.

    Args:
        path: the artifact, or its card.

    Raises:
        ArtifactError: file or card missing, the card of another schema or pointing elsewhere,
            impossible tensors, a file of another size or hash than the card says.

    Example:
        >>> load_artifact("/nowhere/age.fp32.onnx")
        Traceback (most recent call last):
        unplug.core.errors.ArtifactError: /nowhere/age.fp32.onnx: no such file. Give a file that `unplug export` wrote.
    """
    file = Path(path)
    if file.suffix == ".json":
        file = file.with_suffix("")
    _check_exists(file, Path(path))
    card = read_dataclass(Card, card_path(file), ArtifactError, max_bytes=MAX_CARD_BYTES)
    for problem in _card_problems(card, file):
        raise ArtifactError(str(card_path(file)), problem, "Export it again")
    _check_content(file, card)
    return Artifact(path=file, card=card)


def _check_exists(file: Path, given: Path) -> None:
    """Raises unless there are a file and its card."""
    check_there(file, ArtifactError)
    if not file.exists():
        if given.exists():
            why = f"it is neither an exported file nor the card of one ({file.name} is missing)"
            raise ArtifactError(str(given), why, EXPORTED)
        raise ArtifactError(str(given), "no such file", EXPORTED)
    if file.is_dir() and not (card_path(file).is_file() or (file / "Manifest.json").is_file()):
        held = sorted(item.name.removesuffix(".json") for item in file.glob("*.*.json"))[:3]
        fix = f"Name the files in it, say {' '.join(held)}" if held else EXPORTED
        raise ArtifactError(str(file), "it is a folder, not an exported file", fix)
    if not card_path(file).is_file():
        raise ArtifactError(
            str(file),
            f"its card {file.name}.json is missing",
            "Copy the card with the file, or export again",
        )


def _card_problems(card: Card, file: Path) -> Iterator[str]:
    if not _FILE.fullmatch(card.file) or card.file != file.name:
        yield f"its file is called {card.file[:200]!r}, not {file.name!r}"
    if not (_DIGEST.fullmatch(card.sha256) and _DIGEST.fullmatch(card.checkpoint_sha256)):
        yield "a SHA-256 in it is not 64 hexadecimal digits"
    if not 0 < card.bytes <= MAX_ARTIFACT_BYTES:
        yield f"its size of {card.bytes} bytes is outside 1 to {MAX_ARTIFACT_BYTES}"
    for text in (card.target, card.precision, card.model_type):
        if not _FILE.fullmatch(text):
            yield f"{text[:200]!r} is not the name of a target, a precision or a model"
    tensors = (*card.iospec.inputs, *card.iospec.outputs)
    if (
        not card.iospec.inputs
        or not card.iospec.outputs
        or len({tensor.name for tensor in tensors}) < len(tensors)
    ):
        yield "its tensors are missing or share a name"
    for tensor in tensors:
        yield from _tensor_problems(tensor)
    yield from _config_problems(card)


def _config_problems(card: Card) -> Iterator[str]:
    """Problems of what runs on pictures read from the configuration: borders of age groups, one
    more than there are groups, or names of classes.
    """
    shapes = {tensor.name: tensor.shape for tensor in card.iospec.outputs}
    if "classes" in card.config:
        names = card.config["classes"]
        try:
            check_classes(names if isinstance(names, list) else [])
        except InputError as error:
            yield f"{error.what} of its config: {error.why}"
            return
        if shapes.get("logits") != (1, len(names)):
            yield f"its output is not that of {len(names)} classes, and its config says so"
    if "age_edges" not in card.config:
        return
    given = card.config["age_edges"]
    edges = given if isinstance(given, list) else []
    numbers = all(isinstance(edge, int | float) and not isinstance(edge, bool) for edge in edges)
    if (
        len(edges) < 2
        or not numbers
        or not all(0 <= low < high <= MAX_AGE for low, high in itertools.pairwise(edges))
    ):
        yield "the age_edges of its config are not years that increase"
        return
    if shapes.get("age_logits") != (1, len(edges) - 1) or shapes.get("expected_age") != (1, 1):
        yield f"its outputs are not those of {len(edges) - 1} age groups, and its config says so"


def _tensor_problems(tensor: TensorSpec) -> Iterator[str]:
    name = tensor.name[:200]
    if not _NAME.fullmatch(tensor.name):
        yield f"{name!r} is not the name of a tensor"
    if tensor.dtype not in DTYPES:
        yield f"tensor {name!r} has the unknown type {tensor.dtype[:200]!r}"
    elif (
        min(tensor.shape, default=0) < 1
        or math.prod(tensor.shape) * DTYPES[tensor.dtype] > MAX_TENSOR_BYTES
    ):
        yield f"tensor {name!r} has the impossible shape {list(tensor.shape)[:8]}"
    elif tensor.shape[0] != 1:
        yield f"tensor {name!r} has a batch of {tensor.shape[0]}, and artifacts have a batch of one"
    if tensor.range is not None and not (
        all(map(math.isfinite, tensor.range)) and tensor.range[0] <= tensor.range[1]
    ):
        yield f"tensor {name!r} has the impossible range {tensor.range}"


def _check_content(file: Path, card: Card) -> None:
    again = "Copy it again, or export it again"
    files = [file] if file.is_file() else _tree(file)
    size = sum(item.stat().st_size for item in files)
    if size != card.bytes:
        check_contents(files, ArtifactError)
        raise ArtifactError(str(file), f"{size} bytes where its card says {card.bytes}", again)
    if sha256_tree(file)[0] != card.sha256:
        raise ArtifactError(
            str(file), "its SHA-256 differs from its card: it was edited or damaged", again
        )
    if file.suffix == ".onnx" and (tensor := external_tensor(file)) is not None:
        why = (
            f"the numbers of its tensor {tensor!r} lie in another file, which neither card nor "
            "hash covers"
        )
        raise ArtifactError(
            str(file), why, "Save it with all tensors inside, as `unplug export` does"
        )


def _tree(folder: Path) -> list[Path]:
    files = []
    for path in folder.rglob("*"):
        if path.is_symlink():
            raise ArtifactError(
                str(folder), f"it holds the link {path.name[:200]!r}", "Replace links by the files"
            )
        if path.is_file():
            files.append(path)
        if len(files) > MAX_TREE_FILES:
            raise ArtifactError(
                str(folder),
                f"it holds more than {MAX_TREE_FILES} files",
                "This is not an artifact of unplug",
            )
    return files
