"""The page's verifiers of bundles and of update metadata give every case of the corpora the verdict that Python's give."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.sdk.updates.test_fuzz import judged
from tests.vectors.updates.harmed import harmed_sets

from .conftest import Built

VECTORS = Path(__file__).parents[2] / "vectors"
HARMED = 1500
IN_FOLDERS = '"links"'
"""What a browser is given has no links; a folder on a disk may."""


def judged_in_typescript(built: Built, corpus: str, cases: Path) -> int:
    """Gives every case of a folder to the page's verifier under Node; all have their verdicts. How many tests that were."""
    out = f"checked-{corpus}"
    build = ["npm", "exec", "--offline", "--", "vite", "build", "--ssr", f"tests/{corpus}.test.ts", "--outDir", out]
    environment = {**os.environ, f"UNPLUG_{corpus.upper()}": str(cases)}
    for command in (build, ["node", "--test", f"{out}/"]):
        done = subprocess.run(
            command, cwd=built.folder, env=environment, capture_output=True, text=True, timeout=120, check=False
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    passed = re.search(r"^. pass (\d+)$", done.stdout, re.MULTILINE)
    assert passed
    return int(passed[1])


@pytest.mark.long
@pytest.mark.parametrize(("corpus", "more"), [("bundles", 2), ("updates", 1)])
def test_the_corpus_has_its_verdicts_in_typescript(built: Built, corpus: str, more: int) -> None:
    texts = [path.read_text() for path in (VECTORS / corpus).glob("*.json")]
    assert judged_in_typescript(built, corpus, VECTORS / corpus) == sum(IN_FOLDERS not in text for text in texts) + more


@pytest.mark.slow
def test_harmed_update_metadata_has_pythons_verdict_in_typescript(built: Built, tmp_path: Path) -> None:
    cases = tmp_path / "cases"
    cases.mkdir()
    for number, item in enumerate(harmed_sets(HARMED, 2)):
        (cases / f"{number:05d}.json").write_text(json.dumps(item.case(*judged(item, tmp_path / "folder"))))
    assert judged_in_typescript(built, "updates", cases) == HARMED + 1
