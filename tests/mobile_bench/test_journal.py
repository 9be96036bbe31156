"""A benchmark that is cut off and goes on: what is kept, what is told, and what is never mixed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from unplug.core import DeviceError, DeviceLost, InputError, JsonLines
from unplug.export import Artifact
from unplug.mobile_bench import DEVICES, BenchRow, Plan, journals
from unplug.mobile_bench.devices.bench_device import BenchJob, DeviceTiming, State
from unplug.sdk.cli import main

from .fakes import FakeDevice, on_fake

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


def run(
    device: FakeDevice,
    onnx: Artifact,
    monkeypatch: pytest.MonkeyPatch,
    out: Path,
    plan: Plan = PLAN,
) -> tuple[BenchRow, list[str]]:
    said: list[str] = []
    (row,) = on_fake(device, onnx, monkeypatch, plan=plan, journal=out, say=said.append)
    return row, said


def test_a_device_that_comes_back_is_told_of(
    onnx: Artifact, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    row, said = run(Fragile(2, back=True), onnx, monkeypatch, tmp_path / "b.json")
    assert row.valid and row.interruptions == (
        "the device vanished in cold start 2 (the cable was pulled) and was back after 0 s",
    )
    assert "Waiting for it" in said[0]


def test_a_file_that_always_ends_the_device_is_given_up(
    onnx: Artifact, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Deadly(FakeDevice):
        def timed(self, job: BenchJob, plan: Plan) -> DeviceTiming:
            raise DeviceLost("phone", "it rebooted", "")

    row, _ = run(Deadly(back=True), onnx, monkeypatch, tmp_path / "b.json")
    assert (
        row.status == "failed" and "vanished 3 times during the same cold start" in row.reasons[0]
    )


def test_what_was_measured_is_kept_and_gone_on_with(
    onnx: Artifact, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out = tmp_path / "b.json"
    row, _ = run(Fragile(3), onnx, monkeypatch, out)
    assert (row.status, len(row.repeats)) == (
        "failed",
        2,
    ) and "2 of 4 cold starts were timed" in row.reasons[0]
    (part,) = journals(out, ["fake"])
    head, *lines = map(json.loads, part.read_text().splitlines())
    assert head["schema"] == "unplug-bench-journal/1" and [line["turn"] for line in lines] == [1, 2]
    part.write_text(part.read_text()[:-20])  # killed while it wrote the last line
    row, said = run(Fragile(3), onnx, monkeypatch, out)
    assert len(row.repeats) == 3 and "1 cold starts of an earlier run are kept" in said[0]
    device = FakeDevice()
    row, _ = run(device, onnx, monkeypatch, out)
    assert row.valid and len(row.repeats) == 4 and device.starts == 1, "only what was missing"
    assert row.interruptions == ("3 of 4 cold starts are of an earlier run of the same command",)


def test_another_benchmark_is_set_aside_and_not_lost(
    onnx: Artifact, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out = tmp_path / "b.json"
    run(Fragile(3), onnx, monkeypatch, out)
    (part,) = journals(out, ["fake"])
    before = part.read_text()
    for changed in ({"plan": Plan(iterations=9, repeats=3)}, {}):
        device = FakeDevice(info={"device": "another"}) if not changed else FakeDevice()
        row, said = run(device, onnx, monkeypatch, out, **changed)
        assert (
            device.starts == len(row.repeats) == row_count(changed)
            and "is of another benchmark" in said[0]
        )
        if changed:
            assert part.with_name(f"{part.name}.old1").read_text() == before


def test_two_benchmarks_do_not_write_one_report(
    onnx: Artifact, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Nosy(FakeDevice):
        def timed(self, job: BenchJob, plan: Plan) -> DeviceTiming:
            with pytest.raises(InputError, match="another benchmark writes it now"):
                run(FakeDevice(), onnx, monkeypatch, tmp_path / "b.json")
            monkeypatch.setitem(DEVICES._targets, "fake", self)
            return super().timed(job, plan)

    row, _ = run(Nosy(), onnx, monkeypatch, tmp_path / "b.json")
    assert row.valid


def test_a_journal_without_cold_starts_is_begun_anew(
    onnx: Artifact, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run(Fragile(1), onnx, monkeypatch, tmp_path / "b.json")
    _, said = run(
        FakeDevice(), onnx, monkeypatch, tmp_path / "b.json", Plan(iterations=9, repeats=2)
    )
    assert said == [] and not list(tmp_path.glob("*.old*"))


def row_count(changed: dict[str, Plan]) -> int:
    return changed["plan"].repeats if changed else PLAN.repeats


def test_gates_are_of_their_own_rows_and_outlive_a_break(
    onnx: Artifact, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = Plan(iterations=9, repeats=4, away_s=0.0, max_temperature_c=40.0, cool_down_s=0.0)
    out = tmp_path / "b.json"
    run(Fragile(3, states=lambda: State(temperature_c=61.0)), onnx, monkeypatch, out, plan)
    row, _ = run(FakeDevice(states=lambda: State(temperature_c=30.0)), onnx, monkeypatch, out, plan)
    assert not row.valid and any(
        "too hot to begin: gave up after 0 s at 61.0" in reason for reason in row.reasons
    )


def test_charging_that_changed_over_a_break(
    onnx: Artifact, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out = tmp_path / "b.json"
    run(Fragile(3, states=lambda: State(charging=True)), onnx, monkeypatch, out)
    row, _ = run(FakeDevice(states=lambda: State(charging=False)), onnx, monkeypatch, out)
    assert not row.valid and "charging changed between cold starts: True, False" in row.reasons


def test_an_error_in_the_middle_keeps_what_was_measured(
    onnx: Artifact, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    row, _ = run(Fragile(3, error=DeviceError), onnx, monkeypatch, tmp_path / "b.json")
    assert (
        row.status == "failed"
        and len(row.repeats) == 2
        and "the cable was pulled" in row.reasons[0]
    )
    with pytest.raises(DeviceError, match="the cable was pulled"):
        run(Fragile(1, error=DeviceError), onnx, monkeypatch, tmp_path / "c.json")


def test_the_command_keeps_the_journals_of_a_benchmark_that_is_not_whole(
    onnx: Artifact, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One of two devices is in use by another benchmark, whose journal must outlive this one."""
    monkeypatch.setitem(DEVICES._targets, "fake", FakeDevice())
    monkeypatch.setitem(DEVICES._targets, "other", FakeDevice())
    out = tmp_path / "b.json"
    words = [
        "bench",
        str(onnx.path),
        "--on",
        "fake,other",
        "--out",
        str(out),
        "--iterations",
        "5",
        "--repeats",
        "2",
    ]
    one, two = journals(out, ["fake", "other"])
    with JsonLines(one, {"of": "somebody else"}, print) as theirs:
        assert CliRunner().invoke(main, words).exit_code == 1
        theirs.add({"more": 1})
    assert one.read_text().splitlines()[1:] == ['{"more": 1}'] and two.is_file()
    one.unlink()
    done = CliRunner().invoke(main, words)
    assert "are kept" in done.stderr, done.output
    assert list(tmp_path.iterdir()) == [out]
