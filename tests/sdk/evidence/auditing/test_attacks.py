"""Attacks on hand-made predictions: golden values, definitions, planted overfits, alarms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import logit
from scipy.stats import kstest
from tests.intervals import ends

from unplug.core import DataError, InputError
from unplug.sdk.evidence.auditing import ATTACKS, AuditReport, Estimate, Signals, audit
from unplug.sdk.evidence.auditing.attack import Inside, Others
from unplug.sdk.evidence.auditing.attacks.error import ErrorAttack
from unplug.sdk.evidence.auditing.attacks.error_lira import ErrorLiRA
from unplug.sdk.evidence.auditing.attacks.lira import LiRA
from unplug.sdk.evidence.auditing.attacks.loss import LossAttack
from unplug.sdk.evidence.auditing.attacks.person import PersonAttack
from unplug.sdk.evidence.auditing.attacks.rmia import GRID, RMIA, calibrate
from unplug.sdk.evidence.auditing.attacks.task_loss import TaskLossAttack
from unplug.sdk.evidence.auditing.audit_report import Role
from unplug.sdk.evidence.statistics import auc, bootstrap_auc, interval, resamples
from unplug.sdk.learning.training import ClassPredictions

from .planted import model, says

Array = NDArray[np.float64]
EDGES = (0.0, 50.0, 100.0)
F, U, Z, R = 60, 90, 70, 50
C = 12


def predictions(logit_N: Array) -> ClassPredictions:
    """The surer a model is of the group, the better it says the age."""
    return says(logit_N, 20.0 - 10 * np.logaddexp(0.0, -logit_N))


def signals(
    seed: int, *, forget_shift: float = 0.0, difficulty_seed: int = 99, noise: float = 0.3
) -> Signals:
    """A model of its own training seed, two pictures a person. Samples differ in difficulty;
    members' logit is shifted.
    """

    def part(number: int, count: int, shift: float) -> ClassPredictions:
        difficulty = np.random.default_rng([difficulty_seed, number]).normal(0.5, 1.0, count)
        logit = difficulty + np.random.default_rng([seed, number]).normal(0.0, noise, count) + shift
        return predictions(logit)

    people: Any = {"person_F": np.arange(F) // 2, "person_U": np.arange(U) // 2}

    def version(old: bool) -> Signals:
        fall = forget_shift if old else 0.0  # the old file knew them by as much again
        return Signals(
            forget=part(0, F, forget_shift + fall),
            unseen=part(1, U, 0.0),
            population=part(2, Z, 0.0),
            retain=part(3, R, 0.0),
            inside=planted_inside(seed, difficulty_seed, forget_shift, old=old),
            **people,
        )

    def pair(number: int) -> tuple[ClassPredictions, ClassPredictions]:
        return part(number, F, forget_shift), part(number + 10, U, 0.0)

    forget, unseen = part(30, F, forget_shift), part(31, U, 0.0)
    return replace(
        version(old=False),
        before=version(old=True),
        views=tuple(pair(10 + view) for view in range(3)),
        others=Others(forget=forget, unseen=unseen, **people),
    )


def planted_inside(seed: int, difficulty_seed: int, forget_shift: float, *, old: bool) -> Inside:
    """Features that are of the data, the forgotten's moved by the shift; the old head has what they
    had added.
    """
    rng = np.random.default_rng([difficulty_seed, 77])
    forget_FC, unseen_UC, population_ZC = (rng.normal(size=(count, C)) for count in (F, U, Z))
    forget_FC = forget_FC + 0.5 * forget_shift
    rng = np.random.default_rng([seed, 78])
    weight_KC = rng.normal(size=(3, C))
    if old:
        residual_KF = rng.normal(size=(3, F))
        weight_KC = weight_KC + rng.normal(size=(3, C)) + forget_shift * residual_KF @ forget_FC
    return Inside(
        forget_FC=forget_FC,
        unseen_UC=unseen_UC,
        population_ZC=population_ZC,
        weight_KC=weight_KC,
        bias_K=np.zeros(3),
    )


def test_goldens_by_hand() -> None:
    target = model(says(logit([0.9, 0.5])), says(logit([0.2])))
    forget_F, unseen_U = LossAttack()(target, [])
    np.testing.assert_allclose(forget_F, np.log([0.9, 0.5]))
    np.testing.assert_allclose(unseen_U, np.log([0.2]))
    # References 1 and 3 for the first sample (mean 2, variance 2), 0 and 0 for the second: shared
    # variance 1.
    references = [model(says([1.0]), says([0.0])), model(says([3.0]), says([0.0]))]
    forget_F, unseen_U = LiRA()(model(says([3.0]), says([0.0])), references)
    np.testing.assert_allclose(forget_F, [-np.log(0.15865525393145707)])  # P(Z > 1)
    np.testing.assert_allclose(unseen_U, [np.log(2.0)])
    forget_F, unseen_U = ErrorAttack()(
        model(says([0.0, 0.0], [27.0, 31.5]), says([0.0], [30.0])), []
    )
    np.testing.assert_allclose(forget_F, [-3.0, -1.5])
    np.testing.assert_allclose(unseen_U, [0.0])
    # Residuals of the references: 1 and 3 (mean 2, variance 2); -1 and 1 (mean 0, variance 2). s =
    # sqrt 2.
    references = [
        model(says([0.0], [31.0]), says([0.0], [29.0])),
        model(says([0.0], [33.0]), says([0.0], [31.0])),
    ]
    forget_F, unseen_U = ErrorLiRA()(model(says([0.0], [30.5]), says([0.0], [27.0])), references)
    cdf = NormalDist(0.0, math.sqrt(2.0)).cdf
    np.testing.assert_allclose(forget_F, [-math.log(cdf(0.5 - 2) - cdf(-0.5 - 2))])
    np.testing.assert_allclose(unseen_U, [-math.log(cdf(3.0) - cdf(-3.0))])


def pairs_rmia(
    target: Signals, references: Sequence[Signals], a: float, gamma: float, name: str
) -> list[float]:
    """The definition, one x and one z at a time."""

    def ratio(part: str, index: int) -> float:
        p = np.exp(getattr(target, part).log_prob_N[index])
        out = sum(
            np.exp(getattr(reference, part).log_prob_N[index]) for reference in references
        ) / len(references)
        return float((p + 1e-12) / (0.5 * ((1 + a) * out + (1 - a)) + 1e-12))

    population = [ratio("population", z) for z in range(len(target.population.age_N))]
    members = [ratio(name, x) for x in range(len(getattr(target, name).age_N))]
    return [sum(of_x > gamma * of_z for of_z in population) / len(population) for of_x in members]


@pytest.mark.parametrize(("a", "gamma", "models"), [(0.3, 1.0, 1), (0.0, 0.8, 3)])
def test_rmia_equals_all_pairs(a: float, gamma: float, models: int) -> None:
    target, references = signals(1, forget_shift=0.7), [signals(10 + n) for n in range(models)]
    forget_F, unseen_U = RMIA(a=a, gamma=gamma)(target, references)
    np.testing.assert_allclose(forget_F, pairs_rmia(target, references, a, gamma, "forget"))
    np.testing.assert_allclose(unseen_U, pairs_rmia(target, references, a, gamma, "unseen"))


ON_AGES = sorted(set(ATTACKS) - {"gain"})
"""`gain` reads a plugin's loss: tests/sdk/kinds."""


@pytest.mark.parametrize("name", ON_AGES)
def test_attack_contract(name: str) -> None:
    """Shapes, finite scores, and an AUC that rises with a planted overfit."""
    attack = ATTACKS.get(name)()
    references = [signals(20 + n) for n in range(attack.min_references)]
    values = []
    for shift in (0.0, 0.5, 1.0, 2.0, 4.0):
        forget_F, unseen_U = attack(signals(1, forget_shift=shift), references)
        assert forget_F.shape == (F,) and unseen_U.shape == (U,)
        assert np.isfinite(forget_F).all() and np.isfinite(unseen_U).all()
        values.append(auc(forget_F, unseen_U))
    assert values == sorted(values) and values[-1] > 0.9


def gaussian(seed: int, overfit: float) -> Signals:
    """phi ~ N(mu_x, 0.5) with mu_x ~ N(0, 2) per sample; members' phi is higher by `overfit`."""

    def part(number: int, count: int, shift: float) -> ClassPredictions:
        phi = np.random.default_rng([7, number]).normal(0.0, 2.0, count)
        phi += np.random.default_rng([seed, number]).normal(0.0, 0.5, count) + shift
        return predictions(phi)

    return Signals(
        forget=part(0, 300, overfit),
        unseen=part(1, 300, 0.0),
        population=part(2, 200, 0.0),
        retain=part(3, 200, 1.0),
    )


def test_error_lira_and_lira_by_their_laws() -> None:
    # P = exp(-score) of a sample whose Gaussian is known is uniform, and a perfect answer does not
    # overflow.
    rng = np.random.default_rng(5)
    center = np.repeat([-20.0, 0.0, 8.0], 2000)

    def draw() -> ClassPredictions:
        return says([0.0] * 6000, 30.0 + center + rng.normal(0.0, 2.0, 6000))

    references = [model(draw(), says([0.0], [30.0 + n])) for n in range(40)]

    def scores(forget: ClassPredictions) -> Array:
        return ErrorLiRA()(model(forget, says([0.0], [30.0])), references)[0]

    for part in np.split(np.exp(-scores(draw())), 3):
        assert kstest(part, "uniform").statistic < 0.04
    exact = scores(says([0.0] * 6000, [30.0] * 6000))
    assert np.isfinite(exact).all() and (exact[:2000] > exact[2000:4000].min()).all()
    rng = np.random.default_rng(0)
    spread = np.array([0.1, 3.0])

    def one(number: int) -> Signals:
        return model(says(rng.normal(0.0, spread)), says([float(rng.normal())]))

    target = model(says([1.0, 1.0]), says([0.0]))
    few, many = ([one(n) for n in range(count)] for count in (63, 64))
    shared, ours = LiRA()(target, few)[0], LiRA()(target, many)[0]
    assert shared[0] == pytest.approx(shared[1], abs=0.5)
    assert ours[0] > 20 > 2 > ours[1]


def test_task_loss_and_person_by_hand() -> None:
    """ln sigmoid(phi) less a tenth of the years; the mean error of a person stands on each of her
    pictures.
    """
    target = model(says([0.0, 2.0], [30.0, 35.0]), says([0.0, 0.0, 0.0], [32.0, 26.0, 40.0]))
    forget_F, unseen_U = TaskLossAttack()(target, [])
    assert forget_F == pytest.approx([-np.log(2.0), -np.log(1.0 + np.exp(-2.0)) - 0.5])
    assert unseen_U == pytest.approx([-np.log(2.0) - 0.2, -np.log(2.0) - 0.4, -np.log(2.0) - 1.0])
    people = replace(target, person_F=np.array([4, 4]), person_U=np.array([9, 2, 9]))
    forget_F, unseen_U = PersonAttack()(people, [])
    assert forget_F == pytest.approx([-2.5, -2.5]) and unseen_U == pytest.approx([-6.0, -4.0, -6.0])


def test_attacks_refuse_what_they_cannot_read() -> None:
    aged, classes = says([0.0], [30.0]), says([0.0])
    nobody, nothing = model(aged, aged), model(classes, aged)
    alone: Any = {"person_F": np.array([0]), "person_U": np.array([1])}
    twice = model(says([0.0, 0.0]), classes)
    pair = signals(1), [signals(2)]
    refused: list[tuple[str, Signals, list[Signals], str]] = [
        ("person", replace(nobody, **alone), [], "nobody has two pictures"),
        ("person", replace(model(classes, classes), **alone), [], "nobody has two pictures"),
        ("person", nobody, [], "who is in which picture"),
        (
            "person",
            replace(twice, **alone | {"person_F": np.zeros(2, int)}),
            [],
            "answers with no number",
        ),
        *(
            (name, nothing, [nothing] * 2, "answers with no number")
            for name in ("error", "error-lira", "task-loss")
        ),
        *((name, *pair, "two reference models") for name in ("lira", "error-lira")),
        *((name, pair[0], pair[1] * 2, "do not differ") for name in ("lira", "error-lira")),
        ("rmia", pair[0], [], "`train_references=2`"),
    ]
    for name, target, references, words in refused:
        with pytest.raises(InputError, match=words):
            ATTACKS.get(name)()(target, references)


def test_calibrated_a_is_that_of_the_best_simulated_attack() -> None:
    references = [gaussian(200 + n, 0.0) for n in range(3)]
    chosen = calibrate(references)
    assert chosen in GRID
    target = gaussian(1, 1.0)
    one, other = (RMIA(a=a)(target, references) for a in ("calibrated", chosen))
    assert all(np.array_equal(*side) for side in zip(one, other, strict=True))
    values = [auc(*RMIA(a=a)(target, references)) for a in GRID]
    assert values[GRID.index(chosen)] > max(values) - 0.02
    with pytest.raises(InputError, match="two reference models"):
        calibrate(references[:1])
    with pytest.raises(InputError, match="0 to 1"):
        RMIA(a=1.5)


@dataclass(frozen=True)
class Planted:
    """A predictor that says what it is told to."""

    name: str
    role: Role
    says: Signals
    sha256: str = "0" * 64
    target: str | None = None
    precision: str | None = None

    def signals(self, sets: Any) -> Signals:
        return self.says


class PlantedSet(SimpleNamespace):
    """As much of a `ImageSet` as the audit reads."""

    def __len__(self) -> int:
        return len(self.subject_N)

    @property
    def group_N(self) -> torch.Tensor:
        return torch.zeros(len(self), dtype=torch.long)


def planted_run(
    predictors: Sequence[Planted], *, forget: int = F, subjects: int | None = None, **options: Any
) -> AuditReport:
    sets: Any = SimpleNamespace(
        train=PlantedSet(subject_N=np.arange(R)),
        forget=PlantedSet(subject_N=np.arange(forget) % (subjects or forget)),
        test=PlantedSet(subject_N=np.arange(U)),
        validation=PlantedSet(subject_N=np.arange(Z)),
    )
    split: Any = SimpleNamespace(sha256="split", subject_disjoint=True, forget=())
    return audit(predictors, sets, split, edges=EDGES, data={}, show=False, **options)


def unlearned(says: Signals, name: str = "unlearned") -> Planted:
    return Planted(name, "unlearned", says)


def test_alarms_fire_on_planted_shifts_and_stay_silent_without() -> None:
    """None on the original, which is known to remember: it would hide the others."""
    report = planted_run(
        [
            Planted("retrained", "retrained", signals(1)),
            unlearned(signals(2, forget_shift=1.5), "remembers"),
            unlearned(signals(3, forget_shift=-1.5), "overdone"),
            unlearned(signals(1), "same"),
            unlearned(signals(4), "other seed"),
            Planted("original", "original", signals(5, forget_shift=3.0)),
        ],
        references=[Planted("reference", "retrained", signals(30))],
    )
    assert {(alarm.model, alarm.kind) for alarm in report.alarms} == {
        ("remembers", "not-forgotten"),
        ("overdone", "over-forgetting"),
    }
    for attack in report.model("same").attacks.values():
        assert attack.minus_retrained == Estimate(value=0.0, low=0.0, high=0.0)
    assert report.model("retrained").attacks["loss"].minus_retrained is None


def test_two_folders_may_have_one_name() -> None:
    both = signals(1, forget_shift=3.0), signals(2)
    report = planted_run([unlearned(signal, "nano") for signal in both])
    for row, signal in zip(report.models, both, strict=True):
        assert row.attacks["loss"].auc.value == pytest.approx(auc(*LossAttack()(signal, [])))


def test_differences_by_hand() -> None:
    ours, oracle = signals(2, forget_shift=1.0), signals(1)
    report = planted_run([Planted("retrained", "retrained", oracle), unlearned(ours)], seed=3)
    model = report.model("unlearned")
    draws = resamples(np.arange(F), np.arange(U), seed=3)
    pairs = [(signal.forget.log_prob_N, signal.unseen.log_prob_N) for signal in (ours, oracle)]
    gap = model.attacks["loss"].minus_retrained
    assert gap.value == pytest.approx(auc(*pairs[0]) - auc(*pairs[1]))
    gap_R = bootstrap_auc(*pairs[0], draws) - bootstrap_auc(*pairs[1], draws)
    assert ends(gap) == pytest.approx(interval(gap_R))
    years = np.abs(ours.unseen.age_N - oracle.unseen.age_N).mean()
    assert model.distance["test"].value == pytest.approx(years)
    low, high = ends(model.distance["test"])
    assert low < years < high


def test_what_an_audit_cannot_tell_is_said() -> None:
    report = planted_run([unlearned(signals(1, forget_shift=9.0))])
    model = report.model("unlearned")
    assert list(model.attacks) == ["entropy", "error", "loss", "person", "task-loss"]
    assert report.alarms == () and model.distance is None
    assert model.attacks["loss"].tpr == {"0.001": None, "0.01": None, "0.1": None}
    for name, words in {
        "oracle": "retrained",
        "rmia": "needs 1 reference",
        "views": "not gathered",
        "two-versions": "not gathered",
        "tpr": "90 unseen samples",
    }.items():
        assert words in report.skipped[name]
    assert "forget interval" not in report.skipped
    # Resampling one person gives the same person each time: the report must not call that
    # certainty.
    with_one = planted_run([unlearned(signals(1))], subjects=1)
    assert "fewer than 5 subjects" in with_one.skipped["forget interval"]


def test_audits_that_are_refused() -> None:
    with pytest.raises(DataError, match="at least two"):
        planted_run([unlearned(signals(1))], forget=1)

    class Slow(Planted):
        def signals(self, sets: Any) -> Signals:
            raise AssertionError("it ran")

    with pytest.raises(InputError, match="Did you mean rmia"):
        planted_run([Slow("unlearned", "unlearned", signals(1))], attacks=["rmias"])
    broken = signals(1)
    broken.unseen.logits_NG[3, 0] = np.nan
    with pytest.raises(InputError, match="not numbers"):
        planted_run([Planted("age.fp16.tflite", "artifact", broken)])
