"""Core AI's assets: parity by the interpreter of Apple's package, names, and what of them is
refused.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.exported import files_of, require_installed

from unplug.core import ArtifactError, ConversionError, OutputError, sha256_tree
from unplug.export import (
    Artifact,
    Session,
    export_checkpoint,
    load_artifact,
    measure_parity,
    random_inputs,
)
from unplug.export.artifact import write_card

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def asset(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    require_installed("coreai")
    made: Mapping[str, Artifact] = files_of(tmp_path_factory, ["coreai"])
    return made["age.fp32.aimodel"]


def test_it_agrees_with_the_checkpoint(asset: Artifact, checkpoint: Path) -> None:
    report = measure_parity(asset, checkpoint, random_inputs(asset.card.iospec, 3, seed=2))
    assert [row.output for row in report.rows] == [
        "age_logits",
        "expected_age",
    ] and report.passed, report.rows
    assert {(row.runtime, row.runtime_version is None) for row in report.rows} == {
        ("coreai", False)
    }


def test_it_holds_no_source_paths(asset: Artifact) -> None:
    content = b"".join(
        path.read_bytes() for path in sorted(asset.path.rglob("*")) if path.is_file()
    )
    assert (
        b"age_logits" in content
        and str(Path(__file__).parents[2]).encode() not in content
        and b"age.py" not in content
    )


def test_an_older_asset_is_replaced_and_nothing_else(
    asset: Artifact, checkpoint: Path, tmp_path: Path
) -> None:
    place = tmp_path / asset.path.name
    place.mkdir()
    (place / "letters.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"it holds letters\.txt"):
        export_checkpoint(checkpoint, targets=["coreai"], out=tmp_path)
    assert (place / "letters.txt").read_text() == "mine"
    shutil.rmtree(place)
    shutil.copytree(asset.path, place)
    (again,) = export_checkpoint(checkpoint, targets=["coreai"], out=tmp_path)
    assert load_artifact(again.path).card == again.card and again.path == place


def forged(asset: Artifact, folder: Path, program: bytes) -> Artifact:
    path = folder / asset.path.name
    shutil.copytree(asset.path, path)
    (path / "main.mlirb").write_bytes(program)
    sha256, size = sha256_tree(path)
    write_card(path, replace(asset.card, sha256=sha256, bytes=size))
    return load_artifact(path)


@pytest.mark.parametrize("keep", [1, 64, 50_000])
def test_a_broken_asset_ends_the_child_alone_and_leaves_nothing(
    asset: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: int
) -> None:
    """The package aborts on a program that it cannot read, with what it compiled to in a temporary
    folder.
    """
    place = tmp_path / "tmp"
    place.mkdir()
    broken = forged(asset, tmp_path, (asset.path / "main.mlirb").read_bytes()[:keep])
    monkeypatch.setattr("tempfile.tempdir", str(place))
    with pytest.raises((ArtifactError, ConversionError), match=r"age\.fp32\.aimodel"):
        Session(broken).run(random_inputs(broken.card.iospec, 1, seed=0), timeout=120)
    assert not list(place.iterdir())


def test_another_models_asset_is_refused(asset: Artifact, tmp_path: Path) -> None:
    item = forged(asset, tmp_path, (asset.path / "main.mlirb").read_bytes())
    first, second = item.card.iospec.outputs
    write_card(
        item.path, replace(item.card, iospec=replace(item.card.iospec, outputs=(second, first)))
    )
    swapped = load_artifact(item.path)
    Session(swapped).run(random_inputs(swapped.card.iospec, 1, seed=0))  # names count, not places
    (image,) = item.card.iospec.inputs
    write_card(
        item.path,
        replace(
            item.card, iospec=replace(item.card.iospec, inputs=(replace(image, name="picture"),))
        ),
    )
    wrong = load_artifact(item.path)
    with pytest.raises(ArtifactError, match=r"its tensors are .*'image'.*'picture'"):
        Session(wrong).run(random_inputs(wrong.card.iospec, 1, seed=0))
