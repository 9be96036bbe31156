"""The page: sections in their order, one template, one style sheet inside it, no address outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from unplug.core import ReportError, atomic_path, counted, plain, settled

from .assurance import assurance
from .certified import certification
from .costs import cost, utility
from .erasures import erasure
from .forgetting import attacks, faces, learning, losses
from .fronts import searched
from .inputs import Inputs, collect
from .labels import labels
from .latency import latency
from .models import LABELS, has_years, main_audit
from .page import Missing, Section
from .privacy import privacy
from .provenance import provenance
from .published import published
from .rounding import rounding
from .shipping import artifacts, gates
from .threats import threats
from .verdict import key_numbers, verdict

HERE = Path(__file__).resolve().parent
MAX_PAGE_BYTES = 2_000_000
MAX_TITLE = 160
PARTS = (
    gates,
    learning,
    losses,
    attacks,
    threats,
    privacy,
    utility,
    faces,
    artifacts,
    rounding,
    latency,
    cost,
)
"""Sections in reading order."""


def render_html(inputs: Inputs, *, title: str) -> str:
    """The report as one HTML document.

    Args:
        inputs: inputs from `collect`.
        title: the title of the page.

    Returns:
        HTML text; the same inputs and title give the same text.

    Raises:
        ReportError: the page would be larger than 2 MB.
    """
    parts = _parts(inputs)
    audit = main_audit(inputs)
    return fill_template(
        "report",
        "Give fewer files, or fewer and smaller thumbnails",
        title=plain(title, MAX_TITLE),
        subject=_subject(inputs),
        verdict=verdict(inputs),
        alarms=[
            (alarm.kind, plain(alarm.model), plain(alarm.message, 400))
            for source in (*((audit,) if audit else ()), *inputs.evaluations)
            for alarm in source.alarms
        ],
        releases=inputs.releases,
        numbers=key_numbers(inputs),
        sections=[part for part in parts if isinstance(part, Section)],
        missing=[part for part in parts if isinstance(part, Missing)],
        provenance=provenance(inputs),
    )


def fill_template(what: str, fix: str, **parts: Any) -> str:
    """The one template with its one style sheet, filled; the same parts give the same text.

    Raises:
        ReportError: the page would be larger than 2 MB; `what` and `fix` are for its message.
    """
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = (HERE / "style.css").read_text(encoding="utf-8")
    html = environment.get_template("template.html.j2").render(style=style, labels=LABELS, **parts)
    if (size := len(html.encode("utf-8"))) > MAX_PAGE_BYTES:
        raise ReportError(what, f"the page would have {size:,} bytes", fix)
    return html


@settled
def write_report(
    paths: Sequence[str | Path],
    out: str | Path,
    *,
    title: str = "Forgetting report",
    baselines: bool = False,
) -> None:
    """Reads JSON files and writes the page, atomically.

    Args:
        paths: see `collect`.
        out: the HTML file.
        title: the title of the page.
        baselines: whether published numbers get a section of their own.

    Raises:
        ReportError: see `collect` and `render_html`.
        OutputError: the file cannot be written.
    """
    inputs = collect([Path(path) for path in paths])
    if baselines:
        from unplug.mobile_bench import load_baselines

        inputs = replace(inputs, baselines=load_baselines())
    html = render_html(inputs, title=title)
    with atomic_path(Path(out)) as temporary:
        temporary.write_text(html, encoding="utf-8")


def _parts(inputs: Inputs) -> list[Section | Missing]:
    """Sections in reading order, and those that the files do not allow."""
    parts = [part(inputs) for part in PARTS]
    parts += [
        section
        for number, report in enumerate(inputs.evaluations, start=1)
        for section in assurance(report, number)
    ]
    parts += [
        section
        for number, report in enumerate(inputs.labels, start=1)
        for section in labels(report, number)
    ]
    parts += [
        certification(report, number)
        for number, report in enumerate(inputs.certifications, start=1)
    ]
    parts += [
        section
        for number, report in enumerate(inputs.erasures, start=1)
        for section in erasure(report, number)
    ]
    parts += [
        section
        for number, report in enumerate(inputs.fronts, start=1)
        for section in searched(report, number)
    ]
    if inputs.baselines is not None:
        parts.append(published(inputs.baselines))
    if not has_years(inputs):  # nobody misses ages on a page about a plugin
        parts = [
            part
            for part in parts
            if not (isinstance(part, Missing) and part.what == "Sample faces")
        ]
    # A page about something else does not lack a forgetting audit.
    alone = (inputs.timed_only, inputs.assured_only, inputs.erased_only)
    if any(alone) or any(map(inputs.only, ("unplug-certification/1", "unplug-front/1"))):
        parts = [part for part in parts if isinstance(part, Section)]
    if inputs.only("unplug-bench/1"):  # of such files the section on latency says all that is known
        parts = [
            part for part in parts if not (isinstance(part, Section) and part.id == "artifacts")
        ]
    return parts


def _subject(inputs: Inputs) -> list[str]:
    """What the page is about: data and forget set, a few words each."""
    audit = main_audit(inputs)
    known = (item.data for item in (*inputs.evaluations, *inputs.records, *inputs.fronts))
    data = audit.data if audit else next(known, {})
    parts = [plain(str(data["spec"]), 100)] if "spec" in data else []
    if audit and isinstance(samples := audit.forget.get("samples"), int):
        people = audit.forget.get("subjects")
        of = "" if not isinstance(people, int) else f" of {counted(people, 'subject')}"
        parts.append(f"forget set of {counted(samples, 'sample')}{of}")
    parts += [
        plain(
            f"{report.models['erased']['name']}, made of {report.models['original']['name']}", 100
        )
        for report in inputs.erasures
    ]
    return parts
