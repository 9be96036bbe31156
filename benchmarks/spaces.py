"""What the tuning of each method may choose from: the same kind of room for all, declared before anything was run.

Rates span a hundredfold or more around the default, logarithmically; shares and weights what their papers vary; the batch is
16, 32 or 64 for every method that takes steps. Trial 0 is always the method's own default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Between:
    """A number in [low, high], on a logarithmic scale where `log` is true; whole numbers where both ends are."""

    low: float
    high: float
    log: bool = True

    def draw(self, trial: Any, name: str) -> str:
        """A value of an Optuna trial, as text for ``--set``."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return str(trial.suggest_int(name, self.low, self.high, log=self.log))
        return f"{trial.suggest_float(name, self.low, self.high, log=self.log):.4g}"


@dataclass(frozen=True)
class OneOf:
    """One of several texts."""

    values: tuple[str, ...]

    def draw(self, trial: Any, name: str) -> str:
        """A value of an Optuna trial."""
        return str(trial.suggest_categorical(name, list(self.values)))


Space = Mapping[str, Between | OneOf]
BATCH = OneOf(("16", "32", "64"))
RATE = Between(1e-4, 3e-2)
SMALL_RATE = Between(1e-6, 1e-2)
STEPPED: Space = {"lr": RATE, "batch_size": BATCH}
GENTLE: Space = {"lr": SMALL_RATE, "batch_size": BATCH}
SHARE = Between(0.05, 0.95, False)
TEMPERATURE = Between(0.5, 8.0)

SPACES: dict[str, Space] = {
    "short-retrain": STEPPED,
    "finetune": STEPPED,
    "msg": {**STEPPED, "ratio": Between(0.01, 0.6), "keep": Between(0.02, 1.0)},
    "lens": {**STEPPED, "lenses": OneOf(("1", "2", "4")), "strength": Between(1, 4, False), "clear": Between(0.0, 0.75, False),
             "weight": Between(0.1, 8.0)},
    "neggrad+": {**STEPPED, "alpha": Between(0.5, 0.999, False), "ceiling": Between(0.5, 4.0)},
    "scrub": {**GENTLE, "alpha": Between(0.05, 4.0), "gamma": Between(0.1, 4.0), "temperature": TEMPERATURE,
              "rounds": Between(3, 6, False), "max_rounds": Between(1, 3, False)},
    "fcs": {**STEPPED, "flatten_lr": Between(1e-4, 2e-2), "contrast_lr": Between(1e-5, 1e-2), "forget_share": SHARE,
            "rounds": Between(1, 8, False)},
    "gaussian-amnesiac": STEPPED,
    "l1-sparse": {**STEPPED, "gamma": Between(1e-6, 1e-2)},
    "blindspot": {**STEPPED, "blind_share": SHARE, "attention": Between(1.0, 200.0)},
    "rni": {**STEPPED, "sigma": Between(0.005, 0.2), "stretches": Between(5, 9, False), "noisy": Between(0, 4, False)},
    "rurk": {**STEPPED, "alpha": Between(0.5, 0.999, False), "epsilon": Between(0.005, 0.1), "ceiling": Between(0.5, 4.0)},
    "salun": {**GENTLE, "ratio": Between(0.1, 1.0, False), "alpha": Between(0.1, 10.0)},
    "ssd": {"alpha": Between(1.05, 50.0), "dampening": Between(0.05, 2.0)},
    "bad-teacher": {**GENTLE, "retain_share": SHARE, "temperature": TEMPERATURE},
    "neggrad": {**GENTLE, "ceiling": Between(0.5, 4.0)},
    "scrub+r": {**GENTLE, "alpha": Between(0.05, 4.0), "gamma": Between(0.1, 4.0), "temperature": TEMPERATURE,
                "rounds": Between(3, 6, False), "max_rounds": Between(1, 3, False)},
    "distil-to-delete": {**GENTLE, "alpha": SHARE, "features": Between(0.05, 10.0), "temperature": TEMPERATURE},
    "eu-k": {**STEPPED, "k": Between(1, 4, False)},
    "cf-k": {**STEPPED, "k": Between(1, 4, False)},
    "prmq": {**STEPPED, "ratio": Between(0.005, 0.9), "match": Between(0.1, 10.0)},
    "cfw": {**STEPPED, "sigma": Between(0.005, 0.8), "late_sigma": Between(0.0005, 0.05)},
    "ct": STEPPED,
    "kde": {**STEPPED, "validation_lr": RATE, "validation_share": SHARE, "temperature": TEMPERATURE},
    "unsir": {**STEPPED, "impair_lr": Between(1e-5, 1e-2), "noise_lr": Between(0.01, 1.0), "penalty": Between(0.01, 1.0)},
    "iau": {"lr": Between(1e-4, 1.0)},
    "acu": {"ridge": Between(1e-4, 10.0)},
    "ssd-label-free": {"alpha": Between(1.05, 50.0), "dampening": Between(0.05, 2.0)},
    "laf": {**GENTLE, "temperature": TEMPERATURE, "vae_steps": Between(10, 200)},
}  # fmt: skip
"""In the order in which they are tuned: baselines first, then the strongest of earlier boards, then the rest."""

PUBLISHED: dict[str, dict[str, str]] = {
    "finetune": {"lr": "0.1", "optimizer": "sgd", "batch_size": "128"},
    "msg": {"ratio": "0.3", "lr": "0.001"},
    "fcs": {"flatten_lr": "0.005", "contrast_lr": "0.0003", "lr": "0.004", "batch_size": "256", "optimizer": "sgd"},
    "neggrad+": {"alpha": "0.95", "lr": "0.01", "optimizer": "sgd"},
    "scrub": {"alpha": "0.5", "gamma": "1", "temperature": "4", "lr": "0.0005"},
    "salun": {"ratio": "0.5", "lr": "0.013", "optimizer": "sgd"},
    "ssd": {"alpha": "10", "dampening": "1"},
    "cfw": {"sigma": "0.6", "late_sigma": "0.005", "lr": "0.0007", "optimizer": "sgd"},
    "prmq": {"ratio": "0.99", "lr": "0.0005", "optimizer": "sgd"},
    "ct": {"lr": "0.001"},
    "kde": {"temperature": "5", "validation_lr": "0.0009", "lr": "0.001", "optimizer": "sgd"},
    "rni": {"sigma": "0.04", "lr": "0.0002", "optimizer": "sgd"},
}
"""Settings as the papers or their released code have them, where they name any; the budget is the board's all the same."""
