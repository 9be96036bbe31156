"""``unplug forget`` of packs: in a folder of their own, and in an exported base."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from unplug.core import InputError, counted

from .base import Common, Outcome, folded
from .options import cached, given_option, traces

NO_CHOICE = ("method", "budget", "pairs", "without", "retrained", "fleet")
"""Options of `unplug forget` that choose how a model forgets."""
NO_DATA = ("spec", "on_bad", "forget_file", "base", "out", "restart")
"""Those that say whom it forgets, where it writes, and the base that it was trained with."""


def forget_pack(
    folder: Path,
    spec: str | None,
    on_bad: Any,
    forget_file: Path | None,
    base: str | None,
    out: Path | None,
    restart: bool,
    yes: bool,
    common: Common,
) -> Outcome:
    """Deletes a pack, or trains it again without those whom a request names while others stay."""
    from unplug.sdk.drawing.diffusion import image_size_of
    from unplug.sdk.forgetting.erasing import delete_pack, open_pack, retrain_pack
    from unplug.sdk.learning.data import describe_request, load_again, read_forget_file

    _only(NO_CHOICE)
    pack = open_pack(folder, base, device=common.device)
    if forget_file is not None:
        if spec is None:
            raise InputError("`data`", "the names of a request are of some data", "Give it")
        size = image_size_of(pack.base)
        dataset = load_again(spec, size, pack.record, on_bad=on_bad, show=common.show)
        ids = read_forget_file(forget_file, dataset)
        common.say(folded(describe_request(ids, dataset)))
        if pack.left(dataset, ids):
            if out is None:
                why = "others stay in the pack, which is trained again without these"
                raise InputError("`out`", why, f"Give a folder, or {folder} to replace it")
            done = retrain_pack(
                pack, dataset, ids, out, device=common.device, restart=restart, show=common.show
            )
            return _retrained(folder, out, forget_file, done)
    if not _agreed(f"{folder}, the pack of {pack.record['word']!r}", yes, common):
        return Outcome(value=None, text="nothing was deleted")
    done = delete_pack(pack)
    return _deleted(folder, done, forget_file, pack.record.get("data"))


def drop_word(folder: Path, word: str | None, yes: bool, common: Common) -> Outcome:
    """Deletes a pack from an exported base."""
    from unplug.sdk.drawing.device import drop_pack, find_pack, load_pipeline

    _only((*NO_CHOICE, *NO_DATA))
    pipeline = load_pipeline(folder)
    if word is None:
        known = ", ".join(map(shlex.quote, pipeline.packs().values())) or "none"
        why = "it is an exported base, which forgets by the packs that are taken from it"
        raise InputError(str(folder), why, f"Say which: `word=WORDS`. Its packs: {known}")
    variant = pipeline.variants[find_pack(pipeline, word)]
    if not _agreed(f"the pack of {variant.word!r} in {folder}", yes, common):
        return Outcome(value=None, text="nothing was deleted")
    drop_pack(folder, word)
    how = "the folder is, but for when it was made, what an export without the pack leaves"
    value = {
        "out": str(folder),
        "word": variant.word,
        "deleted": variant.file,
        "sha256": variant.sha256,
        "exact": True,
        "how": how,
    }
    text = (
        f"deleted {variant.file} of {folder}\n{folded(f'exact: {how}')}\nDeliver the folder again: "
    )
    return Outcome(value=value, text=f"{text}who has a copy keeps the pack until then")


def _only(others: tuple[str, ...]) -> None:
    """Refuses options that say nothing here."""
    if (name := given_option(*others)) is not None:
        raise InputError(f"`{name}`", "it says nothing of how a pack is deleted", "Leave it out")


def _agreed(what: str, yes: bool, common: Common) -> bool:
    if not yes and (common.as_json or not sys.stdin.isatty()):
        why = "deleting it cannot be undone, and there is no terminal to ask on"
        raise InputError(what, why, "Add --yes")
    return yes or click.confirm(f"Delete {what}?")


def _deleted(folder: Path, done: dict[str, Any], forget_file: Path | None, data: Any) -> Outcome:
    spec = str(data.get("spec")) if isinstance(data, dict) else "SPEC"
    given = ("--data", spec) if forget_file is None else ("--forget", str(forget_file))
    lines = [
        f"deleted {folder}: what {done['word']!r} meant, of {counted(done['samples'], 'sample')}",
        folded(f"exact: {done['how']}"),
        f"In exported bases: unplug forget FILES --pack {shlex.quote(done['word'])}",
        cached(shlex.join(given)),
    ]
    return Outcome(value=done, text="\n".join(lines))


def _retrained(folder: Path, out: Path, forget_file: Path, done: dict[str, Any]) -> Outcome:
    lines = [f"saved {out}: {counted(done['samples'], 'sample')} forgotten"]
    lines.append(folded(f"exact: {done['how']}"))
    if out.resolve() != folder.resolve():
        lines.append(f"{folder} still remembers: unplug forget {shlex.quote(str(folder))}")
    lines.append("Export bases again that carry the pack")
    return Outcome(value=done, text="\n".join([*lines, traces(forget_file)]))
