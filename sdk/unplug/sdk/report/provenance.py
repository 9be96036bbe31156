"""Where the page comes from: files, hashes, seeds, settings, versions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from unplug.core import NONE, plain

from .inputs import Inputs
from .models import all_models, label, model_cell
from .page import Block, Cell, Section, Table, words
from .schemas import AnyRecord, PluginRecord

MAX_FACTS = 80
MAX_VALUE = 240


def provenance(inputs: Inputs) -> Section:
    """The foot of the page."""
    sources = [
        [Cell(plain(source.name)), Cell(source.schema), Cell(source.sha256, mono=True)]
        for source in inputs.sources
    ]
    blocks: list[Block] = [
        _table("Files that this page was made from", ("File", "schema", "SHA-256"), sources)
    ]
    if models := [
        [
            model_cell(model),
            Cell(plain(model.sha256, 64), mono=True),
        ]
        for model in all_models(inputs)
    ] + [
        [Cell(f"{role}: {plain(model['name'], 40)}"), Cell(plain(model["sha256"], 64), mono=True)]
        for erasure in inputs.erasures
        for role, model in erasure.models.items()
    ]:
        blocks.append(
            _table("Weights and artifacts that were audited", ("Model", "SHA-256"), models)
        )
    facts = [
        [Cell(name), Cell(value, mono=len(value) == 64)]
        for name, value in dict(_facts(inputs)).items()
    ][:MAX_FACTS]
    if facts:
        blocks.append(_table("Data, seeds and settings", ("Setting", "value"), facts))
    if versions := _versions(inputs):
        blocks.append(
            _table("Versions; where files disagree, each value", ("Package", "version"), versions)
        )
    return Section("provenance", "Provenance", "", blocks)


def _table(caption: str, heads: tuple[str, ...], rows: list[list[Cell]]) -> Table:
    return Table.of(
        caption,
        [words(head, wide=head == heads[-1]) for head in heads],
        rows,
    )


def _facts(inputs: Inputs) -> Iterator[tuple[str, str]]:
    for record in inputs.records:
        yield from _record_facts(record)
    for audit in inputs.audits:
        yield from _flat("audit data", audit.data)
        yield from _flat("audit forget set", audit.forget)
        yield from _flat("audit", audit.settings)
    for parity in inputs.parities:
        yield "parity checkpoint", plain(parity.checkpoint_sha256, 64)
        yield "parity samples", str(parity.samples)
    for evaluation in inputs.evaluations:
        for model in evaluation.models:
            yield f"evaluated: {plain(model.label, 60)}", plain(model.sha256, 64)
        yield from _flat("evaluation data", evaluation.data)
        yield from _flat(
            f"evaluation, {plain(evaluation.protocol, 30)}",
            {"limit": evaluation.limit, **evaluation.settings},
        )
    for erasure in inputs.erasures:
        yield "erasure method", plain(erasure.method, 40)
        for concept in erasure.concepts:
            judge = concept.judge
            facts = {"seed": judge.seed, "trained": judge.trained, "recipe": judge.recipe}
            yield from _flat(f"judge of {plain(concept.words, 40)}", facts)
    for bench in inputs.benches:
        yield "bench seed", str(bench.seed)


def _record_facts(record: AnyRecord) -> Iterator[tuple[str, str]]:
    name = label(record.role)
    yield f"{name}: seed", NONE if record.seed is None else str(record.seed)
    yield from _flat(f"{name}: data", record.data)
    if record.split:
        split = record.split
        yield f"{name}: split", plain(split.sha256, 64)
        parts = {
            "train": split.train,
            "validation": split.validation,
            "test": split.test,
            "forget": split.forget,
        }
        apart = "subjects kept apart" if split.subject_disjoint else "subjects unknown"
        yield (
            f"{name}: split sizes",
            ", ".join(f"{part} {len(ids):,}" for part, ids in parts.items()) + f"; {apart}",
        )
    if record.recipe:
        yield (
            f"{name}: recipe",
            ", ".join(f"{key} {_value(value)}" for key, value in sorted(record.recipe.items()))[
                :MAX_VALUE
            ],
        )
    if isinstance(record, PluginRecord):
        chosen = _value(record.condition["settings"]) if record.condition.get("settings") else ""
        yield (
            f"{name}: condition",
            plain(f"{record.condition.get('kind', NONE)} {chosen}", MAX_VALUE),
        )
        yield f"{name}: base", plain(str(record.base.get("name", NONE)), MAX_VALUE)
        yield f"{name}: base weights", plain(str(record.base.get("sha256", NONE)), 64)
    if record.forget:
        settings = ", ".join(
            f"{key} {_value(value)}" for key, value in sorted(record.forget.settings.items())
        )
        yield (
            f"{name}: method",
            plain(
                f"{record.forget.method} ({settings})" if settings else record.forget.method,
                MAX_VALUE,
            ),
        )
        yield f"{name}: forget set", f"{record.forget.samples:,} samples"
        yield f"{name}: forget set hash", plain(record.forget.set_sha256 or NONE, 64)


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        yield f"{prefix}: {plain(key, 40).replace('_', ' ')}", _value(value)


def _value(value: Any) -> str:
    return plain(value if isinstance(value, str) else json.dumps(value, sort_keys=True), MAX_VALUE)


def _versions(inputs: Inputs) -> list[list[Cell]]:
    known: dict[str, dict[str, None]] = {}
    reports: tuple[Any, ...] = (
        *inputs.audits,
        *inputs.records,
        *inputs.parities,
        *inputs.benches,
        *inputs.cards,
        *inputs.erasures,
    )
    for report in reports:
        for name, version in report.versions.items():
            if version is not None:
                known.setdefault(plain(name, 40), {})[plain(version, 80)] = None
    measured: tuple[Any, ...] = (*inputs.parities, *inputs.benches)
    for report in measured:
        if report.git_revision is not None:
            known.setdefault("git", {})[plain(report.git_revision, 80)] = None
    return [[Cell(name), Cell(", ".join(values))] for name, values in sorted(known.items())][
        :MAX_FACTS
    ]
