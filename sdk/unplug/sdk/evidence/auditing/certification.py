"""What a method leaves of one person: it forgets many others like her, each by a forget step of its
own, pooled.

One request of one person shows next to nothing: she is one draw. But the same method, at the same
budget, on the same original, can be asked to forget other people, and references
(`unplug.sdk.evidence.fleet.references`) say for each of them what models say that never saw her.
Pooled over enough such *surrogate* requests that is evidence about the method, and the next request
is one more.

Shapes: M requests of n people, K = M n people, Q rounds of references (one model of each never saw
    a given person),
S statistics, B bootstrap replicates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unplug.core import (
    InputError,
    TrainingError,
    json_sha256,
    one_writer,
    read_dataclass,
    versions,
    write_json,
)
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.evidence.fleet import (
    Context,
    FleetJob,
    References,
    Result,
    backend_for,
    load_references,
    read_result,
    run_jobs,
)
from unplug.sdk.evidence.statistics import Estimate
from unplug.sdk.forgetting.tasks import StoredTask, task_of
from unplug.sdk.forgetting.unlearning import (
    RetrainCost,
    apply_method,
    build_method,
    estimate_retraining,
    own_split,
)
from unplug.sdk.learning.data import Dataset, OnBad, load_again
from unplug.sdk.learning.training import (
    ClassPredictions,
    Predictions,
    Sets,
    describe_device,
    predict,
)

from .attack import Array
from .audit_report import EQUIVALENCE
from .pooled import Certification, exact_passes, judge
from .surrogates import surrogates

FILE = "certification.json"
JOB = "unplug.sdk.evidence.auditing.certification:request_job"
CONTEXT = "unplug.sdk.evidence.auditing.certification:request_context"
LEAST_REQUESTS, MOST_REQUESTS = 10, 2000
LEAST_ROUNDS = 4
MAX_BYTES = 2**20


@dataclass(frozen=True, kw_only=True)
class CertifyConfig:
    """What is certified, and how hard.

    Args:
        method, options, budget: the forget step; a budget of None is the method's own.
        people: n of a request.
        requests: M. The interval narrows as 1 / sqrt(M n), down to what the rounds of references
            allow.
        like: training samples of a request that the surrogates are to resemble; whose they are is
            never a surrogate.
        margin: see `Certification`.
        seed: the seed of the draws, and of the forget steps with their number added.
    """

    method: str = "folds"
    options: Mapping[str, str] = field(default_factory=dict)
    budget: float | None = None
    people: int = 1
    requests: int = 200
    like: tuple[str, ...] = ()
    margin: float = EQUIVALENCE
    seed: int = 0


@one_writer
def certify(
    original: Checkpoint,
    dataset: Dataset,
    fleet: Path,
    config: CertifyConfig,
    out: Path,
    *,
    on_bad: OnBad = "error",
    base: str | None = None,
    device: torch.device,
    backend: str | None = None,
    workers: int | None = None,
    show: bool = True,
) -> Certification:
    """Forgets M surrogate requests and says what is left of the people in them.

    Args:
        original: the original; its people may ask.
        dataset: the data that it was trained on.
        fleet: folder that `unplug references` made of it.
        config: the settings.
        out: folder of one small file a request and the certification; a killed run goes on there.
        on_bad: how the data were loaded.
        base: the diffusion base of a plugin.
        device: the device to compute on.
        backend, workers: the processes, see `train_references`.
        show: progress bar.

    Raises:
        InputError: too few requests, people or rounds, a method that certifies nothing, or
            references of something else.
        DataError: other data than the original's.
        TrainingError: a forget step failed; the others are kept.
    """
    task = task_of(original, device=device, base=base)
    world = _world(original, dataset, task, fleet, device)
    _check_wanted(config, world)
    chosen_MN = surrogates(
        world.sets.train,
        world.people,
        requests=config.requests,
        count=config.people,
        like=config.like,
        seed=config.seed,
    )
    place = {"original": str(original.path.resolve()), "base": base, "device": str(device)}
    place |= {"fleet": str(fleet.resolve()), "spec": dataset.spec, "on_bad": on_bad}
    step = {"method": config.method, "options": dict(config.options), "budget": config.budget}
    made_from = {"original": original.sha256, "references": world.fleet.sha256}
    platform = {"torch": torch.__version__, "device": device.type}
    jobs = [
        FleetJob(
            name=f"request-{number:04d}",
            target=JOB,
            arguments={**step, "people": people.tolist(), "seed": config.seed + number},
        )
        for number, people in enumerate(chosen_MN)
    ]
    share = config.budget or build_method(config.method, config.options).default_budget or 1.0
    run_jobs(
        jobs,
        Context(target=CONTEXT, arguments=place),
        out,
        backend=backend or backend_for(device),
        workers=workers,
        show=show,
        pictures=max(1, int(share * task.recipe.passes(len(world.sets.train)))),
        fingerprint=json_sha256({**step, **made_from, **platform, "seed": config.seed}),
    ).check("forget steps", len(jobs))
    results = [read_result(out, job.name) for job in jobs]
    record = _certification(
        world, config, chosen_MN, results, describe_device(device), original, dataset
    )
    write_json(out / FILE, asdict(record), private=True)
    return record


def read_certification(
    path: Path,
    original: Checkpoint,
    dataset: Dataset,
    method: str,
    options: Mapping[str, str],
    budget: float,
    references_sha256: str | None,
    people: int,
) -> Certification:
    """A certification, for a forget step that is of the kind that it is about.

    Args:
        path: the file that `certify` wrote, or its folder.
        original, dataset: the request's original and data.
        method, options, budget: the forget step.
        references_sha256: the hash of the references that judge the request; None where there are
            none.
        people: how many the request names.

    Raises:
        InputError: no certification, or one of something else: which, and what to do.
    """
    path = path / FILE if path.is_dir() else path
    record = read_dataclass(Certification, path, InputError, max_bytes=MAX_BYTES)
    wanted = {
        "original": (record.original_sha256, original.sha256),
        "data": (record.data_digest, dataset.digest),
        "references": (record.references_sha256, references_sha256),
        "method": (record.method, method),
        "settings of the method": (record.settings, _settings(method, options)),
        "budget": (record.budget, budget),
        "number of people": (record.people, people),
    }
    told = ("method", "budget", "number of people")
    for what, (theirs, ours) in wanted.items():
        if theirs != ours:
            shown = f" ({theirs}, not {ours})" if what in told else ""
            why = f"it is of another {what} than this release's{shown}"
            if what == "references":
                why = "it was judged by other references than this release's: give them as `fleet`"
            raise InputError(str(path), why, "Make one of this kind of request: `unplug certify`")
    return record


@dataclass(frozen=True, kw_only=True)
class _CertifiedWorld:
    """What the jobs share: built anew in each worker."""

    model: torch.nn.Module
    task: StoredTask
    sets: Sets
    fleet: References
    people: tuple[int, ...]
    cost: RetrainCost


def _world(
    original: Checkpoint, dataset: Dataset, task: StoredTask, fleet: Path, device: torch.device
) -> _CertifiedWorld:
    """`people` are those of the training set, as subject numbers, without the forgotten."""
    sets = task.sets(dataset, own_split(original, dataset), device)
    model = task.network(original.model)
    return _CertifiedWorld(
        model=model,
        task=task,
        sets=sets,
        fleet=load_references(fleet, original, task, dataset),
        people=tuple(np.unique(sets.train.subject_N).tolist()),
        cost=estimate_retraining(model, sets, task),
    )


def _settings(method: str, options: Mapping[str, str]) -> dict[str, Any]:
    built: Any = build_method(method, options)
    return asdict(built)


def request_context(
    original: str, spec: str, on_bad: OnBad, base: str | None, device: str, fleet: str
) -> _CertifiedWorld:
    """Task, sets and references on the device."""
    where, checkpoint = torch.device(device), load_checkpoint(Path(original))
    task = task_of(checkpoint, device=where, base=base)
    size, record = task.image_size, checkpoint.record
    dataset = load_again(spec, size, record, on_bad=on_bad, show=False)
    return _world(checkpoint, dataset, task, Path(fleet), where)


def request_job(
    world: _CertifiedWorld,
    method: str,
    options: dict[str, str],
    budget: float | None,
    people: list[int],
    seed: int,
) -> Result:
    """Forgets some people and keeps their statistics, and what it cost everybody else."""
    built = build_method(method, options)
    train = world.sets.train
    gone_T = np.isin(train.subject_N, people)
    stay, forget = (train.subset(np.flatnonzero(mask_T).tolist()) for mask_T in (~gone_T, gone_T))
    sets = replace(world.sets, train=stay, forget=forget)
    wanted = "out-of-fold answers" in built.needs
    outside = world.fleet.out_of_fold(forget.ids, seed) if wanted else None
    model, cost = apply_method(
        built,
        world.model,
        sets,
        world.task,
        world.cost,
        built.default_budget if budget is None else budget,
        seed=seed,
        outside_FG=None if outside is None else outside.logits(forget.ids).to(train.device),
    )
    test, before = predict(model, sets.test), world.model.to(train.device).eval()
    number_KS = _of_people(predict(model, forget), forget.subject_N, people) - _mean(test)
    facts = {
        "compute": cost.compute / world.cost.cost.compute,
        "wall_s": cost.wall_s,
        "samples": len(forget),
        "test_error": _cost(test),
        "retain_error": _cost(predict(model, stay)),
        "retain_before": _cost(predict(before, stay)),
        "round": -1 if outside is None else int(outside.facts["round"]),
    }
    return Result(tensors={"number_KS": number_KS}, facts=facts)


def _check_wanted(config: CertifyConfig, world: _CertifiedWorld) -> None:
    if config.method == "retrain":
        raise InputError(
            "`method=retrain`",
            "it is exact: nothing has to be certified",
            "Release with it as it is",
        )
    build_method(config.method, config.options)
    if not LEAST_REQUESTS <= config.requests <= MOST_REQUESTS or config.people < 1:
        why = f"{config.requests} requests of {config.people} people"
        raise InputError(
            "certification",
            why,
            f"Ask for {LEAST_REQUESTS} to {MOST_REQUESTS} requests of one person or more",
        )
    record = world.fleet.record
    if record.models // record.folds < LEAST_ROUNDS + 1:
        why = (
            f"{record.models // record.folds} models never saw a person, one of which may be what "
            "she is fitted to"
        )
        raise InputError(
            "references", why, f"{LEAST_ROUNDS + 1} are needed: grow them with a larger `models`"
        )


def _numbers(said: Predictions) -> Array:
    """The S statistics of each sample (N, S); without years the error and the task's loss are left
    out.
    """
    columns = [np.asarray(said.confidence_N, np.float64)]
    if _aged(said):
        columns += [-said.error_N, said.log_prob_N - said.error_N / 10.0]
    return np.column_stack(columns)


def _aged(said: Predictions) -> bool:
    return isinstance(said, ClassPredictions) and bool(np.isfinite(said.error_N).all())


def _mean(said: Predictions) -> Array:
    return np.asarray(_numbers(said).mean(axis=0), np.float64)


def _of_people(said: Predictions, subject_N: NDArray[np.int64], people: Sequence[int]) -> Array:
    """Means over the samples of each person (K, S)."""
    number_NS = _numbers(said)
    return np.stack([number_NS[subject_N == who].mean(axis=0) for who in people])


def _cost(said: Predictions) -> float:
    """Mean error in years, or mean loss where there are no years."""
    return float(said.error_N.mean() if _aged(said) else -np.mean(said.log_prob_N))


def _strangers(world: _CertifiedWorld, people: Sequence[int]) -> Array:
    """What the model of each round that never saw a person says of her (K, Q, S)."""
    fleet, train = world.fleet, world.sets.train
    rounds, folds = fleet.record.models // fleet.record.folds, fleet.record.folds
    row_T, row_U = fleet.rows(train.ids), fleet.rows(world.sets.test.ids)
    mean_MS = np.stack(
        [
            _mean(fleet.said(np.full(len(row_U), model), row_U))
            for model in range(fleet.record.models)
        ]
    )
    strangers = []
    for who in people:
        mine = row_T[train.subject_N == who]
        # of each round the one model that did not see her
        turn_Q = fleet.seen_MN[: rounds * folds, mine[0]].reshape(rounds, folds).argmin(axis=1)
        models = np.arange(rounds) * folds + turn_Q
        answers = [fleet.said(np.full(len(mine), model), mine) for model in models]
        strangers.append(
            [_mean(one) - mean_MS[model] for one, model in zip(answers, models, strict=True)]
        )
    return np.array(strangers)


def _certification(
    world: _CertifiedWorld,
    config: CertifyConfig,
    chosen_MN: NDArray[np.int64],
    results: Sequence[Result],
    device: str,
    original: Checkpoint,
    dataset: Dataset,
) -> Certification:
    for result in results:
        if (refused := result.refused) is not None:
            raise TrainingError("forget step", str(refused.get("why")), str(refused.get("fix")))
    people, count = chosen_MN.reshape(-1).tolist(), chosen_MN.shape[1]
    own_KS = np.concatenate([result.tensors["number_KS"] for result in results])
    train = world.sets.train
    test = predict(world.model, world.sets.test)
    before_KS = _of_people(predict(world.model, train), train.subject_N, people) - _mean(test)
    never_KQS = _strangers(world, people)
    facts = {
        name: np.array([result.facts[name] for result in results]) for name in results[0].facts
    }
    # The round that a forget step was fitted to is not a stranger to those it forgot; -1 names
    # none.
    use_KQ = np.arange(never_KQS.shape[1]) != facts["round"].repeat(count)[:, None]
    judged = judge(own_KS, before_KS, never_KQS, use_KQ, count, config.margin, config.seed)
    built = build_method(config.method, config.options)
    # A method without a budget of its own costs what retraining costs.
    budget = built.default_budget if config.budget is None else config.budget
    return Certification(
        original_sha256=original.sha256,
        references_sha256=world.fleet.sha256,
        data_digest=dataset.digest,
        method=config.method,
        settings=_settings(config.method, config.options),
        budget=float(budget or 1.0),
        people=count,
        requests=len(results),
        samples=float(facts["samples"].mean()),
        like=bool(config.like),
        rounds=never_KQS.shape[1],
        **vars(judged),
        margin=config.margin,
        exact_passes=exact_passes(never_KQS, use_KQ, before_KS, count, config.margin, config.seed),
        test_error=_ratio(facts["test_error"] / _cost(test)),
        retain_error=_ratio(facts["retain_error"] / facts["retain_before"]),
        compute=float(facts["compute"].mean()),
        seconds=float(facts["wall_s"].sum()),
        device=device,
        seed=config.seed,
        versions=versions(),
    )


def _ratio(value_M: Array) -> Estimate:
    """Mean with its normal 95 % interval over requests."""
    half = 1.96 * float(np.std(value_M, ddof=1)) / math.sqrt(len(value_M))
    mean = float(np.mean(value_M))
    return Estimate(value=mean, low=mean - half, high=mean + half)
