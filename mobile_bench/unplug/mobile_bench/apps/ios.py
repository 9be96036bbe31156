"""The iOS demo app's benchmark: driven through Apple's `devicectl` on a Mac with Xcode 15 or later,
its report pulled.

Nothing of it has run on a Mac here; its commands are tested against a stand-in.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unplug.core import DeviceError, DeviceLost, temporary_folder

from ..bench_report import BenchRow
from ..devices.bench_device import DeviceInfo, DeviceOrder
from ..jobs import RunsFiles
from .driven_app import AppEnded, bench_by_app

BUNDLE = "dev.unplug.demo"
FOLDER = "Documents/bench-"
"""With a token after it: devicectl deletes nothing, and a report of the last benchmark must not be
taken for this one's.
"""
PARTIAL, FAILED = "partial.json", "failed.txt"
LOOK_EVERY = 5
"""Polls between two looks at whether the app still runs: every call wakes the phone that measures.
"""
SECONDS = 300.0
AGAIN_S = 5.0
MAX_REPORT_BYTES = 64 * 2**20
DOMAIN = ("--domain-type", "appDataContainer", "--domain-identifier", BUNDLE)
UNITS = ("all", "cpu", "gpu", "ane")
"""The units of Core ML, which itself chooses among those that it may use."""


class Ios:
    """An iPhone or iPad that this Mac is paired with."""

    def bench(self, place: str | None, order: DeviceOrder) -> tuple[BenchRow, ...]:
        """See `Device.bench`.

        Raises:
            DeviceError: this is not a Mac, Xcode is missing, or the phone, or the app on it.
        """
        if not on_a_mac():
            why = f"devicectl drives iPhones from macOS only, and this is {sys.platform}"
            raise DeviceError(
                "ios",
                why,
                "Run it on a Mac, open the page of `on=web` on the phone, or import a report",
            )
        return bench_by_app(_IosApp(_choose(place)), order)


def on_a_mac() -> bool:
    """Whether Apple's tools can be here."""
    return sys.platform == "darwin"


def devicectl(*words: str) -> dict[str, Any]:
    """The JSON that a `devicectl` command gives.

    Raises:
        DeviceError: it is not there, or it failed.
        DeviceLost: the phone is gone.
    """
    with temporary_folder("unplug-devicectl-") as folder:
        answer = folder / "answer.json"
        verb = 3 if words[0] == "device" else 2  # after a bundle's name options would be the app's
        command = [
            "xcrun",
            "devicectl",
            *words[:verb],
            "--json-output",
            str(answer),
            "--quiet",
            *words[verb:],
        ]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                timeout=SECONDS,
                check=False,
                stdin=subprocess.DEVNULL,
                text=True,
            )
        except FileNotFoundError as error:
            raise DeviceError("xcrun", "it is not on PATH", "Install Xcode 15 or later") from error
        except subprocess.TimeoutExpired as error:
            raise DeviceLost(
                "devicectl",
                f"{words[1]} took over {SECONDS:.0f} s",
                "Look at the cable, unlock the phone",
            ) from error
        _check_ended(words, done)
        try:
            value = json.loads(answer.read_text(encoding="utf-8")) if answer.is_file() else {}
        except ValueError as error:
            raise DeviceError(
                "devicectl", "its answer is not JSON", "Install Xcode 15 or later"
            ) from error
        return value if isinstance(value, dict) else {}


def _check_ended(words: tuple[str, ...], done: subprocess.CompletedProcess[str]) -> None:
    """Raises unless a command ended well; a phone that is gone may come back."""
    if done.returncode:
        told = " ".join((done.stderr or done.stdout).split())[-300:]
        kind = DeviceLost if "not connected" in told or "unavailable" in told else DeviceError
        raise kind(
            "devicectl",
            f"{' '.join(words[:3])} failed ({told})",
            "Unlock the phone, and see: xcrun devicectl list devices",
        )


def _choose(place: str | None) -> Mapping[str, Any]:
    listed = devicectl("list", "devices").get("result", {}).get("devices", [])
    names = [
        str(item.get("hardwareProperties", {}).get("udid") or item.get("identifier"))
        for item in listed
    ]
    matching = [
        item
        for item, name in zip(listed, names, strict=True)
        if place in (None, name, item.get("identifier"))
    ]
    if not matching:
        raise DeviceError(
            "ios",
            f"there is no such device (paired: {', '.join(names) or 'none'})",
            "Pair it in Xcode",
        )
    if len(matching) > 1:
        raise DeviceError(
            "ios", f"there are {len(matching)} devices ({', '.join(names)})", "Write `on=ios:UDID`"
        )
    device: Mapping[str, Any] = matching[0]
    return device


class _IosApp:
    runs = RunsFiles(
        name="the app",
        by_suffix={".mlpackage": "coreml-app", ".tflite": "litert-app"},
        by_runtime={"coreml-app": UNITS, "litert-app": ("xnnpack", "gpu")},
    )

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts, self._id = facts, str(facts["identifier"])
        self._folder = FOLDER + secrets.token_hex(4)
        self._pid: int | None = None
        self._polls = 0

    def describe(self) -> DeviceInfo:
        hardware, system = (
            self._facts.get("hardwareProperties", {}),
            self._facts.get("deviceProperties", {}),
        )
        simulated = hardware.get("reality") not in (None, "physical")
        return DeviceInfo(
            where="emulated" if simulated else "device",
            device=str(
                hardware.get("marketingName") or hardware.get("productType") or "iOS device"
            ),
            soc=hardware.get("cpuType", {}).get("name"),
            os=(
                f"{hardware.get('platform', 'iOS')} {system.get('osVersionNumber', '?')} "
                f"({system.get('osBuildUpdate', '?')})"
            ),
        )

    def start(self, folder: Path) -> None:
        self._device("copy", "to", "--source", str(folder), "--destination", self._folder, *DOMAIN)
        launched = self._device(
            "process", "launch", "--terminate-existing", BUNDLE, "--benchmark", self._folder
        )
        pid = launched.get("result", {}).get("process", {}).get("processIdentifier")
        self._pid = pid if isinstance(pid, int) else None

    def poll(self, report: Path) -> bool:
        self._polls += 1
        look = self._polls % LOOK_EVERY == 0
        ended = look and self._ended()  # asked first: it may end when the report is written
        if self._copied("report.json", report):
            return True
        if look and self._copied(FAILED, report):
            told = " ".join(report.read_text(encoding="utf-8", errors="replace").split())
            report.unlink()
            raise DeviceError(
                self._id,
                f"the app stopped ({''.join(filter(str.isprintable, told))[:300]})",
                "Look at the phone",
            )
        if ended:
            self._copied(PARTIAL, report)
            raise AppEnded(
                self._id,
                "the app ended before its benchmark did",
                "Look at its crash log in Xcode's Devices window",
            )
        return False

    def _ended(self) -> bool:
        """Whether the app is gone; where devicectl did not say which process it is, only the time
        limit ends the wait.
        """
        if self._pid is None:
            return False
        running = self._device("info", "processes").get("result", {}).get("runningProcesses")
        return isinstance(running, list) and not any(
            {"processIdentifier": self._pid}.items() <= item.items() for item in running
        )

    def _copied(self, name: str, target: Path) -> bool:
        """Whether a file of the benchmark's folder is there, and is now here."""
        try:
            self._device(
                "copy",
                "from",
                "--source",
                f"{self._folder}/{name}",
                "--destination",
                str(target),
                *DOMAIN,
            )
        except DeviceLost:
            raise
        except DeviceError:  # it is not there, or not yet
            return False
        if target.stat().st_size > MAX_REPORT_BYTES:
            raise DeviceError(
                self._id,
                f"the app's {name} has {target.stat().st_size} bytes",
                "Look at what the app writes",
            )
        return True

    def returned(self, seconds: float) -> bool:
        """devicectl connects by itself; the next poll tells."""
        time.sleep(min(seconds, AGAIN_S))
        return True

    def clean(self) -> None:
        """devicectl cannot delete files: the app removes this folder when it begins the next
        benchmark.
        """

    def _device(self, noun: str, verb: str, *words: str) -> dict[str, Any]:
        return devicectl("device", noun, verb, "--device", self._id, *words)


IOS = Ios()
