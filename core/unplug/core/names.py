"""Names of people and pictures in requests: one form in which they are compared, and one check of a request's names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .errors import InputError

SUBJECT = "subject:"
MOST_PLACES = 5  # names that a refusal counts up


def name_form(name: str) -> str:
    """The form in which names are compared: without white space around them, also behind ``subject:``.

    Forget files, the command line, the ledger and requests over HTTP use this one, so that a name means the same everywhere.

    Example:
        >>> name_form(" subject: anna\\t"), name_form("faces/a b.png ")
        ('subject:anna', 'faces/a b.png')
    """
    bare = name.strip()
    return f"{SUBJECT}{bare.removeprefix(SUBJECT).strip()}" if bare.startswith(SUBJECT) else bare


class KnownNames:
    """The names that some data hold, by the form in which they are compared.

    Args:
        names: all sample ids, and ``subject:NAME`` of all people.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._of: dict[str, dict[str, None]] = {}
        for name in names:
            self._of.setdefault(name_form(name), {})[name] = None

    def alike(self, name: str) -> tuple[str, ...]:
        """The data's names of the same form: one where it is known, none, or several that differ in white space alone."""
        return tuple(self._of.get(name_form(name), ()))


def checked_names(names: Sequence[str], known: KnownNames | None = None) -> tuple[str, ...]:
    """The names of a request in the form in which they are compared, each once: the one check that every door makes.

    Args:
        names: as they were given.
        known: those of the data in which they will be looked for; None checks no more than their form.

    Raises:
        InputError: there are none, one is empty, or the data hold one not at all or several times. What and why name nobody,
            for they go where names must not (over HTTP, into logs); what to do quotes the first.
    """
    if not names:
        raise InputError("the request", "it names nobody", "Name at least one sample id or subject:NAME")
    forms = [name_form(name) for name in names]
    if empty := [place for place, form in enumerate(forms, 1) if form in ("", SUBJECT)]:
        raise InputError("the request", _places(empty, forms, "empty"), "Write a sample id or subject:NAME, or leave it out")
    if known is None:
        return tuple(dict.fromkeys(forms))
    counts = [len(known.alike(form)) for form in forms]
    if strangers := [place for place, count in enumerate(counts, 1) if not count]:
        first = forms[strangers[0] - 1][:60]
        fix = f"Check {first!r}: `unplug data inspect SPEC --ids` lists the ids; whom another data set holds is another request"
        raise InputError("the request", _places(strangers, forms, "unknown to the data"), fix)
    if several := [place for place, count in enumerate(counts, 1) if count > 1]:
        fix = f"Rename them in the data, {forms[several[0] - 1][:60]!r} first: a request must never forget somebody else"
        why = _places(several, forms, "several in the data that differ in white space alone")
        raise InputError("the request", why, fix)
    return tuple(dict.fromkeys(forms))


def _places(places: Sequence[int], names: Sequence[str], what: str) -> str:
    """Which of the names are something, by their place: ``1 of 2 names are empty (number 2)``."""
    listed = ", ".join(map(str, places[:MOST_PLACES])) + (", ..." if len(places) > MOST_PLACES else "")
    return f"{len(places)} of {len(names)} names are {what} (number {listed})"
