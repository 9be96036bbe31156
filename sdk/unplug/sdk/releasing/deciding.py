"""What a release does about a decision: whether forgetting and rounding moved it, and the one that ships."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from unplug.core import STRICT, InputError
from unplug.export import Artifact
from unplug.plugins import Checkpoint
from unplug.sdk.assurance import UNKNOWN, Answers, Copies, JudgedModels, Limits, Shift, ask, decide, decision_shift, people_for
from unplug.sdk.auditing import not_run_here
from unplug.sdk.bundle import Gate
from unplug.sdk.inference import DecisionRecord, read_decision
from unplug.sdk.statistics import Estimate

from .gates import Gates

if TYPE_CHECKING:
    from .stages import Stages


@dataclass(frozen=True, kw_only=True)
class Decided:
    """``unplug-decided/1``: what became of a decision in a release.

    Args:
        record: of what ships: fitted anew on the unlearned model and on every exported file that runs here.
        forgetting: from the original to the unlearned model, at the rule that was in force.
        rounding: from the unlearned model to each exported file, at that rule.
        not_run: exported file to why it was not run: there the limits are not shown to hold.
        copies: pictures of the training that lay among these people under another name, see `Copies`; null where nothing says
            what the models saw, and in records from before pixels were compared.
        schema: always ``unplug-decided/1``.
    """

    __pydantic_config__: ClassVar = STRICT

    record: DecisionRecord
    forgetting: Shift
    rounding: tuple[Shift, ...]
    not_run: dict[str, str]
    copies: Copies | None = None
    schema: Literal["unplug-decided/1"] = "unplug-decided/1"


def decision_of(stages: Stages) -> DecisionRecord | None:
    """The decision that is in force before the forget step, where one is given.

    Raises:
        InputError: it cannot be read, or was fitted on other models than the original.
    """
    path = stages.config.decision
    if path is None:
        if stages.config.decision_data is not None:
            raise InputError("--decision-data", "no decision is given", "Add --decision FILE, or leave it out")
        return None
    record = read_decision(path)
    if stages.original.sha256 not in {item.sha256 for item in record.models}:
        why = "it was fitted on other models than this original, so whether forgetting moves it cannot be said"
        raise InputError(str(path), why, f"Run `unplug threshold {stages.original.path} ...`")
    return record


def decide_release(
    stages: Stages, record: DecisionRecord, unlearned: Checkpoint, artifacts: Sequence[Artifact]
) -> Decided:  # fmt: skip
    """Asks the original, the unlearned model and its files about the same people, whom none of them learned from.

    Args:
        stages: of the release.
        record: in force before the forget step.
        unlearned: what the forget step left.
        artifacts: its exported files.

    Raises:
        DataError: see `decide` and `decision_shift`.
    """
    not_run = {item.path.name: why for item in artifacts if (why := not_run_here(item)) is not None}
    files = [item.path for item in artifacts if item.path.name not in not_run]
    data = stages.config.decision_data or stages.dataset
    asked = JudgedModels(models=[stages.original.path, unlearned.path, *files], data=data, training=[stages.dataset.spec])
    original, own, *rounded = ask(asked, device=stages.device, show=stages.show)
    limits = Limits(
        age=record.age, max_fpr=record.max_fpr, max_fnr=record.max_fnr, method=record.method, minors_from=record.minors_from,
        **({} if record.confidence is None else {"confidence": record.confidence}),
    )  # fmt: skip
    said = record.apart == "said"
    ships, _ = decide([own, *rounded], limits, by=record.by, unseen=said)

    def shift(before: Answers, after: Answers) -> Shift:
        people = after.people
        groups = None if record.by is None else [None if item == UNKNOWN else item for item in people.attributes[record.by]]
        return decision_shift(
            before.over(record.age), after.over(record.age), people.age_N, people.person_N, record.rule, name=after.name,
            sha256=after.sha256, minors_from=record.minors_from, group_N=groups, seed=stages.config.seed,
        )  # fmt: skip

    return Decided(
        record=ships, forgetting=shift(original, own), rounding=tuple(shift(own, item) for item in rounded), not_run=not_run,
        copies=own.people.copies,
    )  # fmt: skip


def decision_gates(gates: Gates, decided: Decided | None) -> list[Gate]:
    """Neither forgetting nor rounding moved the decision: both ends of each interval are within its margin; none without one.

    Each is shown by itself (an intersection of equivalences needs no correction for their number). Groups with too few minors
    to show anything within the margin are named, and not judged.
    """
    if decided is None:
        return []
    found = list(_step_gates(gates, "decision", [decided.forgetting]))
    if decided.rounding:
        found += _step_gates(gates, "decision, rounding", decided.rounding)
    if decided.not_run and not gates.allow_not_run:
        detail = "; ".join(f"{name}: {why}" for name, why in decided.not_run.items())
        found.append(_gate("decision (files not run)", Estimate(value=float(len(decided.not_run))), 0.0, " files", detail))
    return found


def _step_gates(gates: Gates, step: str, shifts: Sequence[Shift]) -> Iterator[Gate]:
    parts = (
        ("false positives", " change in minors called over", gates.max_decision_shift),
        ("false negatives", " change in adults called under", gates.max_decision_shift),
        ("calibration", " change of the calibration error", gates.max_calibration_shift),
    )
    for what, unit, limit in parts:
        changes = [(getattr(item, what.replace(" ", "_")), item.name) for item in shifts]
        change, name = max(changes, key=lambda pair: _end(pair[0]))
        yield _gate(f"{step} ({what})", change, limit, unit, f"{name}: {_span(change)}")
    needed = people_for(gates.max_group_shift)
    judged = [(group.change, group, item) for item in shifts for group in item.groups if group.people >= needed]
    small = sorted({group.name for item in shifts for group in item.groups if group.people < needed})
    if not judged and not small:
        return
    beside = f"; not judged, fewer than {needed} minors: {', '.join(small)}" if small else ""
    if not judged:
        gate = _gate(f"{step} (worst group)", None, gates.max_group_shift, " change in its minors called over", beside[2:])
        yield replace(gate, inconclusive=True)
        return
    change, group, item = max(judged, key=lambda row: _end(row[0]))
    before, after = item.gap or (0.0, 0.0)
    detail = f"{item.name}: {group.name} {_span(change)}; gap between groups {before:.3f} to {after:.3f}{beside}"
    yield _gate(f"{step} (worst group)", change, gates.max_group_shift, " change in its minors called over", detail)


def _end(change: Estimate) -> float:
    """The end of the interval that is farther from no change."""
    return max(abs(change.value if end is None else end) for end in (change.low, change.high))


def _span(change: Estimate) -> str:
    ends = "" if change.low is None or change.high is None else f" ({change.low:+.4f} to {change.high:+.4f})"
    return f"{change.value:+.4f}{ends}"


def _gate(name: str, change: Estimate | None, limit: float, unit: str, detail: str) -> Gate:
    value = None if change is None else _end(change)
    seen = change is not None and ((change.low or 0.0) > 0.0 or (change.high or 0.0) < 0.0)
    holds = value is not None and value <= limit
    return Gate(
        name=name, value=value, limit=limit, comparison="<=", passed=holds, unit=unit, detail=detail,
        inconclusive=not holds and not seen,
    )  # fmt: skip


def decision_card(decided: Decided) -> str:
    """What a bundle's card says of its decision, in Markdown."""
    record = decided.record
    age = f"{record.age:g}"
    lines = [
        f"\nWhether somebody is over {age}: *over* from P(age >= {age}) = {record.over_from:.6g}, *under* up to",
        f"{record.under_to:.6g}, *unsure* between. It holds {record.limit()},",
        f"for people like those that it was fitted on (the model never saw them: {record.apart}). It notices no picture of a",
        "picture, no mask and no injected picture, and nobody certified it.\n",
        "| file | minors over | minors unsure | adults over | adults unsure | adults under |",
        "|---|---|---|---|---|---|",
    ]
    for item in record.models:
        said = (item.minors.over, item.minors.unsure, item.adults.over, item.adults.unsure, item.adults.under)
        lines.append(f"| {item.name} | {' | '.join(f'{100 * share:.1f} %' for share in said)} |")
    lines.append("")
    lines += [f"{name} was not run here: the limits are not shown to hold on it.\n" for name in decided.not_run]
    for group in record.groups:
        word = "the limits hold in it by itself" if group.holds else "too few, the limits are not shown to hold in it"
        lines.append(f"- {record.by} {group.name}: {group.minors} minors, {group.adults} adults: {word}")
    return "\n".join(lines) + "\n"
