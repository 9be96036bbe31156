"""Which model of a project is current, and whom it must not know: a view of the ledger.

The ledger says what was released and from what; ``.unplug/state.json`` repeats it for people and
programs to read, with the folders. It is rebuilt from the ledger whenever that has grown, and where
the two disagree nothing goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from unplug.core import (
    STRICT,
    InputError,
    UnplugError,
    json_sha256,
    read_dataclass,
    read_json,
    write_json,
)
from unplug.plugins import BINDING, RECORD, weights_sha256
from unplug.trust.ledger import STAGE, Ledger, LedgerEntry, releases_of

from .place import HIDDEN
from .settings import ProjectSettings

FILE = "state.json"
ADOPTED = "project"
"""The stage of the step that says which model a project begins with."""
PLACES = ("*", ".*.release/*", "*/*")
"""Where checkpoints lie below the folders that are searched."""


@dataclass(frozen=True, kw_only=True)
class ProjectRelease:
    """One release of the project.

    Args:
        number: the number of the product's release; counts up.
        entry: the ledger's entry.
        bundle: SHA-256 of its manifest.
        began, model: SHA-256 of the weights that it started from, and of those that it ships.
        requests: the requests that it answers.
    """

    number: int
    entry: int
    bundle: str | None
    began: str | None
    model: str | None
    requests: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ProjectState:
    """``unplug-project-state/1``.

    Args:
        ledger: the ledger that it is a view of.
        entries: how many that had.
        current: SHA-256 of the weights that the next answer starts from; None before there is a
            model.
        release: the release that ships them; None for the original.
        releases: all of the product, in their order.
        answered: requests whose people the current model must not know.
        sha256: the SHA-256 of all the rest.
    """

    __pydantic_config__: ClassVar[Any] = STRICT

    ledger: str
    entries: int
    current: str | None
    release: int | None
    releases: tuple[ProjectRelease, ...]
    answered: tuple[str, ...]
    sha256: str = ""
    schema: Literal["unplug-project-state/1"] = "unplug-project-state/1"

    def sealed(self) -> ProjectState:
        """The state with the hash of its content."""
        return replace(self, sha256=json_sha256(asdict(replace(self, sha256=""))))


def adopted_facts(name: str, model: str) -> dict[str, str]:
    """What the ledger holds of the model that a project begins with."""
    return {STAGE: ADOPTED, "name": name, "model_sha256": model}


def state_of(entries: Sequence[LedgerEntry], origin: str, name: str) -> ProjectState:
    """What the entries of a ledger come to for one product."""
    began = [item for item in entries if _adopts(item, name)]
    releases = tuple(
        ProjectRelease(
            number=item.number or 0,
            entry=item.entry,
            bundle=item.bundle,
            began=item.began,
            model=item.shipped,
            requests=item.requests,
        )
        for item in releases_of(entries)
        if item.name == name
    )
    last = releases[-1] if releases else None
    if last is not None and began and began[-1].sequence > last.entry:
        last = None  # another model was put in its place since
    first = began[-1].facts.get("model_sha256") if began else None
    return ProjectState(
        ledger=origin,
        entries=len(entries),
        current=first if last is None else last.model,
        release=None if last is None else last.number,
        releases=releases,
        answered=tuple(dict.fromkeys(id for item in releases for id in item.requests)),
    ).sealed()


def _adopts(entry: LedgerEntry, name: str) -> bool:
    facts = entry.facts
    return facts.get(STAGE) == ADOPTED and facts.get("name") == name and not entry.requests


def current_state(folder: Path, settings: ProjectSettings, ledger: Ledger) -> ProjectState:
    """The state by the ledger, and the file brought up to it.

    Args:
        folder: the project.
        settings: settings with the product's name.
        ledger: the one truth about what was released.

    Raises:
        InputError: the file was edited, or says something else than the ledger said then.
        OutputError: it cannot be written.
    """
    entries, origin, name = ledger.entries(), ledger.identity()[0], settings.model.name
    now, path = state_of(entries, origin, name), folder / HIDDEN / FILE
    if path.exists():
        kept = read_dataclass(ProjectState, path, InputError)
        fix = "Compare them, `unplug ledger verify`; then delete the file: it is made again"
        if kept != kept.sealed():
            raise InputError(str(path), "it was edited: its hash is another", fix)
        if kept == now:
            return now
        if kept.ledger != origin:
            why = f"it is of the ledger {kept.ledger}, and {ledger.shown} is {origin}"
            raise InputError(str(path), why, "Name the ledger of this project: [record] ledger")
        if kept.entries > len(entries):
            why = f"it knows {kept.entries} entries, and the ledger has {len(entries)}"
            raise InputError(str(path), why, "The ledger was cut, or is an old copy: restore it")
        if kept != state_of(entries[: kept.entries], origin, name):
            raise InputError(str(path), "it says something else than the ledger", fix)
    write_json(path, asdict(now), private=True)
    return now


def model_folder(sha256: str, folders: Iterable[Path]) -> Path | None:
    """Where a checkpoint with these weights lies, at or below some folders; None where none does.

    A refit that an exact design was compared with has the same weights, and comes last.
    """
    near = [
        record
        for root in folders
        for record in (
            root / RECORD,
            *(path for pattern in PLACES for path in sorted(root.glob(f"{pattern}/{RECORD}"))),
        )
    ]
    near.sort(key=lambda path: path.parent.name == "retrained")
    return next((path.parent for path in near if path.is_file() and _binds(path, sha256)), None)


def _binds(record: Path, sha256: str) -> bool:
    """Whether a record is of some weights, and they lie next to it as they were."""
    try:
        raw = read_json(record)
        return (
            isinstance(raw, dict)
            and raw.get(BINDING) == sha256
            and weights_sha256(record.parent) == sha256
        )
    except UnplugError:
        return False
