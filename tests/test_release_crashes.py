"""A release on record survives kills and power cuts; docs/results/robustness.md has the walk
over all of its changes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        sys.platform != "linux", reason="processes are forked, and open files found in /proc"
    ),
]

# In a process of its own: it forks, and other tests have started threads by then.
WALK = """
import json, sys
from pathlib import Path
from unplug.core import use_threads
from benchmarks.crash_walk import walk_all
from benchmarks.release_crashes import short, use_keys

use_threads(1)
use_keys()
print(json.dumps(walk_all(short(every=40), Path(sys.argv[1]))))
"""


def test_a_release_on_record_is_neither_lost_nor_told_twice(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WALK, str(tmp_path / "walk")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert found["kinds"]["sqlite.sync"] >= 10 and found["kinds"]["sqlite.write"] >= 10
    assert (
        found["kills"]["points"] >= 5
        and found["kills"]["none"] > 0
        and found["power_cuts"]["new"] > 0
    )
