"""A release on record: its intent, stages, judgement and end are entries of a ledger, each of them
once.

The order is intent -> stages -> try -> bundle with the ledger's head -> signature -> published at
its place -> end. A release has a random number, which stands in the work folder and in each of its
entries. A killed one finds the number, and in the ledger what it has told already; nothing in there
says whom it forgot, for a shredded request must be linked to nobody.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from unplug.core import (
    STRICT,
    InputError,
    OutputError,
    ReportError,
    cache_dir,
    hold,
    json_sha256,
    read_dataclass,
    write_json,
)
from unplug.plugins import Checkpoint
from unplug.trust.bundle import (
    BundleCheckFailed,
    Gate,
    Publication,
    Signing,
    bundle_id,
    verify_bundle,
)
from unplug.trust.ledger import RELEASE, Ledger, LedgerEntry

from .coverage import check_open, cover
from .material import ReleaseMaterial
from .stage import Entered, StageRecord

FILE = ".answer.json"
"""Hidden: the other JSON files of a work folder are reports."""


@dataclass(frozen=True, kw_only=True)
class Answering:
    """Which requests a release answers.

    Args:
        ledger: the ledger that they are in.
        requests: their ids; none stands for all open ones that name somebody in the data.
    """

    ledger: Ledger
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ReleaseAnswer:
    """``unplug-release-answer/1``: ``.answer.json`` in a work folder.

    Args:
        release: random number of the release, 32 hexadecimal digits.
        made_from: SHA-256 of all that it is made from; of anything else it is another release.
        requests: the requests that it answers.
    """

    __pydantic_config__: ClassVar = STRICT

    release: str
    made_from: str
    requests: tuple[str, ...]
    schema: Literal["unplug-release-answer/1"] = "unplug-release-answer/1"


@contextlib.contextmanager
def only_release(original: Checkpoint) -> Iterator[None]:
    """While it lasts nobody else on this machine releases the same model on record, wherever to.

    Raises:
        OutputError: somebody does, or the cache cannot be written.
    """
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(hold(cache_dir() / f"release-{original.sha256[:32]}"))
        except OutputError as error:
            if isinstance(error.__cause__, OSError):  # nobody has it: the cache cannot be written
                raise
            what = f"a release of the model {original.sha256[:16]}"
            raise OutputError(
                what, error.why, "One model is released once at a time: wait for it"
            ) from error
        yield


class Recording:
    """One release in a ledger; `begin` makes it.

    Args:
        ledger: the ledger to write to.
        answer: its number, and the requests that it answers.
        signing: the signer and the release's place, with the requests in it.
        resumed: whether a run before this one began it.
    """

    def __init__(
        self, ledger: Ledger, answer: ReleaseAnswer, signing: Signing, *, resumed: bool
    ) -> None:
        self.ledger, self.answer, self.signing, self.resumed = ledger, answer, signing, resumed
        self._told = [
            entry for entry in ledger.entries() if entry.facts.get(RELEASE) == answer.release
        ]

    @property
    def ended(self) -> bool:
        """Whether the ledger says that it was published, wherever the bundle is now: it may be made
        again, and is the same.
        """
        return any(entry.kind == "release" for entry in self._told)

    @property
    def head(self) -> str | None:
        """The ledger up to the judgement that let this release ship, as ``SIZE:ROOT``; None before
        there is one.
        """
        heads = self._heads()
        return heads[-1] if heads else None

    def _heads(self) -> list[str]:
        passed = [
            entry.sequence
            for entry in self._told
            if entry.kind == "try" and entry.facts.get("ships") == "yes"
        ]
        if not passed:
            return []
        rows = self.ledger.rows()
        origin = self.ledger.identity(rows)[0]
        checkpoints = [rows[number].checkpoint(origin) for number in passed]
        return [f"{item.size}:{item.root.hex()}" for item in checkpoints]

    def published(self, out: Path) -> bool:
        """Whether the bundle of this release lies whole at its place: a run before this one was
        killed after that.
        """
        if not (heads := self._heads()):
            return False
        try:
            manifest = verify_bundle(out, self.signing.trust)
        except (InputError, BundleCheckFailed):  # nothing is there, or something else
            return False
        return (
            manifest.publication == self.signing.publication
            and manifest.lineage.ledger_head in heads
        )

    def intend(self, material: ReleaseMaterial, others: int) -> None:
        """Tells that the release begins, and of what; `others`: forgotten samples that none of its
        requests names.
        """
        self._tell(
            "step",
            {
                "stage": "begin",
                "model_sha256": material.original.sha256,
                "data_digest": material.dataset.digest,
                "samples": str(len(set(material.forget_ids))),
                "samples_of_others": str(others),
                "name": self.signing.publication.name,
                "number": str(self.signing.publication.release),
            },
        )

    def stage(self, name: str, record: StageRecord, entry: Entered) -> None:
        """Tells of a finished stage, by the hash of what it left."""
        self._tell(entry, {"stage": name, "left_sha256": json_sha256(record.files)})

    def judged(self, gates: Sequence[Gate], unlearned_sha256: str) -> None:
        """Tells of a try: each gate by its numbers, and why it was overridden; also where nothing
        ships.
        """
        facts = {f"gate {gate.name}": _told_gate(gate) for gate in gates}
        ships = "yes" if all(gate.ships for gate in gates) else "no"
        self._tell("try", {"ships": ships, "model_sha256": unlearned_sha256, **facts})

    def check_still_open(self) -> None:
        """Refuses to go on where a request was ended meanwhile: the last look before the signature.

        Raises:
            InputError: it was withdrawn, say, or another release has answered it.
        """
        requests = self.ledger.requests()
        for name in () if self.ended else self.answer.requests:
            check_open(requests[name])

    def end(self, out: Path, say: Callable[[str], None]) -> None:
        """Tells that the bundle is at its place; who was answered or withdrew since it was signed
        is past waiting.
        """
        if self.ended:
            return
        requests = self.ledger.requests()
        over = [name for name in self.answer.requests if not requests[name].waiting]
        facts = {"bundle_sha256": bundle_id(out), "name": self.signing.publication.name}
        facts["number"] = str(self.signing.publication.release)
        for name in over:
            say(
                f"request {name} was {requests[name].state} since the bundle was signed; it stays so"
            )
        self._tell("release", facts, [name for name in self.answer.requests if name not in over])

    def _tell(
        self, kind: str, facts: Mapping[str, str], requests: Sequence[str] | None = None
    ) -> None:
        """An entry, once: nobody else writes of this release, for the model is held while it
        runs.
        """
        facts = {RELEASE: self.answer.release, **facts}
        if not any(entry.kind == kind and entry.facts == facts for entry in self._told):
            about = self.answer.requests if requests is None else requests
            self._told.append(self.ledger.record(kind, about, facts=facts))


def begin(
    answering: Answering,
    material: ReleaseMaterial,
    out: Path,
    signing: Signing | None,
    *,
    write: bool = True,
) -> Recording:
    """Holds what is asked for against the ledger, and writes the intent, or finds the release of a
    run before this one.

    Args:
        answering: ledger and requests.
        material: the material of the release.
        out: the folder for the bundle.
        signing: the signer.
        write: False for a look that leaves nothing, in the ledger or the work folder.

    Raises:
        InputError: a request that cannot be answered, see `cover`; nothing would be signed, or its
            signature has expired; a release of that number or a later one is on record.
        InputError, OutputError: the ledger, or a key, cannot be used.
    """
    signing, ledger, place = _checked(signing), answering.ledger, material.work / FILE
    entries, origin = ledger.entries(), ledger.identity()[0]
    made_from = _made_from(material, signing.publication, origin, answering.requests)
    known = read_dataclass(ReleaseAnswer, place, ReportError) if place.exists() else None
    if known is not None and known.made_from == made_from:
        record = Recording(ledger, known, _naming(signing, known.requests), resumed=True)
        if record.ended or record.published(out):
            return record
    covered = cover(
        ledger, answering.requests, material.dataset, material.forget_ids, material.original.sha256
    )
    if known is not None and (known.made_from, known.requests) == (made_from, covered.requests):
        record = Recording(ledger, known, _naming(signing, known.requests), resumed=True)
    else:
        _check_number(entries, signing.publication)
        answer = ReleaseAnswer(
            release=secrets.token_hex(16), made_from=made_from, requests=covered.requests
        )
        if write:
            write_json(place, asdict(answer))
        record = Recording(ledger, answer, _naming(signing, covered.requests), resumed=False)
    if write:
        record.intend(material, covered.others)
    return record


def _checked(signing: Signing | None) -> Signing:
    if signing is None:
        raise InputError(
            "`requests`", "what answers requests is signed, and no key is given", "Add `signing`"
        )
    signing.check()
    return signing


def _naming(signing: Signing, requests: Sequence[str]) -> Signing:
    publication = signing.publication
    return replace(
        signing,
        publication=replace(
            publication, requests=tuple(dict.fromkeys((*publication.requests, *requests)))
        ),
    )


def _made_from(
    material: ReleaseMaterial, said: Publication, origin: str, wanted: Sequence[str]
) -> str:
    config = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in asdict(material.config).items()
    }
    facts = {
        "config": config,
        "publication": asdict(said),
        "ledger": origin,
        "requests": sorted(set(wanted)),
    }
    return json_sha256({**facts, "common": material.common})


def _check_number(entries: Sequence[LedgerEntry], said: Publication) -> None:
    """Releases count up within one product: a reader that saw a later one would refuse this."""
    for entry in reversed(entries):
        if entry.kind == "release" and entry.facts.get("name") == said.name:
            number = entry.facts.get("number", "")
            if number.isdecimal() and int(number) >= said.release:
                why = f"release {number} of {said.name!r} is on record (entry {entry.sequence})"
                raise InputError(
                    f"release {said.release} of {said.name!r}",
                    why,
                    f"Add `number` {int(number) + 1} or `supersedes`",
                )


def _told_gate(gate: Gate) -> str:
    value = "not measured" if gate.value is None else f"{gate.value:.6g}"
    word = "holds" if gate.passed else "inconclusive" if gate.inconclusive else "fails"
    reason = "" if gate.override is None else f"; overridden: {gate.override}"
    return f"{value} {gate.comparison} {gate.limit:g}: {word}{reason}"
