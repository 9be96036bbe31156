"""What a model's card says of age assurance, under the headings of ISO/IEC 27566-1, from an
evaluation. Plain strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from unplug.core import OutputError, atomic_path, percent, plain
from unplug.sdk.evidence.statistics import Estimate

from .copies import copies_left_out
from .evaluation_report import Challenge, EvaluationReport, ModelEvaluation, Processing, Rate

HEADING = "## Age assurance, under the headings of ISO/IEC 27566-1"
"""What the part of a card begins with; all below it is written anew with every evaluation."""
MAX_CARD_BYTES = 2**20
APART = {
    "held out": "people of the {part} set, whom it did not learn from",
    "other data": "people of other data than it learned from",
    "unknown": "people of whom nobody said whether it learned from them",
}
CERTIFIED = (
    "Nobody certified or assessed this model against the standard: the headings order what was "
    "measured, and claim no "
    "conformity."
)
NO_LIVENESS = (
    "There is no liveness check (presentation attack detection) and no defence against injected "
    "pictures: a photograph of an "
    "older person passes as that person. The deployer brings both."
)
PRIVATE = (
    "The model runs on the device and answers with an age: no picture has to leave it, and "
    "none is kept by the model. Who "
    "was trained on can ask to be forgotten; what was done about that stands above and in the "
    "record."
)


def card_text(report: EvaluationReport, model: ModelEvaluation) -> str:
    """The part of a card about age assurance, Markdown.

    Args:
        report: the evaluation.
        model: the one of its models that the card is of.
    """
    parts = (
        ("", [CERTIFIED]),
        ("Functional characteristics", _function(model)),
        ("Performance characteristics", _performance(report, model)),
        ("Privacy characteristics", [PRIVATE]),
        ("Security characteristics", [NO_LIVENESS]),
        ("Acceptability characteristics", _acceptability(model)),
        ("Practice statement", _practice(report)),
    )
    lines = [HEADING, ""]
    for title, paragraphs in parts:
        lines += [f"### {title}", ""] if title else []
        for paragraph in paragraphs:
            lines += [paragraph, ""]
    return "\n".join(lines)


def add_to_card(folder: Path, text: str) -> None:
    """Puts the part about age assurance at the end of a ``README.md``, in the place of an older
    one.

    Raises:
        OutputError: the file is not a card, or cannot be written.
    """
    path = folder / "README.md"
    try:
        if path.stat().st_size > MAX_CARD_BYTES:
            raise OutputError(
                str(path),
                "it is too large for a card",
                "Restore the card that was written with the model",
            )
        card = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OutputError(
            str(path), str(error), "Restore the card that was written with the model"
        ) from error
    with atomic_path(path) as temporary:
        temporary.write_text(f"{card.partition(HEADING)[0].rstrip()}\n\n{text}", encoding="utf-8")


def _function(model: ModelEvaluation) -> Iterator[str]:
    borders = ", ".join(f"{edge:g}" for edge in model.edges[:64])
    yield (
        "It estimates an age from one picture of one face, and a probability for each group of "
        "ages; P(age >= T) follows for "
        f"every T between its borders ({borders}{', ...' if len(model.edges) > 64 else ''} years), "
        "without an assumption where "
        "T is one of them. It identifies nobody, and verifies no document. Another method must "
        "answer whom it cannot."
    )


def _performance(report: EvaluationReport, model: ModelEvaluation) -> Iterator[str]:
    people = report.people
    copies = "" if people.copies is None else f"; {copies_left_out(people.copies)}"
    yield (
        f"Measured on {people.pictures} pictures of {people.people} "
        f"{APART[people.apart].format(part=people.part)}; "
        f"{people.minors} of them under 18{copies}. Intervals are 95 %, over people."
    )
    teenagers = model.teenagers
    within = model.cumulative.get("5")
    rows = [
        ("mean absolute error", _years(model.mae)),
        ("mean signed error (too old where positive)", _years(model.bias)),
        *(() if within is None else [("within five years", _plain(percent(within.value)))]),
        *(row for item in model.challenges for row in _challenge(item)),
        ("seem 13 to 16, of those who are", _rate(teenagers.true_positives)),
        ("seem 13 to 16, of everybody else", _rate(teenagers.false_positives)),
        ("failures to process: unreadable files", _rate(model.failures)),
        *_processing(report.processing),
    ]
    yield "\n".join(["| what | value |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)])
    reasons = {**report.refused, **model.refused}
    if reasons:
        yield "Not said, for the sample does not support it:"
        yield "\n".join(f"- {plain(name, 80)}: {plain(why, 300)}." for name, why in reasons.items())


def _processing(found: Processing | None) -> Iterator[tuple[str, str]]:
    what = "failures to process: by the quality check of faces"
    if found is None or found.any is None:
        why = "" if found is None else f": {plain(found.unmeasured or '', 120)}"
        yield what, f"not measured{why}"
        return
    yield what, _rate(found.any)
    for fault, share in found.faults.items():
        yield f"of these: {plain(fault, 40)}", _rate(share)


def _challenge(item: Challenge) -> Iterator[tuple[str, str]]:
    what = f"Challenge-{item.age:g}"
    yield f"{what}: minors of 14 to 17 who pass", _rate(item.fate_minors)
    yield f"{what}: all minors who pass", _rate(item.minors)
    yield f"{what}: adults of 18 to 24 who are rejected", _rate(item.rejected)


def _acceptability(model: ModelEvaluation) -> Iterator[str]:
    if not model.groups:
        yield (
            "The data say of nobody to which group they belong, so whom the mean hides is not "
            "known."
        )
        return
    if model.worst_group is not None and (gap := model.group(model.worst_group).gap) is not None:
        yield (
            f"Worst group: {plain(model.worst_group, 80)}, {_years(gap)} above everybody else at "
            "the same ages."
        )
    lines = ["| group | people | mean absolute error | above others of the same ages |"]
    lines.append("|---|---|---|---|")
    for row in model.groups:
        error, above = (
            "too few people" if number is None else _years(number) for number in (row.mae, row.gap)
        )
        lines.append(f"| {_plain(plain(row.cell, 80))} | {row.people} | {error} | {above} |")
    yield "\n".join(lines)


def _practice(report: EvaluationReport) -> Iterator[str]:
    yield (
        f"`unplug evaluate --protocol {report.protocol}`, unplug {report.versions.get('unplug')}, "
        "data digest "
        f"`{str(report.data.get('digest'))[:16]}`, seed {report.settings.get('seed')}; a decision "
        "is made where "
        f"{report.settings.get('decision')}."
    )
    if str(report.data.get("spec", "")).startswith("synth:"):
        yield "The pictures are procedural faces, so none of these numbers is a claim about people."
    for alarm in report.alarms:
        yield f"**{alarm.kind}** ({plain(alarm.model, 120)}): {plain(alarm.message, 300)}."


def _years(item: Estimate) -> str:
    ends = "" if item.low is None or item.high is None else f" ({item.low:.2f} to {item.high:.2f})"
    return f"{item.value:.2f} years{ends}"


def _rate(found: Rate) -> str:
    if found.value is None or found.low is None or found.high is None:
        return f"not said: {found.people} people are too few"
    return (
        f"{100 * found.value:.1f} % ({100 * found.low:.1f} to {100 * found.high:.1f}), "
        f"{found.people} people"
    )


def _plain(text: str) -> str:
    """Text of an attribute, fit for a cell of a table in Markdown."""
    return text.replace("|", "/").replace("\u00a0", " ")
