"""What adb, phones and the benchmark tool print, golden bytes by hand, and anything at all: no
device is needed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unplug.core import ArtifactError, DeviceError, DeviceLost, sha256_file
from unplug.mobile_bench.adb.client import Adb, choose, read_devices
from unplug.mobile_bench.adb.phone import elf_machine, read_info, read_state
from unplug.mobile_bench.adb.result import check_log, read_placement, read_result
from unplug.mobile_bench.adb.workspace import Workspace
from unplug.mobile_bench.devices.bench_device import State

Fake = Callable[[str], None]


@pytest.fixture
def adb_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """An adb that is a line of shell."""
    path = tmp_path / "adb"

    def make(body: str) -> None:
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        monkeypatch.setenv("UNPLUG_ADB", str(path))

    return make


def listed(*lines: str) -> str:
    shown = "\\n".join(("* daemon started successfully", "List of devices attached", *lines, ""))
    return f"printf '{shown}\\n'"


CASE = Path(__file__).parents[2] / "cases" / "adb-serial-with-blank"
DENIED = "a\\tno permissions (missing udev rules? user is in x); see [http]"


@pytest.mark.parametrize(
    ("body", "place", "words"),
    [
        (listed(), None, "adb: no device is connected. Connect one"),
        (
            listed("a\\tdevice", "b\\tdevice"),
            None,
            r"there are 2 devices \(a, b\)\. Write `on=adb:SERIAL`",
        ),
        (
            listed("a\\tunauthorized"),
            None,
            "adb:a: it does not trust this computer. Unlock the phone",
        ),
        (listed("a\\toffline"), "a", "adb:a: it is offline. Pull the cable"),
        (listed(DENIED), "a", "this user may not use its USB port"),
        (listed("a\\trecovery"), "a", "adb calls it 'recovery'"),
        (listed("a\\tdevice"), "b", r"there is no such device \(connected: a\)"),
        (listed("(no serial number)\\tdevice", "b\\toffline"), None, "it tells no serial number"),
        (
            "echo 'cannot bind listener'",
            None,
            r"lists nothing that is a device \('cannot bind listener'\)",
        ),
    ],
)
def test_devices_that_cannot_be_used(
    adb_is: Fake, body: str, place: str | None, words: str
) -> None:
    adb_is(body)
    with pytest.raises(DeviceError, match=words) as error:
        choose(place)
    assert "\n" not in str(error.value)


def test_the_one_that_is_ready_is_taken(adb_is: Fake) -> None:
    adb_is(listed("a\\toffline", "b\\tdevice"))
    assert choose(None).serial == "b"
    shell = '[ "$1" = shell ] && exec sh -c "$2"'
    adb_is(f'[ "$1" = devices ] && exec cat {CASE}/older.txt; {shell}')
    assert choose(None).shell("echo there").text == "there", "it has no serial number"


LONG = """\
adb server version (41) doesn't match this client (39); killing...
* daemon started successfully
List of devices attached
0123456789ABCDEF       device usb:1-2 product:oriole model:Pixel_6 device:oriole transport_id:3
adb-R58M (2)._adb-tls-connect._tcp no permissions (missing udev rules?); see [http://x] usb:1-3 transport_id:4
[::1]:5555             offline transport_id:5
two words\tdevice usb:1-4
new\ta state of tomorrow
"""


@pytest.mark.parametrize(
    ("text", "states"),
    [
        (
            (CASE / "devices.txt").read_text(),
            {"adb-R5CT10ABCDE-x1Y2z3 (2)._adb-tls-connect._tcp": "device"},
        ),
        ((CASE / "older.txt").read_text(), {"(no serial number)": "device"}),
        (
            LONG,
            {
                "0123456789ABCDEF": "device",
                "adb-R58M (2)._adb-tls-connect._tcp": "no permissions",
                "[::1]:5555": "offline",
                "two words": "device",
                "new": "a state of tomorrow",
            },
        ),
        ("List of devices attached\r\na\tdevice\r\n\r\n", {"a": "device"}),
        ("List of devices attached\n* daemon not running; starting now at tcp:5037\n", {}),
    ],
)
def test_what_adb_lists(text: str, states: dict[str, str]) -> None:
    assert read_devices(text) == states


WARNING = "WARNING: linker: sh: unused DT entry: type 0x6ffffffe"


@pytest.mark.parametrize(
    "around",
    [
        'sh -c "$1"',
        f"echo 'Welcome to Fire OS'; echo '{WARNING}'; sh -c \"$1\"",  # before the first mark
        # adb's own
        f"echo '* daemon started successfully' >&2; echo '{WARNING}' >&2; sh -c \"$1\"",
        'sh -c "$1" 2>&1 | sed "s/$/\\r/"',  # one stream through a terminal, up to Android 6
        'sh -c "$1" 2>&1 | sed "s/$/\\r\\r/"',
    ],
)
def test_an_answer_is_what_stands_between_the_marks(around: str, adb_is: Fake) -> None:
    adb_is(f"shift 3; {around}")
    for command, text, errors, code in (
        ("echo one; echo; echo two", "one\n\ntwo", "", 0),
        (f"echo '{WARNING}' >&2; printf 12; exit 3", "12", WARNING, 3),
        ("printf 'last line\\n'", "last line", "", 0),
        ("true", "", "", 0),
    ):
        answer = Adb("a").shell(command)
        assert (answer.text, answer.errors, answer.code) == (text, errors, code)
    assert Adb("a").shell("echo out; echo err >&2").said == "out\nerr"


@pytest.mark.parametrize("stream", [1, 2])
def test_sizes_and_digests_behind_a_warning(
    stream: int, adb_is: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On old phones every tool begins with words of the linker, on either stream."""
    tools, file = tmp_path / "bin", tmp_path / "file"
    tools.mkdir()
    for name, line in (("wc", "  12"), ("sha256sum", "$SUM  file")):
        (tools / name).write_text(f'#!/bin/sh\necho "{WARNING}" >&{stream}\necho "{line}"\n')
        (tools / name).chmod(0o755)
    adb_is(f'[ "$3" = push ] && exit 0; shift 3; PATH={tools}:$PATH; export PATH; sh -c "$1"')
    file.write_bytes(b"x")
    monkeypatch.setattr(Workspace, "keep", lambda *_: None)
    monkeypatch.setenv("SUM", sha256_file(file))
    Workspace(Adb("a")).put(file, "file")
    assert Adb("a").size(str(file)) == 12
    monkeypatch.setenv("SUM", "5a" * 32)
    with pytest.raises(DeviceError, match=r"arrived with another SHA-256 \(.*5a5a5a"):
        Workspace(Adb("a")).put(file, "file")


def test_no_adb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNPLUG_ADB", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    words = r"adb: it is not on PATH\. Install Android's platform-tools, or set UNPLUG_ADB"
    with pytest.raises(DeviceError, match=words):
        choose(None)
    monkeypatch.setenv("UNPLUG_ADB", "/nowhere/adb")
    with pytest.raises(DeviceError, match="UNPLUG_ADB=/nowhere/adb is not a file"):
        choose(None)


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        # adb 29 on a pulled cable
        ("exit 0", DeviceLost, "the connection ended in the middle of a command"),
        ("echo half; exit 0", DeviceLost, "the connection ended"),
        ("echo 'error: device offline' >&2; exit 1", DeviceLost, "device offline"),
        (
            "echo 'error: device unauthorized.' >&2; exit 1",
            DeviceError,
            "it does not trust this computer",
        ),
        ("echo 'unplug-rc=abc'", DeviceLost, "the connection ended"),
        (
            '[ "$1" = devices ] && ' + listed("a\\tdevice") + " || sleep 5",
            DeviceError,
            "its shell took over 0 s",
        ),
    ],
)
def test_a_command_without_its_sentinel_has_not_run(
    adb_is: Fake, body: str, kind: type[DeviceError], words: str
) -> None:
    adb_is(body)
    with pytest.raises(kind, match=words):
        Adb("a").shell("true", seconds=0.3 if "sleep" in body else 60.0)


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
    missing = "sh: dumpsys: not found\n=unplug=\nsh: dumpsys: not found"
    assert read_state("") == State() == read_state(missing)
    assert read_state("Thermal Status: 77").thermal is None


def test_a_device_that_is_no_android_is_emulated() -> None:
    no_tools = ("sh: getprop: not found", "", "sh: dumpsys: not found", "Linux 6.1")
    info = read_info("\n=unplug=\n".join(no_tools), None)
    assert (info.where, info.device, info.os) == ("emulated", "Linux 6.1", "Linux 6.1")
    assert (info.soc, info.gpu_driver) == (None, None)
    names = {
        "product.manufacturer": "Google",
        "product.model": "-- 7 --",
        "build.version.release": "14",
    }
    properties = "\n".join(f"[ro.{name}]: [{value}]" for name, value in names.items())
    assert read_info(properties + 3 * "\n=unplug=\n", "default").where == "device"


def test_elf_heads() -> None:
    assert elf_machine(b"\x7fELF") is None and elf_machine(b"") is None
    assert elf_machine(b"\x7fELF" + bytes(14) + b"\x3e\x00") == 62


GOOD = {1: 2.0, 2: 1.0, 3: 4.0, 4: 0.5, 5: 1.5, 6: 1.0, 7: 3.5, 8: 30.0, 9: 9.0, 10: 5.0}
"""Fields of LatencyMetrics: average, least, most, deviation, median, p5, p95, init, first
inference, warm-ups.
"""


def field(number: int, payload: bytes) -> bytes:
    return bytes([number << 3 | 2, len(payload)]) + payload


def encoded(latencies: dict[int, float], runs: int = 50, peak_mb: float | None = None) -> bytes:
    """By the wire format, not by protobuf: tags, floats of four bytes, varints below 128."""

    def floats(values: dict[int, float]) -> bytes:
        tagged = ((bytes([number << 3 | 5]), value) for number, value in values.items())
        return b"".join(tag + struct.pack("<f", value) for tag, value in tagged)

    memory = floats({} if peak_mb is None else {3: peak_mb})
    misc = bytes([2 << 3, runs, 3 << 3, 1])
    return field(2, floats(latencies)) + field(3, memory) + field(4, misc)


def test_golden_bytes() -> None:
    field_of_a_newer_build = bytes([9 << 3, 7])
    result = read_result(encoded(GOOD, peak_mb=2.5) + field_of_a_newer_build, 50, "a.tflite")
    assert (result.init_ms, result.first_inference_ms) == (30.0, 9.0)
    assert result.peak_memory_bytes == round(2.5 * 2**20)
    told = result.summary
    assert (told.count, told.p50, told.p90, told.p95) == (50, 1.5, None, 3.5)
    assert (told.mean, told.std, told.min, told.max) == (2.0, 0.5, 1.0, 4.0)


@pytest.mark.parametrize(
    ("changes", "runs", "words"),
    [
        ({5: None}, 50, "has no median_ms"),
        ({5: float("nan")}, 50, "impossible times"),
        ({1: -1.0}, 50, "impossible times"),
        ({3: float("inf")}, 50, "impossible times"),
        ({5: 9.0}, 50, "contradict one another"),
        ({}, 49, "it made 50 runs where 49 were asked for"),
    ],
)
def test_results_that_cannot_be(changes: dict[int, Any], runs: int, words: str) -> None:
    latencies = {number: value for number, value in (GOOD | changes).items() if value is not None}
    with pytest.raises(ArtifactError, match=words):
        read_result(encoded(latencies), runs, "a.tflite")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_result_or_an_error(raw: bytes) -> None:
    for read in (lambda: read_result(raw, None, "a"), lambda: read_placement("", raw, "gpu")):
        try:
            read()
        except ArtifactError as error:
            assert "\n" not in str(error)


APPLIED = (
    "INFO: Explicitly applied GPU delegate, and the model graph will be partially executed by the "
    "delegate w/ 1 delegate kernels."
)
REPLACED = (
    "VERBOSE: Replacing 40 out of 45 node(s) with delegate (TfLiteGpuDelegateV2) node, yielding 3 "
    "partitions for it."
)


def replaced(name: str, nodes: list[int]) -> bytes:
    return field(8, field(1, name.encode()) + b"".join(bytes([2 << 3, node]) for node in nodes))


DETAILS = [
    *(b"\x08" + bytes([node]) for node in range(5)),
    replaced("TfLiteGpuDelegateV2", [0]),
    replaced("TfLiteXNNPackDelegate", [1, 2, 3, 4]),
]
"""By hand: a subgraph of five nodes, one behind the GPU, four behind XNNPACK: what that took is not
the GPU's.
"""
UNSUPPORTED = "WARN: GPU acceleration is unsupported on this platform."


@pytest.mark.parametrize(
    ("log", "details", "asked", "wanted"),
    [
        (f"{APPLIED}\n{REPLACED}", None, "gpu-fp16", ("gpu-fp16", 40, 45, 3)),
        (f"{APPLIED}\n{REPLACED}", None, "nnapi", ("none", None, None, None)),
        (UNSUPPORTED, None, "gpu", ("none", None, None, None)),
        (
            APPLIED,
            field(2, b"".join(field(3, node) for node in DETAILS)),
            "gpu",
            ("gpu", 1, 5, 1),
        ),
    ],
)
def test_what_ran_the_operators(log: str, details: bytes | None, asked: str, wanted: Any) -> None:
    placed = read_placement(log, details, asked)
    counts = (placed.nodes_delegated, placed.nodes_total, placed.partitions)
    assert (placed.delegate_got, *counts) == wanted


@pytest.mark.parametrize(
    ("log", "code", "kind", "words"),
    [
        (
            "Unconsumed cmdline flags: --result_file_path=r --use_gpu=true",
            0,
            DeviceError,
            "does not know result_file_path, use_gpu",
        ),
        (
            "sh: ./benchmark_model: not executable: 64-bit ELF file",
            126,
            DeviceError,
            "the device cannot execute it",
        ),
        ("", 139, ArtifactError, "killed by signal 11"),
        (
            "ERROR: Failed to load model a\nERROR: Benchmarking failed.",
            1,
            ArtifactError,
            "ended with 1: Failed to load model a; Benchmarking failed",
        ),
    ],
)
def test_logs_that_mean_trouble(log: str, code: int, kind: type[Exception], words: str) -> None:
    check_log("INFO: all is well", 0, "a")
    with pytest.raises(kind, match=words):
        check_log(log, code, "a")
