"""The answer no of a check on update metadata, with the word that every reader in every language gives for it."""

from __future__ import annotations

from typing import Literal, get_args

from unplug.core import CheckFailed

Verdict = Literal[
    "missing", "too-large", "format", "signature", "rollback", "stale", "wrong-size", "changed", "mismatch",
    "unknown-product", "superseded", "unpublished", "revoked", "retired",
]  # fmt: skip
"""Why metadata, or a release by it, is refused; ``docs/updates.md`` says when each is given."""
VERDICTS: tuple[str, ...] = get_args(Verdict)
NEWEST = "Get the newest release"
FETCH = "Fetch the update metadata again; if it stays so, tell whoever publishes the model"


class NotCurrent(CheckFailed):
    """Update metadata that must not be believed, or a release that must not be used any more.

    Args:
        verdict: the word, the same in every language.
        what: the file, or the release.
        why: the reason found.
        fix: what to do about it.
    """

    def __init__(self, verdict: Verdict, what: str, why: str, fix: str = FETCH) -> None:
        self.verdict = verdict
        super().__init__(what, why, fix)

    def __reduce__(self) -> tuple[type[NotCurrent], tuple[Verdict, str, str, str]]:  # type: ignore[override]
        return type(self), (self.verdict, self.what, self.why, self.fix)
