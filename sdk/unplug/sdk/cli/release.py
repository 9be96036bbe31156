"""``unplug release``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import GateFailed, InputError, counted, read_json, seconds, table

from .base import Common, Outcome, command, folded, names, settings
from .bundle import publication_options, signing_of
from .ledger_options import ledger_option
from .options import (
    FloatRange,
    base_option,
    checkpoint_argument,
    data_option,
    faces_option,
    fleet_option,
    forget_option,
    given_option,
    out_option,
    traces,
)

if TYPE_CHECKING:
    from unplug.sdk.bundle import Signing
    from unplug.sdk.releasing import Answering, Gates, Plan, Release

DECISION_GATES = {"max_decision_shift", "max_group_shift", "max_calibration_shift"}


@click.command()
@checkpoint_argument
@data_option
@forget_option
@click.option("--method", help="See `unplug list methods` (default: the design's own way, or msg for an ordinary model).")
@click.option("--budget", type=float, default=0.05, show_default=True, help="Fraction of retraining; a design needs none.")
@click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help="A hyperparameter of the method; may be repeated.")
@click.option("--retrained", type=click.Path(path_type=Path), help="The oracle (default: train it, but with --fleet).")
@click.option(
    "--references", type=click.IntRange(0, 64), default=1, show_default=True,
    help="Reference models to train: RMIA needs one, LiRA two; with --fleet none is trained.",
)  # fmt: skip
@fleet_option
@click.option("--oracle", is_flag=True, help="With --fleet: train the oracle all the same.")
@click.option(
    "--certification", type=click.Path(path_type=Path),
    help="What `unplug certify` wrote: evidence of the method, where one request is too few people to show anything.",
)  # fmt: skip
@click.option("--to", "targets", default="litert,coreml,onnx", show_default=True, help="Comma-separated targets.")
@click.option("--precision", "precisions", default="fp32,fp16", show_default=True, help="Comma-separated precisions.")
@click.option("--gate", "gate_pairs", multiple=True, metavar="KEY=VALUE", help="A threshold, e.g. max_mae_above_retrained=0.5.")
@click.option("--rounding/--no-rounding", default=True, show_default=True, help="Measure what export did to the edit.")
@click.option("--others", help="Data spec of other pictures of the same people, which no model saw, for one more attack.")
@click.option(
    "--decision", type=click.Path(path_type=Path), metavar="FILE",
    help="What `unplug threshold` said of CHECKPOINT: nothing may move it, and it ships, fitted anew.",
)  # fmt: skip
@click.option(
    "--decision-data", metavar="SPEC", help="With --decision: people that no model learned from (default: the test set)."
)
@click.option(
    "--evaluate", metavar="PROTOCOL", help="Put what it is worth at age limits on the card and into the reports: fate-aev."
)
@faces_option
@base_option
@click.option("--restart", is_flag=True, help="Drop unfinished trainings of an earlier run instead of continuing them.")
@click.option("--sign", "key", help="Sign with this key: a file, env:NAME, or command:WORDS that sign standard input.")
@publication_options
@ledger_option
@click.option("--request", "requests", multiple=True, metavar="ID[,ID...]", help="Requests of the ledger that it answers.")
@click.option("--all-open", is_flag=True, help="It answers all open requests whose every name is in the data.")
@click.option(
    "--override", "overrides", multiple=True, metavar="GATE", help="Ship though this gate does not hold; needs --reason."
)
@click.option(
    "--reason", "reasons", multiple=True, metavar="TEXT", help="Why, one for each --override; it stands in the manifest."
)
@click.option("--dry-run", is_flag=True, help="Say what would be done and how long it would take, and do nothing.")
@click.option("--hourly", type=FloatRange(0), help="With --dry-run: what an hour of this machine costs.")
@click.option(
    "--explain", "explained", is_flag=True, help="Say of each gate what it asks, where its limit comes from, what was found."
)
@out_option("Bundle folder to write, for example face-age.unplug.")
@command
def release(
    checkpoint: Path, spec: str, on_bad: Any, forget_file: Path, method: str | None, budget: float, pairs: tuple[str, ...],
    retrained: Path | None, references: int, fleet: Path | None, oracle: bool, certification: Path | None, targets: str,
    precisions: str, gate_pairs: tuple[str, ...], rounding: bool, others: str | None, decision: Path | None,
    decision_data: str | None, evaluate: str | None, faces: bool, base: str | None, restart: bool, out: Path,
    key: str | None, where: str | None, requests: tuple[str, ...], all_open: bool, overrides: tuple[str, ...],
    reasons: tuple[str, ...], dry_run: bool, hourly: float | None, explained: bool, common: Common, **said: Any,
) -> Outcome:  # fmt: skip
    """Forget, audit, export, check, time and bundle; refuse (exit 1) where a gate does not hold.

    Intermediate results stay in .NAME.release beside the bundle, so a killed release goes on where it was. With --request or
    --all-open the ledger is told of each step, and the forget file must cover whom the requests name.
    """
    from unplug.plugins import load_checkpoint
    from unplug.sdk.data import describe_request, load_dataset, named_samples, read_forget_file
    from unplug.sdk.ledger import find_ledger, open_queue
    from unplug.sdk.releasing import ReleaseConfig, begin, gates_from, plan_release, prepare
    from unplug.sdk.releasing import release as run
    from unplug.sdk.tasks import task_of

    signing = None if key is None else signing_of(key, out, **said)
    if signing is None and any(said.values()):
        raise InputError("the signer's options", "nothing is signed", "Add --sign KEY, or leave them out")
    answering = _answering(where, requests, all_open=all_open)
    limits = settings(gate_pairs)
    if decision is None and (asked := sorted(limits.keys() & DECISION_GATES)):
        raise InputError(f"--gate {asked[0]}", "no decision is given that could move", "Add --decision FILE, or leave it out")
    config = ReleaseConfig(
        method=method, options=settings(pairs), budget=budget, references=references, targets=names(targets),
        precisions=names(precisions), gates=gates_from(limits, budget), overrides=_reasons(overrides, reasons),
        rounding=rounding, others=others, faces=faces, seed=common.seed, fleet=fleet, oracle=oracle,
        certification=certification, decision=decision, decision_data=decision_data, evaluate=evaluate,
    )  # fmt: skip
    original = load_checkpoint(checkpoint)
    given = load_checkpoint(retrained, expect=original.model_type) if retrained else None
    task = task_of(original, device=common.device, base=base)
    dataset = load_dataset(spec, task.image_size, on_bad=on_bad, show=common.show)
    ids = read_forget_file(forget_file, dataset)
    common.say(folded(describe_request(ids, dataset)))
    if answering is not None and all_open:
        for line in open_queue(answering.ledger, named_samples(dataset.samples)).waiting():
            common.say(folded(line))
    work = out.parent / f".{out.name}.release"
    judged = partial(explanations, limits=config.gates, given=limits) if explained else gate_lines
    shared: dict[str, Any] = {"oracle": given, "task": task, "device": common.device, "say": common.say, "show": common.show}
    shared |= {"signing": signing, "ledger": find_ledger(where) if answering is None else answering.ledger}
    if dry_run:
        stages = prepare(original, dataset, ids, out, work, config, **shared)
        record = None if answering is None else begin(answering, stages, out, signing, write=False)
        plan = plan_release(stages, given, on_record=record is not None, signed=signing is not None)
        return planned(plan, hourly, () if record is None else record.answer.requests)
    try:
        done = run(
            original, dataset, ids, out, work, config, **shared, restart=restart, answering=answering
        )  # fmt: skip
    except GateFailed:
        common.say("\n".join(judged(read_json(work / "release.json"))))
        raise
    lines = [*judged(done.summary), *_shipped(done, signing), traces(forget_file)]
    value = {"bundle": str(done.bundle), "work": str(work), "requests": list(done.requests), **done.summary}
    return Outcome(value=value, text="\n".join(lines))


def _shipped(done: Release, signing: Signing | None) -> Iterator[str]:
    """What comes after a release that ships."""
    if len(done.summary["tries"]) > 1:
        yield f"try {len(done.summary['tries'])} of this request; the report shows all of them"
    if done.requests:
        yield f"answers {', '.join(done.requests)}; tell them, then: unplug ledger record answered {' '.join(done.requests)}"
    trust = "" if signing is None else " --trust ROOT.pem" if signing.signer.chain else " --trust KEY.pub"
    yield f"bundle {done.bundle}; check it with `unplug bundle verify {done.bundle}{trust}`"


def _answering(where: str | None, requests: tuple[str, ...], *, all_open: bool) -> Answering | None:
    """Which requests are meant; None where the release is not on record."""
    wanted = tuple(name for item in requests for name in names(item))
    if wanted and all_open:
        raise InputError("--all-open", "--request names some already", "Give one of the two")
    if not wanted and not all_open:
        if given_option("where"):
            raise InputError("--ledger", "no request is named that the release answers", "Add --request ID or --all-open")
        return None
    from unplug.sdk.ledger import open_ledger
    from unplug.sdk.releasing import Answering

    return Answering(ledger=open_ledger(where), requests=wanted)


def _reasons(overrides: tuple[str, ...], reasons: tuple[str, ...]) -> dict[str, str]:
    if len(overrides) != len(reasons):
        why = f"{counted(len(overrides), 'gate')} to override, and {counted(len(reasons), 'reason')} given"
        raise InputError("--override", why, "Give --reason TEXT for each --override GATE, in the same order")
    if len(set(overrides)) != len(overrides):
        raise InputError("--override", "it names a gate twice", "Name each once")
    return dict(zip(overrides, reasons, strict=True))


def gate_lines(summary: dict[str, Any]) -> list[str]:
    """Every gate in two lines: what was found and what it must be, and below that where it comes from."""
    lines = []
    for gate in summary["gates"]:
        shown = "not measured" if gate["value"] is None else f"{gate['value']:.4g}"
        word = "holds" if gate["passed"] else "open" if gate["inconclusive"] else "FAILS"
        lines.append(f"{word:<6}{gate['name']:<32}{shown:>12} {gate['comparison']} {gate['limit']:g}")
        reason = "" if gate.get("override") is None else f"; overridden: {gate['override']}"
        found = f"{unit} ({gate['detail']})" if (unit := gate["unit"].strip()) else gate["detail"]
        lines.append(folded(f"{' ' * 6}{found}{reason}", 6))
    return lines


def explanations(summary: dict[str, Any], limits: Gates, given: dict[str, str]) -> list[str]:
    """Lines of --explain: each gate in four."""
    from unplug.sdk.bundle import Gate
    from unplug.sdk.releasing import explain_gates

    lines = []
    for item in explain_gates([Gate(**gate) for gate in summary["gates"]], limits, given):
        lines += [f"{item.gate}: {item.asks}", f"  must be {item.limit}", f"  limit from {item.source}", f"  {item.outcome}"]
    return lines


def planned(plan: Plan, hourly: float | None, requests: tuple[str, ...]) -> Outcome:
    """What --dry-run shows: each step with its time and where that is known from, and what the machine would cost."""
    rows = [
        [step.what, "finished" if step.finished else "?" if step.seconds is None else seconds(step.seconds), step.source]
        for step in plan.steps
    ]
    lines = [table(["step", "takes", "known from"], rows)]
    if requests:
        lines.append(f"It answers {', '.join(requests)}")
    paid = None if hourly is None else plan.price(hourly)
    price = None if paid is None else round(paid, 4)
    cost = "" if price is None else f", {price:g} at {hourly:g} an hour"
    about = "how long it takes, nobody knows yet" if plan.seconds is None else f"about {seconds(plan.seconds)}{cost}"
    beside = f"; nobody knows yet of: {', '.join(plan.unknown)}" if plan.unknown and plan.seconds is not None else ""
    lines.append(f"{about}{beside}. Nothing was computed or written")
    value = {
        "dry_run": True, "steps": [asdict(step) for step in plan.steps], "requests": list(requests), "seconds": plan.seconds,
        "unknown": list(plan.unknown), "price": price,
    }  # fmt: skip
    return Outcome(value=value, text="\n".join(lines))
