"""Names in requests: one form, and one check."""

from __future__ import annotations

import pytest

from unplug.core import InputError, KnownNames, checked_names, name_form

KNOWN = KnownNames(["a.png", "subject:anna", "subject: ben ", "subject:eve", "subject:eve\u00a0"])


@pytest.mark.parametrize(
    ("name", "form"),
    [
        (" subject:anna", "subject:anna"),
        ("subject: anna\t", "subject:anna"),
        ("\u3000a b.png\r\n", "a b.png"),
        ("Subject:anna", "Subject:anna"),
        ("subject:  ", "subject:"),
        (" \u00a0", ""),
    ],
)
def test_the_form_of_a_name(name: str, form: str) -> None:
    assert name_form(name) == form == name_form(form)


def test_names_are_trimmed_and_each_stands_once() -> None:
    assert checked_names(["subject:anna", " subject:anna ", "a.png\n"], KNOWN) == (
        "subject:anna",
        "a.png",
    )
    assert checked_names(["subject:ben"], KNOWN) == ("subject:ben",), (
        "the data's own name has white space"
    )


@pytest.mark.parametrize(
    ("names", "known", "why"),
    [
        ([], None, "it names nobody"),
        (["a.png", "  "], None, r"1 of 2 names are empty \(number 2\)"),
        (["subject: "], KNOWN, r"1 of 1 names are empty \(number 1\)"),
        (
            ["subject:anna", "subject:anne", "anna"],
            KNOWN,
            r"2 of 3 names are unknown to the data \(number 2, 3\)",
        ),
        (
            ["x"] * 7,
            KNOWN,
            r"7 of 7 names are unknown to the data \(number 1, 2, 3, 4, 5, \.\.\.\)",
        ),
        (
            ["subject:eve"],
            KNOWN,
            r"several in the data that differ in white space alone \(number 1\)",
        ),
    ],
)
def test_names_that_are_refused(names: list[str], known: KnownNames | None, why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        checked_names(names, known)
    assert not any(
        name.strip() in f"{caught.value.what}: {caught.value.why}"
        for name in names
        if "anna" in name
    )
