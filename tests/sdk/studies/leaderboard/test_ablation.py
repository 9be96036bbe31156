"""The ablation of lens: its variants, and a run on a small finished leaderboard."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks import ablation
from benchmarks.ablation import VARIANTS, Variant, ablate, ablation_cells, ablation_markdown
from click.testing import CliRunner

from unplug.core import InputError
from unplug.sdk.studies.leaderboard import Bench, bench
from unplug.sdk.studies.leaderboard.run import _arguments
from unplug.sdk.unlearning import ForgetProblem, Lens, Meter, apply_method

from .conftest import Made, config_for

pytestmark = pytest.mark.slow  # of a benchmark, not of the product


@pytest.fixture(scope="module")
def local(made: Made) -> Bench:
    return bench(**_arguments(config_for(made.out)))


def unlearned(local: Bench, method: Any) -> dict[str, torch.Tensor]:
    model, _ = apply_method(method, local.original(0), local.sets, local.family, local.retrain, 0.9, seed=3)
    return dict(model.state_dict())


def differ(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> set[str]:
    return {name for name in one if not torch.equal(one[name], other[name])}


def test_a_variant_without_changes_is_lens(local: Bench) -> None:
    assert not differ(unlearned(local, Variant()), unlearned(local, Lens()))


@pytest.mark.parametrize("name", [name for name in VARIANTS if name != "full"])
def test_every_variant_changes_the_model(local: Bench, name: str) -> None:
    settings, _ = VARIANTS[name]
    assert Variant(**settings) != Variant(), "it is the default by now: an ablation of nothing"
    found = unlearned(local, Variant(**settings))
    assert all(bool(torch.isfinite(value).all()) for value in found.values()) and differ(found, unlearned(local, Variant()))
    moved = differ(found, dict(local.original(0).state_dict()))
    assert any("running_mean" in item for item in moved) is (name == "norms-updated")


def test_targets_of_the_variants(local: Bench) -> None:
    copies = local.sets.forget.subset([0] * 5)

    def targets(aim: str) -> torch.Tensor:
        given = ForgetProblem(
            retain=local.sets.train, forget=copies, validation=local.sets.validation, family=local.family,
            task=local.family.task(local.original(0)), meter=Meter(local.retrain, None), seed=0,
            generator=torch.Generator().manual_seed(0),
        )  # fmt: skip
        return Variant(aim=aim, lenses=1).targets(local.original(0), given)  # type: ignore[arg-type]

    shared, own, uniform = (targets(aim) for aim in ("shared", "own", "uniform"))
    assert torch.allclose(shared, shared[:1].expand_as(shared), atol=1e-5)
    assert (own - own[:1]).abs().max() > 1e-3
    assert not uniform.any() and uniform.shape == shared.shape


@pytest.fixture(scope="module")
def ablated(made: Made, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    board = Path(shutil.copytree(made.out, tmp_path_factory.mktemp("ablation") / "board"))
    chosen = {name: VARIANTS[name] for name in ("full", "own-lenses", "no-retain")}
    return board, {**ablate(board, chosen, 4, backend="loop", show=False), "command": "python -m benchmarks.ablation"}


def test_a_board_is_ablated_and_a_second_call_makes_nothing(ablated: tuple[Path, dict[str, Any]]) -> None:
    board, found = ablated
    assert [row["name"] for row in found["rows"]] == ["full", "own-lenses", "no-retain"]
    assert (found["models"], found["originals"], found["retrained"]) == (4, 2, 4)
    for row in found["rows"]:
        assert row["models"] == 4 and row["refused"] is None
        assert {"f", "f_ratio", "score", "test_ratio", "retain_ratio", "shift", "sd_ratio"} <= set(row["metrics"])
        assert row["metrics"]["shift"]["value"] > 0 and row["metrics"]["f_ratio"]["low"] is not None
    times = {path.name: path.stat().st_mtime_ns for path in (board / "ablation").iterdir()}
    assert len(times) == 3 * 4
    again = ablate(board, {"full": VARIANTS["full"]}, 4, backend="loop", show=False)
    assert again["rows"][0] == found["rows"][0]
    assert times == {path.name: path.stat().st_mtime_ns for path in (board / "ablation").iterdir()}


def test_its_table_and_its_markdown(ablated: tuple[Path, dict[str, Any]]) -> None:
    _, found = ablated
    assert json.loads(json.dumps(found)) == found
    lines = ablation_cells(found)
    assert [line[0] for line in lines] == ["full", "own-lenses", "no-retain", "retrained"]
    text = ablation_markdown(found)
    assert text.count("\n| ") == 2 + 4 and "| F / F_null |" in text and "4 models a variant from 2 originals" in text
    assert f"| {lines[0][3]} |" in text and lines[3][3] == "1.00" and lines[3][5:7] == ("1.000", "1.000")
    assert lines[0][7] == "-", "four models and a dozen samples are too few for RMIA"


def test_the_command_writes_the_numbers_and_no_place(
    ablated: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board, found = ablated
    monkeypatch.setattr(ablation, "VARIANTS", {"full": VARIANTS["full"]})
    out = tmp_path / "ablation.json"
    done = CliRunner().invoke(ablation.main, ["--board", str(board), "--models", "4", "--out", str(out), "--backend", "loop"])
    assert done.exit_code == 0, done.exception
    written = json.loads(out.read_text())
    assert written["rows"] == found["rows"][:1] and written["versions"] and str(board.parent) not in out.read_text()
    assert written["command"] == "python -m benchmarks.ablation --board board --models 4 --out ablation.json"
    assert "full" in done.output and "F / F_null" in done.output


def test_what_is_not_the_board_any_more_is_refused(made: Made, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="too few"):
        ablate(made.out, VARIANTS, 1)
    board = Path(shutil.copytree(made.out, tmp_path / "board"))
    report = json.loads((board / "leaderboard.json").read_text())
    report["data"]["digest"] = "0" * 64
    (board / "leaderboard.json").write_text(json.dumps(report))
    with pytest.raises(InputError, match="changed"):
        ablate(board, VARIANTS, 4)
