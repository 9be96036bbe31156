"""Memory that is kept while a training runs, and given back behind it. What it brings is measured,
in docs/results/speed.md.
"""

from __future__ import annotations

import ctypes
import threading

import pytest
import torch

import unplug.sdk.learning.training.heap as heap
from unplug.sdk.learning.training import kept_heap

CPU = torch.device("cpu")


class Library:
    """Stands for glibc: remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, ...]] = []

    def mallopt(self, option: int, value: int) -> int:
        self.told.append((option, value))
        return 1

    def malloc_trim(self, pad: int) -> int:
        self.told.append((pad,))
        return 1


def enter_and_leave() -> None:
    with kept_heap(CPU):
        pass


def test_the_first_training_sets_it_and_the_last_one_puts_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = Library()
    monkeypatch.setattr(heap, "_glibc", lambda: library)
    with kept_heap(CPU) as kept:
        enter_and_leave()
        beside = threading.Thread(target=enter_and_leave)
        beside.start()
        beside.join()
        assert kept and library.told == list(heap.KEEP.items())
    assert library.told == [*heap.KEEP.items(), *heap.USUAL.items(), (0,)]
    library.told.clear()
    with pytest.raises(KeyError), kept_heap(CPU):
        raise KeyError
    assert library.told[-1] == (0,)


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="another C library"
)
def test_the_library_takes_every_setting() -> None:
    libc = ctypes.CDLL(None)
    assert all(
        libc.mallopt(option, value) == 1
        for option, value in [*heap.KEEP.items(), *heap.USUAL.items()]
    )


def test_nothing_is_done_for_a_gpu() -> None:
    with kept_heap(torch.device("cuda")) as kept:
        assert not kept
