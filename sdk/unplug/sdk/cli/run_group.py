"""Groups that may be called without a subcommand."""

from __future__ import annotations

import click


class RunGroup(click.Group):
    """Where the first word is not a subcommand, the command ``run`` is meant."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Puts ``run`` in front of what belongs to it."""
        known = (*self.commands, "--help")
        return super().parse_args(ctx, args if args and args[0] in known else ["run", *args])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand of a name, else ``run``."""
        return super().get_command(ctx, cmd_name) or super().get_command(ctx, "run")
