"""``python -m tests.vectors.app.bundle``: a signed bundle with a tiny age predictor in it, as an
app gets one.

``bundle.json`` is of the form of ``tests/vectors/bundles``, its verdict ``valid``, and has beside
it an answer of Python's: a picture and the outputs for it of the member of its family that fits, which
is not the first. ``aligned.json`` is
the same model in a bundle that says where eyes go and carries a decision: an app goes the whole
way, from a photograph and its eyes to over, under or unsure. ``labelled.json`` has a classifier in
its place. ``generator/signed.json`` is what a
signer puts beside the files of that folder.
"""

from __future__ import annotations

import base64
import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tests.vectors.bundles.make import case
from tests.vectors.bundles.recipe import GENERATOR, Recipe, put
from tests.vectors.bundles.recipe import generator as base
from tests.vectors.decision.make import record

from unplug.core import Array
from unplug.export import vector_bytes, vector_name, vectors_index
from unplug.sdk.drawing.conditions import scaled
from unplug.sdk.drawing.inference import (
    FRAME_MS,
    FamilyMember,
    FamilyRecord,
    Frame,
    align,
    face_problem,
)
from unplug.sdk.drawing.inference.answer import age_rows, class_rows
from unplug.sdk.drawing.inference.decision import Decision
from unplug.sdk.learning.data import square

from .make import noise
from .networks import CLASSES, EDGES, SIDE, SPECS, WEIGHTS, write

HERE = Path(__file__).parent
PICTURE = (48, 36, 300)
"""Width, height and seed of the photograph."""
FACE = (6, 0, 42, 36)
"""Left, top, right and bottom of a face in it, which is cut out before anything else looks at it.
"""

EYES = ((15.5, 14.25), (33.0, 17.5))
"""Of the same face, left and right."""
NANO, OTHER = "members/nano", "6" * 64
"""The folder and the checkpoint of the member that fits."""
RULE = Decision(age=18.0, over_from=0.5, under_to=0.25)


def run(path: Path, image_13HW: Array) -> dict[str, Array]:
    """The file's outputs in ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path))
    names = [item.name for item in session.get_outputs()]
    return dict(zip(names, session.run(None, {"image": image_13HW}), strict=True))


def manifest(value: dict[str, Any]) -> dict[str, Any]:
    """The whole manifest of an age model; the recipe has the files and what was published."""
    gate = {
        "name": "parity",
        "value": 140.0,
        "limit": 100.0,
        "comparison": ">=",
        "passed": True,
        "unit": " dB",
        "detail": "",
        "inconclusive": False,
    }
    lineage = {
        "original_sha256": "4" * 64,
        "checkpoint_sha256": WEIGHTS,
        "data_digest": "3" * 64,
        "forget_samples": 2,
        "method": "retrain",
        "compute_fraction": 0.04,
        "ledger_head": None,
    }
    return {
        **value,
        "iospec": json.loads(json.dumps(SPECS["age"].to_dict())),
        "lineage": lineage,
        "gates": [gate],
        "preprocessing": {"crop": "centre square", "resize": SIDE, "scale": "pixel / 255"},
        "postprocessing": {"age_edges": list(EDGES), "unit": "years"},
        "versions": {"unplug": "0"},
    }


def family_manifest(value: dict[str, Any]) -> dict[str, Any]:
    """The same, of a family whose best member takes more than a frame of a preview."""
    whole = manifest(value)
    told = (("small", WEIGHTS, FRAME_MS + 7), ("nano", OTHER, 0.5))
    members = [
        FamilyMember(name=name, checkpoint_sha256=sha256, trunk_sha256="7" * 64, latency_ms=ms)
        for name, sha256, ms in told
    ]
    record = json.loads(json.dumps(asdict(FamilyRecord(members=tuple(members)))))
    whole["postprocessing"]["family"] = record
    return whole


def aligned_manifest(value: dict[str, Any]) -> dict[str, Any]:
    """The same, with eyes and a decision about the file."""
    whole, frame = manifest(value), Frame()
    share = {"pictures": 790, "over": 0.01, "under": 0.5, "unsure": 0.49}
    (file,) = (name for name in value["files"] if name.endswith(".onnx"))
    fitted = {
        "name": Path(file).name,
        "sha256": value["files"][file]["sha256"],
        "over_from": RULE.over_from,
        "under_to": RULE.under_to,
        "minors": share,
        "adults": share,
    }
    ends = {"age": RULE.age, "over_from": RULE.over_from, "under_to": RULE.under_to}
    whole["preprocessing"] |= {
        "eyes": [list(frame.left), list(frame.right)],
        "least_eyes": frame.least_eyes,
        "least_light": frame.least_light,
    }
    whole["postprocessing"]["decision"] = record(**ends, models=[fitted])
    return whole


def photograph() -> dict[str, Any]:
    """The photograph as the files carry it."""
    return {
        "width": PICTURE[0],
        "height": PICTURE[1],
        "rgb": base64.b64encode(noise(*PICTURE).tobytes()).decode(),
    }


def labelled_manifest(value: dict[str, Any]) -> dict[str, Any]:
    """The manifest of a classifier."""
    return {
        **manifest(value),
        "model_type": "classes",
        "iospec": json.loads(json.dumps(SPECS["classes"].to_dict())),
        "postprocessing": {"classes": list(CLASSES), "unit": "probability"},
    }


def content(folder: Path, kind: str = "age") -> tuple[Path, dict[str, bytes]]:
    """The model, and all files of a bundle of it but those of the signer."""
    own = SPECS[kind]
    path = write(folder, kind, "artifacts")
    found = {f"artifacts/{item.name}": item.read_bytes() for item in path.parent.iterdir()}
    drawn = np.random.default_rng(5).uniform(0, 1, (2, *own.inputs[0].shape[1:])).astype(np.float32)
    for sample in range(2):
        given = drawn[sample : sample + 1]
        for name, value in {"image": given, **run(path, given)}.items():
            found[f"test_vectors/{vector_name(sample, name)}"] = vector_bytes(value)
    found["test_vectors/vectors.json"] = json.dumps(vectors_index(own, 2)).encode()
    found |= {
        "README.md": f"# A tiny {kind} model\n".encode(),
        "reports/audit.json": b'{"schema": "unplug-audit/1"}\n',
    }
    return path, dict(sorted(found.items()))


def made() -> dict[str, Any]:
    """The bundle and the answer."""
    own, shown = SPECS["age"], Image.fromarray(noise(*PICTURE))
    with tempfile.TemporaryDirectory() as folder:
        _, files = content(Path(folder))
        path = write(Path(folder), "age", NANO, checkpoint=OTHER, seed=1)
        files |= {f"{NANO}/{item.name}": item.read_bytes() for item in path.parent.iterdir()}
        answer = run(path, scaled(square(shown, SIDE)[None], own.inputs[0]))
        face = run(path, scaled(square(shown.crop(FACE), SIDE)[None], own.inputs[0]))
    return {
        "what": "a bundle with a family of models in it",
        **case("valid", Recipe(content=files, manifest=family_manifest).files()),
        "picture": photograph(),
        "age_logits": answer["age_logits"].ravel().astype(float).tolist(),
        "expected_age": float(answer["expected_age"][0, 0]),
        "face": {"box": list(FACE), "expected_age": float(face["expected_age"][0, 0])},
    }


def aligned() -> dict[str, Any]:
    """The bundle that says where eyes go, and what is decided of the photograph."""
    own, frame = SPECS["age"], Frame()
    seen = align(noise(*PICTURE), *EYES, SIDE, frame)
    assert face_problem(1, *EYES, seen, frame) is None
    with tempfile.TemporaryDirectory() as folder:
        path, files = content(Path(folder))
        outputs = run(path, scaled(seen[None], own.inputs[0]))
    (row,) = age_rows(outputs, EDGES, [(Path("photograph.png"), "eyes")], RULE)
    signed = Recipe(content=files, manifest=aligned_manifest).files()
    return {
        "what": "a bundle that says where eyes go, and decides",
        **case("valid", signed),
        "picture": photograph(),
        "eyes": [list(eye) for eye in EYES],
        "expected_age": row["age"],
        "decision": row["decision"],
    }


def labelled() -> dict[str, Any]:
    """The bundle of a classifier, and the labels of the photograph."""
    shown = square(Image.fromarray(noise(*PICTURE)), SIDE)
    with tempfile.TemporaryDirectory() as folder:
        path, files = content(Path(folder), "classes")
        outputs = run(path, scaled(shown[None], SPECS["classes"].inputs[0]))
    (row,) = class_rows(outputs["logits"], CLASSES)
    recipe = Recipe(
        content=files, manifest=labelled_manifest, publication=put("name", to="animals")
    )
    return {
        "what": "a bundle with a classifier in it",
        **case("valid", recipe.files()),
        "picture": photograph(),
        "labels": [[one["label"], one["probability"]] for one in row["labels"]],
    }


def signature() -> dict[str, Any]:
    """Manifest and signature of the generator that lies in a folder of its own, valid beside it."""
    folder = HERE / "generator"
    own = {folder / "pipeline.json", *folder.glob("*/*")}
    content = {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(own)}
    files = base(content=content).files()
    added = {name: files[name] for name in files.keys() - content.keys()}
    return {
        "what": "the signature of a generator",
        **case("valid", added, schema=GENERATOR),
    }


MADE = {
    "bundle.json": made,
    "aligned.json": aligned,
    "labelled.json": labelled,
    "generator/signed.json": signature,
}


def text(name: str) -> str:
    """A file as the repository keeps it."""
    return json.dumps(MADE[name](), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    for made_name in MADE:
        (HERE / made_name).write_text(text(made_name), encoding="utf-8")
