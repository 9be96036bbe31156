"""Small files that ask for too much: each is refused in one line by a typed error, within a second
and a few megabytes.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.asks import ASKS, Ask

from unplug.core import UnplugError, out_of_memory

MEMORY, SECONDS = 512 * 2**20, 90
"""Beyond what the process holds; a busy machine takes its time to start the child that `unplug
serve` tries a file in.
"""


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Too little memory and time for anybody who believes a file: an error of no type of ours ends
    the test.
    """
    import resource

    import diffusers  # noqa: F401 (what importing takes is not what is asked)
    import transformers  # noqa: F401

    monkeypatch.setenv(
        "UNPLUG_FACTORIES", "tests.networks:small?groups=3,tests.networks:buffered?side=40000"
    )
    monkeypatch.setenv("UNPLUG_CHILD_MEMORY_GIB", "2")
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    resource.setrlimit(
        resource.RLIMIT_DATA, (int(status["VmData"].split()[0]) * 1024 + MEMORY, hard)
    )
    before = signal.signal(signal.SIGALRM, _late)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _late(*_: Any) -> None:
    raise TimeoutError(f"still at it after {SECONDS} s")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts memory against its limit")
@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: ask.what)
def test_what_asks_for_too_much_is_refused(ask: Ask, tmp_path: Path, limited: None) -> None:
    if ask.what.startswith("serve"):
        pytest.importorskip("onnxruntime")
    ask.make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UnplugError) as caught:
        ask.load(tmp_path)
    assert (
        caught.value.exit_code == 2
        and "\n" not in str(caught.value)
        and str(tmp_path)[-20:] in str(caught.value)
    )
    assert ask.what.startswith("serve") or not out_of_memory(str(caught.value)), (
        "it was believed first"
    )
    assert sorted(tmp_path.rglob("*")) == before
