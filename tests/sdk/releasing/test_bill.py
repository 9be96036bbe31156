"""The bill of materials, by hand and by CycloneDX's own schema."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from unplug.core import Estimate, InputError
from unplug.sdk.releasing.bill import bill_of_base, bill_of_materials, croissant_of
from unplug.trust.bundle import ErasureClaim

MANIFEST: dict[str, Any] = {
    "model_type": "age",
    "iospec": {
        "inputs": [{"name": "image", "dtype": "float32", "shape": (1, 3, 32, 32)}],
        "outputs": [{"name": "expected_age", "dtype": "float32", "shape": (1, 1)}],
    },
    "lineage": {
        "original_sha256": "0" * 64,
        "checkpoint_sha256": "1" * 64,
        "data_digest": "2" * 64,
        "forget_samples": 3,
        "method": "closed-form",
    },
    "versions": {"unplug": "0.1.0", "torch": "2.13.0", "python": "3.11.2", "scipy": None},
}


def bill(
    tmp_path: Path, low: float | None = 4.5, high: float | None = 5.5, **described: Any
) -> dict[str, Any]:
    folder = tmp_path / "age.fp16.mlpackage"
    folder.mkdir(exist_ok=True)
    files: Any = [
        SimpleNamespace(path=path, card=SimpleNamespace(sha256="3" * 64))
        for path in (tmp_path / "age.fp32.onnx", folder)
    ]
    error = Estimate(value=5.0, low=low, high=high)
    title = "A face-age predictor"
    return bill_of_materials(
        "face-age", title, MANIFEST, files, {"MAE": error}, described, {}, None
    )


def test_a_family_is_listed_with_the_files_of_its_members_and_their_head(tmp_path: Path) -> None:
    listed = [{"name": name, "checkpoint_sha256": name * 32} for name in ("aa", "bb", "cc")]
    manifest = MANIFEST | {"postprocessing": {"family": {"members": listed}}}
    (tmp_path / "shared-head.safetensors").write_bytes(b"head")
    file: Any = SimpleNamespace(
        path=tmp_path / "age.fp32.onnx", card=SimpleNamespace(sha256="3" * 64)
    )
    error, members = Estimate(value=5.0, low=None, high=None), {"cc": [file], "aa": [file]}
    made = bill_of_materials(
        "face-age",
        "A face-age predictor",
        manifest,
        [file],
        {"MAE": error},
        {},
        members,
        tmp_path / "shared-head.safetensors",
    )
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(made)) is None
    parts = {part["name"]: part for part in made["components"]}
    names = [name for name in parts if "/" in name or name in ("aa", "bb", "cc") or "head" in name]
    assert names == [
        "artifacts/age.fp32.onnx",
        "aa",
        "members/aa/age.fp32.onnx",
        "cc",
        "members/cc/age.fp32.onnx",
        "shared-head.safetensors",
    ], "bb is the reference: the model itself"
    for name, sha256 in {
        "aa": "aa" * 32,
        "members/cc/age.fp32.onnx": "3" * 64,
        "shared-head.safetensors": hashlib.sha256(b"head").hexdigest(),
    }.items():
        assert parts[name]["hashes"] == [{"alg": "SHA-256", "content": sha256}]


def test_it_holds_to_the_schema_and_is_the_same_again(tmp_path: Path) -> None:
    for made in (bill(tmp_path), bill(tmp_path, None, None)):
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(made)) is None
    assert bill(tmp_path) == bill(tmp_path)


def test_it_names_the_model_what_it_comes_from_and_what_ships(tmp_path: Path) -> None:
    made = bill(tmp_path)
    model = made["metadata"]["component"]
    assert (model["type"], model["name"]) == ("machine-learning-model", "face-age")
    assert model["hashes"] == [{"alg": "SHA-256", "content": "1" * 64}]
    assert model["pedigree"]["ancestors"][0]["hashes"][0]["content"] == "0" * 64
    assert model["pedigree"]["notes"] == "forgot 3 samples by closed-form"
    card = model["modelCard"]
    assert card["modelParameters"]["inputs"] == [{"format": "image: float32 [1, 3, 32, 32]"}]
    assert card["quantitativeAnalysis"]["performanceMetrics"] == [
        {
            "type": "MAE",
            "slice": "test",
            "value": "5",
            "confidenceInterval": {"lowerBound": "4.5", "upperBound": "5.5"},
        }
    ]
    parts = {part["name"]: part for part in made["components"]}
    assert parts["training data"]["hashes"][0]["content"] == "2" * 64
    assert parts["artifacts/age.fp32.onnx"]["hashes"][0]["content"] == "3" * 64
    assert "hashes" not in parts["artifacts/age.fp16.mlpackage"], "it is a folder"
    assert parts["unplug-sdk"]["purl"] == "pkg:pypi/unplug-sdk@0.1.0"
    assert "purl" not in parts["python"] and "scipy" not in parts


def test_an_error_without_an_interval_has_none(tmp_path: Path) -> None:
    card = bill(tmp_path, None, None)["metadata"]["component"]["modelCard"]
    (metric,) = card["quantitativeAnalysis"]["performanceMetrics"]
    assert metric["value"] == "5" and "confidenceInterval" not in metric


def test_croissant_metadata_next_to_the_data_are_named_with_their_licence(tmp_path: Path) -> None:
    table, file = tmp_path / "labels.csv", tmp_path / "croissant.json"
    table.write_text("path\n")
    spec = f"csv:{table},path=photo"
    assert croissant_of(spec) == {} == croissant_of("synth:n=4")
    licence = "https://creativecommons.org/licenses/by/4.0/"
    file.write_text(json.dumps({"@type": "sc:Dataset", "name": "faces", "license": licence}))
    described = croissant_of(spec)
    assert described == croissant_of(f"utkface:{tmp_path}")
    made = bill(tmp_path, **described)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(made)) is None
    (data,) = (part for part in made["components"] if part["type"] == "data")
    assert (data["name"], data["licenses"]) == ("faces", [{"license": {"name": licence}}])
    assert data["hashes"][0]["content"] == "2" * 64, "the data's digest, as without"
    (reference,) = data["externalReferences"]
    assert reference["hashes"][0]["content"] == hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize("text", ["{", "[]", "3", "{}", '{"name": 3}'])
def test_a_file_that_is_no_croissant_metadata_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "croissant.json").write_text(text)
    with pytest.raises(InputError, match="it is not Croissant metadata"):
        croissant_of(f"imagefolder:{tmp_path}")


def test_an_erased_base_has_a_bill_of_its_files(tmp_path: Path) -> None:
    for name in ("unet/unet.onnx", "pipeline.json", "reports/audit.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    claim = ErasureClaim(
        base_sha256="1" * 64,
        original_sha256="0" * 64,
        concepts=("glasses", "hat"),
        method="uce",
        edit_bytes=3,
        against="prompts",
    )
    made = bill_of_base("small", tmp_path, claim, {"unplug": "0.1.0", "scipy": None})
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(made)) is None
    model = made["metadata"]["component"]
    assert model["pedigree"]["notes"] == "erased glasses, hat by uce"
    assert model["pedigree"]["ancestors"][0]["hashes"][0]["content"] == "0" * 64
    assert [part["name"] for part in made["components"]] == [
        "pipeline.json",
        "unet/unet.onnx",
        "unplug-sdk",
    ]
