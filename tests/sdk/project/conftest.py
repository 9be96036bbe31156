"""A company's folder: procedural photographs in a table, and a model that looks as if it was
trained on them; and a project of a small model that is made to forget.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.once import once

from unplug.plugins import AgePredictor, load_checkpoint, save_checkpoint
from unplug.sdk import Project, journey
from unplug.sdk.learning.data import load_dataset, make_split, write_faces
from unplug.sdk.learning.training import Recipe

from ..cli.calls import run

SIZE = 32
INIT = "init --model models/age --data csv:faces/labels.csv --name face-age"
SPEC = "csv:faces/labels.csv"


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


def train(root: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        run("data synth --count 90 --subjects 45 --pixels 48 --out faces")
        run(
            f"train age --data {SPEC} --forgettable closed-form "
            "--trunk-data synth:n=300,subjects=300,seed=1 --size nano --pixels 32 --epochs 12 "
            "--out models/age"
        )


@pytest.fixture
def project(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Project:
    """With a model that is made to forget, and one request, by person-0."""
    folder = tmp_path / "co"
    shutil.copytree(once(tmp_path_factory, "answering", train), folder)
    for variable in ("UNPLUG_LEDGER", "UNPLUG_KEY", "UNPLUG_LEDGER_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(folder)
    run(INIT)
    file = folder / "unplug.toml"
    text = file.read_text().replace(
        "[evidence]", "bench-iterations = 3\nbench-repeats = 2\n\n[evidence]"
    )
    file.write_text(text.replace("# backups", "backups"))
    made = Project.open()
    made.request("person-0", id="T-1")
    return made


def kinds(project: Project) -> Counter[str]:
    """How often the ledger tells of releases and searches."""
    entries = project.ledger().entries()
    return Counter(
        "search" if "trace_sha256" in entry.facts else entry.kind
        for entry in entries
        if entry.kind == "release" or "trace_sha256" in entry.facts
    )


def remembering(project: Project, person: str) -> list[str]:
    """Checkpoints that remember somebody, by a search below the whole folder."""
    found = journey.trace(project.settings.model.data, person, [project.folder])
    return [
        str(Path(place.path).relative_to(project.folder))
        for place in found.places
        if place.standing == "remembers" and place.kind == "checkpoint"
    ]
