"""``unplug answer``: the steps of the journey, one after the other, from open requests to what is
handed out. Each of them is done once, also where a run before this one was killed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from unplug.core import (
    DataError,
    InputError,
    UnplugError,
    cache_alone,
    counted,
    hold,
    is_there,
    make_folder,
)
from unplug.plugins import load_checkpoint
from unplug.sdk import journey
from unplug.sdk.forgetting.tasks import task_of
from unplug.sdk.forgetting.unlearning import design_of
from unplug.sdk.learning.data import load_again, named_samples, parse_spec, resolve_names
from unplug.sdk.learning.training import pick_device
from unplug.sdk.releasing import Answering, ReleaseChoices, ReleasePlan, answerable
from unplug.trust.bundle import (
    MANIFEST,
    Publication,
    Signing,
    Trust,
    load_signer,
    verify_bundle,
)
from unplug.trust.certificates import draft_answer, issue_certificate, read_trace, said_place
from unplug.trust.ledger import Ledger, open_ledger, open_queue, pick

from .folder import ProjectFolder
from .found_person import seen
from .place import FILE, HIDDEN
from .settings import ReleaseSettings
from .state import ProjectState, current_state

Say = Callable[[str], None]
HERE = "this machine"
FORGOTTEN = ("released", "answered")
LETTER = "answer.md"


class NothingToAnswer(InputError):
    """No request is open that the data hold whole."""


@dataclass(frozen=True, kw_only=True)
class AnswerPlan:
    """What an answer would do.

    Args:
        requests: the requests that it answers; empty where only evidence of an earlier answer is
            missing.
        pictures: the number of pictures that are forgotten.
        release: its number.
        begins: the model that it begins with, in words.
        design: how that forgets; None is an ordinary model.
        out: the folder for the bundle.
        steps: the steps of the release; None where there is none.
        waiting: lines of what stays open, and why.
        unfinished: requests that a release has answered and whose evidence is still to be written.
    """

    requests: tuple[str, ...]
    pictures: int
    release: int
    begins: str
    design: str | None
    out: Path
    steps: ReleasePlan | None
    waiting: tuple[str, ...]
    unfinished: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What an answer did.

    Args:
        requests: the requests that are answered by it, with those whose evidence was missing.
        bundle: the bundle's folder; None where there was none to make.
        release: its number.
        summary: the summary of its gates, as ``release.json`` has them.
        folders: request to the folder with its search, certificate and letter.
        deleted: the deleted files, which held people whom it forgot.
    """

    requests: tuple[str, ...]
    bundle: Path | None
    release: int
    summary: Mapping[str, Any]
    folders: Mapping[str, Path]
    deleted: tuple[Path, ...]


class _Next:
    """The release that comes next in a project, and all that it is made from."""

    def __init__(self, project: ProjectFolder, ledger: Ledger) -> None:
        self.project, self.ledger, self.settings = project, ledger, project.settings
        self.state = current_state(project.folder, self.settings, ledger)
        _places(project)  # what a certificate would refuse when all else is done
        self.number = 1 + max((item.number for item in self.state.releases), default=0)
        self.out = bundle_at(self.settings.release, self.settings.model.name, self.number)

    def open(self) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
        """Requests that a release answers, to the names in them; and a line for each that it leaves
        open.
        """
        names = named_samples(parse_spec(self.settings.model.data).listing().samples)
        queue = open_queue(self.ledger, names)
        if not queue.whole:
            return {}, tuple(queue.waiting())
        ready = answerable(self.ledger, names, self.state.current)
        record, aside = self.project.record(), []
        for id, people in [*ready.items()]:
            counts = seen(record, {sample for name in people for sample in names[name]})
            if line := without_work(self.project, self.state, id, counts):
                aside.append(f"{id} stays open: {line}")
                del ready[id]
        return ready, (*queue.waiting(), *aside)

    def arguments(self, requests: Mapping[str, Sequence[str]], show: bool) -> dict[str, Any]:
        """What the journey's release and its plan take."""
        model, chosen = self.settings.model, self.settings.release
        original = load_checkpoint(self.project.current())
        task = task_of(original, device=pick_device(model.device))
        size, record = task.image_size, original.record
        try:
            dataset = load_again(model.data, size, record, on_bad=model.on_bad, show=show)
        except DataError as error:
            fix = error.fix.replace("pass `on_bad=skip`", f'write `on-bad = "skip"` in {FILE}')
            raise DataError(error.what, error.why, fix) from error
        wanted = dict.fromkeys(name for held in requests.values() for name in held)
        config = {item.name: getattr(chosen, item.name) for item in fields(ReleaseChoices)}
        if design_of(original) is not None:
            config["references"] = 0
        return {
            "original": original,
            "data": dataset,
            "forget_ids": resolve_names([*wanted], dataset, "the queue"),
            "out": self.out,
            "task": task,
            "gates": chosen.gates,
            "signing": self.signing(),
            "answering": Answering(ledger=self.ledger, requests=tuple(requests)),
            "device": model.device,
            "show": show,
            "bench_iterations": chosen.bench_iterations,
            "bench_repeats": chosen.bench_repeats,
            "rounding": chosen.rounding,
            **config,
        }

    def signing(self) -> Signing:
        """The signer and the release number; the release before is superseded."""
        chosen, name = self.settings.release, self.settings.model.name
        last = self.state.releases[-1] if self.state.releases else None
        signer = load_signer(chosen.sign, None if chosen.public is None else Path(chosen.public))
        earlier = () if last is None else (bundle_at(chosen, name, last.number),)
        publication = Publication(
            name=name,
            release=self.number,
            supersedes=() if last is None or last.bundle is None else (last.bundle,),
        )
        there = tuple(path for path in earlier if path.exists())
        return Signing(signer=signer, publication=publication, earlier=there)


def without_work(
    project: ProjectFolder, state: ProjectState, id: str, counts: Mapping[str, int]
) -> str | None:
    """What to do about a request of people of whom the current model holds nothing; None where it
    was trained on them.

    Args:
        project, state: the project, and what is current in it.
        id: the request.
        counts: See `seen`.
    """
    if counts["trained"]:
        return None
    settings = project.settings
    if counts["forgotten"] and state.release is not None:
        bundle = bundle_at(settings.release, settings.model.name, state.release)
        return (
            f"release {state.release} does not hold them any more; `unplug ledger record release "
            f"{id} --file {bundle / MANIFEST}` records that; tell the person, and then `unplug "
            f"ledger record answered {id}`"
        )
    return (
        f"no weights come from them; `unplug ledger touch {settings.model.original}` records that, "
        f"then delete the pictures, and `unplug ledger record answered {id}`"
    )


def bundle_at(chosen: ReleaseSettings, name: str, number: int) -> Path:
    """Where the bundle of a release lies."""
    return Path(chosen.folder) / f"{name}-{number}.unplug"


def plan_answer(project: ProjectFolder) -> AnswerPlan:
    """See `Project.plan`."""
    ledger = open_ledger()
    coming = _Next(project, ledger)
    requests, waiting = coming.open()
    unfinished = _unfinished(project, ledger, coming.state)
    if not requests and not unfinished:
        raise _nothing(waiting)
    steps, pictures, design = None, 0, None
    if requests:
        arguments = coming.arguments(requests, show=False)
        steps = journey.plan_release(**arguments)
        pictures = len(arguments["forget_ids"])
        design = design_of(arguments["original"])
    return AnswerPlan(
        requests=tuple(requests),
        pictures=pictures,
        release=coming.number,
        begins=_begins(coming.state),
        design=design,
        out=coming.out,
        steps=steps,
        waiting=waiting,
        unfinished=unfinished,
    )


def _nothing(waiting: Sequence[str]) -> NothingToAnswer:
    why = "; ".join(waiting) or "no request is open"
    return NothingToAnswer("nothing to answer", why, "`unplug request add PERSON` adds one")


def _begins(state: ProjectState) -> str:
    if state.release is None:
        return "the original"
    forgot = f", which forgot {', '.join(state.answered)}" if state.answered else ""
    return f"release {state.release}{forgot}"


def answer(project: ProjectFolder, *, show: bool, say: Say) -> Answered:
    """See `Project.answer`."""
    make_folder(project.folder / HIDDEN, 0o700)
    with hold(project.folder / HIDDEN / "answer"):
        if "caches" in project.settings.evidence.purge:
            with cache_alone():
                pass  # who uses the cache is told before the work
        ledger = open_ledger()
        coming = _Next(project, ledger)
        requests, waiting = coming.open()
        if not requests and not _unfinished(project, ledger, coming.state):
            raise _nothing(waiting)
        bundle, summary = None, {}
        if requests:
            done = journey.release(**coming.arguments(requests, show), say=say)
            bundle, summary = done.bundle, done.summary
            verify_bundle(bundle, Trust(keys=(coming.signing().signer.key,)))
        state = current_state(project.folder, project.settings, ledger)
        pending = _unfinished(project, ledger, state)
        deleted = _purge(project, state, pending)
        folders = {id: _evidence(project, ledger, state, id, show, say) for id in pending}
        current_state(project.folder, project.settings, ledger)
        return Answered(
            requests=pending,
            bundle=bundle,
            release=state.release or 0,
            summary=summary,
            folders=folders,
            deleted=deleted,
        )


def evidence_at(project: ProjectFolder, ledger: Ledger, id: str) -> Path:
    """Where search, certificate and letter of a request lie."""
    number = pick(ledger.requests(), id).sequence
    plain = id.replace("/", "-").replace(":", "-")
    return Path(project.settings.release.folder) / "answers" / f"{number}-{plain}"


def _unfinished(project: ProjectFolder, ledger: Ledger, state: ProjectState) -> tuple[str, ...]:
    """Requests of a release whose letter, the last thing that is written, is not there; those of
    bundles that somebody released to another place are theirs.
    """
    requests, chosen = ledger.requests(), project.settings.release
    here = [
        item
        for item in state.releases
        if is_there(bundle_at(chosen, project.settings.model.name, item.number) / MANIFEST)
    ]
    return tuple(
        id
        for id in dict.fromkeys(name for item in here for name in item.requests)
        if requests[id].state in FORGOTTEN
        and not requests[id].shredded
        and not (evidence_at(project, ledger, id) / "letter" / LETTER).is_file()
    )


def _purge(project: ProjectFolder, state: ProjectState, pending: Sequence[str]) -> tuple[Path, ...]:
    """Deletes what the file lets an answer delete of the releases before the current one, but no
    bundle of which evidence is still to be written.
    """
    chosen, name = project.settings.release, project.settings.model.name
    gone: list[Path] = []
    for item in state.releases:
        if item.number >= (state.release or 0):
            continue
        bundle = bundle_at(chosen, name, item.number)
        if "work folders" in project.settings.evidence.purge:
            gone.append(bundle.with_name(f".{bundle.name}.release"))
        certified = not {*item.requests} & {*pending}
        if certified and "earlier bundles" in project.settings.evidence.purge:
            gone.append(bundle)
    there = tuple(path for path in gone if path.is_dir())
    for path in there:
        shutil.rmtree(path)
    return there


def _evidence(
    project: ProjectFolder, ledger: Ledger, state: ProjectState, id: str, show: bool, say: Say
) -> Path:
    """Searches for everybody whom a request names, certifies it, and drafts the letter."""
    folder, settings = evidence_at(project, ledger, id), project.settings
    make_folder(folder, 0o700)
    traces = _searched(project, ledger, id, folder, show)
    release = next(item for item in reversed(state.releases) if id in item.requests)
    bundle = bundle_at(settings.release, settings.model.name, release.number)
    public = settings.release.public
    issued = issue_certificate(
        id,
        ledger=ledger,
        bundle=bundle,
        signer=load_signer(settings.release.sign, None if public is None else Path(public)),
        out=folder / "certificate",
        traces=traces,
        places=_places(project),
        issuer=settings.evidence.issuer,
    )
    draft_answer(id, ledger, folder / "letter", issued.certificate)
    say(f"{id}: search, certificate and letter in {folder}")
    return folder


def _places(project: ProjectFolder) -> list[Any]:
    said = project.settings.evidence.places.items()
    return [said_place(f"{place}={word}") for place, word in said]


def _searched(
    project: ProjectFolder, ledger: Ledger, id: str, folder: Path, show: bool
) -> dict[str, Path]:
    """Each person's search, on record once: one that a killed run left and the ledger holds counts."""
    settings = project.settings
    names = named_samples(parse_spec(settings.model.data).listing().samples)
    people = open_queue(ledger, names, FORGOTTEN).of.get(id, ())
    roots = dict.fromkeys((*map(Path, settings.evidence.search), Path(settings.release.folder)))
    folders = [path for path in roots if path.is_dir()]
    traces: dict[str, Path] = {}
    for number, person in enumerate(people, 1):
        out = folder / f"trace-{number}.json"
        if not _on_record(out, ledger, id):
            journey.trace(
                settings.model.data,
                person,
                folders,
                purge="caches" in settings.evidence.purge,
                ledger=ledger,
                request=id,
                out=out,
                show=show,
            )
        traces[HERE if len(people) == 1 else f"{HERE}, {counted(number, 'search', 'searches')}"] = (
            out
        )
    return traces


def _on_record(out: Path, ledger: Ledger, id: str) -> bool:
    if not out.is_file():
        return False
    try:
        read_trace(out, pick(ledger.requests(), id), HERE)
    except UnplugError:
        return False
    return True
