"""What a picture costs: multiply-accumulates counted, seconds measured."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from unplug.core import InputError, progress, read_json, write_json
from unplug.core import installed_versions as installed
from unplug.export import flop_counter
from unplug.sdk.drawing.diffusion import Sampling, generate
from unplug.sdk.learning.training import describe_device, fingerprint, synchronize

from .contenders import ATTENTION, Contender
from .pictures import pipeline
from .report import Speed
from .setup import Setup


@torch.no_grad()
def picture_macs(setup: Setup, pipe: Any, extra: Mapping[str, Any]) -> float:
    """Multiply-accumulates of one picture, text encoder and decoder included.

    macs(N) = macs(1) + (N - 1) (macs(2) - macs(1)): one and two steps are run and counted; the
    others are like the second.

    Args:
        setup: prompt, size and sampling.
        pipe: the row's pipeline.
        extra: its condition.
    """

    def count(steps: int) -> float:
        with flop_counter() as counter:
            _one(setup, pipe, extra, replace(setup.sampling, steps=steps))
        return float(counter.get_total_flops()) / 2

    first = count(1)
    steps = setup.sampling.steps
    return first if steps == 1 else first + (steps - 1) * (count(2) - first)


def _one(setup: Setup, pipe: Any, extra: Mapping[str, Any], sampling: Sampling) -> None:
    generate(
        pipe,
        setup.prompts[:1],
        seeds=setup.picture_seeds[:1],
        size=setup.dataset.size,
        shared=extra,
        **asdict(sampling),
    )


def time_pictures(
    setup: Setup, pipes: Mapping[str, tuple[Any, Mapping[str, Any]]]
) -> dict[str, list[float]]:
    """Seconds of one picture, batch 1, for each pipeline in each of the rounds.

    Every round runs all pipelines, each round from another one on, so that a slow moment of the
    machine meets all of them alike. One picture of each, not counted, goes first.

    Args:
        setup: prompt, size, sampling and rounds.
        pipes: name -> pipeline and its condition.
    """
    seconds = dict[str, list[float]]({name: [] for name in pipes})
    names, rounds = list(pipes), setup.request.rounds
    with progress(total=(rounds + 1) * len(names), label="timing", show=setup.show) as bar:
        for turn in range(rounds + 1):
            for place in range(len(names)):
                name = names[(place + turn) % len(names)]
                pipe, extra = pipes[name]
                synchronize(setup.device)
                started = time.perf_counter()
                _one(setup, pipe, extra, setup.sampling)
                synchronize(setup.device)
                if turn:
                    seconds[name].append(time.perf_counter() - started)
                bar.update(1)
    return seconds


def speeds(seconds: Mapping[str, Sequence[float]], base: str = "base") -> dict[str, Speed]:
    """Medians and quartiles, and those of the ratio to the base's seconds in the same round.

    Example:
        >>> found = speeds({"base": [1.0, 2.0, 1.0], "control": [1.5, 3.0, 1.5]})["control"]
        >>> found.median, found.ratio
        (1.5, 1.5)
    """
    base_seconds = np.asarray(seconds[base], np.float64)
    rows = {}
    for name, values in seconds.items():
        low, median, high = np.percentile(values, [25, 50, 75]).tolist()
        ratio_low, ratio, ratio_high = np.percentile(
            np.asarray(values) / base_seconds, [25, 50, 75]
        ).tolist()
        rows[name] = Speed(
            median=median,
            low=low,
            high=high,
            ratio=ratio,
            ratio_low=ratio_low,
            ratio_high=ratio_high,
            seconds=tuple(values),
        )
    return rows


def measure_costs(
    setup: Setup, contenders: Mapping[str, Contender]
) -> tuple[dict[str, tuple[float, Speed]], dict[str, Any]]:
    """Multiply-accumulates and speed of the base and of each control; and how busy the machine was.

    Seconds that an earlier call measured of the same networks on the same machine are used again.
    """
    extra = {"image": [Image.fromarray(setup.condition_NHWC[0])]}
    pipes: dict[str, tuple[Any, dict[str, Any]]] = {"base": (setup.base, {})}
    pipes |= {name: (pipeline(setup, one), extra) for name, one in contenders.items()}
    macs = {name: picture_macs(setup, pipe, given) for name, (pipe, given) in pipes.items()}
    path, request = setup.request.out / "timing.json", setup.request
    key = fingerprint(
        base=setup.base_sha256,
        controls={name: one.training.sha256 for name, one in contenders.items()},
        rounds=request.rounds,
        **asdict(setup.sampling),
        size=setup.dataset.size,
        device=describe_device(setup.device),
        versions=installed(("torch", "diffusers")),
        attention=ATTENTION,
    )
    if (timing := load_timing(path, key, list(pipes), request.rounds)) is None:
        before, seconds = os.getloadavg()[0], time_pictures(setup, pipes)
        timing = {"seconds": seconds, "load_before": before, "load_after": os.getloadavg()[0]}
        write_json(path, {"key": key, **timing})
    rows = {name: (macs[name], speed) for name, speed in speeds(timing.pop("seconds")).items()}
    return rows, timing | {"attention": ATTENTION}


def load_timing(path: Path, key: str, names: Sequence[str], rounds: int) -> dict[str, Any] | None:
    """Seconds that an earlier call measured, and the load around them; None where there are none of
    this key.
    """
    try:
        stored = read_json(path)
        seconds = {name: [float(value) for value in stored["seconds"][name]] for name in names}
        loads = {name: float(stored[name]) for name in ("load_before", "load_after")}
    except (InputError, KeyError, TypeError, ValueError):
        return None
    whole = all(
        len(values) == rounds and all(0 < value < 1e6 for value in values)
        for values in seconds.values()
    )
    return {"seconds": seconds, **loads} if whole and stored.get("key") == key else None
