"""``unplug release``: forget, audit, export, parity, bench, then a bundle, or one clear refusal and
no bundle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from safetensors.torch import save_file

from unplug.core import (
    STRICT,
    DataError,
    InputError,
    ReportError,
    counted,
    json_sha256,
    make_folder,
    one_line,
    one_writer,
    private_results,
    read_dataclass,
    read_json,
    sweep_below,
    sync_tree,
    write_json,
)
from unplug.plugins import Checkpoint
from unplug.sdk.drawing.inference import (
    DECISION_KEY,
    FAMILY_KEY,
    FamilyMember,
    FamilyRecord,
)
from unplug.sdk.forgetting.tasks import StoredTask, task_of
from unplug.sdk.forgetting.unlearning import (
    ClosedForm,
    check_design_request,
    design_of,
    members_of,
    own_split,
    ranking,
    request_price,
)
from unplug.sdk.learning.data import Dataset, keyed, named_samples
from unplug.sdk.report import ReleaseRecord, Try
from unplug.trust.bundle import HEAD_FILE, Content, Gate, Signing, write_bundle
from unplug.trust.certificates import ABSENCE, COMMITMENTS
from unplug.trust.ledger import Ledger, open_queue

from .beforehand import check_beforehand, check_gates
from .bill import BILL, bill_of_materials, croissant_of
from .contents import bundle_card, write_vectors
from .evidence import MemberFiles, ReleaseEvidence
from .gates import Gates
from .material import ReleaseMaterial
from .overrides import overridden
from .recording import Answering, Recording, begin, only_release
from .refusing import refusal
from .release_config import ReleaseConfig
from .replaying import absences, committed_list
from .stage import Say, StageProgress
from .stages import STAGES, find_evidence, retraining_takes
from .stages_files import latency

CERTIFICATION = "certification.json"
MOST_GONE = 0.1
"""The share of rows that may be gone at once; more are rather a mistake."""
TRIES, MAX_TRIES = ".tries.json", 1000
"""Hidden, for it is not a report; more tries are forgotten, the oldest first."""


@dataclass(frozen=True, kw_only=True)
class Tries:
    """``unplug-tries/1``: every try in one work folder, of whatever request."""

    __pydantic_config__: ClassVar = STRICT

    tries: tuple[Try, ...]
    schema: Literal["unplug-tries/1"] = "unplug-tries/1"


@dataclass(frozen=True, kw_only=True)
class Release:
    """What a release did: the bundle, and the JSON files that a report is made from.

    Args:
        bundle: the bundle's folder.
        reports: the reports for `write_report`.
        summary: the contents of ``release.json``.
        requests: ids of the requests that it answers.
    """

    bundle: Path
    reports: tuple[Path, ...]
    summary: dict[str, Any]
    requests: tuple[str, ...] = ()

    __repr__ = one_line


@one_writer
@private_results()
def release(
    original: Checkpoint,
    dataset: Dataset,
    forget_ids: Sequence[str],
    out: Path,
    work: Path,
    config: ReleaseConfig,
    *,
    say: Say,
    signing: Signing | None = None,
    answering: Answering | None = None,
    ledger: Ledger | None = None,
    **how: Any,
) -> Release:
    """Walks the whole way from a request to a bundle.

    Args:
        original: the trained model.
        dataset: the data that it was trained on.
        forget_ids: the ids that the request names.
        out: bundle folder, written only when every gate holds.
        work: folder of the intermediate results, its owner's alone. What an earlier, killed run has
            finished there is used again if it was made from the same, so that it goes on where it
            was; see `Progress`.
        config: see `ReleaseConfig`.
        say: called with one line a stage.
        signing: the signer and the release's place; None leaves it unsigned.
        answering: the requests that it answers, and their ledger, which is told of all that is done,
            also of a gate that does not hold; see `recording`. None keeps no record.
        ledger: the ledger whose answered requests must stay forgotten; None takes that of
            `answering`.
        how: ``oracle``, ``base``, ``task``, ``device``, ``show``, ``restart`` and ``foresee`` of
            `prepare`.

    Raises:
        GateFailed: a gate does not hold; the message says which and by how much. No bundle is
            written.
        InputError: what signs would be believed by nobody, see `Signing.check`; who was forgotten
            would come back, see `check_start`; of a release on record, see `begin`; or a request
            was withdrawn meanwhile.
        DataError: a forget set that cannot be forgotten or audited.
        OutputError: something else is at `out`.
    """
    if signing is not None:
        signing.check()
    # what a kill or a power cut left: stages that are finished do not come by any more
    sweep_below(work)
    material = prepare(
        original,
        dataset,
        forget_ids,
        out,
        work,
        config,
        say=say,
        signing=signing,
        ledger=answering.ledger if ledger is None and answering is not None else ledger,
        **how,
    )
    if answering is None:
        return _walk(material, out, signing, None)
    with only_release(original):
        record = begin(answering, material, out, signing)
        if record.resumed:
            say(f"release {record.answer.release[:16]} of the ledger goes on")
        if not record.published(out):
            return _walk(material, out, record.signing, record)
        say(f"{out}: published by an earlier run")
        record.end(out, say)
        reports = tuple(
            path for path in sorted(work.glob("*.json")) if not path.name.startswith(".")
        )
        summary = read_json(work / "release.json")
        return Release(
            bundle=out, reports=reports, summary=summary, requests=record.answer.requests
        )


def prepare(
    original: Checkpoint,
    dataset: Dataset,
    forget_ids: Sequence[str],
    out: Path,
    work: Path,
    config: ReleaseConfig,
    *,
    oracle: Checkpoint | None = None,
    base: str | None = None,
    task: StoredTask | None = None,
    device: torch.device,
    say: Say,
    show: bool = True,
    restart: bool = False,
    signing: Signing | None = None,
    ledger: Ledger | None = None,
    foresee: bool = True,
) -> ReleaseMaterial:
    """What a release is made from, and all that can be refused before anything is computed.

    Args:
        original, dataset, forget_ids, out, work, config, say, signing, ledger: see `release`.
        oracle: the retrained model; None makes it in `work`.
        base: the diffusion base of a plugin; None takes the base in its record.
        task: the task of `original`, if the caller has opened it already; `base` is not read then.
        device: the device to compute on.
        show: progress bars.
        restart: drop unfinished trainings in `work` instead of continuing them, and run every stage
            but trainings again.
        foresee: refuse what no gate can let pass; a demo walks on, to show what they say.
    """
    design = design_of(original)
    if design is not None:
        check_design_request(design, config.method, config.options)
        if gone := _gone(original, dataset, forget_ids):
            say(f"{counted(len(gone), 'row')} gone since the training: forgotten as well")
            forget_ids = (*forget_ids, *gone)
        price = None if gone else request_price(original, dataset, forget_ids)
        if price is not None and config.method != "retrain":
            say(f"forgetting by {design} costs {100 * price:.3g} % of a refit without them")
    material = ReleaseMaterial(
        original=original,
        dataset=dataset,
        forget_ids=forget_ids,
        config=config,
        work=work,
        device=device,
        task=task or task_of(original, device=device, base=base),
        oracle=oracle,
        say=say,
        show=show,
        restart=restart,
    )
    _ = material.certified  # of another method, size or original: refused now
    relearns = config.gates.min_relearn_of_retrained is not None
    if relearns and not material.needs_oracle and material.oracle is None:
        why = (
            "relearn time is compared with the retrained model's, and with a fleet none is trained"
        )
        fix = "Add `oracle`, or leave the gate out"
        raise InputError("`gates` min_relearn_of_retrained", why, fix)
    if material.fleet is not None:  # what the request names must be in it
        material.fleet.rows(material.split.there(dataset).forget)
    check_beforehand(material, out, signing, ledger)
    croissant_of(material.dataset.spec)  # it may be broken
    if foresee:
        check_gates(material)
    _earlier(work)  # it may be that they cannot be read
    return material


def _gone(original: Checkpoint, dataset: Dataset, forget_ids: Sequence[str]) -> tuple[str, ...]:
    """What a design remembers and its data have lost: no refit could show an equality with it."""
    retained = own_split(original, dataset).retain
    known = {*dataset.ids, *forget_ids}
    gone = tuple(name for name in retained if name not in known)
    if len(gone) > MOST_GONE * len(retained):
        why = f"{len(gone)} of the {len(retained)} rows that the model remembers are gone"
        fix = (
            "Give all data of its training, or name them in the request if they are to be forgotten"
        )
        raise DataError(f"data {dataset.spec}", why, fix)
    return gone


def _walk(
    material: ReleaseMaterial, out: Path, signing: Signing | None, record: Recording | None
) -> Release:
    """The stages, the judgement, and the bundle where every gate lets it ship."""
    work, say = material.work, material.say
    tell: dict[str, Any] = {} if record is None else {"finished": record.stage}
    progress = StageProgress(work, material.common, say, restart=material.restart, **tell)
    evidence = find_evidence(material, progress)
    summary, judged = _judge(material, evidence, out, progress.seconds)
    write_json(work / "release.json", summary)
    (work / CERTIFICATION).unlink(missing_ok=True)  # of an earlier release here
    if evidence.certified is not None:
        write_json(work / CERTIFICATION, asdict(evidence.certified))
    if record is not None:
        record.judged(judged, evidence.unlearned.sha256)
    if not summary["passed"]:
        raise refusal(
            judged, evidence.audit, material.config.gates, out, work, retraining_takes(material)
        )
    if record is not None:
        record.check_still_open()
    _prove_absence(material, evidence, record)
    with progress.timed("bundle"):
        _bundle(material, evidence, summary, out, signing, None if record is None else record.head)
    if record is not None:
        record.end(out, say)
    requests = () if record is None else record.answer.requests
    return Release(
        bundle=out, reports=report_paths(work, evidence), summary=summary, requests=requests
    )


def _prove_absence(
    material: ReleaseMaterial, evidence: ReleaseEvidence, record: Recording | None
) -> None:
    """Leaves the proofs of those who left, by request, for certificates; of an ordinary model none."""
    place, samples = material.work / ABSENCE, {"": {*material.forget_ids}}
    place.unlink(missing_ok=True)  # of an earlier release here
    if record is not None:
        named = named_samples(material.dataset.samples)
        of = open_queue(record.ledger, named).of
        samples = {
            id: {sample for name in of.get(id, ()) for sample in named[name]}
            for id in record.answer.requests
        }
    proofs = absences(evidence.original, evidence.unlearned, material.dataset, samples)
    if proofs is not None:
        write_json(place, asdict(proofs), private=True)


def _judge(
    material: ReleaseMaterial, evidence: ReleaseEvidence, out: Path, seconds: dict[str, float]
) -> tuple[dict[str, Any], tuple[Gate, ...]]:
    config = material.config
    judged = overridden(list(config.gates.judge(evidence)), config.overrides)
    record = ReleaseRecord(
        schema="unplug-release/1",
        title=out.name,
        gates=judged,
        passed=all(gate.ships for gate in judged),
        seconds=seconds,
        tries=note_try(material, evidence.unlearned, judged),
    )
    return asdict(record), judged


def note_try(
    material: ReleaseMaterial, unlearned: Checkpoint, found: Sequence[Gate]
) -> tuple[Try, ...]:
    """The tries of this request that the work folder knows, this one the last; the same try again
    counts once.
    """
    config, default = material.config, asdict(Gates(max_compute=material.config.budget))
    this = Try(
        request=json_sha256([material.original.sha256, keyed(material.split).forget_sha256]),
        method=unlearned.record["forget"]["method"],
        budget=config.budget,
        options=config.options,
        seed=config.seed,
        gates={
            name: value for name, value in asdict(config.gates).items() if value != default[name]
        },
        unlearned_sha256=unlearned.sha256,
        passed=all(gate.passed for gate in found),
        failed=tuple(gate.name for gate in found if not gate.passed),
        overridden=tuple(gate.name for gate in found if gate.override is not None),
    )
    tries = (*(item for item in _earlier(material.work) if item != this), this)[-MAX_TRIES:]
    write_json(material.work / TRIES, asdict(Tries(tries=tries)))
    return tuple(item for item in tries if item.request == this.request)


def _earlier(work: Path) -> tuple[Try, ...]:
    """All tries of a work folder, of whatever request; `ReportError` where they cannot be read:
    none must get lost unseen.
    """
    path = work / TRIES
    return read_dataclass(Tries, path, ReportError).tries if path.exists() else ()


def report_paths(work: Path, evidence: ReleaseEvidence) -> tuple[Path, ...]:
    """The JSON files that a report of this release is made from."""
    cards = [item.path.with_name(item.path.name + ".json") for item in evidence.artifacts]
    models = dict.fromkeys(item.path for item in evidence.models.values())
    left = [
        stage.leaves
        for stage in STAGES
        if stage.leaves is not None and not stage.leaves.startswith(".")
    ]
    reports = [
        path for name in ("release.json", *left, CERTIFICATION) if (path := work / name).is_file()
    ]
    return (*reports, *(path / "unplug.json" for path in models), *cards)


def _bundle(
    material: ReleaseMaterial,
    evidence: ReleaseEvidence,
    summary: dict[str, Any],
    out: Path,
    signing: Signing | None,
    ledger_head: str | None,
) -> None:
    """Writes the bundle. What is signed holds no times."""
    vectors = material.work / "test_vectors"
    make_folder(vectors)
    write_vectors(evidence.unlearned, vectors)
    sync_tree(vectors)  # after the bundle's publication nobody writes them again
    reports = {"release.json": {**summary, "seconds": {}}}
    if evidence.certified is not None:
        reports[CERTIFICATION] = asdict(evidence.certified)
    for stage in STAGES:
        if (result := evidence[stage.gives]) is not None:
            reports |= stage.published(result)
    if (listed := committed_list(evidence.unlearned)) is not None:
        reports[COMMITMENTS] = asdict(listed)
    facts, head = _facts(material.task, evidence, summary, ledger_head), None
    members = {name: item.artifacts for name, item in (evidence.members or {}).items()}
    if evidence.members is not None:
        weights, head = evidence.unlearned.model.state_dict(), material.work / HEAD_FILE
        save_file({name: weights[name] for name in ClosedForm.own}, head)
    error = evidence.audit.model("unlearned").utility["test"].error
    reports[BILL] = bill_of_materials(
        out.name.removesuffix(".unplug") if signing is None else signing.publication.name,
        material.task.title(evidence.unlearned),
        facts,
        evidence.artifacts,
        {material.task.error_name: error},
        croissant_of(material.dataset.spec),
        members,
        head,
    )
    content = Content(
        artifacts=evidence.artifacts,
        reports=reports,
        vectors=vectors,
        card=bundle_card(out.name, material.task, evidence, summary),
        facts=facts,
        members=members,
        head=head,
    )
    write_bundle(content, out, signing)


def _facts(
    task: StoredTask, evidence: ReleaseEvidence, summary: dict[str, Any], ledger_head: str | None
) -> dict[str, Any]:
    """The manifest but for its files: how to feed the model, and where it comes from."""
    unlearned, spent = evidence.unlearned, evidence.unlearned.record["forget"]
    processing = task.processing(unlearned)
    more = {} if evidence.decided is None else {DECISION_KEY: asdict(evidence.decided.record)}
    if evidence.members is not None:
        more[FAMILY_KEY] = asdict(_family(evidence, evidence.members))
    processing = processing | {"postprocessing": processing["postprocessing"] | more}
    return {
        "model_type": unlearned.model_type,
        "iospec": unlearned.model.iospec.to_dict(),
        **processing,
        "lineage": {
            "original_sha256": evidence.original.sha256,
            "checkpoint_sha256": unlearned.sha256,
            "data_digest": evidence.audit.data["digest"],
            "forget_samples": spent["samples"],
            "method": spent["method"],
            "compute_fraction": spent["cost"]["compute_fraction"],
            "ledger_head": ledger_head,
        },
        "gates": summary["gates"],
        "versions": evidence.audit.versions,
    }


def _family(evidence: ReleaseEvidence, files: Mapping[str, MemberFiles]) -> FamilyRecord:
    """What the manifest says of the members, best first."""
    first = evidence.unlearned
    models = {first.record["design"]["reference"]: first, **members_of(first)}
    timed = {name: item.bench for name, item in files.items()}
    return FamilyRecord(
        members=tuple(
            FamilyMember(
                name=name,
                checkpoint_sha256=models[name].sha256,
                trunk_sha256=models[name].record["design"]["trunk_sha256"],
                latency_ms=latency(timed.get(name, evidence.bench)),
            )
            for name in ranking(first)
        )
    )
