"""What adb says when something is wrong, and what phones print: no device is needed for either."""

from __future__ import annotations

from pathlib import Path

import pytest

from unplug.core import DeviceError, DeviceLost
from unplug.mobile_bench.adb.client import Adb, choose
from unplug.mobile_bench.adb.phone import elf_machine, read_info, read_state
from unplug.mobile_bench.devices.base import State


def fake_adb(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    path = folder / "adb"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    monkeypatch.setenv("UNPLUG_ADB", str(path))


def listed(*lines: str) -> str:
    shown = "\\n".join(("* daemon started successfully", "List of devices attached", *lines, ""))
    return f"printf '{shown}\\n'"


@pytest.mark.parametrize(
    ("lines", "place", "words"),
    [
        ((), None, "adb: no device is connected. Connect one"),
        (("a\\tdevice", "b\\tdevice"), None, r"there are 2 devices \(a, b\)\. Write --on adb:SERIAL"),
        (("a\\tunauthorized",), None, "adb:a: it does not trust this computer. Unlock the phone"),
        (("a\\toffline",), "a", "adb:a: it is offline. Pull the cable"),
        (("a\\tno permissions (missing udev rules? user is in x); see [http]",), "a", "this user may not use its USB port"),
        (("a\\trecovery",), "a", "adb calls it 'recovery'"),
        (("a\\tdevice",), "b", r"there is no such device \(connected: a\)"),
    ],
)
def test_devices_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: tuple[str, ...], place: str | None, words: str
) -> None:
    fake_adb(tmp_path, monkeypatch, listed(*lines))
    with pytest.raises(DeviceError, match=words) as error:
        choose(place)
    assert "\n" not in str(error.value)


def test_the_one_that_is_ready_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_adb(tmp_path, monkeypatch, listed("a\\toffline", "b\\tdevice"))
    assert choose(None).serial == "b"


def test_no_adb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNPLUG_ADB", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match=r"adb: it is not on PATH\. Install Android's platform-tools, or set UNPLUG_ADB"):
        choose(None)
    monkeypatch.setenv("UNPLUG_ADB", "/nowhere/adb")
    with pytest.raises(DeviceError, match="UNPLUG_ADB=/nowhere/adb is no file"):
        choose(None)


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("exit 0", DeviceLost, "the connection ended in the middle of a command"),  # adb 29 on a pulled cable
        ("echo half; exit 0", DeviceLost, "the connection ended"),
        ("echo 'error: device offline' >&2; exit 1", DeviceLost, "device offline"),
        ("echo 'error: device unauthorized.' >&2; exit 1", DeviceError, "it does not trust this computer"),
        ("echo 'unplug-rc=abc'", DeviceLost, "the connection ended"),
    ],
)
def test_a_command_without_its_sentinel_has_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, kind: type[DeviceError], words: str
) -> None:
    fake_adb(tmp_path, monkeypatch, body)
    with pytest.raises(kind, match=words):
        Adb("a").shell("true")


def test_a_command_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = listed("a\\tdevice")
    fake_adb(tmp_path, monkeypatch, f'[ "$1" = devices ] && {known} || sleep 5')
    with pytest.raises(DeviceError, match="its shell took over 0 s"):
        Adb("a").shell("true", seconds=0.3)


def test_temperatures_of_now_come_before_cached_ones() -> None:
    text = """Thermal Status: 1
Cached temperatures:
\tTemperature{mValue=99.0, mType=3, mName=skin, mStatus=4}
Current temperatures from HAL:
\tTemperature{mValue=30.5, mType=0, mName=cpu, mStatus=0}
\tTemperature{mValue=36.5, mType=3, mName=skin, mStatus=0}
\tTemperature{mValue=37.5, mType=3, mName=skin2, mStatus=0}
=unplug=
  level: 50
  scale: 100
"""
    assert read_state(text) == State(thermal="light", temperature_c=37.5, battery_percent=50.0)
    assert read_state("") == State() == read_state("sh: dumpsys: not found\n=unplug=\nsh: dumpsys: not found")
    assert read_state("Thermal Status: 77").thermal is None


def test_a_device_that_is_no_android_is_emulated() -> None:
    info = read_info("sh: getprop: not found\n=unplug=\n\n=unplug=\nsh: dumpsys: not found\n=unplug=\nLinux 6.1", None)
    assert (info.where, info.device, info.os, info.soc, info.gpu_driver) == ("emulated", "Linux 6.1", "Linux 6.1", None, None)
    real = (
        "[ro.product.manufacturer]: [Google]\n[ro.product.model]: [---- 7 ----]\n[ro.build.version.release]: [14]"
        + 3 * "\n=unplug=\n"
    )
    assert read_info(real, "default").where == "device"


def test_elf_heads() -> None:
    assert elf_machine(b"\x7fELF") is None and elf_machine(b"") is None
    assert elf_machine(b"\x7fELF" + bytes(14) + b"\x3e\x00") == 62
