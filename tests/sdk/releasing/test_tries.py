"""Every try of a request is told: one passes by chance if there are enough."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from unplug.core import ReportError
from unplug.sdk.bundle import Gate
from unplug.sdk.releasing import Gates, ReleaseConfig
from unplug.sdk.releasing.pipeline import _tries
from unplug.sdk.releasing.stages import Stages
from unplug.sdk.report import Try
from unplug.sdk.tasks import task_of

from ..conftest import CPU, World


@pytest.fixture
def stages(world: World, tmp_path: Path) -> Stages:
    return Stages(
        original=world.original, dataset=world.dataset, forget_ids=world.forget_ids, config=ReleaseConfig(), work=tmp_path,
        device=CPU, task=task_of(world.original, device=CPU), show=False,
    )  # fmt: skip


def tried(stages: Stages, world: World, *passed: bool, sha256: str = "a" * 64, **config: Any) -> tuple[Try, ...]:
    """What a release writes down after one more try."""
    stages = replace(stages, config=replace(stages.config, **config))
    found = [
        Gate(name=f"gate {number}", value=1.0, limit=2.0, comparison="<=", passed=held, unit="", detail="")
        for number, held in enumerate(passed)
    ]
    evidence: Any = SimpleNamespace(unlearned=SimpleNamespace(record=world.unlearned.record, sha256=sha256))
    return _tries(stages, evidence, found)


def test_each_try_once_and_the_last_one_last(stages: Stages, world: World) -> None:
    first = tried(stages, world, True, False)
    assert [item.failed for item in first] == [("gate 1",)] and not first[0].passed
    assert tried(stages, world, True, False) == first  # the same command again, after a kill say
    second = tried(stages, world, True, True, seed=3, sha256="b" * 64)
    assert second[:1] == first and second[-1].passed and second[-1].seed == 3
    assert tried(stages, world, True, False) == (second[1], first[0])


def test_gates_that_were_loosened_show(stages: Stages, world: World) -> None:
    assert tried(stages, world, True)[-1].gates == {}
    loose = Gates(max_mae_above_retrained=9.0)
    assert tried(stages, world, True, gates=loose)[-1].gates == {"max_mae_above_retrained": 9.0}
    assert len(tried(stages, world, True)) == 2


def test_another_request_begins_anew(stages: Stages, world: World) -> None:
    first = tried(stages, world, False)
    assert len(tried(replace(stages, forget_ids=world.forget_ids[:4]), world, False)) == 1
    assert tried(stages, world, True)[:-1] == first  # what lay between does not make it forgotten


def test_tries_that_cannot_be_read_are_not_dropped(stages: Stages, world: World) -> None:
    (stages.work / ".tries.json").write_text('{"schema": "unplug-tries/1", "tries": 7}')
    with pytest.raises(ReportError, match="does not follow its schema"):
        tried(stages, world, False)
