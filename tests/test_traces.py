"""The whole journey without a network, watched: nothing is written outside its own folders, nobody
is called or looked up.

`strace` sees what native code does as well; where it is not installed, an audit hook in every
Python process has to do.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

JOURNEY = """
data synth --count 150 --subjects 50 --pixels 48 --out faces
train age --data csv:faces/labels.csv --size nano --pixels 32 --epochs 4 --augment flip --out original
data pick-forget original --data csv:faces/labels.csv --fraction 0.2 --out forget.txt
forget original --data csv:faces/labels.csv --forget forget.txt --method retrain --out retrained
forget original --data csv:faces/labels.csv --forget forget.txt --method msg --budget 0.6 --out unlearned
export unlearned --to onnx,litert --precision fp32 --out artifacts
run artifacts/age.fp32.onnx --image faces/face-000.png
release original --data csv:faces/labels.csv --forget forget.txt --retrained retrained --train-references 0 --budget 0.6 \
 --to onnx --precision fp32 --no-rounding --gate max_auc_above_retrained=1 --gate max_auc_below_retrained=1 \
 --gate max_mae_above_retrained=99 --gate max_accuracy_below_retrained=1 --gate worst_person=false --out age.unplug
bundle verify age.unplug
report .age.unplug.release/audit.json .age.unplug.release/release.json unlearned/unplug.json --out report.html
cache info
"""
DRIVER = """
import shlex, sys
from click.testing import CliRunner
from unplug.sdk.cli import main
for line in sys.argv[1].strip().splitlines():
    done = CliRunner().invoke(main, shlex.split(line))
    if done.exit_code:
        sys.exit(f"unplug {line}: {done.output} {done.exception!r}")
"""
HOOK = """
import os, sys
_log = os.open(os.environ["WATCHED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
_changes = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}
def _hook(event, args):
    if event == "open" and isinstance(args[0], (str, bytes)) and (args[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        os.write(_log, f"write {os.path.abspath(os.fsdecode(args[0]))}\\n".encode())
    elif event in _changes and isinstance(args[0], (str, bytes)):
        os.write(_log, f"write {os.path.abspath(os.fsdecode(args[0]))}\\n".encode())
    elif event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        os.write(_log, f"call {event} {args[1:]!r}\\n".encode())
sys.addaudithook(_hook)
"""
CHANGING = (
    "open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,rmdir,link,linkat,symlink,symlinkat,truncate,"
    "chmod,fchmodat,chdir"
)
"""Calls that change files, and the one that says what relative names mean (git looks at the sources
for their revision).
"""
CALLING = "connect,sendto,sendmsg,sendmmsg"
DEVICES = re.compile(r"/dev/(null|tty|ptmx|shm/sem\..*)|/proc/self/.*")
"""Where nothing stays: devices, semaphores (gone with their processes), and the names of threads.
"""
PEERS = re.compile(r"sa_family=AF_(?!UNIX|LOCAL|UNSPEC)")
"""Of every family but sockets of this machine. (The C library asks nscd by such a one who the user
is.)
"""
NAMED = re.compile(r'(?:\w+<(?P<folder>[^>]*)>, )?"(?P<name>[^"]*)"')
LOOK_UP = '"/etc/resolv.conf"'  # what a resolver reads first


def watched_by_strace(log: Path, work: Path) -> tuple[set[str], list[str]]:
    """Paths that were written, made, moved or removed; and calls of other machines, look-ups among
    them.
    """
    written, calls, places = set[str](), list[str](), dict[str, Path]()
    for line in log.read_text(errors="replace").splitlines():
        process, _, call = line.partition(" ")
        name, _, rest = call.strip().partition("(")
        names = [
            str(Path(found["folder"] or places.get(process, work), found["name"]))
            for found in NAMED.finditer(rest)
        ]
        if name in CALLING.split(","):
            calls += [line] if PEERS.search(rest) else []
        elif name == "chdir":
            places[process] = Path(names[0])
        elif name.startswith("open") and not re.search(r"O_WRONLY|O_RDWR|O_CREAT", rest):
            calls += [line] if LOOK_UP in rest else []
        elif not re.search(r"= -1 E(EXIST|NOENT|ISDIR|NOTDIR|BUSY)", rest):
            written |= {os.path.normpath(item) for item in names}
    return written, calls


def watched_by_hook(log: Path) -> tuple[set[str], list[str]]:
    """The same, of what Python did."""
    lines = [line.partition(" ") for line in log.read_text().splitlines()]
    return {rest for kind, _, rest in lines if kind == "write"}, [
        rest for kind, _, rest in lines if kind == "call"
    ]


def test_the_whole_journey_stays_in_its_folders_and_calls_nobody(tmp_path: Path) -> None:
    for module in ("onnxruntime", "onnxscript", "litert_torch"):
        pytest.importorskip(module)
    alone = ["unshare", "--net"] if shutil.which("unshare") and os.geteuid() == 0 else []
    if not alone or subprocess.run([*alone, "true"]).returncode != 0:
        pytest.skip("a network namespace needs root here")
    home, scratch, work, log = (tmp_path / name for name in ("home", "scratch", "work", "log"))
    for folder in (home, scratch, work, tmp_path / "site"):
        folder.mkdir()
    # Neither CI, where ONNX Runtime hides its telemetry, nor any variable of ours.
    env = {
        name: os.environ[name]
        for name in ("PATH", "PYTHONPATH", "LANG", "OMP_NUM_THREADS")
        if name in os.environ
    }
    env |= {"HOME": str(home), "TMPDIR": str(scratch), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", DRIVER, JOURNEY]
    if shutil.which("strace"):
        trace = [
            "strace",
            "-f",
            "-y",
            "-qq",
            "--seccomp-bpf",
            "-e",
            f"trace={CHANGING},{CALLING}",
            "-e",
            "signal=none",
        ]
        command = [*trace, "-o", str(log), *command]
    else:
        (tmp_path / "site" / "sitecustomize.py").write_text(HOOK)
        env |= {
            "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), env.get("PYTHONPATH", "")]),
            "WATCHED": str(log),
        }
    done = subprocess.run(
        [*alone, *command], cwd=work, env=env, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stderr[-3000:]
    written, calls = (
        watched_by_strace(log, work) if shutil.which("strace") else watched_by_hook(log)
    )
    assert f"{work}/report.html" in written or any(
        path.startswith(f"{work}/.report.html") for path in written
    ), "it saw nothing"
    own = tuple(f"{folder}/" for folder in (home, scratch, work))
    outside = {
        path for path in written if not f"{path}/".startswith(own) and not DEVICES.fullmatch(path)
    }
    assert outside <= {str(log)}
    assert calls == []
    assert_what_is_left(home, scratch, work)


def assert_what_is_left(home: Path, scratch: Path, work: Path) -> None:
    """Results, the cache and the key, private, and matplotlib's list of this machine's fonts; no
    temporary file.
    """
    left = {path.relative_to(home): path for path in home.rglob("*")}
    files = {name for name, path in left.items() if path.is_file()}
    others = {
        name
        for name in files
        if name.parts[:2] not in ((".cache", "unplug"), (".cache", "matplotlib"))
    }
    assert others == {Path(".config/unplug/key")}
    for name, path in left.items():
        if name.parts[1:2] == ("unplug",):
            assert stat.S_IMODE(path.stat().st_mode) == (0o600 if path.is_file() else 0o700), name
    assert [path for path in scratch.rglob("*") if path.is_file()] == []
    assert {path.name for path in work.iterdir()} == {
        "faces",
        "original",
        "forget.txt",
        "retrained",
        "unlearned",
        "artifacts",
        "age.unplug",
        ".age.unplug.release",
        "report.html",
    }
