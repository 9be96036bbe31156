"""``unplug init``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unplug.core import InputError, counted

from .base import Common, Outcome, command
from .options import PATH, option, spec_option

if TYPE_CHECKING:
    from unplug.sdk.project import Beginning


@click.command()
@click.option(
    "--model",
    "original",
    metavar="DIR",
    help="The checkpoint that was trained, or where it will be (asked for where it is left out).",
)
@spec_option("What it was trained on, or will be (asked for where it is left out).", required=False)
@click.option("--name", help="Name of the product in its releases (default: the checkpoint's).")
@option(
    "--sign",
    default="keys/release.key",
    help="The key that signs bundles: a file, made where it is missing, env:NAME or command:WORDS.",
)
@click.option("--yes", is_flag=True, help="Do not ask; what is left out must have a default.")
@click.argument("folder", type=PATH, default=".")
@command
def init(
    original: str | None,
    spec: str | None,
    name: str | None,
    sign: str,
    yes: bool,
    folder: Path,
    common: Common,
) -> Outcome:
    """Begin a project in FOLDER: unplug.toml, keys and a ledger, by which every command below goes.

    Run again without options after the model was trained or exchanged.
    """
    from unplug.sdk.project import FILE, start_project

    if not (folder / FILE).exists() and (original is None or spec is None):
        if yes or common.as_json or not sys.stdin.isatty():
            lacking = "--model" if original is None else "--data"
            why = "it is missing, and there is no terminal to ask on"
            raise InputError(lacking, why, "Give --model DIR and --data SPEC")
        original = original or click.prompt("Checkpoint, or where one will be trained")
        spec = spec or click.prompt("Its data, for example csv:photos.csv")
    found = start_project(folder, original=original, data=spec, name=name, sign=sign)
    settings = found.project.settings
    value = {
        "folder": str(found.project.folder),
        "name": settings.model.name,
        "pictures": found.pictures,
        "people": found.people,
        "unusable": [asdict(item) for item in found.unusable],
        "model": found.model,
        "design": found.design,
        "trained": found.trained,
        "known": found.known,
        "made": list(found.made),
        "public_key": found.public,
    }
    return Outcome(value=value, text="\n".join(_lines(found)))


def _lines(found: Beginning) -> list[str]:
    model = found.project.settings.model
    lines = [
        f"data   {counted(found.pictures, 'picture')} of "
        f"{counted(found.people, 'person', 'people')}, {model.data}"
    ]
    if found.unusable:
        first, how = found.unusable[0], model.on_bad
        lines.append(
            f"       {len(found.unusable)} more cannot be used (first: {first.id}: {first.reason}); "
            + ("they are left out" if how == "skip" else 'on-bad = "skip" goes on without them')
        )
    if found.model is None:
        lines += [
            f"model  none yet at {model.original}. If it lies elsewhere, mend `original` in "
            "unplug.toml; else train one that forgets exactly. Then run `unplug init` again:",
            f"       unplug train age --out {model.original} --forgettable closed-form "
            "--trunk-data SPEC",
        ]
    else:
        way = "an ordinary model, which forgets approximately"
        if found.design is not None:
            way = f"made to forget exactly ({found.design})"
        lines.append(
            f"model  {found.model[:16]}, {way}; it remembers {found.trained} pictures, of which "
            f"the data hold {found.known}"
        )
    lines += [f"made   {path}" for path in found.made]
    lines.append(f"signs  by the key {found.public[:16]}; keep keys/ where no bundle goes")
    return lines
