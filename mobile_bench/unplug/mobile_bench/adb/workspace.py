"""The folder on the phone: files pushed and checked by hash, one process at a time, and nothing left behind.

A watchdog runs on the phone itself: where no command has come for a while (a pulled cable, a killed computer), it ends what is
running, switches fixed-performance mode off and deletes the folder.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unplug.plugins.errors import DeviceError, DeviceLost
from unplug.plugins.files import sha256_file

from .client import Adb, Answer

FOLDER_VARIABLE = "UNPLUG_ADB_FOLDER"
FOLDER = "/data/local/tmp/unplug-bench"
GRACE_S = 90
"""Beyond what a command may take: for so long the watchdog waits for the next one."""
FIXED = "cmd power set-fixed-performance-mode-enabled"
MAX_PULL_BYTES = 2**30
WATCHDOG = """\
while sleep 2; do
  [ -f alive ] || exit 0
  [ "$(date +%s)" -gt "$(cat alive)" ] && break
done
[ -f pid ] && kill -9 "$(cat pid)"
[ -f fixed ] && {fixed} false
rm -rf {folder}
"""


class Workspace:
    """A folder on one device.

    Args:
        adb: the device.
    """

    def __init__(self, adb: Adb) -> None:
        self.adb = adb
        self.folder = os.environ.get(FOLDER_VARIABLE, FOLDER)
        self.fixed = False
        self._there: set[str] = set()

    def open(self) -> None:
        """Clears what an earlier run left, makes the folder, starts the watchdog."""
        self._there.clear()
        self.stop_running()
        self._must(f"rm -rf {self._quoted()} && mkdir -p {self._quoted()}", "make its folder")
        self._alive(GRACE_S)
        script = WATCHDOG.format(fixed=FIXED, folder=self._quoted())
        with tempfile.TemporaryDirectory(prefix="unplug-adb-") as local:
            file = Path(local) / "watchdog.sh"
            file.write_text(script, encoding="utf-8", newline="\n")
            self.adb.push(file, f"{self.folder}/watchdog.sh")
        # In a session of its own, so that it outlives the connection.
        self._must(f"cd {self._quoted()} && (setsid sh watchdog.sh </dev/null >/dev/null 2>&1 &)", "start its watchdog")
        if self.fixed:
            self._switch_on()

    def close(self) -> None:
        """Ends what is running, switches the mode off, deletes the folder; where the device is gone, its watchdog does."""
        try:
            self.stop_running()
            if self.fixed:
                self.adb.shell(f"{FIXED} false")
            self.adb.shell(f"rm -rf {self._quoted()}")
        except DeviceLost:
            return

    def fix_performance(self) -> str:
        """Switches fixed-performance mode on, where the phone has it; its clock mode from then on."""
        self.fixed = self._switch_on()
        return "fixed-performance" if self.fixed else "default"

    def _switch_on(self) -> bool:
        # The mark comes first: a watchdog that finds it switches a mode off that may never have been on, which harms nothing.
        answer = self.adb.shell(f"touch {self._quoted('fixed')} && {FIXED} true")
        if answer.code == 0 and not answer.text.strip():
            return True
        self.adb.shell(f"rm -f {self._quoted('fixed')}")
        return False

    def put(self, local: Path, name: str, *, executable: bool = False) -> None:
        """Pushes a file, unless it is there already, and compares its hash on the device.

        Raises:
            DeviceError: it could not be written, or arrived as something else twice.
        """
        if name in self._there:
            return
        wanted = sha256_file(local)
        for _ in range(2):
            self.adb.push(local, f"{self.folder}/{name}")
            found = self.adb.shell(f"sha256sum {self._quoted(name)}")
            if found.text.split()[:1] == [wanted]:
                if executable:
                    self._must(f"chmod 755 {self._quoted(name)}", "make a file executable")
                self._there.add(name)
                return
        got = found.text.strip().splitlines()[0][:64] if found.text.strip() else "nothing"
        raise DeviceError(
            self.adb.serial, f"{local.name} arrived with another SHA-256 ({got})", "Check the cable and the storage"
        )

    def run(self, command: str, seconds: float) -> Answer:
        """Runs one command in the folder; it can be ended from another connection."""
        self._alive(seconds + GRACE_S)
        line = shlex.quote(f"echo $$ > pid; exec {command}")
        answer = self.adb.shell(f"cd {self._quoted()} && rm -f result.pb info.pb out.bin && sh -c {line}", seconds=seconds)
        self._alive(GRACE_S)
        return answer

    @contextmanager
    def fetched(self, *names: str) -> Iterator[dict[str, bytes]]:
        """The bytes of files in the folder; those that are not there, or too large, are left out."""
        found: dict[str, bytes] = {}
        with tempfile.TemporaryDirectory(prefix="unplug-adb-") as local:
            for name in names:
                size = self.adb.shell(f"wc -c < {self._quoted(name)}").text.strip()
                if size.isdigit() and int(size) <= MAX_PULL_BYTES:
                    self.adb.pull(f"{self.folder}/{name}", Path(local) / name)
                    found[name] = (Path(local) / name).read_bytes()
            yield found

    def stop_running(self) -> None:
        """Ends a process that an interrupted run left."""
        pid = self._quoted("pid")
        self.adb.shell(f"[ -f {pid} ] && kill -9 $(cat {pid}); rm -f {pid}")

    def _alive(self, seconds: float) -> None:
        self._must(f"echo $(($(date +%s) + {int(seconds)})) > {self._quoted('alive')}", "write into its folder")

    def _must(self, command: str, what: str) -> None:
        answer = self.adb.shell(command)
        if answer.code:
            said = " ".join(answer.text.split())[-200:]
            fix = f"Look at {self.folder} on the device, or set {FOLDER_VARIABLE}"
            raise DeviceError(self.adb.serial, f"it could not {what} ({said})", fix)

    def _quoted(self, name: str = "") -> str:
        return shlex.quote(f"{self.folder}/{name}" if name else self.folder)
