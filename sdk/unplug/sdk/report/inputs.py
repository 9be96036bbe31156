"""From JSON files to typed inputs. Each file is taken as hostile: bounded, checked against its
schema, or refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unplug.core import InputError, ReportError, read_json, sha256_file
from unplug.plugins import MAX_CLASSES, check_binding, weights_file, weights_sha256

from .png import MAX_THUMBNAILS, MAX_TOTAL_BYTES, checked_png
from .schemas import AnyRecord, FaceSheet, PluginRecord, Record, ReleaseRecord

if TYPE_CHECKING:
    from unplug.export import Card, ParityReport, ParityRow
    from unplug.mobile_bench import Baselines, BenchReport, BenchRow
    from unplug.sdk.evidence.assurance import ClassEvaluation, EvaluationReport
    from unplug.sdk.evidence.auditing import AuditReport, Certification, ModelAudit
    from unplug.sdk.evidence.concepts import ConceptAudit, ErasureAudit
    from unplug.sdk.searching import Front

MAX_FILE_BYTES = 64 * 2**20
MAX_FILES = 64
MAX_NUMBER = (
    1e15  # no count, time or size in a report comes near it, and plots stay finite below it
)
MAX_TEXT = 2**17  # characters in one string; a thumbnail is the longest
MAX_ROWS = 200  # of models, gates or artifacts in one file: more is not a page that anybody reads
MAX_STRANGERS = 4096  # models that never saw a person
MAX_PARTS = 24  # attacks on one model, age groups on one axis

KINDS = {
    "unplug-audit/1": ("audits", "unplug.sdk.evidence.auditing.audit_report:AuditReport"),
    "unplug-checkpoint/1": ("records", "unplug.sdk.report.schemas:Record"),
    "unplug-plugin/1": ("records", "unplug.sdk.report.schemas:PluginRecord"),
    "unplug-parity/1": ("parities", "unplug.export.parity:ParityReport"),
    "unplug-bench/1": ("benches", "unplug.mobile_bench.bench_report:BenchReport"),
    "unplug-artifact/1": ("cards", "unplug.export.artifact:Card"),
    "unplug-faces/2": ("faces", "unplug.sdk.report.schemas:FaceSheet"),
    "unplug-release/1": ("releases", "unplug.sdk.report.schemas:ReleaseRecord"),
    "unplug-certification/1": (
        "certifications",
        "unplug.sdk.evidence.auditing.pooled:Certification",
    ),
    "unplug-evaluation/1": (
        "evaluations",
        "unplug.sdk.evidence.assurance.evaluation_report:EvaluationReport",
    ),
    "unplug-class-evaluation/1": (
        "labels",
        "unplug.sdk.evidence.assurance.class_evaluation:ClassEvaluation",
    ),
    "unplug-front/1": ("fronts", "unplug.sdk.searching.front:Front"),
    "unplug-erasure-audit/1": (
        "erasures",
        "unplug.sdk.evidence.concepts.erasure_audit:ErasureAudit",
    ),
}
"""Schema to the field of `Inputs` and to the dataclass that it is read into, which is imported when
a file of that kind comes.
"""

RECORDS = ("unplug-checkpoint/1", "unplug-plugin/1")
"""The schemas of checkpoint folders."""

_AGAIN = "Write it again with this version of unplug, or restore it from a copy"


@dataclass(frozen=True, kw_only=True)
class ReportFile:
    """One file that was read."""

    name: str
    schema: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Everything a report is made from, in the order given; `baselines` are no files of the
    journey: None unless asked for.
    """

    sources: tuple[ReportFile, ...]
    audits: tuple[AuditReport, ...] = ()
    records: tuple[Record | PluginRecord, ...] = ()
    parities: tuple[ParityReport, ...] = ()
    benches: tuple[BenchReport, ...] = ()
    cards: tuple[Card, ...] = ()
    faces: tuple[FaceSheet, ...] = ()
    releases: tuple[ReleaseRecord, ...] = ()
    certifications: tuple[Certification, ...] = ()
    evaluations: tuple[EvaluationReport, ...] = ()
    labels: tuple[ClassEvaluation, ...] = ()
    erasures: tuple[ErasureAudit, ...] = ()
    fronts: tuple[Front, ...] = ()
    baselines: Baselines | None = None

    def only(self, *schemas: str) -> bool:
        """Whether there is a file of the first schema, and none of others than these."""
        given = {source.schema for source in self.sources}
        return schemas[0] in given and given <= set(schemas)

    @property
    def bench_rows(self) -> tuple[BenchRow, ...]:
        """The rows of all bench reports."""
        return tuple(row for bench in self.benches for row in bench.rows)

    @property
    def parity_rows(self) -> tuple[ParityRow, ...]:
        """The rows of all parity reports."""
        return tuple(row for parity in self.parities for row in parity.rows)

    @property
    def timed_only(self) -> bool:
        """Whether they are about files and their speed, and not about forgetting."""
        return self.only("unplug-bench/1", "unplug-parity/1", "unplug-artifact/1")

    @property
    def assured_only(self) -> bool:
        """Whether they are about answers, with or without the times of files."""
        others = ("unplug-bench/1", "unplug-parity/1", "unplug-artifact/1")
        judged = ("unplug-evaluation/1", "unplug-class-evaluation/1")
        return any(self.only(schema, *judged, *others) for schema in judged)

    @property
    def erased_only(self) -> bool:
        """Whether they are about concepts taken from a base, with or without the times of files."""
        return self.only(
            "unplug-erasure-audit/1", "unplug-bench/1", "unplug-parity/1", "unplug-artifact/1"
        )


def collect(paths: Sequence[Path]) -> Inputs:
    """Reads the JSON files of a journey.

    Args:
        paths: the files, a mixture of the schemas in `KINDS`; several of one kind may come.

    Raises:
        ReportError: no file, a missing or broken one, an unknown schema or another version of a
            known one, audits of different splits, a record of weights that were not audited, or
            thumbnails that are not small PNG files.
        CheckpointError: a record next to weights that it does not describe.
    """
    if not 0 < len(paths) <= MAX_FILES:
        raise ReportError(
            "report",
            f"{len(paths)} files given",
            f"Give 1 to {MAX_FILES} JSON files that unplug wrote",
        )
    values_of: dict[str, list[Any]] = {schema: [] for schema in KINDS}
    sources = []
    for path in map(Path, paths):
        schema, value = _read(path)
        if schema in RECORDS and weights_file(path.parent).is_file():
            check_binding(value.weights_sha256, weights_sha256(path.parent), path)
        values_of[schema].append(value)
        # Every checkpoint's record has the same file name; its folder says which it is.
        name = "/".join(path.parts[-2:]) if schema in RECORDS else path.name
        sources.append(ReportFile(name=name, schema=schema, sha256=sha256_file(path)))
    fields: dict[str, Any] = {}
    for schema, values in values_of.items():
        field = KINDS[schema][0]
        fields[field] = (*fields.get(field, ()), *values)
    inputs = Inputs(sources=tuple(sources), **fields)
    _check_same_split(inputs.audits)
    for record in inputs.records:
        _check_audited(record, inputs.audits)
    _check_faces(inputs.faces)
    return inputs


def _read(path: Path) -> tuple[str, Any]:
    where = str(path)
    try:
        raw = read_json(path, max_bytes=MAX_FILE_BYTES)
    except InputError as error:
        raise ReportError(error.what, error.why, error.fix) from error
    if not isinstance(raw, dict) or not isinstance(raw.get("schema"), str):
        raise ReportError(where, "it names no schema", "Give a JSON file that unplug wrote")
    schema = raw["schema"][:100]
    if schema not in KINDS:
        family = schema.rpartition("/")[0] + "/"
        known = next((name for name in KINDS if name.startswith(family)), None)
        if known:
            raise ReportError(
                where, f"it follows {schema!r}, and this unplug reads {known}", _AGAIN
            )
        raise ReportError(
            where,
            f"its schema {schema!r} has no place in a report",
            f"Give files of {', '.join(KINDS)}",
        )
    _check_leaves(raw, where)
    value = _typed(KINDS[schema][1], raw, where)
    _check_rows(value, where)
    if schema == "unplug-evaluation/1":
        from unplug.sdk.evidence.assurance import check_evaluation

        check_evaluation(value, where)
    if schema == "unplug-erasure-audit/1":
        _check_erasure(value, where)
    if schema == "unplug-front/1":
        value.check(where)
    return schema, value


def _typed(target: str, raw: Any, where: str) -> Any:
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    module, _, name = target.partition(":")
    kind: Any = getattr(import_module(module), name)
    # The list carries the strictness to dataclasses that set none of their own.
    adapter: TypeAdapter[Any] = TypeAdapter(
        list[kind], config=ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    )
    try:
        return adapter.validate_json(json.dumps([raw]))[0]
    except RecursionError as problem:
        raise ReportError(where, "it is nested too deeply", _AGAIN) from problem
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part)[:60] for part in first["loc"][1:]) or "the file"
        raise ReportError(
            where, f"it does not follow its schema ({place}: {first['msg'][:200]})", _AGAIN
        ) from problem


def _check_leaves(raw: Any, where: str) -> None:
    """Finite numbers of a sane size and strings of a bounded length, everywhere."""
    stack = [raw]  # no recursion, which a file could exhaust
    while stack:
        leaf = stack.pop()
        if isinstance(leaf, dict):
            stack += [*leaf.keys(), *leaf.values()]
        elif isinstance(leaf, list):
            stack += leaf
        elif isinstance(leaf, str) and len(leaf) > MAX_TEXT:
            raise ReportError(where, f"it holds a text of {len(leaf)} characters", _AGAIN)
        elif (
            isinstance(leaf, int | float) and not abs(leaf) <= MAX_NUMBER
        ):  # NaN fails the comparison too
            raise ReportError(where, "it holds an impossible number", _AGAIN)


def _check_rows(value: Any, where: str) -> None:
    """Bounds on what becomes rows of a table, and on what a plot needs."""
    for name in ("models", "rows", "gates", "alarms", "rounding", "points"):
        if len(getattr(value, name, ())) > MAX_ROWS:
            raise ReportError(
                where, f"it has more than {MAX_ROWS} {name}", "Make one report for each part"
            )
    for row in getattr(value, "rounding", ()):
        if max(len(row.auc_shift), len(row.notes)) > MAX_PARTS:
            raise ReportError(
                where, f"it has more than {MAX_PARTS} attacks or notes on a file", _AGAIN
            )
    for model in getattr(value, "models", ()):
        if hasattr(model, "attacks"):
            _check_model(model, where)
        if len(getattr(model, "classes", ())) > MAX_CLASSES:
            raise ReportError(where, f"a model has more than {MAX_CLASSES} classes", _AGAIN)
    if isinstance(models := getattr(value, "models", None), tuple) and not models:
        raise ReportError(where, "it judges no model", _AGAIN)
    if len(getattr(value, "leaks", ())) > MAX_PARTS:
        raise ReportError(where, f"it has more than {MAX_PARTS} statistics", _AGAIN)
    if not isinstance(value, ReleaseRecord):
        return
    if max(len(value.seconds), len(value.tries)) > MAX_ROWS:
        raise ReportError(where, f"it has more than {MAX_ROWS} stages or tries", _AGAIN)
    if value.passed and not all(gate.ships for gate in value.gates):
        raise ReportError(where, "it says that the release passed, and a gate in it failed", _AGAIN)


def _check_model(model: ModelAudit, where: str) -> None:
    """The same of one audited model."""
    parts = (model.attacks, model.further, *(use.per_group for use in model.utility.values()))
    most = max((len(use.per_class) for use in model.utility.values()), default=0)
    if max(map(len, parts)) > MAX_PARTS or most > MAX_CLASSES:
        why = f"it has more than {MAX_PARTS} attacks or age groups, or {MAX_CLASSES} classes"
        raise ReportError(where, why, "Make one report for each part")
    for place in (place for row in model.people for place in (row.confidence, row.error) if place):
        if not 2 <= place.models <= MAX_STRANGERS or len(place.others) not in (0, place.models):
            why = "it ranks a person among models that it does not tell of"
            raise ReportError(where, why, _AGAIN)
    for name, attack in (*model.attacks.items(), *model.further.items()):
        if bool(attack.forget_scores) != bool(
            attack.unseen_scores
        ):  # a published audit has neither
            why = f"attack {name[:60]!r} on {model.name[:60]!r} has scores of one side only"
            raise ReportError(where, why, _AGAIN)
        auc = attack.auc
        if not all(0.0 <= end <= 1.0 for end in (auc.value, auc.low, auc.high) if end is not None):
            raise ReportError(where, f"an AUC of {model.name[:60]!r} is outside 0 to 1", _AGAIN)


def _check_same_split(audits: Sequence[AuditReport]) -> None:
    splits = {str(audit.settings.get("split_sha256")) for audit in audits}
    if len(splits) > 1:
        raise ReportError(
            "report",
            "its audits are about different splits",
            "Make one report for each forget request",
        )


def _check_audited(record: AnyRecord, audits: Sequence[AuditReport]) -> None:
    """Refuses a record of weights that were not audited in their role: its cost would be compared
    with another model's numbers.
    """
    audited = {
        model.sha256 for audit in audits for model in audit.models if model.role == record.role
    }
    # settings are free: it may be anything
    named = [audit.settings.get("references") for audit in audits]
    references = {str(sha256) for item in named if isinstance(item, list) for sha256 in item}
    if audited and record.weights_sha256 not in audited | references:
        why = (
            f"the {record.role} model that it describes ({record.weights_sha256:.12}) is none of "
            "those in the audit"
        )
        raise ReportError("unplug.json", why, "Give the records of the models that were audited")


def _check_erasure(audit: ErasureAudit, where: str) -> None:
    """Bounds on an audit of an erased base, and that it claims what its rows say."""
    from unplug.sdk.evidence.concepts import most_claimed

    if not 0 < len(audit.concepts) <= MAX_PARTS or len(audit.beside) > MAX_PARTS:
        why = f"it has no concept, or more than {MAX_PARTS} of them or of other words"
        raise ReportError(where, why, "Make one report for each part")
    both = {"original", "erased"}
    named = all({"name", "sha256"} <= set(model) for model in audit.models.values())
    if not (named and both <= set(audit.models)):
        raise ReportError(where, "it does not name the original and the erased base", _AGAIN)
    rates = [rate for found in audit.beside.values() for rate in found.values()]
    if not all(both <= set(found) for found in audit.beside.values()):
        raise ReportError(where, "it lacks a base's rate of other words", _AGAIN)
    for concept in audit.concepts:
        _check_concept(concept, audit, where)
        rates += [concept.judge.recall, concept.judge.false_alarms]
        rates += [row.rate for row in concept.rows]
    for top, found in ((1.0, rates), (100.0, [audit.retained_db])):
        for one in found:
            known = [end for end in (0.0, one.low, one.value, one.high, top) if end is not None]
            if known != sorted(known) or (top == 1.0 and len(known) < 5):
                raise ReportError(where, "a rate or its interval is impossible", _AGAIN)
    if (apart := audit.frechet) and (
        min(apart.erased, apart.original) < 0 or min(apart.pictures, apart.components) < 1
    ):
        raise ReportError(where, "its Fréchet distance is impossible", _AGAIN)
    if audit.claim != most_claimed([concept.claims for concept in audit.concepts]):
        raise ReportError(where, "it claims what its concepts do not say", _AGAIN)


def _check_concept(concept: ConceptAudit, audit: ErasureAudit, where: str) -> None:
    """The same of one concept: each row once, of a base that is named, with its reference."""
    from unplug.sdk.evidence.concepts import SHOWN, SHOWN_EACH, UNNAMED, claims_of

    if len(concept.rows) > MAX_ROWS or len(concept.left_out) > MAX_PARTS:
        why = f"it has more than {MAX_ROWS} rows or {MAX_PARTS} attacks left out of a concept"
        raise ReportError(where, why, _AGAIN)
    rows = {(row.attack, row.form, row.role): row for row in concept.rows}
    needed = {(UNNAMED, "as it is", "original")}
    if "oracle" in audit.models:
        needed |= {(row.attack, row.form, "oracle") for row in concept.rows}
    told = all(
        (row.holds is None) == (row.attack == UNNAMED)
        and row.role in audit.models
        and row.pictures > 0
        for row in concept.rows
    )
    if not told or len(rows) < len(concept.rows) or not needed <= set(rows):
        why = f"rows of {concept.words[:60]!r} are doubled, missing or of no base that it names"
        raise ReportError(where, why, _AGAIN)
    if concept.claims != claims_of(concept.rows):
        why = f"what it claims of {concept.words[:60]!r} is not what its rows say"
        raise ReportError(where, why, _AGAIN)
    shown = [png for pictures in concept.pictures.values() for png in pictures[:SHOWN_EACH]]
    if not set(concept.pictures) <= set(SHOWN) or len(shown) < sum(
        map(len, concept.pictures.values())
    ):
        raise ReportError(where, f"it shows more than {SHOWN_EACH} pictures of a row", _AGAIN)
    for number, png in enumerate(shown, start=1):
        checked_png(png, f"picture {number} of {concept.words[:60]!r}")


def _check_faces(sheets: Iterable[FaceSheet]) -> None:
    faces = [face for sheet in sheets for face in sheet.faces]
    if len(faces) > MAX_THUMBNAILS:
        raise ReportError("unplug-faces/2", f"{len(faces)} faces", f"Give at most {MAX_THUMBNAILS}")
    total = sum(
        len(checked_png(face.png, f"face {number}")) for number, face in enumerate(faces, start=1)
    )
    if total > MAX_TOTAL_BYTES:
        raise ReportError(
            "unplug-faces/2",
            f"its pictures are {total} bytes together",
            f"Give at most {MAX_TOTAL_BYTES}",
        )
