"""Phones for tests: a real adbd each (Debian's, from trixie), storage of its own, Android's tools
as small scripts.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from unplug.mobile_bench.adb.edges import read_edges

ADBD = "usr/lib/android-sdk/platform-tools/adbd"
LIBRARIES = ("usr/lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/android", "lib/x86_64-linux-gnu")
STORAGE_MB = 32
MOUNT = "mount -t tmpfs -o size={size}m tmpfs {data} && echo up && exec sleep 1000"
TOOLS = {
    "getprop": """\
cat <<'P'
[ro.product.manufacturer]: [Debian]
[ro.product.model]: [adbd $NAME]
[ro.soc.model]: [none]
[ro.build.version.release]: [14]
[ro.build.version.sdk]: [34]
[ro.build.id]: [TEST]
[ro.product.cpu.abi]: [x86_64]
[ro.boot.qemu]: [1]
P
""",
    "dumpsys": """\
case $1 in
  thermalservice) echo "Thermal Status: $(cat $STATE/thermal)"; echo "Current temperatures from HAL:"
    echo "  Temperature{mValue=$(cat $STATE/celsius), mType=3, mName=skin, mStatus=0}";;
  battery) printf '  USB powered: true\\n  level: 80\\n  scale: 100\\n';;
  SurfaceFlinger) echo 'GLES: Nobody, Software, OpenGL ES 3.2 v1';;
esac
""",
    "cmd": """\
echo "$*" >> $STATE/cmd
[ -f $STATE/no-fixed ] && { echo "Failed to set FIXED_PERFORMANCE mode" >&2; exit 255; }
exit 0
""",
}


@pytest.fixture(scope="session", autouse=True)
def _read_once() -> Iterator[None]:
    """A file's edges do not change from one test to the next; a child process reads them once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unplug.mobile_bench.adb.device.read_edges", functools.cache(read_edges))
        yield


def free_port() -> int:
    """An odd one: adb takes an even one for an emulator's console."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            if (port := int(probe.getsockname()[1])) % 2:
                return port


class Phone:
    """One adbd, in a mount namespace of its own where /data/local/tmp is a small memory disk."""

    def __init__(self, folder: Path, root: Path, name: str) -> None:
        self.root, self.name, self.folder = root, name, folder
        self.state, self.bin, self.data = folder / "state", folder / "bin", folder / "data"
        for path in (self.state, self.bin, self.data):
            path.mkdir(parents=True)
        self.set(thermal="0", celsius="30.0")
        for tool, body in TOOLS.items():
            self.shim(tool, body)
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        # Holds the memory disk while adbd is away.
        self.keeper = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", MOUNT.format(size=STORAGE_MB, data=self.data)],
            stdout=subprocess.PIPE,
        )
        assert self.keeper.stdout is not None and self.keeper.stdout.readline() == b"up\n"

    @property
    def serial(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def workspace(self) -> Path:
        """A pattern: each benchmark has a folder of its own."""
        return self.data / "unplug-bench-*"

    def set(self, **values: str) -> None:
        for name, value in values.items():
            (self.state / name).write_text(value)

    def shim(self, tool: str, body: str) -> None:
        path = self.bin / tool
        path.write_text(
            f"#!/bin/sh\nNAME={self.name} STATE={self.state}\n{body.replace('$NAME', self.name)}"
        )
        path.chmod(0o755)

    def inside(self, command: str) -> str:
        """What a command prints where the phone's storage is seen."""
        words = ["nsenter", "-m", "-t", str(self.keeper.pid), "sh", "-c", command]
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout

    def start(self) -> None:
        libraries = ":".join(str(self.root / path) for path in LIBRARIES)
        loader = str(self.root / "lib64/ld-linux-x86-64.so.2")
        environment = {
            **os.environ,
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "ADBD_PORT": str(self.port),
            "FAULTS_FILE": str(self.state / "faults"),
        }
        daemon = [loader, "--library-path", libraries, str(self.root / ADBD)]
        self.process = subprocess.Popen(
            ["nsenter", "-m", "-t", str(self.keeper.pid), *daemon],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        raise RuntimeError("adbd did not start")

    def vanish(self) -> None:
        """The cable is pulled: the daemon dies, what it started lives on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        subprocess.run(["adb", "disconnect", self.serial], capture_output=True, check=False)
        if self.process is not None and self.process.poll() is None:
            self.vanish()
        self.inside(f"rm -rf {self.data}/*")
        self.keeper.kill()
        self.keeper.wait()


@pytest.fixture(scope="session")
def adbd_root() -> Path:
    """A folder with trixie's adbd and its libraries: ``debootstrap --variant=minbase --include=adbd
    trixie DIR``.
    """
    root = Path(os.environ.get("UNPLUG_ADBD_ROOT", "/nonexistent"))
    if not (root / ADBD).is_file():
        pytest.skip("UNPLUG_ADBD_ROOT names no folder with adbd")
    if os.geteuid() != 0 or shutil.which("adb") is None:
        pytest.skip("needs root, for a mount namespace, and adb")
    return root


@pytest.fixture
def phone(adbd_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Phone]:
    made = Phone(tmp_path / "phone", adbd_root, "one")
    made.start()
    monkeypatch.setenv("UNPLUG_ADB_FOLDER", str(made.data))
    yield made
    made.end()


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in, run by this Python."""
    source = Path(__file__).with_name("benchmark_model.txt").read_text()
    path = tmp_path / "benchmark_model"
    path.write_text(source.replace("#!PYTHON", f"#!{sys.executable}"))
    path.chmod(0o755)
    monkeypatch.setenv("UNPLUG_BENCHMARK_MODEL", str(path))
    return path
