"""What each plugin of ``unplug generate`` follows: its picture by the order of the options, its
settings, its crop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from unplug.core import DataError, InputError, counted

from .options_of import ConfiguredCommand

if TYPE_CHECKING:
    from unplug.sdk.drawing.conditions import Steering

EXAMPLE = Path("example")
"""For --condition: the picture that ships for the plugin's condition, where no file is called
so.
"""
FACE, BODY = "face_landmark", "holistic"
OF_THE_FACE = ("task", "faces")
"""Settings that finding the face has as well."""
PICTURES = ("conditions", "photos")
ORDER = "unplug.generate.order"


class OrderedCommand(ConfiguredCommand):
    """A command that knows in which order --condition and --image were given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """click's own, behind a first reading for the order alone."""
        # click gives each option its values in order, but not the order of different options.
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        ctx.meta[ORDER] = [item.name for item in given if item.name in PICTURES]
        return super().parse_args(ctx, args)


def crop_of(steering: Steering) -> str | None:
    """What the condition is drawn of; None where it is drawn already."""
    return ("face" if steering.frame else "centre square") if steering.photo else None


def told(steering: Steering, kind: str) -> str:
    """A line about a photograph: its crop, and what that means where no face was looked for."""
    line = f"{steering.image}: drawn of its {crop_of(steering)}"
    if steering.frame or kind == BODY:
        return line
    return f"{line}; no face was looked for, and the base may draw a stranger. Give --crop face"


def described(steering: Steering) -> dict[str, Any]:
    """What the command says of a plugin and its picture."""
    return {
        "plugin": steering.plugin,
        "image": str(steering.image),
        "photo": steering.photo,
        "crop": crop_of(steering),
        "options": {**steering.options},
    }


@dataclass(frozen=True, kw_only=True)
class GuideOrder:
    """The options of ``unplug generate`` that say what plugins follow.

    Args:
        plugins: face_landmark, canny, depth, or a plugin folder; may be repeated.
        conditions: the drawn condition of a `plugin`, or example; pictures and plugins are in the
            same order.
        photos: instead, for this plugin: a photograph from which the condition is drawn.
        crop: the face of a photograph, or its centre square; auto: face for face_landmark.
        margin: around the found face, as a fraction of its box (default 0.39: the small base's).
        settings: a setting of the condition, with `photo`; its key may begin with the condition
            that is meant: canny.low.
        task: MediaPipe's task file, with `photo` (default: UNPLUG_FACE_LANDMARKER).
        strengths: of each `plugin`; 1 is as trained, 0 is off.
    """

    plugins: Sequence[str] = field(default=(), metadata={"flag": "--plugin"})
    conditions: Sequence[Path] = field(default=(), metadata={"flag": "--condition"})
    photos: Sequence[Path] = field(default=(), metadata={"flag": "--image"})
    crop: Literal["auto", "face", "none"] = "auto"
    margin: float | None = field(default=None, metadata={"range": (0.0, 2.0)})
    settings: dict[str, str] = field(
        default_factory=dict, metadata={"flag": "--set", "metavar": "[CONDITION.]KEY=VALUE"}
    )
    task: Path | None = field(default=None, metadata={"flag": "--landmarker"})
    strengths: Sequence[float] = field(default=(), metadata={"flag": "--strength"})

    def check_there(self) -> None:
        """Raises `DataError` for a picture that is not there, before anything that takes time."""
        for path in (*self.conditions, *self.photos):
            if not path.exists() and (path != EXAMPLE or path in self.photos):
                raise DataError(
                    str(path), "no such file", "Check the path of the condition or photograph"
                )

    def steerings(self, kind_of: Callable[[str], str]) -> tuple[Steering, ...]:
        """One a plugin.

        Args:
            kind_of: the condition that a plugin follows, by its name.

        Raises:
            InputError: pictures, strengths or settings that do not fit the plugins.
        """
        from unplug.sdk.drawing.conditions import FaceFrame, Steering

        self._check_counts()
        margin: dict[str, Any] = {} if self.margin is None else {"margin": self.margin}
        photo_of = [name == "photos" for name in self._order()]
        left = {True: iter(self.photos), False: iter(self.conditions)}
        images = [next(left[photo]) for photo in photo_of]
        kinds = [kind_of(plugin) for plugin in self.plugins]
        images = [_shipped(image, kind) for image, kind in zip(images, kinds, strict=True)]
        cropped = [photo and self._crops(kind) for photo, kind in zip(photo_of, kinds, strict=True)]
        options = self._options(
            [kind if photo else None for kind, photo in zip(kinds, photo_of, strict=True)], cropped
        )
        strengths = self.strengths or (1.0,) * len(self.plugins)
        rows = zip(self.plugins, images, photo_of, strengths, cropped, options, strict=True)
        return tuple(
            Steering(
                plugin=plugin,
                image=image,
                photo=photo,
                strength=strength,
                options=settings,
                frame=FaceFrame(**of_face, **margin) if crops else None,
            )
            for plugin, image, photo, strength, crops, (settings, of_face) in rows
        )

    def _check_counts(self) -> None:
        count, pictures = len(self.plugins), len(self.conditions) + len(self.photos)
        if pictures != count:
            why = f"{counted(count, 'plugin')} and {counted(pictures, 'picture')} were given"
            fix = "Give a --condition or a --image for each --plugin, in the same order"
            raise InputError("--plugin", why, fix)
        if self.strengths and len(self.strengths) != count:
            why = f"{len(self.strengths)} for {counted(count, 'plugin')}"
            raise InputError("--strength", why, "Give none, or one for each --plugin")
        if self.photos:
            return
        if self.settings or self.task is not None:
            why = "settings are for drawing a condition"
            raise InputError("--set or --landmarker", why, "Use them with --image")
        if self.crop != "auto" or self.margin is not None:
            why = "only photographs are cropped"
            raise InputError("--crop or --margin", why, "Use them with --image")

    def _order(self) -> list[str]:
        """Names of the options of the pictures, in the order of the command line; conditions first
        for other callers.
        """
        context = click.get_current_context(silent=True)
        usual = ["conditions"] * len(self.conditions) + ["photos"] * len(self.photos)
        return usual if context is None else list(context.meta.get(ORDER, usual))

    def _crops(self, kind: str) -> bool:
        if self.crop == "face" and kind == BODY:
            raise InputError(
                "--crop face",
                "holistic draws a whole body, not a face",
                "Leave it out, or crop the picture yourself",
            )
        everybody = "all" in (self.settings.get("faces"), self.settings.get(f"{kind}.faces"))
        return self.crop == "face" or (self.crop == "auto" and kind == FACE and not everybody)

    def _options(
        self, kinds: list[str | None], cropped: list[bool]
    ) -> list[tuple[dict[str, str], dict[str, str]]]:
        """Of each plugin, the settings of its condition and those of its crop; a setting that
        nobody has goes to all.

        Then the condition itself says which ones it has.
        """
        options: list[tuple[dict[str, str], dict[str, str]]] = [({}, {}) for _ in kinds]
        known = [_settings_of(kind) if kind is not None else set() for kind in kinds]
        settings = dict(self.settings) | ({} if self.task is None else {"task": str(self.task)})
        for key, value in settings.items():
            wanted, name = _split(key)
            if wanted is not None and wanted not in kinds:
                why = f"no photograph is drawn as {wanted}"
                raise InputError(f"--set {key}", why, "Name the condition of a --image")
            meant = [kind is not None and wanted in (None, kind) for kind in kinds]
            takes = [ours and name in names for ours, names in zip(meant, known, strict=True)]
            frames = [
                ours and crops and name in OF_THE_FACE
                for ours, crops in zip(meant, cropped, strict=True)
            ]
            nobody = not any(takes) and not any(frames)
            for place, (of_condition, of_face) in enumerate(options):
                if takes[place] or (meant[place] and nobody):
                    of_condition[name] = value
                if frames[place]:
                    of_face[name] = value
        return options


def _shipped(image: Path, kind: str) -> Path:
    """The picture, or the one that ships for this condition."""
    from unplug.sdk.drawing.conditions import example_condition

    return example_condition(kind) if image == EXAMPLE and not image.exists() else image


def _split(key: str) -> tuple[str | None, str]:
    """``canny.low`` as condition and setting; the condition is None where none is named."""
    from unplug.plugins.conditions import CONDITIONS

    kind, dot, name = key.partition(".")
    return (kind, name) if dot and kind in CONDITIONS else (None, key)


def _settings_of(kind: str) -> set[str]:
    from unplug.plugins.conditions import CONDITIONS

    condition: Any = CONDITIONS.get(kind)()
    return {item.name for item in fields(condition)}
