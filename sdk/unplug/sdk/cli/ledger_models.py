"""``unplug ledger``: queue and touch, which look requests up in data and in models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import SUBJECT, InputError, counted, sha256_file, table, write_json

from .base import Common, Outcome, command
from .ledger_options import with_ledger
from .options import out_option, paths_argument, spec_option

if TYPE_CHECKING:
    from unplug.sdk.learning.data import Split
    from unplug.trust.ledger import Ledger, Queue

FORGOTTEN = ("released", "answered")
"""States of requests whom no model may know again."""


def samples_in(spec: str) -> dict[str, set[str]]:
    """All names that a request can have in some data, to the ids of their samples. No picture is
    opened.
    """
    from unplug.sdk.learning.data import named_samples, parse_spec

    return named_samples(parse_spec(spec).listing().samples)


@click.command()
@spec_option("The data in which the names are looked for.")
@out_option("Forget file to write, with names in clear: delete it after use.")
@command
@with_ledger
def queue(opened: Ledger, spec: str, out: Path, common: Common) -> Outcome:
    """Write one forget file for all open requests whose every name is in the data, so that one
    release covers them.
    """
    from unplug.trust.ledger import open_queue

    queued = open_queue(opened, samples_in(spec))
    if not queued.whole:
        raise InputError(
            "the queue", f"{spec} holds no open request's names in full", _way_out(queued)
        )
    wanted = {name for held in queued.whole.values() for name in held}
    names = [name for name in queued.names if name in wanted]
    samples = [name for name in names if not name.startswith(SUBJECT)]
    subjects = [name.removeprefix(SUBJECT) for name in names if name.startswith(SUBJECT)]
    write_json(out, {"samples": samples, "subjects": subjects}, private=True)
    lines = [
        f"{len(queued.whole)} open request{'s name' if len(queued.whole) > 1 else ' names'} "
        f"{len(names)} of {spec}: {out}"
    ]
    lines += queued.waiting()
    lines.append(
        "`unplug release --all-open` records it; else: unplug ledger record release "
        f"{' '.join(queued.whole)} --file MANIFEST"
    )
    value = {
        "out": str(out),
        "requests": list(queued.whole),
        "names": len(names),
        "elsewhere": dict(queued.elsewhere),
        "shredded": list(queued.shredded),
        "unreadable": dict(queued.unreadable),
    }
    return Outcome(value=value, text="\n".join(lines))


@click.command()
@paths_argument("checkpoints")
@spec_option("The data that they were trained on.")
@command
@with_ledger
def touch(opened: Ledger, checkpoints: tuple[Path, ...], spec: str, common: Common) -> Outcome:
    """Record which requests touch each of CHECKPOINTS: how many of their samples it was trained on
    and did not forget (exit 1: it holds samples of one that was released or answered).

    Packs are looked into as well. Samples of the validation and test set are counted apart: no
    weights were trained on them.
    """
    from unplug.trust.ledger import open_queue

    samples = samples_in(spec)
    queued = open_queue(opened, samples, ("open", *FORGOTTEN))
    if not queued.of:
        raise InputError(
            "the queue", f"no request is known to name anybody in {spec}", _way_out(queued)
        )
    over = {id for id, item in opened.requests().items() if item.state in FORGOTTEN}
    rows: list[dict[str, Any]] = []
    for path in checkpoints:
        sha256, split = _trained(path)
        for request, names in queued.of.items():
            ids = {sample for name in names for sample in samples[name]}
            counts = _counts(split, ids)
            facts = {"model_sha256": sha256, "data_digest": split.data_digest}
            entry = opened.record(
                "touched",
                [request],
                facts=facts | {name: str(count) for name, count in counts.items()},
            )
            rows.append(
                {"request": request, "model": str(path), "entry": entry.sequence, **facts, **counts}
            )
    shown = [
        [row["request"], row["model"], str(row["samples"]), str(row["held_out"]), str(row["entry"])]
        for row in rows
    ]
    lines = [table(["request", "model", "samples in it", "held out", "entry"], shown)]
    again = [row for row in rows if row["request"] in over and row["samples"]]
    lines += [
        f"{row['request']} was answered, and {row['model']} holds {counted(row['samples'], 'sample')} "
        "of it: no release may start there"
        for row in again
    ]
    lines += [f"{id}: {why}" for id, why in queued.unreadable.items()]
    return Outcome(value=rows, text="\n".join(lines), ok=not again)


def _trained(path: Path) -> tuple[str, Split]:
    """The hash of the weights of a checkpoint or a pack, and its split as it is stored."""
    from unplug.plugins import load_checkpoint
    from unplug.sdk.drawing.device import lora_file
    from unplug.sdk.drawing.diffusion import is_pack, pack_record
    from unplug.sdk.learning.data import Split
    from unplug.sdk.learning.training import split_of

    if is_pack(path):
        split = Split.from_dict(pack_record(path).get("split"), str(path))
        return sha256_file(lora_file(path)), split
    loaded = load_checkpoint(path)
    return loaded.sha256, split_of(loaded)


def _way_out(found: Queue) -> str:
    """What keeps each request open, else what to check."""
    return "; ".join(found.waiting()) or "Check --data"


def _counts(split: Any, ids: set[str]) -> dict[str, int]:
    """How many of some samples a model was trained on and has not forgotten, and how many only
    judged or chose it.
    """
    from unplug.sdk.learning.data import stored_name

    names, learned = {stored_name(split, name) for name in ids}, set(split.retain)
    return {"samples": len(names & learned), "held_out": len(names & split.held_out)}
