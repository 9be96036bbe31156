"""``unplug release``: forget, audit, export, parity, bench, then a bundle, or one clear refusal and no bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch

from unplug.core import (
    STRICT,
    InputError,
    ReportError,
    json_sha256,
    make_folder,
    one_writer,
    private_results,
    read_dataclass,
    read_json,
    sweep_below,
    sync_tree,
    write_json,
)
from unplug.plugins import Checkpoint
from unplug.sdk.auditing import check_forget_size
from unplug.sdk.bundle import Content, Gate, Signing, check_free, write_bundle
from unplug.sdk.data import Dataset, keyed
from unplug.sdk.inference import DECISION_KEY
from unplug.sdk.ledger import Ledger
from unplug.sdk.report import ReleaseRecord, Try
from unplug.sdk.tasks import StoredTask, task_of
from unplug.sdk.unlearning import check_design_request, design_of, request_price

from .contents import bundle_card, write_vectors
from .deciding import decision_gates
from .finished import Progress, Say
from .gates import (
    Gates,
    ReleaseConfig,
    artifact_gate,
    bench_gate,
    budget_gate,
    equality_gate,
    forgetting_gates,
    parity_gate,
    relearn_gates,
    rounding_gates,
)
from .gather import EVALUATION, common_facts, gather
from .lineage import check_start
from .overrides import check_reasons, overridden
from .recording import Answering, Recording, begin, only_release
from .refusing import refusal
from .stages import Evidence, Stages

CERTIFICATION = "certification.json"
TRIES, MAX_TRIES = ".tries.json", 1000
"""Hidden, for it is no report; more tries are forgotten, the oldest first."""


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
        bundle: where it lies.
        reports: for `write_report`.
        summary: what ``release.json`` says.
        requests: ids of the requests that it answers.
    """

    bundle: Path
    reports: tuple[Path, ...]
    summary: dict[str, Any]
    requests: tuple[str, ...] = ()


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
    oracle: Checkpoint | None = None,
    base: str | None = None,
    task: StoredTask | None = None,
    device: torch.device,
    say: Say,
    show: bool = True,
    restart: bool = False,
    signing: Signing | None = None,
    answering: Answering | None = None,
    ledger: Ledger | None = None,
) -> Release:
    """Walks the whole way from a request to a bundle.

    Args:
        original: what was trained.
        dataset: what it was trained on.
        forget_ids: what the request names.
        out: bundle folder, written only when every gate holds.
        work: folder of the intermediate results, its owner's alone. What an earlier, killed run has finished there is used
            again if it was made from the same, so that it goes on where it was; see `Progress`.
        config: see `ReleaseConfig`.
        oracle: the retrained model; None makes it in `work`.
        base: of a plugin: the diffusion base beside it; None takes the one in its record.
        task: of `original`, where the caller has opened it already; `base` is not read then.
        device: where to compute.
        say: called with one line a stage.
        show: progress bars.
        restart: drop unfinished trainings in `work` instead of continuing them, and run every stage but trainings again.
        signing: by whom the bundle is signed, and as which release; None leaves it unsigned.
        answering: which requests of a ledger it answers, which is then told of all that is done, also of a gate that does not
            hold; see `recording`. None keeps no record.
        ledger: whose answered requests must stay forgotten; None takes that of `answering`.

    Raises:
        GateFailed: a gate does not hold; the message says which and by how much. No bundle is written.
        InputError: what signs would be believed by nobody, see `Signing.check`; who was forgotten would come back, see
            `check_start`; of a release on record, see `begin`; or a request was withdrawn meanwhile.
        DataError: a forget set that cannot be forgotten or audited.
        OutputError: something else is at `out`.
    """
    if signing is not None:
        signing.check()
    sweep_below(work)  # what a kill or a power cut left: stages that are finished do not come by any more
    stages = prepare(
        original, dataset, forget_ids, out, work, config, oracle=oracle, base=base, task=task, device=device, say=say,
        show=show, restart=restart, signing=signing,
        ledger=answering.ledger if ledger is None and answering is not None else ledger,
    )  # fmt: skip
    if answering is None:
        return _walk(stages, oracle, out, say, signing, None)
    with only_release(original):
        record = begin(answering, stages, out, signing)
        if record.resumed:
            say(f"release {record.answer.release[:16]} of the ledger goes on")
        if record.published(out):
            say(f"{out}: published by an earlier run")
            record.end(out, say)
            reports = tuple(path for path in sorted(work.glob("*.json")) if not path.name.startswith("."))
            return Release(
                bundle=out, reports=reports, summary=read_json(work / "release.json"), requests=record.answer.requests
            )  # fmt: skip
        return _walk(stages, oracle, out, say, record.signing, record)


def prepare(
    original: Checkpoint, dataset: Dataset, forget_ids: Sequence[str], out: Path, work: Path, config: ReleaseConfig, *,
    oracle: Checkpoint | None = None, base: str | None = None, task: StoredTask | None = None, device: torch.device, say: Say,
    show: bool = True, restart: bool = False, signing: Signing | None = None, ledger: Ledger | None = None,
) -> Stages:  # fmt: skip
    """The stages of a release, and all that can be refused before anything is computed; see `release`."""
    design = design_of(original)
    if design is not None:
        check_design_request(design, config.method, config.options)
        if (price := request_price(original, dataset, forget_ids)) is not None and config.method != "retrain":
            say(f"forgetting by {design} costs {100 * price:.3g} % of a refit without them")
    check_free(out)
    stages = Stages(
        original=original, dataset=dataset, forget_ids=forget_ids, config=config, work=work, device=device,
        task=task or task_of(original, device=device, base=base), show=show, restart=restart,
    )  # fmt: skip
    exact = design is not None or config.method == "retrain" or config.fleet is not None
    check_forget_size(len(stages.split.forget), exact=exact)
    check_start(stages, out, signing, ledger)
    if config.gates.min_relearn_of_retrained is not None and not stages.needs_oracle and oracle is None:
        why = "relearn time is compared with the retrained model's, and with a fleet none is trained"
        raise InputError("--gate min_relearn_of_retrained", why, "Add --oracle, or leave the gate out")
    check_reasons(config.overrides)
    if stages.fleet is not None:  # before anything is trained: what the request names must be in it
        stages.fleet.rows(stages.split.forget)
    _ = stages.certified  # of another method, size or original: refused now
    _ = stages.decision  # of another original
    _ = stages.protocol  # data that its numbers cannot be had of
    _earlier(work)  # before anything is computed: it may be that they cannot be read
    return stages


def _walk(
    stages: Stages, oracle: Checkpoint | None, out: Path, say: Say, signing: Signing | None, record: Recording | None
) -> Release:
    """The stages, the judgement, and the bundle where every gate lets it ship."""
    work = stages.work
    tell: dict[str, Any] = {} if record is None else {"finished": record.stage}
    progress = Progress(work, common_facts(stages), say, restart=stages.restart, **tell)
    evidence = gather(stages, oracle, progress)
    summary, found = _judge(stages, evidence, out, progress.seconds)
    write_json(work / "release.json", summary)
    (work / CERTIFICATION).unlink(missing_ok=True)  # of an earlier release here
    if evidence.certified is not None:
        write_json(work / CERTIFICATION, asdict(evidence.certified))
    if record is not None:
        record.judged(found, evidence.unlearned.sha256)
    if not summary["passed"]:
        raise refusal(found, evidence.audit, stages.config.gates, out, work)
    if record is not None:
        record.check_still_open()
    with progress.timed("bundle"):
        _bundle(evidence, summary, out, work, signing, None if record is None else record.head)
    if record is not None:
        record.end(out, say)
    requests = () if record is None else record.answer.requests
    return Release(bundle=out, reports=report_paths(work, evidence), summary=summary, requests=requests)


def check_gates(gates: Gates, evidence: Evidence) -> list[Gate]:
    """Every gate of a release; an exact design is held to equality, where attacks would only show what they can see."""
    step = evidence.unlearned.record["forget"]
    exact = step.get("exact") or step["method"] == "retrain"
    forgotten = (
        [equality_gate(evidence.unlearned, evidence.retrained)]
        if exact and evidence.retrained is not None
        else [
            *forgetting_gates(gates, evidence.audit, evidence.certified),
            *relearn_gates(gates, evidence.audit),
            *rounding_gates(gates, evidence.audit),
            budget_gate(gates, step["cost"]),
        ]
    )
    return [
        *forgotten,
        parity_gate(gates, evidence.parity),
        artifact_gate(gates, evidence.audit),
        *decision_gates(gates, evidence.decided),
        bench_gate(gates, evidence.bench),
    ]


def _judge(stages: Stages, evidence: Evidence, out: Path, seconds: dict[str, float]) -> tuple[dict[str, Any], tuple[Gate, ...]]:
    found = overridden(check_gates(stages.config.gates, evidence), stages.config.overrides)
    tries = _tries(stages, evidence, found)
    ships = all(gate.ships for gate in found)
    record = ReleaseRecord(schema="unplug-release/1", title=out.name, gates=found, passed=ships, seconds=seconds, tries=tries)
    return asdict(record), found


def _tries(stages: Stages, evidence: Evidence, found: Sequence[Gate]) -> tuple[Try, ...]:
    """The tries of this request that the work folder knows, this one the last; the same try again counts once."""
    config, default = stages.config, asdict(Gates(max_compute=stages.config.budget))
    this = Try(
        request=json_sha256([stages.original.sha256, keyed(stages.split).forget_sha256]),
        method=evidence.unlearned.record["forget"]["method"], budget=config.budget, options=config.options, seed=config.seed,
        gates={name: value for name, value in asdict(config.gates).items() if value != default[name]},
        unlearned_sha256=evidence.unlearned.sha256, passed=all(gate.passed for gate in found),
        failed=tuple(gate.name for gate in found if not gate.passed),
        overridden=tuple(gate.name for gate in found if gate.override is not None),
    )  # fmt: skip
    all_ = (*(item for item in _earlier(stages.work) if item != this), this)[-MAX_TRIES:]
    write_json(stages.work / TRIES, asdict(Tries(tries=all_)))
    return tuple(item for item in all_ if item.request == this.request)


def _earlier(work: Path) -> tuple[Try, ...]:
    """All tries of a work folder, of whatever request; `ReportError` where they cannot be read: none must get lost unseen."""
    path = work / TRIES
    return read_dataclass(Tries, path, ReportError).tries if path.exists() else ()


def report_paths(work: Path, evidence: Evidence) -> tuple[Path, ...]:
    """The JSON files that a report of this release is made from."""
    cards = [item.path.with_name(item.path.name + ".json") for item in evidence.artifacts]
    models = {item.path: item for item in (evidence.original, evidence.unlearned, evidence.retrained) if item is not None}
    found = [work / f"{name}.json" for name in ("release", "audit", "parity", "bench")]
    found += [path for path in (work / "faces.json", work / EVALUATION, work / CERTIFICATION) if path.is_file()]
    return (*found, *(path / "unplug.json" for path in models), *cards)


def _bundle(
    evidence: Evidence, summary: dict[str, Any], out: Path, work: Path, signing: Signing | None, ledger_head: str | None
) -> None:
    """Writes the bundle. What is signed holds no times: the bench stays in the work folder, its gate says how it went."""
    vectors = work / "test_vectors"
    make_folder(vectors)
    write_vectors(evidence.unlearned, vectors)
    sync_tree(vectors)  # behind the bundle's publication nobody writes them again
    reports = {
        "audit.json": evidence.audit.published().to_dict(),
        "parity.json": asdict(evidence.parity),
        "release.json": {**summary, "seconds": {}},
        **({CERTIFICATION: asdict(evidence.certified)} if evidence.certified is not None else {}),
        **({"decision.json": asdict(evidence.decided)} if evidence.decided is not None else {}),
        **({EVALUATION: evidence.evaluation.published().to_dict()} if evidence.evaluation is not None else {}),
    }
    card = bundle_card(
        out.name, evidence.task, evidence.unlearned, evidence.audit, evidence.artifacts, summary, evidence.decided,
        evidence.evaluation,
    )  # fmt: skip
    content = Content(
        artifacts=evidence.artifacts, reports=reports, vectors=vectors, card=card, facts=_facts(evidence, summary, ledger_head)
    )
    write_bundle(content, out, signing)


def _facts(evidence: Evidence, summary: dict[str, Any], ledger_head: str | None) -> dict[str, Any]:
    """The manifest but for its files: how to feed the model, and where it comes from."""
    unlearned, spent = evidence.unlearned, evidence.unlearned.record["forget"]
    processing = evidence.task.processing(unlearned)
    if evidence.decided is not None:
        processing = processing | {
            "postprocessing": processing["postprocessing"] | {DECISION_KEY: asdict(evidence.decided.record)}
        }
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
