"""``unplug answer``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from unplug.core import GateFailed, InputError, counted, read_json, seconds

from .base import Common, Outcome, command, folded
from .defaults import open_project
from .release import gate_lines

if TYPE_CHECKING:
    from unplug.sdk.project import Answered, AnswerPlan


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Print the plan, and do nothing.")
@command
def answer(yes: bool, dry_run: bool, common: Common) -> Outcome:
    """Answer every open request: forget from the current model, check, export, sign, verify,
    search, certify, and make what came of it current.

    Prints the plan first, and asks. Killed, the same command goes on. Where a gate refuses (exit
    1) nothing moves, and the requests stay open.
    """
    project = open_project()
    plan = project.plan()
    text = "\n".join(_planned(plan))
    if dry_run:
        return Outcome(value=_value(plan), text=text)
    common.say(text)
    if not yes and (common.as_json or not sys.stdin.isatty()):
        raise InputError("unplug answer", "there is no terminal to ask on", "Add --yes")
    if not yes and not click.confirm("Answer?", err=True):
        return Outcome(value=None, text="nothing was answered")
    try:
        done = project.answer(show=common.show, say=common.say)
    except GateFailed:
        work = plan.out.with_name(f".{plan.out.name}.release")
        common.say("\n".join(gate_lines(read_json(work / "release.json"))))
        raise
    remains = project.status().remains
    return Outcome(value=_done(done), text="\n".join(_told(done, remains)))


def _planned(plan: AnswerPlan) -> Iterator[str]:
    if plan.requests:
        way = f"exactly, by {plan.design}" if plan.design else "approximately"
        yield folded(
            f"release {plan.release} answers {', '.join(plan.requests)}: it forgets "
            f"{counted(plan.pictures, 'picture')} {way}, from {plan.begins}"
        )
        known = plan.steps.seconds if plan.steps is not None else None
        if plan.steps is None or known is None:
            yield "takes: not timed here yet"
        else:
            more = f", and for {', '.join(plan.steps.unknown)}" if plan.steps.unknown else ""
            yield folded(
                f"takes about {seconds(known)}{more and f'{more}, which were not timed here yet'}"
            )
        yield f"writes {plan.out}"
    if plan.unfinished:
        yield folded(f"search, certificate and letter of {', '.join(plan.unfinished)}")
    yield from plan.waiting


def _value(plan: AnswerPlan) -> dict[str, Any]:
    value = asdict(plan)
    return value | {"dry_run": True, "seconds": plan.steps.seconds if plan.steps else None}


def _done(done: Answered) -> dict[str, Any]:
    return {
        "requests": list(done.requests),
        "release": done.release,
        "bundle": done.bundle,
        "folders": dict(done.folders),
        "deleted": list(done.deleted),
        "gates": list(done.summary.get("gates", ())),
    }


def _told(done: Answered, remains: Mapping[str, str]) -> Iterator[str]:
    if done.summary:
        yield from gate_lines(dict(done.summary))
    yield from (f"deleted {path}" for path in done.deleted)
    if done.bundle is not None:
        yield f"release {done.release} is current: {done.bundle}"
    for id, folder in done.folders.items():
        if id in remains:
            yield folded(f"{id}: {remains[id]}; delete what you can before you send the letter")
        yield f"{id}: send {folder / 'letter'}, then `unplug ledger record answered {id}`"
