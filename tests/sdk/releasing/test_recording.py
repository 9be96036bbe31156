"""A release on record: every step once in the ledger, whatever comes between; nothing is signed
that must not be.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from unplug.core import (
    GateFailed,
    InputError,
    ReportError,
    UnplugError,
    read_dataclass,
)
from unplug.export import ParityReport, load_artifact
from unplug.mobile_bench import BenchReport
from unplug.sdk.cli.release import planned
from unplug.sdk.evidence.auditing import AuditReport
from unplug.sdk.releasing import Answering, Gates, Release, plan_release, prepare
from unplug.sdk.releasing.evidence import ReleaseEvidence
from unplug.sdk.releasing.material import ReleaseMaterial
from unplug.sdk.releasing.recording import FILE, begin, only_release
from unplug.sdk.releasing.stage import Left, StageProgress
from unplug.trust.bundle import (
    Publication,
    Signing,
    Trust,
    bundle_id,
    load_signer,
    make_key,
    verify_bundle,
)
from unplug.trust.ledger import Ledger, LedgerSigner, check_ledger, open_ledger

from ..conftest import CPU, OPEN, QUICK, World
from .conftest import material_of, releasing

WORK_OF_FIXTURE = "work"
STORY = ["opened", "request", "request", "step", "step", "try", "release"]


class Killed(BaseException):
    """Ends a release as a kill does: nothing handles it."""


class Desk:
    """Somebody who releases on record: two requests, a ledger, a key; stages take what the
    fixture's release has left.
    """

    def __init__(
        self, world: World, released: Release, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.world, self.folder, self.out = world, folder, folder / "age.unplug"
        self.signer = LedgerSigner(name="tests.example", seed=bytes(range(32)))
        self.ledger: Ledger = open_ledger(
            str(folder / "ledger.db"), signer=lambda: self.signer, wait_seconds=0.2
        )
        self.ledger.create()
        names = world.forget_file.read_text().split()
        self.people = {"T-1": names[:1], "T-2": names[1:]}
        for id, wanted in self.people.items():
            self.ledger.add(wanted, id=id)
        make_key(folder / "key")
        self.key = load_signer(str(folder / "key"))
        self.publication = Publication(name="age", release=1)
        self.during: Callable[[], object] = lambda: None
        self.left = released.bundle.parent / WORK_OF_FIXTURE
        monkeypatch.setattr("unplug.sdk.releasing.pipeline.find_evidence", self._gather)
        monkeypatch.setattr(
            "unplug.sdk.releasing.pipeline.write_vectors",
            lambda _, folder: (folder / "a.bin").write_bytes(b"0"),
        )

    def _gather(self, material: ReleaseMaterial, progress: StageProgress) -> ReleaseEvidence:
        progress.stage("export", {}, lambda: Left(files=[]), lambda _: None)
        self.during()
        artifacts = [
            load_artifact(path) for path in sorted((self.left / "artifacts").glob("*.tflite"))
        ]
        results = {
            "original": material.original,
            "retrained": self.world.oracle,
            "unlearned": self.world.unlearned,
            "artifacts": artifacts,
            "parity": ParityReport.load(self.left / "parity.json"),
            "audit": read_dataclass(AuditReport, self.left / "audit.json", ReportError),
            "bench": BenchReport.load(self.left / "bench.json"),
        }
        return ReleaseEvidence(results=results)

    def release(self, *requests: str, gates: Gates = OPEN, **config: Any) -> Release:
        return releasing(
            self.world,
            self.folder,
            replace(QUICK, gates=gates, **config),
            signing=Signing(signer=self.key, publication=self.publication),
            answering=Answering(ledger=self.ledger, requests=requests),
        )

    @property
    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.ledger.entries()]

    def states(self) -> dict[str, str]:
        return {name: request.state for name, request in self.ledger.requests().items()}

    def verified(self) -> Any:
        """The manifest of the bundle; its head is one of the ledger, and that verifies."""
        assert check_ledger(self.ledger, self.ledger.identity()[1])[1] == ()
        manifest = verify_bundle(self.out, Trust(keys=(self.key.key,)))
        size, _, root = (manifest.lineage.ledger_head or "").partition(":")
        rows = self.ledger.rows()
        assert rows[int(size) - 1].checkpoint(self.ledger.identity(rows)[0]).root.hex() == root
        return manifest


@pytest.fixture
def desk(world: World, released: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(world, released, tmp_path, monkeypatch)


def test_one_release_answers_all_that_wait_and_each_step_is_on_record(desk: Desk) -> None:
    done = desk.release()
    manifest = desk.verified()
    assert done.requests == manifest.publication.requests == ("T-1", "T-2")
    assert desk.kinds == STORY and desk.states() == {"T-1": "released", "T-2": "released"}
    begun, _, tried, ended = desk.ledger.entries()[3:]
    assert begun.facts["samples_of_others"] == "0" and tried.facts["ships"] == "yes"
    assert ended.facts["bundle_sha256"] == bundle_id(desk.out)
    told = [str(entry) for entry in desk.ledger.entries()]
    assert not any(
        name.removeprefix("subject:") in line
        for names in desk.people.values()
        for name in names
        for line in told
    )
    assert desk.release().requests == done.requests and desk.kinds == STORY, (
        "the same command again adds nothing"
    )


def test_nothing_that_is_signed_holds_a_time(desk: Desk) -> None:
    desk.release()
    assert not (desk.out / "reports" / "bench.json").exists()
    assert '"seconds": {}' in (desk.out / "reports" / "release.json").read_text()
    cards = [load_artifact(path).card for path in (desk.out / "artifacts").glob("*.tflite")]
    assert cards and all(card.seconds == card.prepare_seconds == 0.0 for card in cards)
    assert not any(
        "wall" in gate.detail or " s of " in gate.detail for gate in desk.verified().gates
    )


PLACES = {
    "behind a stage": "",
    "after the judgement": "unplug.sdk.releasing.pipeline._bundle",
    "while it is signed": "unplug.trust.bundle.signing.envelope",
    "after it was published": "unplug.sdk.releasing.recording.bundle_id",
}


@pytest.mark.parametrize("place", PLACES)
def test_killed_anywhere_it_goes_on_and_tells_nothing_twice(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        desk.during = die if place == "behind a stage" else lambda: None
        if PLACES[place]:
            patched.setattr(PLACES[place], die)
        desk.release()
    assert "release" not in desk.kinds and desk.out.exists() is (place == "after it was published")
    desk.during = lambda: None
    before = bundle_id(desk.out) if desk.out.exists() else None
    # a power cut takes back that it was removed
    left = desk.folder / "work" / "test_vectors" / ".vectors.json.x1.unplug-tmp"
    left.mkdir(parents=True)
    desk.release()
    assert desk.kinds == STORY and before in (None, bundle_id(desk.out)) and not left.exists()
    desk.verified()


def test_a_bundle_that_was_lost_is_made_again_the_same(desk: Desk) -> None:
    desk.release()
    first = bundle_id(desk.out)
    desk.out.rename(desk.folder / "moved")
    desk.release()
    assert bundle_id(desk.out) == first and desk.kinds == STORY


# Requests


def test_a_withdrawn_request_is_refused_before_the_work_and_in_the_middle(desk: Desk) -> None:
    desk.during = lambda: desk.ledger.withdraw("T-2")
    with pytest.raises(InputError, match=r"request T-2: it is withdrawn \(entry 5\)"):
        desk.release()
    assert not desk.out.exists() and desk.kinds[-1] == "try"
    desk.during = lambda: pytest.fail("it began")
    with pytest.raises(InputError, match="request T-2: it is withdrawn"):
        desk.release("T-1", "T-2")
    desk.during = lambda: None
    assert desk.release("T-1").requests == ("T-1",)
    assert desk.states() == {"T-1": "released", "T-2": "withdrawn"}


def test_who_withdraws_behind_the_signature_is_not_told_as_released(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unplug.sdk.releasing import recording

    def withdrawn(out: Path) -> str:
        if desk.states()["T-2"] == "open":
            desk.ledger.withdraw("T-2")
            raise Killed
        return bundle_id(out)

    monkeypatch.setattr(recording, "bundle_id", withdrawn)
    with pytest.raises(Killed):
        desk.release()
    desk.release()
    assert desk.states() == {"T-1": "released", "T-2": "withdrawn"}
    assert [entry.requests for entry in desk.ledger.entries() if entry.kind == "release"] == [
        ("T-1",)
    ]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (("T-3",), "the ledger holds no such request"),
        (("T-9",), "1 of the 1 that it names are unknown to these data"),
        (("T-8",), "the forget file leaves out 1 of the 1 that it names"),
        (("T-7",), "1 of the 2 that it names are unknown to these data"),
        ((), "request T-8: the forget file leaves out 1 of the 1 that it names"),
    ],
)
def test_requests_that_cannot_be_answered(
    desk: Desk, world: World, wanted: tuple[str, ...], message: str
) -> None:
    stays = next(sample for sample in world.dataset.samples if sample.id not in world.forget_ids)
    desk.ledger.add(["subject:stranger"], id="T-9")
    desk.ledger.add([world.forget_ids[0], "subject:person-1O"], id="T-7")
    desk.ledger.add([stays.id], id="T-8")
    before = desk.kinds
    with pytest.raises(InputError, match=message):
        desk.release(*wanted)
    assert desk.kinds == before and not (desk.folder / "work" / FILE).exists()


def test_a_request_that_the_data_hold_in_part_stays_open_beside_those_that_are_whole(
    desk: Desk,
) -> None:
    desk.ledger.add([*desk.people["T-1"], "subject:person-1O"], id="T-3")
    assert desk.release().requests == ("T-1", "T-2")
    assert desk.states() == {"T-1": "released", "T-2": "released", "T-3": "open"}


def test_release_numbers_count_up_and_no_request_is_answered_twice(desk: Desk) -> None:
    assert desk.release("T-1", "T-1").requests == ("T-1",)
    with pytest.raises(InputError, match=r"release 1 of 'age' is on record \(entry 6\)"):
        desk.release("T-2")
    desk.publication = Publication(name="age", release=2)
    with pytest.raises(InputError, match="request T-1: it is released"):
        desk.release("T-1", "T-2")
    assert desk.release("T-2").requests == ("T-2",)


# Gates


def test_a_failed_gate_is_on_record_and_an_override_ships_it_with_its_reason(desk: Desk) -> None:
    strict = replace(OPEN, max_mae_above_retrained=-99.0)
    with pytest.raises(GateFailed):
        desk.release(gates=strict)
    tried = desk.ledger.entries()[-1]
    assert tried.kind == "try" and tried.facts["ships"] == "no"
    assert tried.facts["gate utility"].endswith(": fails")
    assert not desk.out.exists() and desk.states()["T-1"] == "open"

    reasons = {"utility": "the old model is as bad", "utility (retain)": "as above"}
    done = desk.release(gates=strict, overrides=reasons)
    gates = {gate.name: gate for gate in desk.verified().gates}
    assert {name: gate.override for name, gate in gates.items() if gate.override} == reasons
    assert not gates["utility"].passed and done.summary["passed"]
    tried = desk.ledger.entries()[-2]
    assert tried.facts["ships"] == "yes"
    assert "overridden: the old model is as bad" in tried.facts["gate utility"]
    assert done.summary["tries"][-1]["overridden"] == tuple(reasons)
    assert "it does not hold, and was overridden: as above" in (desk.out / "README.md").read_text()


@pytest.mark.parametrize(
    "reasons",
    [{"utility": " "}, {"utility": "a\nb"}, {"utility": "a" * 301}, {"beauty": "it is fine"}],
)
def test_overrides_that_say_nothing_ship_nothing(desk: Desk, reasons: dict[str, str]) -> None:
    with pytest.raises(InputError, match="`overrides`"):
        desk.release(overrides=reasons)
    assert not desk.out.exists()


# Ledger, keys, clock


def test_two_releases_of_one_model_at_once(desk: Desk, world: World) -> None:
    errors: list[UnplugError] = []

    def other() -> None:
        try:
            desk.release()
        except UnplugError as error:
            errors.append(error)

    with only_release(world.original):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(errors) == 1 and str(errors[0]).startswith(
        f"a release of the model {world.original.sha256[:16]}: process "
    )
    assert desk.kinds == STORY[:3]


def break_ledger(desk: Desk, how: str) -> None:
    opened = sqlite3.connect(desk.folder / "ledger.db", isolation_level=None)
    if how == "locked":
        desk.blocker = opened  # type: ignore[attr-defined]
        opened.execute("BEGIN IMMEDIATE")
    elif how == "newer":
        opened.execute("UPDATE alembic_version SET version_num = '9999'")
    elif how == "another key":
        desk.signer = LedgerSigner(name="tests.example", seed=bytes(32))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("locked", "did not end in time"),
        ("newer", "of version 9999"),
        ("another key", "signed with the key"),
        ("expired", "passed"),
    ],
)
def test_a_ledger_or_key_that_cannot_be_used_is_told_before_the_work(
    desk: Desk, how: str, message: str
) -> None:
    break_ledger(desk, how)
    if how == "expired":
        desk.publication = replace(desk.publication, expires="2020-01-01T00:00:00Z")
    desk.during = lambda: pytest.fail("it began")
    with pytest.raises(UnplugError, match=message) as caught:
        desk.release()
    assert caught.value.exit_code == 2 and "\n" not in str(caught.value)


def test_a_clock_that_was_set_back_is_noted_and_nothing_is_lost(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=3)
    monkeypatch.setattr("unplug.trust.ledger.clock.now", lambda: early)
    desk.release()
    assert desk.kinds == STORY and desk.ledger.entries()[-1].clock_back_seconds >= 3 * 3600 - 60
    desk.verified()


def test_a_look_leaves_nothing(
    desk: Desk, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path / "of nobody who released before"))
    stages = prepare(
        world.original,
        world.dataset,
        world.forget_ids,
        desk.out,
        desk.folder / "work",
        replace(QUICK, method="msg"),
        device=CPU,
        say=lambda _: None,
    )
    signing = Signing(signer=desk.key, publication=desk.publication)
    record = begin(Answering(ledger=desk.ledger), stages, desk.out, signing, write=False)
    plan = plan_release(stages, requests=record.answer.requests, signed=True)
    assert (
        record.answer.requests == ("T-1", "T-2")
        and desk.kinds == STORY[:3]
        and not (desk.folder / "work").exists()
    )
    names = [step.what for step in plan.steps]
    assert names[:3] == ["retrain without them", "train 1 reference model", "forget by msg"]
    assert names[-1] == "tell the ledger that it is published"
    share = len(stages.split.retain) / len(stages.split.train)
    took = world.original.record["cost"]["wall_s"] * share
    last = [step.seconds for step in plan.steps if step.source == "at most"]
    assert last == [1.0] * 5  # of signing and writing nobody says that it takes no time
    assert plan.seconds == pytest.approx(took * (1 + 1 + QUICK.budget) + 5)
    assert plan.unknown == ("export", "parity", "audit", "bench")


@pytest.mark.parametrize("cost", [None, {"wall_s": 0.0}])
def test_a_plan_of_a_network_that_was_adopted_knows_no_time(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cost: object
) -> None:
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path / "of nobody who released before"))
    original = replace(world.original, record=world.original.record | {"cost": cost})
    shown = planned(plan_release(replace(material_of(world, tmp_path), original=original)))
    assert "how long it takes: not timed here yet. Nothing was computed" in shown.text
    assert "0 ms" not in shown.text
    assert shown.value["seconds"] is None


def test_requests_are_answered_by_what_is_signed(desk: Desk, world: World) -> None:
    with pytest.raises(InputError, match="no key is given"):
        releasing(world, desk.folder, answering=Answering(ledger=desk.ledger))
