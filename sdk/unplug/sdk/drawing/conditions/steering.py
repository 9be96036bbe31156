"""What a plugin follows: a drawn condition, or a photograph that one is drawn from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unplug.core import InputError
from unplug.plugins.conditions import Picture

from .face_frame import FaceFrame

MAX_STRENGTH = 10.0


@dataclass(frozen=True, kw_only=True)
class Steering:
    """One plugin with the picture that it follows.

    Args:
        plugin: a name ("face_landmark", "canny"), or a checkpoint folder.
        image: a condition, or with `photo` a photograph that it is drawn from: a file, or (H, W, 3)
            in RGB.
        photo: whether `image` is a photograph.
        strength: factor on the plugin's residuals; 0 is the bare base, 1 is as trained.
        options: settings of the condition, for a photograph.
        frame: the frame of a photograph: its face is found and framed, instead of the centre
            square.

    Raises:
        InputError: a strength out of range.
    """

    plugin: str
    image: Path | Picture
    photo: bool = False
    strength: float = 1.0
    options: Mapping[str, str] = field(default_factory=dict)
    frame: FaceFrame | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.strength) and 0.0 <= self.strength <= MAX_STRENGTH):
            why, fix = "out of range", f"Use 0 (off) to {MAX_STRENGTH:g}; 1 is as trained"
            raise InputError(f"strength {self.strength}", why, fix)

    @property
    def source(self) -> str:
        """The picture, as messages name it."""
        return str(self.image) if isinstance(self.image, Path) else f"picture of {self.plugin}"
