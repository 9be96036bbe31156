"""How torch's threads wait: chosen before torch loads, from the cores, and never against the user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unplug.core import waiting

BEFORE = (
    "cpu  0 0 0 0\ncpu0 100 0 10 500 5 0 0 0 0 0\ncpu1 100 0 10 500 5 0 0 0 0 0\ncpu10 1 1 1 1 1 1 "
    "1 1 0 0\nintr 5 5\n"
)
AFTER = (
    "cpu  0 0 0 0\ncpu0 106 0 12 500 5 0 0 2 0 0\ncpu1 100 0 11 508 6 0 0 0 0 0\ncpu10 9 9 9 9 9 9 "
    "9 9 0 0\nintr 9 9\n"
)


def test_torch_leaves_nothing_in_the_place_of_temporary_files(tmp_path: Path) -> None:
    code = "import unplug.core, torch._dynamo, os; print(os.listdir(os.environ['TMPDIR']))"
    # torch sets it
    own = {name: value for name, value in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=own | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "torchinductor" in done.stdout, "torch makes a folder as it is loaded"
    assert not list(tmp_path.iterdir())


def test_ticks_are_those_of_the_allowed_cores() -> None:
    """Of core 0 ten ticks went by and ten were work, two of them another machine's; of core 1 ten,
    one of them work.
    """
    (worked, whole), (worked_then, whole_then) = (
        waiting.core_ticks(text, [0, 1]) for text in (BEFORE, AFTER)
    )
    assert (worked_then - worked, whole_then - whole) == (11, 20)


def test_other_work_is_what_the_allowed_cores_did_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = tmp_path / "stat"
    stat.write_text(BEFORE)
    monkeypatch.setattr(waiting, "STAT", stat)
    monkeypatch.setattr(waiting.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(waiting.time, "sleep", lambda _: stat.write_text(AFTER))
    assert waiting.busy_cores() == pytest.approx(1.1)
    monkeypatch.setattr(waiting, "STAT", tmp_path / "none")
    assert waiting.busy_cores() is None


@pytest.mark.parametrize(
    ("given", "busy", "then"),
    [
        ({}, 0.0, {}),
        ({}, 1.0, {"OMP_WAIT_POLICY": "passive", "UNPLUG_CHOSE_WAITING": "1"}),
        ({}, None, {}),
        ({"OMP_WAIT_POLICY": "passive", "UNPLUG_CHOSE_WAITING": "1"}, 0.0, {}),
        *(
            ({name: "2"}, 2.0, {name: "2"})
            for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS")
        ),
    ],
)
def test_the_policy(given: dict[str, str], busy: float | None, then: dict[str, str]) -> None:
    waiting.choose_waiting(given, busy)
    assert given == then


@pytest.mark.parametrize("user", [{}, {"OMP_WAIT_POLICY": "active"}])
def test_it_is_chosen_before_torch_is_loaded_and_not_for_other_modules(
    tmp_path: Path, user: dict[str, str]
) -> None:
    """A module named torch tells what the environment was when it was loaded, as libgomp reads it."""
    (tmp_path / "torch.py").write_text("import os\nseen = os.environ.get('OMP_WAIT_POLICY')\n")
    code = (
        "import unplug.core.waiting as w, json, sys\n"
        "w.busy_cores = lambda: print('looked') or 2.0\n"
        "import wave, torch, plistlib\n"
        "assert not any(type(f).__name__ == '_BeforeTorch' for f in sys.meta_path)\n"
        "print(torch.seen)"
    )
    path = ":".join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": path, **user},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ([*user.values()] or ["looked", "passive"])
