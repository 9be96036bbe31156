"""``python -m benchmarks.studies``: leaderboards, controls compared, canaries, concepts taught; from a
checkout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import click

from unplug.sdk.cli.commands import LazyCommand, LazyGroup

HERE = "benchmarks.studies"


class Studies(LazyGroup):
    """The studies, each imported when it is called."""

    table: ClassVar[Mapping[str, LazyCommand]] = {
        "leaderboard": LazyCommand(
            f"{HERE}.leaderboard.command:leaderboard",
            "Rank all methods under one protocol, seeds at three levels.",
        ),
        "compare": LazyCommand(
            f"{HERE}.control.command:compare",
            "Train ControlNet, T2I-Adapter and the plugin beside one base; compare.",
        ),
        "canaries": LazyCommand(
            f"{HERE}.canaries.command:canaries",
            "Plant people with wrong ages; bound epsilon from one training run.",
        ),
        "erasure": LazyCommand(
            f"{HERE}.erasure.command:erasure",
            "Teach the shipped base concepts that it never saw, with oracles.",
        ),
    }


@click.group(cls=Studies, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Studies of many models, to learn about methods. No request needs one.

    Exit codes: 0 all good; 2 bad usage or input.
    """


if __name__ == "__main__":
    main(prog_name=f"python -m {HERE}")
