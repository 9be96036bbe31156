"""What needs the models themselves: pictures moved by a pixel or two, weights rounded to 8 bits,
and relearning.

Asked of the first few models of a row, where their results keep their weights (small networks).
Shapes: F forget, T test.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from unplug.sdk.evidence.auditing import forget_loss, gather, relearn
from unplug.sdk.evidence.fleet import (
    FleetJob,
    Order,
    Result,
    has_result,
    pack,
    read_result,
    write_result,
)
from unplug.sdk.evidence.statistics import auc
from unplug.sdk.learning.training import SampleSet, new_model, pictures, predict

from .binding import bound_sha256, weights_of
from .intervals import as_measure, cluster_mean
from .membership import Match, Oracle
from .report import Measure

if TYPE_CHECKING:
    from .jobs import Bench

Views = tuple[tuple[SampleSet, SampleSet], ...]
PROBED = 16
"""Models of a row that are asked again."""
FOLDER, RELEARNED = "probes", "relearned"
RELEARNERS = 8
"""Models of a row that are trained again."""
EPOCHS = 50
"""Of relearning at most; a model that needs more counts as this many."""
STEPS = 127
YEARS = 10.0  # that weigh as much as one nat, as in the task's loss


def probe_rows(out: Path, rows: Sequence[Sequence[str]], local: Bench, given: str) -> int:
    """Asks the first models of every row that were not asked yet; how many those were.

    Args:
        out: folder of the board.
        rows: names of the results, the retrained models' first, the originals' second: where
            retrained models keep no weights nobody is asked, for want of an aim.
        local: data and task.
        given: fingerprint of the results.
    """
    if not weights_of(read_result(out / "models", rows[0][0])):
        return 0
    views: Views = ()
    asked: set[str] = set()
    for name, _, result in _unasked(out, FOLDER, rows, given):
        views = views or gather(local.sets, local.dataset, local.task).views  # type: ignore[arg-type]
        _keep(out / FOLDER, name, given, _ask(result, name, local, views))
        asked.add(name)
    originals = rows[1]
    for name, number, result in _unasked(out, RELEARNED, [rows[0], *rows[2:]], given):
        _keep(
            out / RELEARNED,
            name,
            given,
            _relearn(result, name, local, originals[number % len(originals)]),
        )
        asked.add(name)
    return len(asked)


def _unasked(
    out: Path, folder: str, rows: Sequence[Sequence[str]], given: str
) -> Iterator[tuple[str, int, Result]]:
    """Name, place in its row and result of the models that keep their weights and were not asked."""
    for names in rows:
        for number, name in enumerate(names[: PROBED if folder == FOLDER else RELEARNERS]):
            if has_result(out / "models", name, given) and not has_result(
                out / folder, name, given
            ):
                result = read_result(out / "models", name)
                if result.refused is None and weights_of(result):
                    yield name, number, result


def _keep(folder: Path, name: str, given: str, answer: Result) -> None:
    order = Order(job=FleetJob(name=name, target="unplug:probe"), fingerprint=given, given=given)
    write_result(folder, name, pack(answer, order))


def _network(result: Result, local: Bench) -> nn.Module:
    """The model that a result keeps."""
    model = new_model(local.task, local.whole, 0)
    model.load_state_dict(
        {key: torch.from_numpy(value) for key, value in weights_of(result).items()}
    )
    return model.eval()


def _relearn(result: Result, name: str, local: Bench, original: str) -> Result:
    """Epochs on the forget set until an original's loss is back: number i of a row was made from
    original i mod K.
    """
    sha256, forget, before = (
        bound_sha256(result, name),
        local.sets.forget,
        local.original(int(original.rpartition("-")[2])),
    )
    target = forget_loss(before, forget, local.task)
    again = relearn(
        [_network(result, local)],
        forget,
        local.task,
        target_loss=target,
        seeds=(0,),
        max_epochs=EPOCHS,
    )
    passes = [EPOCHS * len(forget) if own is None else own for own in again.passes]
    epochs = np.array(passes, np.float32) / len(forget)
    return Result(
        tensors={"epochs": epochs}, facts={"weights_sha256": sha256, "target_loss": target}
    )


def _ask(result: Result, name: str, local: Bench, views: Views) -> Result:
    """The scores of both probes; facts say which weights were asked."""
    sha256, model = bound_sha256(result, name), _network(result, local)
    says = [[_score(model, part) for part in pair] for pair in views]
    tensors = {
        f"views_{part}": np.mean([pair[side] for pair in says], axis=0)
        for side, part in enumerate(("forget", "test"))
    }
    round_weights(model)
    for part, data in (("forget", local.sets.forget), ("test", local.sets.test)):
        tensors[f"rounded_{part}"] = predict(model, pictures(data)).log_prob_N
    return Result(
        tensors={key: value.astype(np.float32) for key, value in tensors.items()},
        facts={"weights_sha256": sha256},
    )


def _score(model: nn.Module, part: SampleSet) -> np.ndarray:
    says = predict(model, pictures(part))
    error_N = np.zeros(len(says.log_prob_N)) if np.isnan(says.error_N).any() else says.error_N
    return np.asarray(says.log_prob_N - error_N / YEARS)


@torch.no_grad()
def round_weights(model: nn.Module) -> None:
    """Rounds the weights of convolutions and linear layers in place, symmetrically, one scale an
    output channel.

    w <- s round(w / s), s = max |w| / 127.

    Example:
        >>> layer = nn.Linear(2, 1)
        >>> _ = layer.weight.data.copy_(torch.tensor([[1.27, 0.014]]))
        >>> round_weights(layer)
        >>> [round(value, 3) for value in layer.weight[0].tolist()]
        [1.27, 0.01]
    """
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            weight: Tensor = module.weight
            scale = (
                weight.flatten(1)
                .abs()
                .amax(dim=1)
                .clamp_min(1e-12)
                .view(-1, *[1] * (weight.ndim - 1))
                / STEPS
            )
            weight.copy_((weight / scale).round() * scale)


def probed_measures(
    out: Path, names: Sequence[str], oracle: Oracle, oracles: Sequence[str]
) -> dict[str, Measure]:
    """Relearning, views AUC and loss AUC after rounding, with the retrained models' beside it;
    empty where nobody was asked.
    """
    measures = {}
    again = [
        [float(item.tensors["epochs"].mean()) for item in _read(out / RELEARNED, side)]
        for side in (names, oracles)
    ]
    if all(again):
        measures["relearn"] = as_measure(
            cluster_mean(again[0], list(range(len(again[0])))), float(np.mean(again[1]))
        )
    ours, theirs = _read(out / FOLDER, names), _read(out / FOLDER, oracles)
    if not ours or not theirs or not all(item.enough for item in oracle.matches):
        return measures
    for kind in ("views", "rounded"):
        values_M = [_auc(result, kind, oracle.matches[0]) for result in ours]
        aim = float(np.mean([_auc(result, kind, oracle.matches[0]) for result in theirs]))
        measures[f"{kind}_auc"] = as_measure(
            cluster_mean(values_M, list(range(len(values_M)))), aim
        )
    return measures


def _read(folder: Path, names: Sequence[str]) -> list[Result]:
    return [
        read_result(folder, name)
        for name in names[:PROBED]
        if (folder / f"{name}.safetensors").exists()
    ]


def _auc(result: Result, kind: str, item: Match) -> float:
    forget, test = (
        result.tensors[f"{kind}_{part}"].astype(np.float64) for part in ("forget", "test")
    )
    return float(auc(forget[item.forget], test[item.unseen]))
