"""Core AI's assets: parity by the interpreter of Apple's package, names, and what of them is
refused.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.exported import files_of, require_installed

from unplug.core import ArtifactError, ConversionError, OutputError
from unplug.export import Artifact, Session, export_checkpoint, load_artifact, measure_parity
from unplug.export.artifact import write_card

from .conftest import given, resigned

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def asset(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    require_installed("coreai")
    return files_of(tmp_path_factory, ["coreai"])["age.fp32.aimodel"]


def test_it_agrees_with_the_checkpoint_and_holds_no_source_paths(
    asset: Artifact, checkpoint: Path
) -> None:
    rows = measure_parity(asset, checkpoint, given(asset, 3, seed=2)).rows
    assert [(row.output, row.status, row.runtime) for row in rows] == [
        (name, "pass", "coreai") for name in ("age_logits", "expected_age")
    ]
    assert all(row.runtime_version for row in rows)
    content = b"".join(path.read_bytes() for path in asset.path.rglob("*") if path.is_file())
    assert b"age_logits" in content and b"age.py" not in content
    assert str(Path(__file__).parents[2]).encode() not in content


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


def forged(asset: Artifact, folder: Path, keep: int | None = None, **iospec: Any) -> Artifact:
    """A copy whose program is cut off, or whose card names other tensors."""

    def cut(path: Path) -> None:
        (path / "main.mlirb").write_bytes((path / "main.mlirb").read_bytes()[:keep])

    shutil.rmtree(folder / asset.path.name, ignore_errors=True)
    copy = resigned(asset, folder, cut)
    write_card(copy.path, replace(copy.card, iospec=replace(copy.card.iospec, **iospec)))
    return load_artifact(copy.path)


@pytest.mark.parametrize("keep", [1, 64, 50_000])
def test_a_broken_asset_ends_the_child_alone_and_leaves_nothing(
    asset: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: int
) -> None:
    """The package aborts on a program that it cannot read, with what it compiled to in a temporary
    folder.
    """
    place = tmp_path / "tmp"
    place.mkdir()
    broken = forged(asset, tmp_path, keep)
    monkeypatch.setattr("tempfile.tempdir", str(place))
    with pytest.raises((ArtifactError, ConversionError), match=r"age\.fp32\.aimodel"):
        Session(broken).run(given(broken), timeout=120)
    assert not list(place.iterdir())


def test_another_models_asset_is_refused(asset: Artifact, tmp_path: Path) -> None:
    iospec = asset.card.iospec
    swapped = forged(asset, tmp_path, outputs=iospec.outputs[::-1])
    Session(swapped).run(given(swapped))  # names count, not places
    wrong = forged(asset, tmp_path, inputs=(replace(iospec.inputs[0], name="picture"),))
    with pytest.raises(ArtifactError, match=r"its tensors are .*'image'.*'picture'"):
        Session(wrong).run(given(wrong))
