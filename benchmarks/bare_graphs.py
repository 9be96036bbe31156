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
from unplug.export import write_card
from unplug.plugins import weights_file
from unplug.sdk.drawing.device import GeneratorSource, export_generator, strip
from unplug.sdk.drawing.diffusion import find_plugin, shipped_folder

PLUGIN = "plugins.canny"


def write_graphs(out: Path) -> dict[str, int]:
    """Exports the base and a plugin that ship, and writes their graphs without weights.

    Returns:
        Part to the bytes of constants that no weight explains.
    """
    source = GeneratorSource(
        name="small", folder=shipped_folder("small"), plugins={"canny": find_plugin("canny")}
    )
    left = {}
    with temporary_folder("unplug-graphs-") as made:
        files = export_generator(source, targets=["onnx"], precisions=["fp32"], out=made)
        for part, (artifact,) in files.items():
            proto = onnx.load(str(artifact.path))
            left[part] = strip(proto, load_file(weights_file(source.checkpoints()[part])))
            del proto.metadata_props[:], proto.graph.value_info[:]
            path = out / f"{'plugin' if part == PLUGIN else part}.onnx"
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
