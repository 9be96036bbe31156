"""The page's verifier of signed bundles gives every bundle of the corpus the verdict that Python's gives it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

CORPUS = Path(__file__).parents[2] / "vectors" / "bundles"


@pytest.mark.long
def test_the_corpus_has_its_verdicts_in_typescript(built: Any) -> None:
    build = ["npm", "exec", "--offline", "--", "vite", "build", "--ssr", "tests/bundles.test.ts", "--outDir", "signed"]
    environment = {**os.environ, "UNPLUG_BUNDLES": str(CORPUS)}
    for command in (build, ["node", "--test", "signed/"]):
        done = subprocess.run(
            command, cwd=built.folder, env=environment, capture_output=True, text=True, timeout=120, check=False
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    passed = re.search(r"^. pass (\d+)$", done.stdout, re.MULTILINE)
    in_folders = sum('"links"' in path.read_text() for path in CORPUS.glob("*.json"))
    assert passed and int(passed[1]) == len([*CORPUS.glob("*.json")]) - in_folders + 2
