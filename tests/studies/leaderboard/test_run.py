"""A small leaderboard from end to end: made, resumed, grown, refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.studies.leaderboard import (
    PROTOCOLS,
    LeaderboardConfig,
    bench,
    entry,
    run_leaderboard,
)
from benchmarks.studies.leaderboard.jobs import train_stacked, unlearn
from benchmarks.studies.leaderboard.plan import training_jobs
from benchmarks.studies.leaderboard.run import _arguments, check_folder

from unplug.core import DataError, InputError, OutputError
from unplug.sdk.evidence.fleet import FleetJob, Order, Result, has_result, pack, read_result
from unplug.sdk.evidence.fleet.result import read_record

from . import folders
from .conftest import Made, config_for

pytestmark = pytest.mark.study


@pytest.fixture
def copied(made: Made, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made.out, tmp_path / "copy"))


def results(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (folder / "models").iterdir()}


def test_what_a_run_leaves(made: Made) -> None:
    assert sorted(path.name for path in made.out.iterdir()) == [
        "leaderboard.json",
        "models",
        "run.json",
    ]
    assert len(results(made.out)) == 2 + 4 + 3 * 4


def test_rows_and_ranks(made: Made) -> None:
    rows = {row.name: row for row in made.report.rows}
    assert set(rows) == {"finetune", "ct", "msg", "original", "retrained"}
    assert {rows["finetune"].rank, rows["msg"].rank} == {1, 2}
    assert rows[
        "ct"
    ].rank is None and "4 of 4 runs: forget step: the budget does not cover one step" in str(
        rows["ct"].refused
    )
    assert (
        rows["finetune"].models == 4
        and rows["finetune"].originals == 2
        and rows["original"].models == 2
    )
    assert (
        rows["finetune"].metrics["compute"].value <= 0.9
        and rows["finetune"].metrics["wall_s"].value > 0
    )
    assert rows["retrained"].metrics["f_ratio"].value == 1.0
    best, second = sorted((rows["finetune"], rows["msg"]), key=lambda row: int(row.rank or 0))
    gap = second.metrics["score_gap"]
    assert "score_gap" not in best.metrics
    assert gap.value == pytest.approx(second.metrics["score"].value - best.metrics["score"].value)
    assert gap.low is not None and gap.high is not None and gap.low <= gap.value <= gap.high
    assert rows["finetune"].missing["loss_auc"].startswith("fewer than ten")
    assert "it needs 6 unlearned" in rows["finetune"].missing["ulira_auc"]


def test_a_forget_set_of_ones_own_makes_another_board(made: Made, tmp_path: Path) -> None:
    """Ids go to the workers and into the folder, which is refused without them; a board without a
    file is as it was.
    """
    file, out = tmp_path / "who.txt", tmp_path / "board"
    usual = bench(**_arguments(config_for(made.out)))
    chosen = usual.split.train[2:6]
    file.write_text("".join(f"{name}\n" for name in chosen))
    config = config_for(out, forget=file)
    local = bench(**_arguments(config))
    assert local.split.forget == chosen != usual.split.forget
    given = check_folder(config, local)
    assert json.loads((out / "run.json").read_text())["forget"] == list(chosen)
    assert given != check_folder(config_for(made.out), usual)
    with pytest.raises(InputError, match="leaderboard of another split"):
        check_folder(config_for(out), usual)
    file.write_text(f"{usual.split.test[0]}\n")
    with pytest.raises(DataError, match="1 of its 1 samples are not in the training set"):
        bench(**_arguments(config))


def test_results_carry_their_seeds_and_originals_their_weights(made: Made) -> None:
    original = read_result(made.out / "models", "original-1")
    assert original.facts["seed"] == 1 and any(
        name.startswith("weight/") for name in original.tensors
    )
    retrained = read_result(made.out / "models", "retrained-10003")
    assert retrained.facts["role"] == "retrained" and not any(
        name.startswith("weight/") for name in retrained.tensors
    )
    size = len(retrained.tensors["test_logits"])
    assert retrained.tensors["test_logits"].dtype == np.float32 and retrained.tensors[
        "test_age"
    ].shape == (size,)


def rewritten(folder: Path, name: str, **facts: object) -> None:
    """The result of a job with other facts, under the fingerprint that it had."""
    path = folder / "models" / f"{name}.safetensors"
    record, old = read_record(path), read_result(folder / "models", name)
    job = FleetJob(name=name, target="unplug:name")
    order = Order(job=job, fingerprint=record["fingerprint"], given=record["given"])
    path.write_bytes(pack(Result(tensors=old.tensors, facts=old.facts | facts), order))


def test_results_are_bound_to_the_weights_that_they_describe(made: Made) -> None:
    found = {
        path.stem: read_result(made.out / "models", path.stem)
        for path in (made.out / "models").iterdir()
    }
    named = {
        name: result.facts["weights_sha256"]
        for name, result in found.items()
        if result.refused is None
    }
    assert len(set(named.values())) == len(named) == 2 + 4 + 2 * 4
    for name, result in found.items():
        if name.startswith(("finetune", "msg")):
            assert result.facts["original_sha256"] == named[f"original-{result.facts['original']}"]
    rows = {row.name: row for row in made.report.rows}
    assert (
        rows["original"].weights_sha256 == (named["original-0"], named["original-1"])
        and rows["ct"].weights_sha256 == ()
    )
    assert set(rows["finetune"].weights_sha256) == {
        named[name] for name in named if name.startswith("finetune")
    }


def test_results_of_other_weights_are_refused(copied: Path) -> None:
    """Under names and fingerprints that are right; nothing is ranked."""
    models = copied / "models"
    other = read_result(models, "original-1").facts["weights_sha256"]
    unlearned = next(
        path.stem for path in sorted(models.iterdir()) if path.name.startswith("finetune")
    )
    for name, facts, why in (
        ("original-0", {"weights_sha256": other}, "it describes other weights"),
        ("retrained-10000", {"weights_sha256": None}, "does not say which weights"),
        ("retrained-10000", {"weights_sha256": ["x"]}, "does not say which weights"),
        (unlearned, {"original_sha256": other}, "made from another original"),
        (unlearned, {"original_sha256": None}, "made from another original"),
    ):
        kept = (models / f"{name}.safetensors").read_bytes()
        rewritten(copied, name, **facts)
        with pytest.raises(InputError, match=f"result {name}: .*{why}.*Remove it and run again"):
            run_leaderboard(config_for(copied), lambda _: None)
        (models / f"{name}.safetensors").write_bytes(kept)


def test_seeds_make_models_and_the_same_seed_makes_the_same(made: Made) -> None:
    names = [path.stem for path in sorted((made.out / "models").glob("finetune-*"))]
    assert [name.split("-", 2)[2] for name in names] == ["0-20000", "0-20002", "1-20001", "1-20003"]
    stored = [read_result(made.out / "models", name).tensors for name in names]
    assert len({tensors["test_logits"].tobytes() for tensors in stored}) == 4
    config = config_for(made.out)
    item = entry(config.protocol, "finetune", {})
    again = unlearn(
        bench(**_arguments(config)),
        method="finetune",
        settings=item.given,
        budget=item.budget,
        original=0,
        seed=20000,
    ).tensors
    assert again.keys() == stored[0].keys() and all(
        np.array_equal(again[key], stored[0][key]) for key in again
    )


@pytest.mark.nightly
def test_stacked_training_makes_the_models_of_the_loop(made: Made, tmp_path: Path) -> None:
    """Their shapes and passes: float32 sums in another order end far off on some CPUs. That stacks
    compute what the loop does is shown in float64 in tests/studies/stacks/test_stacked.py.
    """
    config = config_for(tmp_path / "stacked", backend="stacked-train")
    train_stacked(bench(**_arguments(config)), training_jobs(0, 2, 4), "given")
    for name in ("original-0", "original-1", "retrained-10000", "retrained-10003"):
        assert has_result(config.models, name, "given")
        loop, stacked = (read_result(folder / "models", name) for folder in (made.out, config.out))
        assert (
            loop.tensors.keys() == stacked.tensors.keys()
            and loop.facts["passes"] == stacked.facts["passes"]
        )
        for key, value in stacked.tensors.items():
            assert value.shape == loop.tensors[key].shape and (
                value.dtype.kind != "f" or np.isfinite(value).all()
            )


def test_a_second_call_trains_nothing(copied: Path, made: Made) -> None:
    before, lines = results(copied), list[str]()
    report = run_leaderboard(config_for(copied), lines.append)
    assert results(copied) == before and report == made.report
    assert [line for line in lines if "already" in line] == [
        "  6 of 6 are there already",
        "  12 of 12 are there already",
    ]


@pytest.mark.long
def test_what_is_missing_is_made_and_nothing_else(copied: Path, made: Made) -> None:
    gone = sorted(path for path in (copied / "models").iterdir() if path.name.startswith("msg"))[0]
    gone.unlink()
    before = results(copied)
    report = run_leaderboard(config_for(copied), lambda _: None)
    after = results(copied)
    assert set(after) - set(before) == {gone.name} and all(
        after[name] == before[name] for name in before
    )
    assert report.row("msg").metrics["test_mae"] == made.report.row("msg").metrics["test_mae"]


@pytest.mark.long
def test_more_models_use_the_earlier_ones(copied: Path) -> None:
    before = results(copied)
    report = run_leaderboard(config_for(copied, models=6, methods=("finetune",)), lambda _: None)
    after = results(copied)
    assert all(after[name] == before[name] for name in before) and len(after) == len(before) + 2 + 2
    assert report.row("finetune").models == report.row("retrained").models == 6
    assert report.row("finetune").metrics["ulira_auc"].oracle is not None


@pytest.mark.long
def test_another_leaderboard_in_the_folder_is_refused(copied: Path) -> None:
    other = config_for(copied)
    for config, what in (
        (config_for(copied, seed=1), "split, seed"),
        (config_for(copied, spec="synth:n=120,subjects=60,seed=4"), "data, split"),
        (config_for(copied, protocol=other.protocol.with_(recipe={"epochs": 3})), "another recipe"),
    ):
        with pytest.raises(InputError, match=what):
            run_leaderboard(config, lambda _: None)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="holds no leaderboard"):
        run_leaderboard(config_for(tmp_path), lambda _: None)
    (tmp_path / "run.json").write_text(json.dumps(["odd"]))
    with pytest.raises(InputError, match="another protocol"):
        run_leaderboard(config_for(tmp_path), lambda _: None)


@pytest.mark.long
def test_a_class_protocol_from_end_to_end(tmp_path: Path) -> None:
    protocol = PROTOCOLS.get("mufac").with_(
        recipe={"image_size": 32, "epochs": 1, "batch_size": 16},
        width=8,
        models=4,
        originals=2,
        budget=2.0,
    )
    config = LeaderboardConfig(
        protocol=protocol,
        spec=folders.mufac(tmp_path / "mufac"),
        methods=("finetune", "blindspot"),
        settings={},
        out=tmp_path / "out",
        device=torch.device("cpu"),
        backend="loop",
    )
    report = run_leaderboard(config, lambda _: None)
    row = report.row("finetune")
    assert row.rank == 1 and {
        "nomus",
        "test_accuracy",
        "logistic_accuracy",
        "attack_distance",
    } <= set(row.metrics)
    assert "test_mae" not in row.metrics and "distance_test" not in row.metrics
    # it needs years, and there are classes alone
    assert "ages" in str(report.row("blindspot").refused)
    assert report.forget == {
        "samples": 12,
        "subjects": 6,
        "share": 0.1,
        "groups": {"0-6": 4, "7-12": 4, "13-19": 4},
    }


@pytest.mark.nightly
def test_a_method_with_a_hook_gets_originals_of_its_own(made: Made, copied: Path) -> None:
    settings = {"sisa": {"shards": "2", "slices": "1", "budget": "3"}}
    report = run_leaderboard(
        config_for(copied, methods=("sisa",), settings=settings), lambda _: None
    )
    row = report.row("sisa")
    assert (
        row.refused is None
        and row.models == 4
        and row.rank is None
        and "may spend 300 %" in row.note
    )
    assert row.metrics["test_mae"].value > 0


@pytest.mark.nightly
def test_the_literal_rule_can_be_asked_for(made: Made, copied: Path) -> None:
    report = run_leaderboard(config_for(copied, rule="spec"), lambda _: None, show=False)
    assert (
        report.settings["challenge_rule"] == "spec"
        and made.report.settings["challenge_rule"] == "code"
    )
    both = [
        {row.name: row.metrics["f"].value for row in item.rows if "f" in row.metrics}
        for item in (report, made.report)
    ]
    assert both[0].keys() == both[1].keys() and both[0] != both[1]
