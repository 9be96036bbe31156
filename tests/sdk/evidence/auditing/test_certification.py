"""Certification of a method on surrogate requests, from the command line, and the release that
rests on it.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.once import once
from tests.sdk.cli.calls import fail
from tests.sdk.evidence.commands import call

from unplug.core import DataError, GateFailed, InputError, write_json
from unplug.sdk import unlearn
from unplug.sdk.evidence.auditing import Certification, CertifyConfig, certify, read_certification
from unplug.sdk.evidence.auditing import certification as module
from unplug.sdk.evidence.auditing.surrogates import surrogates
from unplug.sdk.forgetting.unlearning import needs_answers
from unplug.sdk.releasing import release
from unplug.trust.bundle import CERTIFIED, RANKED, Gate
from unplug.trust.bundle.binding import certification_problems, gate_problems

from ...conftest import CPU, QUICK, World
from ..small_fleet import HERE, small_references

OPTIONS = {"batch_size": "8"}
CONFIG = CertifyConfig(options=OPTIONS, budget=0.6, requests=10)


@pytest.fixture(scope="module")
def fleet(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_references(world, tmp_path_factory)


@pytest.fixture(scope="module")
def place(world: World, fleet: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certification of `folds`, which ten requests in a small world leave open."""

    def make(root: Path) -> None:
        certify(world.original, world.dataset, fleet, CONFIG, root / "one", **HERE)

    return once(tmp_path_factory, "certification", make) / "one"


def read(world: World, place: Path, **changes: Any) -> Certification:
    """The certification, for a request like those that it is of but for some changes."""
    stored = json.loads((place / "certification.json").read_text())
    given = {"method": "folds", "options": OPTIONS, "budget": 0.6, "people": 1}
    given["references_sha256"] = stored["references_sha256"]
    return read_certification(place, world.original, world.dataset, **given | changes)


def test_what_is_certified(world: World, place: Path) -> None:
    record = read(world, place)
    assert (record.method, record.people, record.requests, record.rounds) == ("folds", 1, 10, 5)
    assert set(record.leaks) == {"confidence", "error", "task loss"}
    assert 0 < record.compute <= 0.6 and 0.0 <= record.exact_passes <= 1.0
    assert record.verdict == "inconclusive" and record.why
    text = (place / "certification.json").read_text()
    assert not any(name in text for name in world.dataset.ids)


def test_it_goes_on_where_it_was_killed(
    world: World, fleet: Path, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(place, tmp_path / "one")
    (tmp_path / "one" / "request-0003.safetensors").unlink()
    ran: list[list[int]] = []
    job = module.request_job
    monkeypatch.setattr(
        module, "request_job", lambda *a, **named: ran.append(named["people"]) or job(*a, **named)
    )
    again = certify(world.original, world.dataset, fleet, CONFIG, tmp_path / "one", **HERE)
    assert len(ran) == 1
    assert again.leaks == read(world, place).leaks


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "msg", "options": {}}, "another method"),
        ({"options": {}}, "another settings"),
        ({"budget": 0.05}, "another budget"),
        ({"people": 2}, r"another number of people.*\(1, not 2\)"),
        ({"references_sha256": None}, "give them as `fleet`"),
    ],
)
def test_one_of_something_else_is_refused(
    world: World, place: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        read(world, place, **changes)


def test_one_of_another_original_is_refused(world: World, place: Path, tmp_path: Path) -> None:
    changed = asdict(read(world, place)) | {"original_sha256": "0" * 64}
    write_json(tmp_path / "certification.json", changed)
    with pytest.raises(InputError, match="another original"):
        read(world, tmp_path)


def test_a_bundle_that_rests_on_one_carries_it(tmp_path: Path) -> None:
    lineage = {"original_sha256": "1" * 64, "data_digest": "2" * 64, "method": "folds"}
    path = tmp_path / "reports" / "certification.json"
    path.parent.mkdir()
    manifest: Any = SimpleNamespace(lineage=SimpleNamespace(**lineage))
    record = lineage | {"verdict": "certified"}
    write_json(path, record)
    assert not list(certification_problems(tmp_path, manifest))
    for name in record:
        write_json(path, record | {name: "inconclusive"})
        assert list(certification_problems(tmp_path, manifest)), name


def test_what_a_certified_bundle_is_judged_by() -> None:
    names = [CERTIFIED, RANKED, "utility", "utility (retain)", "budget", "parity"]
    gates = [
        Gate(name=name, value=0.0, limit=0.0, comparison="<=", passed=True, unit="", detail="")
        for name in (*names, "audit on artifacts", "bench")
    ]
    assert not list(gate_problems(gates, signed=False))
    for gate in gates:
        rest = [other for other in gates if other is not gate]
        assert list(gate_problems(rest, signed=False)), gate.name


def people(count: int, ages: bool = True) -> Any:
    """A training set of two pictures of each of some people, whose age is their number."""
    who = np.repeat(np.arange(count), 2)
    named = {"ids": tuple(f"{number}" for number in range(2 * count)), "subject_N": who}
    return SimpleNamespace(
        **named, **({"age_N": torch.tensor(who, dtype=torch.float32)} if ages else {})
    )


def test_surrogates_are_nobody_twice_and_of_about_the_same_age() -> None:
    drawn = surrogates(people(100), range(100), requests=20, count=5)
    assert drawn.shape == (20, 5) and len(np.unique(drawn)) == 100
    more = surrogates(people(12), range(12), requests=20, count=5)
    assert more.shape == (20, 5) and all(len(set(row)) == 5 for row in more.tolist())
    ends = ("0", "1", "198", "199")  # the youngest and the oldest
    alike = surrogates(people(100), range(100), requests=50, count=2, like=ends)
    assert set(alike[:, 0]) <= set(range(1, 31)) and set(alike[:, 1]) <= set(range(69, 99))
    with pytest.raises(DataError, match="left to draw requests"):
        surrogates(people(5), range(5), requests=200, count=3)


@pytest.mark.parametrize(
    ("changes", "words"), [({"method": "retrain"}, "it is exact"), ({"requests": 9}, "9 requests")]
)
def test_wrong_questions(
    world: World, fleet: Path, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    wrong = replace(CONFIG, **changes)
    with pytest.raises(InputError, match=words):
        certify(world.original, world.dataset, fleet, wrong, tmp_path / "out", **HERE)
    assert not list((tmp_path / "out").glob("request*"))


def test_a_method_that_reads_no_answers_is_given_none(world: World, tmp_path: Path) -> None:
    assert needs_answers("folds") and not needs_answers("msg") and not needs_answers(None)
    given = ["--data", world.spec, "--forget", "f", "--fleet", "x", "--out", tmp_path / "o"]
    assert "reads no out-of-fold answers" in fail("forget", world.original.path, *given).line


def test_its_page(place: Path, tmp_path: Path) -> None:
    call("report", place / "certification.json", "-o", tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "The method, at one person a request" in text and "Inconclusive" in text


@pytest.mark.long
def test_a_release_rests_on_it_and_trains_no_oracle(
    world: World, fleet: Path, place: Path, tmp_path: Path
) -> None:
    whose = {sample.id: sample.subject for sample in world.dataset.samples}
    ids = tuple(name for name, who in whose.items() if who == whose[world.forget_ids[0]])
    config = replace(
        QUICK,
        method="folds",
        options=OPTIONS,
        budget=0.6,
        fleet=fleet,
        certification=place,
        targets=("onnx",),
    )
    bundle, work = tmp_path / "age.unplug", tmp_path / "work"
    quiet: Any = {"device": CPU, "say": lambda _: None, "show": False, "foresee": False}
    with pytest.raises(GateFailed, match="certified"):
        release(world.original, world.dataset, ids, bundle, work, config, **quiet)
    assert not (work / "retrained").exists()
    summary = json.loads((work / "release.json").read_text())
    gates = {gate["name"]: gate for gate in summary["gates"]}
    assert gates["certified (method)"]["inconclusive"] and "this request (people)" in gates
    assert "forgotten (loss)" not in gates and "the original's" in gates["utility"]["detail"]
    audit = json.loads((work / "audit.json").read_text())
    # of five rounds one was what she is fitted to
    assert audit["settings"]["fleet"]["never_saw"] == 4
    roles = {model["role"]: model for model in audit["models"]}
    assert roles["retrained"]["name"] == "never saw them" and not roles["retrained"]["people"]
    assert roles["unlearned"]["people"]


def test_python_forgets_by_the_references_too(world: World, fleet: Path, tmp_path: Path) -> None:
    """`unplug.sdk.unlearn` gives a method the answers of a fleet, as the command does."""
    who = world.original, world.dataset, world.forget_ids
    asked: Any = {"method": "folds", "options": OPTIONS, "budget": 0.6, "out": tmp_path / "out"}
    with pytest.raises(InputError, match=r"Give the folder .* as `fleet`"):
        unlearn(*who, **asked)
    made = unlearn(*who, fleet=fleet, **asked)
    assert made.record["forget"]["method"] == "folds"
    with pytest.raises(InputError, match=r"`fleet=.*`: the method reads no out-of-fold answers"):
        unlearn(*who, out=tmp_path / "b", fleet=fleet)
