"""Hostile inputs, each a few lines that make it in a folder and the command that is pointed at it.

Files of a kilobyte lie beside this module (`graphs` wrote them); what would be large is made when
it is needed.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
TERABYTES = 4 * 2**40
SIDE = 8000  # 64 million pixels, as many as are decoded at all
ENDLESS = "/proc/kmsg"
"""A regular file to ``stat``; reading it waits for the kernel's next message."""


@dataclass(frozen=True)
class Case:
    """One hostile input.

    Args:
        what: the line of the table.
        make: fills a folder.
        command: arguments of ``unplug``; ``{}`` is the folder.
        says: in the one line of the refusal; "" where the input is taken, within bounds.
        child: whether a child process opens it.
    """

    what: str
    make: Callable[[Path], object]
    command: tuple[str, ...]
    says: str
    child: bool = False


def sparse(name: str) -> Callable[[Path], object]:
    """A file of four terabytes that takes no room."""

    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
        try:
            os.truncate(folder / name, TERABYTES)
        except OSError:  # a file system with smaller files
            os.truncate(folder / name, 2**40)

    return make


def link(name: str, target: str) -> Callable[[Path], object]:
    """A link to something that is no plain file."""
    return lambda folder: (folder / name).symlink_to(target)


def text(name: str, content: str | bytes) -> Callable[[Path], object]:
    """A small file."""
    return lambda folder: (folder / name).write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )


def fifo(name: str) -> Callable[[Path], object]:
    """A pipe that nobody writes into."""
    return lambda folder: os.mkfifo(folder / name)


def png(name: str, depth: int, colour: int, channels: int) -> Callable[[Path], object]:
    """A picture of 64 million pixels, all of one colour, in a hundred kilobytes."""
    return lambda folder: write_png(folder / name, SIDE, depth, colour, channels)


def write_png(path: Path, side: int, depth: int, colour: int, channels: int) -> None:
    """A black square."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    packed, row = zlib.compressobj(9), bytes(1 + side * channels * depth // 8)
    data = b"".join([*(packed.compress(row) for _ in range(side)), packed.flush()])
    head = struct.pack(">IIBBBBB", side, side, depth, colour, 0, 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


def jpeg(folder: Path, part: bytes, count: int) -> None:
    """A picture whose last scan (b""), or what is put in front of its pixels, stands there `count`
    times.
    """
    import io

    from PIL import Image

    buffer, place = io.BytesIO(), folder / "faces" / "a" / "a.jpg"
    Image.new("L", (2000, 2000), 128).save(buffer, "JPEG", progressive=True)
    raw = buffer.getvalue()
    scan, end = raw.rindex(b"\xff\xda"), len(raw) - 2
    place.parent.mkdir(parents=True)
    place.write_bytes(
        raw[:2] + part * count + raw[2:] if part else raw[:end] + raw[scan:end] * count + raw[end:]
    )


def benchmarks(folder: Path) -> None:
    """A report of a benchmark with 12,000 rows."""
    summary = {
        "count": 1,
        "p50": 1.0,
        "p90": 1.0,
        "p95": 1.0,
        "p99": None,
        "mean": 1.0,
        "std": 0.0,
        "min": 1.0,
        "max": 1.0,
    }
    repeat = {
        "init_ms": 1.0,
        "first_inference_ms": 1.0,
        "latencies_ms": [1.0],
        "summary": summary,
        "parity_db": None,
        "parity_reason": None,
    }
    row = {
        "file": "age.fp32.onnx",
        "model_type": "age",
        "model_sha256": "0" * 64,
        "artifact_sha256": "0" * 64,
        "target": "onnx",
        "precision": "fp32",
        "where": "host",
        "device": "a",
        "os": "b",
        "runtime": "onnx",
        "runtime_version": None,
        "threads": 1,
        "delegate_asked": "cpu",
        "status": "ok",
        "valid": True,
        "reasons": [],
        "warmup": 0,
        "iterations": 1,
        "repeats": [repeat] * 2,
        "parity_reference": "checkpoint",
        "inputs_sha256": "0" * 64,
        "flops": None,
    }
    head = {"schema": "unplug-bench/1", "seed": 0, "versions": {}, "git_revision": None}
    (folder / "a.json").write_text(json.dumps({**head, "rows": [row] * 12_000}))


def rows(folder: Path) -> None:
    """A million rows."""
    (folder / "a.csv").write_text(
        "path,age\n" + "".join(f"{number}.png,3\n" for number in range(1_000_000))
    )


def packed_array(folder: Path) -> None:
    """A gigabyte and a half of zeros as 1.5 megabytes, beside a model that takes an array of that
    name.
    """
    graph("loop")(folder)
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (8388608, 3, 4, 4), }"
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    block = bytes(2**20)
    with (
        zipfile.ZipFile(folder / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("image.npy", "w", force_zip64=True) as file,
    ):
        file.write(start)
        for _ in range(1536):
            file.write(block)


def graph(name: str) -> Callable[[Path], object]:
    """An ONNX file of this folder and its card."""

    def make(folder: Path) -> None:
        for file in (f"{name}.onnx", f"{name}.onnx.json"):
            shutil.copyfile(HERE / file, folder / file)
        write_png(folder / "a.png", 16, 8, 2, 3)

    return make


def crowded(folder: Path) -> None:
    """A bundle folder with a hundred thousand files that no manifest names."""
    (folder / "b" / "many").mkdir(parents=True)
    (folder / "b" / "manifest.json").write_text("{}")
    for number in range(100_000):
        (folder / "b" / "many" / str(number)).touch()


NESTED = '{"schema": "unplug-bench/1", "rows": ' + "[" * 100_000
DIGITS = json.dumps(
    {"schema": "unplug-bench/1", "rows": [], "seed": 0, "versions": {}, "git_revision": None}
).replace('"seed": 0', '"seed": ' + "9" * 400)
REPORT, IMPORT = (
    ("report", "{}/a.json", "-o", "{}/a.html"),
    ("bench", "import", "{}/a.json", "-o", "{}/b.json"),
)
INSPECT, FOLDER = ("data", "inspect", "csv:{}/a.csv"), ("data", "inspect", "imagefolder:{}/faces")
LOOK = ("condition", "--kind", "canny", "{}/a.png", "-o", "{}/out.png")

CASES = (
    Case("report: /dev/zero", link("a.json", "/dev/zero"), REPORT, "a device"),
    Case("report: a pipe", fifo("a.json"), REPORT, "a device, a pipe"),
    Case("report: /proc/kmsg", link("a.json", ENDLESS), REPORT, "a.json"),
    Case(
        "report: a sparse file of 4 TiB",
        sparse("a.json"),
        REPORT,
        "larger than",
    ),
    Case(
        "report: JSON nested 100,000 deep",
        text("a.json", NESTED),
        REPORT,
        "not valid JSON",
    ),
    Case(
        "bench import: /dev/zero",
        link("a.json", "/dev/zero"),
        IMPORT,
        "a device",
    ),
    Case("bench import: a pipe", fifo("a.json"), IMPORT, "a device, a pipe"),
    Case("bench import: /proc/kmsg", link("a.json", ENDLESS), IMPORT, "a.json"),
    Case(
        "bench import: an integer of 400 digits",
        text("a.json", DIGITS),
        IMPORT,
        "impossible number",
    ),
    Case(
        "bench import: JSON nested 100,000 deep",
        text("a.json", NESTED),
        IMPORT,
        "schema",
    ),
    Case(
        "bench import: 12,000 rows",
        benchmarks,
        IMPORT,
        "more than 2000 rows",
    ),
    Case("csv: a million rows", rows, INSPECT, "more than 500000 rows"),
    Case(
        "csv: a sparse file of 4 TiB, one line",
        sparse("a.csv"),
        INSPECT,
        "larger than",
    ),
    Case("csv: /proc/kmsg", link("a.csv", ENDLESS), INSPECT, "a.csv"),
    Case(
        "mufac: a sparse table of 4 TiB",
        sparse("custom_train_dataset.csv"),
        ("data", "inspect", "mufac:{}"),
        "larger than",
    ),
    Case(
        "mucac: a sparse list of 4 TiB",
        sparse("CelebA-HQ-identity.txt"),
        ("data", "inspect", "mucac:{}"),
        "larger than",
    ),
    Case(
        "picture: 64 million 16-bit greys in 125 kB",
        png("faces/a/a.png", 16, 0, 1),
        FOLDER,
        "",
    ),
    Case(
        "picture: 64 million RGBA pixels",
        png("faces/a/a.png", 8, 6, 4),
        FOLDER,
        "",
    ),
    Case(
        "picture: 5,000 scans in 90 kB",
        lambda folder: jpeg(folder, b"", 5000),
        FOLDER,
        "more than 250 scans of 4,000,000 pixels",
    ),
    Case(
        "picture: 4 million empty segments in 16 MB",
        lambda folder: jpeg(folder, b"\xff\xfe\x00\x02", 4_000_000),
        FOLDER,
        "more than 10000 segments",
    ),
    Case("picture: /proc/kmsg", link("a.png", ENDLESS), LOOK, "a.png"),
    Case(
        "run: 1.5 GiB of zeros as a .npz of 1.5 MB",
        packed_array,
        ("run", "{}/loop.onnx", "--array", "{}/a.npz"),
        "when unpacked",
    ),
    Case(
        "run: an ONNX file of 300 bytes that asks for 16 GiB",
        graph("memory"),
        ("run", "{}/memory.onnx", "--image", "{}/a.png"),
        "allocate",
        child=True,
    ),
    Case(
        "run: an ONNX loop without an end",
        graph("loop"),
        ("run", "{}/loop.onnx", "--image", "{}/a.png"),
        "not done after",
        child=True,
    ),
    Case(
        "run: an ONNX file with numbers in /etc/passwd",
        graph("elsewhere"),
        ("run", "{}/elsewhere.onnx", "--image", "{}/a.png"),
        "lie in another file",
    ),
    Case(
        "bundle verify: 100,000 extra files",
        crowded,
        ("bundle", "verify", "{}/b"),
        "more than 8192",
    ),
    Case(
        "report: a name with escapes",
        text("\x1b[2J\u202e.json", "{"),
        ("report", "{}/\x1b[2J\u202e.json", "-o", "{}/a.html"),
        "\\x1b[2J\\u202e",
    ),
    Case(
        "report: 300 letters for -o",
        text("a.json", "{}"),
        ("report", "{}/a.json", "-o", "x" * 300),
        "too long",
    ),
)
