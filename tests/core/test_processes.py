"""The child-process protocol: what comes back, and what each way to die looks like."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from unplug.core import (
    ArtifactError,
    Child,
    ConversionError,
    MissingExtraError,
    Reply,
    UnplugError,
    call_in_child,
)
from unplug.core.processes import error_tail, missing_operators

FUNCTIONS = """
import os, signal, sys, time
from unplug.core.processes import Reply
from unplug.core.errors import ArtifactError, MissingExtraError

def double(job):
    for step in range(3):
        job.progress(step + 1, 3, f"step {step + 1}")
    return Reply(values={"folder": str(job.folder)}, arrays={name: array * 2 for name, array in job.arrays.items()})
def crash(job):
    print("about to die", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
def killed(job):
    os.kill(os.getpid(), signal.SIGKILL)
def sleep(job):
    print("sleeping", file=sys.stderr, flush=True)
    open(job.values["pid"], "w").write(f"{os.getpid()} {job.folder}")
    time.sleep(60)
def loaded(job):
    return Reply(values={"loaded": [name for name in ("triton", "tensorflow") if name in sys.modules]})
def typed(job):
    raise ArtifactError("a.tflite", "broken", "Copy it")
def extra(job):
    raise MissingExtraError("nothing", "onnx")
def untyped(job):
    raise ZeroDivisionError("by hand")
def count(job):
    job.kept["count"] = job.kept.get("count", 0) + 1
    return Reply(values={"pid": os.getpid(), "count": job.kept["count"]})
def silent(job):
    os._exit(3)
"""


@pytest.fixture(autouse=True)
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "child_functions.py").write_text(FUNCTIONS)
    (tmp_path / "jobs").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"), prepend=os.pathsep)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "jobs"))


def call(name: str, values: Any = (), **how: Any) -> Reply:
    return call_in_child(f"child_functions:{name}", dict(values), what=name, **how)


def test_arrays_and_progress_come_back_and_the_folder_is_removed() -> None:
    seen: list[tuple[int, int, str]] = []
    arrays = {
        "image": np.arange(6, dtype=np.float32).reshape(2, 3),
        "../odd name": np.array([7], np.int64),
    }
    reply = call("double", arrays=arrays, progress=lambda *step: seen.append(step))
    assert reply.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert reply.arrays[name].tolist() == (2 * array).tolist()
        assert reply.arrays[name].dtype == array.dtype
    assert seen == [(step, 3, f"step {step}") for step in (1, 2, 3)]
    assert not Path(reply.values["folder"]).exists()


def test_arrays_of_objects_are_refused() -> None:
    with pytest.raises(ValueError, match="allow_pickle=False"):
        call("double", arrays={"x": np.array([{}], dtype=object)})


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        (
            "crash",
            ConversionError,
            r"crash: its child process was killed by SIGSEGV.*Segmentation fault",
        ),
        ("killed", ConversionError, r"SIGKILL.*out of memory"),
        ("typed", ArtifactError, r"a\.tflite: broken\. Copy it\."),
        ("extra", MissingExtraError, r'install .*\[onnx\]"'),
        ("untyped", ConversionError, r"untyped: ZeroDivisionError: by hand\."),
        ("silent", ConversionError, "ended with code 3 and said nothing"),
        ("none_of_this_name", ConversionError, "AttributeError"),
    ],
)
def test_every_end_is_told_and_the_folder_is_removed(
    name: str, error: type[UnplugError], words: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=words):
        call(name)
    assert not list((tmp_path / "jobs").iterdir())


@pytest.mark.parametrize(
    ("timeout", "words"),
    [
        (2, "not done after 2 s; its last words: sleeping"),
        (60, "stopped because other work failed"),
    ],
)
def test_a_timeout_and_a_cancel_kill_the_child(tmp_path: Path, timeout: float, words: str) -> None:
    pid, cancel = tmp_path / "pid", threading.Event()
    if timeout == 60:
        threading.Thread(target=lambda: (wait_for(pid), cancel.set())).start()
    with pytest.raises(ConversionError, match=words):
        call("sleep", {"pid": str(pid)}, timeout=timeout, cancel=cancel)
    assert not psutil.pid_exists(int(pid.read_text().split()[0]))


def wait_for(path: Path) -> list[str]:
    for _ in range(300):
        if path.is_file() and (words := path.read_text().split()):
            return words
        time.sleep(0.1)
    raise AssertionError(f"{path} did not appear")


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_child_ends_with_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    pid = tmp_path / "pid"
    script = f"""
        from unplug.core.processes import call_in_child
        call_in_child("child_functions:sleep", {{"pid": {str(pid)!r}}}, what="x")
    """
    environment = {**os.environ, "TMPDIR": str(tmp_path / "jobs")}
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], env=environment, stderr=subprocess.DEVNULL
    )
    child, folder = wait_for(pid)
    parent.send_signal(number)
    parent.wait(10)
    deadline = time.monotonic() + 10
    while psutil.pid_exists(int(child)) or Path(folder).exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_error_tail_of_a_chained_traceback(tmp_path: Path) -> None:
    log = tmp_path / "stderr"
    log.write_text(
        "noise\nTraceback (most recent call last):\n  File a, line 1\n    x()\nKeyError: 1\n\n"
        "During handling\n"
        "Traceback (most recent call last):\n  File b, line 2\n    y()\n    ^\n"
        "\x1b[96mValueError\x1b[0m: Lowering not found\n"
        "detail\n"
    )
    assert error_tail(log) == "ValueError: Lowering not found | detail"
    assert error_tail(tmp_path / "missing") == ""


@pytest.mark.parametrize(
    ("text", "operators"),
    [
        (
            "NotImplementedError: Unsupported fx node special_bessel_j0, kind x",
            ["special_bessel_j0"],
        ),
        (
            "No ONNX function found for <OpOverload(op='aten.foo', overload='default')>, aten.foo",
            ["aten.foo"],
        ),
        ("Operator torch._ops.aten.foo.default is not in Core ATen opset", ["aten.foo"]),
        ("ValueError: aten.relu has a wrong shape", []),
    ],
)
def test_missing_operators(text: str, operators: list[str]) -> None:
    assert missing_operators(text) == operators


@pytest.mark.parametrize(
    ("installed", "loaded"), [(("triton", "tensorflow"), ["triton"]), (("tensorflow",), [])]
)
def test_triton_is_loaded_before_tensorflow_can_be(
    tmp_path: Path, installed: tuple[str, ...], loaded: list[str]
) -> None:
    """The other order ends in SIGSEGV: see `unplug.core.worker`. Stand-ins here; docs/export.md has
    the real ones.
    """
    if "triton" not in installed and find_spec("triton") is not None:
        pytest.skip("triton is installed here")
    for name in installed:
        (tmp_path / "path" / name).mkdir()
        (tmp_path / "path" / name / "__init__.py").touch()
    assert call("loaded").values == {"loaded": loaded}


@pytest.mark.long
def test_one_process_answers_many_calls_and_outlives_errors_but_no_crash() -> None:
    with Child() as child:

        def pid_and_count(**given: object) -> tuple[int, int]:
            values = child.call("child_functions:count", {}, what="count", **given).values
            return values["pid"], values["count"]

        pid, first = pid_and_count()
        with pytest.raises(ArtifactError):
            child.call("child_functions:typed", {}, what="typed")
        assert (first, pid_and_count()) == (1, (pid, 2))
        with pytest.raises(ConversionError, match="SIGSEGV"):
            child.call("child_functions:crash", {}, what="crash")
        other, count = pid_and_count()
        assert (other != pid, count) == (True, 1)
        with pytest.raises(ConversionError, match="not done after 1 s"):
            child.call("child_functions:sleep", {"pid": os.devnull}, what="sleep", timeout=1)
        assert pid_and_count()[1] == 1
    assert not psutil.pid_exists(other)


def test_a_child_that_nobody_closed_ends_with_its_owner(tmp_path: Path) -> None:
    child = Child()
    pid = child.call("child_functions:count", {}, what="count").values["pid"]
    del child
    assert not psutil.pid_exists(pid)
    assert not list((tmp_path / "jobs").iterdir())
