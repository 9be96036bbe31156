"""Running and timing an exported file needs numpy and the file's own runtime, and none of what
training needs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from unplug.export import Artifact

BLOCKED = ("torch", "cv2", "matplotlib", "PIL", "huggingface_hub", "safetensors")
SITE = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocked())
"""
SCRIPT = """
import json, sys
from unplug.export import RUNTIMES, Session, load_artifact, random_inputs
from unplug.mobile_bench import DEVICES, Plan, bench_artifacts

for name in RUNTIMES:
    RUNTIMES.get(name)
artifacts = [load_artifact(path) for path in sys.argv[1:]]
shapes = []
for artifact in artifacts:
    with Session(artifact) as session:
        outputs = session.run(random_inputs(artifact.card.iospec, 2, seed=0))
    shapes.append({name: value.shape for name, value in outputs.items()})
rows = bench_artifacts(artifacts, plan=Plan(warmup=0, iterations=3, repeats=1)).rows
print(json.dumps([shapes, [row.status for row in rows], "scipy" in sys.modules]))
"""


@pytest.mark.long
def test_neither_torch_nor_pictures_are_needed(
    onnx: Artifact, litert: Artifact, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SITE)
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    words = [sys.executable, "-c", SCRIPT, str(onnx.path), str(litert.path)]
    done = subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=False
    )
    assert done.returncode == 0, done.stderr
    shapes, statuses, scipy = json.loads(done.stdout)
    assert (
        shapes == [{"age_logits": [2, 13], "expected_age": [2, 1]}] * 2
        and statuses == ["ok", "ok"]
        and not scipy
    )
