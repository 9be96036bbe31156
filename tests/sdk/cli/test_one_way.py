"""A command turns words into the arguments of its step of the journey, all of them and no others."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import click
import pytest

from unplug.mobile_bench import Plan
from unplug.sdk import journey
from unplug.sdk.cli.adopt import adopt
from unplug.sdk.cli.audit import audit
from unplug.sdk.cli.bench import run as bench
from unplug.sdk.cli.bundle import PublicationOrder
from unplug.sdk.cli.evaluate import evaluate
from unplug.sdk.cli.export import export
from unplug.sdk.cli.forget import forget
from unplug.sdk.cli.generate import generate
from unplug.sdk.cli.guides import GuideOrder
from unplug.sdk.cli.parity import parity
from unplug.sdk.cli.release import release
from unplug.sdk.cli.replay import replay
from unplug.sdk.cli.run import run
from unplug.sdk.cli.train import age
from unplug.sdk.exporting import ExportOrder, ParityOrder
from unplug.sdk.generating import DrawOrder
from unplug.sdk.learning.training import Recipe
from unplug.sdk.releasing import ReleaseConfig

HELP = {"help", "_click_default_help"}
EVERYWHERE: dict[str, set[str]] = {
    "data": {"spec"},
    "device": {"device_name"},
    "forget_ids": {"forget_file"},
    "original": {"checkpoint"},
    "say": set(),
    "show": {"as_json"},
    "task": set(),
}
"""Arguments that are values, and the options from which any command makes them."""


def names(config: Any) -> set[str]:
    return {field.name for field in fields(config)}


@dataclass(frozen=True, kw_only=True)
class Way:
    """A command and its step.

    Args:
        otherwise: arguments that this command makes of options of other names.
        config: dataclass whose fields the step takes as keyword arguments, by the name of those.
        words: options that decide which step is called, what is printed, and where it goes.
        python: fields of `config` that have no option: their defaults hold here.
    """

    command: click.Command
    step: Callable[..., Any]
    otherwise: dict[str, set[str]] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    words: set[str] = field(default_factory=set)
    python: set[str] = field(default_factory=set)

    def options(self) -> set[str]:
        context = click.Context(self.command, info_name="unplug")
        return {str(option.name) for option in self.command.get_params(context)} - HELP

    def arguments(self) -> set[str]:
        named = set(inspect.signature(self.step).parameters) - set(self.config)
        return named.union(*map(names, self.config.values())) - self.python


WAYS = [
    Way(
        command=age,
        step=journey.train,
        otherwise={
            "data": {"spec", "on_bad"},
            "split": {"split_file", "validation", "test"},
            "design": {"pairs"},
        },
        config={"recipe": Recipe},
        python={"schedule", "loss", "smoothing"},
    ),
    Way(
        command=adopt,
        step=journey.adopt,
        otherwise={
            "data": {"spec"},
            "split": {"split_file"},
            "arguments": {"pairs"},
            "task": {"classes"},
        },
        config={"recipe": Recipe},
        words={"trunk", "features", "answer", "trained_on"},
        python={"size", "dropout", "schedule", "loss", "smoothing"},
    ),
    Way(
        command=audit,
        step=journey.audit,
        otherwise={"original": {"original"}, "work": {"out"}},
        words={"plugin", "pictures", "beside", "forms"},
    ),
    Way(
        command=evaluate,
        step=journey.evaluate,
        otherwise={"trust": {"trusted"}},
        words={"card", "out"},
    ),
    Way(
        command=export,
        step=journey.export,
        otherwise={"bar": {"as_json"}},
        config={"order": ExportOrder},
        python={"calibration_samples"},
    ),
    Way(
        command=parity,
        step=journey.check,
        otherwise={"data": {"data"}, "task": {"task"}},
        config={"on": ParityOrder},
        words={"walk", "out"},
    ),
    Way(
        command=bench,
        step=journey.bench,
        otherwise={"bar": {"as_json"}},
        config={"plan": Plan},
        words={"required"},
    ),
    Way(
        command=generate,
        step=journey.generate,
        otherwise={
            "bar": {"as_json"},
            "steerings": names(GuideOrder),
        },
        config={"order": DrawOrder},
        words={"out", "key", "chain"},
    ),
    Way(command=replay, step=journey.replay, otherwise={"trust": {"trusted"}}),
    Way(
        command=run,
        step=journey.run,
        otherwise={"inputs": {"images", "array", "random", "seed"}, "trust": {"trusted"}},
        words={"outs"},
    ),
    Way(
        command=forget,
        step=journey.unlearn,
        otherwise={"data": {"spec", "on_bad"}, "options": {"pairs"}, "withhold": {"without"}},
        words={"word", "yes"},
    ),
    Way(
        command=release,
        step=journey.release,
        otherwise={
            "data": {"spec", "on_bad"},
            "signing": {"key", *names(PublicationOrder)} - {"number", "revokes"},
            "answering": {"requests", "all_open"},
            "ledger": {"where"},
        },
        config={"config": ReleaseConfig},
        words={"dry_run", "explain", "audited", "claim", "packs"},
        python={"bench_iterations", "bench_repeats", "threads", "workers"},
    ),
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.step.__name__)
def test_every_option_is_an_argument_of_the_journey_and_the_other_way_round(way: Way) -> None:
    made = EVERYWHERE | way.otherwise
    expected = {name for argument in way.arguments() for name in made.get(argument, {argument})}
    assert way.options() == expected | way.words | {"as_json"}


def test_a_plan_takes_what_a_release_takes() -> None:
    plan, walk = (
        inspect.signature(item).parameters for item in (journey.plan_release, journey.release)
    )
    assert set(walk) - set(plan) == {"restart"} and set(plan) <= set(walk)
