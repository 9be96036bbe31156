"""The folder on the phone: files pushed and checked by hash, one process at a time, and nothing
left over.

A watchdog runs on the phone itself: where no command has come for a while (a pulled cable, a killed
computer), it ends what is running, switches fixed-performance mode off and deletes the folder. Each
benchmark has a folder of its own.
"""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unplug.core import DeviceError, sha256_file, temporary_folder

from .client import TRANSFER_SECONDS, Adb, ShellAnswer

FOLDER_VARIABLE = "UNPLUG_ADB_FOLDER"
FOLDER = "/data/local/tmp"
NAME = "unplug-bench-"
GRACE_S = 90
"""Beyond what a command may take: for so long the watchdog waits for the next one."""
STALE_MINUTES = 1440
"""Folders of benchmarks whose phone was switched off are deleted by the next one when they are that
old.
"""
FIXED = "cmd power set-fixed-performance-mode-enabled"
MAX_PULL_BYTES = 2**30
UPTIME = "$(cut -d. -f1 /proc/uptime)"
"""Seconds that nobody sets: a phone's clock may jump."""
STOP = (
    '[ -f pid ] && grep -q benchmark_model "/proc/$(cat pid)/cmdline" 2>/dev/null && kill -9 '
    '"$(cat pid)"; rm -f pid'
)
"""Ends our process, and no other that has got its number since."""
WATCHDOG = f"""\
while sleep 2; do
  [ -f alive ] || exit 0
  [ "{UPTIME}" -gt "$(cat alive)" ] && break
done
{STOP}
[ -f fixed ] && {FIXED} false
cd / && rm -rf "$1"
"""


class Workspace:
    """A folder on one device.

    Args:
        adb: the device.
        say: takes a line for the user.
    """

    def __init__(self, adb: Adb, say: Callable[[str], None] = lambda _: None) -> None:
        self.adb, self._say = adb, say
        self.parent = os.environ.get(FOLDER_VARIABLE, FOLDER)
        self.folder = f"{self.parent.rstrip('/')}/{NAME}{secrets.token_hex(4)}"
        self.clock_mode = "default"
        self._fixing = False
        self._there: set[str] = set()

    def open(self) -> None:
        """Makes the folder and starts the watchdog, and switches fixed-performance mode on again
        where it was wanted.
        """
        self._there.clear()
        old = (
            f"find {shlex.quote(self.parent)} -maxdepth 1 -name '{NAME}*' -mmin +{STALE_MINUTES} "
            f"-exec rm -rf {{}} +"
        )
        self._must(f"{old} 2>/dev/null; mkdir -p {self._quoted()}", "make its folder")
        self.keep(GRACE_S)
        with temporary_folder("unplug-adb-") as local:
            file = local / "watchdog.sh"
            file.write_text(WATCHDOG, encoding="utf-8", newline="\n")
            self.adb.push(file, f"{self.folder}/watchdog.sh")
        # In a session of its own, so that it outlives the connection.
        start = f"(setsid sh watchdog.sh {self._quoted()} </dev/null >/dev/null 2>&1 &)"
        self._must(f"cd {self._quoted()} && {start}", "start its watchdog")
        if self._fixing:
            self.fix_performance()

    def ready(self) -> None:
        """Sees that the folder is there: while nothing came for long, the watchdog may have deleted
        it.
        """
        if self.adb.shell(f"[ -f {self._quoted('alive')} ]").code:
            self.open()
        self.keep(GRACE_S)

    def close(self) -> None:
        """Ends what is running, switches the mode off, deletes the folder; what fails here the
        watchdog does.
        """
        try:
            self.stop_running()
            if self._fixing and self.adb.shell(f"{FIXED} false").code:
                self._say(
                    f"{self.adb.serial}: fixed-performance mode could not be switched off; its "
                    "watchdog tries again"
                )
                return
            self.adb.shell(f"rm -rf {self._quoted()}")
        except DeviceError as error:
            self._say(f"{error} Its watchdog cleans up within {GRACE_S} s")

    def fix_performance(self) -> None:
        """Switches fixed-performance mode on, where the phone has it; it is switched off again
        however this ends.
        """
        self._fixing = True
        self._must(f"touch {self._quoted('fixed')}", "write into its folder")
        answer = self.adb.shell(f"{FIXED} true")
        refused = answer.code != 0 or any(
            word in answer.text.lower() for word in ("fail", "unknown", "error", "not ")
        )
        self.clock_mode = "default" if refused else "fixed-performance"

    def put(self, local: Path, name: str, *, executable: bool = False) -> None:
        """Pushes a file, unless it is there already, and compares its hash on the device.

        Raises:
            DeviceError: it could not be written, or arrived as something else twice.
        """
        if name in self._there:
            return
        wanted = sha256_file(local)
        for _ in range(2):
            self.keep(TRANSFER_SECONDS + GRACE_S)
            self.adb.push(local, f"{self.folder}/{name}")
            answer = self.adb.shell(f"sha256sum {self._quoted(name)}")
            if wanted in answer.text.split():
                if executable:
                    self._must(f"chmod 755 {self._quoted(name)}", "make a file executable")
                self._there.add(name)
                return
        got = " ".join(answer.said.split())[:100] or "nothing"
        raise DeviceError(
            self.adb.serial,
            f"{local.name} arrived with another SHA-256 ({got})",
            "Check the cable and the storage",
        )

    def run(self, command: str, seconds: float) -> ShellAnswer:
        """Runs one command in the folder; it can be ended from another connection."""
        self.keep(seconds + GRACE_S)
        line = shlex.quote(f"echo $$ > pid; exec {command}")
        answer = self.adb.shell(
            f"cd {self._quoted()} && rm -f result.pb info.pb out.bin && sh -c {line}; rc=$?; rm -f "
            "pid; exit $rc",
            seconds=seconds,
        )
        self.keep(GRACE_S)
        return answer

    @contextmanager
    def fetched(self, *names: str) -> Iterator[dict[str, bytes]]:
        """The bytes of files in the folder; those that are not there, or too large, are left out."""
        contents: dict[str, bytes] = {}
        with temporary_folder("unplug-adb-") as local:
            for name in names:
                size = self.adb.size(f"{self.folder}/{name}")
                if size is not None and size <= MAX_PULL_BYTES:
                    self.keep(TRANSFER_SECONDS + GRACE_S)
                    self.adb.pull(f"{self.folder}/{name}", local / name)
                    contents[name] = (local / name).read_bytes()
            yield contents

    def stop_running(self) -> None:
        """Ends a process that an interrupted run left."""
        self.adb.shell(f"cd {self._quoted()} 2>/dev/null && {{ {STOP}; }}")

    def keep(self, seconds: float) -> None:
        """Tells the watchdog to wait so long for the next command."""
        self._must(
            f"echo $(({UPTIME} + {int(seconds)})) > {self._quoted('alive')}",
            "write into its folder",
        )

    def keep_if_there(self) -> None:
        """The same where the folder is; while it is away nothing has to be kept."""
        with suppress(DeviceError):
            self.adb.shell(
                f"[ -f {self._quoted('alive')} ] && echo $(({UPTIME} + {GRACE_S})) > "
                f"{self._quoted('alive')}"
            )

    def _must(self, command: str, what: str) -> None:
        answer = self.adb.shell(command)
        if answer.code:
            told = " ".join(answer.said.split())[-200:]
            fix = f"Look at {self.parent} on the device, or set {FOLDER_VARIABLE}"
            raise DeviceError(self.adb.serial, f"it could not {what} ({told})", fix)

    def _quoted(self, name: str = "") -> str:
        return shlex.quote(f"{self.folder}/{name}" if name else self.folder)
