"""The release of a model that was made to forget: one person with one picture, held to equality
instead of attacks.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.graphs import SIDE, graph

from unplug.core import InputError, ReportError, read_dataclass, read_json
from unplug.plugins import load_checkpoint
from unplug.sdk import journey
from unplug.sdk.forgetting.unlearning import ClosedForm, Shards
from unplug.sdk.learning.data import load_dataset, make_split
from unplug.sdk.learning.training import PUBLIC, Recipe
from unplug.sdk.releasing import release
from unplug.sdk.releasing.evidence import ReleaseEvidence
from unplug.sdk.releasing.gates_forgetting import Equality
from unplug.sdk.report import write_report
from unplug.trust.bundle import verify_bundle
from unplug.trust.certificates import ABSENCE, Absences
from unplug.trust.ledger import is_absent

from ..conftest import CPU, QUICK

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    "design",
    [
        ClosedForm(random_features=32),
        pytest.param(Shards(shards=4, slices=2, hidden=8, epochs=20), marks=pytest.mark.nightly),
    ],
)
def test_one_picture_is_forgotten_and_ships_on_equality(
    design: ClosedForm | Shards, tmp_path: Path
) -> None:
    personal = load_dataset("synth:n=90,subjects=45,seed=1", 32, show=False)
    consented = load_dataset("synth:n=300,subjects=300,seed=2", 32, show=False)
    split = make_split(personal, seed=0)
    # after 6 its features hardly vary, and fp32 parity is near its floor
    recipe = Recipe(size="nano", image_size=32, epochs=15)
    original = design.train(
        personal, split, recipe, tmp_path / "age", trunk_data=consented, device=CPU, show=False
    )
    config = replace(QUICK, method=None, targets=("onnx",), rounding=False)
    lines: list[str] = []
    done = release(
        original,
        personal,
        split.train[:1],
        tmp_path / "age.unplug",
        tmp_path / "work",
        config,
        device=CPU,
        say=lines.append,
        show=False,
    )
    assert lines[0].startswith(f"forgetting by {design.name} costs ")
    gates = {gate["name"]: gate for gate in done.summary["gates"]}
    assert gates["equality"]["value"] == 0.0 and gates["equality"]["passed"]
    assert not any(name.startswith(("forgotten", "budget")) for name in gates)
    assert verify_bundle(done.bundle).lineage.method == design.name
    if isinstance(design, ClosedForm):
        again = journey.replay(
            done.bundle, tmp_path / "work" / "unlearned", device="cpu", show=False
        )
        assert again.differs == again.untold == () and "artifacts/age.fp32.onnx" in again.equal
        (proof,) = read_dataclass(Absences, tmp_path / "work" / ABSENCE, ReportError).requests[""]
        assert is_absent(proof, root=again.root, size=again.samples)
    assert read_json(tmp_path / "work" / "unlearned" / "unplug.json")["forget"]["samples"] == 1
    write_report(done.reports, tmp_path / "report.html", title="one picture")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert (
        design.name in page
        and "Forgotten exactly" in page
        and "Anyone who kept the old file can compare" in page
    )

    audit = read_json(done.bundle / "reports" / "audit.json")
    assert {model["role"]: (model["attacks"], *model["utility"]) for model in audit["models"]} == {
        role: ({}, "test") for role in ("original", "unlearned", "retrained")
    }
    assert "no attack" in page and "no attack was made" in (done.bundle / "README.md").read_text()

    unlearned = load_checkpoint(tmp_path / "work" / "unlearned")
    (gate,) = Equality().judge(
        ReleaseEvidence(results={"unlearned": unlearned, "retrained": original})
    )
    assert not gate.passed and gate.value is not None and gate.value > 0, (
        "whoever was not forgotten shows"
    )
    with pytest.raises(InputError, match="another method would end that"):
        release(
            original,
            personal,
            split.train[:1],
            tmp_path / "b.unplug",
            tmp_path / "w2",
            replace(config, method="msg"),
            device=CPU,
            say=lambda _: None,
            show=False,
        )
    assert not (tmp_path / "b.unplug").exists()

    lines.clear()
    full = release(
        original,
        personal,
        split.train[:1],
        tmp_path / "age.unplug",
        tmp_path / "work",
        replace(config, audit="full"),
        device=CPU,
        say=lines.append,
        show=False,
    )
    used = [line.partition(":")[0] for line in lines if line.endswith("used again")]
    forgot = f"forget by {design.name}"
    assert used == ["retrain without them", forgot, "export", "parity", "bench"]
    assert {gate["name"] for gate in full.summary["gates"]} - gates.keys() == {"audit on artifacts"}
    attacked = read_json(tmp_path / "work" / "audit.json")["models"]
    assert all("loss" in model["attacks"] for model in attacked)
    verify_bundle(full.bundle)


def test_a_trunk_of_somebody_else_ships_too(tmp_path: Path) -> None:
    """An ONNX file with our head, signed; other targets are refused before anything is made."""
    trunk = journey.adopt_trunk(
        graph(tmp_path / "theirs.onnx"),
        load_dataset("synth:n=300,subjects=300,seed=2", SIDE, show=False),
        features="features",
        answer=True,
        trained_on=PUBLIC,
        out=tmp_path / "trunk",
        show=False,
    )
    personal = load_dataset("synth:n=90,subjects=45,seed=1", SIDE, show=False)
    split, recipe = make_split(personal, seed=0), Recipe(size="adopted", image_size=SIDE)
    original = ClosedForm(random_features=32).train(
        personal, split, recipe, tmp_path / "age", trunk=trunk, device=CPU, show=False
    )
    for target, bundle in (("litert", None), ("onnx", tmp_path / "age.unplug")):
        place = tmp_path / f"{target}.unplug" if bundle is None else bundle
        config = replace(QUICK, method=None, targets=(target,), rounding=False)
        call = (original, personal, split.train[:1], place, tmp_path / f"work-{target}", config)
        if bundle is None:
            with pytest.raises(InputError, match="Export it to onnx alone"):
                release(*call, device=CPU, say=lambda _line: None, show=False)
            assert not place.exists()
            continue
        done = release(*call, device=CPU, say=lambda _line: None, show=False)
        gates = {gate["name"]: gate for gate in done.summary["gates"]}
        assert gates["equality"]["value"] == 0.0 and gates["equality"]["passed"]
        assert verify_bundle(done.bundle).lineage.method == "closed-form"
