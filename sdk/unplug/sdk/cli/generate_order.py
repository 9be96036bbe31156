"""What ``unplug generate`` was asked for, and how it hands over what was drawn, of a base or of
exported files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unplug.core import InputError, counted

from .base import MAX_SEED, Outcome, folded
from .guides import GuideOrder, described, told

if TYPE_CHECKING:
    from PIL import Image

    from unplug.sdk.drawing.conditions import Steering


@dataclass(frozen=True, kw_only=True)
class DrawOrder:
    """The options of ``unplug generate``; None is the base's own.

    Args:
        base: a name or folder, see its help.
        seeds: one a picture.
        files: one a picture, to be written.
        out: that file, or the grid of all.
    """

    prompt: str
    negative: str
    base: str
    guides: GuideOrder
    seeds: tuple[int, ...]
    size: int | None
    steps: int | None
    guidance: float | None
    solver: Any
    target: str | None
    precision: str | None
    threads: int
    loras: tuple[str, ...]
    variant: str | None
    files: tuple[Path, ...]
    out: Path

    def check(self) -> None:
        """Before anything is loaded: what no base can draw, whichever kind it is.

        Raises:
            InputError: a prompt that is too long or no text, or a seed that could not be asked for
                again.
        """
        from unplug.sdk.drawing.device import check_text

        check_text(self.prompt)
        check_text(self.negative, "negative prompt")
        if self.seeds[-1] > MAX_SEED:
            raise InputError(
                f"seeds up to {self.seeds[-1]}", f"more than {MAX_SEED}", "Give a smaller --seed"
            )

    @property
    def facts(self) -> dict[str, Any]:
        """What every picture says of how it was asked for."""
        return {
            "prompt": self.prompt,
            "negative": self.negative,
            "plugins": list(self.guides.plugins),
            "strengths": list(self.guides.strengths),
            "loras": list(self.loras),
        }


def deliver(
    order: DrawOrder,
    pictures: Sequence[Image.Image],
    conditions: Sequence[Image.Image],
    facts: Mapping[str, Any],
    more: Mapping[str, Any],
    steerings: Sequence[Steering],
    kind_of: Callable[[str], str],
    *,
    seconds: float,
    how: str,
) -> Outcome:
    """Writes each picture, and of several a grid behind their conditions.

    Args:
        order: what was asked for.
        pictures, conditions: what was drawn, and what it follows.
        facts: of the drawing, kept in each file.
        more: of this run, told in JSON alone.
        steerings: the plugins with their pictures.
        kind_of: the condition that a plugin follows, by its name.
        seconds: it took.
        how: behind the seconds in the line for people.
    """
    from unplug.sdk.drawing.device import save_marked
    from unplug.sdk.drawing.diffusion import image_grid

    known = {**order.facts, **facts}
    for file, picture, seed in zip(order.files, pictures, order.seeds, strict=True):
        save_marked(picture, file, {**known, "seed": seed})
    if len(pictures) > 1:
        save_marked(
            image_grid([[*conditions, *pictures]]), order.out, {**known, "seeds": list(order.seeds)}
        )
    value = {
        "out": str(order.out),
        "pictures": [str(file) for file in order.files],
        "seconds": round(seconds, 3),
        "guides": [described(item) for item in steerings],
        **known,
        **more,
    }
    saved = f"saved {order.out} ({counted(len(pictures), 'picture')}, {seconds:.1f} s, {how})"
    notes = [told(item, kind_of(item.plugin)) for item in steerings if item.photo]
    return Outcome(value=value | {"notes": notes}, text="\n".join([saved, *map(folded, notes)]))
