"""Options of `unplug release` are the arguments of the journey's release, and errors from below
name them by their flags.
"""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path

import click
import pytest
from tests.sdk.conftest import World

from unplug.sdk import journey
from unplug.sdk.cli.release import release
from unplug.sdk.releasing import ReleaseConfig

from .calls import fail

SAID_OTHERWISE = {
    "original": {"checkpoint"},
    "data": {"spec", "on_bad"},
    "forget_ids": {"forget_file"},
    "signing": {
        "signing",
        "public",
        "chain",
        "product",
        "number",
        "expires",
        "supersedes",
        "revokes",
        "answers",
    },
    "answering": {"requests", "all_open"},
    "ledger": {"where", "timezone"},
    "overrides": {"overrides", "reasons"},
    "device": {"device_name"},
    "task": set[str](),
    "say": set[str](),
    "show": {"as_json"},
}
"""Arguments of the journey that are objects, and the options from which the command makes them."""
HELP = {"help", "_click_default_help"}
OF_THE_COMMAND = {"dry_run", "hourly", "explain"}
"""Which function is called, and what is printed of its result."""


def test_every_option_is_an_argument_of_the_journey_and_the_other_way_round() -> None:
    named = set(inspect.signature(journey.release).parameters) - {"config"}
    arguments = named | {item.name for item in fields(ReleaseConfig)}
    expected = {name for argument in arguments for name in SAID_OTHERWISE.get(argument, {argument})}
    context = click.Context(release, info_name="release")
    options = {option.name for option in release.get_params(context)} - HELP
    assert options - OF_THE_COMMAND == expected and options >= OF_THE_COMMAND


def test_a_plan_takes_what_a_release_takes() -> None:
    plan, walk = (
        inspect.signature(item).parameters for item in (journey.plan_release, journey.release)
    )
    assert set(walk) - set(plan) == {"restart"} and set(plan) <= set(walk)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--gate", "max_mea=1"), "--gate max_mea: no such gate. Known: allow_not_run, "),
        (("--gate", "worst_person=7"), "--gate worst_person=7: neither true nor false."),
        (
            ("--gate", "max_mae_above_retrained"),
            "--gate max_mae_above_retrained: it is not KEY=VALUE.",
        ),
        (("--set", "lr"), "--set lr: it is not KEY=VALUE."),
        (("--gate", "max_group_shift=1"), "could move. Add --decision FILE, or leave it out."),
        (
            ("--decision-data", "synth:n=9"),
            "--decision-data: no decision is given. Add --decision FILE",
        ),
        (("--override", "utility", "--reason", " "), "--override utility: its reason is empty"),
        (
            ("--fleet", "nowhere", "--gate", "min_relearn_of_retrained=1"),
            "Add --oracle, or leave the gate out",
        ),
    ],
)
def test_errors_name_flags(world: World, tmp_path: Path, more: tuple[str, ...], says: str) -> None:
    asked = ("--data", world.spec, "--forget", world.forget_file, "--out", tmp_path / "b")
    line = fail("release", world.original.path, *asked, *more).line
    assert says in line and "`" not in line.replace("`unplug", "").replace("...`", "")


def test_a_number_out_of_range_is_refused(world: World, tmp_path: Path) -> None:
    asked = ("--data", world.spec, "--forget", world.forget_file, "--out", tmp_path / "b")
    assert "0<=x<=64" in fail("release", world.original.path, *asked, "--references", 65).line
