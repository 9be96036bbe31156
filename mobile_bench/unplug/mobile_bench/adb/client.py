"""adb as a client: one process a command, marks around every answer of a shell, errors in one line.

A shell whose device vanishes may end with exit code 0 and no word of it (platform-tools'
`read_and_dump_protocol` begins with 0 and returns it when reading fails), so a command has run only
where its last mark came back. What is in front of the first mark is not the command's: greetings of
a vendor's shell, warnings of the linker, words of adb itself.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from unplug.core import DeviceError, DeviceLost

VARIABLE = "UNPLUG_ADB"
SECONDS = 60.0
TRANSFER_SECONDS = 900.0
BEGIN, MIDDLE, END = "unplug-begin", "unplug-rc=", "unplug-end"
"""On lines of their own: before what a command says on standard output, before and after what it
says on standard error.
"""
ASKED = (
    f"exec 3>&1; echo; echo {BEGIN}; err=$( ( %s ) 2>&1 >&3 3>&- ); rc=$?; echo; echo "
    f'"{MIDDLE}$rc"; echo "$err"; echo {END}'
)
"""One stream, in parts: phones before Android 7 have no other, and adb puts its own words into it.
"""
ANSWER = re.compile(rf"^{BEGIN}\n(.*)\n{MIDDLE}(\d+)\n(.*){END}$", re.DOTALL | re.MULTILINE)
STATES = (
    "device",
    "offline",
    "unauthorized",
    "authorizing",
    "connecting",
    "bootloader",
    "recovery",
    "rescue",
    "sideload",
    "host",
    "detached",
    "unknown",
    "no device",
)
"""The states that adb knows (its `to_string(ConnectionState)`)."""
LISTED = re.compile(
    rf"(?P<serial>.+?)\s+(?P<state>{'|'.join(STATES)}|no "
    r"permissions\b.*?)(?P<fields>(?:\s+[\w-]+:\S+)*)"
)
"""A line of `adb devices -l`, whose columns are blanks, or of `adb devices` where something made
blanks of its tab.
"""
NAMELESS = "(no serial number)"
"""What adb lists for a device that tells none."""
GONE = (
    "closed",
    "protocol fault",
    "connection reset",
    "cannot connect to daemon",
    "still connecting",
    "connect failed",
    "broken pipe",
    "failed to read",
)
"""In what adb says of a transfer when there is nobody at the other end any more."""
ENDED = "the connection ended in the middle of a command"
UNAUTHORIZED = "unlock the phone and accept this computer's key (adb kill-server asks again)"
POLL_S = 0.5
_in_use: set[str] = set()
_lock = threading.Lock()


@dataclass(frozen=True)
class ShellAnswer:
    """What a shell command said on standard output and on standard error, and its exit code."""

    text: str
    errors: str
    code: int

    @property
    def said(self) -> str:
        """Both: a tool's log, or a reason."""
        return f"{self.text}\n{self.errors}".strip()


class _TooLong(DeviceError):
    """adb did not answer."""


class Adb:
    """One device.

    Args:
        serial: the serial number that `adb devices` lists.
    """

    def __init__(self, serial: str) -> None:
        self.serial = serial

    def shell(self, command: str, *, seconds: float = SECONDS) -> ShellAnswer:
        """Runs a command in the device's shell.

        Args:
            command: a command for ``sh``; both its streams are kept, apart.
            seconds: the seconds that it may take.

        Raises:
            DeviceLost: the device vanished before the command had ended.
            DeviceError: it took too long, or adb refuses.
        """
        done = self._adb("shell", ASKED % command, seconds=seconds)
        # a terminal's, up to Android 6
        answer = ANSWER.search(re.sub(r"\r+\n", "\n", done.stdout.decode("utf-8", "replace")))
        if not answer:
            raise self._lost(done)
        return ShellAnswer(
            text=answer[1].removesuffix("\n"), errors=answer[3].strip("\n"), code=int(answer[2])
        )

    def size(self, remote: str) -> int | None:
        """Bytes of a file on the device, or None where there is none."""
        lines = self.shell(f"wc -c < {shlex.quote(remote)}").text.split("\n")
        return next((int(line) for line in reversed(lines) if line.strip().isdecimal()), None)

    def push(self, local: Path, remote: str) -> None:
        """Copies a file onto the device.

        Raises:
            DeviceLost: the device vanished.
            DeviceError: it could not be written, say on a full disk.
        """
        self._transfer("push", str(local), remote)

    def pull(self, remote: str, local: Path) -> None:
        """Copies a file from the device; see `push`."""
        self._transfer("pull", remote, str(local))

    def state(self) -> str:
        """What `devices` says of the phone, or "absent" where it does not list it."""
        return devices().get(self.serial, "absent")

    def wait(self, seconds: float) -> bool:
        """Whether the device is there within so many seconds; one on TCP/IP is connected to again."""
        until = time.monotonic() + seconds
        while True:
            if self.state() == "device":
                return True
            if time.monotonic() >= until:
                return False
            if ":" in self.serial:
                _run(["disconnect", self.serial], seconds=SECONDS)
                _run(["connect", self.serial], seconds=SECONDS)
            time.sleep(POLL_S)

    def _transfer(self, verb: str, *paths: str) -> None:
        done = self._adb(verb, *paths, seconds=TRANSFER_SECONDS)
        if done.returncode == 0:
            return
        told = _said(done)
        if "No space left" in told:
            raise DeviceError(
                self.serial, f"its disk is full ({paths[-1]})", "Free some space on the device"
            )
        if self.state() != "device" or any(word in told for word in GONE):
            raise self._lost(done)
        raise DeviceError(
            self.serial, f"adb {verb} failed ({told})", "See what adb says of it by hand"
        )

    def _adb(self, *words: str, seconds: float) -> subprocess.CompletedProcess[bytes]:
        try:
            return _run(
                [*([] if self.serial == NAMELESS else ["-s", self.serial]), *words], seconds=seconds
            )
        except _TooLong as error:
            if self.state() != "device":
                raise DeviceLost(
                    self.serial, "it no longer answers", "Look at the cable"
                ) from error
            raise

    def _lost(self, done: subprocess.CompletedProcess[bytes]) -> DeviceError:
        told = _said(done)
        if "unauthorized" in told:
            return DeviceError(
                self.serial, "it does not trust this computer", UNAUTHORIZED.capitalize()
            )
        # Of a command that was cut off standard output is the command's own; only what adb says is
        # a reason.
        return DeviceLost(
            self.serial, told if done.stderr.strip() and told else ENDED, "Look at the cable"
        )


def devices() -> dict[str, str]:
    """Serial to state, of every device that adb knows.

    Raises:
        DeviceError: there is no adb, or its server does not start.
    """
    done = _run(["devices"], seconds=SECONDS)
    if done.returncode:
        raise DeviceError("adb", _said(done) or "its server does not start", "Try: adb kill-server")
    return read_devices(done.stdout.decode("utf-8", "replace"))


def read_devices(text: str) -> dict[str, str]:
    """What `adb devices` prints: a headline, then serial number, tab and state; lines of its daemon
    anywhere.

    Raises:
        DeviceError: there is no list, or only lines that are no devices.

    Example:
        >>> read_devices("List of devices attached\\n* daemon started successfully *\\nadb-X (2)._tcp\\tdevice\\n")
        {'adb-X (2)._tcp': 'device'}
    """
    _, headline, below = text.partition("List of devices attached")
    lines = [
        line.strip()
        for line in below.splitlines()
        if line.strip() and not line.startswith(("*", "adb server"))
    ]
    states = dict(pair for line in lines if (pair := _device_of(line)) is not None)
    if not headline or (lines and not states):
        read = " ".join((lines or text.split())[:20])
        raise DeviceError(
            "adb",
            f"`adb devices` lists nothing that is a device ({read[:200]!r})",
            "Try: adb kill-server",
        )
    return states


def _device_of(line: str) -> tuple[str, str] | None:
    serial, tab, state = line.partition("\t")
    if (columns := LISTED.fullmatch(line)) is not None:
        serial, state = columns["serial"], columns["state"]
    elif not tab:
        return None
    return serial.strip(), "no permissions" if state.startswith("no permissions") else state.strip()


def choose(place: str | None) -> Adb:
    """The device that is meant.

    Args:
        place: its serial number, or None for the only one that is there.

    Raises:
        DeviceError: there is none, there are several, or it does not let us in.
    """
    known = devices()
    if place is not None and place not in known and ":" in place:
        _run(["connect", place], seconds=SECONDS)
        known = devices()
    if place is None:
        ready = [serial for serial, state in known.items() if state == "device"]
        if len(ready) > 1:
            raise DeviceError(
                "adb",
                f"there are {len(ready)} devices ({', '.join(ready)})",
                "Write `on=adb:SERIAL`",
            )
        place = ready[0] if ready else next(iter(known), None)
    if place is None:
        raise DeviceError(
            "adb",
            "no device is connected",
            "Connect one, and switch USB debugging on in its developer options",
        )
    if place not in known:
        names = ", ".join(known) or "none"
        raise DeviceError(
            f"adb:{place}", f"there is no such device (connected: {names})", "See: adb devices"
        )
    if place == NAMELESS and len(known) > 1:
        why = "it tells no serial number, so that adb cannot tell it from others"
        raise DeviceError(f"adb:{place}", why, "Leave no other device connected")
    _check_state(place, known[place])
    return Adb(place)


@contextmanager
def claimed(place: str | None) -> Iterator[Adb]:
    """The device that is meant, for one benchmark at a time.

    Raises:
        DeviceError: see `choose`, or it is being timed already, under another name perhaps.
    """
    adb = choose(place)
    with _lock:
        if adb.serial in _in_use:
            raise DeviceError(
                f"adb:{adb.serial}", "it is being timed already", "Name each device once"
            )
        _in_use.add(adb.serial)
    try:
        yield adb
    finally:
        with _lock:
            _in_use.discard(adb.serial)


def _check_state(serial: str, state: str) -> None:
    advice = {
        "unauthorized": ("it does not trust this computer", UNAUTHORIZED.capitalize()),
        "offline": ("it is offline", "Pull the cable and plug it in again, or: adb reconnect"),
        "no permissions": ("this user may not use its USB port", "Install Android's udev rules"),
    }
    if state != "device":
        why, fix = advice.get(
            state, (f"adb calls it {state!r}", "Wait until it has started, and see: adb devices")
        )
        raise DeviceError(f"adb:{serial}", why, fix)


def _run(words: list[str], *, seconds: float) -> subprocess.CompletedProcess[bytes]:
    binary = os.environ.get(VARIABLE) or shutil.which("adb")
    if binary is None or not Path(binary).is_file():
        named = f"{VARIABLE}={binary} is not a file" if binary else "it is not on PATH"
        raise DeviceError("adb", named, f"Install Android's platform-tools, or set {VARIABLE}")
    try:
        return subprocess.run(
            [binary, *words],
            capture_output=True,
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
            # Ctrl-C is ours: adb would end with it, and look like a pulled cable
            start_new_session=True,
        )
    except OSError as error:
        raise DeviceError(
            "adb",
            f"{binary} cannot be run ({error.strerror})",
            f"Install Android's platform-tools, or set {VARIABLE}",
        ) from error
    except subprocess.TimeoutExpired as error:
        verb = words[2] if words[0] == "-s" else words[0]
        raise _TooLong(
            "adb", f"its {verb} took over {seconds:.0f} s", "Try: adb kill-server"
        ) from error


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    """The last lines of both streams in one, without adb's own prefixes."""
    text = (done.stderr or done.stdout).decode("utf-8", "replace")
    lines = [re.sub(r"^(adb(\.exe)?: )?(error: )?", "", line).strip() for line in text.splitlines()]
    return " ".join(line for line in lines if line and not line.startswith("*"))[-300:]
