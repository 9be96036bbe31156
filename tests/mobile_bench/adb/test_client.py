"""What adb, phones and the benchmark tool print, golden bytes by hand, and anything at all: no
device is needed.
"""

from __future__ import annotations

import struct
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
        (
            ("a\\tdevice", "b\\tdevice"),
            None,
            r"there are 2 devices \(a, b\)\. Write `on=adb:SERIAL`",
        ),
        (("a\\tunauthorized",), None, "adb:a: it does not trust this computer. Unlock the phone"),
        (("a\\toffline",), "a", "adb:a: it is offline. Pull the cable"),
        (
            ("a\\tno permissions (missing udev rules? user is in x); see [http]",),
            "a",
            "this user may not use its USB port",
        ),
        (("a\\trecovery",), "a", "adb calls it 'recovery'"),
        (("a\\tdevice",), "b", r"there is no such device \(connected: a\)"),
    ],
)
def test_devices_that_cannot_be_used(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lines: tuple[str, ...],
    place: str | None,
    words: str,
) -> None:
    fake_adb(tmp_path, monkeypatch, listed(*lines))
    with pytest.raises(DeviceError, match=words) as error:
        choose(place)
    assert "\n" not in str(error.value)


CASE = Path(__file__).parents[2] / "cases" / "adb-serial-with-blank"
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
    ("text", "found"),
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
def test_what_adb_lists(text: str, found: dict[str, str]) -> None:
    assert read_devices(text) == found


def test_what_is_no_list_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_adb(tmp_path, monkeypatch, "echo 'cannot bind listener'")
    with pytest.raises(
        DeviceError, match=r"lists nothing that is a device \('cannot bind listener'\)"
    ):
        choose(None)


def test_a_phone_without_a_serial_number_is_the_only_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_adb(
        tmp_path,
        monkeypatch,
        f'[ "$1" = devices ] && exec cat {CASE}/older.txt; [ "$1" = shell ] && exec sh -c "$2"',
    )
    assert choose(None).shell("echo there").text == "there"
    fake_adb(tmp_path, monkeypatch, listed("(no serial number)\\tdevice", "b\\toffline"))
    with pytest.raises(DeviceError, match="it tells no serial number"):
        choose(None)


WARNING = "WARNING: linker: sh: unused DT entry: type 0x6ffffffe"
DIGEST = "5a" * 32


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
def test_an_answer_is_what_stands_between_the_marks(
    around: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_adb(tmp_path, monkeypatch, f"shift 3; {around}")
    adb = Adb("a")
    for command, text, errors, code in (
        ("echo one; echo; echo two", "one\n\ntwo", "", 0),
        (f"echo '{WARNING}' >&2; printf 12; exit 3", "12", WARNING, 3),
        ("printf 'last line\\n'", "last line", "", 0),
        ("true", "", "", 0),
    ):
        answer = adb.shell(command)
        assert (answer.text, answer.errors, answer.code) == (text, errors, code)
    assert adb.shell("echo out; echo err >&2").said == "out\nerr"


@pytest.mark.parametrize("stream", [1, 2])
def test_sizes_and_digests_behind_a_warning(
    stream: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On old phones every tool begins with words of the linker, on either stream."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, said in (("wc", "  12"), ("sha256sum", "$SUM  file")):
        (tools / name).write_text(f'#!/bin/sh\necho "{WARNING}" >&{stream}\necho "{said}"\n')
        (tools / name).chmod(0o755)
    fake_adb(
        tmp_path,
        monkeypatch,
        f'[ "$3" = push ] && exit 0; shift 3; PATH={tools}:$PATH; export PATH; sh -c "$1"',
    )
    file = tmp_path / "file"
    file.write_bytes(b"x")
    monkeypatch.setenv("SUM", sha256_file(file))
    space = Workspace(Adb("a"))
    space.parent, space.folder = str(tmp_path), str(tmp_path)
    monkeypatch.setattr(Workspace, "keep", lambda *_: None)
    space.put(file, "file")
    assert space.adb.size(str(file)) == 12
    monkeypatch.setenv("SUM", DIGEST)
    with pytest.raises(DeviceError, match=r"arrived with another SHA-256 \(.*5a5a5a"):
        Workspace.put(Workspace(Adb("a")), file, "file")


def test_the_one_that_is_ready_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_adb(tmp_path, monkeypatch, listed("a\\toffline", "b\\tdevice"))
    assert choose(None).serial == "b"


def test_no_adb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNPLUG_ADB", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        DeviceError,
        match=r"adb: it is not on PATH\. Install Android's platform-tools, or set UNPLUG_ADB",
    ):
        choose(None)
    monkeypatch.setenv("UNPLUG_ADB", "/nowhere/adb")
    with pytest.raises(DeviceError, match="UNPLUG_ADB=/nowhere/adb is no file"):
        choose(None)


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (
            "exit 0",
            DeviceLost,
            "the connection ended in the middle of a command",
        ),  # adb 29 on a pulled cable
        ("echo half; exit 0", DeviceLost, "the connection ended"),
        ("echo 'error: device offline' >&2; exit 1", DeviceLost, "device offline"),
        (
            "echo 'error: device unauthorized.' >&2; exit 1",
            DeviceError,
            "it does not trust this computer",
        ),
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
    assert (
        read_state("")
        == State()
        == read_state("sh: dumpsys: not found\n=unplug=\nsh: dumpsys: not found")
    )
    assert read_state("Thermal Status: 77").thermal is None


def test_a_device_that_is_no_android_is_emulated() -> None:
    info = read_info(
        "sh: getprop: not found\n=unplug=\n\n=unplug=\nsh: dumpsys: not found\n=unplug=\nLinux 6.1",
        None,
    )
    assert (info.where, info.device, info.os, info.soc, info.gpu_driver) == (
        "emulated",
        "Linux 6.1",
        "Linux 6.1",
        None,
        None,
    )
    real = (
        "[ro.product.manufacturer]: [Google]\n[ro.product.model]: [---- 7 ----]\n"
        "[ro.build.version.release]: [14]" + 3 * "\n=unplug=\n"
    )
    assert read_info(real, "default").where == "device"


def test_elf_heads() -> None:
    assert elf_machine(b"\x7fELF") is None and elf_machine(b"") is None
    assert elf_machine(b"\x7fELF" + bytes(14) + b"\x3e\x00") == 62


GOOD = {1: 2.0, 2: 1.0, 3: 4.0, 4: 0.5, 5: 1.5, 6: 1.0, 7: 3.5, 8: 30.0, 9: 9.0, 10: 5.0}
"""Fields of LatencyMetrics: average, least, most, deviation, median, p5, p95, init, first
inference, warm-ups.
"""


def encoded(latencies: dict[int, float], runs: int = 50, peak_mb: float | None = None) -> bytes:
    """By the wire format, not by protobuf: tags, floats of four bytes, varints below 128."""
    inner = b"".join(
        bytes([number << 3 | 5]) + struct.pack("<f", value) for number, value in latencies.items()
    )
    memory = b"" if peak_mb is None else bytes([3 << 3 | 5]) + struct.pack("<f", peak_mb)
    misc = bytes([2 << 3, runs, 3 << 3, 1])
    parts = ((2, inner), (3, memory), (4, misc))
    return b"".join(bytes([number << 3 | 2, len(part)]) + part for number, part in parts)


def test_golden_bytes() -> None:
    field_of_a_newer_build = bytes([9 << 3, 7])
    found = read_result(encoded(GOOD, peak_mb=2.5) + field_of_a_newer_build, 50, "a.tflite")
    assert (found.init_ms, found.first_inference_ms, found.peak_memory_bytes) == (
        30.0,
        9.0,
        round(2.5 * 2**20),
    )
    told = found.summary
    assert (told.count, told.p50, told.p95, told.p90, told.mean, told.std, told.min, told.max) == (
        50,
        1.5,
        3.5,
        None,
        2.0,
        0.5,
        1.0,
        4.0,
    )


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


def test_what_ran_the_operators() -> None:
    log = "\n".join(
        (
            "INFO: Explicitly applied GPU delegate, and the model graph will be partially executed "
            "by the delegate.",
            "VERBOSE: Replacing 40 out of 45 node(s) with delegate (TfLiteGpuDelegateV2) node, "
            "yielding 3 partitions for it.",
        )
    )
    found = read_placement(log, None, "gpu-fp16")
    assert (found.delegate_got, found.nodes_delegated, found.nodes_total, found.partitions) == (
        "gpu-fp16",
        40,
        45,
        3,
    )
    assert read_placement(log, None, "nnapi").delegate_got == "none"
    assert (
        read_placement(
            "Though GPU delegate is explicitly applied, the model graph will not be executed",
            None,
            "gpu",
        )
        is not None
    )
    assert (
        read_placement(
            "WARN: GPU acceleration is unsupported on this platform.", None, "gpu"
        ).delegate_got
        == "none"
    )


def test_what_xnnpack_took_behind_the_gpu_is_not_the_gpus() -> None:
    """By hand: a subgraph of five nodes, one behind the GPU, four behind XNNPACK."""

    def field(number: int, payload: bytes) -> bytes:
        return bytes([number << 3 | 2, len(payload)]) + payload

    def replaced(name: str, nodes: list[int]) -> bytes:
        return field(8, field(1, name.encode()) + b"".join(bytes([2 << 3, node]) for node in nodes))

    nodes = [b"\x08" + bytes([node]) for node in range(5)]
    nodes += [replaced("TfLiteGpuDelegateV2", [0]), replaced("TfLiteXNNPackDelegate", [1, 2, 3, 4])]
    details = field(2, b"".join(field(3, node) for node in nodes))
    log = (
        "Explicitly applied GPU delegate, and the model graph will be partially executed by the "
        "delegate w/ 1 delegate kernels."
    )
    found = read_placement(log, details, "gpu")
    assert (found.delegate_got, found.nodes_delegated, found.nodes_total, found.partitions) == (
        "gpu",
        1,
        5,
        1,
    )


def test_logs_that_mean_trouble() -> None:
    check_log("INFO: all is well", 0, "a")
    with pytest.raises(DeviceError, match="does not know result_file_path, use_gpu"):
        check_log("Unconsumed cmdline flags: --result_file_path=r --use_gpu=true", 0, "a")
    with pytest.raises(DeviceError, match="the device cannot execute it"):
        check_log("sh: ./benchmark_model: not executable: 64-bit ELF file", 126, "a")
    with pytest.raises(ArtifactError, match="killed by signal 11"):
        check_log("", 139, "a")
    with pytest.raises(
        ArtifactError, match="ended with 1: Failed to load model a; Benchmarking failed"
    ):
        check_log("ERROR: Failed to load model a\nERROR: Benchmarking failed.", 1, "a")
