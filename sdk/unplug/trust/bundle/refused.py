"""The answer no of a check on a bundle, with the word that every reader in every language gives for
it.
"""

from __future__ import annotations

from typing import Literal, get_args

from unplug.core import CheckFailed

Verdict = Literal[
    "archive",
    "link",
    "too-many",
    "unsafe-name",
    "collision",
    "no-bundle",
    "too-large",
    "unsigned",
    "envelope",
    "wrong-type",
    "unknown-key",
    "certificate",
    "bad-signature",
    "statement",
    "excluded",
    "manifest",
    "wrong-version",
    "another-product",
    "expired",
    "revoked",
    "superseded",
    "downgraded",
    "missing",
    "unlisted",
    "wrong-size",
    "changed",
]
"""Why a bundle is refused; ``docs/formats.md`` says when each is given."""
VERDICTS: tuple[str, ...] = get_args(Verdict)
DISTRUST = "Do not use it; fetch or make it again"


class BundleCheckFailed(CheckFailed):
    """A bundle's content is not what its manifest says."""


class Refused(BundleCheckFailed):
    """A bundle that the verifier refuses.

    Args:
        verdict: the word, the same in every language.
        what: the bundle, or the part of it.
        why: the reason found.
        fix: advice: the next step.
    """

    def __init__(self, verdict: Verdict, what: str, why: str, fix: str = DISTRUST) -> None:
        self.verdict = verdict
        super().__init__(what, why, fix)

    def __reduce__(self) -> tuple[type[Refused], tuple[Verdict, str, str, str]]:  # type: ignore[override]
        return type(self), (self.verdict, self.what, self.why, self.fix)
