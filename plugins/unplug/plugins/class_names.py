"""The names of a classifier's classes, known without torch."""

from __future__ import annotations

from collections.abc import Sequence

from unplug.core import InputError, counted

MAX_CLASSES, MAX_CLASS_NAME = 1000, 100
"""One network answers them all in one line of numbers, and a config.json holds their names."""


def check_classes(classes: Sequence[str], what: str = "classes") -> None:
    """Refuses names of classes that are too few, too many, too long, not text, or not apart.

    Args:
        classes: G names, in the order of the logits.
        what: the place that they are from, for the message.

    Raises:
        InputError: naming the first that is wrong.
    """
    if not 2 <= len(classes) <= MAX_CLASSES:
        fix = f"Use 2 to {MAX_CLASSES:,} classes"
        raise InputError(what, f"it has {counted(len(classes), 'class', 'classes')}", fix)
    for name in classes:
        if not isinstance(name, str) or not 1 <= len(name) <= MAX_CLASS_NAME:
            why = f"class {str(name)[:60]!r} is not a text of 1 to {MAX_CLASS_NAME} letters"
            raise InputError(what, why, "Name it otherwise")
        if not name.isprintable():
            raise InputError(what, f"class {name[:60]!r} cannot be shown", "Name it otherwise")
    if len(set(classes)) < len(classes):
        raise InputError(what, "two classes have one name", "Name them apart")
