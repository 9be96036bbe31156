"""The vectors that apps share are what Python computes."""

from __future__ import annotations

import base64
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.vectors.app import bench, bundle, generator, make

from unplug.core import sha256_file

HERE = make.HERE
RELATIVE = 1e-6
"""Of floats that another build of NumPy or ONNX Runtime may round otherwise."""


def check(wanted: Any, got: Any, place: str) -> None:
    if isinstance(wanted, dict):
        assert wanted.keys() == got.keys(), place
        for key in wanted:
            check(wanted[key], got[key], f"{place}.{key}")
    elif isinstance(wanted, list):
        assert len(wanted) == len(got), place
        for number, (one, two) in enumerate(zip(wanted, got, strict=True)):
            check(one, two, f"{place}[{number}]")
    elif isinstance(wanted, float):
        assert math.isclose(wanted, got, rel_tol=RELATIVE, abs_tol=RELATIVE), (place, wanted, got)
    else:
        assert wanted == got and type(wanted) is type(got), place


@pytest.mark.parametrize("name", [name for name in sorted(make.MADE) if name != "faces.json"])
def test_the_vectors_are_current(name: str) -> None:
    check(
        json.loads((HERE / name).read_text(encoding="utf-8")), json.loads(make.text_of(name)), name
    )


def test_faces_are_drawn_as_they_were() -> None:
    pytest.importorskip("mediapipe")
    check(
        json.loads((HERE / "faces.json").read_text(encoding="utf-8")),
        json.loads(make.text_of("faces.json")),
        "faces.json",
    )


def decibels(wanted: str, got: str) -> float:
    one, two = (
        np.frombuffer(base64.b64decode(text), "<f4").astype(np.float64) for text in (wanted, got)
    )
    noise = float(np.sqrt(np.mean((one - two) ** 2)))
    return math.inf if noise == 0.0 else 20 * math.log10(float(np.abs(one).max()) / noise)


@pytest.mark.parametrize("name", ["generator", "unguided", "variants"])
def test_a_tiny_generator_draws_the_pictures_that_lie_beside_it(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    folder = HERE / name
    generator.write_pipeline(tmp_path, generator.FOLDERS[name])
    for path in (*tmp_path.rglob("*.onnx"), *tmp_path.rglob("*.lora")):
        assert sha256_file(path) == sha256_file(folder / path.relative_to(tmp_path)), path
    kept = json.loads((folder / "pictures.json").read_text(encoding="utf-8"))
    for wanted, got in zip(kept["orders"], generator.pictures(folder)["orders"], strict=True):
        for name in ("latent", "decoded"):
            assert decibels(wanted.pop(name), got.pop(name)) >= generator.MIN_DB, (name, wanted)
        assert wanted == got


@pytest.mark.parametrize("name", ["bundle.json", "aligned.json", "labelled.json"])
def test_a_bundle_with_a_model_is_what_its_script_makes(name: str) -> None:
    pytest.importorskip("onnxruntime")
    kept, made = json.loads((HERE / name).read_text(encoding="utf-8")), bundle.MADE[name]()
    for case in (kept, made):
        files = case.pop("files")
        outputs = {name for name in files if re.search(r"-(?!image)\w+\.f32$", name)}
        assert len(outputs) == (2 if "labels" in case else 4)
        # Outputs may round otherwise elsewhere, and with them the manifest and its signature.
        case["files"] = {
            name: text
            for name, text in files.items()
            if name not in outputs | {"manifest.json", "model.sig"}
        }
        case["outputs"] = {
            name: np.frombuffer(base64.b64decode(files[name]), "<f4").astype(float).tolist()
            for name in outputs
        }
    check(kept, made, name)


def test_a_generator_is_signed_as_it_lies() -> None:
    name = "generator/signed.json"
    assert (HERE / name).read_text(encoding="utf-8") == bundle.text(name)


def test_what_is_asked_for_is_what_the_plan_says(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    asked = json.loads(bench.exchange(tmp_path).plan_json())
    assert asked == json.loads((bench.HERE / "plan.json").read_text(encoding="utf-8"))


def test_they_are_small() -> None:
    assert (
        sum(
            path.stat().st_size
            for path in HERE.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        )
        < 2**20
    )
