"""``unplug release``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import GateFailed, InputError, read_json, seconds, table

from .base import Common, Outcome, command, computing, folded, names
from .bundle import PublicationOrder, sign_option, signing_of
from .flags import with_flags
from .ledger_options import ledger_option
from .options import (
    ON_BAD,
    base_option,
    check_there,
    checkpoint_argument,
    given_option,
    on_bad_option,
    opened,
    out_option,
    path_option,
    spec_option,
    traces,
)
from .options_of import ConfiguredCommand, given
from .release_base import release_base

if TYPE_CHECKING:
    from unplug.sdk.releasing import Answering, Release, ReleasePlan
    from unplug.trust.bundle import Signing


@click.command(
    cls=ConfiguredCommand,
    config="unplug.sdk.releasing:ReleaseConfig unplug.sdk.cli.bundle:PublicationOrder",
    skip=(
        *("seed", "bench_iterations", "bench_repeats", "threads", "workers"),
        *("number", "revokes", "requests"),
    ),
)
@checkpoint_argument
@spec_option("Data, for example utkface:DIR or synth:n=3000.", required=False)
@on_bad_option(ON_BAD)
@path_option(
    "--forget", "forget_file", metavar="FILE", help="Sample ids or subject:NAME, one a line."
)
@path_option(
    "--audited", metavar="FILE", help="Report of `unplug audit` on the erased base to release."
)
@click.option(
    "--claim",
    type=click.Choice(["prompts", "control images", "text states", "weights"]),
    help=("Claim for an erased base (default: control images where plugins ship, else prompts)."),
)
@path_option(
    "--pack",
    "packs",
    multiple=True,
    metavar="FOLDER",
    help="Ship a base with this pack; may be repeated.",
)
@path_option(
    "--retrained",
    help="Retrained model to compare with. Trained here unless --fleet is given.",
)
@base_option
@click.option(
    "--restart",
    is_flag=True,
    help="Drop unfinished trainings of an earlier run instead of continuing them.",
)
@sign_option(required=False)
@ledger_option
@click.option(
    "--request",
    "requests",
    multiple=True,
    metavar="ID[,ID...]",
    help="Requests of the ledger that it answers.",
)
@click.option(
    "--all-open", is_flag=True, help="Answer all open requests whose every name is in the data."
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Say what would be done and how long it would take, and do nothing.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Explain each gate: what it asks, where its limit comes from, what was found.",
)
@out_option("Bundle folder to write, for example face-age.unplug.")
@computing
@command
def release(
    checkpoint: Path,
    spec: str | None,
    on_bad: Any,
    forget_file: Path | None,
    audited: Path | None,
    claim: str | None,
    retrained: Path | None,
    base: str | None,
    restart: bool,
    out: Path,
    key: str | None,
    where: str | None,
    requests: tuple[str, ...],
    all_open: bool,
    dry_run: bool,
    explain: bool,
    common: Common,
    **options: Any,
) -> Outcome:
    """Forget, audit, export, check, time and bundle; refuse (exit 1) where a gate does not hold.

    Intermediate results stay in .NAME.release next to the bundle, so a killed release goes on where
    it was. With --request or --all-open the ledger is told of each step, and the forget file must
    cover whom the requests name.

    A base ships as one bundle of its exported files and packs. --audited adds the claim on what
    `unplug erase` took from it; --supersedes tells which packs left, and that the rest is equal.
    """
    from unplug.sdk import journey
    from unplug.sdk.drawing.device import is_base
    from unplug.sdk.learning.data import (
        describe_request,
        named_samples,
        read_forget_file,
    )
    from unplug.sdk.releasing import ReleaseConfig, asked_gates
    from unplug.trust.bundle import PIPELINE
    from unplug.trust.ledger import find_ledger, open_queue

    whole = is_base(checkpoint) or (checkpoint / PIPELINE).is_file()
    # A base is not in the ledger: its bundle names the requests alone.
    said = options | {"requests": requests or None} if whole else options
    signed = _signing(key, out, given(PublicationOrder, said))
    if whole:
        return release_base(checkpoint, audited, claim, out, signed, options, common)
    if name := given_option("claim", "packs", "audited"):
        why = "it applies to a text-to-image base, and this is not one"
        raise InputError(f"`{name}`", why, "Leave it out")
    options.pop("packs")
    check_there(checkpoint)
    if spec is None or forget_file is None:
        name = "data" if spec is None else "forget"
        raise InputError(f"`{name}`", "it is missing", "Name the data and the forget set")
    answering = _answering(where, requests, all_open=all_open)
    chosen = given(ReleaseConfig, options)
    gates = chosen.pop("gates", {})
    asked_gates(gates, chosen)
    original, task, dataset = opened(checkpoint, spec, on_bad, base, common)
    ids = read_forget_file(forget_file, dataset)
    common.say(folded(describe_request(ids, dataset)))
    if answering is not None and all_open:
        for line in open_queue(answering.ledger, named_samples(dataset.samples)).waiting():
            common.say(folded(line))
    shared: dict[str, Any] = {
        "out": out,
        "retrained": retrained,
        "task": task,
        "gates": gates,
        "signing": signed,
        "answering": answering,
        "ledger": find_ledger(where) if answering is None else answering.ledger,
        "say": common.say,
        **common.shared,
        **chosen,
    }
    if dry_run:
        return planned(journey.plan_release(original, dataset, ids, **shared))
    try:
        done = journey.release(original, dataset, ids, restart=restart, **shared)
    except GateFailed:
        summary = read_json(out.parent / f".{out.name}.release" / "release.json")
        common.say("\n".join(_judged(summary, gates, chosen, explain=explain)))
        raise
    return _released(
        done, signed, forget_file, _judged(done.summary, gates, chosen, explain=explain)
    )


def _signing(key: str | None, out: Path, order: Mapping[str, Any]) -> Signing | None:
    if key is not None:
        return signing_of(key, out, PublicationOrder(**order))
    if order:
        fix = "Add --sign KEY, or leave them out"
        raise InputError("the signer's options", "nothing is signed", fix)
    return None


def _judged(
    summary: dict[str, Any], gates: Mapping[str, str], chosen: Mapping[str, Any], *, explain: bool
) -> list[str]:
    return explanations(summary, gates, chosen) if explain else gate_lines(summary)


def _released(
    done: Release, signed: Signing | None, forget_file: Path, judged: list[str]
) -> Outcome:
    work = done.bundle.parent / f".{done.bundle.name}.release"
    lines = [*judged, *_shipped(done, signed), traces(forget_file)]
    value = {
        "bundle": str(done.bundle),
        "work": str(work),
        "requests": list(done.requests),
        **done.summary,
    }
    return Outcome(value=value, text="\n".join(lines))


def _shipped(done: Release, signing: Signing | None) -> Iterator[str]:
    """What comes after a release that ships."""
    if len(done.summary["tries"]) > 1:
        yield f"try {len(done.summary['tries'])} of this request; the report shows all of them"
    if done.requests:
        yield (
            f"answers {', '.join(done.requests)}; tell them, then: unplug ledger record answered "
            f"{' '.join(done.requests)}"
        )
    trust = (
        ""
        if signing is None
        else " --trust ROOT.pem"
        if signing.signer.chain
        else " --trust KEY.pub"
    )
    yield f"bundle {done.bundle}; check it with `unplug bundle verify {done.bundle}{trust}`"


def _answering(where: str | None, requests: tuple[str, ...], *, all_open: bool) -> Answering | None:
    """Which requests are meant; None where the release is not on record."""
    wanted = tuple(name for item in requests for name in names(item))
    if wanted and all_open:
        raise InputError("--all-open", "--request names some already", "Give one of the two")
    if not wanted and not all_open:
        if given_option("where"):
            raise InputError(
                "--ledger",
                "no request is named that the release answers",
                "Add --request ID or --all-open",
            )
        return None
    from unplug.sdk.releasing import Answering
    from unplug.trust.ledger import open_ledger

    return Answering(ledger=open_ledger(where), requests=wanted)


def gate_lines(summary: dict[str, Any]) -> list[str]:
    """Every gate in two lines: what was found and what it must be, and below that where it comes
    from.
    """
    lines = []
    for gate in summary["gates"]:
        shown = "not measured" if gate["value"] is None else f"{gate['value']:.4g}"
        word = "holds" if gate["passed"] else "open" if gate["inconclusive"] else "FAILS"
        lines.append(
            f"{word:<6}{gate['name']:<32}{shown:>12} {gate['comparison']} {gate['limit']:g}"
        )
        reason = "" if gate.get("override") is None else f"; overridden: {gate['override']}"
        detail = f"{unit} ({gate['detail']})" if (unit := gate["unit"].strip()) else gate["detail"]
        lines.append(folded(f"{' ' * 6}{detail}{reason}", 6))
    return lines


def explanations(
    summary: dict[str, Any], gates: Mapping[str, str], chosen: Mapping[str, Any]
) -> list[str]:
    """Lines of --explain: each gate in four."""
    from unplug.sdk.releasing import asked_gates, explain_gates
    from unplug.trust.bundle import Gate

    lines = []
    limits = asked_gates(gates, chosen)
    for explained in explain_gates([Gate(**gate) for gate in summary["gates"]], limits, gates):
        lines += [f"{explained.gate}: {explained.asks}", f"  must be {explained.limit}"]
        lines += [f"  limit from {with_flags(explained.source)}", f"  {explained.outcome}"]
    return lines


def planned(plan: ReleasePlan) -> Outcome:
    """What --dry-run shows: each step with its time and where that is known from."""
    rows = [
        [
            step.what,
            "finished" if step.finished else "?" if step.seconds is None else seconds(step.seconds),
            step.source,
        ]
        for step in plan.steps
    ]
    lines = [table(["step", "takes", "known from"], rows)]
    if plan.requests:
        lines.append(f"It answers {', '.join(plan.requests)}")
    about = (
        "how long it takes: not timed here yet"
        if plan.seconds is None
        else f"about {seconds(plan.seconds)}"
    )
    beside = (
        f"; not timed here yet: {', '.join(plan.unknown)}"
        if plan.unknown and plan.seconds is not None
        else ""
    )
    lines.append(f"{about}{beside}. Nothing was computed or written")
    value = {
        "dry_run": True,
        "steps": [asdict(step) for step in plan.steps],
        "requests": list(plan.requests),
        "seconds": plan.seconds,
        "unknown": list(plan.unknown),
    }
    return Outcome(value=value, text="\n".join(lines))
