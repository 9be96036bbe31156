"""The sections of an evaluation, its verdict and its key numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from unplug.core import NONE, count, fixed, milliseconds, percent, plain, signed, size, span
from unplug.sdk.evidence.assurance import (
    Challenge,
    Claim,
    EvaluationReport,
    ModelEvaluation,
    Rate,
    copies_left_out,
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
    Section,
    Table,
    both_widths,
    estimate_cell,
    words,
)
from .plots.assurance import Trace, det_svg, years_svg
from .plots.audit import ForestRow, forest_svg
from .plots.canvas import COLOUR

WIDTHS, HALF = (1000, 340), (488, 340)
DRAWN = 4  # models in one plot
PROBABILITY = "retrained"  # the colour of its curve
MAX_GROUPS = 30  # cells in a plot and in a table
CHIPS: dict[str, tuple[Chip, str]] = {
    "held": ("pass", "held"),
    "broken": ("fail", "broken"),
    "open": ("warn", "open"),
}
CAUTION = (
    "Whether a face is alive or a camera real: there is no liveness check and no defence against "
    "injected pictures here.",
    "That anybody certified the model: these are measurements by the people who ran them, not a "
    "certification.",
    "Anything about kinds of people who are not in the data. Procedural faces support no claim "
    "about people at all.",
)


def assurance(report: EvaluationReport, number: int) -> list[Section]:
    """All sections of one evaluation, in reading order; `number` tells those of several on a page
    apart.
    """
    sections = [
        part(report, number) for part in (_limits, _ages, _groups, _teenagers, _models, _bounds)
    ]
    return [replace(section, id=f"{section.id}-{number}") for section in sections if section.blocks]


def assurance_numbers(report: EvaluationReport) -> list[KeyNumber]:
    """What a reader should take away of the first model."""
    model = report.models[0]
    name = plain(model.label, 40)
    numbers = [
        KeyNumber(
            "Mean error",
            f"{fixed(model.mae.value, 2)} years",
            _note(model.mae.low, model.mae.high, name),
        )
    ]
    if model.challenges:
        last = model.challenges[-1]
        for label, rate in (
            (f"Minors of 14 to 17 who pass Challenge-{last.age:g}", last.fate_minors),
            (f"18 to 24 whom Challenge-{last.age:g} rejects", last.rejected),
        ):
            numbers.append(KeyNumber(label, percent(rate.value), _rate_note(rate)))
    if model.worst_group is not None and (gap := model.group(model.worst_group).gap) is not None:
        numbers.append(
            KeyNumber(
                f"Worst group, {plain(model.worst_group, 40)}",
                f"{signed(gap.value, 1)} years",
                f"{span(gap.low, gap.high, 1, sign=True)}, against others of the same ages",
            )
        )
    return numbers


def assurance_words(report: EvaluationReport) -> dict[str, Any]:
    """The fields of the verdict."""
    people, first = report.people, report.models[0]
    whom = {
        "held out": "whom none of them learned from",
        "other data": "of other data than they learned from",
        "unknown": "of whom nobody said whether they learned from them",
    }[people.apart]
    many = "1 model" if len(report.models) == 1 else f"{len(report.models)} models"
    lead = (
        f"{many} on {count(people.pictures)} pictures of {count(people.people)} people {whom}; "
        f"{count(people.minors)} of them "
        "are under 18."
    )
    sentence = "" if not first.challenges else _sentence(first)
    facts = tuple(
        f"Not said: {plain(name, 80)}: {plain(why, 300)}." for name, why in report.refused.items()
    )
    same = (
        ()
        if people.subjects_apart or people.apart != "held out"
        else (
            "The data do not say who is in a picture, so one person may be on both sides of the "
            "split: errors may look smaller.",
        )
    )
    copies = () if people.copies is None else (f"{copies_left_out(people.copies)}.",)
    warned = bool(report.alarms) or people.apart == "unknown"
    return {
        "word": "Evaluated",
        "chip": "warn" if warned else "neutral",
        "lead": lead,
        "sentence": sentence,
        "facts": (*copies, *same, *facts),
    }


def _sentence(model: ModelEvaluation) -> str:
    last = model.challenges[-1]
    return (
        f"{plain(model.label, 40)}: mean error {fixed(model.mae.value, 2)} years "
        f"({span(model.mae.low, model.mae.high, 2)}); "
        f"Challenge-{last.age:g} lets {percent(last.fate_minors.value)} "
        f"({_span(last.fate_minors)}) of people of 14 to 17 pass, "
        f"and rejects {percent(last.rejected.value)} ({_span(last.rejected)}) of those of 18 to 24."
    )


def _limits(report: EvaluationReport, number: int) -> Section:
    lead = (
        "Challenge-T lets people pass who seem T or older. A higher T lets fewer minors pass and "
        "rejects more adults: all adults "
        "of these data in the curve, those of 18 to 24 in the table, where a challenge costs most."
    )
    drawn = list(_drawn(report))
    traces = [
        trace for model, role, style in drawn if (trace := _det(model, role, style)) is not None
    ]
    traces += [
        trace
        for model, _, style in drawn[:1]
        if (trace := _det(model, PROBABILITY, style, "probability")) is not None
    ]
    blocks: list[Block] = []
    if traces:
        draw = partial(
            det_svg,
            traces,
            title="Minors who pass against adults rejected",
            least=1 / max(1, report.people.minors),
        )
        passing = partial(
            years_svg,
            _passing(report.models[0]),
            title="Who passes",
            y="seem T or older",
            share=True,
        )
        told = (
            "A threshold on the estimated age, named points are Challenge-T of the first model; "
            "and one on P(age ≥ 18), which "
            "`unplug threshold` chooses."
        )
        shown = (
            "The first model, by year of age; shaded 95 %. Left of 18 these are false positives."
        )
        figures = [
            both_widths(draw, HALF, name=f"det-{number}", caption=told),
            both_widths(passing, HALF, name=f"passing-{number}", caption=shown),
        ]
        blocks.append(FigureGrid(figures, columns=2))
    blocks.append(_challenges(report))
    return Section("limits", "At the limits", lead, blocks)


def _det(model: ModelEvaluation, role: str, style: int, score: str = "age") -> Trace | None:
    curve = next((challenge for challenge in model.det if challenge.score == score), None)
    if curve is None:
        return None
    threshold_N = np.array(curve.threshold)
    positive_N, rejection_N = np.array(curve.false_positive), np.array(curve.false_rejection)
    marks = []
    for challenge in model.challenges if style == 0 and score == "age" else ():
        places = np.flatnonzero(threshold_N >= challenge.age)
        if len(places):
            marks.append(
                (
                    float(positive_N[places[-1]]),
                    float(rejection_N[places[-1]]),
                    f"{challenge.age:g}",
                )
            )
    label = _label(model) if score == "age" else "the first, by P(age ≥ 18)"
    return Trace(
        role=role, label=label, style=style, x_N=positive_N, y_N=rejection_N, marks=tuple(marks)
    )


def _passing(model: ModelEvaluation) -> list[Trace]:
    roles = list(COLOUR)
    traces = []
    for place, challenge in enumerate(model.challenges[:DRAWN]):
        rates = {int(age): _ends(rate) for age, rate in challenge.by_year.items()}
        rates |= {int(age): _other(rate) for age, rate in challenge.rejected_by_year.items()}
        # four bands over another hide all of them
        shaded = place in (0, len(model.challenges) - 1)
        label = f"Challenge-{challenge.age:g}"
        traces.append(_by_year(rates, roles[place % len(roles)], label, place, shaded=shaded))
    return traces


Ends = tuple[float | None, float | None, float | None]
"""A number and its interval."""


def _by_year(
    rates: Mapping[int, Ends], role: str, label: str, style: int, *, shaded: bool
) -> Trace:
    """A line over ages; a year of too few people is a gap."""
    ages = range(min(rates, default=0), max(rates, default=0) + 1)
    rows = np.array([rates.get(age, (None, None, None)) for age in ages], float)
    return Trace(
        role=role,
        label=label,
        style=style,
        x_N=np.array(ages, float),
        y_N=rows[:, 0],
        low_N=rows[:, 1] if shaded else None,
        high_N=rows[:, 2] if shaded else None,
    )


def _ends(rate: Rate | Estimate) -> Ends:
    return rate.value, rate.low, rate.high


def _other(rate: Rate) -> Ends:
    """The people who pass, of those who are rejected."""
    if rate.value is None or rate.low is None or rate.high is None:
        return None, None, None
    return 1.0 - rate.value, 1.0 - rate.high, 1.0 - rate.low


def _challenges(report: EvaluationReport) -> Table:
    limit = percent(report.limit, 1 if 1000 * report.limit % 10 else 0)
    columns = [
        words("Model"),
        Column("14 to 17", unit="pass"),
        words(f"at most {limit}"),
        Column("all minors", unit="pass"),
        words(f"at most {limit}"),
        Column("18 to 24", unit="rejected"),
    ]
    ages = [item.age for item in report.models[0].challenges]
    groups = [
        (
            f"Challenge-{age:g}",
            [
                _challenge_row(model, item)
                for model in report.models
                for item in model.challenges
                if item.age == age
            ],
        )
        for age in ages
    ]
    caption = f"False positives and false rejections; whether at most {limit} is shown, at 95 %"
    return Table(caption, columns, groups)


def _challenge_row(model: ModelEvaluation, item: Challenge) -> list[Cell]:
    return [
        _head(model),
        _rate_cell(item.fate_minors),
        _claim_cell(item.fate_claim),
        _rate_cell(item.minors),
        _claim_cell(item.claim),
        _rate_cell(item.rejected),
    ]


def _ages(report: EvaluationReport, number: int) -> Section:
    def traces(part: str) -> list[Trace]:
        return [
            _by_year(
                {row.age: _ends(item) for row in model.years if (item := getattr(row, part))},
                role,
                _label(model),
                style,
                shaded=style == 0,
            )
            for model, role, style in _drawn(report)
        ]

    size_of = partial(years_svg, traces("mae"), title="Mean absolute error", y="years")
    sign_of = partial(
        years_svg, traces("bias"), title="Mean signed error", y="years too old", zero=True
    )
    told = "By year of age; shaded 95 % of the first model."
    shown = "Above zero people are called older than they are, which is what lets minors pass."
    figures = [
        both_widths(size_of, HALF, name=f"mae-{number}", caption=told),
        both_widths(sign_of, HALF, name=f"bias-{number}", caption=shown),
    ]
    scores = sorted(report.models[0].cumulative, key=float)
    columns = [
        words("Model"),
        *(Column(f"within {a}", unit="years") for a in scores),
    ]
    rows = [[_head(model), *(_share_cell(model, a) for a in scores)] for model in report.models]
    table = Table.of(
        "Cumulative score: share of pictures within so many years",
        columns,
        rows,
    )
    lead = "Years with fewer than five people are left out."
    return Section(
        "ages",
        "By age",
        lead,
        [FigureGrid(figures, columns=2), table],
    )


def _groups(report: EvaluationReport, number: int) -> Section:
    first = report.models[0]
    gaps = [row for row in first.groups if row.gap is not None][:MAX_GROUPS]
    blocks: list[Block] = []
    if gaps:
        rows = [
            ForestRow.of(plain(row.cell, 34), "original", row.gap)
            for row in gaps
            if row.gap is not None
        ]
        spoken = "Error above everybody else's at the same ages: " + "; ".join(
            f"{row.label} {row.value:+.1f}" for row in rows
        )
        draw = partial(
            forest_svg,
            rows,
            title=plain(first.label, 40),
            x="years above everybody else of the same ages",
            spoken=spoken,
            aim=0.0,
            pitch=24,
        )
        blocks.append(
            FigureGrid(
                [
                    both_widths(
                        draw,
                        WIDTHS,
                        name=f"gaps-{number}",
                        caption="Bars: 95 %, for all groups at once.",
                    )
                ],
                columns=1,
            )
        )
    shown: set[str] = set()
    for model in report.models:
        if model.groups and not (model.precision == "fp32" and model.checkpoint_sha256 in shown):
            blocks.append(_group_table(model))
        shown.add(model.checkpoint_sha256)
    lead = (
        "A gap compares with everybody else at the same ages, for errors grow with age. An fp32 "
        "file says what its checkpoint "
        "says and has no table of its own."
    )
    return Section("groups", "By group", lead, blocks)


def _group_table(model: ModelEvaluation) -> Table:
    last = model.challenges[-1] if model.challenges else None
    columns = [
        words("Group"),
        Column("people"),
        Column("mean error", unit="years"),
        Column("too old", unit="years"),
        Column("gap", unit="years"),
    ]
    if last is not None:
        columns.append(Column(f"minors pass {last.age:g}"))
    rows = [
        [
            Cell(plain(row.cell, 60)),
            Cell(count(row.people)),
            estimate_cell(row.mae, 1),
            estimate_cell(row.bias, 1, sign=True),
            estimate_cell(row.gap, 1, sign=True),
            *([] if last is None else [_rate_cell(last.by_group[row.cell])]),
        ]
        for row in model.groups[:MAX_GROUPS]
    ]
    return Table.of(plain(model.label, 60), columns, rows)


def _teenagers(report: EvaluationReport, number: int) -> Section:
    columns = [
        words("Model"),
        Column("13 to 16", unit="are let in"),
        Column("6 to 12", unit="are let in"),
        Column("17 to 24", unit="are let in"),
        Column("16", unit="rejected at 16"),
        Column("17", unit="rejected at 16"),
        Column("18 to 24", unit="rejected at 16"),
    ]
    rows = [
        [
            _head(model),
            *map(
                _rate_cell,
                (model.teenagers.true_positives, model.teenagers.younger, model.teenagers.older),
            ),
            *map(_rate_cell, model.teenagers.rejected_16.values()),
        ]
        for model in report.models
    ]
    table = Table.of(
        "Who seems 13 to 16, and whom a limit at 16 rejects",
        columns,
        rows,
    )
    return Section("teenagers", "13 to 16, and a limit at 16", "", [table])


def _models(report: EvaluationReport, number: int) -> Section:
    columns = [
        words("Model"),
        words("form"),
        Column("mean error", unit="years"),
        Column("minus the first", unit="years"),
        Column("26 cells", unit="years"),
        Column("failures"),
        Column("a picture", unit="ms"),
        Column("size"),
    ]
    rows = [
        [
            _head(model),
            Cell(
                "checkpoint"
                if model.target is None
                else plain(f"{model.target} {model.precision}", 40)
            ),
            estimate_cell(model.mae, 2),
            estimate_cell(model.minus_first, 3, sign=True),
            estimate_cell(model.fate_mae, 2),
            _rate_cell(model.failures),
            Cell(milliseconds(1000 * model.seconds)),
            Cell(size(model.bytes)),
        ]
        for model in report.models
    ]
    table = Table.of("The models", columns, rows)
    notes = [
        f"{plain(model.label, 60)}: not said: {plain(name, 80)}: {plain(why, 300)}."
        for model in report.models
        for name, why in model.refused.items()
    ]
    blocks: list[Block] = [table, *_processing(report), *([Notes(notes)] if notes else [])]
    lead = (
        "26 cells: the mean over both sexes of each age of 18 to 30, which no mix of ages decides. "
        "Times are of the machine "
        "that evaluated; `unplug bench` times devices."
    )
    return Section("models", "Models", lead, blocks)


def _processing(report: EvaluationReport) -> Iterator[Block]:
    """The pictures of which a careful application would say nothing, by reason."""
    processing = report.processing
    if processing is None or processing.any is None:
        why = "" if processing is None else f" ({plain(processing.unmeasured or '', 120)})"
        yield Notes([f"Failure to process by the quality check of faces: not measured{why}."])
        return
    rows = [
        [Cell(name), Cell(count(share.events)), _rate_cell(share)]
        for name, share in (
            ("any of these", processing.any),
            *((plain(fault, 40), share) for fault, share in processing.faults.items()),
        )
    ]
    columns = [words("Fault"), Column("pictures"), Column("share")]
    yield Table.of(
        "Failure to process, by the quality check of faces",
        columns,
        rows,
    )


def _bounds(report: EvaluationReport, number: int) -> Section:
    """What none of the numbers says."""
    return Section("bounds", "What this does not say", "", [Notes(CAUTION)])


def _share_cell(model: ModelEvaluation, years: str) -> Cell:
    share = model.cumulative.get(years)
    return Cell(NONE if share is None else percent(share.value, 0))


def _drawn(report: EvaluationReport) -> Iterator[tuple[ModelEvaluation, str, int]]:
    """The first models with a colour each, and dashes where a colour comes again."""
    seen: list[str] = []
    for model in report.models[:DRAWN]:
        role = (
            model.role
            if model.role in COLOUR
            else "original"
            if model.target is None
            else "artifact"
        )
        yield model, role, len(seen)
        seen.append(role)


def _label(model: ModelEvaluation) -> str:
    """The label in a legend, which leaves out names that begin with an underscore."""
    label = plain(model.label, 30)
    return f" {label}" if label.startswith("_") else label or NONE


def _head(model: ModelEvaluation) -> Cell:
    return Cell(
        plain(model.label, 60),
        role=model.role if model.role in COLOUR else "artifact" if model.target else "original",
    )


def _rate_cell(found: Rate) -> Cell:
    if found.value is None:
        return Cell(NONE, note=f"{found.people} people" if found.people else "nobody")
    return Cell(percent(found.value), note=_span(found))


def _rate_note(found: Rate) -> str:
    return (
        f"{_span(found)}, {count(found.people)} people"
        if found.value is not None
        else f"{found.people} people are too few"
    )


def _span(found: Rate) -> str:
    return span(found.low, found.high, 1, scale=100.0)


def _note(low: float | None, high: float | None, name: str) -> str:
    return f"{span(low, high, 2)}, {name}"


def _claim_cell(found: Claim) -> Cell:
    chip, word = CHIPS[found.held]
    return Cell(
        word,
        chip=chip,
        note="" if found.missing is None else f"{count(found.missing)} people missing",
    )
