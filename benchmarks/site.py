"""The documentation as a site: ``python -m benchmarks.site`` writes ``out/site/html``.

README and the pages of docs stay where they are and link as they do on any host of repositories:
what they link is laid out again in the same folders. The navigation is README's table. The
reference of commands comes from their parsers, that of Python from the doors of the packages.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from unplug.sdk.cli import COMMANDS, main

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
ROW = re.compile(r"^\| ([a-z ]+) \| (\[.*\]\(.*\)) \|$", re.MULTILINE)
ENTRY = re.compile(r"\[([^\]]+)\]\(([^)]+\.md)\)")
Nav = dict[str, list[dict[str, str]]]


class DeadLink(Exception):
    """A page links what is not there."""


def linked(root: Path) -> dict[Path, Path]:
    """README, the pages of docs, and every file that they link, by the path below the root.

    Raises:
        DeadLink: with the file and the line of the link.
    """
    found: dict[Path, Path] = {}
    waiting = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    while waiting:
        page = waiting.pop()
        name = page.relative_to(root)
        if name in found:
            continue
        found[name] = page
        lines = page.read_text(encoding="utf-8").splitlines() if page.suffix == ".md" else []
        for number, line in enumerate(lines, 1):
            for target in LINK.findall(line):
                file = (page.parent / target).resolve()
                if not file.is_file() or not file.is_relative_to(root):
                    raise DeadLink(f"{name}:{number}: nothing is at {target}")
                waiting.append(file)
    return found


def navigation(root: Path) -> Nav:
    """A heading a row of README's table, with its pages by their titles; notebooks are linked only.

    Raises:
        DeadLink: a page of docs stands in no row.
    """
    readme = (root / "README.md").read_text(encoding="utf-8")
    rows = {heading: ENTRY.findall(row) for heading, row in ROW.findall(readme)}
    listed = {page for row in rows.values() for _, page in row}
    pages = {path.relative_to(root).as_posix() for path in (root / "docs").rglob("*.md")}
    if missing := sorted(pages - listed):
        raise DeadLink(f"README.md: its table leaves out {', '.join(missing)}")
    return {
        _title(heading.removeprefix("are ")): [
            {_title(name): page} for name, page in row if page.endswith(".md")
        ]
        for heading, row in rows.items()
    }


def _title(words: str) -> str:
    """With a capital, but for iOS."""
    return re.sub("^[a-z](?![A-Z])", lambda first: first[0].upper(), words)


def command_pages() -> Iterator[tuple[str, str]]:
    """Heading and text of a page for each group of ``unplug --help``."""
    for group, rows in itertools.groupby(COMMANDS.items(), lambda row: row[1].group):
        parts = [f"# Commands: {group.lower()}\n"]
        for name, _ in rows:
            command = main.get_command(click.Context(main), name)
            assert command is not None
            parts += _command(command, f"unplug {name}", 2)
        yield group, "\n".join(parts)


def _command(command: click.Command, path: str, level: int) -> Iterator[str]:
    """A command and those below it: what it does, how it is called, its options."""
    context = click.Context(command, info_name=path)
    yield f"{'#' * level} {path}\n"
    yield "\n\n".join(map(_prose, inspect.cleandoc(command.help or "").split("\n\n"))) + "\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _command(below, f"{path} {name}", level + 1)
        return
    yield f"```console\n{path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    for option in command.get_params(context):
        record = option.get_help_record(context)
        if record is not None and record[1] and "--help" not in record[0]:
            yield f"`{record[0]}`\n:   {_prose(record[1])}\n"


def _prose(text: str) -> str:
    """Words that no mark-up is read out of, but for code between backticks."""
    spans = " ".join(text.split()).split("`")
    spans[::2] = [
        re.sub(r"[&<>*_\[\]#$\\]", lambda found: f"&#{ord(found[0])};", span) for span in spans[::2]
    ]
    spans[::2] = [re.sub(r"(?<!\S)--[a-z][a-z-]*", r"`\g<0>`", span) for span in spans[::2]]
    return "`".join(spans)


def door_pages(root: Path) -> Iterator[tuple[str, str]]:
    """Import path and text of a page for each package whose door lists names."""
    stubs = {
        ".".join(path.parent.relative_to(root).parts[1:]): path
        for path in sorted(root.glob("*/unplug/**/__init__.pyi"))
    }
    for door in sorted(stubs, key=lambda name: (name != "unplug.sdk", name)):
        if not door.endswith(".cli"):
            yield door, _door(door, stubs)


def _door(door: str, stubs: dict[str, Path]) -> str:
    """Names of a door by kind; those that another door owns are linked there."""
    kinds: dict[str, list[str]] = {"Functions": [], "Classes and types": [], "Constants": []}
    bare, elsewhere = [], []
    for node in ast.parse(stubs[door].read_text(encoding="utf-8")).body:
        assert isinstance(node, ast.ImportFrom)
        origin = f"{door}.{node.module}" if node.level else str(node.module)
        for name in (alias.name for alias in node.names):
            if origin in stubs:
                elsewhere.append(f"[`{name}`]({origin}.md#{origin}.{name})")
            elif not name.isupper():
                kinds["Classes and types" if name[0].isupper() else "Functions"].append(name)
            elif _told(stubs[door].parent.joinpath(*str(node.module).split(".")), name):
                kinds["Constants"].append(name)
            else:
                bare.append(f"`{name}`")
    parts = [
        f"# {door}\n\n::: {door}\n    options: {{members: false, show_root_heading: false, show_root_toc_entry: false}}\n"
    ]
    for kind, names in kinds.items():
        if names:
            parts += [
                f"## {kind}\n",
                *(f"::: {door}.{name}\n" for name in sorted(names, key=str.lower)),
            ]
    for kind, names in (("Further constants", bare), ("From other packages", elsewhere)):
        if names:
            parts.append(f"## {kind}\n\n{', '.join(sorted(names, key=str.lower))}\n")
    return "\n".join(parts)


def _told(module: Path, name: str) -> bool:
    """Whether a constant has a docstring; those of several in one line have none."""
    file = module.with_suffix(".py")
    file = file if file.is_file() else module / "__init__.py"
    return any(
        isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(after, ast.Expr)
        and ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target) == name
        for node, after in itertools.pairwise(ast.parse(file.read_text(encoding="utf-8")).body)
    )


def lay_out(root: Path, out: Path) -> None:
    """Everything that the site is built from: pages, and the configuration with its navigation."""
    nav, files = navigation(root), linked(root)
    own = (root / "docs/site.css", root / "docs/iframe-worker.js")
    shutil.rmtree(out, ignore_errors=True)
    for name, file in {**files, **{file.relative_to(root): file for file in own}}.items():
        place = out / "pages" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
    for heading, pages in (("Commands", command_pages()), ("Python", door_pages(root))):
        folder = out / "pages" / heading.lower()
        folder.mkdir()
        nav[heading] = []
        for title, text in pages:
            (folder / f"{title}.md").write_text(text, encoding="utf-8")
            short = title.removeprefix("unplug.")
            nav[heading].append({short: f"{heading.lower()}/{title}.md"})
    next(iter(nav.values())).insert(0, {"What it is": "README.md"})
    tabs = [{heading: pages} for heading, pages in nav.items()]
    config = (root / "docs/zensical.toml").read_text(encoding="utf-8")
    head = f"[project]\nnav = {json.dumps(tabs, separators=(', ', ' = '))}\n"
    (out / "zensical.toml").write_text(config.replace("[project]\n", head, 1), encoding="utf-8")


if __name__ == "__main__":
    out = ROOT / "out/site"
    try:
        lay_out(ROOT, out)
    except DeadLink as error:
        sys.exit(str(error))
    build = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file"]
    sys.exit(subprocess.run([*build, str(out / "zensical.toml")], check=False).returncode)
