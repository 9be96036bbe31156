"""One word, one meaning: what an option is called says what it takes, whatever the command."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from unplug.sdk.cli import main

RANDOM = "generate|train|search|adopt|demo|erase|forget|audit|certify|references|evaluate|release"
SEEDED = f"{RANDOM}|data synth|data inspect|data split|data pick-forget|run|bench run"
COMPUTED = f"{RANDOM}|data pick-forget|condition|threshold|replay"
WORDS = {
    "--sign": ("the private key that signs", "init|bundle sign|release|generate|certificate issue"),
    "--trust": (
        "public keys, or what vouches for them",
        "bundle|release|certificate|ledger verify|page|run|evaluate|replay",
    ),
    "--image": ("pictures that something is computed from", "run|head|generate|parity"),
    "--condition": ("a picture that is drawn already", "generate"),
    "--kind": ("which condition is drawn", "condition|train plugin"),
    "--pixels": (
        "the side of pictures",
        "data|demo|train age|train base|train classes|search|adopt|condition|generate",
    ),
    "--size": ("of a network: nano, small, base", "demo|train age|train classes|train decoder"),
    "--count": ("how many pictures", "data synth|generate|audit"),
    "--task": ("samples on which the task's error is compared", "parity"),
    "--landmarker": (
        "MediaPipe's task file",
        "condition|train plugin|generate|run|head|evaluate",
    ),
    "--name": ("the product that releases are counted in", "init|bundle sign|release"),
    "--person": ("a sample id or subject:NAME", "request withdraw|ledger|head"),
    "--on": ("the device that files are timed on", "bench|search"),
    "--base": (
        "a text-to-image base",
        "train|generate|forget|certify|references|audit|parity|release",
    ),
    "--precision": ("of exported files", "export|release|generate|bundle pack"),
    "--dtype": ("in which a training computes", "train"),
    "--steps": ("of the optimizer", "train"),
    "--drawn-steps": ("in which a picture is drawn", "generate|train student"),
    "--request": ("an id in the ledger", "release|bundle sign|trace|certificate verify"),
    "--method": ("by which something is forgotten", "demo|erase|forget|certify|release"),
    "--set": (
        "a setting of the method, design or condition",
        "erase|forget|certify|release|train age|train classes|train plugin|condition|generate",
    ),
    "--seed": ("where something is drawn at random", SEEDED),
    "--device": ("where networks compute", COMPUTED),
}
"""Option to its one meaning, and to the commands that may have it, by the words they begin with."""
GONE = [
    "key",
    "public",
    "vkey",
    "image-size",
    "photo",
    "condition-image",
    "face-landmarker",
    "timezone",
    "hourly",
]


def commands(group: click.Group = main, words: str = "") -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        path = f"{words} {name}".lstrip()
        if isinstance(command, click.Group):
            yield from commands(command, path)
        else:
            yield path, command


def options() -> dict[str, set[str]]:
    """Every option to the commands that have it."""
    found: dict[str, set[str]] = {}
    for path, command in commands():
        for item in command.get_params(click.Context(command, info_name="unplug")):
            if isinstance(item, click.Option):
                for name in item.opts:
                    found.setdefault(name, set()).add(path)
    return found


@pytest.fixture(scope="module")
def found() -> dict[str, set[str]]:
    return options()


@pytest.mark.parametrize("word", WORDS)
def test_an_option_is_where_its_one_meaning_is(word: str, found: dict[str, set[str]]) -> None:
    starts = WORDS[word][1].split("|")
    fits = {
        start: {path for path in found[word] if f"{path} ".startswith(f"{start} ")}
        for start in starts
    }
    assert set.union(*fits.values()) == found[word], "an option of this name means something else"
    assert all(fits.values()), "no command that begins so has it"


def test_earlier_words_are_gone(found: dict[str, set[str]]) -> None:
    assert not {f"--{word}" for word in GONE} & found.keys()


def test_an_option_has_one_word(found: dict[str, set[str]]) -> None:
    """No aliases, but for the one letter of --out and of --help."""
    for path, command in commands():
        for item in command.get_params(click.Context(command, info_name="unplug")):
            if isinstance(item, click.Option) and not {"--out", "--help"} & {*item.opts}:
                assert len(item.opts) == 1, f"{path} {item.opts}"
