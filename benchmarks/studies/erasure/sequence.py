"""One request after another: concepts erased one by one, all earlier ones tested again each time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unplug.sdk import journey
from unplug.sdk.drawing.diffusion import load_base
from unplug.sdk.forgetting.erasing import Concept, without

from .rates import drawn, prompts_of

COLOURS = (
    *("pink", "mint", "peach", "grey", "cream", "lavender", "coral", "teal", "navy", "mustard"),
    *("sage", "charcoal"),
)
WORDS = (
    *("glasses", "beard", "afro", "bun", "ponytail", "bald head", "bob", "laughing"),
    *(f"{colour} background" for colour in COLOURS),
)


def sequence(
    out: Path, words: Sequence[str], pictures: int, device: Any, say: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """After each request: seconds, bytes of the map, and how far pictures are from what they shall
    be, in dB of PSNR at the same noise.

    Args:
        out: folder of the erased bases; each goes on from the one before.
        words: one request each.
        pictures: of each earlier concept, and of prompts without any.
        device: where to compute.
        say: takes a line a request.

    Yields:
        ``named_db``: of pictures that name an erased concept to the original's without it, a mean
        for each concept so far; ``before_db``: the same of the original that is asked for it;
        ``unnamed_db``: of prompts that say none.
    """
    small = load_base("small", device=device)
    # what says a word that is erased later would change, and should
    prompts = list(without(prompts_of(40 * pictures), words))[:pictures]
    before = dict[str, float]()
    plain, base = _pixels(drawn(small, prompts)), "small"
    for number, one in enumerate(words):
        folder = out / f"after-{number + 1:02d}"
        started = time.perf_counter()
        if not (folder / "erasure.json").is_file():
            journey.erase(base, [Concept(words=one)], out=folder, check=False)
        seconds = time.perf_counter() - started
        base = str(folder)
        erased = load_base(base, device=device)
        before[one] = _db(_pixels(drawn(small, [f"{p}, {one}" for p in prompts])), plain)
        named = {
            word: _db(_pixels(drawn(erased, [f"{p}, {word}" for p in prompts])), plain)
            for word in words[: number + 1]
        }
        row = {
            "words": one,
            "seconds": seconds,
            "map_bytes": (folder / "erasure.safetensors").stat().st_size,
            "before_db": before[one],
            "named_db": named,
            "unnamed_db": _db(_pixels(drawn(erased, prompts)), plain),
        }
        worst = min(named.values())
        say(
            f"{number + 1}: {one}, {seconds:.1f} s, {row['map_bytes']:,} bytes, named {worst:.1f} dB "
            f"at worst, unnamed {row['unnamed_db']:.1f} dB"
        )
        yield row


def _pixels(pictures: Sequence[Any]) -> Any:
    return np.stack([np.asarray(one, np.float64) for one in pictures])


def _db(one_NHWC: Any, other_NHWC: Any) -> float:
    error_N = np.square(one_NHWC - other_NHWC).mean(axis=(1, 2, 3)).clip(1e-6)
    return float(np.mean(10 * np.log10(255.0**2 / error_N)))
