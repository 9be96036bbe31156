"""A board that is open to others: originals go out, predictions come back, and what is no fair
answer is refused.
"""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.studies.__main__ import main
from benchmarks.studies.leaderboard import Board, read_leaderboard, score_submission
from click.testing import CliRunner
from safetensors.numpy import save_file

from unplug.core import InputError
from unplug.plugins import load_checkpoint
from unplug.sdk.learning.training import pictures, predict

from .conftest import Made

pytestmark = pytest.mark.study

Arrays = dict[str, Any]


@pytest.fixture(scope="module")
def answers(board: Board) -> dict[int, Arrays]:
    """What every original says of everybody: the answers of a method that does nothing."""
    sets, answers = board.local.sets, {}
    for seed in board.report.seeds["originals"]:
        parts = [*map(pictures, (sets.train, sets.forget, sets.validation, sets.test))]
        says = [predict(board.local.original(seed), part) for part in parts]
        answers[seed] = {
            "ids": np.array([name for part in parts for name in part.ids]),
            "logits": np.concatenate([own.logits_NG for own in says]).astype(np.float32),
            "age": np.concatenate([own.age_N for own in says]).astype(np.float32),
        }
    return answers


def write(
    folder: Path,
    answers: dict[int, Arrays],
    change: Callable[[int, Arrays], Arrays] = lambda seed, own: own,
) -> Path:
    folder.mkdir()
    for seed, own in answers.items():
        arrays = change(seed, dict(own))
        if seed % 2:
            np.savez(folder / f"original-{seed}.npz", **arrays)
        else:
            ids = json.dumps(arrays.pop("ids").tolist())
            save_file(
                {name: np.ascontiguousarray(value) for name, value in arrays.items()},
                folder / f"original-{seed}.safetensors",
                metadata={"ids": ids},
            )
    return folder


def test_a_folder_of_predictions_gets_a_row_beside_the_methods(
    board: Board, answers: dict[int, Arrays], tmp_path: Path
) -> None:
    def shuffled(seed: int, own: Arrays) -> Arrays:
        order = np.random.default_rng(seed).permutation(len(own["ids"]))
        return {name: value[order] for name, value in own.items()}

    report, name = score_submission(board, write(tmp_path / "nothing", answers, shuffled))
    row, original = report.row(name), board.report.row("original")
    assert (
        name == "nothing"
        and row.rank is None
        and "what the method cost was not measured" in row.note
    )
    assert "it would be place" in row.note and row.models == row.originals == 4
    for metric in (
        "test_mae",
        "retain_ratio",
        "f",
    ):  # a method that does nothing has the originals' numbers
        assert row.metrics[metric].value == pytest.approx(
            original.metrics[metric].value, rel=1e-5
        ), metric
    assert [own.name for own in report.rows if own.rank] == [
        own.name for own in board.report.rows if own.rank
    ]


def nan(seed: int, own: Arrays) -> Arrays:
    own["logits"] = np.where(
        np.arange(len(own["logits"]))[:, None] == 3, np.nan, own["logits"]
    ).astype(np.float32)
    return own


def strangers(seed: int, own: Arrays) -> Arrays:
    return own | {"ids": np.array([f"other-{name}" for name in own["ids"]])}


def doubled_id(seed: int, own: Arrays) -> Arrays:
    return own | {"ids": np.array([own["ids"][1], *own["ids"][1:]])}


def labelled(seed: int, own: Arrays) -> Arrays:
    return own | {"labels": np.zeros(len(own["ids"]), np.int64)}


def short(seed: int, own: Arrays) -> Arrays:
    return own | {"logits": own["logits"][:-1]}


def ageless(seed: int, own: Arrays) -> Arrays:
    return {name: value for name, value in own.items() if name != "age"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (nan, "not numbers"),
        (strangers, "another split: 120 ids are not the board's, 120 are lacking"),
        (doubled_id, "an id stands there twice"),
        (labelled, "it holds 'labels', which no prediction needs"),
        (short, "do not go together"),
        (ageless, "groups and an age"),
    ],
)
def test_what_is_no_answer_is_refused(
    board: Board,
    answers: dict[int, Arrays],
    tmp_path: Path,
    change: Callable[[int, Arrays], Arrays],
    why: str,
) -> None:
    with pytest.raises(InputError, match=why):
        score_submission(board, write(tmp_path / "sent", answers, change))


def test_models_that_are_given_twice_or_lack_are_refused(
    board: Board, answers: dict[int, Arrays], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="it says the same as original-0"):
        score_submission(
            board, write(tmp_path / "same", answers, lambda seed, own: dict(answers[0]))
        )
    few = write(tmp_path / "few", {seed: answers[seed] for seed in (0, 1)})
    with pytest.raises(
        InputError,
        match=r"predictions of 2 models.*The board needs 4, one of each original; original-2",
    ):
        score_submission(board, few)
    shutil.copy(few / "original-1.npz", few / "notes.npz")
    with pytest.raises(InputError, match="no file of a submission"):
        score_submission(board, few)


def test_whoever_knows_the_test_set_is_refused(
    board: Board, answers: dict[int, Arrays], tmp_path: Path
) -> None:
    test = pictures(board.local.sets.test)
    truth = dict(
        zip(test.ids, zip(test.group_N.tolist(), test.age_N.tolist(), strict=True), strict=True)
    )

    def cheat(seed: int, own: Arrays) -> Arrays:
        own["logits"], own["age"] = own["logits"].copy(), own["age"].copy()
        for row, name in enumerate(own["ids"]):
            if str(name) in truth:
                own["logits"][row, truth[str(name)][0]] += 50.0
                own["age"][row] = truth[str(name)][1]
        return own

    with pytest.raises(
        InputError, match="it seems to have read the test set: its test accuracy is 1,"
    ):
        score_submission(board, write(tmp_path / "cheat", answers, cheat))


def test_hostile_files_are_refused(
    board: Board, answers: dict[int, Arrays], tmp_path: Path
) -> None:
    folder = write(tmp_path / "sent", answers)
    np.savez(folder / "original-1.npz", ids=np.array([{}], dtype=object), logits=np.zeros((1, 2)))
    with pytest.raises(InputError, match="cannot be read"):
        score_submission(board, folder)
    lie = io.BytesIO()  # a header that promises 146 TiB
    np.lib.format.write_array_header_1_0(
        lie, {"descr": "<f4", "fortran_order": False, "shape": (10**13, 4)}
    )
    with zipfile.ZipFile(folder / "original-1.npz", "w") as archive:
        archive.writestr("logits.npy", lie.getvalue())
    with pytest.raises(InputError, match="cannot be read"):
        score_submission(board, folder)
    (folder / "original-1.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(InputError, match="cannot be read"):
        score_submission(board, folder)
    with pytest.raises(InputError, match="its name is no name for a row, or a row has it"):
        score_submission(board, tmp_path / "finetune")


def test_a_board_of_too_few_originals_is_refused(made: Made, tmp_path: Path) -> None:
    (tmp_path / "sent").mkdir()
    with pytest.raises(InputError, match="it has 2 originals"):
        score_submission(Board.open(made.out), tmp_path / "sent")


def test_the_command_writes_the_originals_and_scores_what_comes_back(
    board: Board, answers: dict[int, Arrays], tmp_path: Path
) -> None:
    out = Path(shutil.copytree(board.folder, tmp_path / "board"))
    words = ["leaderboard", "--protocol", "people", "--out", str(out)]
    done = CliRunner().invoke(main, [*words, "--models-out", str(tmp_path / "kit"), "--json"])
    assert done.exit_code == 0, done.stderr
    kit = json.loads((tmp_path / "kit" / "split.json").read_text())
    assert sorted(kit["answer"]) == sorted(answers[0]["ids"].tolist()) and set(kit) == {
        "forget",
        "retain",
        "validation",
        "answer",
    }
    opened = load_checkpoint(tmp_path / "kit" / "original-2")
    says = predict(opened.model, pictures(board.local.sets.test))
    assert np.allclose(says.logits_NG, answers[2]["logits"][-len(says.logits_NG) :], atol=1e-5)
    sent = write(tmp_path / "mine", answers)
    done = CliRunner().invoke(main, [*words, "--submission", str(sent)])
    assert done.exit_code == 0, done.stderr
    assert "- mine: a folder of predictions" in done.stdout
    assert read_leaderboard(out / "submission-mine.json").row("mine").models == 4
    for more, why in (
        (["--models-out", str(tmp_path / "kit")], "there and not empty"),
        (
            ["--models-out", str(tmp_path / "x"), "--submission", str(sent)],
            "the one comes before the other",
        ),
    ):
        failed = CliRunner().invoke(main, [*words, *more])
        assert failed.exit_code == 2 and why in failed.stderr
