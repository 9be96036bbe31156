"""The state is a view of the ledger: golden values by hand, and every way in which the two can
disagree.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from unplug.core import InputError, OutputError
from unplug.sdk import Project
from unplug.sdk.project.state import state_of
from unplug.trust.ledger import LedgerEntry

from ..cli.calls import run, said
from .conftest import INIT, Company

A, B, C = "a" * 64, "b" * 64, "c" * 64


def entry(sequence: int, kind: str, *requests: str, **facts: str) -> LedgerEntry:
    return LedgerEntry(
        sequence=sequence,
        kind=kind,  # type: ignore[arg-type]
        at="2027-01-31T09:00:00Z",
        requests=requests,
        facts=facts,
    )


def released(
    start: int, number: int, began: str, shipped: str, *requests: str
) -> list[LedgerEntry]:
    """What a release on record tells."""
    one = {"release": f"{number:032x}"}
    name = {"name": "age", "number": str(number)}
    return [
        entry(start, "step", *requests, stage="begin", model_sha256=began, **one, **name),
        entry(start + 1, "try", *requests, ships="yes", model_sha256=shipped, **one),
        entry(start + 2, "release", *requests, bundle_sha256="d" * 64, **one, **name),
    ]


ADOPTED = entry(1, "step", stage="project", name="age", model_sha256=A)
REQUESTS = [entry(0, "opened"), ADOPTED]


def test_which_model_is_current() -> None:
    none = state_of([entry(0, "opened")], "l", "age")
    assert (none.current, none.release, none.releases) == (None, None, ())
    first = state_of(REQUESTS, "l", "age")
    assert (first.current, first.release) == (A, None)
    entries = [*REQUESTS, *released(2, 1, A, B, "T-1")]
    assert state_of(entries[:-1], "l", "age").current == A, "nothing moves before the end"
    one = state_of(entries, "l", "age")
    assert (one.current, one.release, one.answered) == (B, 1, ("T-1",))
    two = state_of([*entries, *released(5, 2, B, C, "T-2", "T-3")], "l", "age")
    assert (two.current, two.release, two.answered) == (C, 2, ("T-1", "T-2", "T-3"))
    assert [(item.began, item.model, item.entry) for item in two.releases] == [(A, B, 4), (B, C, 7)]
    other = state_of(
        [*entries, entry(5, "step", stage="project", name="age", model_sha256=C)], "l", "age"
    )
    assert (other.current, other.release, len(other.releases)) == (C, None, 1)
    assert other.answered == ("T-1",), "who was answered stays so, whatever model comes"
    assert state_of(entries, "l", "another product").releases == ()


def edited(folder: Path) -> None:
    path = folder / ".unplug/state.json"
    path.write_text(path.read_text().replace('"release": null', '"release": 7'))


def resealed(folder: Path) -> None:
    """By somebody who knows how the hash is made."""
    from dataclasses import replace

    from unplug.sdk.project import ProjectState

    path = folder / ".unplug/state.json"
    raw = json.loads(path.read_text())
    state = ProjectState(**{**raw, "releases": (), "answered": ()})
    raw["current"] = C
    raw["sha256"] = replace(state, current=C).sealed().sha256
    path.write_text(json.dumps(raw))


def of_another_ledger(folder: Path) -> None:
    (folder / ".unplug/ledger.db").unlink()
    kept = (folder / ".unplug/state.json").read_text()
    (folder / ".unplug/state.json").unlink()
    run("init")
    (folder / ".unplug/state.json").write_text(kept)


def older_ledger(folder: Path) -> None:
    place = folder / ".unplug/ledger.db"
    shutil.copy(place, folder / "old.db")
    run("ledger add --id T-1 --person face-00.png")
    run("status")
    shutil.copy(folder / "old.db", place)


def newer(folder: Path) -> None:
    path = folder / ".unplug/state.json"
    path.write_text(path.read_text().replace("state/1", "state/2"))


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (edited, "it was edited: its hash is another"),
        (resealed, "it says something else than the ledger"),
        (of_another_ledger, "it is of the ledger"),
        (older_ledger, "The ledger was cut, or is an old copy"),
        (newer, "it does not follow its schema"),
    ],
)
def test_a_state_that_disagrees_with_the_ledger_is_refused(
    harm: Callable[[Path], None], says: str, company: Company
) -> None:
    run(INIT)
    harm(company.folder)
    for call in (Project.open().state, Project.open().status, Project.open().plan):
        with pytest.raises(InputError, match=says):
            call()
    (company.folder / ".unplug/state.json").unlink()
    assert said("status")["state"]["current"], "without the file it is made again"


def test_a_state_that_is_behind_is_brought_up(company: Company) -> None:
    run(INIT)
    before = Project.open().state()
    run("ledger add --id T-1 --person face-00.png")
    after = Project.open().state()
    assert after.entries == before.entries + 1 and after.current == before.current


def test_a_disk_that_is_full_between_release_and_state(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state names what is real, as soon as it can be written."""
    run(INIT)
    project, state = Project.open(), Project.open().state()
    with project.surroundings():
        ledger = project.ledger()
        for item in released(2, 1, str(state.current), B):
            facts = dict(item.facts) | ({"name": "face-age"} if "name" in item.facts else {})
            ledger.record(item.kind, item.requests, facts=facts)

    def full(*_: object, **__: object) -> None:
        raise OutputError("state.json", "No space left on device", "Free some")

    with monkeypatch.context() as patch:
        patch.setattr("unplug.sdk.project.state.write_json", full)
        with pytest.raises(OutputError):
            project.state()
    assert project.state().release == 1 and project.state().current == B


def moved(folder: Path) -> None:
    (folder / "models/age").rename(folder / "elsewhere")


def changed(folder: Path) -> None:
    weights = folder / "models/age/model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-1] ^= 1
    weights.write_bytes(raw)


def deleted(folder: Path) -> None:
    shutil.rmtree(folder / "models/age")


@pytest.mark.parametrize("harm", [moved, changed, deleted])
def test_a_current_model_that_is_not_what_it_was(
    harm: Callable[[Path], None], company: Company
) -> None:
    run(INIT)
    harm(company.folder)
    with pytest.raises(InputError, match=r"the original .* was moved, deleted or changed"):
        Project.open().current()
    assert "was moved, deleted or changed" in run("status", 1).output
    if harm is moved:
        (company.folder / "elsewhere").rename(company.folder / "models/age-of-spring")
        assert Project.open().current() == company.folder / "models/age-of-spring"
