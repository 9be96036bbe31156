"""Generated pictures as UnlearnCanvas's scripts lay them out, and who recognised what in them.

Its ``machine_unlearning/evaluation`` (github.com/OPTML-Group/UnlearnCanvas) draws
``THEME/STYLE_OBJECT_seedN.jpg``, a folder for each erased theme, and ``quantitative/accuracy.py``
writes ``THEME.pth`` into a folder of its choice, once with ``--task style`` and once with ``class``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, get_args

import torch
from PIL import Image

from unplug.core import DataError, InputError
from unplug.sdk.evidence.concepts import Judge, load_judge

from .canvas import KINDS, Counts, Kind, Recognised

PLAIN = "Seed_Images"
"""Their name for photographs in no style."""
_STYLES = """
Abstractionism Artist_Sketch Blossom_Season Bricks Byzantine Cartoon Cold_Warm Color_Fantasy
Comic_Etch Crayon Cubism Dadaism Dapple Defoliation Early_Autumn Expressionism Fauvism French
Glowing_Sunset Gorgeous_Love Greenfield Impressionism Ink_Art Joy Liquid_Dreams Magic_Cube
Meta_Physics Meteor_Shower Monet Mosaic Neon_Lines On_Fire Pastel Pencil_Drawing Picasso Pop_Art
Red_Blue_Ink Rust Sketch Sponge_Dabbed Structuralism Superstring Surrealism Ukiyoe Van_Gogh
Vibrant_Flow Warm_Love Warm_Smear Watercolor Winter Seed_Images
"""
_OBJECTS = """
Architectures Bears Birds Butterfly Cats Dogs Fishes Flame Flowers Frogs Horses Human Jellyfish
Rabbits Sandwiches Sea Statues Towers Trees Waterfalls
"""
WORDS: Mapping[str, str] = {name.title().replace(" ", "_"): name for name in KINDS}
"""Our concepts by their names in such a folder."""
NAMES: Mapping[Kind, frozenset[str]] = {
    kind: frozenset(
        (*text.split(), *(name for name, words in WORDS.items() if KINDS[words] == kind))
    )
    for kind, text in zip(get_args(Kind), (_STYLES, _OBJECTS), strict=True)
}
_LAYOUT = "Lay pictures out as THEME/STYLE_OBJECT_seedN.jpg, with UnlearnCanvas's names or ours"
_TASKS: Mapping[Kind, str] = {"style": "style", "object": "class"}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One picture.

    Args:
        path: of the file.
        style, object: what its prompt asked for.
    """

    path: Path
    style: str
    object: str


def read_layout(folder: Path) -> dict[str, list[Asked]]:
    """The pictures of every erased theme.

    Args:
        folder: has a folder for each.

    Raises:
        InputError: another layout, no picture, or a name that is no style or object.
    """
    themes = sorted(one for one in _listed(folder) if one.is_dir() and one.name[0] != ".")
    if not themes:
        raise InputError(str(folder), "it has no folder of an erased theme", _LAYOUT)
    found = dict[str, list[Asked]]()
    for theme in themes:
        if not any(theme.name in names for names in NAMES.values()):
            raise InputError(str(theme), "its name is no style and no object", _LAYOUT)
        own = [_asked(path) for path in sorted(theme.glob("*.jpg")) if path.name[0] != "."]
        if not own:
            raise InputError(str(theme), "no .jpg picture is in it", _LAYOUT)
        found[theme.name] = own
    return found


def _listed(folder: Path) -> Iterable[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        why = error.strerror or "it cannot be read"
        raise InputError(str(folder), why, _LAYOUT) from error


def _asked(path: Path) -> Asked:
    pair = re.fullmatch(r"(.+)_seed\d+", path.stem)
    parts = pair[1].split("_") if pair else []
    for at in range(1, len(parts)):  # names have underscores of their own
        style, thing = "_".join(parts[:at]), "_".join(parts[at:])
        if style in NAMES["style"] and thing in NAMES["object"]:
            return Asked(path=path, style=style, object=thing)
    why = f"{path.name} names no style and object that are known"
    raise InputError(str(path.parent), why, _LAYOUT)


def predicted(folder: Path, themes: Mapping[str, Sequence[Asked]]) -> list[Recognised]:
    """What UnlearnCanvas's own classifiers recognised, from the files of their evaluation.

    Those count a picture of the theme among the others of the other kind as well, which cannot be
    told apart in them.

    Args:
        folder: has ``style/THEME.pth`` and ``class/THEME.pth``.
        themes: see `read_layout`.

    Raises:
        InputError: a file that is not there, is none of theirs, or is of other pictures.
    """
    answers = []
    for theme, pictures in themes.items():
        both: dict[Kind, Counts] = {
            kind: _counts(folder / task / f"{theme}.pth", [getattr(one, kind) for one in pictures])
            for kind, task in _TASKS.items()
        }
        answers.append(Recognised(theme=theme, styles=both["style"], objects=both["object"]))
    return answers


def _counts(path: Path, asked: Sequence[str]) -> Counts:
    """Of every name that was asked for the pictures in which it was recognised, and all."""
    try:
        raw: Any = torch.load(path, map_location="cpu", weights_only=True)
        told = {
            name: (int(seen.get(name, 0)), sum(map(int, seen.values())))
            for name, seen in raw["misclassified"].items()
        }
        if any(not 0 <= right <= of for right, of in told.values()):
            raise ValueError("counts below zero")
    except FileNotFoundError as error:
        why, fix = "it is not there", "Write it with UnlearnCanvas's quantitative/accuracy.py"
        raise InputError(str(path), why, f"{fix}, or give --judges") from error
    except (
        *(OSError, EOFError, RuntimeError, UnpicklingError),
        *(KeyError, TypeError, ValueError, AttributeError),
    ) as error:
        why = f"no result of UnlearnCanvas's accuracy.py ({type(error).__name__})"
        raise InputError(str(path), why, "Write it again") from error
    for name, count in Counter(asked).items():
        if told.get(name, (0, 0))[1] != count:
            why = f"it counts {told.get(name, (0, 0))[1]} pictures of {name}, and {count} are there"
            raise InputError(str(path), why, "Evaluate these pictures again")
    return {name: told[name] for name in Counter(asked)}


def judged(folder: Path, themes: Mapping[str, Sequence[Asked]]) -> list[Recognised]:
    """What the study's own judges see; pictures that ask for a theme count for it alone.

    Args:
        folder: of judges, as ``erasure taught`` writes them.
        themes: see `read_layout`.

    Raises:
        InputError: a style or object without a judge. DataError: a picture that cannot be read.
    """
    every = [one for pictures in themes.values() for one in pictures]
    names = {name for one in every for name in (one.style, one.object)} - {PLAIN}
    judges = {name: _judge(folder, name) for name in sorted(names)}
    answers = []
    for theme, pictures in themes.items():
        seen: dict[Kind, dict[str, tuple[int, int]]] = {"style": {}, "object": {}}
        for kind, own in seen.items():
            for name in dict.fromkeys(getattr(one, kind) for one in pictures):
                shown = [
                    one.path
                    for one in pictures
                    if getattr(one, kind) == name
                    and (name == theme or theme not in (one.style, one.object))
                ]
                if shown and name in judges:
                    own[name] = _recognised(judges[name], shown), len(shown)
        answers.append(Recognised(theme=theme, styles=seen["style"], objects=seen["object"]))
    return answers


def _judge(folder: Path, name: str) -> Judge:
    place = folder / WORDS.get(name, name).replace(" ", "-")
    if name not in WORDS or not place.is_dir():
        why = f"neither --predictions nor a judge of {name} is there"
        raise InputError(str(folder), why, "Give the results of UnlearnCanvas's accuracy.py")
    return load_judge(place, device=torch.device("cpu"))


def _recognised(judge: Judge, paths: Sequence[Path]) -> int:
    size = judge.facts.size, judge.facts.size
    pictures = []
    for path in paths:
        try:
            with Image.open(path) as picture:
                pictures.append(picture.convert("RGB").resize(size, Image.Resampling.LANCZOS))
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            raise DataError(
                str(path), "it is no picture that can be read", "Draw it again"
            ) from error
    return int((judge.presence(pictures) >= 0.5).sum())
