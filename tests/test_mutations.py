"""Every JSON that a command reads, harmed in one place: an answer, or a typed error of one line,
and never anything else.

`mutations` says what is done, `specimens` who reads it: the functions behind the commands, so that
many files take seconds.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unplug.core import UnplugError, peak_rss_bytes, printable

from .mutations import mutated
from .specimens import SPECIMENS, Specimen

FEW, MANY = 12, 1500
"""Harms to each kind of file, in `make test` and in `make nightly`."""
MAX_GROWTH = 2**29
"""Bytes that reading any number of small files may take beyond what tests took before."""
MAX_LINE = 1000
DRAWN = (
    "report audit",
    "report of a journey",
    "report original",
    "report plugin",
    "report evaluation",
)
"""Whose answer is a page with plots, of a quarter of a second each."""


def law(specimen: Specimen, folder: Path, count: int, seed: str) -> None:
    """Every harmed file is read, or refused in one line by a typed error."""
    path = specimen.make(folder)
    value, before = json.loads(path.read_bytes()), peak_rss_bytes() or 0
    for raw in mutated(value, count, seed):
        path.write_bytes(raw)
        try:
            specimen.read(path)
        except UnplugError as error:
            line = printable(" ".join(str(error).split())).replace(str(folder), "")
            assert len(line) < MAX_LINE and line.isprintable() and line.encode(), line[
                : 2 * MAX_LINE
            ]
        except Exception as error:
            raise AssertionError(
                f"{type(error).__name__}: {error} at {raw[: 5 * MAX_LINE]!r}"
            ) from error
    assert (peak_rss_bytes() or 0) - before < MAX_GROWTH


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.long] * (kind in DRAWN)) for kind in SPECIMENS]
)
def test_a_harmed_file_is_answered_or_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    law(SPECIMENS[kind], tmp_path, FEW, f"few {kind}")


@pytest.mark.nightly
@pytest.mark.parametrize("kind", SPECIMENS)
def test_many_harms(kind: str, tmp_path: Path) -> None:
    law(SPECIMENS[kind], tmp_path, MANY, f"many {kind}")
