"""``unplug forget``: an original, a forget set and a method in; an unlearned checkpoint with its
cost out.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unplug.core import (
    CheckpointError,
    OutputError,
    TrainingError,
    one_writer,
    progress,
    settled,
    versions,
)
from unplug.plugins import Checkpoint, load_checkpoint, save_checkpoint
from unplug.sdk.forgetting.tasks import Need, StoredTask, task_of
from unplug.sdk.learning.data import Dataset, Split, keyed, opened_again, split_for
from unplug.sdk.learning.training import (
    Sets,
    StateFile,
    Task,
    check_place,
    describe_device,
    fingerprint,
    finite,
    seeded,
    split_of,
    synchronize,
    training_dir,
)

from .access import ANSWERS, HOOKS, check_needs, shown_to
from .budget import BACKWARD_WEIGHT, Cost, Meter, RetrainCost, seconds_per_sample, summary
from .descent import check_step
from .design import check_design_request, design_of, own_design
from .lineage import lineage_of
from .memory import check_memory, memory_record
from .method import DEFAULT_METHOD, ForgetProblem, Method, OutOfFold, TrainingHook, build_method


@one_writer
def forget(
    original: Checkpoint,
    dataset: Dataset,
    forget_ids: Sequence[str],
    method: str | None,
    out: Path,
    *,
    budget: float | None = None,
    options: Mapping[str, str] | None = None,
    withhold: Sequence[Need] = (),
    outside: OutOfFold | None = None,
    oracle: Checkpoint | None = None,
    base: str | None = None,
    task: StoredTask | None = None,
    split: Split | None = None,
    sets: Sets | None = None,
    seed: int = 0,
    device: torch.device,
    restart: bool = False,
    show: bool = True,
) -> Checkpoint:
    """Unlearns a forget set and saves the result.

    Args:
        original: a checkpoint that `unplug train age` or `unplug train plugin` wrote.
        dataset: the data it was trained on.
        forget_ids: training samples to forget.
        method: a name of `METHODS`; None takes the design's own way where the original has a
            design, else `DEFAULT_METHOD`.
        out: checkpoint folder.
        budget: fraction of retraining; None takes the method's default.
        options: hyperparameters of the method, as text.
        withhold: data that the method must do without (the forget data, say); a method that needs
            them is refused.
        outside: answers of models that never saw the request's people for their samples, for
            methods that fit them.
        oracle: the retrained model; what it took is then shown next to the estimate of retraining.
        base: the diffusion base of a plugin; None takes the base in its record.
        task: the task of `original`, if the caller has opened it already (a base is large); `base`
            is not read then.
        split: the split of this request, see `request_split`, if the caller has made it already.
        sets: its tensors on the device, where the caller has loaded them already.
        seed: the seed of everything random.
        device: the device to compute on.
        restart: drop an unfinished retraining at `out` instead of continuing it.
        show: progress bar.

    Returns:
        The saved checkpoint; ``record["forget"]`` holds method, settings and cost.

    Raises:
        DataError: other data, or a forget set that cannot be forgotten.
        BudgetExceeded: the method spent more than its budget; nothing is saved.
        InsufficientMemoryError: the step would not fit; nothing was loaded yet.
        OutputError: something else is at `out`.
    """
    for used in (original, oracle):
        if used is not None and out.resolve() == used.path.resolve():
            why = "it is one of the models that this step reads"
            raise OutputError(str(out), why, "Choose another `out`")
    if (design := own_design(original)) is not None:
        check_design_request(str(design_of(original)), method, options, budget)
        refit = method == "retrain"
        return design.forget(
            original, dataset, forget_ids, out, refit=refit, device=device, show=show
        )
    method = method or DEFAULT_METHOD
    build_method(method, options)
    work = training_dir(out)
    if restart:
        shutil.rmtree(work, ignore_errors=True)
    check_place(out)
    split = split or request_split(original, dataset, forget_ids)
    task = task or task_of(original, device=device, base=base)
    built = checked_method(
        method,
        options,
        task,
        split,
        budget,
        original=original,
        answers=outside is not None,
        withhold=withhold,
    )
    limit = budget if budget is not None else built.default_budget
    before, count = task.network(original.model), len(dataset)
    footprint = task.footprint(before, device)
    needed, free = check_memory(
        built, task.recipe, count, device, footprint, resident=task.resident(count)
    )
    sets = sets or task.sets(dataset, split, device, show=show)
    retrain = retrain_cost(before, split, task, sets, oracle)
    history: list[dict[str, Any]] = []
    model, cost = apply_method(
        built,
        before,
        sets,
        task,
        retrain,
        limit,
        seed=seed,
        withhold=withhold,
        state=_state(work, task, split, method, seed),
        show=show,
        history=history,
        outside_FG=None if outside is None else outside.logits(sets.forget.ids).to(device),
    )
    if history:  # a retraining that was continued took longer than this process has been running
        cost = replace(cost, wall_s=float(history[-1]["wall_s"]))
    record = _record(original, dataset, split, task, sets, model, seed, show) | {
        **({"history": history} if history else {}),
        "role": "retrained" if method == "retrain" else "unlearned",
        "forget": {
            **_step(method, built, outside),
            "samples": len(split.forget),
            "held_out": len(own_split(original, dataset).held_out - split.held_out),
            "set_sha256": keyed(split).forget_sha256,
            "cost": summary(cost, retrain, limit),
            "memory": memory_record(needed, free, device),
        },
        "cost": cost.record(device),
    }
    save_checkpoint(task.stored(model).cpu(), out, record=record, card=task.card(record))
    shutil.rmtree(work, ignore_errors=True)
    return load_checkpoint(out, expect=task.model_type)


def checked_method(
    name: str,
    options: Mapping[str, str] | None,
    task: StoredTask,
    split: Split,
    budget: float | None,
    *,
    original: Checkpoint,
    answers: bool,
    withhold: Sequence[Need] = (),
) -> Method:
    """A method that can forget this request, as far as counts tell.

    Args:
        name, options, budget, withhold: see `forget`.
        task: the task of `original`.
        split: the split with the forget set.
        answers: whether models that never saw the forgotten are asked.

    Raises:
        InputError: no such method or setting; a budget out of range; or it needs what is not there.
        BudgetExceeded: the budget does not cover one step.
    """
    built = build_method(name, options)
    lacks = [*task.lacks, *([] if answers else [ANSWERS])]
    if isinstance(built, TrainingHook) and not built.prepared(task.network(original.model)):
        lacks.append(HOOKS)
    check_needs(built, lacks, withhold)
    limit = budget if budget is not None else built.default_budget
    passes = task.recipe.passes(len(split.retain))
    whole = RetrainCost(cost=Cost(forward=passes, backward=passes, wall_s=0.0), source="")
    meter, size = Meter(whole, limit), min(getattr(built, "batch_size", 0), len(split.retain))
    # a step on the retain set is the least that a method which repairs spends
    if size and getattr(built, "trains", True) and "retain data" in built.needs:
        check_step(meter.left(), (1.0 + BACKWARD_WEIGHT) * size)
    return built


def _state(work: Path, task: StoredTask, split: Split, method: str, seed: int) -> StateFile:
    """Where a retraining keeps its state, and what it must have in common with a later run."""
    marks = fingerprint(
        method=method,
        split=keyed(split).sha256,
        seed=seed,
        recipe=task.recipe.to_dict(),
        torch=torch.__version__,
        **task.facts(),
    )
    return StateFile(path=work / "state.safetensors", fingerprint=marks)


def request_split(original: Checkpoint, dataset: Dataset, forget_ids: Sequence[str]) -> Split:
    """The original's split with the forget set taken out of train; refuses other data.

    Who was forgotten by an earlier request stays out as well: no later one may train on them again.
    Samples that were held out leave validation and test; a request of nobody else has nothing to
    forget, and is refused.
    """
    return split_for(own_split(original, dataset), dataset, forget_ids)


def own_split(original: Checkpoint, dataset: Dataset) -> Split:
    """The original's split, with ids; who was forgotten from it is in no set. Refuses other data."""
    return opened_again(split_of(original), dataset, original.path)


def retrain_cost(
    original: nn.Module,
    split: Split,
    task: StoredTask,
    sets: Sets,
    oracle: Checkpoint | None = None,
) -> RetrainCost:
    """What retraining on the retain set would cost on this device now; see `estimate_retraining`.

    Args:
        original: the network that is retrained.
        split: the split with the forget set.
        task: the original's.
        sets: the sets on the device.
        oracle: the retrained model, whose recorded time is then shown next to the estimate.

    Raises:
        CheckpointError: the oracle has another recipe, another retain set or another base.
        InputError: its people are named under another key than the one here.
    """
    recorded = None
    if oracle is not None:
        check_oracle(oracle, split, task.recipe)
        task.check_twin(oracle)
        recorded = float((oracle.record.get("cost") or {}).get("wall_s", 0.0)) or None
    return estimate_retraining(original, sets, task, recorded_wall_s=recorded)


def estimate_retraining(
    original: nn.Module, sets: Sets, task: Task, *, recorded_wall_s: float | None = None
) -> RetrainCost:
    """Passes of the recipe on the retain set, and the wall time they would take here and now."""
    device = sets.train.device
    model = original.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    per_sample = seconds_per_sample(model, sets.train, task)
    passes = task.recipe.passes(len(sets.train))
    return RetrainCost(
        cost=Cost(forward=passes, backward=passes, wall_s=per_sample * passes),
        source=(
            f"{1e3 * per_sample:.3g} ms a training pass, timed just before the forget step on "
            f"{describe_device(device)}"
        ),
        recorded_wall_s=recorded_wall_s,
    )


def check_oracle(oracle: Checkpoint, split: Split, recipe: Any) -> None:
    """Refuses a "retrained" model of another recipe or another retain set, and the original under
    its name.
    """
    record, place = oracle.record, str(oracle.path)
    if oracle.sha256 == (record.get("lineage") or {}).get("original_sha256"):
        why = "its weights are the original's: nothing was retrained"
        raise CheckpointError(place, why, "Retrain it")
    if record.get("recipe") != json.loads(json.dumps(recipe.to_dict())):  # tuples become lists
        why = "the retrained model has another recipe than the original"
        raise CheckpointError(place, why, "Retrain it")
    theirs, ours = (
        (part.data_digest, set(part.retain)) for part in (keyed(split_of(oracle)), keyed(split))
    )
    if record.get("role") != "retrained" or theirs != ours:
        why = "it was not retrained on this request's retain set"
        raise CheckpointError(place, why, "Make it with `unplug forget --method retrain`")


@settled
def apply_method(
    method: Method,
    original: nn.Module,
    sets: Sets,
    task: Task,
    retrain: RetrainCost,
    budget: float | None,
    *,
    seed: int,
    withhold: Sequence[Need] = (),
    state: StateFile | None = None,
    show: bool = False,
    history: list[dict[str, Any]] | None = None,
    outside_FG: Tensor | None = None,
) -> tuple[nn.Module, Cost]:
    """Runs a method on a copy of the original (no files but `state`); returns the unlearned model
    and its cost.

    A method sees what it declared to need and nothing else. One that trains in epochs adds its rows
    to `history`. `outside_FG`: see `ForgetProblem`.

    Raises:
        InputError: the method needs what is not there or is withheld.
        BudgetExceeded: it spent more than `budget` of `retrain`.
        TrainingError: its loss or its weights are not finite.
    """
    seen = shown_to(method, sets, original, withhold, outside_FG)
    device = sets.train.device
    model = copy.deepcopy(original).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    if not isinstance(method, TrainingHook):
        task.refresh(model, sets.train)
    meter = Meter(retrain, budget, tell=lambda pictures: bar.update(pictures))
    # without a budget it is a training, which has a bar of its own
    show_own = show and budget is not None
    bar = progress(total=meter.training_passes(), label="forget", show=show_own)
    with bar, seeded(seed, -2) as generator:
        problem = ForgetProblem(
            retain=seen.train,
            forget=seen.forget,
            validation=seen.validation,
            task=task,
            meter=meter,
            seed=seed,
            generator=generator,
            state=state,
            show=show,
            history=[] if history is None else history,
            outside_FG=outside_FG if ANSWERS in method.needs else None,
        )
        unlearned = method(model, problem)
        synchronize(device)
        check_weights(unlearned)
        return unlearned.eval(), meter.spent


def check_weights(model: nn.Module) -> None:
    """Refuses weights that are not numbers, which a loss need not show (batch norm hides much)."""
    for name, value in model.state_dict().items():
        if value.is_floating_point() and not finite(value):
            why = f"its weights are not numbers ({name})"
            raise TrainingError("forget step", why, "Lower the method's `lr=...`")


def _step(name: str, method: Method, outside: OutOfFold | None) -> dict[str, Any]:
    """What was run: the method, its settings, what it read, and who answered for models that never
    saw the forget set.
    """
    settings = {field.name: getattr(method, field.name) for field in fields(method)}  # type: ignore[arg-type]
    step = {"method": name, "settings": settings, "needs": list(method.needs)}
    if outside is not None and ANSWERS in method.needs:
        step["outside"] = outside.facts
    return step


def _record(
    original: Checkpoint,
    dataset: Dataset,
    split: Split,
    task: StoredTask,
    sets: Sets,
    model: nn.Module,
    seed: int,
    show: bool,
) -> dict[str, Any]:
    parts = {"retain": sets.train, "forget": sets.forget, "test": sets.test}
    stored, before = keyed(split), original.record
    kept: dict[str, Any] = {name: before[name] for name in ("adopted", "earlier") if name in before}
    return task.facts() | {
        "schema": task.schema,
        "data": dataset.facts,
        "split": stored.to_dict(),
        "recipe": task.recipe.to_dict(),
        "seed": seed,
        "metrics": task.measured(model, parts, show=show),
        **kept,
        "lineage": lineage_of(original, stored),
        "versions": versions(),
    }
