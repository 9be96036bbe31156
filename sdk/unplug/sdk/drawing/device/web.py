"""What of a generator a browser runs: its LiteRT and ONNX files with their cards, each checked
first.
"""

from __future__ import annotations

from pathlib import Path

from unplug.core import InputError
from unplug.export import artifacts_at, card_path, load_artifact

from .mark import BITS
from .pipeline import PIPELINE, load_pipeline, open_files
from .variants import read_variant

TARGETS = ("litert", "onnx")
READER_FOLDER, CARD = "mark-reader", "card.json"
"""The folder of the mark reader, and its card there, where the page looks for it."""


def web_files(folder: Path, mark_reader: Path | None = None) -> dict[str, Path]:
    """Files of a generator for the web page, by their paths inside its folder.

    Args:
        folder: the folder with ``pipeline.json``, or that file itself.
        mark_reader: the folder that `unplug export mark-reader` wrote; the page then says of each
            picture whether it carries the public mark.

    Returns:
        ``pipeline.json``, and every LiteRT and ONNX file that all parts have in the same precision,
        with its card, and the variants; of the reader one file.

    Raises:
        ReportError: ``pipeline.json`` is missing or broken.
        ArtifactError: a file is missing, was swapped or edited, or is a link.
        InputError: there is no LiteRT and no ONNX file of every part, or none of the reader.
    """
    folder = folder.parent if folder.name == PIPELINE else folder
    pipeline = load_pipeline(folder)
    parts = pipeline.parts()
    kinds = [
        {(item.target, item.precision) for item in part.files if item.target in TARGETS}
        for part in parts.values()
    ]
    files = {PIPELINE: folder / PIPELINE}
    for target, precision in sorted(set.intersection(*kinds)):
        for artifact in open_files(pipeline, folder, target=target, precision=precision).values():
            for path in (artifact.path, card_path(artifact.path)):
                files[path.relative_to(folder).as_posix()] = path
    if len(files) == 1:
        raise InputError(
            str(folder),
            "a browser runs LiteRT and ONNX files, and not every part has one",
            "Export it with `unplug export --to litert,onnx`",
        )
    for name, variant in pipeline.variants.items():
        read_variant(pipeline, folder, name)  # checked as every file is
        files[variant.file] = folder / variant.file
    return files if mark_reader is None else {**files, **_reader_files(mark_reader)}


def _reader_files(folder: Path) -> dict[str, Path]:
    fits = [
        item
        for item in map(load_artifact, artifacts_at(folder))
        if item.card.target in TARGETS
        and item.card.model_type == "mark_reader"
        and item.card.iospec.outputs[0].shape == (1, BITS)
    ]
    if not fits:
        raise InputError(
            str(folder),
            f"it holds no LiteRT and no ONNX file that reads marks of {BITS} bits",
            "Give what `unplug export mark-reader --to litert,onnx` wrote",
        )
    # Browsers read it on a processor, which turns fp16 weights into fp32 again in every run.
    first = min(fits, key=lambda item: (item.card.precision != "fp32", item.card.target))
    own = {CARD: card_path(first.path), first.path.name: first.path}
    return {f"{READER_FOLDER}/{name}": path for name, path in own.items()}
