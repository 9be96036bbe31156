"""`unplug answer`: three people one after the other, a gate that refuses, runs that are killed, and
who may not come back.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from unplug.core import GateFailed, OutputError, StillHeld, hold, read_json
from unplug.sdk import Project, journey, load_dataset, verify_bundle
from unplug.sdk.project import ProjectState
from unplug.trust.bundle import read_trust
from unplug.trust.certificates import check_certificate

from ..cli.calls import fail, refused, run, said
from .conftest import INIT, Company, kinds, remembering


@pytest.mark.long
def test_three_people_one_after_the_other(project: Project) -> None:
    plan = said("answer --dry-run")
    assert (plan["requests"], plan["release"], plan["begins"]) == (["T-1"], 1, "the original")
    assert (plan["pictures"], plan["design"]) == (2, "closed-form")
    told = said("answer --yes")
    assert told["release"] == 1 and list(told["folders"]) == ["T-1"]
    first = verify_bundle(Path(told["bundle"]), read_trust(project.folder / "keys/release.key.pub"))
    assert first.publication is not None and first.publication.requests == ("T-1",)
    assert {gate.name: gate.value for gate in first.gates}["equality"] == 0.0
    folder = Path(told["folders"]["T-1"])
    (key,) = read_trust(project.folder / "keys/release.key.pub").keys
    checked = check_certificate(
        folder / "certificate/certificate.intoto.jsonl", key, Path(told["bundle"]), request="T-1"
    )
    assert checked.problems == ()
    assert {line.place: line.outcome for line in checked.certificate.places}["backups"] == "kept"
    assert "release 1 of face-age" in (folder / "letter/answer.md").read_text()

    project.request("person-2", id="T-2")
    project.request("person-14", id="T-3")
    assert project.plan().begins == "release 1, which forgot T-1"
    done = project.answer()
    assert done.requests == ("T-2", "T-3") and done.bundle is not None
    second = verify_bundle(done.bundle, read_trust(project.folder / "keys/release.key.pub"))
    assert second.lineage.original_sha256 == first.lineage.checkpoint_sha256
    assert second.publication is not None and second.publication.release == 2
    assert len(second.publication.supersedes) == 1
    assert [path.name for path in done.deleted] == [".face-age-1.unplug.release"]
    for person in ("person-0", "person-2", "person-14"):
        assert remembering(project, f"subject:{person}") == ["models/age"]
    # The weights of release 1 are gone; the record of release 2 tells whom they held.
    assert bundles(project, "person-0") == {}
    assert bundles(project, "person-2") == {"releases/face-age-1.unplug": "derived"}
    state = project.state()
    assert (state.release, state.answered) == (2, ("T-1", "T-2", "T-3"))
    assert state.current == second.lineage.checkpoint_sha256
    assert run("status").output.count("to tell  T-") == 3
    run("ledger verify")
    asked_again(project)
    unforgetting(project)


def asked_again(project: Project) -> None:
    """A person whom the current model has forgotten holds nobody else up."""
    made = project.request("person-2", id="T-5")
    assert made.way is not None and "release 2 does not hold them any more" in made.way
    assert "nothing to answer: T-5 stays open" in refused("answer --yes")
    bundle = project.folder / "releases/face-age-2.unplug/manifest.json"
    run(f"ledger record release T-5 --file {bundle}")
    run("ledger record answered T-5")
    assert project.state().release == 2


def bundles(project: Project, person: str) -> dict[str, str]:
    """What a search says of the project's bundles."""
    with project.surroundings():
        found = journey.trace(project.settings.model.data, f"subject:{person}", [project.folder])
    return {
        str(Path(place.path).relative_to(project.folder)): place.standing
        for place in found.places
        if place.kind == "bundle"
    }


def unforgetting(project: Project) -> None:
    """From the original nothing is released any more, by whichever door."""
    names = (f"person-{number}" for number in range(15, 45))
    other = next(name for name in names if project.find(name).trained)
    project.request(other, id="T-4")
    run("ledger queue --out forget.json")
    line = fail(
        *[
            "release",
            "models/age",
            "--forget",
            "forget.json",
            "--all-open",
            "--name",
            "face-age",
            "--out",
            "again",
        ],
        *("--supersedes", "releases/face-age-2.unplug"),
    ).line
    assert "request T-1: it was released" in line and ".face-age-2.unplug.release/unlearned" in line
    dataset = load_dataset(project.settings.model.data, 32, show=False)
    with project.surroundings(), pytest.raises(StillHeld, match="request T-1: it was released"):
        journey.release("models/age", dataset, [f"subject:{other}"], out="again")
    original = project.folder / "models/age"
    shutil.rmtree(project.folder / "releases/.face-age-2.unplug.release")
    assert "what release 2 ships" in refused("answer --yes"), "the original is no way out"
    assert original.is_dir() and not (project.folder / "again").exists()


@pytest.mark.long
def test_nothing_moves_where_a_gate_refuses(project: Project) -> None:
    file = project.folder / "unplug.toml"
    before, state = file.read_text(), project.state()
    file.write_text(f"{before}\n[release.gates]\nmax_host_latency_ms = 0\n")
    strict = Project.open()
    with pytest.raises(GateFailed, match="host latency"):
        strict.answer()
    after = strict.state()
    assert (after.current, after.release) == (state.current, None)
    assert "open     T-1" in run("status").output and "begun    release 1" in run("status").output
    assert not list((project.folder / "releases").glob("*.unplug"))
    file.write_text(before)
    assert Project.open().answer().release == 1
    assert kinds(project) == {"release": 1, "search": 1}


class Killed(BaseException):
    """What no handler of errors sees, as of a kill."""


KILLS = [
    "unplug.sdk.releasing.pipeline.write_bundle",
    "unplug.sdk.releasing.recording.Recording.end",
    "unplug.sdk.project.answering.verify_bundle",
    "unplug.sdk.project.answering._purge",
    "unplug.sdk.tracing.recorded._record",
    "unplug.sdk.project.answering.issue_certificate",
    "unplug.sdk.project.answering.draft_answer",
]
"""Steps in front of which a run is killed, each behind the one before."""


@pytest.mark.long
def test_a_run_that_is_killed_goes_on_and_nothing_is_doubled(project: Project) -> None:
    def die(*_: object, **__: object) -> None:
        raise Killed

    states: list[ProjectState] = []
    for point in KILLS:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(point, die)
            with pytest.raises(Killed):
                project.answer()
        states.append(project.state())
        run("ledger verify")
    assert [state.release for state in states] == [None, None, *[1] * 5]
    assert run("answer --dry-run").output.startswith("search, certificate and letter of T-1")
    assert project.answer().requests == ("T-1",)
    assert kinds(project) == {"release": 1, "search": 1}
    assert "nothing to answer" in refused("answer --yes")
    folder = next((project.folder / "releases/answers").iterdir())
    assert read_json(folder / "trace-1.json")["person"] == "subject:person-0"


def test_two_answers_at_once(company: Company) -> None:
    run(INIT)
    run(f"request add {company.trained} --id T-1")
    held, done = threading.Event(), threading.Event()

    def other() -> None:
        with hold(company.folder / ".unplug/answer"):
            held.set()
            done.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    held.wait(60)
    try:
        with pytest.raises(OutputError, match=r"process \d+ on .* writes it since"):
            Project.open().answer()
    finally:
        done.set()
        thread.join()
