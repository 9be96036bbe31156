"""``unplug replay``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from unplug.core import counted
from unplug.sdk import journey

from .base import Common, Outcome, command, device_option
from .bundle import trust_of, trust_option
from .options import path_argument, path_option, spec_option


@click.command()
@path_argument("bundle")
@path_option("--state", required=True, help="The released checkpoint, with its state.")
@spec_option(
    "The training's data: the state is computed again from the pictures too.", required=False
)
@trust_option
@device_option
@command
def replay(
    bundle: Path, state: Path, spec: str | None, trusted: tuple[Path, ...], common: Common
) -> Outcome:
    """Compute the head of BUNDLE again from its state, bit for bit (exit 1 where it differs)."""
    from unplug.sdk.releasing import NOT_SHOWN

    done = journey.replay(
        bundle,
        state,
        data=spec,
        trust=trust_of(trusted),
        device=common.device_name,
        show=common.show,
    )
    lines = [f"differs: {'; '.join(done.differs)}"] * bool(done.differs)
    lines += [f"equal: {line}" for line in done.equal]
    lines += [f"not compared: {line}" for line in done.untold]
    lines.append(f"{counted(done.samples, 'sample')}, {done.seconds:.1f} s. {NOT_SHOWN}.")
    return Outcome(value=asdict(done), text="\n".join(lines), ok=not done.differs)
