"""Write the graphs that `unplug generate` fills with weights, after the base or the exporter changed.

Run ``python -m benchmarks.bare_graphs FOLDER``, then ``python -m benchmarks.shipped_table``.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import onnx
from safetensors.numpy import load_file

from unplug.core import sha256_file, temporary_folder
from unplug.export import Artifact, export_checkpoint, write_card
from unplug.plugins import shipped_path, weights_file
from unplug.sdk.drawing.device import (
    MARKS,
    OWN,
    READER,
    GeneratorSource,
    export_generator,
    strip,
)
from unplug.sdk.drawing.diffusion import find_plugin, shipped_folder

PLUGIN = "plugins.canny"


def write_graphs(out: Path) -> dict[str, int]:
    """Exports the base and a plugin that ship, and writes their graphs without weights.

    Returns:
        Part to the bytes of constants that no weight explains.
    """
    base = shipped_folder("small")
    source = GeneratorSource(name="small", folder=base, plugins={"canny": find_plugin("canny")})
    left, how = {}, {"targets": ["onnx"], "precisions": ["fp32"]}
    with temporary_folder("unplug-graphs-") as made:
        files = export_generator(source, out=made, **how)
        for part, (artifact,) in files.items():
            checkpoint = source.checkpoints()[part]
            name = "plugin" if part == PLUGIN else part
            left[part] = _write(out / f"{name}.onnx", artifact, checkpoint)
        for checkpoint in (base / OWN, shipped_path("small", MARKS) / READER):
            (artifact,) = export_checkpoint(checkpoint, out=made / checkpoint.name, **how)
            kind = artifact.card.model_type
            left[kind] = _write(out / f"{kind}.onnx", artifact, checkpoint)
    return left


def _write(path: Path, artifact: Artifact, checkpoint: Path) -> int:
    proto = onnx.load(str(artifact.path))
    left = strip(proto, load_file(weights_file(checkpoint)))
    del proto.metadata_props[:], proto.graph.value_info[:]
    onnx.save(proto, str(path))
    card = replace(
        artifact.card,
        file=path.name,
        sha256=sha256_file(path),
        bytes=path.stat().st_size,
        seconds=0.0,
        prepare_seconds=0.0,
    )
    write_card(path, card)
    return left


if __name__ == "__main__":
    print(write_graphs(Path(sys.argv[1])))
