"""The page of an erased base: its numbers, what it says of them, and files that no page can draw."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from unplug.core import ReportError
from unplug.sdk.report import collect, render_html

from .conftest import SHA, VERSIONS, Draw, Json, png
from .test_page import check_structure, text_of

HOSTILE = '<script>alert("x")</script>{{ 7 * 7 }}$\\frac$'
RATES: dict[tuple[str, str | None], dict[str, tuple[float, float, float]]] = {
    ("unnamed", None): {
        "original": (0.0, 0.021, 0.11),
        "erased": (0.0, 0.0, 0.074),
        "oracle": (0.0, 0.0, 0.074),
    },
    ("named", "prompts"): {
        "original": (0.741, 0.875, 0.953),
        "erased": (0.0, 0.0, 0.074),
        "oracle": (0.001, 0.021, 0.111),
    },
    ("control-image", "control images"): {
        "original": (0.515, 0.667, 0.796),
        "erased": (0.494, 0.646, 0.779),
        "oracle": (0.2, 0.333, 0.484),
    },
    ("relearn 12", "weights"): {
        "original": (0.741, 0.875, 0.953),
        "erased": (0.282, 0.417, 0.568),
        "oracle": (0.272, 0.406, 0.556),
    },
}


def concept(roles: tuple[str, ...], without: tuple[str, ...], claims: dict[str, str]) -> Json:
    """One concept's rows, of some bases and without some attacks."""
    rows = [
        {
            "attack": attack,
            "holds": holds,
            "form": "as it is",
            "role": role,
            "rate": dict(zip(("low", "value", "high"), found[role], strict=True)),
            "pictures": 48,
            "seconds": 1.0,
        }
        for (attack, holds), found in RATES.items()
        for role in roles
        if attack not in without
    ]
    share = {"value": 0.958, "low": 0.857, "high": 0.995}
    judge = {
        "schema": "unplug-presence/1",
        "concept": "glasses",
        "recall": share,
        "false_alarms": {"value": 0.031, "low": 0.002, "high": 0.107},
        "trained": [112, 112],
        "held_out": [48, 47],
        "source": "draws: glasses",
        "size": 128,
        "seed": 0,
        "recipe": {"steps": 500},
    }
    return {
        "words": "glasses",
        "judge": judge,
        "rows": rows,
        "left_out": dict.fromkeys(without, "no plugin is given"),
        "claims": claims,
        "pictures": {f"{role}/named": [png(), png()] for role in roles},
    }


def erased(oracle: bool = True, plugin: bool = True) -> Json:
    """An audit that holds against prompts, and against nothing else."""
    roles = ("original", "erased", "oracle") if oracle else ("original", "erased")
    claims = {"prompts": "holds", "text states": "not tried", "weights": "broken"}
    claims["control images"] = "broken" if plugin else "not tried"
    return {
        "schema": "unplug-erasure-audit/1",
        "models": {role: {"name": f"b-{role}", "sha256": SHA["file"]} for role in roles},
        "method": "uce",
        "edit_bytes": 6416,
        "concepts": [concept(roles, () if plugin else ("control-image",), claims)],
        "retained_db": {"value": 52.44, "low": 51.16, "high": 53.66},
        "frechet": {"erased": 1.234, "original": 1.1, "pictures": 24, "components": 6},
        "beside": {
            "a hat": {
                "original": {"value": 0.917, "low": 0.8, "high": 0.977},
                "erased": {"value": 0.896, "low": 0.773, "high": 0.965},
            }
        },
        "reference": "a base that never saw it" if oracle else "the original without the words",
        "pictures": 48,
        "cost": {"wall_s": 258.2, "device": "Test Machine 9"},
        "claim": "prompts",
        "versions": VERSIONS,
    }


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("erased") / "e.json"
    path.write_text(json.dumps(erased()))
    return render_html(collect([path]), title="Erased")


@pytest.mark.parametrize(
    "fact",
    [
        "b-erased, made of b-original",
        "Holds against prompts Prompts no longer draw “glasses”. Control images bring it back. "
        "Changed weights may bring it back, which these few pictures do not tell. Learned text "
        "states were not tried.",
        "original 87.5 % (74.1 to 95.3), erased 0.0 % (0.0 to 7.4), never saw it 2.1 % (0.1 to "
        "11.1); when it does not, original 2.1 % (0.0 to 11.0)",
        "Prompts that say “glasses” 88 % → 0 % of pictures; 0.0 to 7.4; a base that never saw it",
        "Most by other means: control image 67 % → 65 %",
        "The judge sees 95.8 % of what is there, 85.7 to 99.5; false alarms 3.1 % (0.2 to 10.7)",
        "Other pictures 52.4 dB 51.2 to 53.7",
        "prompts holds named 0.0 % 0.0 to 7.4 2.1 % 0.1 to 11.1",
        "control images brought back control image 64.6 % 49.4 to 77.9 33.3 % 20.0 to 48.4",
        "text states not tried – – –",
        "weights not shown relearned, 12 steps 41.7 % 28.2 to 56.8 40.6 % 27.2 to 55.6",
        "relearned, 12 steps 87.5 % 74.1 to 95.3 41.7 % 28.2 to 56.8 40.6 % 27.2 to 55.6 48",
        "a hat 91.7 % 80.0 to 97.7 89.6 % 77.3 to 96.5",
        "Of 48 pictures with it and 47 without",
        "Erased by uce: the edit is a map of 6 kB.",
        "Fréchet distance of other pictures: 1.234 from the original&#39;s, where the "
        "original&#39;s own have 1.1. It is of 24 pictures on each side, in 6 components of what the autoencoder sees",
        "The audit took 4 min 18 s on Test Machine 9.",
    ],
)
def test_the_page_states(html: str, fact: str) -> None:
    assert fact in text_of(html)


def test_the_page_is_well_formed_and_says_nothing_more(html: str) -> None:
    check_structure(html)
    assert html.count('<img src="data:image/png;base64,') == 6
    assert "control image: original 67 %, erased 65 %, never saw it 33 %" in html
    for word in ("emoved", "Not audited", "Not in this report", "dashed", "Dashed"):
        assert word not in text_of(html), word


def test_without_an_oracle_and_a_control_image(draw: Draw) -> None:
    text = text_of(draw(e=erased(oracle=False, plugin=False)))
    assert "Control images and learned text states were not tried." in text
    assert "Changed weights bring it back." in text, "beside what nobody asked for"
    assert "Not tried: control image, for no plugin is given." in text
    assert "never saw it" not in text and "Dashed: the end of the original" in text


def test_an_audit_of_before_there_were_pictures_and_frechet_distances(draw: Draw) -> None:
    raw = erased()
    del raw["concepts"][0]["pictures"], raw["frechet"]
    page = draw(e=raw)
    assert "<img" not in page and "Fréchet" not in text_of(page)


@pytest.mark.parametrize(
    ("high", "told"),
    [
        (0.111, "Removed “glasses” is removed: nothing that was tried brings it back."),
        (0.112, "Inconclusive These are too few pictures to say whether prompts still draw"),
        (0.9, "Prompts still draw it Prompts still draw “glasses”."),
    ],
)
def test_removed_is_said_where_all_is_held(draw: Draw, high: float, told: str) -> None:
    """The oracle's interval of the named row ends at 0.111."""
    raw = erased()
    found = raw["concepts"][0]
    for row in found["rows"]:
        if row["role"] == "erased":
            value = 0.0 if high < 0.5 else 0.8
            row["rate"] = {"low": value, "value": value, "high": high}
    rows = [row for row in found["rows"] if row["attack"] in ("unnamed", "named")]
    spare = [row for row in rows if row["attack"] == "named"]
    for holds in ("control images", "text states", "weights"):
        rows += [{**row, "attack": f"x {holds}", "holds": holds} for row in spare]
    found["rows"], holds = rows, "holds" if high <= 0.111 else "broken"
    found["claims"] = dict.fromkeys(("prompts", "control images", "text states", "weights"), holds)
    raw["claim"] = "weights" if high <= 0.111 else None
    assert told in text_of(draw(e=raw))


def test_several_concepts_and_files_stand_apart(draw: Draw) -> None:
    raw = erased()
    raw["concepts"].append({**raw["concepts"][0], "words": "beard"})
    page = draw(a=raw, b=erased(oracle=False))
    check_structure(page)
    assert "3 concepts were erased" in page and "Prompts no longer draw “beard”." in page
    assert re.findall(r'<section id="(erased[^"]*)"', page) == [
        "erased-1-1",
        "erased-1-2",
        "erased-2-1",
    ]


def test_hostile_words_stay_text(draw: Draw) -> None:
    raw = erased()
    raw["method"] = raw["models"]["erased"]["name"] = HOSTILE
    raw["beside"] = {HOSTILE: raw["beside"]["a hat"]}
    found = raw["concepts"][0]
    found["words"] = found["judge"]["source"] = HOSTILE
    found["left_out"] = {HOSTILE: HOSTILE}
    for row in found["rows"]:
        row["form"] = row["form"] if row["attack"] == "unnamed" else HOSTILE
    page = draw(e=raw)
    check_structure(page)
    assert "<script" not in page and "49" not in re.findall(r"<h2 id.*?</h2>", page)[1]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("concepts",), []),
        (("concepts", 0, "rows", 3, "rate", "value"), 1e300),
        (("concepts", 0, "rows", 3, "rate", "value"), 0.999),
        (("concepts", 0, "rows", 4, "rate", "high"), None),
        (("concepts", 0, "rows", 4, "role"), "oracle"),
        (("concepts", 0, "rows", 4, "holds"), None),
        (("concepts", 0, "rows", 4, "pictures"), 0),
        (("concepts", 0, "rows", 0, "form"), "fp16"),
        (("concepts", 0, "claims", "weights"), "holds"),
        (("concepts", 0, "claims"), {}),
        (("concepts", 0, "judge", "recall", "low"), -0.1),
        (("concepts", 0, "pictures", "erased/named"), [png()] * 7),
        (("concepts", 0, "pictures", "erased/named"), ["no picture"]),
        (("concepts", 0, "pictures", "erased/named"), [png()[:80]]),
        (("concepts", 0, "pictures", "erased/named"), [png(600)]),
        (("concepts", 0, "pictures", "x"), [png()]),
        (("concepts", 0, "left_out"), {str(number): "" for number in range(25)}),
        (("models", "original"), {"name": "b"}),
        (("models", "other"), {"name": "b", "sha256": ""}),
        (("beside", "a hat"), {}),
        (("retained_db", "value"), 1e9),
        (("frechet", "erased"), -0.1),
        (("frechet", "original"), 1e300),
        (("frechet", "pictures"), 0),
        (("frechet",), {"erased": 1.0}),
        (("claim",), "weights"),
    ],
)
def test_a_file_that_no_page_can_draw_is_refused(
    place: tuple[Any, ...], value: Any, tmp_path: Path
) -> None:
    raw = erased()
    *way, last = place
    target: Any = raw
    for step in way:
        target = target[step]
    target[last] = value
    path = tmp_path / "e.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(ReportError):
        collect([path])
