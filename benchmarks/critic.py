"""``python -m benchmarks.critic``: what a critic finds on the original, on unlearned models and on the oracle.

One small setting that learns its pictures by heart; the tables of docs/attacks.md are made of the JSON that this writes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from unplug.core import use_threads, versions, write_json
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.auditing import AuditConfig, AuditEvidence, AuditReport, CheckpointPredictor, Signals, run_audit
from unplug.sdk.auditing.attacks.head_difference import HeadDifferenceAttack, reconstruct
from unplug.sdk.auditing.attacks.task_loss import TaskLossAttack
from unplug.sdk.auditing.attacks.two_versions import TwoVersionsAttack
from unplug.sdk.data import load_dataset, make_split, pick_forget, resolve_names
from unplug.sdk.statistics import Estimate, auc, interval
from unplug.sdk.tasks import AgeTask, train_age
from unplug.sdk.training import Recipe, Sets, edges_of
from unplug.sdk.unlearning import forget, train_forgettable

from .canary_table import canary_rows

SPEC, TRUNK_SPEC = "synth:n=600,subjects=300,seed=0", "synth:n=600,subjects=300,seed=1"
RECIPE = Recipe(size="nano", image_size=32, epochs=24, batch_size=32, augment="flip", dropout=0.0, lr=6e-3)
METHODS = {"msg": 0.1, "finetune": 0.1}
"""Approximate methods, with their budgets."""
FRACTION = 0.15
BATCHES = {1: 8, 5: 5, 15: 2}
"""People who are forgotten in one step, and how many such steps are drawn."""
NOISES = (0.0, 0.01, 0.03, 0.1, 0.3)
"""Gaussian noise on the new head, in root mean squares of its weights."""
CPU = torch.device("cpu")
OUT = Path(__file__).parents[1] / "docs" / "data" / "critic.json"


def attack_rows(report: AuditReport, design: str) -> list[dict[str, Any]]:
    """A row for every model and attack: AUC, and minus the oracle's, with intervals."""
    rows = []
    for model in report.models:
        for name, attack in sorted(model.attacks.items()):
            gap = attack.minus_retrained
            rows.append(
                {
                    "design": design, "model": model.name, "attack": name, "auc": asdict(attack.auc),
                    "minus_retrained": None if gap is None else asdict(gap),
                }
            )  # fmt: skip
    return rows


def model_rows(report: AuditReport, design: str) -> list[dict[str, Any]]:
    """Use, shares used and alarms of every model."""
    return [
        {
            "design": design, "model": model.name,
            "test_mae": asdict(model.utility["test"].error), "retain_mae": asdict(model.utility["retain"].error),
            "usage": None if model.usage is None else asdict(model.usage),
            "alarms": [alarm.message for alarm in report.alarms if alarm.model == model.name],
        }
        for model in report.models
    ]  # fmt: skip


class Bench:
    """The models of one run, in one folder; what is there already is not made again."""

    def __init__(
        self, work: Path, seed: int, say: Callable[[str], None], *, spec: str = SPEC, trunk: str = TRUNK_SPEC,
        recipe: Recipe = RECIPE, fraction: float = FRACTION,
    ) -> None:  # fmt: skip
        self.work, self.seed, self.say, self.recipe, self.trunk = work, seed, say, recipe, trunk
        self.dataset = load_dataset(spec, recipe.image_size, show=False)
        self.split = make_split(self.dataset, seed=seed)
        names = pick_forget(self.dataset, self.split, fraction=fraction, seed=seed)
        self.ids = resolve_names(names, self.dataset, "benchmark")
        self.task = AgeTask(recipe=recipe, edges=edges_of(self.dataset))

    def made(self, name: str, make: Callable[[Path], Checkpoint]) -> Checkpoint:
        """A checkpoint of the folder, made where it is not there."""
        path = self.work / name
        if (path / "unplug.json").is_file():
            return load_checkpoint(path)
        self.say(f"making {name} ...")
        return make(path)

    def original(self) -> Checkpoint:
        """The model under audit: an ordinary network, trained on everybody, with nothing made to forget."""
        return self.made(
            "original",
            lambda path: train_age(self.dataset, self.split, self.recipe, path, seed=self.seed, device=CPU, show=False),
        )

    def exact(self) -> Checkpoint:
        """A closed-form head over a trunk of other people's procedural faces."""

        def make(path: Path) -> Checkpoint:
            others = load_dataset(self.trunk, self.recipe.image_size, show=False)
            return train_forgettable(
                "closed-form", self.dataset, self.split, self.recipe, path, trunk_data=others, seed=self.seed, device=CPU,
                show=False,
            )  # fmt: skip

        return self.made("closed-form", make)

    def forgot(self, original: Checkpoint, name: str, ids: Sequence[str], method: str | None, **options: Any) -> Checkpoint:
        """An unlearned or retrained model."""
        return self.made(
            name, lambda path: forget(original, self.dataset, ids, method, path, device=CPU, show=False, **options)
        )

    def audit(
        self,
        original: Checkpoint,
        unlearned: Sequence[Checkpoint],
        retrained: Checkpoint,
        references: Sequence[Checkpoint],
    ) -> AuditReport:
        """All attacks that the request supports."""
        config = AuditConfig(
            subjects=[item.path for item in unlearned], spec=self.dataset, on_bad="error", forget_file=self.ids,
            original=original.path, retrained=retrained.path, references=[item.path for item in references],
            train_references=0, attacks=None, seed=self.seed, work=self.work,
        )  # fmt: skip
        return run_audit(config, CPU, self.say, False)


def remedies(bench: Bench, exact: Checkpoint) -> dict[str, list[dict[str, Any]]]:
    """Two versions of the exact design: deletions in batches, noise on the new head, and without the old file."""
    rng = np.random.default_rng([bench.seed, 5])
    split = bench.split.with_forget(bench.ids)
    people: dict[str, list[str]] = {}
    for index in bench.dataset.indices(split.forget):
        sample = bench.dataset.samples[int(index)]
        people.setdefault(sample.person, []).append(sample.id)
    names = sorted(people)
    batches, noises = [], []
    for size, draws in BATCHES.items():
        found: list[dict[str, float]] = []
        for draw in range(draws):
            chosen = [names[index] for index in rng.permutation(len(names))[:size]]
            ids = [name for person in chosen for name in people[person]]
            new = bench.forgot(exact, f"batch-{size}-{draw}", ids, None)
            found.append(two_versions(bench, exact, new, ids))
            if size == 5:
                noises += [noisy(bench, exact, new, ids, noise, draw) for noise in NOISES]
        batches.append(
            {"people": size, "draws": draws, **{key: asdict(_mean([row[key] for row in found])) for key in found[0]}}
        )
    return {"batches": batches, "noise": _by_noise(noises)}


def two_versions(bench: Bench, old: Checkpoint, new: Checkpoint, ids: Sequence[str]) -> dict[str, float]:
    """AUC of the old file and the new one together, of the new one alone, and how well a single picture is reconstructed."""
    sets = bench.task.sets(bench.dataset, bench.split.with_forget(ids), CPU)
    before, after = (_inside(bench, item, sets) for item in (old, new))
    both = replace(after, before=before)
    single = replace(after, before=None)
    found = {
        "two-versions": auc(*TwoVersionsAttack()(both, [])), "head-difference": auc(*HeadDifferenceAttack()(both, [])),
        "new file alone": auc(*TaskLossAttack()(single, [])),
    }  # fmt: skip
    assert both.inside is not None and before.inside is not None
    guess_C = reconstruct(before.inside, both.inside)
    candidates = np.concatenate([both.inside.forget_FC, both.inside.unseen_UC])
    cosine_N = _centred(candidates, both.inside.population_ZC) @ _centred(guess_C[None], both.inside.population_ZC)[0]
    found["reconstruction cosine"] = float(cosine_N[: len(both.inside.forget_FC)].max())
    found["reconstruction first"] = float(cosine_N.argmax() < len(both.inside.forget_FC))
    return found


def _centred(feature_NC: np.ndarray, population_ZC: np.ndarray) -> np.ndarray:
    """Features above the population's mean, each of length one."""
    gap_NC = feature_NC - population_ZC.mean(axis=0)
    return np.asarray(gap_NC / np.linalg.norm(gap_NC, axis=1, keepdims=True))


def noisy(bench: Bench, old: Checkpoint, new: Checkpoint, ids: Sequence[str], noise: float, draw: int) -> dict[str, float]:
    """The same with noise on the new head, and what that costs in years."""
    model = load_checkpoint(new.path).model
    generator = torch.Generator().manual_seed(1000 * bench.seed + draw)
    with torch.no_grad():
        for value in (model.classifier.weight, model.classifier.bias):
            value += noise * value.square().mean().sqrt() * torch.randn(value.shape, generator=generator)
    sets = bench.task.sets(bench.dataset, bench.split.with_forget(ids), CPU)
    before, after = (_inside(bench, item, sets) for item in (old, replace(new, model=model)))
    both = replace(after, before=before)
    return {
        "noise": noise, "two-versions": auc(*TwoVersionsAttack()(both, [])),
        "head-difference": auc(*HeadDifferenceAttack()(both, [])), "test MAE": float(after.unseen.error_N.mean()),
    }  # fmt: skip


def _inside(bench: Bench, checkpoint: Checkpoint, sets: Sets) -> Signals:
    predictor = CheckpointPredictor(name="model", role="unlearned", checkpoint=checkpoint, task=bench.task)
    return predictor.further(predictor.signals(sets), sets, AuditEvidence())


def _by_noise(rows: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
    found = []
    for noise in NOISES:
        own = [row for row in rows if row["noise"] == noise]
        found.append({"noise": noise, **{key: asdict(_mean([row[key] for row in own])) for key in own[0] if key != "noise"}})
    return found


def _mean(values: Sequence[float]) -> Estimate:
    """Mean over draws with its bootstrap interval; none over fewer than five draws."""
    value_N = np.asarray(values, np.float64)
    if len(value_N) < 5:
        return Estimate(value=float(value_N.mean()))
    draws_RN = np.random.default_rng(7).integers(len(value_N), size=(1000, len(value_N)))
    low, high = interval(value_N[draws_RN].mean(axis=1))
    return Estimate(value=float(value_N.mean()), low=low, high=high)


@click.command()
@click.option("--work", type=click.Path(path_type=Path), required=True, help="Folder of the models; what is there is used.")
@click.option("--seed", default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=OUT, show_default=False, help="JSON to write.")
def main(work: Path, seed: int, out: Path) -> None:
    """Trains, forgets and attacks; writes the JSON behind docs/attacks.md."""
    use_threads(1)
    start = time.monotonic()
    bench = Bench(work, seed, click.echo)
    original = bench.original()
    oracle = bench.forgot(original, "retrained", bench.ids, "retrain", seed=seed + 5)
    unlearned = [
        bench.forgot(original, method, bench.ids, method, budget=budget, oracle=oracle, seed=seed)
        for method, budget in METHODS.items()
    ]
    references = [
        bench.forgot(original, f"reference-{number}", bench.ids, "retrain", seed=seed + 1000 + number) for number in range(2)
    ]
    ordinary = bench.audit(original, unlearned, oracle, references)
    exact = bench.exact()
    forgot = bench.forgot(exact, "closed-form-forgot", bench.ids, None)
    refit = bench.forgot(exact, "closed-form-refit", bench.ids, "retrain")
    designed = bench.audit(exact, [forgot], refit, ())
    result = {
        "command": f"python -m benchmarks.critic --work WORK --seed {seed}",
        "setting": {
            "data": SPEC, "trunk": TRUNK_SPEC, "recipe": RECIPE.to_dict(), "budgets": METHODS, "seed": seed,
            "forget": dict(ordinary.forget), "test": len(bench.split.test), "references": 2,
        },
        "attacks": [*attack_rows(ordinary, "none"), *attack_rows(designed, "closed-form")],
        "models": [*model_rows(ordinary, "none"), *model_rows(designed, "closed-form")],
        "skipped": {"none": ordinary.skipped, "closed-form": designed.skipped},
        "threats": [asdict(item) for item in ordinary.threats],
        "remedies": remedies(bench, exact),
        "canaries": canary_rows(work, seed, click.echo),
        "versions": versions(),
        "seconds": round(time.monotonic() - start, 1),
    }  # fmt: skip
    write_json(out, result)
    click.echo(f"saved {out} after {result['seconds']} seconds")


if __name__ == "__main__":
    main()
