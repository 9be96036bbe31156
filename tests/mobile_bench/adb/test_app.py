"""The demo app's benchmark over a real adbd: `am` starts a stand-in that runs the files, and its
report is checked.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unplug.core import DeviceError, ReportError
from unplug.export import Artifact
from unplug.mobile_bench import Plan, bench_artifacts

from .conftest import Phone

PLAN = Plan(threads=1, warmup=1, iterations=4, repeats=2)
STAND_IN = Path(__file__).parents[1] / "app_stand_in.txt"


@pytest.fixture
def app(phone: Phone, monkeypatch: pytest.MonkeyPatch) -> Phone:
    folder = phone.data / "unplug-bench"
    monkeypatch.setenv("UNPLUG_APP_FOLDER", str(phone.data))
    monkeypatch.setattr("unplug.mobile_bench.apps.driven_app.POLL_S", 0.2)
    phone.shim(
        "am",
        f"""\
echo "$*" >> $STATE/am
[ "$1" = force-stop ] && exit 0
[ -f $STATE/no-app ] && {{ echo "Error type 3"; echo "Error: Activity class {{x}} does not exist."; exit 0; }}
setsid {sys.executable} {STAND_IN} {folder} </dev/null >$STATE/app.log 2>&1 &
echo $! > $STATE/app-pid
echo "Status: ok"
""",
    )
    phone.shim("pidof", "kill -0 $(cat $STATE/app-pid)")
    return phone


@pytest.mark.long
def test_a_row_from_the_app(app: Phone, litert: Artifact, onnx: Artifact, checkpoint: Path) -> None:
    place = f"android-app:{app.serial}"
    row, other = bench_artifacts([litert, onnx], on=place, plan=PLAN, checkpoint=checkpoint).rows
    log = (app.state / "app.log").read_text()
    assert (row.status, row.valid, row.device) == ("ok", True, "Stand-in 1"), (row.reasons, log)
    assert row.runtime == "litert-app" and row.median_ci95_ms is not None
    assert [len(repeat.latencies_ms) for repeat in row.repeats] == [4, 4]
    assert (other.status, other.runtime, other.delegate_asked) == ("ok", "onnx-app", "cpu")
    commands = [line.split()[0] for line in (app.state / "am").read_text().splitlines()]
    assert commands == ["force-stop", "start", "force-stop"]
    assert app.inside(f"ls {app.data}") == "", "nothing is left on the phone"


@pytest.mark.parametrize(
    ("state", "kind", "words"),
    [
        *(
            pytest.param({"faults": fault}, kind, words, marks=pytest.mark.long)
            for fault, kind, words in [
                ("lie", ReportError, "a cold start of 1 timed runs, and 4 were asked for"),
                ("version", ReportError, "its schema is 'unplug-bench/9', and this is 'unplug-"),
                ("die", DeviceError, "the app ended without a report"),
                ("fail", DeviceError, r"the app stopped \(Storage is full"),
            ]
        ),
        (
            {"no-app": ""},
            DeviceError,
            r"the benchmark does not start \(Activity class .* does not exist",
        ),
    ],
)
def test_what_an_app_may_do_wrong(
    app: Phone, litert: Artifact, state: dict[str, str], kind: type[Exception], words: str
) -> None:
    app.set(**state)
    with pytest.raises(kind, match=words):
        bench_artifacts([litert], on=f"android-app:{app.serial}", plan=PLAN)
    assert app.inside(f"ls {app.data}") == ""
