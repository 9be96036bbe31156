"""The page's verifiers of bundles and of update metadata give every case of the corpora the verdict that Python's give."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

VECTORS = Path(__file__).parents[2] / "vectors"
IN_FOLDERS = '"links"'
"""What a browser is given has no links; a folder on a disk may."""


@pytest.mark.long
@pytest.mark.parametrize(("corpus", "more"), [("bundles", 2), ("updates", 1)])
def test_the_corpus_has_its_verdicts_in_typescript(built: Any, corpus: str, more: int) -> None:
    out = f"checked-{corpus}"
    build = ["npm", "exec", "--offline", "--", "vite", "build", "--ssr", f"tests/{corpus}.test.ts", "--outDir", out]
    environment = {**os.environ, f"UNPLUG_{corpus.upper()}": str(VECTORS / corpus)}
    for command in (build, ["node", "--test", f"{out}/"]):
        done = subprocess.run(
            command, cwd=built.folder, env=environment, capture_output=True, text=True, timeout=120, check=False
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    passed = re.search(r"^. pass (\d+)$", done.stdout, re.MULTILINE)
    texts = [path.read_text() for path in (VECTORS / corpus).glob("*.json")]
    assert passed and int(passed[1]) == sum(IN_FOLDERS not in text for text in texts) + more
