"""``unplug evaluate`` and ``train age --edges``: what comes out, what is drawn, and what is refused
in one line.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from unplug.sdk.cli import main
from unplug.sdk.evidence.assurance import read_evaluation
from unplug.sdk.evidence.assurance.card import HEADING

from ..conftest import World
from .calls import fail, leftovers


@pytest.fixture
def model(world: World, tmp_path: Path) -> Path:
    return Path(shutil.copytree(world.original.path, tmp_path / "model"))


def test_an_evaluation_a_card_and_a_page(world: World, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "evaluation.json"
    words = [
        "evaluate",
        str(model),
        str(world.unlearned.path),
        "--data",
        world.spec,
        "--out",
        str(out),
        "--card",
        "--json",
    ]
    shutil.copy(world.unlearned.path / "README.md", tmp_path / "before.md")
    unlearned = Path(shutil.copytree(world.unlearned.path, tmp_path / "unlearned"))
    words[2] = str(unlearned)
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    report = read_evaluation(out)
    assert (
        json.loads(done.stdout)["people"]["pictures"]
        == report.people.pictures
        == len(world.split.test)
    )
    assert [item.role for item in report.models] == [
        "original",
        "unlearned",
    ] and report.people.apart == "held out"
    for name, item in zip(("model", "unlearned"), report.models, strict=True):
        card = (tmp_path / name / "README.md").read_text()
        assert card.count(HEADING) == 1 and f"{item.mae.value:.2f} years" in card
        for heading in ("Functional", "Performance", "Privacy", "Security", "Acceptability"):
            assert f"### {heading} characteristics" in card
        for said in (
            "no liveness check",
            "no defence against injected pictures",
            "Nobody certified",
            "procedural faces",
        ):
            assert said in card, said
    assert CliRunner().invoke(main, words).exit_code == 0
    assert (tmp_path / "model" / "README.md").read_text().count(HEADING) == 1, (
        "written anew, not twice"
    )
    assert (
        (tmp_path / "unlearned" / "README.md")
        .read_text()
        .startswith((tmp_path / "before.md").read_text().rstrip())
    )
    page = tmp_path / "page.html"
    assert CliRunner().invoke(main, ["report", str(out), "-o", str(page)]).exit_code == 0
    html = page.read_text()
    for said in (
        "Evaluated",
        "Challenge-25",
        "At the limits",
        "By age",
        "What this does not say",
        "no liveness check",
        "<svg",
    ):
        assert said in html, said
    assert "Not audited" not in html and "http://" not in html.replace("http://www.w3.org", "")


def test_what_cannot_be_evaluated_is_one_line(world: World, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "evaluation.json"
    out.parent.mkdir()
    common = ("--data", world.spec, "--out", out)
    assert "age protocol" in fail("evaluate", model, *common, "--protocol", "none").line
    assert "no list of years" in fail("evaluate", model, *common, "--challenge", "18,x").line
    assert "no output speaks of 120" in fail("evaluate", model, *common, "--challenge", "120").line
    assert "no such checkpoint" in fail("evaluate", tmp_path / "none", *common).line
    assert (
        "no checkpoint is among these models"
        in fail("evaluate", tmp_path / "x.onnx", *common, "--card").line
    )
    assert fail("evaluate", model, *common, "--max-fpr", "0").code == 2
    assert leftovers(out.parent) == []


def test_edges_are_chosen_and_kept(tmp_path: Path) -> None:
    words = [
        "train",
        "age",
        "--data",
        "synth:n=40,subjects=40",
        "--size",
        "nano",
        "--image-size",
        "32",
        "--epochs",
        "1",
        "--edges",
    ]
    done = CliRunner().invoke(main, [*words, "yearly", "--out", str(tmp_path / "yearly")])
    assert done.exit_code == 0, done.output
    config = json.loads((tmp_path / "yearly" / "config.json").read_text())
    assert config["age_edges"] == list(range(101)) and len(config["age_centers"]) == 100
    record = json.loads((tmp_path / "yearly" / "unplug.json").read_text())
    assert record["recipe"]["edges"] == list(range(101))
    done = CliRunner().invoke(main, [*words[:-1], "--out", str(tmp_path / "default")])
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "default" / "config.json").read_text())["age_edges"][:6] == [
        0,
        6,
        13,
        16,
        18,
        21,
    ]
    assert "edges" not in json.loads((tmp_path / "default" / "unplug.json").read_text())["recipe"]
    for edges, said in (
        ("x", "no list of years"),
        ("0,18", "2 borders given"),
        ("0,18,13,40", "do not rise"),
    ):
        assert said in fail(*words, edges, "--out", tmp_path / "none").line
    clash = fail(
        *words,
        "0,18,40",
        "--out",
        tmp_path / "none",
        "--forgettable",
        "closed-form",
        "--trunk",
        tmp_path / "default",
    )
    assert "the groups are those of the --trunk" in clash.line
