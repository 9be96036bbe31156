"""The Fréchet distance: closed forms, and what few pictures are compared in."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import sqrtm

from unplug.core import InputError
from unplug.sdk.evidence.statistics import (
    Gaussian,
    covariance_root,
    fit_gaussian,
    frechet_distance,
    projection,
)


def gaussian(mean: list[float], variances: list[float]) -> Gaussian:
    return Gaussian(mean_D=np.array(mean), cov_DD=np.diag(variances))


def test_singular_covariances_need_no_correction() -> None:
    flat = Gaussian(mean_D=np.zeros(2), cov_DD=np.array([[1.0, 1.0], [1.0, 1.0]]))
    point = gaussian([0.0, 0.0], [0.0, 0.0])
    assert frechet_distance(flat, flat) == pytest.approx(0.0, abs=1e-9)
    assert frechet_distance(flat, point) == frechet_distance(point, flat) == pytest.approx(2.0)


def test_the_textbook_formula_agrees() -> None:
    rng = np.random.default_rng(0)
    one, two = (
        fit_gaussian(rng.normal(size=(50, 6)) @ rng.normal(size=(6, 6))),
        fit_gaussian(rng.normal(size=(40, 6)) + 0.5),
    )
    cross = np.trace(sqrtm(one.cov_DD @ two.cov_DD)).real
    wanted = (
        np.square(one.mean_D - two.mean_D).sum()
        + np.trace(one.cov_DD)
        + np.trace(two.cov_DD)
        - 2 * cross
    )
    assert (
        frechet_distance(one, two)
        == pytest.approx(wanted)
        == pytest.approx(frechet_distance(two, one))
    )
    assert frechet_distance(one, two, covariance_root(two.cov_DD)) == frechet_distance(one, two)


def test_fit_is_numpys_and_weights_repeat_samples() -> None:
    x = np.random.default_rng(1).normal(size=(9, 3))
    own = fit_gaussian(x)
    np.testing.assert_allclose(own.cov_DD, np.cov(x.T))
    weight = np.array([0, 2, 1, 0, 3, 1, 1, 0, 1], float)
    repeated = fit_gaussian(np.repeat(x, weight.astype(int), axis=0))
    np.testing.assert_allclose(fit_gaussian(x, weight).mean_D, repeated.mean_D)
    np.testing.assert_allclose(fit_gaussian(x, weight).cov_DD, repeated.cov_DD)


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
    assert frechet_distance(
        fit_gaussian(whole(real)), fit_gaussian(whole(shifted))
    ) == pytest.approx(5.0)
    with pytest.raises(InputError, match="no covariance"):
        projection(real, 2)
