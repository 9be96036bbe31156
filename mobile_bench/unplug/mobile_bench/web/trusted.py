"""A page that runs signed bundles only: whom it trusts is named by its hash in the page itself."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from unplug.core import DeviceError

TRUST, BUNDLE = "trust.json", "bundle.zip"
"""Next to the page."""
_END = "</head>"


@dataclass(frozen=True, kw_only=True)
class PageTrust:
    """``unplug-page-trust/2``: what the page knows before it opens a bundle.

    Args:
        keys: public keys in PEM form, whose signatures count.
        bundle: whether a bundle lies next to the page.
        name, minimum_release, revoked, superseded: the fields of ``unplug-trust/1``.
    """

    keys: tuple[str, ...]
    bundle: bool = False
    name: str | None = None
    minimum_release: int = 1
    revoked: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()
    schema: Literal["unplug-page-trust/2"] = "unplug-page-trust/2"


@dataclass(frozen=True, kw_only=True)
class Guard:
    """What makes a page check signatures.

    Args:
        trust: the keys that it trusts.
        bundle: zip file to put next to it.
    """

    trust: PageTrust
    bundle: Path | None = None

    def pages(self, page: Path) -> dict[str, bytes]:
        """The two files that differ from a page without it: ``index.html``, which names the other
        by its hash.
        """
        raw = json.dumps(asdict(self.trust), indent=1, sort_keys=True).encode()
        html = (page / "index.html").read_text(encoding="utf-8")
        if html.count(_END) != 1:
            raise DeviceError(
                str(page),
                f"its index.html has no {_END} to put the trusted key before",
                "Build the page again",
            )
        mark = f'<meta name="unplug-trust" content="{hashlib.sha256(raw).hexdigest()}" />'
        return {"index.html": html.replace(_END, f"{mark}{_END}").encode(), TRUST: raw}
