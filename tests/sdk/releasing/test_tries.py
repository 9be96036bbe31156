"""Every try of a request is told: one passes by chance if there are enough."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from unplug.core import ReportError
from unplug.sdk.releasing import Gates, ReleaseConfig
from unplug.sdk.releasing.material import ReleaseMaterial
from unplug.sdk.releasing.pipeline import note_try
from unplug.sdk.report import Try
from unplug.trust.bundle import Gate

from ..conftest import World
from .conftest import material_of


@pytest.fixture
def material(world: World, tmp_path: Path) -> ReleaseMaterial:
    return material_of(world, tmp_path, ReleaseConfig())


def tried(
    material: ReleaseMaterial, world: World, *passed: bool, sha256: str = "a" * 64, **config: Any
) -> tuple[Try, ...]:
    """What a release writes down after one more try."""
    material = replace(material, config=replace(material.config, **config))
    gates = [
        Gate(
            name=f"gate {number}",
            value=1.0,
            limit=2.0,
            comparison="<=",
            passed=held,
            unit="",
            detail="",
        )
        for number, held in enumerate(passed)
    ]
    return note_try(material, replace(world.unlearned, sha256=sha256), gates)


def test_each_try_once_and_the_last_one_last(material: ReleaseMaterial, world: World) -> None:
    first = tried(material, world, True, False)
    assert [item.failed for item in first] == [("gate 1",)] and not first[0].passed
    assert tried(material, world, True, False) == first  # the same command again, after a kill say
    second = tried(material, world, True, True, seed=3, sha256="b" * 64)
    assert second[:1] == first and second[-1].passed and second[-1].seed == 3
    assert tried(material, world, True, False) == (second[1], first[0])


def test_gates_that_were_loosened_show(material: ReleaseMaterial, world: World) -> None:
    assert tried(material, world, True)[-1].gates == {}
    loose = Gates(max_mae_above_retrained=9.0)
    assert tried(material, world, True, gates=loose)[-1].gates == {"max_mae_above_retrained": 9.0}
    assert len(tried(material, world, True)) == 2


def test_another_request_begins_anew(material: ReleaseMaterial, world: World) -> None:
    first = tried(material, world, False)
    assert len(tried(replace(material, forget_ids=world.forget_ids[:4]), world, False)) == 1
    assert tried(material, world, True)[:-1] == first  # what lay between does not make it forgotten


def test_tries_that_cannot_be_read_are_not_dropped(material: ReleaseMaterial, world: World) -> None:
    (material.work / ".tries.json").write_text('{"schema": "unplug-tries/1", "tries": 7}')
    with pytest.raises(ReportError, match="does not follow its schema"):
        tried(material, world, False)
