"""``unplug evaluate`` and ``train age --edges``: what comes out, what is drawn, and what is refused
in one line.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from unplug.sdk.evidence.assurance import read_evaluation
from unplug.sdk.evidence.assurance.card import HEADING

from ..conftest import World
from .calls import leftovers, refused, run, said


@pytest.fixture
def model(world: World, tmp_path: Path) -> Path:
    return Path(shutil.copytree(world.original.path, tmp_path / "model"))


ON_CARDS = (
    *(
        f"### {heading} characteristics"
        for heading in ("Functional", "Performance", "Privacy", "Security", "Acceptability")
    ),
    "no liveness check",
    "no defence against injected pictures",
    "Nobody certified",
    "procedural faces",
)
ON_THE_PAGE = (
    "Evaluated",
    "Challenge-25",
    "At the limits",
    "By age",
    "What this does not say",
    "no liveness check",
    "<svg",
)


def test_an_evaluation_a_card_and_a_page(world: World, model: Path, tmp_path: Path) -> None:
    out, page = tmp_path / "evaluation.json", tmp_path / "page.html"
    unlearned = Path(shutil.copytree(world.unlearned.path, tmp_path / "unlearned"))
    before = (unlearned / "README.md").read_text()
    line = f"evaluate {model} {unlearned} --data {world.spec} --out {out} --card"
    people = said(line)["people"]
    report = read_evaluation(out)
    assert people["pictures"] == report.people.pictures == len(world.split.test)
    assert report.people.apart == "held out"
    assert [judged.role for judged in report.models] == ["original", "unlearned"]
    run(line)
    for path, judged in zip((model, unlearned), report.models, strict=True):
        card = (path / "README.md").read_text()
        assert card.count(HEADING) == 1, "written anew, not twice"
        assert all(text in card for text in (*ON_CARDS, f"{judged.mae.value:.2f} years"))
    assert (unlearned / "README.md").read_text().startswith(before.rstrip())
    run(f"report {out} -o {page}")
    html = page.read_text()
    assert all(text in html for text in ON_THE_PAGE)
    assert "Not audited" not in html and "http://" not in html.replace("http://www.w3.org", "")


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("{model} --protocol none", "age protocol"),
        ("{model} --challenge 18,x", "no list of years"),
        ("{model} --challenge 120", "no output speaks of 120"),
        ("{model} --max-fpr 0", "--max-fpr"),
        ("none", "no such checkpoint"),
        ("x.onnx --card", "no checkpoint is among these models"),
    ],
)
def test_what_cannot_be_evaluated_is_one_line(
    world: World, tmp_path: Path, what: str, words: str
) -> None:
    named = what.format(model=world.original.path)
    assert words in refused(f"evaluate {named} --data {world.spec} --out {tmp_path}/out.json")
    assert leftovers(tmp_path) == []


def test_edges_are_chosen_and_kept(tmp_path: Path) -> None:
    line = "train age --data synth:n=40,subjects=40 --size nano --pixels 32 --epochs 1"

    def made(name: str) -> tuple[Any, Any]:
        config, record = (
            json.loads((tmp_path / name / file).read_text())
            for file in ("config.json", "unplug.json")
        )
        return config, record["recipe"]

    run(f"{line} --edges yearly --out {tmp_path}/yearly")
    config, recipe = made("yearly")
    assert config["age_edges"] == recipe["edges"] == list(range(101))
    assert len(config["age_centers"]) == 100
    run(f"{line} --out {tmp_path}/default")
    config, recipe = made("default")
    assert config["age_edges"][:6] == [0, 6, 13, 16, 18, 21] and "edges" not in recipe
    for edges, words in (
        ("x", "no list of years"),
        ("0,18", "2 borders given"),
        ("0,18,13,40", "do not rise"),
        (
            f"0,18,40 --forgettable closed-form --trunk {tmp_path}/default",
            "the groups are those of the --trunk",
        ),
    ):
        assert words in refused(f"{line} --out {tmp_path}/none --edges {edges}")
