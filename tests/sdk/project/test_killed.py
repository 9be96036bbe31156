"""``unplug answer`` as a process, killed at any moment: it goes on, and nothing is doubled."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unplug.sdk import Project, verify_bundle
from unplug.trust.bundle import read_trust

from ..cli.calls import run
from .conftest import kinds, remembering

ROUNDS = int(os.environ.get("UNPLUG_KILLS", "30"))


def start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "unplug.sdk.cli", "answer", "--yes"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"UNPLUG_CACHE": str(Path("../cache").resolve())},  # ours is in use
        start_new_session=True,
    )


def killed_after(seconds: float) -> int:
    """Its exit status, where it and all its children had so long to live."""
    process = start()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait(60)


def agree(project: Project) -> int | None:
    """The release that state, ledger, bundle and search all tell of; None where none does."""
    state = project.state()
    run("ledger verify")
    run("status")
    assert kinds(project)["release"] == (state.release or 0) <= 1
    bundle = project.folder / "releases/face-age-1.unplug"
    left = remembering(project, "subject:person-0")
    if state.release is None:
        assert project.ledger().requests()["T-1"].state == "open"
        return None
    verified = verify_bundle(bundle, read_trust(project.folder / "keys/release.key.pub"))
    assert verified.lineage.checkpoint_sha256 == state.current
    assert left == ["models/age"]
    return state.release


@pytest.mark.nightly
def test_killed_at_moments_of_wall_time(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    seed = int(os.environ.get("UNPLUG_SEED", seed))
    print(f"UNPLUG_SEED={seed}")
    draw, begin = random.Random(seed), project.folder
    whole = begin.with_name("whole")
    shutil.copytree(begin, whole)
    monkeypatch.chdir(whole)
    clock = time.monotonic()
    assert start().wait(600) == 0
    length, done = time.monotonic() - clock, Project.open()
    assert agree(done) == 1
    current = done.state().current
    for number in range(ROUNDS):
        folder = Path(shutil.copytree(begin, begin.with_name(f"killed-{number}")))
        monkeypatch.chdir(folder)
        moment = draw.uniform(0, 1.25 * length)  # a machine with other work is slower
        status = killed_after(moment)
        after = Project.open()
        reached = agree(after)
        print(f"{number}: {moment:.1f} of {length:.1f} s, exit {status}, release {reached}")
        if start().wait(600) == 0:
            assert agree(after) == 1
        else:
            assert reached == 1, "nothing was left to do, so all was done"
        assert kinds(after) == {"release": 1, "search": 1}
        assert after.state().current == current
        shutil.rmtree(folder)
