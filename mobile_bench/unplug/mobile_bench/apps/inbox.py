"""What the Android demo app takes in when it is next in front: files in its inbox, pushed over adb."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from unplug.core import DeviceError

from ..adb.client import claimed
from .android import INSTALL, PACKAGE, app_folder, in_folder, make_folder


def push_to_app(files: Mapping[str, Path], place: str | None = None) -> str:
    """Puts files into the app's inbox, each whole or not at all, and opens the app.

    Args:
        files: the files by the names that they get there.
        place: the phone's serial number, or None for the only one that is there.

    Returns:
        The phone's serial number.

    Raises:
        DeviceError: there is no such phone, the app is not on it, or its disk is full.
    """
    inbox = app_folder("inbox")
    with claimed(place) as adb:
        make_folder(adb, inbox)
        for name, path in files.items():
            adb.push(path, f"{inbox}/{name}.part")
            in_folder(adb, inbox, f"mv {shlex.quote(name)}.part {shlex.quote(name)}")
        told = adb.shell(f"am start -W -n {PACKAGE}/.MainActivity").said
        if "Error" in told or "Exception" in told:  # its exit code means nothing up to Android 13
            raise DeviceError(
                adb.serial, "the files are there, and the app does not start", INSTALL
            )
        return adb.serial
