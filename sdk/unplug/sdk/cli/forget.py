"""``unplug forget``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import InputError, counted, seconds

from .base import Common, Outcome, command, computing, folded, percent, settings
from .forget_pack import drop_word, forget_pack
from .options import (
    ON_BAD,
    base_option,
    budget_option,
    checkpoint_argument,
    given_option,
    on_bad_option,
    opened,
    out_option,
    path_option,
    restart_option,
    settings_option,
    spec_option,
    traces,
    without_option,
)

if TYPE_CHECKING:
    from unplug.plugins import Checkpoint
    from unplug.sdk.forgetting.tasks import StoredTask


@click.command()
@checkpoint_argument
@spec_option("What it was trained on.", required=False)
@on_bad_option(ON_BAD)
@path_option(
    "--forget",
    "forget_file",
    metavar="FILE",
    help="Sample ids or subject:NAME, one a line; of a pack, everybody where it is left out.",
)
@click.option("--pack", "word", metavar="WORDS", help="The pack to delete from an exported base.")
@click.option("--yes", is_flag=True, help="Do not ask before a pack is deleted.")
@click.option(
    "--method",
    help="See `unplug list methods` (default: the design's own way, or msg for an ordinary model).",
)
@budget_option
@settings_option("A hyperparameter of the method; may be repeated.")
@without_option(
    "What the method must do without, such as 'forget data'; one that needs it is refused. May be "
    "repeated."
)
@path_option(
    "--retrained",
    help="The retrained model: its recipe is checked and its cost is recorded.",
)
@path_option(
    "--fleet",
    help=(
        "Folder that `unplug references` made: a method that needs out-of-fold answers takes them "
        "from it."
    ),
)
@base_option
@restart_option("an unfinished retraining")
@out_option("Folder to write; nothing is where a pack is deleted.", required=False)
@computing
@command
def forget(
    checkpoint: Path,
    spec: str | None,
    on_bad: Any,
    forget_file: Path | None,
    word: str | None,
    yes: bool,
    method: str | None,
    pairs: tuple[str, ...],
    without: tuple[Any, ...],
    retrained: Path | None,
    fleet: Path | None,
    base: str | None,
    out: Path | None,
    common: Common,
    **how: Any,
) -> Outcome:
    """Unlearn the samples that FILE names, within a budget.

    `--method retrain` trains from scratch on the retain set: the oracle that audits compare with.

    A pack forgets exactly, and needs neither method nor budget: it is deleted, or trained again
    without some where others stay. --pack WORDS deletes one from an exported base.
    """
    from unplug.plugins import load_checkpoint
    from unplug.sdk.drawing.device import is_generator
    from unplug.sdk.drawing.diffusion import is_pack
    from unplug.sdk.forgetting.unlearning import check_fleet, learned_by_design, request_price
    from unplug.sdk.journey import unlearn
    from unplug.sdk.learning.data import describe_request, read_forget_file

    if word is not None or is_generator(checkpoint):
        return drop_word(checkpoint, word, yes, common)
    if is_pack(checkpoint):
        restart = bool(how["restart"])
        spec = spec if given_option("spec") else None  # a project's data are not a pack's
        return forget_pack(checkpoint, spec, on_bad, forget_file, base, out, restart, yes, common)
    if spec is None or forget_file is None or out is None:
        why = "it is not a pack, and a model forgets the people in a request"
        raise InputError(str(checkpoint), why, "Give `data`, `forget` and `out`")
    check_fleet(fleet, method)  # before a data set is read
    original, task, dataset = opened(checkpoint, spec, on_bad, base, common)
    oracle = load_checkpoint(retrained, expect=original.model_type) if retrained else None
    ids = read_forget_file(forget_file, dataset, learned_by_design(original))
    common.say(folded(describe_request(ids, dataset)))
    if method != "retrain" and (price := request_price(original, dataset, ids)) is not None:
        common.say(f"costs {100 * price:.3g} % of a refit without them")
    done = unlearn(
        original,
        dataset,
        ids,
        out=out,
        method=method,
        options=settings(pairs),
        withhold=without,
        retrained=oracle,
        fleet=fleet,
        task=task,
        **how,
        **common.shared,
    )
    outcome = _told(done, task, out)
    if done.record.get("design") and method != "retrain":
        outcome.add(
            "Next: the same command with --method retrain and another --out gives the same "
            "model.safetensors (sha256sum)"
        )
    elif method != "retrain":
        beside = f" --base {base}" if base else ""
        outcome.add(
            f"Next: unplug audit {out} --data {spec} --forget {forget_file} --retrained "
            f"DIR{beside} -o audit.json"
        )
    for note in outcome.value.get("notes", ()):
        outcome.add(folded(f"note: {note}"))
    outcome.add(traces(forget_file))
    return outcome


def _told(done: Checkpoint, task: StoredTask, out: Path) -> Outcome:
    """What the step cost, and what the model is worth now."""
    from unplug.sdk.forgetting.unlearning import slow_clock

    facts, metrics = done.record["forget"], done.record["metrics"]
    cost = facts["cost"]
    beside = (
        f" ({facts['held_out']} more, held out, left validation and test)"
        if facts["held_out"]
        else ""
    )
    lines = [
        f"saved {out}: {counted(facts['samples'], 'sample')} forgotten by {facts['method']} in "
        f"{seconds(cost['wall_s'])}{beside}",
    ]
    if (slow := slow_clock(cost)) is not None:
        lines.append(folded(slow))
    if facts.get("exact"):  # its share of a refit is told beforehand
        lines.append(folded(f"exact: {facts['how']}"))
        if members := done.record.get("design", {}).get("members"):
            lines.append(folded(f"the same head is in its members: {', '.join(members)}"))
    else:
        shares = percent(cost["compute_fraction"]), percent(cost["wall_fraction"])
        source = cost["retrain"]["source"]
        lines.append(folded("compute {}, wall {} of retraining ({})".format(*shares, source)))
    lines += [
        f"{name:<8}{row['n']:>6} samples  {task.describe(row)}" for name, row in metrics.items()
    ]
    value = {"out": str(out), "sha256": done.sha256, **facts, "metrics": metrics}
    if notes := done.record.get("adopted", {}).get("notes", []):
        value["notes"] = notes
    return Outcome(value=value, text="\n".join(lines))
