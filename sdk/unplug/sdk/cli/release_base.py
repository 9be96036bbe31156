"""``unplug release`` of a base: one from which something was erased, or one with packs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import InputError
from unplug.sdk import journey

from .base import Common, Outcome, folded
from .bundle import PublicationOrder
from .bundle_generator import told_of
from .options import given_option

if TYPE_CHECKING:
    from unplug.trust.bundle import Signing

TAKEN = {
    *("checkpoint", "audited", "claim", "packs", "out", "key"),
    *("targets", "precisions", "as_json", "seed", "device_name"),
    *(field.name for field in fields(PublicationOrder)),
}
"""Parameters of the command that mean something of a base."""


def release_base(
    base: Path,
    audited: Path | None,
    claim: Any,
    out: Path,
    signing: Signing | None,
    options: Mapping[str, Any],
    common: Common,
) -> Outcome:
    """Exports and bundles a base: an erased one once it is held to its gates."""
    from unplug.trust.bundle import PIPELINE

    parameters = [str(item.name) for item in click.get_current_context().command.params]
    if other := given_option(*(name for name in parameters if name not in TAKEN)):
        why = "it applies to models that forget people, and this is a text-to-image base"
        raise InputError(f"`{other}`", why, "Leave it out")
    if (base / PIPELINE).is_file() and (other := given_option("targets", "precisions")):
        raise InputError(f"`{other}`", "these files were exported already", "Leave it out")
    named = {"to": "targets", "precision": "precisions", "packs": "packs"}
    order = {field: value for field, name in named.items() if (value := options.get(name))}
    how: Any = {
        "out": out,
        "signing": signing,
        "show": common.show,
        "say": lambda line: common.say(folded(line)),
        **order,
    }
    if audited is not None:
        manifest = journey.release_erased(base, audited, claim=claim, **how)
    elif claim is not None:
        fix = f"Measure it with `unplug audit {base}`, and name what that wrote"
        raise InputError("`audited`", "it is missing: what is claimed of a base is measured", fix)
    else:
        manifest = journey.release_packs(base, **how)
    trust = "" if signing is None else " --trust KEY.pub"
    text = (
        f"bundle {out}: {', '.join(told_of(manifest))}; check it with `unplug bundle verify "
        f"{out}{trust}`"
    )
    return Outcome(value={"bundle": str(out), **asdict(manifest)}, text=folded(text))
