"""From which models a release may start, so that nobody who was forgotten comes back.

The ledger names whom its requests ask for; a bundle names nobody, but the weights that it ships. A
model descends from those by what checkpoint records and the ledger say of what was made from what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from unplug.core import InputError, StillHeld, UnplugError, counted, read_json, sha256_file
from unplug.plugins import BINDING, RECORD
from unplug.sdk.learning.data import Split, named_samples, opened
from unplug.trust.bundle import MANIFEST, Manifest, Signing, bundle_id, read_manifest
from unplug.trust.ledger import (
    Ledger,
    OnRecord,
    Queue,
    made_from,
    open_queue,
    releases_of,
    with_all_before,
)

from .material import ReleaseMaterial

FORGOTTEN = ("released", "answered")
"""States of requests whom no later release may bring back; who withdrew may be in it again."""
NEAR = tuple(f"{folder}/{RECORD}" for folder in ("*", ".*.release/*", "work/*"))
"""Records of the checkpoints of earlier releases, below a folder that holds a bundle or a model."""


class Origins:
    """What is known around one release: of its ledger, of the bundles that it replaces, of the
    models that lie near.

    Args:
        material: the material of the release.
        out: the folder for its bundle.
        earlier: bundles that it takes the place of.
        ledger: the ledger whose answered requests must stay forgotten; None if there is none.
    """

    def __init__(
        self, material: ReleaseMaterial, out: Path, earlier: Sequence[Path], ledger: Ledger | None
    ) -> None:
        self.material, self.out, self.earlier, self.ledger = material, out, earlier, ledger
        self.held = frozenset(material.split.retain)
        self.releases = () if ledger is None else tuple(releases_of(ledger.entries()))

    @cached_property
    def records(self) -> Mapping[str, tuple[Path, Mapping[str, Any]]]:
        """Models near the release by the SHA-256 of their weights: folder and record."""
        original = self.material.original
        roots = (
            self.out.parent,
            self.material.work,
            original.path.parent,
            *(path.parent for path in self.earlier),
        )
        near = [path for root in roots for pattern in NEAR for path in sorted(root.glob(pattern))]
        # its weights may be those that ship
        near.sort(key=lambda path: path.parent.name == "retrained")
        near += sorted(self.out.parent.parent.glob(f"*/work/*/{RECORD}"))  # of the jobs of a server
        known: dict[str, tuple[Path, Mapping[str, Any]]] = {
            original.sha256: (original.path, original.record)
        }
        named: list[Mapping[str, Any]] = [original.record]
        for path in near:
            record = _json(path)
            named.append(record)
            known.setdefault(str(record.get(BINDING)), (path.parent, record))
        for (
            record
        ) in named:  # checkpoints of before name the folder of the one in front of them alone
            folder = Path(str((record.get("lineage") or {}).get("original", "")))
            if (folder / RECORD).is_file() and (made := _json(folder / RECORD)).get(
                BINDING
            ) not in known:
                named.append(made)
                known[str(made.get(BINDING))] = folder, made
        return known

    def before(self, *models: str) -> frozenset[str]:
        """Some models, and all from which they were made, as far as anybody says."""
        parents = made_from(self.releases)
        for sha256, (_, record) in self.records.items():
            lineage = record.get("lineage") or {}
            named = {lineage.get("original_sha256"), *lineage.get("ancestors", ())}
            parents.setdefault(sha256, set()).update(one for one in named if one)
        return with_all_before(models, parents)

    @cached_property
    def ours(self) -> frozenset[str]:
        """The model that this release starts from, and all from which that was made."""
        return self.before(self.material.original.sha256)

    def is_made_from(self, model: str) -> bool:
        """Whether this release starts from a model, or from one that was made from it."""
        return model == self.material.original.sha256 or model in self.ours

    def again(self, model: str) -> int | None:
        """How many of whom a model had forgotten this release would know again, by that model's
        record; None without one.
        """
        near = self.records.get(model)
        if near is None or "split" not in near[1]:
            return None
        split = opened(Split.from_dict(near[1]["split"], str(near[0])), self.material.dataset)
        return len((self.held - self.excused) & {*split.forget})

    def queue(self, *states: str) -> Queue:
        """The people whom the requests in some states name among the data."""
        assert self.ledger is not None
        return open_queue(self.ledger, self.samples, states)

    @cached_property
    def samples(self) -> Mapping[str, set[str]]:
        """Every name that a request can have, to its samples."""
        return named_samples(self.material.dataset.samples)

    @cached_property
    def excused(self) -> frozenset[str]:
        """Samples of those who took their request back; `check_start` has looked at the requests of
        others before.
        """
        named = () if self.ledger is None else self.queue("withdrawn").names
        return frozenset(sample for name in named for sample in self.samples[name])

    def start(self, model: str | None) -> str:
        """What to do: from which model to start, the newest that was made from one."""
        after = {
            item.began: item.shipped
            for item in self.releases
            if item.shipped and item.began != item.shipped
        }
        for lineage in (read_manifest(path).lineage for path in self.earlier):
            after.setdefault(lineage.original_sha256, lineage.checkpoint_sha256)
        seen: set[str] = set()
        while model is not None and model in after and model not in seen:
            seen.add(model)
            model = after[model]
        if model is None:
            return "Start from the model that the release before shipped"
        where = f", {self.records[model][0]}" if model in self.records else ""
        return f"Start from the model {model}{where}"


def check_start(
    material: ReleaseMaterial, out: Path, signing: Signing | None, ledger: Ledger | None
) -> None:
    """Refuses a release that would know again whom an earlier one forgot, before anything is
    computed.

    Args:
        material: the material of the release.
        out: the folder for its bundle; a bundle that lies there is replaced.
        signing: names the bundles that it supersedes.
        ledger: see `Origins`.

    Raises:
        StillHeld: the model holds samples of a request that was released or answered, and the
            forget set leaves them out; or it was not made from what a superseded bundle ships, and
            nothing shows that whom that one forgot stays forgotten. It names the model to start
            from.
    """
    earlier = () if signing is None else signing.earlier
    known = Origins(material, out, earlier, ledger)
    if ledger is not None:
        _check_answered(known)
    for id_ in () if signing is None else signing.publication.supersedes:
        _check_superseded(known, id_)
    if (out / MANIFEST).is_file():
        _check_replaced(known)


def _check_answered(known: Origins) -> None:
    """No request that is over may be undone."""
    queue = known.queue(*FORGOTTEN)
    in_part = {
        name
        for release in known.releases
        if release.in_part and _related(known, release)
        for name in release.requests
    }
    open_ = {name: names for name, names in known.queue("open").of.items() if name in in_part}
    for name, names in {**queue.of, **open_}.items():
        if back := known.held & {sample for one in names for sample in known.samples[one]}:
            raise _undone(known, name, f"{counted(len(back), 'sample')} that it names")
    for name, why in queue.unreadable.items():
        fix = (
            "Get the key of that time; without it, answer the request and `unplug ledger shred` it"
        )
        raise InputError(
            f"request {name}",
            f"nobody can tell whether the model still holds whom it names: {why}",
            fix,
        )
    for name in queue.shredded:
        release = _answered_by(known, name)
        if (
            release is not None
            and _comes_before(known, release)
            and known.again(str(release.shipped)) != 0
        ):
            raise _undone(
                known, name, "whom it named, as far as anybody can tell since its salt was shredded"
            )


def _comes_before(known: Origins, item: OnRecord) -> bool:
    """Whether this release starts where another one started, or before, and not at what that one
    shipped.
    """
    return item.shipped not in known.ours and _related(known, item)


def _related(known: Origins, item: OnRecord) -> bool:
    """Whether this release starts at what another one started from, or before or after that."""
    return item.began is not None and bool(known.ours & known.before(item.began))


def _undone(known: Origins, name: str, held: str) -> StillHeld:
    assert known.ledger is not None
    request = known.ledger.requests()[name]
    state = "released in part" if request.state == "open" else request.state
    why = f"it was {state}, and the model that this release starts from still holds {held}"
    start = known.start(_shipped(known, _answered_by(known, name)))
    return StillHeld(f"request {name}", why, f"{start}, or name them in the forget file again")


def _answered_by(known: Origins, request: str) -> OnRecord | None:
    return next((item for item in reversed(known.releases) if request in item.requests), None)


def _shipped(known: Origins, item: OnRecord | None) -> str | None:
    """Which weights a release on record shipped; where the ledger knows only its bundle, that says
    it, if it lies near.
    """
    if item is None or item.shipped is not None:
        return None if item is None else item.shipped
    path = None if item.bundle is None else _find(known, item.bundle)
    return None if path is None else read_manifest(path).lineage.checkpoint_sha256


def _check_superseded(known: Origins, id_: str) -> None:
    """The bundle that goes was made from what this release starts from, or whom it forgot stay
    forgotten.
    """
    path = _find(known, id_)
    item = next((item for item in known.releases if item.bundle == id_), None)
    manifest = None if path is None else read_manifest(path)
    shipped = None if item is None else item.shipped
    if manifest is not None:
        shipped = manifest.lineage.checkpoint_sha256
    what = f"the release in the place of {id_[:16] if path is None else path.name}"
    if shipped is None:
        why = "nobody says which weights that bundle ships, so whom it forgot may come back"
        raise StillHeld(what, why, "Give the bundle itself: `supersedes` BUNDLE")
    if known.is_made_from(shipped):
        return
    count = known.again(shipped)
    if count is None and _named_all(
        known, shipped, () if manifest is None else _requests(manifest)
    ):
        return
    if count != 0:
        raise _refused(known, what, shipped, count)


def _check_replaced(known: Origins) -> None:
    """A bundle at the place of the new one goes without a word; who it forgot is known where its
    model lies near.
    """
    lineage = _json(known.out / MANIFEST).get("lineage") or {}
    shipped = str(lineage.get("checkpoint_sha256"))
    if lineage.get("data_digest") != known.material.dataset.digest or known.is_made_from(shipped):
        return  # in other data the same id may be somebody else's
    if count := known.again(shipped):
        raise _refused(known, f"the release in the place of {known.out.name}", shipped, count)


def _refused(known: Origins, what: str, shipped: str, count: int | None) -> StillHeld:
    who = "nothing shows that whom it forgot stay forgotten"
    way = "add the ledger whose requests name them"
    if count:
        who = f"still holds {counted(count, 'sample')} that it forgot"
        way = "name them in the forget file again"
    why = f"it starts from a model that was not made from that bundle's, and {who}"
    return StillHeld(what, why, f"{known.start(shipped)}, or {way}")


def _requests(manifest: Manifest) -> tuple[str, ...]:
    return () if manifest.publication is None else manifest.publication.requests


def _named_all(known: Origins, shipped: str, requests: Sequence[str]) -> bool:
    """Whether the ledger can name everybody whom a model has forgotten; none of them is held, as
    `_check_answered` found.
    """
    if known.ledger is None:
        return False
    models = known.before(shipped)
    chain = [item for item in known.releases if item.shipped in models]
    asked = {*requests, *(name for item in chain for name in item.requests)}
    queue = known.queue(*FORGOTTEN, "withdrawn")
    tellable = asked <= {*queue.of} and not any(name in queue.elsewhere for name in asked)
    return (
        tellable
        and shipped in {item.shipped for item in chain}
        and all(item.whole for item in chain)
    )


def _find(known: Origins, id_: str) -> Path | None:
    """Where a bundle of an id lies: among those that were given, or next to the new one."""
    for path in known.earlier:
        if bundle_id(path) == id_:
            return path
    beside = sorted(known.out.parent.glob(f"*/{MANIFEST}"))
    return next((path.parent for path in beside if sha256_file(path) == id_), None)


def _json(path: Path) -> Mapping[str, Any]:
    """A checkpoint's record, or a manifest; one that cannot be read tells nothing."""
    try:
        value = read_json(path)
    except UnplugError:
        return {}
    return value if isinstance(value, dict) else {}
