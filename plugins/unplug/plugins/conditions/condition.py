"""What a condition is, and the registry of those that unplug knows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import Field, fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from unplug.core import InputError, Registry, sha256_tree

from .picture import Picture, centre_square

Parallel = Literal["process", "thread", "none"]
OPENCV = (
    "opencv-python-headless",
    "opencv-contrib-python",
    "opencv-python",
    "opencv-contrib-python-headless",
)
PILLOW = ("pillow",)
"""For `Condition.packages`."""
TRUTH = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


class Condition(ABC):
    """A frozen dataclass of settings that turns a picture into the picture that steers a plugin.

    What is slow to open (a landmarker, a network) is opened with the first picture and kept until
    `close`.

    A field's metadata say what of it belongs to this machine alone: ``path`` (a file or folder,
    where it is one), ``machine``.

    Attributes:
        kind: name in the registry.
        description: one line for ``unplug list conditions``.
        version: the version of the drawing; raise it with every change that draws another picture,
            so that cached pictures are drawn again.
        parallel: how a whole data set is drawn: "process" in child processes (foreign runtimes,
            which must not share a process with torch), "thread", or "none", one picture after the
            other.
        packages: distributions whose versions decide the result; the first name installed of each
            counts.
    """

    kind: ClassVar[str]
    description: ClassVar[str]
    version: ClassVar[int] = 1
    parallel: ClassVar[Parallel] = "thread"
    packages: ClassVar[tuple[tuple[str, ...], ...]] = ()

    @abstractmethod
    def __call__(self, image_HWC: Picture) -> Picture:
        """The condition of a whole picture.

        Args:
            image_HWC: (H, W, 3) RGB, uint8.

        Returns:
            (H, W, 3) RGB, uint8; the same bytes for the same picture on the same machine.

        Raises:
            DataError: no such picture, or too small.
            NoFaceError, SeveralFacesError: it does not show what the condition needs.
        """

    def render(self, image_HWC: Picture, size: int) -> Picture:
        """The condition of the centre square, as a network takes it: (size, size, 3). Raises what a
        call raises.
        """
        return self(centre_square(image_HWC, size))

    def resolve(self) -> Self:
        """These settings with what the environment adds; raises before any work where a file is
        missing.
        """
        return self

    def close(self) -> None:
        """Frees what was opened (a subclass caches it as ``_opened``); the next picture opens it
        again.
        """
        opened = self.__dict__.pop("_opened", None)
        if hasattr(opened, "close"):
            opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


CONDITIONS: Registry[Callable[[], Condition]] = Registry(
    "condition",
    {
        "face_landmark": "unplug.plugins.conditions.face_landmark:FaceLandmark",
        "holistic": "unplug.plugins.conditions.holistic:Holistic",
        "depth": "unplug.plugins.conditions.depth:Depth",
        "canny": "unplug.plugins.conditions.canny:Canny",
    },
    group="unplug.conditions",
)


def build_condition(kind: str, options: Mapping[str, str] | None = None) -> Condition:
    """A condition with some settings read from text (``--set low=50``).

    Raises:
        InputError: an unknown condition or setting, or a value of the wrong type or out of range.

    Example:
        >>> build_condition("canny", {"low": "50"}).low
        50.0
    """
    condition: Any = CONDITIONS.get(kind)()
    known = [item.name for item in fields(condition)]
    values: dict[str, Any] = {}
    for key, text in (options or {}).items():
        if key not in known:
            raise InputError(
                f"condition {kind}",
                f"it has no setting {key!r}",
                f"Known: {', '.join(known) or 'none'}",
            )
        kind_of_value = type(getattr(condition, key))
        try:
            values[key] = (
                TRUTH[text.strip().lower()] if kind_of_value is bool else kind_of_value(text)
            )
        except (ValueError, TypeError, KeyError) as error:
            why = f"not a value of type {kind_of_value.__name__}"
            fix = (
                f"Write {key}=true or {key}=false" if kind_of_value is bool else "Write KEY=NUMBER"
            )
            raise InputError(f"{kind} {key}={text}", why, fix) from error
    built: Condition = replace(condition, **values)
    return built


def identity(condition: Condition) -> dict[str, Any]:
    """What decides a condition's result, ready for JSON: settings, versions, files by their
    SHA-256.

    No path is in it, so that it may be written into results.

    Raises:
        InputError: from `Condition.resolve`, or a file that cannot be read.

    Example:
        >>> identity(build_condition("canny"))["settings"]
        {'low': 100.0, 'high': 200.0}
    """
    resolved: Any = condition.resolve()
    settings = {}
    for setting in fields(resolved):
        value = getattr(resolved, setting.name)
        if _is_path(setting, value):
            value = f"sha256:{sha256_tree(Path(value))[0]}"
        if not setting.metadata.get("machine"):
            settings[setting.name] = value
    versions = dict(filter(None, (_installed(names) for names in condition.packages)))
    return {
        "kind": condition.kind,
        "version": condition.version,
        "settings": settings,
        "versions": versions,
    }


def portable(condition: Condition) -> dict[str, str]:
    """The settings that differ from the defaults, as `build_condition` reads them, without what
    belongs to this machine.

    With what the other machine's environment names, they build the same condition there; `identity`
    tells whether they did.

    Example:
        >>> portable(build_condition("canny", {"low": "50", "high": "200"}))
        {'low': '50.0'}
    """
    resolved: Any = condition.resolve()
    usual = type(resolved)()
    chosen = {}
    for setting in fields(resolved):
        value = getattr(resolved, setting.name)
        if (
            value != getattr(usual, setting.name)
            and not setting.metadata.get("machine")
            and not _is_path(setting, value)
        ):
            chosen[setting.name] = str(value)
    return chosen


def _is_path(item: Field[Any], value: Any) -> bool:
    return bool(item.metadata.get("path") and value and Path(value).exists())


def _installed(names: tuple[str, ...]) -> tuple[str, str] | None:
    for name in names:
        try:
            return name, version(name)
        except PackageNotFoundError:
            continue
    return None
