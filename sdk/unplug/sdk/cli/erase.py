"""``unplug erase``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from unplug.core import counted, seconds

from .base import Common, Outcome, command, computing, folded, settings
from .options import (
    half_option,
    known_base,
    option,
    out_option,
    path_option,
    restart_option,
    settings_option,
)


@click.command()
@click.argument("base_name", metavar="BASE", callback=known_base)
@click.option(
    "--concept",
    "words",
    multiple=True,
    required=True,
    metavar="WORDS",
    help="Words in prompts that draw the concept; may be repeated.",
)
@option(
    "--instead",
    "target",
    default="",
    help="Words that take their place (default: nothing).",
)
@option("--method", default="uce", help="See `unplug list erasures`.")
@settings_option("A hyperparameter of the method; may be repeated.")
@path_option("--retain", help="Text file: words that must go on working, one concept a line.")
@path_option("--prompts", help="Text file: other prompts of your users, one a line.")
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="PLUGIN",
    help="Make this plugin forget with the base; may be repeated.",
)
@option(
    "--probe/--no-probe",
    "check",
    default=True,
    help="First draw 320 pictures and see whether these words control what is drawn.",
)
@half_option
@restart_option()
@out_option("Pipeline folder to write; an unfinished run there is continued.")
@computing
@command
def erase(
    base_name: str,
    words: tuple[str, ...],
    target: str,
    method: str,
    pairs: tuple[str, ...],
    retain: Path | None,
    prompts: Path | None,
    out: Path,
    common: Common,
    **how: Any,
) -> Outcome:
    """Take a concept out of a text-to-image base, so that prompts no longer draw it.

    BASE is small, a diffusers folder of the Stable Diffusion 1 and 2 family, OWNER/NAME on the hub,
    or what this command wrote before: then the concepts add up. What is written loads in stock
    diffusers.
    """
    from unplug.sdk.forgetting.erasing import Concept, read_lines
    from unplug.sdk.journey import erase as run

    record = run(
        base_name,
        [Concept(words=one, target=target) for one in words],
        out=out,
        method=method,
        options=settings(pairs),
        retained=() if retain is None else read_lines(retain, "concepts"),
        prompts=() if prompts is None else read_lines(prompts, "prompts"),
        **how,
        **common.shared,
    )
    return _told(record, out)


def _told(record: dict[str, Any], out: Path) -> Outcome:
    changed, edit = record["changed"], record["map"]
    said = ", ".join(item["words"] for item in record["concepts"])
    size = f"{changed['bytes']:,} bytes in {counted(changed['tensors'], 'tensor')}"
    with_it = "".join(f", and the plugin {item['name']}" for item in record["plugins"])
    if edit is not None:
        size = f"a map of {edit['bytes']:,} bytes, or {size}"
    prompt = shlex.quote(f"a portrait of an adult, {record['concepts'][-1]['words']}")
    lines = [
        f"saved {out}: {said} erased by {record['method']}{with_it} in {seconds(record['cost']['wall_s'])}",
        f"changed {size}",
        *(_never_saw(record["trained"]) if "trained" in record else _aimed_at(record["plugins"])),
        f"Next: unplug generate --base {shlex.quote(str(out))} --prompt {prompt} --out picture.png",
    ]
    return Outcome(value={"out": str(out), **record}, text="\n".join(lines))


def _aimed_at(plugins: Sequence[Any]) -> Iterator[str]:
    reached = "prompts and control images" if plugins else "prompts"
    others = (
        "people who have the weights"
        if plugins
        else "control images and people who have the weights"
    )
    yield f"this is about {reached}: {others} may still get it; `unplug audit` says"


def _never_saw(trained: dict[str, Any]) -> Iterator[str]:
    data = trained["data"]
    yield folded(
        f"it never saw it in this training: {data['left_out']:,} pictures whose captions say it are "
        f"left out, {data['samples']:,} stay"
    )
    if trained["start"]:
        yield folded("what the training went on from may have seen it: `--set start` names that")
