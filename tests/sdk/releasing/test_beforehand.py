"""What counts alone refuse, before anything is trained, exported or attacked; docs/audit.md has
the table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from unplug.core import UnplugError
from unplug.sdk.evidence.assurance import Limits, ask, decide
from unplug.sdk.evidence.auditing import audit_run
from unplug.sdk.releasing import Answering, Gates, Release, plan_release
from unplug.sdk.releasing.gates_forgetting import METHOD, Unrecognised, least_width
from unplug.sdk.releasing.stages import BEFORE
from unplug.sdk.releasing.timings import Timed, recall, remember
from unplug.trust.bundle import Publication, Signing, load_signer, make_key
from unplug.trust.ledger import LedgerSigner, open_ledger

from ..conftest import OPEN, QUICK, World
from .conftest import material_of, releasing

PAGE = Path(__file__).parents[3] / "docs" / "audit.md"
HEAD = "| refused | when |"
WORK = (
    "releasing.stages_models.forget",
    "releasing.stages_files.export_checkpoint",
    "releasing.stages_files.measure_parity",
    "releasing.stages_files.bench_artifacts",
    "releasing.stages_audit.audit",
    "releasing.stages_audit.audit_use",
)
ORDINARY = {"oracle": None}


@pytest.fixture(autouse=True)
def nothing_is_computed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def computed(*_: Any, **__: Any) -> None:
        raise AssertionError("it was refused too late")

    for name in WORK:
        monkeypatch.setattr(f"unplug.sdk.{name}", computed)
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path / "cache"))


def people(world: World, count: int, part: str = "train") -> tuple[str, ...]:
    """All pictures of so many people of a set."""
    asked = {*getattr(world.split, part)}
    owners = dict.fromkeys(item.person for item in world.dataset.samples if item.id in asked)
    wanted = [*owners][:count]
    return tuple(item.id for item in world.dataset.samples if item.person in wanted)


def forgetting(world: World, ids: tuple[str, ...], folder: Path, **config: Any) -> Release:
    asked = replace(world, forget_ids=ids)
    return releasing(asked, folder, replace(QUICK, **{"gates": Gates(), **config}), **ORDINARY)


def one_person(world: World, folder: Path) -> Release:
    return forgetting(world, people(world, 1), folder)


def twelve(world: World, folder: Path) -> Release:
    return forgetting(world, people(world, 12), folder)


def few_unseen(world: World, folder: Path) -> Release:
    gates = replace(OPEN, worst_person=True)
    return forgetting(world, people(world, 12), folder, gates=gates)


def decision(world: World, folder: Path) -> Release:
    answers = ask([world.original.path], world.spec, show=False)
    found = decide(answers, Limits(age=40.0, max_fpr=0.5, max_fnr=0.6))[0]
    (folder / "decision.json").write_text(json.dumps(asdict(found)))
    asked = {"gates": OPEN, "decision": folder / "decision.json"}
    return forgetting(world, people(world, 12), folder, **asked)


def needs(world: World, folder: Path) -> Release:
    return forgetting(world, people(world, 12), folder, gates=OPEN, method="folds")


def budget(world: World, folder: Path) -> Release:
    return forgetting(world, people(world, 12), folder, gates=OPEN, budget=0.01)


def other_oracle(world: World, folder: Path) -> Release:
    asked = replace(world, forget_ids=people(world, 12))
    return releasing(asked, folder, QUICK, oracle=world.oracle)


def targets(world: World, folder: Path) -> Release:
    return forgetting(world, people(world, 12), folder, gates=OPEN, targets=("tflite",))


def no_runtime(world: World, folder: Path) -> Release:
    return forgetting(world, people(world, 12), folder, gates=OPEN, targets=("coreml",))


def override(world: World, folder: Path) -> Release:
    asked = {"gates": OPEN, "overrides": {"forgotten": "it is late"}}
    return forgetting(world, people(world, 12), folder, **asked)


def held_out(world: World, folder: Path) -> Release:
    return forgetting(world, people(world, 1, "test"), folder, gates=OPEN)


def closed(world: World, folder: Path) -> Release:
    signer = LedgerSigner(name="tests.example", seed=bytes(range(32)))
    ledger = open_ledger(str(folder / "ledger.db"), signer=lambda: signer)
    ledger.create()
    ledger.add([*world.forget_ids[:1]], id="T-1")
    ledger.withdraw("T-1")
    make_key(folder / "key")
    signing = Signing(
        signer=load_signer(str(folder / "key")), publication=Publication(name="age", release=1)
    )
    answering = Answering(ledger=ledger, requests=("T-1",))
    return releasing(world, folder, QUICK, signing=signing, answering=answering)


@dataclass(frozen=True)
class Row:
    """A row of the table, what asks for it, and what is said."""

    what: str
    ask: Callable[[World, Path], Release]
    said: str


ROWS = (
    Row("fewer than 5 people", one_person, "of 1 person: no attack can decide that .* `method=ret"),
    Row(
        "an interval that must be wider than the margin", twelve, r"its interval is \+-0\.\d\d AUC"
    ),
    Row(
        "fewer than 20 people that no model saw", few_unseen, "nobody can be the worst person amon"
    ),
    Row("a decision with too few minors or adults for its margin", decision, "183 are needed"),
    Row("a method", needs, "it needs out-of-fold answers"),
    Row("a budget", budget, "the budget does not cover one step"),
    Row("a retrained model", other_oracle, "not retrained on this request's"),
    Row("a target or precision", targets, "no such name. Did you mean litert"),
    Row("a target or precision", no_runtime, "none can be timed on this mach"),
    Row("an override", override, "no release is judged by such a"),
    Row("a request", held_out, "3 of 3 samples were not trained on"),
    Row("a request", closed, "it is withdrawn"),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_it_is_refused_before_the_work(row: Row, world: World, tmp_path: Path) -> None:
    with pytest.raises(UnplugError, match=f"(?s){row.said}"):
        row.ask(world, tmp_path)
    assert not (tmp_path / "work" / "retrained").exists()
    assert not (tmp_path / "work" / ".stages.json").exists()


def test_the_page_has_the_table() -> None:
    lines = iter(PAGE.read_text(encoding="utf-8").splitlines())
    assert HEAD in lines
    next(lines)
    rows = [line.split("|")[1].strip() for line in _until_blank(lines)]
    assert rows == list(dict.fromkeys(row.what for row in ROWS))


def _until_blank(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if not line.strip():
            return
        yield line


def test_the_way_out_says_how_long_it_takes_here(world: World, tmp_path: Path) -> None:
    asked = replace(world, forget_ids=people(world, 1))
    material = material_of(asked, tmp_path / "work", replace(QUICK, gates=Gates()))
    stage = plan_release(material).steps[0]
    assert stage.what == "retrain without them" and stage.source.startswith(
        "the original's training"
    )
    kind = _kind_of_oracle(material)
    remember(kind, Timed(seconds=140.0, samples=2 * len(world.dataset)))
    again = plan_release(material).steps[0]
    assert (again.seconds, again.source) == (70.0, BEFORE)
    with pytest.raises(UnplugError, match=r"about 1 min 10 s here"):
        one_person(world, tmp_path)


def _kind_of_oracle(material: Any) -> dict[str, Any]:
    from unplug.sdk.releasing.stages import STAGES

    return STAGES[0].kind(material)


def test_whoever_overrides_the_gate_knows(world: World, tmp_path: Path) -> None:
    overrides = dict.fromkeys(("forgotten (loss)", "worst person"), "they agreed to be waited for")
    with pytest.raises(AssertionError, match="too late"):
        forgetting(world, people(world, 1), tmp_path, overrides=overrides)


def test_a_certification_that_certifies_nothing_refuses_at_once() -> None:
    leak = SimpleNamespace(auc=SimpleNamespace(low=-0.2, high=0.3))
    certified = SimpleNamespace(
        leaks={"loss": leak},
        requests=10,
        people=1,
        method="msg",
        why="it leaves much",
        exact_passes=0.9,
        verdict="refused",
    )
    counts: Any = SimpleNamespace(exact=False, certified=certified)
    (seen,) = Unrecognised().foresee(counts)
    assert seen.asked is METHOD and "0.3 AUC" in seen.why
    counts.exact = True
    assert not [*Unrecognised().foresee(counts)]


def test_widths_by_hand() -> None:
    # 2.2 * t(4)/z * sqrt(5/4) * sqrt(.2 / 6 * (1/5 + 1/5)); t(4) = 2.776, z = 1.960
    assert least_width(5, 5) == pytest.approx(2.2 * 2.776 / 1.960 * 1.118 * 0.11547, rel=1e-3)
    assert least_width(50, 160) < 0.1 < least_width(12, 160)


def test_no_attack_is_not_all_attacks() -> None:
    assert audit_run.usable((), 0, None) == ({}, {})


def test_a_cache_that_cannot_be_written_stops_no_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache/stage-seconds.json").mkdir(parents=True)  # in the place of the file
    remember({"stage": "export"}, Timed(seconds=1.0, samples=2))
    assert recall({"stage": "export"}) is None
