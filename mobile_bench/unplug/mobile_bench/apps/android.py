"""The Android demo app's benchmark: started by intent over adb, its report pulled."""

from __future__ import annotations

import os
import shlex
import tarfile
from pathlib import Path

from unplug.core import DeviceError

from ..adb.client import Adb, claimed
from ..adb.phone import ASK, read_info
from ..bench_report import BenchRow
from ..devices.bench_device import DeviceInfo, DeviceOrder
from ..jobs import RunsFiles
from .driven_app import bench_by_app

PACKAGE = "dev.unplug.demo"
ACTIVITY = f"{PACKAGE}/.BenchmarkActivity"
FOLDER_VARIABLE = "UNPLUG_APP_FOLDER"
FOLDER = f"/sdcard/Android/data/{PACKAGE}/files"
MAX_REPORT_BYTES = 64 * 2**20
INSTALL = f"Install the demo app ({PACKAGE}) and open it once, or use `on=adb`"


def app_folder(name: str) -> str:
    """A folder of the app's own on the phone, which adb may write into."""
    return f"{os.environ.get(FOLDER_VARIABLE, FOLDER).rstrip('/')}/{name}"


def make_folder(adb: Adb, folder: str) -> None:
    """Makes a folder of the app's; raises `DeviceError` where the app is not installed."""
    made = adb.shell(f"mkdir -p {shlex.quote(folder)}")
    if made.code:
        why = f"the app's folder cannot be made ({made.said[-200:]})"
        raise DeviceError(adb.serial, why, INSTALL)


def in_folder(adb: Adb, folder: str, command: str) -> None:
    """Does something with files that were pushed; raises `DeviceError` where they do not fit."""
    done = adb.shell(f"cd {shlex.quote(folder)} && {command}")
    if done.code:
        why = f"its folder takes no files ({done.said[-200:]})"
        raise DeviceError(adb.serial, why, "Free some space")


class AndroidApp:
    """Any phone that adb knows, with the demo app installed."""

    def bench(self, place: str | None, order: DeviceOrder) -> tuple[BenchRow, ...]:
        """Sends the jobs to the app on the phone and waits for its rows; see `Device.bench`."""
        with claimed(place) as adb:
            return bench_by_app(_AndroidApp(adb), order)


class _AndroidApp:
    runs = RunsFiles(
        name="the app",
        by_suffix={".tflite": "litert-app", ".onnx": "onnx-app"},
        by_runtime={"litert-app": ("xnnpack", "gpu"), "onnx-app": ("cpu",)},
    )

    def __init__(self, adb: Adb) -> None:
        self._adb = adb
        self._folder = app_folder("unplug-bench")

    def describe(self) -> DeviceInfo:
        return read_info(self._adb.shell(ASK).text, None)

    def start(self, folder: Path) -> None:
        """Pushes one archive of files and starts one activity that works through it."""
        self.clean()
        archive = folder.with_suffix(".tar")
        with tarfile.open(archive, "w") as tar:
            tar.add(folder, arcname=".")
        make_folder(self._adb, self._folder)
        self._adb.push(archive, f"{self._folder}/bench.tar")
        in_folder(self._adb, self._folder, "tar -xf bench.tar && rm bench.tar")
        remote = shlex.quote(self._folder)
        told = self._adb.shell(f"am start -W -n {ACTIVITY} --es folder {remote}").said
        # Its exit code means nothing: an unknown activity ends with 0 up to Android 13.
        if "Error" in told or "Exception" in told:
            why = " ".join(told.split()).partition("Error: ")[2] or " ".join(told.split())
            raise DeviceError(
                self._adb.serial, f"the benchmark does not start ({why[:200]})", INSTALL
            )

    def poll(self, report: Path) -> bool:
        """The app renames its report when it is whole."""
        # asked first: it may end when the report is written
        ended = self._adb.shell(f"pidof {PACKAGE}").code == 1
        remote = f"{self._folder}/report.json"
        size = self._adb.size(remote)
        if size is not None:
            if size > MAX_REPORT_BYTES:
                raise DeviceError(
                    self._adb.serial,
                    f"the app's report has {size} bytes",
                    "Look at what the app writes",
                )
            self._adb.pull(remote, report)
            return True
        if ended:
            told = self._adb.shell(
                f"head -c 500 {shlex.quote(self._folder)}/failed.txt 2>/dev/null"
            ).text
            line = "".join(letter for letter in " ".join(told.split()) if letter.isprintable())
            why = f"the app stopped ({line})" if line else "the app ended without a report"
            raise DeviceError(self._adb.serial, why, "See: adb logcat")
        return False

    def returned(self, seconds: float) -> bool:
        return self._adb.wait(seconds)

    def clean(self) -> None:
        self._adb.shell(f"am force-stop {PACKAGE}; rm -rf {shlex.quote(self._folder)}")


APP = AndroidApp()
