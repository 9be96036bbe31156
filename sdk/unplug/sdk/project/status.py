"""How a project stands: what is due, which model is current, what is left of whom it forgot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unplug.core import InputError
from unplug.trust.certificates import remainder_on_record
from unplug.trust.ledger import RELEASE, STAGE, LedgerEntry, Request, open_ledger

from .folder import ProjectFolder
from .state import ProjectState, current_state


@dataclass(frozen=True, kw_only=True)
class ProjectStatus:
    """What ``unplug status`` shows.

    Args:
        state: the current model, and its releases.
        current: its folder; None where it is not there.
        trouble: why not.
        open: requests that nobody was forgotten for yet, the first due first.
        untold: requests whose people were forgotten and are still to be told.
        days: the days until each of these is due; negative where it is late.
        remains: request that was answered, to what is left of its people by the last search on
            record.
        begun: number of a release that was begun and is not on record as published.
    """

    state: ProjectState
    current: str | None
    trouble: str
    open: tuple[Request, ...]
    untold: tuple[Request, ...]
    days: dict[str, int]
    remains: dict[str, str]
    begun: int | None

    @property
    def late(self) -> bool:
        """Whether anything is past its day."""
        return any(left < 0 for left in self.days.values())


def status_of(project: ProjectFolder) -> ProjectStatus:
    """Looks at the ledger and at the current model; computes nothing and opens no picture."""
    ledger = open_ledger()
    state = current_state(project.folder, project.settings, ledger)
    requests, today = ledger.requests(), ledger.today()
    due = sorted(requests.values(), key=lambda item: (item.due, item.sequence))
    waiting = [item for item in due if item.waiting]
    current, trouble = None, ""
    try:
        current = str(project.current())
    except InputError as error:
        trouble = str(error)
    return ProjectStatus(
        state=state,
        current=current,
        trouble=trouble,
        open=tuple(item for item in waiting if item.state == "open"),
        untold=tuple(item for item in waiting if item.state == "released"),
        days={item.id: item.days_left(today) for item in waiting},
        remains={
            id: remainder_on_record(requests[id])
            for id in state.answered
            if requests[id].state in ("released", "answered")
        },
        begun=_begun(ledger.entries(), project.settings.model.name),
    )


def _begun(entries: Sequence[LedgerEntry], name: str) -> int | None:
    """The number of a release of this product whose end no entry tells, where none came after it."""
    begun: int | None = None
    for entry in entries:
        if entry.facts.get("name") != name:
            continue
        if entry.facts.get(STAGE) == "begin" and entry.facts.get("number", "").isdecimal():
            begun = int(entry.facts["number"])
        elif entry.kind == RELEASE:
            begun = None
    return begun
