"""A small variational autoencoder: the density of a set of embeddings.

Shapes: N samples, B batch, F features, Z latent features.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from unplug.sdk.learning.training import SampleSet

from .anatomy import embeddings
from .descent import plan
from .method import ForgetProblem

HIDDEN, LATENT = 64, 16
BATCH = 64
LR = 1e-3
KL_WEIGHT = 0.025


class VAE(nn.Module):
    """z -> N(mu, sigma^2) -> z', each half with one hidden layer.

    Args:
        features: F.

    Reference:
        Kingma and Welling, Auto-Encoding Variational Bayes, 2014, section 3.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(features, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2 * LATENT)
        )
        self.decoder = nn.Sequential(
            nn.Linear(LATENT, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, features)
        )

    def reconstruct(self, z_BF: Tensor) -> Tensor:
        """The decoded mean of the latent posterior (B, F)."""
        mean_BZ: Tensor = self.encoder(z_BF)[:, :LATENT]
        decoded: Tensor = self.decoder(mean_BZ)
        return decoded

    def loss(self, z_BF: Tensor, noise_BZ: Tensor) -> Tensor:
        """mean ||z - z'||^2 + 0.025 KL(N(mu, sigma^2) || N(0, 1)), with the latent mu + sigma
        noise.
        """
        mean_BZ, log_var_BZ = self.encoder(z_BF).chunk(2, dim=1)
        decoded_BF = self.decoder(mean_BZ + (0.5 * log_var_BZ).exp() * noise_BZ)
        # KL of a Gaussian from the standard one, in closed form
        kl_B: Tensor = 0.5 * (mean_BZ.square() + log_var_BZ.exp() - 1.0 - log_var_BZ).sum(dim=1)
        error_B: Tensor = (z_BF - decoded_BF).square().sum(dim=1)
        value: Tensor = (error_B + KL_WEIGHT * kl_B).mean()
        return value


def bounded(vae: VAE, z_BF: Tensor) -> Tensor:
    """e / (1 + e) (B,), e = ||z - h(z)||^2: 0 where the VAE knows z, towards 1 where it does not."""
    error_B = (z_BF - vae.reconstruct(z_BF)).square().sum(dim=1)
    return error_B / (1.0 + error_B)


@torch.no_grad()
def embed(model: nn.Module, problem: ForgetProblem, data: SampleSet) -> Tensor:
    """What the classifier is given for each sample of a set (N, F), without augmentation, charged
    as forward passes.
    """
    with embeddings(model) as seen:
        for batch in data.in_order(problem.recipe.batch_size):
            problem.outputs(model, batch)
    return torch.cat(seen).float()


def fit_vae(
    z_NF: Tensor, problem: ForgetProblem, model: nn.Module, steps: int, share: float
) -> VAE:
    """A frozen VAE of some embeddings, trained by Adam.

    Args:
        z_NF: N embeddings.
        problem: its meter is charged with the operations of the VAE, counted in passes of `model`.
        model: the network whose embeddings they are.
        steps: the most steps, each of at most 64 samples.
        share: 0 to 1, of what is left of the budget.

    Raises:
        BudgetExceeded: the share does not cover one step.
    """
    vae = VAE(z_NF.shape[1]).to(z_NF.device)
    size = min(BATCH, len(z_NF))
    cost = vae_cost(vae, problem, model)
    steps = min(steps, plan(problem, 3.0 * size * cost, share))
    # the meter counts passes of the network: the VAE's are worth a fraction of one each
    samples = math.ceil(steps * size * cost)
    problem.meter.charge(forward=samples, backward=samples)
    optimizer = torch.optim.Adam(vae.parameters(), lr=LR)
    for _ in range(steps):
        index_B = torch.randint(len(z_NF), (size,), generator=problem.generator).to(z_NF.device)
        noise_BZ = torch.randn(size, LATENT, generator=problem.generator).to(z_NF.device)
        loss = vae.loss(z_NF[index_B], noise_BZ)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return vae.requires_grad_(False)


@torch.no_grad()
def vae_cost(vae: VAE, problem: ForgetProblem, model: nn.Module) -> float:
    """Multiply-adds of the VAE as a fraction of the network's, for one sample; one forward pass is
    charged.
    """
    one = problem.retain.batch(torch.zeros(1, dtype=torch.long, device=problem.retain.device))
    with FlopCounterMode(display=False) as counter:
        problem.outputs(model, one)
    # a linear layer multiplies and adds once a weight; the counter counts both
    weights = sum(parameter.numel() for parameter in vae.parameters() if parameter.ndim == 2)
    return 2.0 * weights / float(counter.get_total_flops())
