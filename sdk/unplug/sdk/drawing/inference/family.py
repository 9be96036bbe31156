"""``unplug-family/1``: models of several sizes that share one head, as a bundle's manifest lists
them, and which of them a device takes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from unplug.core import STRICT, Array, InputError

FAMILY_KEY = "family"
"""Where it stands in a manifest: in ``postprocessing``."""
FRAME_MS = 33.0
"""The budget where nobody gives another: one frame of a preview of 30 pictures a second."""


@dataclass(frozen=True, kw_only=True)
class FamilyMember:
    """One size of a family.

    Args:
        name: its files are in ``members/NAME`` of a bundle; those of the reference, which is the
            bundle's own model, in ``artifacts``.
        checkpoint_sha256: its weights.
        trunk_sha256: all of them but the head's: what has this hash before and after a request
            needs the new head alone.
        latency_ms: median of one picture on the machine that released it, by the fastest of its
            files; a device puts its own there once it has measured. None where nobody has.
    """

    name: str
    checkpoint_sha256: str
    trunk_sha256: str
    latency_ms: float | None


@dataclass(frozen=True, kw_only=True)
class FamilyRecord:
    """``unplug-family/1``: the members, best first."""

    __pydantic_config__: ClassVar = STRICT

    members: tuple[FamilyMember, ...]
    schema: Literal["unplug-family/1"] = "unplug-family/1"


def family_in(postprocessing: Mapping[str, Any], where: str) -> FamilyRecord | None:
    """The record in a manifest's ``postprocessing``; None where it carries none.

    Raises:
        InputError: what stands there is not a record.
    """
    from pydantic import TypeAdapter, ValidationError

    if postprocessing.get(FAMILY_KEY) is None:
        return None
    try:
        raw = json.dumps(postprocessing[FAMILY_KEY])
        return TypeAdapter(FamilyRecord).validate_json(raw)
    except ValidationError as problem:
        why = f"its family does not follow its schema ({problem.error_count()} errors)"
        raise InputError(where, why, "Get another release") from problem


def choose_member(members: Sequence[FamilyMember], budget_ms: float) -> FamilyMember:
    """The best member that fits: the first, in the order of the manifest (best first), whose
    latency is known and at most the budget.

    Raises:
        InputError: no member fits; a budget or a latency that is not above 0; two members of
            one name, or none at all.

    Example:
        >>> hashes = {"checkpoint_sha256": "0" * 64, "trunk_sha256": "1" * 64}
        >>> small = FamilyMember(name="small", latency_ms=2.0, **hashes)
        >>> nano = FamilyMember(name="nano", latency_ms=0.5, **hashes)
        >>> choose_member([small, nano], 1.0).name
        'nano'
    """
    if not 0.0 < budget_ms < float("inf"):
        raise InputError(
            f"budget {budget_ms:g} ms", "it is not a time", "Give milliseconds above 0"
        )
    known = [item.latency_ms for item in members if item.latency_ms is not None]
    names = {item.name for item in members}
    if not members or len(names) < len(members) or not all(0 < ms < float("inf") for ms in known):
        why = "it needs members of different names, and latencies above 0"
        raise InputError("family", why, "Get another release")
    for member in members:
        if member.latency_ms is not None and member.latency_ms <= budget_ms:
            return member
    fastest = f"the fastest takes {min(known):g} ms" if known else "none was timed"
    fix = "Raise the budget, or run one of its files"
    raise InputError(f"budget {budget_ms:g} ms", f"no member fits: {fastest}", fix)


def take_head(
    file: bytes, before: Mapping[str, Array], after: Mapping[str, Array], named: tuple[str, str]
) -> bytes:
    """An exported file of a member as the next release has it, byte for byte: where its trunk is
    the same a device downloads the head alone, and compares the SHA-256 with the manifest's.

    Args:
        file: the file of the release before, of fp32 or fp16 (int8 has scales of its own).
        before, after: the tensors of ``shared-head.safetensors`` in the two releases.
        named: the two ``checkpoint_sha256`` of the member.

    Raises:
        InputError: the head before is not in the file, or more than once.
    """
    for name, old in before.items():
        for kind in ("<f4", "<f2"):
            found = old.astype(kind).tobytes()
            if file.count(found) == 1:
                file = file.replace(found, after[name].astype(kind).tobytes())
                break
        else:
            raise InputError("head", f"its {name} is not in the file", "Take the whole file")
    old_name, new_name = (item.encode() for item in named)
    return file.replace(old_name, new_name)
