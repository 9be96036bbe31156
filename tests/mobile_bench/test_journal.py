"""A benchmark that is cut off and goes on: what is kept, what is told, and what is never mixed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unplug.core import DeviceError, DeviceLost, InputError, JsonLines
from unplug.export import Artifact
from unplug.mobile_bench import DEVICES, BenchRow, Plan, journals
from unplug.mobile_bench.devices.bench_device import BenchJob, DeviceTiming, State
from unplug.sdk.cli import main

from .conftest import OnFake
from .fakes import FakeDevice

PLAN = Plan(iterations=9, repeats=4, away_s=0.0)


class Fragile(FakeDevice):
    """Vanishes in the cold starts whose numbers are given; `back` says whether it comes back."""

    def __init__(
        self, *breaks: int, error: type[DeviceError] = DeviceLost, **given: object
    ) -> None:
        super().__init__(**given)  # type: ignore[arg-type]
        self.breaks, self.error = set(breaks), error

    def timed(self, job: BenchJob, plan: Plan) -> DeviceTiming:
        if self.starts + 1 in self.breaks:
            self.breaks.discard(self.starts + 1)
            raise self.error("phone", "the cable was pulled", "Look at the cable")
        return super().timed(job, plan)


class Deadly(FakeDevice):
    """Vanishes in every cold start."""

    def timed(self, job: BenchJob, plan: Plan) -> DeviceTiming:
        raise DeviceLost("phone", "it rebooted", "")


Run = Callable[..., tuple[BenchRow, list[str]]]


@pytest.fixture
def run(on_fake: OnFake, tmp_path: Path) -> Run:
    """A benchmark with a journal, and what was said."""

    def bench(device: FakeDevice, **how: Any) -> tuple[BenchRow, list[str]]:
        lines: list[str] = []
        how = {"plan": PLAN, "journal": tmp_path / "b.json", "say": lines.append, **how}
        return on_fake(device, **how), lines

    return bench


@pytest.fixture
def part(tmp_path: Path) -> Path:
    """The journal of `run`."""
    return journals(tmp_path / "b.json", ["fake"])[0]


def test_a_device_that_comes_back_is_told_of(run: Run) -> None:
    row, lines = run(Fragile(2, back=True))
    assert row.valid and row.interruptions == (
        "the device vanished in cold start 2 (the cable was pulled) and was back after 0 s",
    )
    assert "Waiting for it" in lines[0]


def test_a_file_that_always_ends_the_device_is_given_up(run: Run) -> None:
    row, _ = run(Deadly(back=True))
    assert row.status == "failed"
    assert "vanished 3 times during the same cold start" in row.reasons[0]


def test_what_was_measured_is_kept_and_gone_on_with(run: Run, part: Path) -> None:
    row, _ = run(Fragile(3))
    assert (row.status, len(row.repeats)) == ("failed", 2)
    assert "2 of 4 cold starts were timed" in row.reasons[0]
    head, *lines = map(json.loads, part.read_text().splitlines())
    assert head["schema"] == "unplug-bench-journal/1" and [line["turn"] for line in lines] == [1, 2]
    part.write_text(part.read_text()[:-20])  # killed while it wrote the last line
    row, told = run(Fragile(3))
    assert len(row.repeats) == 3 and "1 cold starts of an earlier run are kept" in told[0]
    device = FakeDevice()
    row, _ = run(device)
    assert row.valid and len(row.repeats) == 4 and device.starts == 1, "only what was missing"
    assert row.interruptions == ("3 of 4 cold starts are of an earlier run of the same command",)


@pytest.mark.parametrize(
    ("device", "how", "starts"),
    [
        (FakeDevice(), {"plan": Plan(iterations=9, repeats=3)}, 3),
        (FakeDevice(info={"device": "another"}), {}, 4),
    ],
)
def test_another_benchmark_is_set_aside_and_not_lost(
    run: Run, part: Path, device: FakeDevice, how: dict[str, Any], starts: int
) -> None:
    run(Fragile(3))
    before = part.read_text()
    row, lines = run(device, **how)
    assert device.starts == len(row.repeats) == starts and "is of another benchmark" in lines[0]
    assert part.with_name(f"{part.name}.old1").read_text() == before


def test_two_benchmarks_do_not_write_one_report(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Nosy(FakeDevice):
        def timed(self, job: BenchJob, plan: Plan) -> DeviceTiming:
            with pytest.raises(InputError, match="another benchmark writes it now"):
                run(FakeDevice())
            monkeypatch.setitem(DEVICES._targets, "fake", self)
            return super().timed(job, plan)

    assert run(Nosy())[0].valid


def test_a_journal_without_cold_starts_is_begun_anew(run: Run, tmp_path: Path) -> None:
    run(Fragile(1))
    _, lines = run(FakeDevice(), plan=Plan(iterations=9, repeats=2))
    assert lines == [] and not list(tmp_path.glob("*.old*"))


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        # a gate is of its own rows and outlives a break
        (
            State(temperature_c=61.0),
            State(temperature_c=30.0),
            "the device was too hot to begin: gave up after 0 s at 61.0 °C",
        ),
        (
            State(charging=True),
            State(charging=False),
            "charging changed between cold starts: True, False",
        ),
    ],
)
def test_what_changed_over_a_break(run: Run, before: State, after: State, reason: str) -> None:
    hot = {"max_temperature_c": 40.0, "cool_down_s": 0.0}
    plan = Plan(iterations=9, repeats=4, away_s=0.0, **hot)  # type: ignore[arg-type]
    run(Fragile(3, states=lambda: before), plan=plan)
    row, _ = run(FakeDevice(states=lambda: after), plan=plan)
    assert not row.valid and reason in row.reasons


def test_an_error_in_the_middle_keeps_what_was_measured(run: Run, tmp_path: Path) -> None:
    row, _ = run(Fragile(3, error=DeviceError))
    assert row.status == "failed" and len(row.repeats) == 2
    assert "the cable was pulled" in row.reasons[0]
    with pytest.raises(DeviceError, match="the cable was pulled"):
        run(Fragile(1, error=DeviceError), journal=tmp_path / "c.json")


def test_the_command_keeps_the_journals_of_a_benchmark_that_is_not_whole(
    onnx: Artifact, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One of two devices is in use by another benchmark, whose journal must outlive this one."""
    for name in ("fake", "other"):
        monkeypatch.setitem(DEVICES._targets, name, FakeDevice())
    out = tmp_path / "b.json"
    words = ["bench", str(onnx.path), "--on", "fake,other", "--out", str(out)]
    words += ["--iterations", "5", "--repeats", "2"]
    one, two = journals(out, ["fake", "other"])
    with JsonLines(one, {"of": "somebody else"}, print) as theirs:
        assert CliRunner().invoke(main, words).exit_code == 1
        theirs.add({"more": 1})
    assert one.read_text().splitlines()[1:] == ['{"more": 1}'] and two.is_file()
    one.unlink()
    done = CliRunner().invoke(main, words)
    assert "are kept" in done.stderr, done.output
    assert list(tmp_path.iterdir()) == [out]
