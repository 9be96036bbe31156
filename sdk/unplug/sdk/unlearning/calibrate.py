"""How fast this machine trains right now: what wall time of retraining a forget step is compared with.

A recorded training time may be of another device, or of this one on a quieter day; a budget compared with it would
accept or refuse methods by the weather. So the recipe's own training step is timed just before the forget step.
"""

from __future__ import annotations

import copy
import statistics
import time

import torch
from torch import nn

from unplug.sdk.training import Recipe, SampleSet, Task, decay_groups, synchronize, training_step, update_average

WARM_UP, TIMED = 2, 5


def seconds_per_sample(model: nn.Module, retain: SampleSet, task: Task, recipe: Recipe) -> float:
    """Median seconds of one training step of the recipe (forward, backward, AdamW, averaging) per sample.

    Args:
        model: on the device of `retain`; a copy is trained and thrown away.
        retain: at least two samples.
        task, recipe: as in training.
    """
    trained, average = copy.deepcopy(model).train(), copy.deepcopy(model)
    optimizer = torch.optim.AdamW(decay_groups(trained, recipe.weight_decay), lr=0.0)
    generator = torch.Generator().manual_seed(0)
    size, device = min(recipe.batch_size, len(retain)), retain.device
    times = []
    for number in range(WARM_UP + TIMED):
        synchronize(device)
        started = time.perf_counter()
        index_B = torch.randperm(len(retain), generator=generator)[:size].to(device)
        training_step(trained, retain, index_B, task, recipe, optimizer, generator)
        update_average(average, trained, recipe.ema, number)
        synchronize(device)
        times.append((time.perf_counter() - started) / size)
    return statistics.median(times[WARM_UP:])
