"""The factor that is the same everywhere: by hand, against LAPACK, and whatever adds it up."""

from __future__ import annotations

import pytest
import torch

from unplug.sdk.forgetting.unlearning import portable
from unplug.sdk.forgetting.unlearning.portable import portable_cholesky, portable_solve


def test_two_equations_by_hand() -> None:
    """[[1, 1/2], [1/2, 1]]: L = [[1, 0], [1/2, sqrt(3)/2]], and X of (1, 2) is (0, 2)."""
    gram_PP = torch.tensor([[1.0, 0.5], [0.5, 1.0]], dtype=torch.float64)
    factor_PP = portable_cholesky(gram_PP)
    assert factor_PP[:, 0].tolist() == [1.0, 0.5] and factor_PP[0, 1] == 0
    assert factor_PP[1, 1].item() == pytest.approx(0.75**0.5, abs=2**-46)
    right_PK = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    assert portable_solve(factor_PP, right_PK).flatten().tolist() == pytest.approx([0.0, 2.0])


def test_it_solves_as_lapack_does_and_no_split_of_the_work_changes_a_bit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = torch.Generator().manual_seed(0)
    x_NP = torch.randn(400, 200, generator=generator, dtype=torch.float64).relu()
    gram_PP = x_NP.T @ x_NP + torch.eye(200)
    scale_P = gram_PP.diagonal().rsqrt()
    gram_PP = gram_PP * scale_P * scale_P[:, None]
    right_PK = torch.randn(200, 5, generator=generator, dtype=torch.float64)
    factor_PP = portable_cholesky(gram_PP)
    solved_PK = portable_solve(factor_PP, right_PK)
    assert torch.allclose(solved_PK, torch.linalg.solve(gram_PP, right_PK), rtol=0, atol=1e-9)
    assert float((factor_PP @ factor_PP.T - gram_PP).abs().max()) < 1e-13
    # other blocks of rows are other matrix products: a BLAS adds them up in another order
    monkeypatch.setattr(portable, "ROWS", 7)
    assert torch.equal(portable_cholesky(gram_PP), factor_PP)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        again_PP = portable_cholesky(gram_PP)
        assert torch.equal(again_PP, factor_PP)
        assert torch.equal(portable_solve(again_PP, right_PK), solved_PK)
    finally:
        torch.set_num_threads(before)


def test_what_has_no_factor_has_no_number() -> None:
    gram_PP = torch.tensor([[1.0, 1.0], [1.0, 0.5]], dtype=torch.float64)
    assert not portable_cholesky(gram_PP).isfinite().all()
