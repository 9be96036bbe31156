"""The autoencoder's training: its loss by hand, crops that are really in the picture, decibels of a known error."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from unplug.sdk.data import Dataset, Sample
from unplug.sdk.diffusion import to_image
from unplug.sdk.diffusion.vae import KL_WEIGHT, Crops, VAELoss, encode_all, psnr, reconstruction, scaling_factor

from .conftest import CPU, SIZE, tiny_vae


def mapped(count: int = 3, side: int = 24) -> Dataset:
    """Pictures that say at every pixel where it is: red its row, green its column, blue the picture."""
    place = np.arange(side, dtype=np.uint8)
    images = np.zeros((count, side, side, 3), np.uint8)
    images[..., 0], images[..., 1] = place[:, None], place[None, :]
    images[..., 2] = np.arange(count)[:, None, None]
    samples = tuple(Sample(id=str(index), payload=index) for index in range(count))
    digest = hashlib.sha256(images.tobytes()).hexdigest()
    return Dataset(spec="test:", images=images, rows=np.arange(count), samples=samples, problems=(), digest=digest)


def test_numbers_by_hand() -> None:
    # Errors [[1, 0], [0, 0]]: 1/4, and half of (1 + 0)/2 to the right and (1 + 0)/2 below.
    error = torch.tensor([[[[1.0, 0.0], [0.0, 0.0]]]])
    assert float(reconstruction(error, torch.zeros_like(error))) == pytest.approx(0.25 + 0.5 * (0.5 + 0.5))
    assert float(reconstruction(torch.full((2, 3, 4, 4), 0.3), torch.zeros(2, 3, 4, 4))) == pytest.approx(0.3)  # no edges
    pixels = np.array([[[[0, 255, 51]]]], np.uint8)
    assert to_image(pixels, CPU).flatten().tolist() == pytest.approx([-1.0, 1.0, -0.6])
    assert tuple(to_image(np.zeros((2, 5, 7, 3), np.uint8), CPU).shape) == (2, 3, 5, 7)
    # 10 log10(4 / 0.04) = 20 and 10 log10(4 / 0.0004) = 40 over a range of two; what leaves the range is cut.
    image = torch.zeros(2, 3, 8, 8)
    assert psnr(Off(0.2, 0.02), image) == pytest.approx(30.0, abs=1e-4)
    assert psnr(Off(3.0, 3.0), image + 0.8) == pytest.approx(20.0, abs=1e-4)
    latent = torch.randn(4, 2, 3, 3, generator=torch.Generator().manual_seed(0)) * 7
    assert float((latent * scaling_factor(latent)).std()) == pytest.approx(1.0)


def test_crops_are_cut_from_the_pictures() -> None:
    dataset, generator = mapped(), torch.Generator().manual_seed(0)
    draws = Crops(dataset, [0, 2], 16, CPU)
    tops, lefts, places, mirrored, pictures = set(), set(), set(), set(), set()
    for _ in range(120):
        batch = draws(generator, 4)["image_BCHW"]
        pixels = ((batch + 1) * 127.5).round().int()
        assert tuple(pixels.shape) == (4, 3, 16, 16)
        for red, green, blue in pixels:
            top, columns = int(red[0, 0]), green[0].tolist()
            assert (red == torch.arange(top, top + 16).view(-1, 1)).all() and (green == green[0]).all()
            assert columns in (list(range(columns[0], columns[0] + 16)), list(range(columns[0], columns[0] - 16, -1)))
            tops.add(top)
            lefts.add(min(columns))
            places.add((top, min(columns)))
            mirrored.add(columns[0] > columns[1])
            pictures.add(int(blue[0, 0]))
            assert bool((blue == blue[0, 0]).all())
    assert tops == lefts == set(range(24 - 16 + 1)) and len(places) > 40 and mirrored == {False, True} and pictures == {0, 2}
    assert tuple(Crops(mapped(side=16), [0], 64, CPU)(torch.Generator(), 2)["image_BCHW"].shape) == (2, 3, 16, 16)


class Off(torch.nn.Module):
    """An autoencoder that is off by a known amount."""

    def __init__(self, *errors: float) -> None:
        super().__init__()
        self.errors = torch.tensor(errors).view(-1, 1, 1, 1)

    def forward(self, image_BCHW: Tensor) -> Any:
        return SimpleNamespace(sample=image_BCHW + self.errors)


@pytest.fixture(scope="module")
def vae() -> Any:
    torch.manual_seed(2)
    return tiny_vae().eval()


def test_the_loss_is_of_a_sample_of_the_posterior(vae: Any) -> None:
    image = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1)) * 2 - 1
    model = VAELoss(vae)
    with torch.no_grad():
        found = float(model(image, torch.Generator().manual_seed(5)))
        assert found == float(model(image, torch.Generator().manual_seed(5)))
        mean, log_variance = vae.quant_conv(vae.encoder(image)).chunk(2, dim=1)
        divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(dim=(1, 2, 3)) / (3 * 16 * 16)
        assert float(divergence.mean()) > 0
        noise = torch.randn(mean.shape, generator=torch.Generator().manual_seed(5))
        decoded = vae.decode(mean + (0.5 * log_variance).exp() * noise).sample
        expected = reconstruction(decoded, image) + KL_WEIGHT * divergence.mean()
    assert found == pytest.approx(float(expected), rel=1e-5)
    model = VAELoss(tiny_vae())
    model(torch.rand(2, 3, 16, 16) * 2 - 1, torch.Generator().manual_seed(0)).backward()
    lost = [name for name, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.any()]
    assert not lost


def test_latents_do_not_depend_on_the_batch(vae: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = mapped(5, side=SIZE)
    whole = encode_all(vae, dataset, [4, 0, 3], CPU)
    monkeypatch.setattr("unplug.sdk.diffusion.vae.pictures_at_once", lambda _: 2)
    torch.testing.assert_close(encode_all(vae, dataset, [4, 0, 3], CPU), whole, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(encode_all(vae, dataset, [0], CPU), whole[1:2], rtol=1e-4, atol=1e-5)
    assert tuple(whole.shape) == (3, 4, SIZE // 8, SIZE // 8) and whole.dtype == torch.float32
