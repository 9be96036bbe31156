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


def refused(path: Path, message: str) -> None:
    with pytest.raises(ArtifactError, match=message):
        load_artifact(path)


def test_round_trip_by_file_and_by_card(artifact: Artifact, package: Artifact) -> None:
    for one in (artifact, package):
        assert load_artifact(one.path) == load_artifact(str(card_path(one.path))) == one


def test_a_folder_stands_for_the_exported_files_in_it(
    artifact: Artifact, package: Artifact
) -> None:
    folder, empty = artifact.path.parent, artifact.path.parent / "empty"
    assert package.path.parent == folder, "one folder holds both"
    (folder / "parity.json").write_text("{}")
    empty.mkdir()
    assert artifacts_at(folder) == sorted([artifact.path, package.path])
    for path in (package.path, artifact.path, empty):
        assert artifacts_at(path) == [path]


def test_edited_and_truncated_files(artifact: Artifact) -> None:
    content = artifact.path.read_bytes()
    artifact.path.write_bytes(content.replace(b"model", b"MODEL"))
    refused(artifact.path, "it was edited or damaged")
    artifact.path.write_bytes(content[:-3])
    refused(artifact.path, "19 bytes where its card says 22")


@pytest.mark.parametrize(
    "edges",
    [None, 7, "0-20", [], [0.0, "a"], [20.0, 0.0], [-1.0, 5.0], [0.0, 1e9], [True, 5.0], {"a": 1}],
)
def test_age_edges_of_another_shape(artifact: Artifact, edges: object) -> None:
    write_card(artifact.path, replace(artifact.card, config={"age_edges": edges}))
    refused(artifact.path, "the age_edges of its config")


def test_age_edges_must_fit_the_outputs(artifact: Artifact) -> None:
    names = {"age_logits": (1, 2), "expected_age": (1, 1)}
    outputs = tuple(TensorSpec(name=name, shape=names[name], layout="NC") for name in names)
    iospec = replace(SPEC, outputs=outputs)
    fits = replace(artifact.card, iospec=iospec, config={"age_edges": [0, 20.0, 100]})
    write_card(artifact.path, fits)
    assert load_artifact(artifact.path).card == fits
    write_card(artifact.path, replace(fits, config={"age_edges": [0, 20, 40, 100]}))
    refused(artifact.path, "its outputs are not those of 3 age groups")


def test_packages_are_checked_as_trees(package: Artifact) -> None:
    weights = package.path / "Data" / "weights.bin"
    weights.write_bytes(b"v" * 100)
    refused(package.path, "edited or damaged")
    weights.write_bytes(b"w" * 100)
    weights.rename(package.path / "Data" / "renamed.bin")
    refused(package.path, "edited or damaged")
    (package.path / "Data" / "link").symlink_to("/etc/passwd")
    refused(package.path, "it holds the link 'link'")


def test_missing_files_and_others(artifact: Artifact) -> None:
    folder = artifact.path.parent
    (folder / "bench.json").write_text("{}")
    refused(folder, r"a folder, not an exported file. Name the files in it, say age\.fp32\.onnx")
    refused(
        folder / "bench.json",
        r"bench\.json: it is neither an exported file nor the card of one \(bench is missing",
    )
    refused(folder / "none.onnx", "no such file")
    card_path(artifact.path).unlink()
    refused(artifact.path, r"its card age\.fp32\.onnx\.json is missing")


def tensor(**change: Any) -> Callable[[dict[str, Any]], None]:
    return lambda card: card["iospec"]["inputs"][0].update(change)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda card: card.pop("target"), "target: Field required"),
        *(
            (lambda card, change=change: card.update(change), message)
            for change, message in [
                ({"schema": "unplug-artifact/2"}, "does not follow its schema.*schema"),
                ({"surprise": 1}, "surprise"),
                ({"bytes": "21"}, "bytes"),
                ({"file": "../age.fp32.onnx"}, "its file is called '../age.fp32.onnx'"),
                ({"file": "/etc/passwd"}, "its file is called '/etc/passwd'"),
                ({"file": "other.onnx"}, "its file is called 'other.onnx', not 'age.fp32.onnx'"),
                ({"sha256": "z" * 64}, "not 64 hexadecimal digits"),
                ({"bytes": 0}, "its size of 0 bytes"),
                ({"bytes": 2**60}, "its size of"),
                ({"target": "../x"}, "is not the name of a target"),
            ]
        ),
        (lambda card: card["iospec"].update(inputs=[]), "tensors are missing"),
        (lambda card: card["iospec"]["outputs"][0].update(name="image"), "share a name"),
        (tensor(name="a b"), "'a b' is not the name of a tensor"),
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
    refused(artifact.path, message)


SCHEMALESS = ("", "[]", "null", "{" * 5000, "\x00", '{"schema": NaN}')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, "does not follow its schema") for text in SCHEMALESS),
        (" " * (MAX_CARD_BYTES + 1), "larger than 1048576 bytes"),
    ],
)
def test_cards_that_are_none(artifact: Artifact, text: str, message: str) -> None:
    card_path(artifact.path).write_text(text)
    refused(artifact.path, message)


def test_card_of_another_artifact(artifact: Artifact, package: Artifact) -> None:
    shutil.copyfile(card_path(package.path), card_path(artifact.path))
    refused(artifact.path, "its file is called")
