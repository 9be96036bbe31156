"""``unplug status``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from unplug.core import counted

from .base import Common, Outcome, command, folded
from .defaults import open_project
from .ledger_options import request_facts

if TYPE_CHECKING:
    from unplug.sdk.project import Project, ProjectStatus


@click.command()
@command
def status(common: Common) -> Outcome:
    """Show what is due, which model is current, and what is left of whom it forgot (exit 1:
    something is late, or the current model is not there).
    """
    project = open_project()
    found = project.status()
    value = {
        "name": project.settings.model.name,
        "current": found.current,
        "trouble": found.trouble,
        "state": asdict(found.state),
        "open": [request_facts(item) for item in found.open],
        "untold": [request_facts(item) for item in found.untold],
        "days": found.days,
        "remains": found.remains,
        "begun": found.begun,
    }
    ok = not found.late and not found.trouble
    return Outcome(value=value, text="\n".join(_lines(project, found)), ok=ok)


def _lines(project: Project, found: ProjectStatus) -> Iterator[str]:
    state, name = found.state, project.settings.model.name
    what = "the original" if state.release is None else f"release {state.release} of {name}"
    yield f"current  {what}: {found.current or found.trouble}"
    if state.release is not None:
        yield folded(f"         it must not know whom {', '.join(state.answered)} name", 9)
    if found.begun is not None:
        yield (
            f"begun    release {found.begun}, which did not end: a gate refused, or it was stopped; "
            "`unplug answer` goes on"
        )
    for item in found.open:
        yield f"open     {item.id}: due {item.due}, {_days(found.days[item.id])}"
    for item in found.untold:
        yield (
            f"to tell  {item.id}: due {item.due}, {_days(found.days[item.id])}; then "
            f"`unplug ledger record answered {item.id}`"
        )
    if not found.open and not found.untold:
        yield "nothing is due"
    for id, text in found.remains.items():
        yield folded(f"remains  of {id}: {text}", 9)


def _days(left: int) -> str:
    return f"{counted(-left, 'day')} late" if left < 0 else f"in {counted(left, 'day')}"
