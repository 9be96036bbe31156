"""What a certificate says, ``unplug-certificate/1``: the predicate of its first statement. It names
and shows nobody.

The people whom a request names, the places where they were found and the notes of the ledger stay
out: a certificate has the opaque id of the request, kinds of places with counts, hashes, dates and
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from unplug.core import STRICT, Estimate
from unplug.trust.ledger import Absence

SCHEMA: Literal["unplug-certificate/1"] = "unplug-certificate/1"
PlaceName = Literal[
    "raw data",
    "caches",
    "work folders",
    "checkpoints",
    "references and folds",
    "earlier bundles",
    "deltas",
    "lists and reports",
    "backups",
    "copies and phones",
]
"""Where a person can still be; every certificate says something of each."""
Outcome = Literal["deleted", "kept", "unknown", "none found"]
"""``kept``: it is still there, and why. ``none found``: it was searched and nothing of the person
was there.
"""
Who = Literal["released", "never saw them", "before"]
"""The model that a number belongs to."""
Shown = Literal["equality", "certification", "attacks"]
"""What forgetting rests on: weights equal to a refit without them; the method certified on many
others; attacks alone.
"""


@dataclass(frozen=True, kw_only=True)
class RequestLine:
    """The request.

    Args:
        id: the id in the ledger; names nobody.
        received, due: calendar days.
        extended: whether the due day was moved by two months.
        identity_checked: whether the ledger says that it was checked who asks.
        released: when the ledger recorded the release, UTC.
        answered: when it recorded that the person was told, or null.
        informed: how many recipients of the data were told.
        answered_on: the operator's calendar day of `answered`, as ``2027-01-31+02:00``; null where
            the ledger does not say, and UTC's counts.
    """

    id: str
    received: str
    due: str
    extended: bool
    identity_checked: bool
    released: str
    answered: str | None
    informed: int
    answered_on: str | None = None

    @property
    def told_on(self) -> str | None:
        """The day on which the person was told, or None."""
        told = self.answered_on or self.answered
        return None if self.answered is None or told is None else told[:10]

    @property
    def in_time(self) -> bool | None:
        """Whether the answer came by the due day; None where there was none yet."""
        return None if self.told_on is None else self.told_on <= self.due


@dataclass(frozen=True, kw_only=True)
class SearchLine:
    """One search for the person.

    Args:
        system: the operator's name for the system searched.
        folders: how many, with all below them, besides the data and the cache.
        trace_sha256: the hash of the search's result, which stays with the operator.
        entry: the ledger entry that recorded it.
        at: when.
    """

    system: str
    folders: int
    trace_sha256: str
    entry: int
    at: str


@dataclass(frozen=True, kw_only=True)
class PlaceLine:
    """One kind of place.

    Args:
        place: see `PlaceName`.
        outcome: see `Outcome`.
        count: how many such places were found, where a search counted.
        why: why it is kept, or what is not known.
        by: the authority: a search, or the operator's word; ``nobody`` where neither spoke.
    """

    place: PlaceName
    outcome: Outcome
    count: int | None
    why: str
    by: Literal["search", "operator", "nobody"]


@dataclass(frozen=True, kw_only=True)
class FileLine:
    """A file of the bundle."""

    name: str
    sha256: str
    bytes: int


@dataclass(frozen=True, kw_only=True)
class ModelLine:
    """The model that was released, in hashes; all of it stands in the bundle.

    Args:
        bundle: SHA-256 of its manifest.
        product, release: the signer's name for it; null where nobody signed it.
        model_type: the kind of model.
        original_sha256, checkpoint_sha256: the hashes of the weights before and after; of a base
            that packs left, those of the earlier bundle's manifest and of ``pipeline.json``, which
            name the weights.
        data_digest: the digest of the training data; for a base, the digest of the digests of the
            packs that left.
        forget_samples: how many samples were forgotten, of all requests that this release answers;
            of a base, how many packs left.
        method: the design or the method; of a base, the digests of the packs that left.
        compute: cost of forgetting as a fraction of retraining.
        files: exported files and reports.
        versions: the versions of the packages that decide numbers.
    """

    bundle: str
    product: str | None
    release: int | None
    model_type: str
    original_sha256: str
    checkpoint_sha256: str
    data_digest: str
    forget_samples: int
    method: str
    compute: float
    files: tuple[FileLine, ...]
    versions: dict[str, str | None]


@dataclass(frozen=True, kw_only=True)
class AttackLine:
    """One attack: the area under its curve, forgotten against unseen people; where nothing is left
    all models have the same.

    Args:
        attack: its name.
        model: the released one.
        never_saw: the area for models that never saw them.
        original: the area before.
        gap: the released model minus what never saw them, with an interval that holds for all
            attacks at once where there is one; null where it could not be computed.
    """

    attack: str
    model: Estimate
    never_saw: Estimate
    original: Estimate | None
    gap: Estimate | None


@dataclass(frozen=True, kw_only=True)
class UseLine:
    """Error on people whom no model saw: years, share of wrong answers, or loss for a model without either."""

    who: Who
    error: Estimate
    samples: int


@dataclass(frozen=True, kw_only=True)
class GateLine:
    """A gate of the release: what was measured, null where nothing was, and its limit."""

    name: str
    value: float | None
    limit: float
    comparison: Literal["<=", ">="]
    passed: bool
    unit: str


@dataclass(frozen=True, kw_only=True)
class OverrideLine:
    """A gate that did not hold, and the reason with which it was released all the same."""

    gate: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What was measured; all of it stands in the bundle's reports.

    Args:
        shown_by: see `Shown`.
        beside: the models that never saw them.
        attacks, use: numbers with intervals.
        unit: the unit of `use`.
        too_few: why no interval counts as showing anything, or null.
        alarms: the alarms of the audit.
        gates: the gates of a release, each with its limit.
        overrides: gates that did not hold and were overridden.
        skipped: values that the audit could not measure, each with the reason.
    """

    shown_by: Shown
    beside: str
    attacks: tuple[AttackLine, ...]
    use: tuple[UseLine, ...]
    unit: str
    too_few: str | None
    alarms: tuple[str, ...]
    gates: tuple[GateLine, ...]
    overrides: tuple[OverrideLine, ...]
    skipped: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class EntryLine:
    """An entry of the ledger with the path that shows it under the checkpoint."""

    index: int
    entry: str
    path: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LedgerLine:
    """The request, its release and its answer in the ledger, provable to anybody with its public
    key.

    Args:
        vkey: the public key, for who has none from elsewhere.
        checkpoint: the signed note that all paths lead to.
        entries: the entries about this request.
    """

    vkey: str
    checkpoint: str
    entries: tuple[EntryLine, ...]


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """``unplug-certificate/1``: what was done about one request.

    Args:
        issued: UTC.
        issuer: the issuer, as they call themselves.
        request, searches, places, model, evidence, ledger: see their classes.
        not_claimed: statements that nobody may read into it.
        absent: proofs that the request's pictures are not in the sums that the head of a
            closed-form model comes from; other models and earlier certificates have none.
    """

    __pydantic_config__: ClassVar = STRICT

    issued: str
    issuer: str
    request: RequestLine
    searches: tuple[SearchLine, ...]
    places: tuple[PlaceLine, ...]
    model: ModelLine
    evidence: Evidence
    ledger: LedgerLine
    not_claimed: tuple[str, ...]
    absent: tuple[Absence, ...] = ()
    schema: Literal["unplug-certificate/1"] = SCHEMA


NOT_CLAIMED = (
    "That no copy is left on phones that loaded an earlier file, on other people's disks, or in "
    "places not listed above.",
    "That no attack will ever be found which tells that somebody was in the training data: the "
    "attacks named here were tried.",
    "That the numbers hold for each person by herself: intervals are over people, and the request "
    "may name few.",
    "That the operator's ledger holds every request: it proves what is in it, and not what was "
    "left out.",
    "That the request was lawful to grant, or granted as the law asks. This is no legal advice.",
)
"""Stands in every certificate."""
