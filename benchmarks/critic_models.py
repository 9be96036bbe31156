"""``python -m benchmarks.critic_models demo|utkface``: the critic's attacks on the demo's models, and on photographs.

As `benchmarks.critic`, at a release's own budget and with the recipes that ship: no model here was made to remember.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import click

from unplug.core import InputError, use_threads, versions, write_json
from unplug.sdk.releasing import DEMO_RECIPE, DEMO_SPEC, DEMO_TRUNK
from unplug.sdk.training import Recipe

from .critic import OUT, Bench, attack_rows, model_rows

METHODS, BUDGET = ("msg", "fcs", "lens", "finetune"), 0.05


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is trained on, how, and how much is forgotten; `trunk` of the exact design, where there is one."""

    spec: str
    told: str
    recipe: Recipe
    fraction: float
    trunk: str | None = None


def setting_of(name: str) -> Setting:
    """The setting of a name; the folder of the photographs is not told to anybody.

    Raises:
        InputError: ``UNPLUG_UTKFACE`` names no folder.
    """
    if name == "demo":
        return Setting(spec=DEMO_SPEC, told=DEMO_SPEC, recipe=DEMO_RECIPE, fraction=0.05, trunk=DEMO_TRUNK)
    folder = os.environ.get("UNPLUG_UTKFACE", "")
    if not Path(folder).is_dir():
        raise InputError("UNPLUG_UTKFACE", "it names no folder", "Set it to the folder of UTKFace")
    return Setting(
        spec=f"utkface:{folder}", told="utkface:DIR", recipe=Recipe(size="nano", image_size=64, epochs=12), fraction=0.02
    )


@click.command()
@click.argument("name", type=click.Choice(["demo", "utkface"]))
@click.option("--work", type=click.Path(path_type=Path), required=True, help="Folder of the models; what is there is used.")
@click.option("--seed", default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="JSON to write (default: beside that of benchmarks.critic).")
def main(name: str, work: Path, seed: int, out: Path | None) -> None:
    """Trains, forgets and attacks; writes a table of docs/attacks.md as JSON."""
    use_threads(1)
    start, setting = time.monotonic(), setting_of(name)
    trunk = {} if setting.trunk is None else {"trunk": setting.trunk}
    bench = Bench(work, seed, click.echo, spec=setting.spec, recipe=setting.recipe, fraction=setting.fraction, **trunk)
    original = bench.original()
    oracle = bench.forgot(original, "retrained", bench.ids, "retrain", seed=seed)
    unlearned = [
        bench.forgot(original, method, bench.ids, method, budget=BUDGET, oracle=oracle, seed=seed) for method in METHODS
    ]
    reports = {"none": bench.audit(original, unlearned, oracle, ())}
    if setting.trunk is not None:
        exact = bench.exact()
        forgot = bench.forgot(exact, "closed-form-forgot", bench.ids, None)
        refit = bench.forgot(exact, "closed-form-refit", bench.ids, "retrain")
        reports["closed-form"] = bench.audit(exact, [forgot], refit, ())
    result = {
        "command": f"python -m benchmarks.critic_models {name} --work WORK --seed {seed}",
        "setting": {
            "data": setting.told, "trunk": setting.trunk, "recipe": setting.recipe.to_dict(), "budget": BUDGET, "seed": seed,
            "forget": dict(reports["none"].forget), "test": len(bench.split.test), "references": 0,
        },
        "columns": ["original", *METHODS, "retrained"],
        "attacks": [row for design, report in reports.items() for row in attack_rows(report, design)],
        "models": [row for design, report in reports.items() for row in model_rows(report, design)],
        "skipped": {design: report.skipped for design, report in reports.items()},
        "versions": versions(),
        "seconds": round(time.monotonic() - start, 1),
    }  # fmt: skip
    place = OUT.with_name(f"critic-{name}.json") if out is None else out
    write_json(place, result)
    click.echo(f"saved {place} after {result['seconds']} seconds")


if __name__ == "__main__":
    main()
