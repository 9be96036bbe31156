"""Children that open files from outside take bounded memory and time."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from unplug.core import (
    ConversionError,
    InputError,
    Job,
    Reply,
    call_in_child,
    memory_for,
    seconds_for,
)
from unplug.core.limits import BASE_BYTES, FILE_FACTOR

GIB = 2**30


def hoard(job: Job) -> Reply:
    """Takes as much as it is told, and touches none of it."""
    return Reply(values={"bytes": np.empty(job.values["bytes"], np.uint8).nbytes})


def test_the_limit_grows_with_the_file_and_follows_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small").write_bytes(b"x" * 10)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "large").write_bytes(b"x" * 1000)
    assert memory_for() >= BASE_BYTES
    assert memory_for(tmp_path / "small", tmp_path / "tree") - memory_for() == 1010 * FILE_FACTOR
    assert seconds_for(3) - seconds_for(1) == 2 * 60.0 and seconds_for(3, 7.0) == 7.0
    monkeypatch.setenv("UNPLUG_CHILD_MEMORY_GIB", "1.5")
    monkeypatch.setenv("UNPLUG_CHILD_SECONDS", "9")
    assert (
        memory_for(tmp_path / "small") == 1.5 * GIB and seconds_for(3) == seconds_for(3, 7.0) == 9.0
    )
    monkeypatch.setenv("UNPLUG_CHILD_MEMORY_GIB", "0")
    assert memory_for(tmp_path / "small") == 0
    for text in ("much", "-1", "nan", "1e99"):
        monkeypatch.setenv("UNPLUG_CHILD_MEMORY_GIB", text)
        with pytest.raises(InputError, match="not a number from 0 on"):
            memory_for()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what a process maps")
def test_a_child_that_wants_more_is_told_of_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[2]}:{':'.join(sys.path)}")
    function, values = "tests.core.test_limits:hoard", {"bytes": 3 * GIB}
    assert call_in_child(function, values, what="hoarding").values == values
    with pytest.raises(
        ConversionError, match=r"It may take 2.0 GiB; .* set UNPLUG_CHILD_MEMORY_GIB to more"
    ):
        call_in_child(function, values, what="hoarding", memory=2 * GIB)
