"""``unplug release`` of a base from which something was erased."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import InputError, counted
from unplug.sdk import journey

from .bars import progress_bar
from .base import Common, Outcome, folded
from .bundle import PublicationOrder
from .options import given_option

if TYPE_CHECKING:
    from unplug.trust.bundle import Signing

TAKEN = {
    *("checkpoint", "audit", "claim", "out", "signing", "targets", "precisions", "workers"),
    *("as_json", "seed", "device_name"),
    *(field.name for field in fields(PublicationOrder)),
}
"""Parameters of the command that mean something of a base."""


def release_erased(
    base: Path,
    audit: Path | None,
    claim: Any,
    out: Path,
    signing: Signing | None,
    options: Mapping[str, Any],
    common: Common,
) -> Outcome:
    """Holds an erased base to its gates, exports and bundles it."""
    parameters = [str(item.name) for item in click.get_current_context().command.params]
    if other := given_option(*(name for name in parameters if name not in TAKEN)):
        why = "it is of models that forget people, and this is a base without some concepts"
        raise InputError(f"`{other}`", why, "Leave it out")
    if audit is None:
        fix = f"Measure it with `unplug audit {base}`, and name what that wrote"
        raise InputError("`audit`", "it is missing: what is claimed of a base is measured", fix)
    named = {"to": "targets", "precision": "precisions", "workers": "workers"}
    order = {field: value for field, name in named.items() if (value := options.get(name))}
    manifest = journey.release_erased(
        base,
        audit,
        out=out,
        claim=claim,
        signing=signing,
        show=common.show,
        say=lambda line: common.say(folded(line)),
        bar=partial(progress_bar, common=common),
        **order,
    )
    trust = "" if signing is None else " --trust KEY.pub"
    claimed = "nothing" if manifest.erasure is None else manifest.erasure.against
    text = (
        f"bundle {out}: {counted(len(manifest.files), 'file')}, claimed against {claimed}; check "
        f"it with `unplug bundle verify {out}{trust}`"
    )
    return Outcome(value={"bundle": str(out), **asdict(manifest)}, text=folded(text))
