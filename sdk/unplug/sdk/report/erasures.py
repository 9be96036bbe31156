"""The page of a base from which concepts were erased: a section a concept, the verdict and the key
numbers.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from unplug.core import NONE, count, counted, fixed, percent, plain, seconds, size, span
from unplug.sdk.evidence.concepts import (
    CLAIMS,
    UNNAMED,
    Claim,
    ConceptAudit,
    ErasureAudit,
    RateRow,
    most_claimed,
)
from unplug.sdk.evidence.statistics import Estimate

from .page import (
    Block,
    Cell,
    Chip,
    Column,
    FigureGrid,
    KeyNumber,
    Notes,
    PictureGrid,
    PictureRow,
    Section,
    Table,
    both_widths,
    estimate_cell,
    words,
)
from .plots.erasure import Mark, Tried, rates_svg
from .png import data_uri

WIDTHS = (1000, 340)
AS_IT_IS = "as it is"
ROLES = {"original": "original", "erased": "unlearned", "oracle": "retrained"}
"""The roles of this audit, with those of the page, which give colours and marks."""
BASES = {"original": "original", "erased": "erased", "oracle": "never saw it"}
WAYS = {
    UNNAMED: "not named",
    "named": "named",
    "within": "named in the middle",
    "control-image": "control image",
    "image-to-image": "image to image",
    "inversion": "learned text states",
    "inverse-matrix": "inverse matrix",
}
MEANS: dict[Claim, str] = {
    "prompts": "prompts",
    "control images": "control images",
    "text states": "learned text states",
    "weights": "changed weights",
}
"""What an attacker uses of what he holds."""
CHIPS: dict[str, tuple[Chip, str]] = {
    "holds": ("pass", "holds"),
    "back": ("fail", "brought back"),
    "open": ("warn", "not shown"),
    "not tried": ("neutral", "not tried"),
}
SHOWN = {
    "original/named": "named",
    "erased/named": "named",
    "erased/control-image": "control image, not named",
    "oracle/named": "named",
    "original/unnamed": "not named",
}


@dataclass(frozen=True, kw_only=True)
class HeldAgainst:
    """What the rows of one kind of attacker say.

    Args:
        word: a key of `CHIPS`: "back" where an interval lies above that of the reference, "open"
            where it only reaches higher, so that more pictures would tell.
        worst: the erased base's row that reaches furthest above its reference, and the reference.
    """

    word: str
    worst: tuple[RateRow, RateRow] | None = None


def erasure(report: ErasureAudit, number: int) -> list[Section]:
    """A section a concept and one on what stays; `number` tells those of several files apart."""
    concepts = [
        _concept(report, concept, f"erased-{number}-{place}")
        for place, concept in enumerate(report.concepts, start=1)
    ]
    return [*concepts, _stays(report, f"stays-{number}")]


def erasure_words(reports: Sequence[ErasureAudit]) -> dict[str, Any]:
    """The fields of the verdict: of the concept that is held worst."""
    concepts = [concept for report in reports for concept in report.concepts]
    claim = most_claimed([concept.claims for concept in concepts])
    lines = [_said(concept) for concept in concepts]
    first = {_held(concept)["prompts"].word for concept in concepts}
    word, chip = "Inconclusive", "warn"
    if claim is not None:
        removed = claim == "weights"
        word, chip = ("Removed", "pass") if removed else (f"Holds against {claim}", "warn")
    elif "back" in first:
        word, chip = "Prompts still draw it", "fail"
    lead = lines[0]
    if len(concepts) > 1:
        lead = (
            f"{count(len(concepts))} concepts were erased; the verdict above is that of the worst."
        )
    facts = lines if len(concepts) > 1 else []
    facts += [_alike(report) for report in reports]
    sentence = _named(concepts[0]) if len(concepts) == 1 else ""
    return {"word": word, "chip": chip, "lead": lead, "sentence": sentence, "facts": tuple(facts)}


def erasure_numbers(report: ErasureAudit) -> Iterator[KeyNumber]:
    """What a reader should take away."""
    for concept in report.concepts[:6]:
        named = _row(concept, "named", "erased")
        if named is not None:
            label = f"Prompts that say “{plain(concept.words, 40)}”"
            yield _moved(label, concept, named)
        rows = [row for row in concept.rows if row.role == "erased" and row.holds != "prompts"]
        rows = [row for row in rows if row.attack != UNNAMED]
        if rows and len(report.concepts) == 1:
            most = max(rows, key=lambda row: row.rate.value)
            label = "control image" if most.attack == "control-image" else _way(most)
            yield _moved(f"Most by other means: {label}", concept, most)
    if len(report.concepts) == 1:
        judge = report.concepts[0].judge
        ends = span(judge.recall.low, judge.recall.high, 1, scale=100.0)
        note = f"of what is there, {ends}; false alarms {_rate(judge.false_alarms)}"
        yield KeyNumber("The judge sees", percent(judge.recall.value), note)
    db = report.retained_db
    note = "mean PSNR to the original's, at the same noise"
    ends = span(db.low, db.high, 1)
    yield KeyNumber(
        "Other pictures", f"{fixed(db.value, 1)} dB", f"{ends}; {note}" if ends else note
    )


def _moved(label: str, concept: ConceptAudit, row: RateRow) -> KeyNumber:
    before = _row(concept, row.attack, "original", row.form)
    start = "" if before is None else f"{percent(before.rate.value, 0)} → "
    aside = f"of pictures; {span(row.rate.low, row.rate.high, 1, scale=100.0)}"
    oracle = _row(concept, row.attack, "oracle", row.form)
    if oracle is not None:
        aside += f"; a base that never saw it {percent(oracle.rate.value)}"
    return KeyNumber(label, f"{start}{percent(row.rate.value, 0)}", aside)


def _row(concept: ConceptAudit, attack: str, role: str, form: str = AS_IT_IS) -> RateRow | None:
    key = attack, role, form
    return next((row for row in concept.rows if (row.attack, row.role, row.form) == key), None)


def _way(row: RateRow) -> str:
    """An attack and the base's form in plain words."""
    way = WAYS.get(row.attack)
    if way is None:
        name, _, steps = row.attack.partition(" ")
        again = name == "relearn" and steps.isdecimal()
        way = f"relearned, {plain(steps, 10)} steps" if again else plain(row.attack, 30)
    return way if row.form == AS_IT_IS else f"{way}, {plain(row.form, 20)}"


def _rate(rate: Estimate) -> str:
    return f"{percent(rate.value)} ({span(rate.low, rate.high, 1, scale=100.0)})"


def _held(concept: ConceptAudit) -> dict[Claim, HeldAgainst]:
    """What the rows say of each attacker."""
    unasked = _row(concept, UNNAMED, "original")
    found = dict[Claim, HeldAgainst]()
    for claim in CLAIMS:
        pairs = [
            (row, beside)
            for row in concept.rows
            if row.role == "erased"
            and row.holds == claim
            and (beside := _row(concept, row.attack, "oracle", row.form) or unasked)
        ]
        if not pairs or concept.claims[claim] == "not tried":
            found[claim] = HeldAgainst(word="not tried")
            continue
        word = "holds" if concept.claims[claim] == "holds" else "open"
        if word == "open" and any(_above(row, beside) > 0 for row, beside in pairs):
            word = "back"
        worst = max(pairs, key=lambda pair: (_reach(*pair), pair[0].rate.value))
        found[claim] = HeldAgainst(word=word, worst=worst)
    return found


def _above(row: RateRow, beside: RateRow) -> float:
    """How far a whole interval lies above another; below zero where they touch."""
    return (row.rate.low or 0.0) - (beside.rate.high or 0.0)


def _reach(row: RateRow, beside: RateRow) -> float:
    return (row.rate.high or 0.0) - (beside.rate.high or 0.0)


def _said(concept: ConceptAudit) -> str:
    """The verdict in words: what no longer draws the concept, what brings it back, what nobody
    tried.
    """
    name, held = f"“{plain(concept.words, 60)}”", _held(concept)
    claim = most_claimed([concept.claims])
    prompts = held["prompts"].word
    firsts: dict[Claim | None, str] = {
        None: {
            "back": f"Prompts still draw {name}.",
            "open": f"These are too few pictures to say whether prompts still draw {name}.",
        }.get(prompts, f"Nobody tried whether prompts draw {name}."),
        "prompts": f"Prompts no longer draw {name}.",
        "control images": f"Neither prompts nor control images draw {name} any more.",
        "text states": f"Prompts, control images and learned text states no longer draw {name}.",
        "weights": f"{name} is removed: nothing that was tried brings it back.",
    }
    lines = [firsts[claim]]
    rest = [one for one in CLAIMS if one != "prompts" and held[one].word != "holds"]
    ends = {
        "back": "bring it back",
        "open": "may bring it back, which these few pictures do not tell",
        "not tried": "were not tried",
    }
    for word, end in ends.items():
        if names := [MEANS[one] for one in rest if held[one].word == word]:
            listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
            lines.append(f"{listed[:1].upper()}{listed[1:]} {end}.")
    return " ".join(lines)


def _named(concept: ConceptAudit) -> str:
    """The numbers of prompts that say it, of every base."""
    told = [
        f"{BASES[role]} {_rate(row.rate)}"
        for role in BASES
        if (row := _row(concept, "named", role)) is not None
    ]
    unasked = _row(concept, UNNAMED, "original")
    if not told or unasked is None:
        return ""
    return (
        f"Share of pictures that show it when the prompt says it: {', '.join(told)}; when it does "
        f"not, original {_rate(unasked.rate)}."
    )


def _alike(report: ErasureAudit) -> str:
    db = report.retained_db
    ends = span(db.low, db.high, 1)
    return (
        "Pictures of other prompts match the original's at the same noise to "
        f"{fixed(db.value, 1)} dB{f' ({ends})' if ends else ''}; at 100 dB they would be equal."
    )


def _concept(report: ErasureAudit, concept: ConceptAudit, name: str) -> Section:
    blocks: list[Block] = [_claims(report, concept)]
    if any(concept.pictures.values()):
        blocks.append(_pictures(concept))
    ways = list(_ways(concept))
    unasked = _row(concept, UNNAMED, "original")
    limit = None if "oracle" in report.models or unasked is None else unasked.rate.high
    draw = partial(rates_svg, ways, title="How often it is drawn", limit=limit)
    caption = f"Bars: 95 %. Each rate is of {counted(report.pictures, 'picture')}."
    if limit is not None:
        caption += (
            " Dashed: the end of the original's interval without the words, which the erased "
            "base's may not exceed."
        )
    plot = both_widths(draw, WIDTHS, name=name, caption=caption)
    blocks += [FigureGrid([plot], columns=1), _rates(report, concept), Notes(_notes(concept))]
    return Section(name, f"“{plain(concept.words, 60)}”", _said(concept), blocks)


def _claims(report: ErasureAudit, concept: ConceptAudit) -> Table:
    oracle = "oracle" in report.models
    columns = [
        words("Attacker holds"),
        words("the erasure"),
        words("came closest by"),
        Column("erased base", interval=True),
        Column("a base that never saw it" if oracle else "original, not named", interval=True),
    ]
    rows = []
    for claim, held in _held(concept).items():
        chip, text = CHIPS[held.word]
        cells = [Cell(NONE)] * 3
        if held.worst is not None:
            rates = [estimate_cell(row.rate, share=True) for row in held.worst]
            cells = [Cell(_way(held.worst[0])), *rates]
        rows.append([Cell(claim), Cell(text, chip=chip), *cells])
    caption = (
        "An attacker further down has all that those above have. It holds where the erased base's "
        "interval reaches no higher than the other's"
    )
    return Table.of(caption, columns, rows, inline=True)


def _pictures(concept: ConceptAudit) -> PictureGrid:
    rows = [
        PictureRow(
            label=f"{BASES[role]}: {SHOWN[name]}",
            role=ROLES[role],
            uris=[data_uri(base64.b64decode(png)) for png in pictures],
        )
        for name in SHOWN
        if (pictures := concept.pictures.get(name)) and (role := name.partition("/")[0])
    ]
    caption = (
        "The first pictures of each row, small and in few colours: none were chosen. A column is "
        "one prompt and one noise."
    )
    return PictureGrid(caption=caption, rows=rows)


def _ways(concept: ConceptAudit) -> Iterator[Tried]:
    holder: Claim | None = None
    for claim, rows in _tried(concept):
        first = next(iter(rows.values()))
        marks = [
            Mark(
                role=ROLES[role],
                label=BASES[role],
                value=row.rate.value,
                low=row.rate.low or 0.0,
                high=row.rate.high or 0.0,
            )
            for role, row in rows.items()
        ]
        heading = "" if claim in (None, holder) else str(claim)
        yield Tried(label=_way(first), marks=marks, heading=heading)
        holder = claim


def _tried(concept: ConceptAudit) -> list[tuple[Claim | None, dict[str, RateRow]]]:
    """Each attack in each form with its rows by base, the attacker who holds least first."""
    found = dict[tuple[str, str], dict[str, RateRow]]()
    for row in concept.rows:
        found.setdefault((row.attack, row.form), {})[row.role] = row
    order = (None, *CLAIMS)
    tried = [(next(iter(rows.values())).holds, rows) for rows in found.values()]
    return sorted(tried, key=lambda pair: order.index(pair[0]))


def _rates(report: ErasureAudit, concept: ConceptAudit) -> Table:
    roles = [role for role in BASES if role in report.models]
    columns = [words("Attack"), *(Column(BASES[role], interval=True) for role in roles)]
    columns.append(Column("pictures"))
    groups = dict[str, list[list[Cell]]]()
    for claim, rows in _tried(concept):
        first = next(iter(rows.values()))
        cells = [
            estimate_cell(rows[role].rate if role in rows else None, share=True) for role in roles
        ]
        line = [Cell(_way(first)), *cells, Cell(count(first.pictures))]
        groups.setdefault("" if claim is None else f"attacker holds {claim}", []).append(line)
    caption = "Share of pictures in which the judge sees it, with exact 95 % intervals"
    return Table(caption, columns, list(groups.items()), inline=True)


def _notes(concept: ConceptAudit) -> list[str]:
    judge = concept.judge
    lines = [
        f"The judge is a small network ({plain(judge.source, 80)}). Of {count(judge.held_out[0])} "
        f"pictures with it and {count(judge.held_out[1])} without, from which it did not learn, it "
        f"sees it in {_rate(judge.recall)} and in {_rate(judge.false_alarms)}. Nothing is taken "
        "off the rates for that."
    ]
    return lines + [
        f"Not tried: {WAYS.get(attack, plain(attack, 30))}, for {plain(why, 300)}."
        for attack, why in concept.left_out.items()
    ]


def _stays(report: ErasureAudit, name: str) -> Section:
    blocks: list[Block] = []
    if report.beside:
        blocks.append(_beside(report.beside))
    edit = (
        "weights of the base itself are changed"
        if report.edit_bytes is None
        else f"the edit is a map of {size(report.edit_bytes)}"
    )
    wall, device = report.cost.get("wall_s"), report.cost.get("device")
    lines = [f"Erased by {plain(report.method, 40)}: {edit}."]
    if apart := report.frechet:
        lines.append(
            f"Fréchet distance of other pictures: {apart.erased:.4g} from the original's, where the "
            f"original's own have {apart.original:.4g}. It is of {counted(apart.pictures, 'picture')} "
            f"on each side, in {counted(apart.components, 'component')} of what the autoencoder sees; "
            "with so few, only comparing the two says something."
        )
    if isinstance(wall, int | float) and isinstance(device, str):
        lines.append(f"The audit took {seconds(wall)} on {plain(device, 80)}.")
    if not report.beside:
        lines.append("No other words were asked for (unplug audit --beside).")
    return Section(name, "What stays", _alike(report), [*blocks, Notes(lines)])


def _beside(beside: Mapping[str, Mapping[str, Estimate]]) -> Table:
    columns = [
        words("Words"),
        Column("original", interval=True),
        Column("erased", interval=True),
    ]
    rows = [
        [
            Cell(plain(name, 60)),
            *(estimate_cell(rates[role], share=True) for role in ("original", "erased")),
        ]
        for name, rates in beside.items()
    ]
    caption = "How often other words are still drawn: share of pictures, each by a judge of its own"
    return Table.of(caption, columns, rows, inline=True)
