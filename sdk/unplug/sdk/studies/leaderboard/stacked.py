"""The trainings of a leaderboard, many models at once on this process's device; the loop over `jobs.train` is its oracle."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import groupby

from unplug.sdk.fleet import Job, Order, fit_stacked, job_fingerprint, pack, stack_width, write_result
from unplug.sdk.training import new_model

from .jobs import Bench, trained


def train_stacked(context: Bench, jobs: Sequence[Job], given: str, *, show: bool = False) -> float:
    """Carries out training jobs, a stack after the other; each stack is written when it is finished.

    Args:
        context: data, family and folder.
        jobs: of `plan.training_jobs`.
        given: fingerprint that the results carry.
        show: progress bar.

    Returns:
        Seconds of wall time.

    Raises:
        InputError: the architecture cannot be stacked.
        TrainingError: a loss is not finite.
    """
    began = time.monotonic()
    for role, group in groupby(jobs, key=lambda job: str(job.arguments["role"])):
        same, data = list(group), context.training_set(role)
        width = stack_width(new_model(context.family, data, 0), data, context.family.recipe.batch_size)
        for start in range(0, len(same), width):
            _train_part(context, role, same[start : start + width], given, show)
    return time.monotonic() - began


def _train_part(context: Bench, role: str, jobs: Sequence[Job], given: str, show: bool) -> None:
    seeds = [int(job.arguments["seed"]) for job in jobs]
    began = time.monotonic()
    models = fit_stacked(context.family, context.training_set(role), context.sets.validation, seeds=seeds, show=show)
    each = (time.monotonic() - began) / len(jobs)
    for job, seed, model in zip(jobs, seeds, models, strict=True):
        order = Order(job=job, fingerprint=job_fingerprint(job, None, given), given=given)
        write_result(context.models, job.name, pack(trained(context, role, seed, model, each), order))
