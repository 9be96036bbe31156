"""``python -m tests.vectors.app.bundle``: a signed bundle with a tiny age predictor in it, as an app gets one.

``bundle.json`` is of the form of ``tests/vectors/bundles``, its verdict ``valid``, and has beside it an answer of Python's: a
picture and the outputs of the bundle's file for it.
"""

from __future__ import annotations

import base64
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from tests.vectors.bundles.make import case
from tests.vectors.bundles.recipe import Recipe

from unplug.core import Array
from unplug.export import vector_bytes, vector_name, vectors_index
from unplug.sdk.data import square
from unplug.sdk.inference.pictures import scaled

from .make import noise
from .networks import EDGES, SIDE, SPECS, WEIGHTS, write

HERE = Path(__file__).parent
PICTURE = (48, 36, 300)
"""Width, height and seed of the photograph."""
FACE = (6, 0, 42, 36)
"""Left, top, right and bottom of a face in it, which is cut out before anything else looks at it."""


def run(path: Path, image_13HW: Array) -> dict[str, Array]:
    """The file's outputs in ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path))
    names = [item.name for item in session.get_outputs()]
    return dict(zip(names, session.run(None, {"image": image_13HW}), strict=True))


def manifest(value: dict[str, Any]) -> dict[str, Any]:
    """The whole manifest of an age model; the recipe has the files and what was published."""
    gate = {"name": "parity", "value": 140.0, "limit": 100.0, "comparison": ">=", "passed": True, "unit": " dB", "detail": "",
            "inconclusive": False}  # fmt: skip
    lineage = {
        "original_sha256": "4" * 64, "checkpoint_sha256": WEIGHTS, "data_digest": "3" * 64, "forget_samples": 2,
        "method": "retrain", "compute_fraction": 0.04, "ledger_head": None,
    }  # fmt: skip
    return {
        **value, "iospec": json.loads(json.dumps(SPECS["age"].to_dict())), "lineage": lineage, "gates": [gate],
        "preprocessing": {"crop": "centre square", "resize": SIDE, "scale": "pixel / 255"},
        "postprocessing": {"age_edges": list(EDGES), "unit": "years"}, "versions": {"unplug": "0"},
    }  # fmt: skip


def made() -> dict[str, Any]:
    """The bundle and the answer."""
    from PIL import Image

    own = SPECS["age"]
    photograph = noise(*PICTURE)
    image = scaled(square(Image.fromarray(photograph), SIDE)[None], own.inputs[0])
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), "age", "artifacts")
        content = {f"artifacts/{item.name}": item.read_bytes() for item in path.parent.iterdir()}
        drawn = np.random.default_rng(5).uniform(0, 1, (2, *own.inputs[0].shape[1:])).astype(np.float32)
        for sample in range(2):
            given = drawn[sample : sample + 1]
            for name, value in {"image": given, **run(path, given)}.items():
                content[f"test_vectors/{vector_name(sample, name)}"] = vector_bytes(value)
        answer = run(path, image)
        face = run(path, scaled(square(Image.fromarray(photograph).crop(FACE), SIDE)[None], own.inputs[0]))
    content["test_vectors/vectors.json"] = json.dumps(vectors_index(own, 2)).encode()
    content |= {"README.md": b"# A tiny age model\n", "reports/audit.json": b'{"schema": "unplug-audit/1"}\n'}
    files = Recipe(content=dict(sorted(content.items())), manifest=manifest).files()
    return {
        **case("a bundle with a model in it", "valid", files),
        "picture": {"width": PICTURE[0], "height": PICTURE[1], "rgb": base64.b64encode(photograph.tobytes()).decode()},
        "age_logits": answer["age_logits"].ravel().astype(float).tolist(), "expected_age": float(answer["expected_age"][0, 0]),
        "face": {"box": list(FACE), "expected_age": float(face["expected_age"][0, 0])},
    }  # fmt: skip


def text() -> str:
    """The file as the repository keeps it."""
    return json.dumps(made(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    (HERE / "bundle.json").write_text(text(), encoding="utf-8")
