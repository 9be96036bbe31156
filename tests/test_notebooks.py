"""The notebooks of docs run from their first cell to their last, and one that fails says where."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib
import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def walk(path: Path) -> list[Any]:
    """Runs a notebook as a kernel does, in one namespace; gives what each code cell shows."""
    space: dict[str, Any] = {"__name__": "__main__"}
    shown = []
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"], start=1):
        if cell["cell_type"] == "code":
            source, name = "".join(cell["source"]), f"{path.name}, cell {number}"
            try:
                shown.append(_run(source, name, space))
            except Exception as error:
                line = _line(error, name)
                told = source.splitlines()[line - 1].strip()
                raise AssertionError(f"{name}, line {line}: {told}: {error!r}") from error
    return shown


def _run(source: str, name: str, space: dict[str, Any]) -> Any:
    """What a cell shows: the value of its last line, unless that is a statement."""
    tree, space["_"] = ast.parse(source, name), None
    if isinstance(last := tree.body[-1], ast.Expr):
        tree.body[-1] = ast.copy_location(
            ast.Assign([ast.Name("_", ast.Store())], last.value), last
        )
    code = compile(ast.fix_missing_locations(tree), name, "exec", dont_inherit=True)
    exec(code, space)
    return space["_"]


def _line(error: Exception, name: str) -> int:
    """The line of the cell that an error came through, or that is no Python."""
    if isinstance(error, SyntaxError) and error.filename == name:
        return error.lineno or 1
    trace, line = error.__traceback__, 1
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == name:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, from which modules are found as a kernel finds them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "agenet", None)
    del sys.modules["agenet"]
    matplotlib.use("Agg")
    return tmp_path


@pytest.mark.long
def test_forget_ends_in_equality(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    walk(FOLDER / "forget.ipynb")
    assert capsys.readouterr().out.splitlines()[-1] == "True"


@pytest.mark.long
def test_a_network_of_ones_own_is_adopted_and_attacked(here: Path) -> None:
    (here / "mine").mkdir()
    (here / "mine" / "config.json").write_text("{}")  # of an earlier run
    shown = walk(FOLDER / "own-network.ipynb")
    assert True in shown, "the checkpoint answers as the network did"
    assert {text.get_text() for text in shown[-1].get_texts()} == {
        "original",
        "unlearned",
        "retrained",
    }


@pytest.mark.long
def test_what_a_plugin_draws_is_drawn_by_files_too(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = walk(FOLDER / "draw.ipynb")
    parity = [line.split() for line in capsys.readouterr().out.splitlines() if ".tflite" in line]
    assert {row[0].split(".")[0] for row in parity} == {
        "text_encoder",
        "guided_unet",
        "quick_decoder",
        "plugin",
    }
    assert all("pass" in row for row in parity)
    edges, drawn = (shown[-1].crop(box) for box in ((0, 0, 256, 256), (256, 0, 512, 256)))
    assert len(edges.getcolors(2**16) or ()) < len(drawn.getcolors(2**16) or ())


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_keeps_no_outputs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    whole = json.loads(text)
    assert (whole["nbformat"], whole["nbformat_minor"]) == (4, 5) and len(text) < 12_000
    assert whole["metadata"]["kernelspec"]["name"] == "python3"
    words = 0
    for cell in whole["cells"]:
        code = {"outputs", "execution_count"} if cell["cell_type"] == "code" else set()
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | code
        assert not cell.get("outputs") and cell.get("execution_count") is None
        words += 0 if code else len("".join(cell["source"]).split())
    assert len({cell["id"] for cell in whole["cells"]}) == len(whole["cells"]) and words <= 350


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (
            "def half(x):\n    return x / 0\n\n\nhalf(1)",
            r"bad.ipynb, cell 2, line 2: return x / 0: Z",
        ),
        ("one = 1\nassert one == 2", "bad.ipynb, cell 2, line 2: assert one == 2: AssertionError"),
        ("1 +", r"bad.ipynb, cell 2, line 1: 1 \+: SyntaxError"),
    ],
)
def test_a_cell_that_fails_is_told_with_its_line(source: str, told: str, tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Bad"]},
        {"cell_type": "code", "source": source.splitlines(keepends=True)},
    ]
    (tmp_path / "bad.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    with pytest.raises(AssertionError, match=told):
        walk(tmp_path / "bad.ipynb")


def test_the_readme_leads_to_every_notebook() -> None:
    readme = (FOLDER.parents[1] / "README.md").read_text(encoding="utf-8")
    assert all(f"(docs/notebooks/{path.name})" in readme for path in NOTEBOOKS)
