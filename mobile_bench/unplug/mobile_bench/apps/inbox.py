"""What the Android demo app takes in when it is next in front: files in its inbox, pushed over adb."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from unplug.core import DeviceError

from ..adb.client import claimed
from .android import FOLDER, FOLDER_VARIABLE, INSTALL, PACKAGE


def push_to_app(files: Mapping[str, Path], place: str | None = None) -> str:
    """Puts files into the app's inbox, each whole or not at all, and opens the app.

    Args:
        files: by the name that they get there.
        place: the phone's serial number, or None for the only one that is there.

    Returns:
        The phone's serial number.

    Raises:
        DeviceError: there is no such phone, the app is not on it, or its disk is full.
    """
    inbox = f"{os.environ.get(FOLDER_VARIABLE, FOLDER).rstrip('/')}/inbox"
    with claimed(place) as adb:
        made = adb.shell(f"mkdir -p {shlex.quote(inbox)}")
        if made.code:
            raise DeviceError(
                adb.serial, f"the app's folder cannot be made ({made.said[-200:]})", INSTALL
            )
        for name, path in files.items():
            adb.push(path, f"{inbox}/{name}.part")
            named = adb.shell(
                f"cd {shlex.quote(inbox)} && mv {shlex.quote(name)}.part {shlex.quote(name)}"
            )
            if named.code:
                raise DeviceError(
                    adb.serial,
                    f"its folder takes no files ({named.said[-200:]})",
                    "Free some space",
                )
        told = adb.shell(f"am start -W -n {PACKAGE}/.MainActivity").said
        if "Error" in told or "Exception" in told:  # its exit code means nothing up to Android 13
            raise DeviceError(
                adb.serial, "the files are there, and the app does not start", INSTALL
            )
        return adb.serial
