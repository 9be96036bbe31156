"""The certificates of a release: one for each request that it answers, next to the bundle in the
job's folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any

from unplug.trust.bundle import load_signer
from unplug.trust.certificates import issue_certificate
from unplug.trust.ledger import Ledger

from .recipe import ServeRecipe


def issue_certificates(
    recipe: ServeRecipe,
    ledger: Ledger,
    requests: Sequence[str],
    result: Mapping[str, Any],
    folder: Path,
    lost: Event,
) -> dict[str, str]:
    """Issues a certificate of each request, once the ledger holds the release; none where nothing
    is signed.

    Nobody was told and no place searched by then: both stand so in them, and ``unplug certificate``
    issues later ones.

    Args:
        recipe: the recipe, with the key that signed the bundle.
        ledger: the ledger that records the release of the bundle.
        requests: ids.
        result: the result of the runner, with ``bundle``.
        folder: the folder of the job; each certificate is a folder in ``certificates`` there.
        lost: ends it before the next request.

    Returns:
        Name to path of what may be fetched: the statements, and the pages to read.

    Raises:
        UnplugError: the ledger or the bundle does not hold, or the key cannot be had.
    """
    if recipe.sign is None or not result.get("bundle"):
        return {}
    signer = load_signer(recipe.sign, None if recipe.public is None else Path(recipe.public))
    known, files = ledger.requests(), dict[str, str]()
    for id in requests:
        if lost.is_set():
            break
        if known[id].state in ("refused", "withdrawn"):
            continue  # since the release: there is nothing to certify
        name = f"certificate-{known[id].sequence}-{id.replace('/', '-').replace(':', '-')}"
        issued = issue_certificate(
            id,
            ledger=ledger,
            bundle=Path(result["bundle"]),
            signer=signer,
            out=folder / "certificates" / name,
        )
        files |= {f"{name}.intoto.jsonl": str(issued.file), f"{name}.html": str(issued.page)}
    return files
