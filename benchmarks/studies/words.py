"""Whether a base listens: how far its colours follow the words of a prompt, and how far the noise
that it starts from.

Shapes: W words, S seeds, three colour channels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unplug.sdk.learning.faces.colours import COLOURS, HAIR, SKIN

Colours = NDArray[np.float64]
Pictures = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class ColourAttribute:
    """A colour that prompts name, and where in a picture of our procedural faces it stands.

    Args:
        prompt: with ``{}`` for the word.
        palette: word to sRGB, 0 to 255.
        place: top, bottom, left and right of a box, in shares of the side.
    """

    prompt: str
    palette: Mapping[str, tuple[float, float, float]]
    place: tuple[float, float, float, float]

    def words(self, count: int) -> tuple[str, ...]:
        """`count` words, evenly spread over the palette."""
        names = list(self.palette)
        return tuple(names[index * len(names) // count] for index in range(count))


ATTRIBUTES = {
    "background": ColourAttribute(
        prompt="a portrait of an adult, {} plain background",
        palette=COLOURS,
        place=(0.02, 0.25, 0.02, 0.16),
    ),
    "skin": ColourAttribute(
        prompt="a portrait of an adult, {} skin", palette=dict(SKIN), place=(0.5, 0.62, 0.4, 0.6)
    ),
    "hair": ColourAttribute(
        prompt="a portrait of an adult, {} afro", palette=HAIR, place=(0.14, 0.2, 0.44, 0.56)
    ),
    "clothes": ColourAttribute(
        prompt="a portrait of an adult, {} clothes", palette=COLOURS, place=(0.97, 1.0, 0.25, 0.38)
    ),
}


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What the colours of W words and S seeds say.

    Args:
        between_words: root mean square distance, in levels of 0 to 255 a channel, of the words'
            mean colours from their mean.
        between_seeds: the same of single pictures from their word's mean colour, with S - 1 degrees
            of freedom a word.
        nearest: share of pictures whose colour is nearest to that of their own word among the W.
    """

    between_words: float
    between_seeds: float
    nearest: float

    @property
    def ratio(self) -> float:
        """Words over seeds; a base that does not listen has about 1 / sqrt(S)."""
        return self.between_words / self.between_seeds


def heard(colour_WSC: Colours, palette_WC: Colours) -> Heard:
    """How far colours follow words, and how far seeds.

    Args:
        colour_WSC: of every picture, 0 to 255.
        palette_WC: what the words mean.

    Example:
        >>> black, white = [0.0, 0.0, 0.0], [255.0, 255.0, 255.0]
        >>> found = heard(np.array([[black, [2.0, 2.0, 2.0]], [white, white]]), np.array([black, white]))
        >>> round(found.between_words, 1), found.between_seeds, found.nearest
        (127.0, 1.0, 1.0)
    """
    mean_W1C = colour_WSC.mean(axis=1, keepdims=True)
    words = np.square(mean_W1C - mean_W1C.mean(axis=0)).mean()
    seeds = (
        np.square(colour_WSC - mean_W1C).mean() * colour_WSC.shape[1] / (colour_WSC.shape[1] - 1)
    )
    apart_WSW = np.square(colour_WSC[:, :, None] - palette_WC[None, None]).sum(axis=-1)
    own_W1 = np.arange(len(colour_WSC))[:, None]
    return Heard(
        between_words=float(np.sqrt(words)),
        between_seeds=float(np.sqrt(seeds)),
        nearest=float((apart_WSW.argmin(axis=-1) == own_W1).mean()),
    )


def colour_at(pictures_NHWC: Pictures, place: tuple[float, float, float, float]) -> Colours:
    """The median colour (N, 3) of a box, see `ColourAttribute`."""
    side = pictures_NHWC.shape[1]
    top, bottom, left, right = (round(share * side) for share in place)
    found: Colours = np.median(
        pictures_NHWC[:, top:bottom, left:right].reshape(len(pictures_NHWC), -1, 3), axis=1
    )
    return found


def listen(
    draw: Callable[[Sequence[str], Sequence[int]], Pictures],
    attribute: ColourAttribute,
    *,
    words: int = 8,
    seeds: int = 3,
) -> tuple[Heard, Pictures]:
    """Draws every word with every seed.

    Args:
        draw: prompts and seeds to pictures (N, S, S, 3).
        attribute: one of `ATTRIBUTES`.
        words: W.
        seeds: S, at least 2.

    Returns:
        What was heard, and the pictures, a word's together.

    Reference:
        Lin et al., Common Diffusion Noise Schedules and Sample Steps are Flawed, 2023, section 2: a
        base that was trained with a signal left in its last noise level takes the mean of a picture
        from the noise.
    """
    chosen = attribute.words(words)
    pairs = [(attribute.prompt.format(word), seed) for word in chosen for seed in range(seeds)]
    pictures_NHWC = draw([prompt for prompt, _ in pairs], [seed for _, seed in pairs])
    colour_WSC = colour_at(pictures_NHWC, attribute.place).reshape(words, seeds, 3)
    return heard(colour_WSC, np.array([attribute.palette[word] for word in chosen])), pictures_NHWC


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Whether two colour words of one prompt go where each belongs.

    Args:
        first, second: share of pictures in which the colour of that part is nearest to its own word
            among all words asked.
        swapped: share in which both parts are nearer to the other's word than to their own.
    """

    first: float
    second: float
    swapped: float


def bound(
    draw: Callable[[Sequence[str], Sequence[int]], Pictures],
    first: ColourAttribute,
    second: ColourAttribute,
    prompt: str,
    *,
    words: int = 8,
    seeds: int = 3,
) -> Bound:
    """Draws prompts with two colour words, each word of the first with another one of the second.

    Args:
        draw: prompts and seeds to pictures (N, S, S, 3).
        first, second: two of `ATTRIBUTES` with one palette.
        prompt: with two ``{}``: the first's word, the second's.
        words: W of each.
        seeds: S of each pair.
    """
    chosen = first.words(words)
    shift = words // 2 - 1 or 1
    pairs = [
        (place, (place + shift) % words, seed) for place in range(words) for seed in range(seeds)
    ]
    pictures_NHWC = draw(
        [prompt.format(chosen[one], chosen[two]) for one, two, _ in pairs],
        [seed for *_, seed in pairs],
    )
    palette_WC = np.array([first.palette[word] for word in chosen])
    own_N2 = np.array([(one, two) for one, two, _ in pairs])
    apart_2NW = np.stack(
        [
            np.square(colour_at(pictures_NHWC, part.place)[:, None] - palette_WC[None]).sum(axis=-1)
            for part in (first, second)
        ]
    )
    rows_N = np.arange(len(pairs))
    right = [apart_NW.argmin(axis=1) == own_N2[:, part] for part, apart_NW in enumerate(apart_2NW)]
    crossed = [
        apart_NW[rows_N, own_N2[:, 1 - part]] < apart_NW[rows_N, own_N2[:, part]]
        for part, apart_NW in enumerate(apart_2NW)
    ]
    return Bound(
        first=float(right[0].mean()),
        second=float(right[1].mean()),
        swapped=float((crossed[0] & crossed[1]).mean()),
    )
