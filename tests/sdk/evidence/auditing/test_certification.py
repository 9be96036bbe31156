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
from click.testing import CliRunner
from tests.once import once

from unplug.core import DataError, GateFailed, InputError, write_json
from unplug.sdk import unlearn
from unplug.sdk.cli import main
from unplug.sdk.evidence.auditing import Certification, CertifyConfig, certify, read_certification
from unplug.sdk.evidence.auditing.surrogates import surrogates
from unplug.sdk.evidence.fleet import train_references
from unplug.sdk.forgetting.unlearning import needs_answers
from unplug.sdk.releasing import release
from unplug.trust.bundle import CERTIFIED, RANKED, Gate
from unplug.trust.bundle.binding import certification_problems, gate_problems

from ...conftest import CPU, QUICK, World

OPTIONS = {"batch_size": "8"}
CONFIG = CertifyConfig(options=OPTIONS, budget=0.6, requests=10)


@pytest.fixture(scope="module")
def place(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """References, and a certification of `folds` by them, which ten requests in a small world leave
    open.
    """

    def make(root: Path) -> None:
        options: dict[str, Any] = {
            "models": 10,
            "folds": 2,
            "device": CPU,
            "backend": "loop",
            "show": False,
        }
        train_references(world.original, world.dataset, root / "references", **options)
        certify(
            world.original,
            world.dataset,
            root / "references",
            CONFIG,
            root / "one",
            device=CPU,
            backend="loop",
            show=False,
        )

    return once(tmp_path_factory, "certification", make)


def read(world: World, place: Path) -> Certification:
    found = json.loads((place / "one" / "certification.json").read_text())
    return read_certification(
        place / "one",
        world.original,
        world.dataset,
        "folds",
        OPTIONS,
        0.6,
        found["references_sha256"],
        1,
    )


def test_what_is_certified(world: World, place: Path) -> None:
    found = read(world, place)
    assert (found.method, found.people, found.requests, found.rounds) == ("folds", 1, 10, 5)
    assert set(found.leaks) == {"confidence", "error", "task loss"}
    assert 0 < found.compute <= 0.6 and 0.0 <= found.exact_passes <= 1.0
    assert found.verdict == "inconclusive" and found.why
    assert not any(
        name in (place / "one" / "certification.json").read_text() for name in world.dataset.ids
    )


def test_it_goes_on_where_it_was_killed(
    world: World, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unplug.sdk.evidence.auditing import certification as module

    shutil.copytree(place / "one", tmp_path / "one")
    (tmp_path / "one" / "request-0003.safetensors").unlink()
    ran: list[list[int]] = []
    job = module.request_job
    monkeypatch.setattr(
        module, "request_job", lambda *a, **named: ran.append(named["people"]) or job(*a, **named)
    )
    again = certify(
        world.original,
        world.dataset,
        place / "references",
        CONFIG,
        tmp_path / "one",
        device=CPU,
        backend="loop",
        show=False,
    )
    assert len(ran) == 1
    assert {name: leak.auc for name, leak in again.leaks.items()} == {
        n: leak.auc for n, leak in read(world, place).leaks.items()
    }


def test_one_of_something_else_is_refused(world: World, place: Path, tmp_path: Path) -> None:
    found = asdict(read(world, place))
    given: dict[str, Any] = {
        "method": "folds",
        "options": OPTIONS,
        "budget": 0.6,
        "references": found["references_sha256"],
        "people": 1,
    }
    for changes, said in (
        ({"method": "msg", "options": {}}, "another method"),
        ({"options": {}}, "another settings"),
        ({"budget": 0.05}, "another budget"),
        ({"people": 2}, r"another number of people.*\(1, not 2\)"),
        ({"references": None}, "give them as `fleet`"),
    ):
        asked = given | changes
        with pytest.raises(InputError, match=said):
            read_certification(
                place / "one",
                world.original,
                world.dataset,
                asked["method"],
                asked["options"],
                asked["budget"],
                asked["references"],
                asked["people"],
            )
    write_json(tmp_path / "certification.json", found | {"original_sha256": "0" * 64})
    with pytest.raises(InputError, match="another original"):
        read_certification(
            tmp_path,
            world.original,
            world.dataset,
            "folds",
            OPTIONS,
            0.6,
            found["references_sha256"],
            1,
        )


def test_a_bundle_that_rests_on_one_carries_it(tmp_path: Path) -> None:
    lineage = SimpleNamespace(original_sha256="1" * 64, data_digest="2" * 64, method="folds")
    found = {
        "original_sha256": "1" * 64,
        "data_digest": "2" * 64,
        "method": "folds",
        "verdict": "certified",
    }
    path = tmp_path / "reports" / "certification.json"
    path.parent.mkdir()
    manifest: Any = SimpleNamespace(lineage=lineage)
    write_json(path, found)
    assert not list(certification_problems(tmp_path, manifest))
    for name, value in (
        ("original_sha256", "3" * 64),
        ("data_digest", ""),
        ("method", "msg"),
        ("verdict", "inconclusive"),
    ):
        write_json(path, found | {name: value})
        assert list(certification_problems(tmp_path, manifest)), name


def test_what_a_certified_bundle_is_judged_by() -> None:
    names = (
        CERTIFIED,
        RANKED,
        "utility",
        "utility (retain)",
        "budget",
        "parity",
        "audit on artifacts",
        "bench",
    )
    gates = [
        Gate(name=name, value=0.0, limit=0.0, comparison="<=", passed=True, unit="", detail="")
        for name in names
    ]
    assert not list(gate_problems(gates, signed=False))
    for gate in gates:
        left = [item for item in gates if item is not gate]
        assert list(gate_problems(left, signed=False)), gate.name


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


def test_wrong_questions(world: World, place: Path, tmp_path: Path) -> None:
    def asked(**changes: Any) -> None:
        certify(
            world.original,
            world.dataset,
            place / "references",
            replace(CONFIG, **changes),
            tmp_path / "out",
            device=CPU,
            backend="loop",
            show=False,
        )

    with pytest.raises(InputError, match="it is exact"):
        asked(method="retrain")
    with pytest.raises(InputError, match="9 requests"):
        asked(requests=9)
    assert not list((tmp_path / "out").glob("request*"))
    assert needs_answers("folds") and not needs_answers("msg") and not needs_answers(None)
    words = [
        "forget",
        str(world.original.path),
        "--data",
        world.spec,
        "--forget",
        "f",
        "--fleet",
        "x",
        "--out",
        str(tmp_path / "o"),
    ]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2 and "reads no out-of-fold answers" in done.stderr


def test_its_page(place: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main, ["report", str(place / "one" / "certification.json"), "-o", str(tmp_path / "r.html")]
    )
    assert done.exit_code == 0, done.stderr
    text = (tmp_path / "r.html").read_text()
    assert "The method, at one person a request" in text and "Inconclusive" in text


@pytest.mark.long
def test_a_release_rests_on_it_and_trains_no_oracle(
    world: World, place: Path, tmp_path: Path
) -> None:
    whose = {sample.id: sample.subject for sample in world.dataset.samples}
    (tmp_path / "one.txt").write_text(f"subject:{whose[world.forget_ids[0]]}\n")
    ids = tuple(name for name, who in whose.items() if who == whose[world.forget_ids[0]])
    config = replace(
        QUICK,
        method="folds",
        options=OPTIONS,
        budget=0.6,
        fleet=place / "references",
        certification=place / "one",
        targets=("onnx",),
    )
    with pytest.raises(GateFailed, match="certified"):
        release(
            world.original,
            world.dataset,
            ids,
            tmp_path / "age.unplug",
            tmp_path / "work",
            config,
            device=CPU,
            say=lambda _: None,
            show=False,
        )
    assert not (tmp_path / "work" / "retrained").exists()
    gates = {
        gate["name"]: gate
        for gate in json.loads((tmp_path / "work" / "release.json").read_text())["gates"]
    }
    assert gates["certified (method)"]["inconclusive"] and "this request (people)" in gates
    assert "forgotten (loss)" not in gates and "the original's" in gates["utility"]["detail"]
    audit = json.loads((tmp_path / "work" / "audit.json").read_text())
    # of five rounds one was what she is fitted to
    assert audit["settings"]["fleet"]["never_saw"] == 4
    roles = {model["role"]: model for model in audit["models"]}
    assert roles["retrained"]["name"] == "never saw them" and not roles["retrained"]["people"]
    assert roles["unlearned"]["people"]


def test_python_forgets_by_the_references_too(world: World, place: Path, tmp_path: Path) -> None:
    """`unplug.sdk.unlearn` gives a method the answers of a fleet, as the command does."""
    asked: dict[str, Any] = {
        "method": "folds",
        "options": OPTIONS,
        "budget": 0.6,
        "out": tmp_path / "out",
    }
    with pytest.raises(InputError, match=r"Give the folder .* as `fleet`"):
        unlearn(world.original, world.dataset, world.forget_ids, **asked)
    made = unlearn(
        world.original, world.dataset, world.forget_ids, fleet=place / "references", **asked
    )
    assert made.record["forget"]["method"] == "folds"
    with pytest.raises(InputError, match=r"`fleet=.*`: the method reads no out-of-fold answers"):
        unlearn(
            world.original,
            world.dataset,
            world.forget_ids,
            out=tmp_path / "b",
            fleet=place / "references",
        )
