"""A method of somebody else on a finished board: originals go out as files, a folder of predictions
comes back.

One file an original, ``original-SEED.safetensors`` or ``.npz``: ``logits`` (N, G) of the unlearned
model, ``age`` (N,) in years where the board is of ages, and the ids of the N samples (an array
``ids`` of an npz, JSON of a safetensors' metadata). Files are hostile input. Shapes: N samples of
all four sets, G groups or classes, K originals.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unplug.core import InputError, OutputError, check_content, versions, write_json
from unplug.plugins import save_checkpoint
from unplug.sdk.evidence.fleet import Result
from unplug.sdk.learning.training import ClassPredictions

from .finished import Board
from .half_samples import MIN_MODELS
from .membership import two_versions
from .metrics import RANKING
from .plan import original_name
from .pool import PARTS, Pool, Truth
from .report import LeaderboardReport, Row
from .score import behind, has_ages, measure_pool
from .table import ranked

Array = NDArray[np.float64]
MAX_FILE = 64 * 2**20
NAME = re.compile(r"original-(\d{1,9})\.(safetensors|npz)")
ROW = re.compile(r"[a-z0-9][a-z0-9+._-]{0,60}")
KNOWN = frozenset({"logits", "age", "ids"})
TOO_GOOD = 3.0
"""Standard deviations between the board's own models that a submission may be better than the best
of them on the test set.
"""
ASK = "Ask each unlearned model about every id of split.json, and about no others"
UNKNOWN_COST = "a folder of predictions: what the method cost was not measured"


def write_originals(board: Board, folder: Path) -> int:
    """Writes every original as a checkpoint, and ``split.json`` with the ids to answer for; gives
    how many.

    The test set's ids stand among the others, without labels: a method that reads it breaks the
    rules of the board.

    Raises:
        OutputError: the folder is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OutputError(str(folder), "it is there and not empty", "Choose another --models-out")
    local, split = board.local, board.local.split
    # In clear: others have no key of ours, and nobody is forgotten yet.
    whole = replace(split, forget=())
    for seed in board.report.seeds["originals"]:
        record = local.task.facts() | {  # type: ignore[attr-defined]
            "schema": local.task.schema,  # type: ignore[attr-defined]
            "role": "original",
            "seed": seed,
            "data": local.dataset.facts,
            "split": whole.to_dict(),
            "recipe": local.task.recipe.to_dict(),
            "versions": versions(),
        }
        card = (
            "An original of an `benchmarks.studies leaderboard --protocol "
            f"{board.report.protocol}`, training seed {seed}.\n"
        )
        save_checkpoint(
            local.original(seed), folder / original_name(seed), record=record, card=card
        )
    ids = {"forget": split.forget, "retain": split.retain, "validation": split.validation}
    write_json(
        folder / "split.json",
        {
            **{part: list(own) for part, own in ids.items()},
            "answer": sorted([*split.train, *split.validation, *split.test]),
        },
    )
    return len(board.report.seeds["originals"])


def score_submission(board: Board, folder: Path) -> tuple[LeaderboardReport, str]:
    """The board's report with a row of the submission, and that row's name, which is the folder's.

    Raises:
        InputError: files that are missing, of other samples, not numbers, given twice, or that know
            the test set.
    """
    name = folder.name.lower()
    if not ROW.fullmatch(name) or name in {row.name for row in board.report.rows}:
        raise InputError(
            str(folder),
            "its name is no name for a row, or a row has it",
            "Name it in a-z, 0-9, . _ + and -",
        )
    pool = _read(board, folder)
    metrics, missing = measure_pool(pool, board.oracle)
    if all(item.enough for item in board.oracle.matches):
        metrics["two_versions_auc"] = two_versions(pool, board.before, board.oracle)
    row = Row(
        name=name,
        role="unlearned",
        models=len(pool),
        originals=len(pool),
        metrics=metrics,
        missing=missing,
        note=_place(board, metrics),
    )
    first = next((other for other in board.report.rows if other.rank == 1), None)
    if first is not None and "score" in metrics and board.report.rank == "challenge":
        row = replace(row, metrics={**metrics, **_behind(board, pool, row, first)})
    methods = [other for other in board.report.rows if other.role == "unlearned"]
    rest = [other for other in board.report.rows if other.role != "unlearned"]
    return replace(board.report, rows=(*ranked([*methods, row], board.report.rank), *rest)), name


def _place(board: Board, metrics: Mapping[str, Any]) -> str:
    key = RANKING[board.report.rank]
    if key not in metrics:
        return UNKNOWN_COST
    sign = -1.0 if key == "attack_distance" else 1.0
    better = sum(
        row.rank is not None and sign * row.metrics[key].value > sign * metrics[key].value
        for row in board.report.rows
    )
    return f"{UNKNOWN_COST}; by the number that ranks it would be place {better + 1}"


def _behind(board: Board, pool: Pool, row: Row, first: Row) -> dict[str, Any]:
    best = board.unlearned(first)
    factors = tuple(
        own.metrics["score"].value / max(own.metrics["f"].value, 1e-12) for own in (row, first)
    )
    return {"score_gap": behind(pool, best, board.oracle, (factors[0], factors[1]))}


@dataclass(frozen=True, kw_only=True)
class _Said:
    """What one file says, in the order of its ids."""

    ids: tuple[str, ...]
    logits_NG: Array
    age_N: Array | None


def _read(board: Board, folder: Path) -> Pool:
    seeds = board.report.seeds["originals"]
    if len(seeds) < MIN_MODELS:
        raise InputError(
            str(board.folder),
            f"it has {len(seeds)} originals",
            f"A distribution takes {MIN_MODELS} or more",
        )
    files = _files(folder, seeds)
    results = [_result(board, files[seed], _load(files[seed])) for seed in seeds]
    _refuse_twice([files[seed] for seed in seeds], results)
    pool = Pool(models=tuple(results), clusters=tuple(seeds), truths=board.truths)
    _refuse_too_good(board, pool, folder)
    return pool


def _files(folder: Path, seeds: Sequence[int]) -> dict[int, Path]:
    """The file of each original."""
    if not folder.is_dir():
        raise InputError(str(folder), "it is no folder", "Give the folder of the predictions")
    files: dict[int, Path] = {}
    for path in sorted(folder.iterdir()):
        match = NAME.fullmatch(path.name)
        if match is None:
            raise InputError(
                str(path),
                "it is no file of a submission",
                "Leave original-SEED.safetensors or .npz alone there",
            )
        if (seed := int(match.group(1))) in files:
            raise InputError(str(path), "two files are of one original", "Give one of them")
        files[seed] = path
    if set(files) != set(seeds):
        lacking, more = sorted(set(seeds) - set(files)), sorted(set(files) - set(seeds))
        why = f"it has predictions of {len(files)} models" + (
            f", {len(more)} of no original here" if more else ""
        )
        fix = f"The board needs {len(seeds)}, one of each original" + (
            f"; original-{lacking[0]} is lacking" if lacking else ""
        )
        raise InputError(str(folder), why, fix)
    return files


def _load(path: Path) -> _Said:
    check_content(path)
    if not path.is_file() or path.stat().st_size > MAX_FILE:
        raise InputError(
            str(path),
            f"it is no file of up to {MAX_FILE} bytes",
            "Save float32 numbers of the samples alone",
        )
    try:
        arrays, ids = _safetensors(path) if path.suffix == ".safetensors" else _npz(path)
    except (
        ValueError,
        OSError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        MemoryError,
        zipfile.BadZipFile,
    ) as error:
        raise InputError(
            str(path), f"it cannot be read ({str(error)[:120]})", "Write it again, without pickle"
        ) from error
    return _checked(path, arrays, tuple(ids))


def _checked(path: Path, arrays: Mapping[str, NDArray[Any]], ids: tuple[str, ...]) -> _Said:
    if other := sorted(set(arrays) - KNOWN):
        why = f"it holds {other[0]!r}, which no prediction needs"
        raise InputError(str(path), why, "Give logits, age and ids alone: labels are the board's")
    logits, age = arrays.get("logits"), arrays.get("age")
    numbers = [value for value in (logits, age) if value is not None]
    if (
        logits is None
        or logits.ndim != 2
        or any(value.dtype.kind not in "fiu" for value in numbers)
    ):
        raise InputError(
            str(path),
            "it has no logits (N, G) of numbers",
            "Save what the model says, before the softmax",
        )
    if len(logits) != len(ids) or (age is not None and age.shape != (len(ids),)):
        raise InputError(
            str(path),
            f"{len(ids)} ids and {len(logits)} rows of logits do not go together",
            "Give one row an id",
        )
    if not all(np.isfinite(value).all() for value in numbers):
        raise InputError(
            str(path),
            "it has values that are not numbers (NaN or infinite)",
            "Find out which model said them",
        )
    return _Said(
        ids=ids,
        logits_NG=logits.astype(np.float64),
        age_N=None if age is None else age.astype(np.float64),
    )


def _safetensors(path: Path) -> tuple[dict[str, NDArray[Any]], list[str]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as handle:
            ids = json.loads((handle.metadata() or {})["ids"])
            arrays = {key: handle.get_tensor(key) for key in handle.keys()}  # noqa: SIM118 (not a dict)
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise ValueError("its ids are no list of texts")
    return arrays, ids


def _npz(path: Path) -> tuple[dict[str, NDArray[Any]], list[str]]:
    with zipfile.ZipFile(path) as archive:
        if sum(item.file_size for item in archive.infolist()) > MAX_FILE:
            raise ValueError(f"it unpacks to over {MAX_FILE} bytes")
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    ids = arrays.pop("ids")
    if ids.dtype.kind != "U" or ids.ndim != 1:
        raise ValueError("its ids are no list of texts")
    return arrays, ids.tolist()


def _result(board: Board, path: Path, said: _Said) -> Result:
    split = board.local.split
    place = {name: row for row, name in enumerate(said.ids)}
    wanted = {*split.train, *split.validation, *split.test}
    if len(place) != len(said.ids):
        raise InputError(str(path), "an id stands there twice", ASK)
    if set(place) != wanted:
        more, less = len(set(place) - wanted), len(wanted - set(place))
        raise InputError(
            str(path),
            f"predictions of another split: {more} ids are not the board's, {less} are lacking",
            ASK,
        )
    groups = board.oracle.pool.models[0].tensors["test_logits"].shape[1]
    aged = has_ages(board.oracle.pool)
    if said.logits_NG.shape[1] != groups or (said.age_N is None) == aged:
        raise InputError(
            str(path),
            f"the board has {groups} groups" + (" and an age" if aged else " and no age"),
            "Give these",
        )
    tensors: dict[str, NDArray[Any]] = {}
    for part, ids in (
        *zip(PARTS, (split.forget, split.test, split.validation), strict=True),
        ("retain", split.retain),
    ):
        rows = np.array([place[name] for name in ids], np.int64)
        truth: Truth = getattr(board.truths, part)
        age_N = np.full(len(rows), np.nan) if said.age_N is None else said.age_N[rows]
        if part == "retain":
            says = ClassPredictions(
                logits_NG=said.logits_NG[rows],
                age_N=age_N,
                true_age_N=truth.age_N,
                true_group_N=truth.group_N,
            )
            tensors |= {
                "retain_margin": says.confidence_N.astype(np.float32),
                "retain_correct": says.correct_N,
            }
        else:
            tensors[f"{part}_logits"] = said.logits_NG[rows].astype(np.float32)
        if said.age_N is not None:
            tensors[f"{part}_age"] = age_N.astype(np.float32)
    return Result(tensors=tensors)


def _refuse_twice(paths: list[Path], results: list[Result]) -> None:
    seen: dict[bytes, Path] = {}
    for path, result in zip(paths, results, strict=True):
        answer = result.tensors["test_logits"].tobytes() + result.tensors["forget_logits"].tobytes()
        if answer in seen:
            raise InputError(
                str(path),
                f"it says the same as {seen[answer].name}",
                "Unlearn from every original, each model once",
            )
        seen[answer] = path


def _refuse_too_good(board: Board, pool: Pool, folder: Path) -> None:
    """The test set's labels are not for a method: what knows it better than all models of the board
    has read them.
    """
    checks = [("test_accuracy", 1.0)] + ([("test_mae", -1.0)] if has_ages(pool) else [])
    for name, sign in checks:
        theirs = np.concatenate([own.per_model(name) for own in (board.before, board.oracle.pool)])
        limit = (sign * theirs).max() + TOO_GOOD * theirs.std(ddof=1)
        if float((sign * pool.per_model(name)).mean()) > limit:
            why = (
                f"its {name.replace('_', ' ')} is {pool.per_model(name).mean():.3g}, no model of "
                "the board has more than "
            )
            why += f"{theirs.max():.3g}" if sign > 0 else f"{theirs.min():.3g} (less is better)"
            raise InputError(
                str(folder),
                f"it seems to have read the test set: {why}",
                "Leave the test set to the board",
            )
