"""The page's verifier gives every bundle of the corpus the verdict that Python's gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import Built, run_in

BUNDLES = Path(__file__).parents[2] / "vectors" / "bundles"
TESTS_BESIDE = 2
"""That there is a corpus, and RFC 8785's own example."""
IN_FOLDERS = '"links"'
"""What a browser is given has no links; a folder on a disk may."""


def judged_in_typescript(built: Built, cases: Path) -> int:
    """Gives every case of a folder to the page's verifier under Node; all have their verdicts. How
    many tests that were.
    """
    out = "checked-bundles"
    run_in(built, f"npm exec --offline -- vite build --ssr tests/bundles.test.ts --outDir {out}")
    told = run_in(built, f"node --test {out}/", UNPLUG_BUNDLES=str(cases))
    passed = re.search(r"^. pass (\d+)$", told, re.MULTILINE)
    assert passed
    return int(passed[1])


@pytest.mark.long
def test_the_corpus_has_its_verdicts_in_typescript(built: Built) -> None:
    texts = [path.read_text() for path in BUNDLES.glob("*.json")]
    wanted = sum(IN_FOLDERS not in text for text in texts) + TESTS_BESIDE
    assert judged_in_typescript(built, BUNDLES) == wanted
