"""Runs of jobs: what is written, skipped, refused and failed, on each backend of this machine and
on Ray.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unplug.core import DataError, InputError, MissingExtraError, OutputError, TrainingError, errors
from unplug.sdk.evidence.fleet import (
    BACKENDS,
    Context,
    FleetJob,
    has_result,
    job_fingerprint,
    read_result,
    run_jobs,
)
from unplug.sdk.evidence.fleet.backend import describe, revive
from unplug.sdk.evidence.fleet.backends.cluster import _share

LOCAL = ("loop", "processes")
THREE = Context(target="fleet_jobs:number", arguments={"start": 3})


def adds(count: int, **more: Any) -> list[FleetJob]:
    return [
        FleetJob(name=f"add-{x}", target="fleet_jobs:add", arguments={"x": x, **more})
        for x in range(count)
    ]


def misbehaving(how: str, **more: Any) -> FleetJob:
    return FleetJob(
        name=how.replace(" ", "-"), target="fleet_jobs:misbehave", arguments={"how": how, **more}
    )


def run(jobs: list[FleetJob], out: Path, context: Context | None = THREE, **settings: Any) -> Any:
    return run_jobs(jobs, context, out, **{"workers": 2, "show": False, **settings})


def alive(pid: int) -> bool:
    """False once a process is gone or a zombie."""
    status = Path(f"/proc/{pid}/stat")
    return status.is_file() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_for(what: Any, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("backend", LOCAL)
def test_results_are_the_functions_own(backend: str, tmp_path: Path) -> None:
    summary = run(adds(3), tmp_path, backend=backend)
    assert (summary.done, summary.skipped, summary.failed) == (3, 0, {})
    assert summary.seconds > 0
    assert {path.name for path in tmp_path.iterdir()} == {f"add-{x}.safetensors" for x in range(3)}
    for x in range(3):
        result = read_result(tmp_path, f"add-{x}")
        assert np.array_equal(result.tensors["values"], np.full((2, 3), 3 + x, np.float32))
        # a transposed view is written as it reads, not as it lies
        assert result.tensors["turned"].shape == (3, 2)
        assert result.tensors["one"].shape == () and result.tensors["one"] == 7
        assert result.facts["x"] == x and result.refused is None
        assert (result.facts["pid"] == os.getpid()) is (backend == "loop")


def test_a_context_is_built_once_a_worker(tmp_path: Path) -> None:
    (tmp_path / "marks").mkdir()
    context = Context(
        target="fleet_jobs:number", arguments={"start": 1, "mark": str(tmp_path / "marks")}
    )
    run(adds(6, nap=0.05), tmp_path / "out", context, backend="processes")
    built = Counter(path.name.partition("-")[0] for path in (tmp_path / "marks").iterdir())
    ran = {str(read_result(tmp_path / "out", f"add-{x}").facts["pid"]) for x in range(6)}
    assert set(built.values()) == {1} and len(built) <= 2
    assert ran <= set(built)  # on a busy machine one may do all before the other is there


def test_workers_compute_with_one_thread_and_need_no_context(tmp_path: Path) -> None:
    run(
        [FleetJob(name="threads", target="fleet_jobs:threads")], tmp_path, None, backend="processes"
    )
    assert read_result(tmp_path, "threads").facts == {"torch": 1, "omp": "1"}


def test_finished_jobs_are_skipped_and_changed_ones_run_again(tmp_path: Path) -> None:
    assert run(adds(2), tmp_path, backend="loop", fingerprint="data 1").done == 2
    before = (tmp_path / "add-1.safetensors").stat().st_mtime_ns
    again = run(adds(3), tmp_path, backend="processes", fingerprint="data 1")
    assert (again.done, again.skipped) == (1, 2)
    assert (tmp_path / "add-1.safetensors").stat().st_mtime_ns == before
    four = Context(target="fleet_jobs:number", arguments={"start": 4})
    for context in (THREE, four):
        assert run(adds(3), tmp_path, context, backend="loop", fingerprint="data 2").done == 3
    assert read_result(tmp_path, "add-0").tensors["values"][0, 0] == 4
    # other arguments
    assert run(adds(1, nap=0.001), tmp_path, four, backend="loop", fingerprint="data 2").done == 1


def test_has_result_knows_both_fingerprints(tmp_path: Path) -> None:
    (job,) = adds(1)
    run([job], tmp_path, backend="loop", fingerprint="given")
    assert has_result(tmp_path, job.name, "given")
    assert has_result(tmp_path, job.name, job_fingerprint(job, THREE, "given"))
    assert not has_result(tmp_path, job.name, "other")
    assert not has_result(tmp_path, job.name, job_fingerprint(job, THREE, "other"))
    assert not has_result(tmp_path, "add-1", "given")


def test_errors_come_back_as_they_were() -> None:
    for error in (DataError("a", "b", "c"), errors.GateFailed("a"), TrainingError("a", "b")):
        revived = revive(describe(error))
        assert type(revived) is type(error) and str(revived) == str(error)
    extra = MissingExtraError("ray", "cluster")
    assert str(revive(describe(extra))) == str(extra)
    unknown = revive({"kind": "annotations", "what": "a", "why": "", "fix": ""})
    assert type(unknown) is errors.UnplugError


@pytest.mark.parametrize("backend", LOCAL)
def test_a_typed_error_is_a_refusal(backend: str, tmp_path: Path) -> None:
    summary = run([misbehaving("refuse"), *adds(1)], tmp_path, backend=backend)
    assert (summary.done, summary.failed) == (2, {})
    result = read_result(tmp_path, "refuse")
    assert result.refused == {
        "kind": "BudgetExceeded",
        "what": "method",
        "why": "too dear",
        "fix": "Pay more",
    }
    assert result.tensors == {}
    assert run([misbehaving("refuse")], tmp_path, backend=backend).skipped == 1


FAILURES = {
    "raise": "ValueError: the job is broken",
    "disk": "disk: full",  # typed, but about the machine: it may work next time
    "exit": "SystemExit: 3",
    "no result": "the job returned dict, not a Result",
    "nan": "Out of range float values are not JSON",
    "objects": "tensor 'a' is not an array of",
}


@pytest.mark.parametrize("backend", LOCAL)
def test_failures_are_reported_and_the_others_go_on(backend: str, tmp_path: Path) -> None:
    wrong = [FleetJob(name=target, target=f"{target}:f") for target in ("no_such_module", "json")]
    jobs = [*map(misbehaving, FAILURES), *wrong, *adds(2)]
    summary = run(jobs, tmp_path, backend=backend)
    words = {how.replace(" ", "-"): text for how, text in FAILURES.items()}
    words |= {"no_such_module": "No module named 'no_such_module'", "json": "has no attribute 'f'"}
    assert summary.done == 2 and summary.failed.keys() == words.keys()
    assert all(text in summary.failed[name] for name, text in words.items())
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["add-0", "add-1"]
    assert run(jobs, tmp_path, backend="loop").skipped == 2


@pytest.mark.long
def test_a_killed_worker_is_replaced_and_its_job_tried_once_more(tmp_path: Path) -> None:
    jobs = [misbehaving("die once", mark=str(tmp_path / "mark")), misbehaving("die"), *adds(4)]
    summary = run(jobs, tmp_path / "out", backend="processes")
    assert summary.done == 5 and list(summary.failed) == ["die"]
    assert (
        "its worker process died 2 times, the last with: its child process was killed by SIGKILL"
        in summary.failed["die"]
    )


@pytest.mark.long
@pytest.mark.parametrize("backend", LOCAL)
def test_a_context_that_cannot_be_built_stops_the_run(backend: str, tmp_path: Path) -> None:
    def start(kind: str) -> Any:
        context = Context(target="fleet_jobs:bad_context", arguments={"kind": kind})
        return run(adds(3), tmp_path / kind, context, backend=backend)

    with pytest.raises(DataError, match=r"data: none\. Get some"):
        start("typed")
    with pytest.raises(InputError, match="KeyError: 'oops'"):
        start("untyped")
    if backend == "processes":
        with pytest.raises(TrainingError, match="die while they build the context"):
            start("die")


def test_bad_requests(tmp_path: Path) -> None:
    for jobs, more, words in (
        ([*adds(2), *adds(1)], {}, "two jobs have it"),
        (adds(1), {"backend": "proceses"}, "Did you mean processes"),
        (adds(1), {"workers": 0}, "workers 0"),
    ):
        with pytest.raises(InputError, match=words):
            run(jobs, tmp_path, **more)
    assert list(tmp_path.iterdir()) == []
    assert list(BACKENDS) == ["loop", "processes", "ray"]


@pytest.mark.parametrize(
    "name", ["../up", "a/b", "", ".hidden", "..", "a b", "ä", "x" * 201, "a\n", "a\0b"]
)
def test_names_that_are_no_file_names(name: str, tmp_path: Path) -> None:
    for call in (
        lambda: FleetJob(name=name, target="a:b"),
        lambda: read_result(tmp_path, name),
        lambda: has_result(tmp_path, name, ""),
    ):
        with pytest.raises(InputError, match="job name"):
            call()


def test_targets_and_arguments_that_are_none() -> None:
    for target in (
        "json",
        "json:",
        ":dumps",
        "json:dumps()",
        "os;x:y",
        "json:dumps:loads",
        "a b:c",
    ):
        with pytest.raises(InputError, match="target"):
            FleetJob(name="a", target=target)
        with pytest.raises(InputError, match="target"):
            Context(target=target)
    given: Any
    for given in ({"a": {1, 2}}, {"a": float("nan")}, {"a": b""}, {1: 2}, [1]):
        with pytest.raises(InputError, match="arguments"):
            FleetJob(name="a", target="a:b", arguments=given)


def test_somebody_elses_file_is_not_replaced(tmp_path: Path) -> None:
    place = tmp_path / "add-0.safetensors"
    place.write_bytes(b"precious")
    with pytest.raises(OutputError, match="add-0"):
        run(adds(2), tmp_path, backend="loop")
    assert place.read_bytes() == b"precious" and len(list(tmp_path.iterdir())) == 1


def test_ray_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"\[cluster\]"):
        run(adds(1), tmp_path, backend="ray")


@pytest.mark.parametrize(
    ("gpus", "actors", "share"),
    [(0, 4, 0.0), (1, 8, 0.125), (1, 3, 0.333), (4, 2, 2.0), (3, 2, 1.0)],
)
def test_gpus_are_dealt_out(gpus: float, actors: int, share: float) -> None:
    assert _share(gpus, actors) == share
    assert share * actors <= gpus


DRIVER = """
import sys
from pathlib import Path
from unplug.sdk.evidence.fleet import Context, FleetJob, run_jobs
root = Path(sys.argv[1])
log, mark = str(root / "log"), str(root / "marks")
jobs = [FleetJob(name=f"j{x}", target="fleet_jobs:note_and_add", arguments={"x": x, "log": log, "nap": 0.15}) for x in range(8)]
context = Context(target="fleet_jobs:number", arguments={"start": 3, "mark": mark})
print(run_jobs(jobs, context, root / "out", workers=2, show=False))
"""


def driver(root: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(root)],
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def results(root: Path) -> set[str]:
    return (
        {path.stem for path in (root / "out").glob("j*.safetensors")}
        if (root / "out").is_dir()
        else set()
    )


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="looks for processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_goes_on_and_loses_what_was_in_flight(
    how: signal.Signals, tmp_path: Path
) -> None:
    (tmp_path / "marks").mkdir()
    process = driver(tmp_path)
    wait_for(lambda: len(results(tmp_path)) >= 3)
    process.send_signal(how)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode != 0
    assert how is signal.SIGKILL or stderr.rstrip().endswith("KeyboardInterrupt")
    workers = [int(path.name.partition("-")[0]) for path in (tmp_path / "marks").iterdir()]
    assert 1 <= len(workers) <= 2  # on a busy machine the second may not have begun
    wait_for(lambda: not any(alive(pid) for pid in workers))  # orphans would go on computing
    finished = results(tmp_path)
    assert 3 <= len(finished) < 8
    started = Counter((tmp_path / "log").read_text().split())

    again = driver(tmp_path)
    stdout, stderr = again.communicate(timeout=30)
    assert again.returncode == 0, stderr
    assert f"done={8 - len(finished)}, skipped={len(finished)}, failed={{}}" in stdout
    ran = Counter((tmp_path / "log").read_text().split()) - started
    assert ran == Counter(str(x) for x in range(8) if f"j{x}" not in finished)
    assert all(read_result(tmp_path / "out", f"j{x}").facts["x"] == x for x in range(8))
    assert len(started) - len(finished) <= 2  # no more was lost than was in flight


@pytest.fixture(scope="module")
def ray(jobs_on_path: None) -> Iterator[Any]:
    library = pytest.importorskip("ray", reason="needs the extra [cluster]")
    library.init(
        address="local",
        num_cpus=1,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    yield library
    library.shutdown()


@pytest.mark.long
def test_all_that_can_become_of_a_job(ray: Any, tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    wrong = [misbehaving(how, mark=mark) for how in ("refuse", "raise", "die", "die once")]
    out = tmp_path / "out"
    summary = run([*adds(3), *wrong], out, backend="ray", workers=1)
    assert summary.done == 5
    for x in range(3):
        values = read_result(out, f"add-{x}").tensors["values"]
        assert np.array_equal(values, np.full((2, 3), 3 + x, np.float32))
    refused = read_result(out, "refuse").refused
    assert refused["kind"] == "BudgetExceeded"
    assert summary.failed.keys() == {"raise", "die"}
    assert "ValueError: the job is broken" in summary.failed["raise"]
    assert summary.failed["die"].startswith("its worker died 2 times")
    assert read_result(out, "die-once").facts == {"how": "die once"}
    assert ray.is_initialized(), "a Ray of the caller's is left running"


@pytest.mark.long
def test_a_context_that_refuses_stops_the_run(ray: Any, tmp_path: Path) -> None:
    context = Context(target="fleet_jobs:bad_context", arguments={"kind": "typed"})
    with pytest.raises(DataError, match="data: none"):
        run(adds(1), tmp_path, context, backend="ray")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("cluster", "error", "words"),
    [
        ("nowhere:1", ConnectionError("no route"), r"nowhere:1: it cannot be reached \(no route\)"),
        (None, RuntimeError("not here"), "Ray cluster on this machine"),
    ],
)
def test_where_ray_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    cluster: str | None,
    error: Exception,
    words: str,
) -> None:
    calls: list[dict[str, Any]] = []

    def init(**settings: Any) -> None:
        calls.append(settings)
        raise error

    monkeypatch.setitem(
        sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False, init=init)
    )
    with pytest.raises(InputError, match=words):
        run(adds(1), tmp_path, None, backend="ray", cluster=cluster, workers=3)
    (settings,) = calls
    assert settings["address"] == (cluster or "local")
    if cluster is None:
        assert settings["num_cpus"] == 3 and settings["include_dashboard"] is False
