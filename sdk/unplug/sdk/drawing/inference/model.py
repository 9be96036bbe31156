"""``unplug run``: any exported file in its own runtime, or a checkpoint, on pictures or arrays.

Exported files need their runtime, NumPy and Pillow; only a checkpoint needs torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from unplug.core import (
    Array,
    DataError,
    InputError,
    IOSpec,
    TensorSpec,
    check_content,
    open_regular,
    settled,
)
from unplug.export import Artifact, Session, check_inputs, load_artifact, random_inputs
from unplug.plugins import load_checkpoint
from unplug.sdk.drawing.conditions import scaled, takes_pictures

from .alignment import Frame
from .answer import Answer, age_rows, class_rows
from .crop import CENTRE, FACE_MARGIN, UNSOUGHT, crop_all
from .decision import Decision

PICKLES = (".pt", ".pth", ".bin", ".pkl", ".ckpt")
"""Refused by `load_checkpoint`, with the reason."""
ARRAYS = (".npz", ".npy")
MAX_ARRAY_BYTES, MAX_UNPACKED_BYTES = 4 * 2**30, 2**30
"""Limits for a file, which is mapped, and for what a ``.npz`` holds when it is unpacked: a megabyte
can hold a gigabyte of zeros.
"""


@dataclass(frozen=True, kw_only=True)
class _Model:
    """A file or a checkpoint, opened: images go in and come out as NCHW."""

    path: Path
    model_type: str
    iospec: IOSpec
    config: Mapping[str, Any]
    infer: Callable[[Mapping[str, Array]], dict[str, Array]]

    @property
    def takes_faces(self) -> bool:
        """Whether a picture is cut to the face in it: of an age predictor, and of its trunk alone."""
        return "age_edges" in self.config or self.model_type == "age-trunk"


@settled
def run(
    model: str | Path | Artifact,
    inputs: Mapping[str, Array] | Sequence[str | Path] | str | Path | int,
    *,
    box: str | None = None,
    landmarker: str | Path | None = None,
    margin: float = FACE_MARGIN,
    frame: Frame | None = None,
    decision: Decision | None = None,
) -> Answer:
    """Runs a model and says what came out.

    Args:
        model: an exported file of any model, or a checkpoint folder.
        inputs: pictures for a model that takes one RGB image (a plugin: drawn conditions); or
            arrays of N samples by name, images as NCHW whatever the file has. Or one file of
            arrays, NAME.npz, or NAME.npy for a model with one input. Or a seed, for one random
            sample within the ranges of the inputs.
        box: the square to cut out of every picture, "left,top,right,bottom" in pixels.
        landmarker: MediaPipe task file that finds the face in every picture, of an age predictor or
            its trunk; without both the centre square is taken.
        margin: around the found face, as a fraction of its box; frame it as the training images are
            framed.
        frame: the frame for the eyes of the found face, used instead, see `align`.
        decision: the decision of an age predictor, which turns its groups into over, under or
            unsure.

    Raises:
        InputError: inputs that are not this model's, which names the tensor, or a decision that its
            outputs do not speak of.
        DataError: a picture is broken, or no face (or several) was found.
        ArtifactError, CheckpointError: the model is broken.
        MissingExtraError: its runtime is not installed.

    Example:
        ``run("artifacts/age.fp32.tflite", ["face.png"]).results[0]["age"]``
    """
    path = model.path if isinstance(model, Artifact) else Path(model)
    is_checkpoint = (path / "config.json").is_file() or path.suffix in PICKLES
    opened = _open_checkpoint(path) if is_checkpoint else _open_file(path)
    edges = opened.config.get("age_edges")
    if decision is not None and edges is None:
        why = f"a {opened.model_type} model decides about no age"
        raise InputError(str(path), why, "Leave the decision out")
    images: list[tuple[Path, str]] = []
    if isinstance(inputs, int):
        arrays = random_inputs(opened.iospec, 1, inputs)
    elif isinstance(inputs, Mapping):
        arrays = dict(inputs)
    elif len(files := _files(inputs)) == 1 and files[0].suffix in ARRAYS:
        arrays = _read_arrays(files[0], opened.iospec)
    else:
        tensor = _picture_input(opened)
        finder = Path(landmarker) if landmarker is not None and opened.takes_faces else None
        cut = crop_all(files, tensor.height, box=box, landmarker=finder, margin=margin, frame=frame)
        images = [(file, words) for file, (_, words) in zip(files, cut, strict=True)]
        arrays = {tensor.name: scaled(np.stack([pixels for pixels, _ in cut]), tensor)}
    check_inputs(opened.iospec, arrays)
    outputs = opened.infer(arrays)
    rows = age_rows(outputs, edges, images, decision) if images and edges is not None else []
    if images and (classes := opened.config.get("classes")):
        crops = [{"image": str(path), "crop": crop} for path, crop in images]
        rows = [
            crop | row
            for crop, row in zip(crops, class_rows(outputs["logits"], classes), strict=True)
        ]
    unsought = opened.takes_faces and any(words == CENTRE for _, words in images)
    return Answer(
        model=str(model),
        model_type=opened.model_type,
        iospec=opened.iospec,
        inputs=arrays,
        outputs=outputs,
        results=tuple(rows),
        notes=(UNSOUGHT,) if unsought else (),
    )


def _files(inputs: Sequence[str | Path] | str | Path) -> list[Path]:
    return [Path(one) for one in ([inputs] if isinstance(inputs, str | Path) else inputs)]


def _open_file(path: Path) -> _Model:
    artifact = load_artifact(path)
    card, session = artifact.card, Session(artifact)

    def infer(arrays: Mapping[str, Array]) -> dict[str, Array]:
        with session:
            return session.run_channels_first(arrays)

    return _Model(
        path=path,
        model_type=card.model_type,
        iospec=card.iospec.images_in("NCHW"),
        config=card.config,
        infer=infer,
    )


def _open_checkpoint(path: Path) -> _Model:
    checkpoint = load_checkpoint(path)
    network, iospec = checkpoint.model, checkpoint.model.iospec

    def infer(arrays: Mapping[str, Array]) -> dict[str, Array]:
        import torch

        with torch.no_grad():
            named = iospec.name_outputs(
                network(*(torch.from_numpy(arrays[tensor.name]) for tensor in iospec.inputs))
            )
        return {name: tensor.numpy() for name, tensor in named.items()}

    known = ("age_edges", "classes")
    config = {name: getattr(network, name) for name in known if hasattr(network, name)}
    return _Model(
        path=path, model_type=checkpoint.model_type, iospec=iospec, config=config, infer=infer
    )


def _read_arrays(path: Path, iospec: IOSpec) -> dict[str, Array]:
    """Never a pickle: numpy refuses object arrays here."""
    open_regular(path, max_bytes=MAX_ARRAY_BYTES, error=DataError, too_large="Split it").close()
    check_content(path, DataError)
    try:
        if path.suffix == ".npz":
            with ZipFile(path) as archive:
                unpacked = sum(item.file_size for item in archive.infolist())
            if unpacked > MAX_UNPACKED_BYTES:
                why = f"{unpacked} bytes when unpacked, and at most {MAX_UNPACKED_BYTES} are read"
                raise DataError(str(path), why, "Split it")
            with np.load(path, allow_pickle=False) as several:
                return {name: several[name] for name in several.files}
        # Mapped first: a header may claim more numbers than the file holds. Then copied, for torch
        # wants to be able to write.
        array = np.array(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError, KeyError, BadZipFile) as error:
        why = (
            error.strerror
            if isinstance(error, OSError) and error.strerror
            else "it is not a readable file of arrays"
        )
        raise DataError(
            str(path), why, "Write it with numpy.savez(path, name=array) or numpy.save"
        ) from error
    if len(iospec.inputs) != 1:
        names = ", ".join(f"{item.name} {item.shape}" for item in iospec.inputs)
        raise InputError(
            str(path),
            f"one array does not feed {names}",
            "Give a .npz file with an array of each name",
        )
    return {iospec.inputs[0].name: array}


def _picture_input(model: _Model) -> TensorSpec:
    if not takes_pictures(model.iospec):
        names = ", ".join(f"{one.name} {list(one.shape)}" for one in model.iospec.inputs)
        why = f"a {model.model_type} model takes {names}, not pictures"
        fix = "Give arrays of these names (`array=FILE.npz`), or `random`"
        raise InputError(str(model.path), why, fix)
    return model.iospec.inputs[0]
