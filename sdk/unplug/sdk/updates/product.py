"""What the targets' metadata says of one product: its releases, and which of them may still be used."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from unplug.sdk.bundle import time_of

from .metadata import has_keys, is_count, is_digest, need
from .refused import NEWEST, NotCurrent

MAX_PRODUCTS = MAX_RELEASES = 1000
MAX_RETIRING = 100
FILE = "manifest.json"
_PATH = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.+-]{0,199})/manifest\.json")
_NUMBER = re.compile(r"[1-9][0-9]{0,15}")


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A release that may be used.

    Args:
        release: its number.
        current: the number of the one that is current.
        until: when it stops working, because a newer one takes its place; None where that is not decided.
        answer_until: when this answer itself has to be fetched anew.
    """

    release: int
    current: int
    until: datetime | None
    answer_until: datetime


@dataclass(frozen=True, kw_only=True)
class Product:
    """One product.

    Args:
        name: of the bundles' publication.
        release: the one that is current.
        sha256, bytes: of its manifest; the digest is its bundle's id.
        minimum_version: the lowest release that may be used at all.
        retiring: releases below a number stop working at a time: (number, time) each.
        releases: id by number, of all that were published and are not below the minimum.
        revoked: numbers that must not be used.
    """

    name: str
    release: int
    sha256: str
    bytes: int
    minimum_version: int
    retiring: tuple[tuple[int, datetime], ...]
    releases: dict[int, str]
    revoked: frozenset[int]

    def judge(self, release: int, id_: str, size: int, now: datetime, answer_until: datetime) -> Standing:
        """Whether a release may be used.

        Args:
            release: its number, as its own signed manifest says.
            id_, size: SHA-256 and bytes of that manifest.
            now: the time, UTC.
            answer_until: until when the metadata counts.

        Raises:
            NotCurrent: ``superseded``, ``unpublished``, ``wrong-size``, ``revoked`` or ``retired``.
        """
        what = f"release {release} of {self.name}"
        if release < self.minimum_version:
            why = f"it was replaced: release {self.minimum_version} is the oldest that may be used"
            raise NotCurrent("superseded", what, why, NEWEST)
        if self.releases.get(release) != id_:
            raise NotCurrent("unpublished", what, "it is signed, but its publisher does not list it", NEWEST)
        if release == self.release and size != self.bytes:
            raise NotCurrent("wrong-size", what, f"its manifest has {size} bytes, and {self.bytes} were published")
        if release in self.revoked:
            raise NotCurrent("revoked", what, "its publisher took it back", NEWEST)
        ends = [until for below, until in self.retiring if release < below]
        if ends and now >= min(ends):
            why = f"a newer release took its place; its time ended at {min(ends):%Y-%m-%dT%H:%M:%SZ}"
            raise NotCurrent("retired", what, why, NEWEST)
        return Standing(release=release, current=self.release, until=min(ends, default=None), answer_until=answer_until)


def read_products(body: dict[str, Any], where: str) -> dict[str, Product]:
    """The products of a targets file whose signature was checked.

    Raises:
        NotCurrent: ``format``: a target that is no product, fields that are not known, or that contradict each other.
    """
    need("delegations" not in body, where, "it delegates to other files, which are not read")
    targets = body.get("targets")
    need(isinstance(targets, dict) and len(targets) <= MAX_PRODUCTS, where, "it lists no targets, or too many")
    assert isinstance(targets, dict)
    return {found.name: found for found in (_product(path, targets[path], where) for path in sorted(targets))}


def _product(path: str, target: Any, where: str) -> Product:
    named = _PATH.fullmatch(path)
    need(named is not None, where, f"it lists {path[:80]!r}, which is not NAME/{FILE}")
    assert named is not None
    why = f"what it says of {named[1][:80]} is not of the form"
    need(has_keys(target, "length", "hashes", "custom") and has_keys(target["hashes"], "sha256"), where, why)
    said = target["custom"]
    need(has_keys(said, "release", "minimum_version", "retiring", "releases", "revoked"), where, why)
    need(is_digest(target["hashes"]["sha256"]) and is_count(target["length"]), where, why)
    need(is_count(said["release"]) and is_count(said["minimum_version"]), where, why)
    release, listed, revoked = said["release"], said["releases"], said["revoked"]
    need(isinstance(listed, dict) and len(listed) <= MAX_RELEASES, where, why)
    need(all(_NUMBER.fullmatch(key) and int(key) <= release and is_digest(listed[key]) for key in listed), where, why)
    releases = {int(number): id_ for number, id_ in listed.items()}
    need(releases.get(release) == target["hashes"]["sha256"] and said["minimum_version"] <= release, where, why)
    need(isinstance(revoked, list) and len(revoked) <= MAX_RELEASES, where, why)
    need(all(is_count(number) and number in releases for number in revoked), where, why)
    need(isinstance(said["retiring"], list) and len(said["retiring"]) <= MAX_RETIRING, where, why)
    return Product(
        name=named[1], release=release, sha256=target["hashes"]["sha256"], bytes=target["length"],
        minimum_version=said["minimum_version"],
        retiring=tuple(_retiring(item, release, where, why) for item in said["retiring"]),
        releases=releases, revoked=frozenset(revoked),
    )  # fmt: skip


def _retiring(item: Any, release: int, where: str, why: str) -> tuple[int, datetime]:
    need(has_keys(item, "below", "until") and is_count(item["below"]) and item["below"] <= release, where, why)
    until = time_of(item["until"])
    need(until is not None, where, why)
    assert until is not None
    return item["below"], until
