"""The list of who is in a released model, and proofs that somebody's pictures are not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from unplug.core import STRICT, InputError, ReportError, read_dataclass
from unplug.trust.bundle import GeneratorManifest, Manifest, open_source, read_whole, validated
from unplug.trust.ledger import Absence, CommittedList, is_absent

COMMITMENTS = "commitments.json"
"""In ``reports/`` of a bundle: the root of the sorted tree over who is in, and how many they are."""
ABSENCE = ".absence.json"
"""In the work folder of a release: the proofs of those who left; hidden, since the others are reports."""
MAX_LIST_BYTES, MAX_BYTES = 4096, 2**28
AGAIN = "Give the file of the release that made this bundle"


@dataclass(frozen=True, kw_only=True)
class Absences:
    """``unplug-absence/1``: of each request, the proofs that its pictures are not in the sums.

    Args:
        requests: id in the ledger to proofs, one a picture; all under "" where the release answered
            no ledger.
    """

    __pydantic_config__: ClassVar = STRICT

    requests: dict[str, tuple[Absence, ...]]
    schema: Literal["unplug-absence/1"] = "unplug-absence/1"


def list_in(bundle: Path, manifest: Manifest | GeneratorManifest) -> CommittedList | None:
    """The list that a bundle carries, which was verified; None where it carries none.

    Raises:
        ReportError: it has not its form.
    """
    name = f"reports/{COMMITMENTS}"
    if name not in manifest.files:
        return None
    with open_source(bundle) as source:
        raw = read_whole(source, name, MAX_LIST_BYTES)
    try:
        return validated(CommittedList, raw)
    except ValueError as error:
        raise ReportError(f"{bundle}/{name}", str(error), "Release it again") from error


def proofs_for(
    request: str, absence: Path | None, bundle: Path, manifest: Manifest | GeneratorManifest
) -> tuple[Absence, ...]:
    """The proofs of a request, which hold under the bundle's list.

    Args:
        request: its id in the ledger.
        absence: the file that the release left; None looks next to the bundle, in the work folder
            that a release has by default, where nothing may be.
        bundle, manifest: the bundle, verified.

    Raises:
        InputError: a proof of another release.
        ReportError: a file of another form.
    """
    beside = bundle.parent / f".{bundle.name}.release" / ABSENCE
    if absence is None and not beside.is_file():
        return ()
    place = beside if absence is None else absence
    held: Mapping[str, tuple[Absence, ...]] = read_dataclass(
        Absences, place, ReportError, max_bytes=MAX_BYTES
    ).requests
    proofs = held.get(request, held.get("", ()))
    for problem in unproved(proofs, list_in(bundle, manifest)):
        raise InputError(str(place), problem, AGAIN)
    return proofs


def unproved(proofs: tuple[Absence, ...], listed: CommittedList | None) -> Iterator[str]:
    """What is wrong with proofs under the list of a bundle, a line each."""
    for proof in proofs:
        if listed is None or not is_absent(proof, root=listed.root, size=listed.samples):
            short = proof.commitment[:16]
            yield f"its proof that {short} is absent is of another release, or of none"
