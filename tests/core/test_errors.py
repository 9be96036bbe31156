"""The error tree: one sentence form, two exit codes, and errors that survive a process border."""

from __future__ import annotations

import inspect
import pickle

import pytest

from unplug.core import CheckFailed, MissingExtraError, UnplugError, errors

CLASSES = [
    item for _, item in inspect.getmembers(errors, inspect.isclass) if issubclass(item, UnplugError)
]


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (("a.txt",), "a.txt"),
        (("a.txt", "it is empty"), "a.txt: it is empty"),
        (("a.txt", "it is empty.", "Fill it."), "a.txt: it is empty. Fill it."),
        (("a.txt", "", "Fill it"), "a.txt. Fill it."),
        (
            ("method 'jsn'", "no such name", "Did you mean json?"),
            "method 'jsn': no such name. Did you mean json?",
        ),
    ],
)
def test_message_says_what_why_and_what_to_do(parts: tuple[str, ...], text: str) -> None:
    assert str(UnplugError(*parts)) == text


@pytest.mark.parametrize("place", range(3))
def test_a_strangers_text_does_not_fill_the_terminal(place: int) -> None:
    parts = ["size", "no such choice", "Use one of nano, small"]
    parts[place] = f"begins {'a' * 10_000} ends"
    error = UnplugError(*parts)
    assert len(str(error)) < 3 * errors.LONGEST_PART + 8
    assert len((error.what, error.why, error.fix)[place]) == errors.LONGEST_PART
    assert "begins a" in str(error) and "a…a" in str(error) and "a ends" in str(error)
    assert UnplugError("b" * errors.LONGEST_PART).what == "b" * errors.LONGEST_PART


def test_exit_codes_follow_the_tree() -> None:
    codes = {item.__name__: item.exit_code for item in CLASSES}
    negative = {"CheckFailed", "BudgetExceeded", "GateFailed"}
    assert {name for name, code in codes.items() if code == 1} == negative
    assert (codes.pop("Interrupted"), codes.pop("Terminated")) == (130, 143)
    assert {code for name, code in codes.items() if name not in negative} == {2}


@pytest.mark.parametrize("kind", CLASSES)
def test_errors_survive_pickling(kind: type[UnplugError]) -> None:
    made = MissingExtraError("onnx", "onnx") if kind is MissingExtraError else kind("a", "b", "c")
    back = pickle.loads(pickle.dumps(made))  # noqa: S301 (our own bytes)
    assert type(back) is kind and str(back) == str(made) and vars(back) == vars(made)


def test_the_docstring_draws_every_error_under_its_parent() -> None:
    """The tree in the module's docstring is the one that the code has."""
    drawn: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        stripped = line.lstrip("│├└─ ")
        name = stripped.split(" ")[0]
        if name in {item.__name__ for item in CLASSES}:
            depth = (len(line) - len(stripped)) // 4
            path[depth:] = [name]
            drawn[name] = path[depth - 1] if depth else "Exception"
    assert drawn == {item.__name__: item.__bases__[0].__name__ for item in CLASSES}
    assert issubclass(errors.GateFailed, CheckFailed)
