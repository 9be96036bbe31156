"""A killed release repeats no finished stage, and no stage is taken for finished that was made from
something else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from unplug.core import write_json
from unplug.sdk.releasing import Release, ReleaseConfig
from unplug.sdk.releasing.stage import FILE, Left, StageProgress
from unplug.sdk.releasing.stages import STAGES
from unplug.trust.bundle import verify_bundle

from ..conftest import QUICK, World
from .conftest import releasing


class Bench:
    """Three stages, each made from the one before; counts how often each ran."""

    def __init__(self, work: Path) -> None:
        self.work, self.ran, self.said = work, Counter[str](), list[str]()

    def __call__(
        self, *, of: str = "a", dies: str = "", restart: bool = False, seed: int = 0
    ) -> list[str]:
        progress = StageProgress(self.work, {"seed": seed}, self.said.append, restart=restart)
        made, last = list[str](), of
        for name in ("one", "two", "three"):

            def make(name: str = name, last: str = last) -> Left:
                if name == dies:
                    raise KeyboardInterrupt
                self.ran[name] += 1
                write_json(self.work / f"{name}.json", f"{last}+{name}")
                return Left(files=[self.work / f"{name}.json"], facts={"of": last})

            def load(facts: Any, name: str = name) -> str:
                return f"{(self.work / f'{name}.json').read_text().strip()} of {facts['of']}"

            last = progress.stage(name, {"of": last}, make, load)
            made.append(last)
        self.seconds = progress.seconds
        return made


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "work")


def test_it_goes_on_behind_the_last_finished_stage(bench: Bench) -> None:
    for stage in ("two", "three"):
        with pytest.raises(KeyboardInterrupt):
            bench(dies=stage)
    first = bench()
    assert bench.ran == {"one": 1, "two": 1, "three": 1}
    assert re.fullmatch(r"three: \d+(?:\.\d)? m?s", bench.said[-1]), (
        "a stage ends with its time, for who reads a log"
    )
    assert bench.said[-4:-1] == [
        "one: finished by an earlier run, used again",
        "two: finished by an earlier run, used again",
        "three ...",
    ]
    seconds = bench.seconds
    assert bench() == first and bench.seconds == seconds and bench.ran.total() == 3


def test_what_was_made_from_something_else_runs_again(bench: Bench) -> None:
    bench()
    bench(of="b")
    assert bench.ran == {"one": 2, "two": 2, "three": 2}
    bench(of="b", seed=1)
    assert bench.ran == {"one": 3, "two": 3, "three": 3}
    bench(of="b", seed=1, restart=True)
    assert bench.ran == {"one": 4, "two": 4, "three": 4}


def test_a_file_that_is_gone_or_another_is_made_again(bench: Bench) -> None:
    first = bench()
    (bench.work / "two.json").write_text("edited")
    assert bench() == first and bench.ran == {"one": 1, "two": 2, "three": 1}
    (bench.work / "three.json").unlink()
    assert bench() == first and bench.ran == {"one": 1, "two": 2, "three": 2}


def test_what_is_not_final_is_tried_again(tmp_path: Path) -> None:
    for final in (False, True):
        left = Left(files=[], facts={"final": final}, final=final)
        assert StageProgress(tmp_path, {}, print).stage(
            "bench", {}, lambda left=left: left, dict
        ) == {"final": final}  # type: ignore[misc]
    assert StageProgress(tmp_path, {}, print).has("bench", {})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"schema": "unplug-release-stages/2", "stages": {}}',
        '{"stages": {"one": 1}}',
    ],
)
def test_records_that_cannot_be_read_are_none(bench: Bench, text: str) -> None:
    bench()
    (bench.work / FILE).write_text(text)
    bench()
    assert bench.ran == {"one": 2, "two": 2, "three": 2}


class Killed(BaseException):
    """Ends a release as a kill does: nothing handles it."""


MADE = ("references", "unlearned", "artifacts", "parity", "audit", "bench")


@pytest.mark.nightly
def test_a_release_that_is_killed_before_every_stage_runs_each_once(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, dies, lines = Counter[str](), [""], list[str]()

    def counted(name: str, stage: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            if dies[0] == name:
                raise Killed
            ran[name] += 1
            return stage(*args)

        return run

    for stage in STAGES:
        monkeypatch.setattr(stage, "make", counted(stage.gives, stage.make))

    config = replace(QUICK, targets=("onnx",))

    def attempt(config: ReleaseConfig = config) -> Release:
        return releasing(world, tmp_path, config, say=lines.append)

    for name in MADE:
        dies[0] = name
        with pytest.raises(Killed):
            attempt()
        assert not (tmp_path / "age.unplug").exists()
    dies[0] = ""
    done = attempt()
    assert ran == dict.fromkeys(MADE, 1), "one reference model, one of everything"
    assert verify_bundle(done.bundle).gates
    assert done.summary["seconds"]["export"] > 0 and lines.count("bench ...") == 2

    bench = (tmp_path / "work" / "bench.json").read_bytes()
    again = attempt(replace(config, gates=replace(QUICK.gates, max_mae_above_retrained=200.0)))
    assert ran == dict.fromkeys(MADE, 1), "gates only judge"
    assert {**again.summary["seconds"], "bundle": 0} == {**done.summary["seconds"], "bundle": 0}
    assert (tmp_path / "work" / "bench.json").read_bytes() == bench, (
        "timings are those of the run that took them"
    )

    attempt(replace(config, bench_iterations=4))
    assert ran == {**dict.fromkeys(MADE, 1), "bench": 2}
