"""Memory that is kept while a training runs, and given back behind it."""

from __future__ import annotations

import ctypes
import json
import resource
import sys
import threading
from pathlib import Path

import pytest
import torch

from unplug.sdk.training import kept_heap

CPU, BIG = torch.device("cpu"), 64 * 2**20
PAGES = BIG // resource.getpagesize()
glibc = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library"
)


def faults() -> int:
    """Pages that the kernel had to clear for a tensor of `BIG` bytes, made and freed."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(BIG, dtype=torch.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def settled() -> int:
    """`faults` once there is a free piece that is large enough: the heap grows until then."""
    return [faults() for _ in range(16)][-1]


@glibc
def test_freed_memory_is_used_again_until_the_end() -> None:
    assert faults() > PAGES / 2
    with kept_heap(CPU) as kept:
        assert kept and settled() < PAGES / 8
    assert faults() > PAGES / 2


def enter_and_leave() -> None:
    with kept_heap(CPU):
        faults()


@glibc
def test_a_training_within_another_or_beside_it_does_not_end_it() -> None:
    with kept_heap(CPU):
        beside = threading.Thread(target=enter_and_leave)
        beside.start()
        beside.join()
        assert settled() < PAGES / 8


def test_nothing_is_done_for_a_gpu() -> None:
    with kept_heap(torch.device("cuda")) as kept:
        assert not kept


def test_the_page_shows_what_was_measured() -> None:
    from benchmarks.kept_heap import described

    docs = Path(__file__).parents[3] / "docs"
    measured = json.loads((docs / "data" / "kept-heap.json").read_text(encoding="utf-8"))
    assert described(measured["rows"]) in (docs / "training.md").read_text(encoding="utf-8")
