"""Counters of energy: the difference, once around, and machines that do not tell."""

from __future__ import annotations

from pathlib import Path

from unplug.mobile_bench.devices.host_child import Meter


def zone(folder: Path, name: str, microjoules: int | str) -> Path:
    path = folder / name
    path.mkdir(parents=True, exist_ok=True)
    (path / "energy_uj").write_text(f"{microjoules}\n")
    (path / "max_energy_range_uj").write_text("1000000\n")
    return path


def test_packages_are_summed_and_their_parts_are_not(tmp_path: Path) -> None:
    for name in ("intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0"):
        zone(tmp_path, name, 500_000)
    meter = Meter(tmp_path)
    zone(tmp_path, "intel-rapl:0", 700_000)
    zone(tmp_path, "intel-rapl:0:0", 900_000)
    zone(tmp_path, "intel-rapl:1", 100_000)  # went round: 500 mJ to the end, 100 mJ from there
    assert meter.millijoules() == 200.0 + 600.0


def test_machines_that_do_not_tell(tmp_path: Path) -> None:
    assert Meter(tmp_path).millijoules() is None
    zone(tmp_path, "intel-rapl:0", "secret")
    assert Meter(tmp_path).millijoules() is None
