"""``unplug cache``: info, purge."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from unplug.core import InputError, cache_dir, cache_entries, counted, size, table

from .base import Common, Outcome, command
from .options import path_option, spec_option


@click.group()
def cache() -> None:
    """Show or delete what is kept of pictures: decoded, embedded, turned into conditions. It can
    all be made again.
    """


@cache.command()
@command
def info(common: Common) -> Outcome:
    """Say what the cache keeps of which data, since when, and who may read it."""
    from unplug.sdk.learning.data import held_in_cache

    root, held = cache_dir(), held_in_cache()
    others = len(cache_entries(root)[1])
    total, facts = sum(item.bytes for item in held), _facts(held)
    value = {"cache": str(root), "bytes": total, "foreign": others, "entries": facts}
    rows = [
        [
            fact["data"] or "?",
            fact["kind"],
            str(fact["samples"] or "?"),
            size(fact["bytes"]),
            fact["since"],
            _modes(fact),
        ]
        for fact in facts
    ]
    lines = [f"{root}: {size(total)} in {counted(len(held), 'entry', 'entries')}"]
    lines += [table(["data", "what", "pictures", "size", "since", "modes"], rows)] if rows else []
    lines += (
        [
            "left alone, for unplug did not make them: "
            f"{counted(others, 'file or link', 'files or links')}"
        ]
        if others
        else []
    )
    return Outcome(value=value, text="\n".join(lines))


@cache.command()
@spec_option("What was made from this data.", required=False)
@path_option(
    "--forget",
    "forget_file",
    help="Delete entries with a picture of anyone whom this forget file names, of any data.",
)
@click.option("--all", "everything", is_flag=True, help="Everything.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@command
def purge(
    spec: str | None, forget_file: Path | None, everything: bool, yes: bool, common: Common
) -> Outcome:
    """Delete what the cache keeps: of some data, of some people, or everything.

    Pictures of one data set lie in one file, which goes as a whole; those of the others are decoded
    again when they are needed. Other commands must not use the cache meanwhile. The data themselves
    are not touched: delete them first, or the next command that reads them decodes them again.
    """
    from unplug.sdk.learning.data import held_in_cache, picked, read_forget_names
    from unplug.sdk.learning.data import purge as delete

    if everything == (spec is not None or forget_file is not None):
        raise InputError(
            "unplug cache purge",
            "it needs to know what to delete",
            "Give --data SPEC or --forget FILE, or --all alone",
        )
    held = held_in_cache()
    people = []
    if forget_file is not None:
        people = read_forget_names(forget_file, {name for entry in held for name in entry.names})
    chosen = held if everything else picked(held, data=spec, people=people)
    if chosen and not yes and not _agreed(chosen, common):
        return Outcome(value=None, text="nothing was deleted")
    freed, left = delete(chosen) if chosen else 0, len(held) - len(chosen)
    lines = [
        f"deleted {entry.kind} of {entry.data or 'unknown data'}, {size(entry.bytes)}"
        for entry in chosen
    ]
    lines.append(
        f"{size(freed)} deleted, {counted(left, 'other entry', 'other entries')} left in "
        f"{cache_dir()}"
        if chosen
        else "the cache keeps nothing of them"
    )
    value = {"cache": str(cache_dir()), "deleted": _facts(chosen), "bytes": freed, "left": left}
    return Outcome(value=value, text="\n".join(lines))


def _agreed(chosen: Sequence[Any], common: Common) -> bool:
    """Whether the user says yes."""
    entries = counted(len(chosen), "entry", "entries")
    what = f"{entries} ({size(sum(entry.bytes for entry in chosen))})"
    if common.as_json or not sys.stdin.isatty():
        why = f"{what} to delete, and there is no terminal to ask on"
        raise InputError("unplug cache purge", why, "Add --yes")
    return click.confirm(f"Delete {what} of {cache_dir()}?")


def _facts(held: Sequence[Any]) -> list[dict[str, Any]]:
    return [
        {
            "data": item.data,
            "kind": item.kind,
            "samples": item.samples,
            "bytes": item.bytes,
            "since": time.strftime("%Y-%m-%d", time.localtime(item.since)),
            "modes": list(item.modes),
            "files": [str(path) for path in item.paths],
        }
        for item in held
    ]


def _modes(fact: dict[str, Any]) -> str:
    return " ".join(fact["modes"])
