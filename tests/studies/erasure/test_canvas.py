"""UnlearnCanvas's metrics by hand, on its layout of pictures and on cells of our table."""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.studies.erasure import canvas_layout as module
from benchmarks.studies.erasure.canvas import Recognised, rows_of_cells, scores
from benchmarks.studies.erasure.canvas_layout import judged, predicted, read_layout
from benchmarks.studies.erasure.command import erasure
from benchmarks.studies.erasure.methods_table import TableOrder, cells
from click.testing import CliRunner
from PIL import Image

from unplug.core import DataError, InputError, write_json
from unplug.sdk import journey

pytestmark = pytest.mark.study


def test_the_metrics_by_hand() -> None:
    rust = Recognised(
        theme="Rust",
        styles={"Rust": (1, 4), "Joy": (3, 4), "Monet": (4, 4)},
        objects={"Cats": (5, 6), "Dogs": (3, 6)},
    )
    joy = Recognised(theme="Joy", styles={"Rust": (4, 4), "Joy": (0, 4)}, objects={"Cats": (6, 6)})
    cats = Recognised(theme="Cats", styles={"Joy": (2, 4)}, objects={"Cats": (0, 6)})
    found = scores([rust, joy, cats])
    style, thing = found["style"], found["object"]
    values = [one.value if one else None for one in vars(style).values()]
    assert values == [7 / 8, 11 / 12, 14 / 18]
    assert [one.value if one else None for one in vars(thing).values()] == [1.0, None, 0.5]
    assert style.ua and style.ua.low == pytest.approx(0.4735, abs=1e-4)
    with pytest.raises(InputError, match="no picture asks"):
        scores([Recognised(theme="Rust", styles={}, objects={"Cats": (1, 1)})])


def cell(words: str, named: dict[str, float], beside: dict[str, Any], **erasure: Any) -> Any:
    rows = [
        {
            "attack": "named",
            "form": form,
            "role": role,
            "rate": {"value": value if form[0] == "a" else 1.0},
        }
        for role, value in named.items()
        for form in ("as it is", "int8")
    ]
    audit = {
        "concepts": [{"words": words, "rows": rows}],
        "beside": {
            name: {role: {"value": value} for role, value in found.items()}
            for name, found in beside.items()
        },
        "models": {"original": {"name": "b"}},
        "pictures": 8,
        "frechet": {"erased": 2.0, "original": 1.5},
    }
    done: dict[str, Any] = {"method": "uce", "plugins": [], "cost": {"wall_s": 2.0}, "map": None}
    return {"audit": audit, "erasure": {**done, "changed": {"bytes": 10}, **erasure}}


def test_cells_of_our_table(tmp_path: Path) -> None:
    """Other styles are in a style's domain, objects across it."""
    both = {"original": 1.0, "erased": 0.75}
    beside = {"poster print": both, "glasses": both | {"erased": 0.5}, "face mask": both}
    named = {"original": 1.0, "erased": 0.125, "oracle": 0.0}
    write_json(tmp_path / "a.json", cell("pencil drawing", named, beside))
    other = cell("glasses", {"erased": 0.0}, {}, plugins=[{}], map={"bytes": 30})
    write_json(tmp_path / "b.json", other)
    write_json(tmp_path / "table.json", [{"concept": "glasses"}])
    original, oracle, uce, with_plugin = rows_of_cells(tmp_path)
    assert [row.method for row in (original, oracle, uce, with_plugin)] == [
        "nothing erased",
        "never saw it",
        "uce",
        "uce+plugin",
    ]
    values = [
        [one and one.value for one in vars(row.style).values()] for row in (original, oracle, uce)
    ]
    assert values == [[0.0, 1.0, 1.0], [1.0, None, None], [0.875, 0.75, 0.625]]
    assert vars(uce.object) == dict.fromkeys(("ua", "ira", "cra"))
    assert (uce.frechet, uce.seconds, uce.bytes, with_plugin.bytes) == ((2.0, 1.5), 2.0, 10, 30)
    assert with_plugin.object.ua and with_plugin.object.ua.value == 1.0
    write_json(tmp_path / "c.json", cell("a hat", named, {}))
    with pytest.raises(InputError, match="'a hat'"):
        list(rows_of_cells(tmp_path))
    with pytest.raises(InputError, match="no cell"):
        list(rows_of_cells(tmp_path / "none"))


def test_a_cell_counts_the_other_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[tuple[str, ...]]()

    @dataclass
    class Audit:
        order: dict[str, Any]

    def audit(*_: Any, **order: Any) -> Audit:
        asked.append(order["beside"])
        return Audit({})

    monkeypatch.setattr(journey, "erase", lambda *_, **__: {})
    monkeypatch.setattr(journey, "audit_erasure", audit)
    order = TableOrder(
        base="small",
        concepts=("glasses", "eye patch"),
        methods=("uce",),
        oracles={},
        plugin=None,
        seeds=(1,),
        pictures=8,
        beside=("eye patch", "poster print"),
    )
    assert len(list(cells(order, tmp_path, lambda _: None))) == 2
    assert asked == [("eye patch", "poster print"), ("poster print",)]


def draw(folder: Path, *names: str, white: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        Image.new("RGB", (8, 8), "white" if white else "black").save(folder / f"{name}.jpg")
    return folder.parent


@pytest.fixture
def answer_set(tmp_path: Path) -> Path:
    """Two seeds of a style and an object, with a style whose name has an underscore."""
    names = [f"{one}_Cats_seed{seed}" for one in ("Van_Gogh", "Seed_Images") for seed in (188, 288)]
    return draw(tmp_path / "uce" / "Van_Gogh", *names, "Van_Gogh_Dogs_seed188")


def test_the_layout_is_read(answer_set: Path) -> None:
    (answer_set / ".cache").mkdir()
    (answer_set / "Van_Gogh" / "._Van_Gogh_Cats_seed1.jpg").touch()
    (answer_set / "Van_Gogh" / "notes.txt").touch()
    found = read_layout(answer_set)
    assert list(found) == ["Van_Gogh"]
    assert [(one.style, one.object) for one in found["Van_Gogh"]] == [
        ("Seed_Images", "Cats"),
        ("Seed_Images", "Cats"),
        ("Van_Gogh", "Cats"),
        ("Van_Gogh", "Cats"),
        ("Van_Gogh", "Dogs"),
    ]


@pytest.mark.parametrize(
    ("theme", "name", "why"),
    [
        ("Vermeer", "Rust_Cats_seed1", "no style and no object"),
        ("Rust", "Vermeer_Cats_seed1", "Vermeer_Cats_seed1.jpg names no style"),
        ("Rust", "Rust_Unicorns_seed1", "names no style"),
        ("Rust", "Rust_Cats", "names no style"),
        ("Rust", "Rust_Cats_seed", "names no style"),
        ("Cats", None, "no .jpg picture"),
        (".", "Rust_Cats_seed1", "no folder of an erased theme"),
    ],
)
def test_other_layouts_are_refused(tmp_path: Path, theme: str, name: str | None, why: str) -> None:
    draw(tmp_path / "x" / theme, *([name] if name else []))
    with pytest.raises(InputError, match=why):
        read_layout(tmp_path / "x")
    with pytest.raises(InputError):
        read_layout(tmp_path / "none")


def result(path: Path, misclassified: Any) -> None:
    """As ``accuracy.py`` of UnlearnCanvas writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    acc = {name: torch.tensor(0.5) for name in ("Van_Gogh", "Seed_Images")}
    torch.save({"test_theme": path.stem, "acc": acc, "misclassified": misclassified}, path)


def test_predictions_of_their_classifiers(answer_set: Path, tmp_path: Path) -> None:
    style, thing = (tmp_path / kind / "Van_Gogh.pth" for kind in ("style", "class"))
    result(
        style,
        {
            "Van_Gogh": {"Van_Gogh": 1, "Rust": 2},
            "Seed_Images": {"Seed_Images": 2},
            "Rust": {"Rust": 0},
        },
    )
    result(thing, {"Cats": {"Cats": 3, "Dogs": 1}, "Dogs": {"Dogs": 1}})
    (one,) = predicted(tmp_path, read_layout(answer_set))
    assert one.styles == {"Seed_Images": (2, 2), "Van_Gogh": (1, 3)}
    assert one.objects == {"Cats": (3, 4), "Dogs": (1, 1)}
    out = tmp_path / "o.json"
    words = [
        "canvas",
        "--pictures",
        str(answer_set),
        "--predictions",
        str(tmp_path),
        "-o",
        str(out),
    ]
    done = CliRunner().invoke(erasure, [*words, "--name", "mine"])
    assert done.exit_code == 0, done.output
    line = next(one for one in done.output.splitlines() if one.startswith("mine"))
    assert "66.7 [9, 99]" in line and "100.0 [16, 100]" in line and "80.0 [28, 99]" in line
    assert "FID 182.0" in done.output and "Zhang et al." in done.output
    assert json.loads(out.read_text())["rows"][0]["style"]["ua"]["value"] == pytest.approx(2 / 3)


class Hostile:
    def __reduce__(self) -> Any:
        return os.mkdir, (str(Path(__file__).parent / "hacked"),)


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        {"Van_Gogh": {"Van_Gogh": 9}, "Seed_Images": {"Seed_Images": 2}},
        {"Van_Gogh": {"Van_Gogh": 3}},
        {"Van_Gogh": {"Van_Gogh": -3, "Rust": 6}, "Seed_Images": {"Rust": 2}},
        {"Van_Gogh": 3},
        [],
        b"",
        b"PK\x03\x04 no zip",
        pickle.dumps({"misclassified": Hostile()}, protocol=2),
    ],
)
def test_predictions_that_are_none(answer_set: Path, tmp_path: Path, wrong: Any) -> None:
    path = tmp_path / "style" / "Van_Gogh.pth"
    result(tmp_path / "class" / "Van_Gogh.pth", {"Cats": {"Cats": 4}, "Dogs": {"Dogs": 1}})
    if isinstance(wrong, bytes):
        path.parent.mkdir()
        path.write_bytes(wrong)
    elif wrong is not None:
        result(path, wrong)
    with pytest.raises(InputError, match=r"Van_Gogh\.pth"):
        predicted(tmp_path, read_layout(answer_set))
    assert not (Path(__file__).parent / "hacked").exists()


def test_judges_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge sees its concept in white pictures; what asks for the theme counts for it alone."""

    def white(folder: Path, **_: Any) -> Any:
        def presence(pictures: list[Image.Image]) -> Any:
            assert {one.size for one in pictures} == {(16, 16)}
            return np.array([one.getpixel((0, 0))[0] / 255 for one in pictures])  # type: ignore[index]

        return SimpleNamespace(facts=SimpleNamespace(size=16), presence=presence)

    monkeypatch.setattr(module, "load_judge", white)
    theme = tmp_path / "a" / "Pencil_Drawing"
    draw(theme, *(f"Pencil_Drawing_{one}_seed1" for one in ("Glasses", "Eye_Patch")), white=False)
    draw(theme, "Poster_Print_Glasses_seed1", "Seed_Images_Eye_Patch_seed1")
    judges = tmp_path / "judges"
    for name in ("pencil-drawing", "poster-print", "glasses"):
        (judges / name).mkdir(parents=True)
    with pytest.raises(InputError, match="a judge of Eye_Patch"):
        judged(judges, read_layout(tmp_path / "a"))
    (judges / "eye-patch").mkdir()
    (one,) = judged(judges, read_layout(tmp_path / "a"))
    assert one.styles == {"Pencil_Drawing": (0, 2), "Poster_Print": (1, 1)}
    assert one.objects == {"Glasses": (1, 1), "Eye_Patch": (1, 1)}
    (theme / "Poster_Print_Glasses_seed1.jpg").write_bytes(b"no picture")
    with pytest.raises(DataError, match="no picture that can be read"):
        judged(judges, read_layout(tmp_path / "a"))


def test_the_command_says_what_is_missing(answer_set: Path, tmp_path: Path) -> None:
    for words in (
        ["--out", str(tmp_path / "o.json")],
        ["--pictures", str(answer_set), "--out", str(tmp_path / "o.json")],
        ["--pictures", str(answer_set), "--judges", str(tmp_path), "-o", str(tmp_path / "o.json")],
    ):
        done = CliRunner().invoke(erasure, ["canvas", *words])
        assert done.exit_code == 2 and done.stderr.count("\n") == 1
    assert not (tmp_path / "o.json").exists()
