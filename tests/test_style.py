"""The style page of CONTRIBUTING.md, as far as a machine can hold it, in every language of code."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from .test_layout import ROOT, SOURCES

WORDS_IN_A_SENTENCE = 35
ARGUMENT = re.compile(r"^ {4}[*\w][*\w, ]*(?: \([^)]*\))?:\s+(.*(?:\n {5,}.*)*)", re.MULTILINE)
BARE = re.compile(
    r"(of|in|at|by|for|from|to|with|without|on|onto|over|into|under|above|below|between|among|about"
    r"|through|during|before|after|than|against|per|within|upon|via|as|so|beside|behind"
    r"|that|what|whatever|whose|where|wherever|who|whom|whoever)\b",
    re.IGNORECASE,
)
HEADLESS = re.compile("Of |Whose |Whom ")
BANNED = re.compile(
    r"\bwhoever\b|(?<![-.{`])\b(beside|behind)\b(?![:`])|(?<!there )\bis no\b(?! longer)",
    re.IGNORECASE,
)
SPOKEN = re.compile(
    r"""/\*[\s\S]*?\*/|//.*|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|'(?:\\.|[^'\\\n])*'"""
)
"""A comment or a string of Kotlin, Swift, TypeScript or Java."""
NAMED = re.compile(r"(?:@(?:param|property) \w+|- (?:Parameter )?\w+(?:, \w+)*:) +([^@]+)")
"""What their documentation says of an argument."""
PLACES = (
    "android_demo/*/src",
    "ios_demo/*/Sources",
    "mobile_bench/unplug/mobile_bench/web/page/src",
)
# What is not yet clean: the number of a package and rule, ``("sdk.cli", "long"): 3``, may only fall.
LEFT: dict[tuple[str, str], int] = {("trust", "word"): 1}  # what certificates do not claim: signed


def told(node: ast.AST) -> str:
    """The text of a string in the source; a value in it is one word."""
    if isinstance(node, ast.JoinedStr):
        return "".join(told(part) for part in node.values)
    if isinstance(node, ast.BinOp):
        return told(node.left) + told(node.right)
    return str(node.value) if isinstance(node, ast.Constant) else "it"


def arguments(tree: ast.Module) -> Iterator[str]:
    """Every line of ``Args``, and every help line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            section = re.search(
                r"^Args:\n((?: .*\n?|\n(?= ))*)", ast.get_docstring(node) or "", re.M
            )
            yield from ARGUMENT.findall(section[1] if section else "")
        elif isinstance(node, ast.keyword) and node.arg == "help":
            yield told(node.value)


def errors(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and re.search(r"(Error|Refused)'", ast.dump(node.func)):
            yield from map(told, node.args)


def faults(path: Path) -> Iterator[tuple[str, str]]:
    """Rule and text of everything in a file that the style page forbids."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    lines = [" ".join(text.split()) for text in arguments(tree)]
    yield from (("first word", text) for text in lines if BARE.match(text.lstrip("`'\"(")))
    for text in [*lines, *errors(tree)]:
        for sentence in re.split(r"(?<=[.!?])\s+", text):
            if len(sentence.split()) > WORDS_IN_A_SENTENCE:
                yield "long", sentence
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    yield from (
        ("headless", text) for text in re.findall(r'^ *"""((?:Of|Whose|Whom) .*)', source, re.M)
    )
    for text in (" ".join(text.split()) for text in [*texts, *re.findall("#.*", source)]):
        if " " in text:  # else it is a name
            yield from (("word", f"{found.group()}: {text}") for found in BANNED.finditer(text))


def other_faults(source: str) -> Iterator[str]:
    """What a file of another language says against the style page."""
    for text in SPOKEN.findall(source):
        plain = " ".join(re.sub(r"^\s*[/*]+", "", text, flags=re.MULTILINE).split())
        comment = text.startswith("/")
        if " " in plain and (BANNED.search(plain) or (comment and HEADLESS.match(plain))):
            yield plain
        yield from (said for said in NAMED.findall(plain) if comment and BARE.match(said))


def house(module: str) -> str:
    """``core``, ``sdk.drawing``, ``trust``: what a count is of."""
    return ".".join(module.split(".")[1 : 3 if module.startswith("unplug.sdk.") else 2])


def test_the_words_of_every_package() -> None:
    found = [
        ((house(module), rule), f"{path}: {text}")
        for module, path in SOURCES.items()
        for rule, text in faults(path)
    ]
    assert Counter(key for key, _ in found) == LEFT, [
        text for key, text in found if key not in LEFT
    ]


def test_the_words_of_the_other_languages() -> None:
    paths = [
        path
        for place in PLACES
        for folder in ROOT.glob(place)
        for path in folder.rglob("*.*")
        if path.suffix in (".kt", ".swift", ".ts", ".java", ".js")
    ]
    assert {path.suffix for path in paths} == {".kt", ".swift", ".ts", ".java", ".js"}
    found = [
        f"{path}: {text}"
        for path in paths
        for text in other_faults(path.read_text(encoding="utf-8"))
    ]
    assert not found, found


def test_the_rules_see_what_the_other_languages_may_not_say() -> None:
    source = """
    /** Of the file.
     * @param it of the file.
     * @return the number; `is no` and x.behind(1) are code.
     */
    // - Parameter names: of the files beside it
    val name = "it is no file"; val behind = "behind"
    """
    assert len(list(other_faults(source))) == 5


def test_the_rules_see_what_they_forbid(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text(
        '"""Of text.\n\nArgs:\n    a: of it.\n    b: the side\n        beside it, '
        + "word " * 33
        + '.\n"""\n'
        'raise InputError(f"{x} is " "no key", "there is no key")  # behind\n',
        encoding="utf-8",
    )
    assert Counter(rule for rule, _ in faults(path)) == {
        "first word": 1,
        "headless": 1,
        "long": 1,
        "word": 3,
    }
