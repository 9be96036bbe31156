"""Loading artifacts: nothing in a card or a file is trusted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from unplug.core import ArtifactError, IOSpec, TensorSpec, sha256_tree
from unplug.export import Artifact, Card, artifacts_at, card_path, load_artifact
from unplug.export.artifact import MAX_CARD_BYTES, write_card

SPEC = IOSpec(
    inputs=(TensorSpec(name="image", shape=(1, 3, 4, 4), layout="NCHW", range=(0.0, 1.0)),),
    outputs=(TensorSpec(name="age", shape=(1, 1), layout="NC"),),
)


def make(path: Path) -> Artifact:
    digest, size = sha256_tree(path)
    card = Card(
        target="onnx",
        precision="fp32",
        file=path.name,
        sha256=digest,
        bytes=size,
        model_type="age",
        iospec=SPEC,
        config={"image_size": 4},
        checkpoint_sha256="0" * 64,
        flops=10,
        versions={},
        seconds=1.0,
        prepare_seconds=2.0,
    )
    return write_card(path, card)


@pytest.fixture
def artifact(tmp_path: Path) -> Artifact:
    path = tmp_path / "age.fp32.onnx"
    path.write_bytes(b"\xffsome bytes of a model")
    return make(path)


@pytest.fixture
def package(tmp_path: Path) -> Artifact:
    path = tmp_path / "age.fp32.mlpackage"
    (path / "Data").mkdir(parents=True)
    (path / "Manifest.json").write_text("{}")
    (path / "Data" / "weights.bin").write_bytes(b"w" * 100)
    return make(path)


def test_round_trip_by_file_and_by_card(artifact: Artifact, package: Artifact) -> None:
    for item in (artifact, package):
        assert load_artifact(item.path) == item
        assert load_artifact(str(card_path(item.path))) == item


def test_a_folder_stands_for_the_exported_files_in_it(
    artifact: Artifact, package: Artifact
) -> None:
    folder = artifact.path.parent
    assert package.path.parent == folder, "one folder holds both"
    (folder / "parity.json").write_text("{}")
    assert artifacts_at(folder) == sorted([artifact.path, package.path])
    assert artifacts_at(package.path) == [package.path] and artifacts_at(artifact.path) == [
        artifact.path
    ]
    (folder / "empty").mkdir()
    assert artifacts_at(folder / "empty") == [folder / "empty"]


def test_edited_and_truncated_files(artifact: Artifact) -> None:
    content = artifact.path.read_bytes()
    artifact.path.write_bytes(content.replace(b"model", b"MODEL"))
    with pytest.raises(ArtifactError, match="it was edited or damaged"):
        load_artifact(artifact.path)
    artifact.path.write_bytes(content[:-3])
    with pytest.raises(ArtifactError, match="19 bytes where its card says 22"):
        load_artifact(artifact.path)


@pytest.mark.parametrize(
    "edges",
    [None, 7, "0-20", [], [0.0, "a"], [20.0, 0.0], [-1.0, 5.0], [0.0, 1e9], [True, 5.0], {"a": 1}],
)
def test_age_edges_of_another_shape(artifact: Artifact, edges: object) -> None:
    write_card(artifact.path, replace(artifact.card, config={"age_edges": edges}))
    with pytest.raises(ArtifactError, match="the age_edges of its config"):
        load_artifact(artifact.path)


def test_age_edges_that_fit_the_outputs(artifact: Artifact) -> None:
    logits = TensorSpec(name="age_logits", shape=(1, 2), layout="NC")
    outputs = (logits, TensorSpec(name="expected_age", shape=(1, 1), layout="NC"))
    fits = replace(
        artifact.card, iospec=replace(SPEC, outputs=outputs), config={"age_edges": [0, 20.0, 100]}
    )
    write_card(artifact.path, fits)
    assert load_artifact(artifact.path).card == fits
    write_card(artifact.path, replace(fits, config={"age_edges": [0, 20, 40, 100]}))
    with pytest.raises(ArtifactError, match="its outputs are not those of 3 age groups"):
        load_artifact(artifact.path)


def test_packages_are_checked_as_trees(package: Artifact) -> None:
    weights = package.path / "Data" / "weights.bin"
    weights.write_bytes(b"v" * 100)
    with pytest.raises(ArtifactError, match="edited or damaged"):
        load_artifact(package.path)
    weights.rename(package.path / "Data" / "renamed.bin")
    (package.path / "Data" / "renamed.bin").write_bytes(b"w" * 100)
    with pytest.raises(ArtifactError, match="edited or damaged"):
        load_artifact(package.path)
    (package.path / "Data" / "link").symlink_to("/etc/passwd")
    with pytest.raises(ArtifactError, match="it holds the link 'link'"):
        load_artifact(package.path)


def test_missing_file_or_card(artifact: Artifact) -> None:
    card_path(artifact.path).unlink()
    with pytest.raises(ArtifactError, match=r"its card age\.fp32\.onnx\.json is missing"):
        load_artifact(artifact.path)
    with pytest.raises(ArtifactError, match="no such file"):
        load_artifact(artifact.path.with_name("none.onnx"))


def test_other_kinds_of_files(artifact: Artifact) -> None:
    folder = artifact.path.parent
    with pytest.raises(
        ArtifactError,
        match=r"a folder, and no exported file. Name the files in it, say age\.fp32\.onnx",
    ):
        load_artifact(folder)
    (folder / "bench.json").write_text("{}")
    with pytest.raises(
        ArtifactError,
        match=r"bench\.json: it is no exported file, nor the card of one: there is no bench beside",
    ):
        load_artifact(folder / "bench.json")


def tensor(**change: Any) -> Callable[[dict[str, Any]], None]:
    return lambda card: card["iospec"]["inputs"][0].update(change)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda card: card.update(schema="unplug-artifact/2"),
            "does not follow its schema.*schema",
        ),
        (lambda card: card.pop("target"), "target: Field required"),
        (lambda card: card.update(surprise=1), "surprise"),
        (lambda card: card.update(bytes="21"), "bytes"),
        (
            lambda card: card.update(file="../age.fp32.onnx"),
            "its file is called '../age.fp32.onnx'",
        ),
        (lambda card: card.update(file="/etc/passwd"), "its file is called '/etc/passwd'"),
        (
            lambda card: card.update(file="other.onnx"),
            "its file is called 'other.onnx', not 'age.fp32.onnx'",
        ),
        (lambda card: card.update(sha256="z" * 64), "not 64 hexadecimal digits"),
        (lambda card: card.update(bytes=0), "its size of 0 bytes"),
        (lambda card: card.update(bytes=2**60), "its size of"),
        (lambda card: card.update(target="../x"), "is no name of a target"),
        (lambda card: card["iospec"].update(inputs=[]), "tensors are missing"),
        (lambda card: card["iospec"]["outputs"][0].update(name="image"), "share a name"),
        (tensor(name="a b"), "'a b' is no name of a tensor"),
        (tensor(dtype="object"), "unknown type 'object'"),
        (tensor(shape=[1, 3, 0, 4]), "impossible shape"),
        (tensor(shape=[1, 3, 2**40, 4]), "impossible shape"),
        (tensor(shape=[2, 3, 4, 4]), "a batch of 2"),
        (tensor(shape=[1, 3, 4]), "does not name the 3 axes"),
        (tensor(range=[1.0, 0.0]), "impossible range"),
    ],
)
def test_hostile_cards(
    artifact: Artifact, edit: Callable[[dict[str, Any]], None], message: str
) -> None:
    path = card_path(artifact.path)
    raw = json.loads(path.read_text())
    edit(raw)
    path.write_text(json.dumps(raw))
    with pytest.raises(ArtifactError, match=message):
        load_artifact(artifact.path)


@pytest.mark.parametrize("text", ["", "[]", "null", "{" * 5000, "\x00", '{"schema": NaN}'])
def test_cards_that_are_not_json_objects(artifact: Artifact, text: str) -> None:
    card_path(artifact.path).write_text(text)
    with pytest.raises(ArtifactError, match="does not follow its schema"):
        load_artifact(artifact.path)


def test_oversized_card(artifact: Artifact) -> None:
    card_path(artifact.path).write_text(" " * (MAX_CARD_BYTES + 1))
    with pytest.raises(ArtifactError, match="larger than 1048576 bytes"):
        load_artifact(artifact.path)


def test_card_of_another_artifact(artifact: Artifact, package: Artifact) -> None:
    shutil.copyfile(card_path(package.path), card_path(artifact.path))
    with pytest.raises(ArtifactError, match="its file is called"):
        load_artifact(artifact.path)
