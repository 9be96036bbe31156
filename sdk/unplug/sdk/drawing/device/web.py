"""What of a generator a browser runs: its LiteRT and ONNX files with their cards, each checked
first.
"""

from __future__ import annotations

from pathlib import Path

from unplug.core import InputError
from unplug.export import card_path

from .pipeline import PIPELINE, load_pipeline, open_files
from .variants import read_variant

TARGETS = ("litert", "onnx")


def web_files(folder: Path) -> dict[str, Path]:
    """Files of a generator for the web page, by their paths inside its folder.

    Args:
        folder: the folder with ``pipeline.json``, or that file itself.

    Returns:
        ``pipeline.json``, and every LiteRT and ONNX file that all parts have in the same precision,
        with its card, and the variants.

    Raises:
        ReportError: ``pipeline.json`` is missing or broken.
        ArtifactError: a file is missing, was swapped or edited, or is a link.
        InputError: there is no LiteRT and no ONNX file of every part.
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
    return files
