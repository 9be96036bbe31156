"""PSNR, Fréchet distance and prompts kept, of the same latents by every decoder.

Shapes: N pictures, D features, K of them kept, c latent channels, h and w of a latent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from unplug.core import Estimate
from unplug.sdk.drawing.diffusion import to_image
from unplug.sdk.evidence.statistics import (
    Gaussian,
    fit_gaussian,
    frechet_distance,
    mean_estimate,
    projection,
)
from unplug.sdk.learning.data import captions_of, load_dataset

from ..control.judge import agreement, examine, named_words, train_judge, words_of
from ..control.setup import JUDGE_RECIPE
from .shared import (
    CPU,
    HELD,
    Decoder,
    Pixels,
    base_and_its_own,
    decode,
    drawn,
    encoded,
    keep,
    quick_of,
    quick_option,
    said,
)

LEARNED = "synth:n=6000,subjects=6000,seed=4"
OWN, QUICK = "autoencoder's", "quick"
BLOCKS, T_95 = 20, 2.093
"""Blocks of the jackknife, and Student's t for one fewer."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One decoder's pictures.

    Args:
        psnr: of unseen faces, dB.
        apart: Fréchet distance of drawn pictures from real faces.
        ratio: that, over the autoencoder's decoder's.
        kept_N: share of each prompt's words that a judge finds.
        faces: eight of the faces, decoded.
    """

    psnr: Estimate
    apart: float
    ratio: str
    kept_N: NDArray[Any]
    faces: Pixels


def judged(base: Any, decoders: Mapping[str, Decoder], pictures: int) -> dict[str, Judged]:
    """Each decoder's pictures of the same latents; `OWN` is among the decoders.

    Args:
        base: gives the latents.
        decoders: name to decoder.
        pictures: N prompts, and as many faces.
    """
    learned = load_dataset(LEARNED, 128)
    judge = train_judge(
        learned, words_of(learned) or (), learned.ids, JUDGE_RECIPE, device=CPU
    ).judge
    held = load_dataset(HELD.format(n=2 * pictures), 128)
    wanted = [named_words(one) for one in (words_of(held) or ())][:pictures]
    prompts = [own[0] for own in captions_of(held, seed=0, variants=1)][:pictures]
    faces, others = held.pixels(range(pictures)), held.pixels(range(pictures, 2 * pictures))
    drawn_Nchw, coded_Nchw = drawn(base, prompts), encoded(base, to_image(faces, CPU))
    real_ND = examine(judge, others, CPU)[0]
    reduce = projection(real_ND, pictures)
    real = fit_gaussian(reduce(real_ND))
    seen, made = {}, {}
    for name, decoder in decoders.items():
        features_ND, read = examine(judge, decode(decoder, drawn_Nchw), CPU)
        seen[name] = reduce(features_ND)
        back = decode(decoder, coded_Nchw)
        db_N = 10 * np.log10(255**2 / np.square(back.astype(float) - faces).mean(axis=(1, 2, 3)))
        made[name] = Judged(
            psnr=_mean(db_N),
            apart=frechet_distance(fit_gaussian(seen[name]), real),
            ratio=_ratio(seen[name], seen[OWN], real),
            kept_N=np.nanmean(np.stack(list(agreement(read, wanted).values())), axis=0),
            faces=back[:8],
        )
    return made


@click.command()
@quick_option
@click.option("--pictures", default=400, help="Prompts, and as many faces.")
def quality(quick: Path, pictures: int) -> None:
    """PSNR, Fréchet distance and prompts kept, of the same latents by both decoders."""
    base, own = base_and_its_own()
    made = judged(base, {OWN: own, QUICK: quick_of(quick).decode}, pictures)
    keep(
        "quality",
        ["decoder", "PSNR of unseen faces, dB", "Fréchet distance", "prompt kept"],
        [
            [name, said(one.psnr, 1), f"{one.apart:.2f}", said(_mean(one.kept_N), 3)]
            for name, one in made.items()
        ],
        pictures=pictures,
        prompt_kept_difference=said(_mean(made[QUICK].kept_N - made[OWN].kept_N), 3),
        frechet_ratio=made[QUICK].ratio,
    )
    faces = load_dataset(HELD.format(n=2 * pictures), 128).pixels(range(8))
    shown = [faces, *(one.faces for one in made.values())]
    sheet = np.concatenate([np.concatenate(list(row), axis=1) for row in shown])
    Image.fromarray(sheet).save("docs/images/decoders.webp", quality=90, method=6)


def _mean(values_N: NDArray[Any]) -> Estimate:
    return mean_estimate(values_N, np.arange(len(values_N)), 0)


def _ratio(one_NK: NDArray[Any], other_NK: NDArray[Any], real: Gaussian) -> str:
    """Of two distances, with the 95 % interval of a jackknife: every block of pictures is left out
    once. Where pictures are drawn again some stand there twice, and the ratio goes to 1.
    """

    def ratio(rows_N: NDArray[Any]) -> float:
        apart = [frechet_distance(fit_gaussian(own[rows_N]), real) for own in (one_NK, other_NK)]
        return apart[0] / apart[1]

    rows_N = np.arange(len(one_NK))
    whole = ratio(rows_N)
    left_out = [ratio(rows_N[rows_N % BLOCKS != block]) for block in range(BLOCKS)]
    spread = T_95 * float(np.std(left_out)) * (BLOCKS - 1) ** 0.5
    return f"{whole:.3f} ({whole - spread:.3f} to {whole + spread:.3f})"
