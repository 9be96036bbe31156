"""Memory that is kept while a training runs, and given back behind it."""

from __future__ import annotations

import ctypes
import sys
import threading
from pathlib import Path

import pytest
import torch

from unplug.sdk.training import kept_heap

CPU, BIG = torch.device("cpu"), 64 * 2**20
glibc = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library"
)


def resident() -> int:
    """Bytes of this process in memory."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * 4096


def touched() -> None:
    torch.ones(BIG, dtype=torch.uint8)


@glibc
def test_freed_memory_stays_until_the_end_and_leaves_then() -> None:
    touched()
    before = resident()
    with kept_heap(CPU) as kept:
        assert kept
        touched()
        assert resident() - before > BIG / 2
    assert resident() - before < BIG / 2
    touched()
    assert resident() - before < BIG / 2


def enter_and_leave() -> None:
    with kept_heap(CPU):
        touched()


@glibc
def test_a_training_within_another_or_beside_it_does_not_end_it() -> None:
    before = resident()
    with kept_heap(CPU):
        beside = threading.Thread(target=enter_and_leave)
        beside.start()
        beside.join()
        touched()
        assert resident() - before > BIG / 2


def test_nothing_is_done_for_a_gpu() -> None:
    with kept_heap(torch.device("cuda")) as kept:
        assert not kept
