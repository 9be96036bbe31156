"""What an exported file says of itself to any reader of its format, without unplug and without its
card: ONNX's `metadata_props`, a buffer of a LiteRT file, Core ML's user-defined metadata.

Only facts that a refit without a person has too, so no digest of the data: files of weights that
are equal stay equal, and no path, time or person is among them.
"""

from __future__ import annotations

import re

from unplug.core import VERSION, IOSpec, TensorSpec, plain, read_regular
from unplug.plugins import Checkpoint

LICENSE = "model_license"
"""ONNX's own name for it."""
MAX_CARD_BYTES = 2**20
_FRONT = re.compile(r"---\n(.*?)\n---", re.DOTALL)
_LICENSE = re.compile(r"^license: *[\"']?([\w.+-]{1,80})[\"']? *$", re.MULTILINE)


def file_facts(checkpoint: Checkpoint, iospec: IOSpec) -> dict[str, str]:
    """Facts by their keys; what a checkpoint does not tell is left out.

    Args:
        checkpoint: the weights, with the record and the card next to them.
        iospec: the tensors of the exported file.
    """
    record = checkpoint.record
    data, base = record.get("data", {}), record.get("base")
    told = {
        "model_name": checkpoint.model_type,
        LICENSE: _license(checkpoint),
        "unplug_version": VERSION,
        "checkpoint_sha256": checkpoint.sha256,
        "base_sha256": base.get("sha256") if isinstance(base, dict) else None,
        # The kind of the data alone: the rest tells its place, often a person's folder.
        "data": str(data.get("spec", "")).partition(":")[0],
        **{f"input_{tensor.name}": _contract(tensor) for tensor in iospec.inputs},
        **{f"output_{tensor.name}": _contract(tensor) for tensor in iospec.outputs},
    }
    return {
        key: plain(value, 200) for key, value in told.items() if value and isinstance(value, str)
    }


def _contract(tensor: TensorSpec) -> str:
    """What a tensor holds, in a few words.

    Example:
        >>> _contract(TensorSpec(name="image", shape=(1, 3, 8, 8), layout="NCHW", range=(0.0, 1.0)))
        'float32 1x3x8x8 NCHW 0..1'
    """
    ends = "" if tensor.range is None else " {:g}..{:g}".format(*tensor.range)
    colour = f" {tensor.colour}" if tensor.colour else ""
    return f"{tensor.dtype} {'x'.join(map(str, tensor.shape))} {tensor.layout}{colour}{ends}"


def _license(checkpoint: Checkpoint) -> str | None:
    """The license that the card's front matter names, where the hub looks for it too."""
    card = checkpoint.path / "README.md"
    if not card.is_file():
        return None
    text = read_regular(card, max_bytes=MAX_CARD_BYTES).decode("utf-8", "replace")
    front = _FRONT.match(text)
    found = _LICENSE.search(front[1]) if front else None
    return found[1] if found else None
