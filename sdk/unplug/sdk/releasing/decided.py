"""What became of a decision in a release, and what the bundle's card says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from unplug.core import STRICT
from unplug.sdk.drawing.inference import DecisionRecord
from unplug.sdk.evidence.assurance import Copies, Shift


@dataclass(frozen=True, kw_only=True)
class Decided:
    """``unplug-decided/1``: what became of a decision in a release.

    Args:
        record: the record that ships: re-fitted on the unlearned model and on every exported file
            that runs here.
        forgetting: the shift from the original to the unlearned model, at the rule that was in
            force.
        rounding: the shift from the unlearned model to each exported file, at that rule; of a
            family from each member to its files.
        not_run: exported file to why it was not run: there the limits are not shown to hold.
        copies: pictures of the training that lay among these people under another name, see
            `Copies`; null where nothing says what the models saw, and in records from before pixels
            were compared.
        members: `forgetting` of the other members of a family.
        schema: always ``unplug-decided/1``.
    """

    __pydantic_config__: ClassVar = STRICT

    record: DecisionRecord
    forgetting: Shift
    rounding: tuple[Shift, ...]
    not_run: dict[str, str]
    copies: Copies | None = None
    members: tuple[Shift, ...] = ()
    schema: Literal["unplug-decided/1"] = "unplug-decided/1"


def decision_card(decided: Decided) -> str:
    """What a bundle's card says of its decision, in Markdown."""
    record = decided.record
    age = f"{record.age:g}"
    lines = [
        f"\nWhether somebody is over {age}: *over* from P(age >= {age}) = {record.over_from:.6g}, "
        "*under* up to",
        f"{record.under_to:.6g}, *unsure* between. It holds {record.limit()},",
        f"for people like those that it was fitted on (the model never saw them: {record.apart}). "
        "It notices no picture of a",
        "picture, no mask and no injected picture, and nobody certified it.\n",
        "| file | minors over | minors unsure | adults over | adults unsure | adults under |",
        "|---|---|---|---|---|---|",
    ]
    for item in record.models:
        shares = (
            item.minors.over,
            item.minors.unsure,
            item.adults.over,
            item.adults.unsure,
            item.adults.under,
        )
        lines.append(f"| {item.name} | {' | '.join(f'{100 * share:.1f} %' for share in shares)} |")
    lines.append("")
    lines += [
        f"{name} was not run here: the limits are not shown to hold on it.\n"
        for name in decided.not_run
    ]
    for group in record.groups:
        word = (
            "the limits hold in it by itself"
            if group.holds
            else "too few, the limits are not shown to hold in it"
        )
        lines.append(
            f"- {record.by} {group.name}: {group.minors} minors, {group.adults} adults: {word}"
        )
    return "\n".join(lines) + "\n"
