"""``unplug demo``."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from unplug.core import percent, require_modules, seconds

from .base import Common, Outcome, command, computing, folded
from .options import FloatRange, faces_option, on_bad_option, out_option, spec_option
from .release import gate_lines


@click.command()
@spec_option("Data (default: embedded synthetic faces).", required=False)
@on_bad_option()
@click.option(
    "--fraction",
    type=FloatRange(0, 1, min_open=True, max_open=True),
    help="Fraction of the training set to forget, in whole people (default: one person; 0.02 with --data).",
)
@click.option(
    "--size",
    type=click.Choice(["nano", "small", "base"]),
    help="Model (default nano; small with --data).",
)
@click.option(
    "--pixels",
    "image_size",
    type=click.IntRange(32, 224),
    help="Input side in pixels (default 48; 64 with --data).",
)
@click.option(
    "--epochs",
    type=click.IntRange(1, 100_000),
    help="Epochs of the original (default 20; 40 with --data).",
)
@click.option(
    "--method",
    help="Train an ordinary model, as --data does, and forget by this (`unplug list methods`).",
)
@faces_option
@click.option(
    "--restart",
    is_flag=True,
    help="Drop unfinished trainings of an earlier run instead of continuing them.",
)
@out_option("Folder for everything.", required=False, default=Path("unplug-demo"))
@computing
@command
def demo(
    spec: str | None,
    on_bad: Any,
    fraction: float | None,
    size: str | None,
    image_size: int | None,
    epochs: int | None,
    method: str | None,
    faces: bool,
    restart: bool,
    out: Path,
    common: Common,
) -> Outcome:
    """Train, forget one person, audit, export, check, time, bundle and report, on embedded
    synthetic faces.

    The model is made to forget: it forgets exactly. For comparison an ordinary one forgets the same
    person approximately. With --data or --method an ordinary model is trained on your data and
    released by a method instead. Run it again after a kill: models that are done are used again.
    """
    require_modules(("torch", "litert_torch", "coremltools", "onnx"), "demo")
    from unplug.sdk.learning.training import Recipe
    from unplug.sdk.releasing import DEMO_RECIPE, DemoConfig, run_demo

    recipe = DEMO_RECIPE if spec is None else Recipe()
    changes: dict[str, Any] = {"size": size, "image_size": image_size, "epochs": epochs}
    known = {key: value for key, value in changes.items() if value is not None}
    recipe = replace(recipe, **known).halved()
    config = DemoConfig(recipe=recipe, on_bad=on_bad, seed=common.seed)
    if spec is not None or method is not None:
        config = replace(
            config, trunk_spec=None, fraction=0.02, spec=config.spec if spec is None else spec
        )
    if fraction is not None:
        config = replace(config, fraction=fraction)
    if method is not None:
        config = replace(config, release=replace(config.release, method=method))
    config = replace(config, release=replace(config.release, faces=faces, seed=common.seed))
    done = run_demo(
        config, out, device=common.device, say=common.say, show=common.show, restart=restart
    )
    lines = gate_lines(done.summary)
    if done.refusal is not None:
        lines.append(folded(f"REFUSED: {done.refusal}"))
    else:
        lines.append(f"bundle  {done.bundle}")
    lines.append(f"report  {done.report} ({done.seconds:.0f} s in all)")
    lines += [line for way in done.ways for line in _way_lines(way)]
    value = done.summary | {
        "report": str(done.report),
        "bundle": done.bundle and str(done.bundle),
        "seconds": done.seconds,
        "ways": [asdict(way) for way in done.ways],
    }
    return Outcome(value=value, text="\n".join(lines), ok=done.refusal is None)


def _way_lines(way: Any) -> list[str]:
    before, after = way.test_mae
    theirs = "{:.1f} years before, {:.1f} after, {:.1f} had they never been there".format(
        *way.error
    )
    cost = f"{seconds(way.wall_s)}, {percent(way.compute_fraction)} of retraining"
    return [
        folded(f"{way.model}: forgets by {way.method} in {cost}; {way.verdict}"),
        folded(
            f"  test MAE {before:.2f} before, {after:.2f} after; error on the forgotten pictures "
            f"{theirs}"
        ),
    ]
