"""A family under audit: a phone may hold any member, so each is compared with its own original and
its own retrained model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unplug.core import ArtifactError, CheckpointError
from unplug.export import Artifact, load_artifact
from unplug.plugins import MEMBERS, Checkpoint, read_config
from unplug.sdk.forgetting.tasks import task_of
from unplug.sdk.forgetting.unlearning import ClosedForm, check_members, check_oracle, members_of

from .audit_files import AuditedModels, audit_all
from .audit_report import AuditReport, called
from .evidence import gather
from .exports import Exports
from .threats import threat_model

ALONE = "the retrained model has no such member, so nothing can be compared with it"
UNRANKED = "the references are of another size than this member"


def each_member(audited: AuditedModels) -> list[AuditedModels]:
    """The models of a request, then those of each other member of its family, best first.

    Of models that stand alone there is one.

    Raises:
        CheckpointError: a member that is missing, or has another head or trunk than its family's;
            or a retrained family over another reference.
        ArtifactError: a file of which nobody can say whose it is.
    """
    before = _members(audited.original)
    if not before:
        return [audited]
    after = {name: _members(model) for name, model in audited.unlearned.items()}
    theirs = {} if audited.retrained is None else _members(audited.retrained)
    if theirs:
        _check_reference(audited)
    families = [before, *after.values(), theirs]
    owners: dict[str, str | None] = {
        model.sha256: name for family in families for name, model in family.items()
    }
    owners |= dict.fromkeys(audited.known)
    files: dict[str | None, list[Artifact]] = {}
    for file in audited.artifacts:
        sha256 = file.card.checkpoint_sha256
        owner = owners[sha256] if sha256 in owners else _owner(file, audited.original, before)
        files.setdefault(owner, []).append(file)
    missing: dict[str, str] = {}
    members = []
    for name, model in before.items():
        lacking = [own for own, family in after.items() if name not in family]
        missing |= {called(own, name): "it has no such member" for own in lacking}
        unlearned = {
            called(own, name): family[name] for own, family in after.items() if name in family
        }
        if unlearned or name in files or not (audited.unlearned or audited.artifacts):
            part = _of_member(audited, name, model, theirs.get(name), files.get(name, []))
            members.append(replace(part, unlearned=unlearned))
    first = replace(audited, artifacts=files.get(None, []), skipped=audited.skipped | missing)
    return [first, *members]


def _members(family: Checkpoint) -> dict[str, Checkpoint]:
    return check_members(family, ClosedForm.own)


def _check_reference(audited: AuditedModels) -> None:
    assert audited.retrained is not None
    ours, theirs = (
        model.record["design"]["reference"] for model in (audited.original, audited.retrained)
    )
    if ours != theirs:
        why = f"the reference of its family is {theirs}, the original's {ours}"
        fix = "Make it with `unplug forget --method retrain`"
        raise CheckpointError(str(audited.retrained.path), why, fix)


def _owner(file: Artifact, original: Checkpoint, before: Mapping[str, Checkpoint]) -> str | None:
    """The member that a file is of, where no checkpoint tells: by its place, as bundles have it,
    else by the form of the network.
    """
    folder = file.path.resolve().parent
    if folder.parent.name == MEMBERS and folder.name in before:
        return folder.name
    family: list[tuple[str | None, Checkpoint]] = [(None, original), *before.items()]
    alike = [name for name, model in family if read_config(model.path)[1] == file.card.config]
    if folder.name == "artifacts" and None in alike:
        return None
    if len(alike) != 1:
        why = "nothing tells of which member of the original's family it is"
        raise ArtifactError(str(file.path), why, "Audit it with the checkpoint it was made from")
    return alike[0]


def _of_member(
    audited: AuditedModels,
    name: str,
    original: Checkpoint,
    retrained: Checkpoint | None,
    files: list[Artifact],
) -> AuditedModels:
    """One member's models, without what is given for the reference alone."""
    task = task_of(original, device=audited.device)
    if retrained is not None:
        check_oracle(retrained, audited.split, task.recipe)
        task.check_twin(retrained)
    own = {file.card.file for file in files}
    skipped = {key: why for key, why in audited.skipped.items() if key in own}
    if retrained is None and audited.retrained is not None:
        skipped["oracle"] = ALONE
    if audited.fleet is not None:
        skipped["people"] = UNRANKED
    return replace(
        audited,
        member=name,
        original=original,
        retrained=retrained,
        artifacts=files,
        task=task,
        fleet=None,
        skipped=skipped,
    )


def given_for(
    family: Sequence[AuditedModels], paths: Sequence[Path], role: str
) -> list[list[Path]]:
    """The files that were given for each member's model of a role; the first gets all others."""
    models = [getattr(one, role) for one in family]
    places = {model.sha256: place for place, model in enumerate(models) if model is not None}
    sorted_out: list[list[Path]] = [[] for _ in family]
    for path in paths:
        owner = load_artifact(path).card.checkpoint_sha256 if len(family) > 1 else None
        sorted_out[places.get(owner, 0)].append(path)
    return sorted_out


def audit_family(
    family: Sequence[tuple[AuditedModels, Sequence[Exports]]],
    references: Sequence[Checkpoint],
    *,
    say: Callable[[str], None],
    show: bool,
    **how: Any,
) -> AuditReport:
    """One report of all members; pictures are loaded once.

    Args:
        family: see `each_member`; each with what its files are compared with.
        references: references of the first; of families, with members of their own.
        say: told of each long step.
        show: progress bars.
        how: the other arguments of `audit_all`.
    """
    first, _ = family[0]
    sets = first.task.sets(first.dataset, first.split, first.device, show=show)
    how |= {
        "sets": sets,
        "evidence": gather(sets, first.dataset, first.task, others=first.others),
        "exact": first.fleet is not None,
    }
    reports = []
    for one, exports in family:
        own = references
        if one.member is not None:
            say(f"auditing member {one.member} ...")
            own = [found for item in references if (found := members_of(item).get(one.member))]
        reports.append((one.member, audit_all(one, own, exports, say=say, show=show, **how)))
    (_, report), *others = reports
    return merged(report, {name: own for name, own in others if name is not None})


def merged(first: AuditReport, members: Mapping[str, AuditReport]) -> AuditReport:
    """A report with the rows of members after its own, which say whose they are.

    Args:
        first: the report of the reference.
        members: reports of the same request, sets and seed by name; their models are called by
            `called`.
    """
    models, alarms, rounding = list(first.models), list(first.alarms), list(first.rounding)
    skipped = dict(first.skipped)
    for name, report in members.items():
        place = f"{MEMBERS}/{name}"
        models += [replace(model, member=name) for model in report.models]
        alarms += report.alarms
        rounding += [replace(row, model=f"{place}/{row.model}") for row in report.rounding]
        told = {key: why for key, why in report.skipped.items() if first.skipped.get(key) != why}
        skipped |= {key if place in key else f"{place}: {key}": why for key, why in told.items()}
    report = replace(
        first,
        models=tuple(models),
        alarms=tuple(alarms),
        rounding=tuple(rounding),
        skipped=skipped,
    )
    return replace(report, threats=threat_model(report)) if first.threats else report
