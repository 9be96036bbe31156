"""The Fréchet distance: closed forms, an oracle, and what resampling does to it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import sqrtm

from unplug.plugins.errors import InputError
from unplug.sdk.diffusion.compare.bootstrap import centred
from unplug.sdk.diffusion.compare.frechet import Gaussian, distance, fit, frechet_rows, projection, root


def gaussian(mean: list[float], variances: list[float]) -> Gaussian:
    return Gaussian(mean_D=np.array(mean), cov_DD=np.diag(variances))


def test_means_apart_and_equal_covariances_leave_the_squared_distance() -> None:
    assert distance(gaussian([1.0, 2.0], [3.0, 5.0]), gaussian([4.0, -2.0], [3.0, 5.0])) == pytest.approx(9.0 + 16.0)


def test_commuting_covariances_leave_the_squared_difference_of_deviations() -> None:
    """sum_d (s1_d - s2_d)^2 for diagonal covariances."""
    assert distance(gaussian([0, 0], [4.0, 9.0]), gaussian([0, 0], [1.0, 16.0])) == pytest.approx(1.0 + 1.0)


def test_singular_covariances_need_no_correction() -> None:
    flat = Gaussian(mean_D=np.zeros(2), cov_DD=np.array([[1.0, 1.0], [1.0, 1.0]]))
    point = gaussian([0.0, 0.0], [0.0, 0.0])
    assert distance(flat, flat) == pytest.approx(0.0, abs=1e-9)
    assert distance(flat, point) == distance(point, flat) == pytest.approx(2.0)


def test_the_textbook_formula_agrees() -> None:
    rng = np.random.default_rng(0)
    one, two = fit(rng.normal(size=(50, 6)) @ rng.normal(size=(6, 6))), fit(rng.normal(size=(40, 6)) + 0.5)
    cross = np.trace(sqrtm(one.cov_DD @ two.cov_DD)).real
    wanted = np.square(one.mean_D - two.mean_D).sum() + np.trace(one.cov_DD) + np.trace(two.cov_DD) - 2 * cross
    assert distance(one, two) == pytest.approx(wanted) == pytest.approx(distance(two, one))
    assert distance(one, two, root(two.cov_DD)) == distance(one, two)


def test_fit_is_numpys_and_weights_repeat_samples() -> None:
    x = np.random.default_rng(1).normal(size=(9, 3))
    own = fit(x)
    np.testing.assert_allclose(own.cov_DD, np.cov(x.T))
    weight = np.array([0, 2, 1, 0, 3, 1, 1, 0, 1], float)
    repeated = fit(np.repeat(x, weight.astype(int), axis=0))
    np.testing.assert_allclose(fit(x, weight).mean_D, repeated.mean_D)
    np.testing.assert_allclose(fit(x, weight).cov_DD, repeated.cov_DD)


def test_few_pictures_go_into_principal_components_of_the_real_ones() -> None:
    rng = np.random.default_rng(2)
    real = rng.normal(size=(40, 20)) * np.linspace(5, 0.1, 20)
    reduce = projection(real, 40)
    assert reduce.axes_DK.shape == (20, 10)
    np.testing.assert_allclose(reduce.axes_DK.T @ reduce.axes_DK, np.eye(10), atol=1e-9)
    variances = np.sort(np.linalg.eigvalsh(np.cov(real.T)))[::-1]
    assert reduce.kept == pytest.approx(variances[:10].sum() / variances.sum())
    np.testing.assert_allclose(reduce(real).var(axis=0, ddof=1), variances[:10], rtol=1e-6)
    np.testing.assert_allclose(reduce(real).mean(axis=0), 0.0, atol=1e-9)


def test_many_pictures_keep_every_feature() -> None:
    real = np.random.default_rng(3).normal(size=(60, 5))
    whole, few = projection(real, 50), projection(real, 49)
    assert whole.axes_DK.shape == (5, 5) and whole.kept == 1.0 and few.axes_DK.shape == (5, 5)
    shifted = real + 1.0
    assert distance(fit(whole(real)), fit(whole(shifted))) == pytest.approx(5.0)
    with pytest.raises(InputError, match="no covariance"):
        projection(real, 2)


def rows(replicates: int = 60) -> dict[str, object]:
    rng = np.random.default_rng(4)
    own = [rng.normal(size=(80, 3)) for _ in range(2)]
    found = frechet_rows(
        {"same": [own[0]], "twin": [own[0].copy()], "far": [own[0] + 2.0], "two": own}, rng.normal(size=(90, 3)),
        row_subjects=np.arange(80), real_subjects=np.arange(90), seed=0, replicates=replicates,
    )  # fmt: skip
    return dict(found)


def test_rows_are_paired_and_seeds_decide() -> None:
    found, again = rows(), rows()
    same, twin, far = found["same"], found["twin"], found["far"]
    assert same.minus(twin).low == same.minus(twin).high == 0.0
    assert same.over(twin).low == same.over(twin).high == 1.0
    assert far.value == pytest.approx(same.value + 12.0, abs=2.0)
    assert far.minus(same).low > 8.0
    assert np.array_equal(same.drawn_R, again["same"].drawn_R)


def test_trainings_are_averaged() -> None:
    found = rows()
    both = found["two"].drawn_R
    assert found["two"].value < found["same"].value + 1.0 and both.std() > 0


def test_resampling_inflates_and_the_interval_is_centred() -> None:
    found = rows(200)["same"]
    assert found.drawn_R.mean() > found.value  # what the centring is for
    own = found.estimate
    assert own.low <= own.value <= own.high and own.low >= 0.0
    np.testing.assert_allclose(centred(5.0, np.array([10.0, 11.0, 12.0])).low, 5.0 - 0.95)
    assert centred(0.1, np.array([10.0, 11.0, 12.0]), least=0.0).low == 0.0


def test_a_ratio_needs_a_distance_to_divide_by() -> None:
    from unplug.sdk.diffusion.compare.frechet import Frechet

    zero, one = Frechet(value=0.0, drawn_R=np.zeros(4)), Frechet(value=1.0, drawn_R=np.ones(4))
    assert one.over(zero) is None and one.over(one).value == 1.0
