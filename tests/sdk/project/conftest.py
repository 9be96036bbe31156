"""A company's folder: procedural photographs in a table, and a model that looks as if it was
trained on them; nothing is trained.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.once import once

from unplug.plugins import AgePredictor, load_checkpoint, save_checkpoint
from unplug.sdk.learning.data import load_dataset, make_split, write_faces
from unplug.sdk.learning.training import Recipe

SIZE = 32


def make(root: Path) -> None:
    write_faces("synth:n=60,subjects=20", SIZE, root / "faces", show=False)
    dataset = load_dataset(f"csv:{root}/faces/labels.csv", SIZE, show=False)
    record = {
        "split": make_split(dataset).to_dict(),
        "data": {"spec": dataset.spec, "digest": dataset.digest},
        "recipe": Recipe(size="nano", image_size=SIZE).to_dict(),
    }
    model = AgePredictor(size="nano", image_size=SIZE)
    save_checkpoint(model, root / "models" / "age", record=record, card="# A test\n")


@dataclass(frozen=True)
class Company:
    """Its folder, and who is where in the model's split."""

    folder: Path
    trained: str
    held_out: str

    def toml(self, text: str) -> None:
        (self.folder / "unplug.toml").write_text(text, encoding="utf-8")

    @property
    def text(self) -> str:
        return (self.folder / "unplug.toml").read_text(encoding="utf-8")


@pytest.fixture
def company(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Company:
    """Somebody's working folder; no ledger and no key of theirs is known elsewhere."""
    made = once(tmp_path_factory, "company", make)
    folder = tmp_path / "co"
    folder.mkdir()
    for name in ("faces", "models"):
        (folder / name).mkdir()
        for path in (made / name).rglob("*"):
            target = folder / name / path.relative_to(made / name)
            if path.is_dir():
                target.mkdir(exist_ok=True)
            else:
                target.write_bytes(path.read_bytes())
    for variable in ("UNPLUG_LEDGER", "UNPLUG_KEY", "UNPLUG_LEDGER_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(folder)
    split = load_checkpoint(folder / "models/age").record["split"]
    dataset = load_dataset(f"csv:{folder}/faces/labels.csv", SIZE, show=False)
    people = {sample.id: str(sample.subject) for sample in dataset.samples}
    assert "UNPLUG_KEY" not in os.environ
    return Company(folder, people[split["train"][0]], people[split["test"][0]])
