"""Writes ``conformal.json``: class-conditional split conformal prediction sets of crepes, which is
not installed for the tests.

``pip install crepes scikit-learn``, then ``python tests/sdk/evidence/assurance/make_conformal.py``.
Sets are (under, over) a person.
"""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np

LIMITS = (0.02, 0.05, 0.1)
YEARS = (8, 12, 14, 16, 17, 18, 19, 21, 25, 30, 40)


def people(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Ages and P(age >= 18) of some people."""
    age_N = rng.choice(YEARS, count)
    over_N = 1 / (1 + np.exp(-((age_N - 18.5) / 2.5 + rng.normal(0, 1.2, count))))
    return age_N, np.round(over_N, 6)


def sets(fitted_N: np.ndarray, label_N: np.ndarray, over_N: np.ndarray, limit: float) -> np.ndarray:
    """Which of the two labels crepes keeps of each person (N, 2)."""
    import crepes
    from crepes.extras import hinge

    conformal = crepes.ConformalClassifier()
    conformal.fit(
        hinge(np.stack([1 - fitted_N, fitted_N], axis=1), np.array([0, 1]), label_N), bins=label_N
    )
    wrong_N2 = np.stack([over_N, 1 - over_N], axis=1)
    kept = [
        conformal.predict_set(
            wrong_N2, bins=np.full(len(over_N), label), confidence=1 - limit, smoothing=False
        )[:, label]
        for label in (0, 1)
    ]
    return np.stack(kept, axis=1).astype(int)


def main() -> None:
    """Writes the file."""
    rng = np.random.default_rng(18)
    age_N, fitted_N = people(900, rng)
    _, asked_N = people(300, rng)
    result = {
        "crepes": version("crepes"),
        "age": age_N.tolist(),
        "fitted": fitted_N.tolist(),
        "asked": asked_N.tolist(),
        "sets": {
            str(limit): sets(fitted_N, (age_N >= 18).astype(int), asked_N, limit).tolist()
            for limit in LIMITS
        },
    }
    Path(__file__).with_name("conformal.json").write_text(
        json.dumps(result) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
