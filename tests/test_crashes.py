"""What is published survives a kill and a power cut at every change of its writer; and the walk
sees writers that err.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="processes are forked, and open files found in /proc"
)

# In a process of its own: it forks, and other tests have started threads by then.
WALK = """
import json, os, shutil, sqlite3, sys, tempfile
from pathlib import Path
from benchmarks.crash_walk import Scenario, walk_all
from unplug.core import atomic_dir, atomic_path, hold

def folder(word, publish):
    def write():
        with hold(Path("out")), publish(Path("out")) as made:
            for name in ("a", "config.json"):
                (made / name).write_text(word * 9)
    return write

def durable(path):
    return atomic_dir(path, owner="config.json", ours=("*",))

class in_place:
    def __init__(self, path):
        self.path = path
    def __enter__(self):
        self.path.mkdir(exist_ok=True)
        return self.path
    def __exit__(self, *error):
        pass

def read_folder(out):
    (word,) = {(out / name).read_text() for name in ("a", "config.json")}
    assert len(word) == 27, word
    return word

def file(word):
    def write():
        with hold(Path("out")), atomic_path(Path("out")) as half:
            half.write_text(word * 9)
    return write

def one_file(out):
    word = out.read_text()
    assert len(word) == 27, word
    return word

def row(word, synchronous):
    def write():
        opened = sqlite3.connect("out", isolation_level=None)
        opened.execute("PRAGMA journal_mode=WAL").fetchall()
        opened.execute(f"PRAGMA synchronous={synchronous}")
        opened.execute("CREATE TABLE IF NOT EXISTS words (word TEXT UNIQUE, more TEXT)")
        opened.execute("INSERT OR IGNORE INTO words VALUES (?, ?)", (word, word * 3000))
        opened.close()
    return write

def read_rows(out):
    with tempfile.TemporaryDirectory() as copies:  # whoever opens it puts it right
        for path in out.parent.glob("out*"):
            shutil.copy(path, copies)
        opened = sqlite3.connect(Path(copies) / "out")
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return " ".join(word for (word,) in opened.execute("SELECT word FROM words ORDER BY rowid"))

case, place, *minutes = sys.argv[1:]
if case == "no sync":
    from unplug.core import durable as syncs, results
    results.sync_file = results.sync_folder = results.sync_tree = lambda path: None
scenarios = {
    "folder": Scenario(name=case, before=(folder("old", durable),), command=folder("new", durable), identify=read_folder),
    "new folder": Scenario(name=case, before=(), command=folder("new", durable), identify=read_folder),
    "file": Scenario(name=case, before=(file("old"),), command=file("new"), identify=one_file),
    "in place": Scenario(name=case, before=(folder("old", in_place),), command=folder("new", in_place), identify=read_folder),
    "no sync": Scenario(name=case, before=(file("old"),), command=file("new"), identify=one_file),
    **{
        name: Scenario(
            name=case, before=(row("old", "FULL"),), command=row("new", synchronous), identify=read_rows, story=lambda root: ""
        )
        for name, synchronous in (("database", "FULL"), ("database without syncs", "OFF"))
    },
}
print(json.dumps(walk_all(scenarios[case], Path(place), minutes=float(*minutes or ["inf"]))))
"""


def walked(case: str, folder: Path, *minutes: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", WALK, case, str(folder / "walk"), *minutes],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "case",
    ["folder", *(pytest.param(case, marks=pytest.mark.nightly) for case in ("new folder", "file"))],
)
def test_nothing_is_lost_at_any_change(case: str, tmp_path: Path) -> None:
    found = walked(case, tmp_path)
    assert found["wrong"] == []
    kills, cuts = found["kills"], found["power_cuts"]
    assert kills["points"] == found["changes"] > 10 and kills["new"] > 0 and cuts["new"] >= 3
    before = "none" if case == "new folder" else "older"
    assert (
        kills[before] + kills["new"] == kills["points"]
        and cuts[before] + cuts["new"] == cuts["points"]
    )
    if case != "new folder":
        assert found["kinds"]["fsync"] >= 2
    if case == "folder":
        assert found["kinds"]["unplug.exchange"] == 1


@pytest.mark.nightly
def test_writing_in_place_is_seen_by_kills_and_not_syncing_by_power_cuts(tmp_path: Path) -> None:
    assert walked("in place", tmp_path / "a")["kills"]["wrong"] > 0
    found = walked("no sync", tmp_path / "b")
    assert found["kills"]["wrong"] == 0 and found["power_cuts"]["wrong"] > 0
    assert {item["loss"] for item in found["wrong"]} == {"bytes", "half of the bytes", "names"}


def test_what_a_database_does_to_files_is_seen_and_its_syncs_believed(tmp_path: Path) -> None:
    found = walked("database", tmp_path / "a")
    assert found["wrong"] == []
    assert found["kinds"].keys() >= {
        "sqlite.create",
        "sqlite.write",
        "sqlite.sync",
        "sqlite.delete",
    }
    assert (
        min(found[kind][word] for kind in ("kills", "power_cuts") for word in ("older", "new")) > 0
    )
    lost = walked("database without syncs", tmp_path / "b")
    assert lost["kills"]["wrong"] == 0 and lost["power_cuts"]["wrong"] > 0


@pytest.mark.nightly
def test_a_walk_that_was_stopped_says_what_is_left_and_goes_on(tmp_path: Path) -> None:
    begun = walked("file", tmp_path, "0")
    assert (
        begun["kills"]["points"] == begun["power_cuts"]["points"] == 0
        and begun["kills"]["left"] == begun["changes"]
    )
    assert next((tmp_path / "walk").glob("*.points")).read_text() == ""
    found = walked("file", tmp_path)
    assert found["wrong"] == [] and found["kills"]["points"] == found["changes"] == begun["changes"]
    assert found["power_cuts"]["points"] == begun["power_cuts"]["left"]
    again = walked("file", tmp_path, "0")
    assert again["kills"] == found["kills"] and again["power_cuts"] == found["power_cuts"]
