"""The site: every page is found from the front, every link leads somewhere, the reference is whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.site import ROOT, DeadLink, command_pages, door_pages, linked, navigation

from unplug.sdk import __all__ as names

from .sdk.cli.test_words import commands

TABLE = "| you | pages |\n|---|---|\n| write tools | [iOS](docs/a.md) |\n"


def root_of(folder: Path, page: str) -> Path:
    """A repository with a README, whose table lists one page."""
    (folder / "docs").mkdir()
    (folder / "README.md").write_text(TABLE)
    (folder / "docs/a.md").write_text(page)
    return folder


def test_every_page_is_in_the_navigation_and_every_link_leads_somewhere() -> None:
    rows = list(navigation(ROOT).values())
    assert {"Quickstart": "docs/quickstart.md"} in rows[0]
    assert all(path.endswith(".md") for row in rows for page in row for path in page.values())
    files = {path.as_posix() for path in linked(ROOT)}
    assert {"CONTRIBUTING.md", "docs/images/report.png", "android_demo/README.md"} <= files


@pytest.mark.parametrize("target", ["b.md", "b.md#part", "../docs", "/etc/hosts", "b.png"])
def test_a_dead_link_is_told_with_its_line(tmp_path: Path, target: str) -> None:
    root = root_of(tmp_path, f"[out](https://example.org/b.md)\n\n[here](#part) [b]({target})\n")
    with pytest.raises(DeadLink, match=r"^docs/a\.md:3: nothing is at "):
        linked(root)


def test_a_page_that_the_readme_leaves_out_is_told(tmp_path: Path) -> None:
    root = root_of(tmp_path, "[b](b.md)\n")
    assert navigation(root) == {"Write tools": [{"iOS": "docs/a.md"}]}
    (root / "docs/b.md").write_text("# B\n")
    with pytest.raises(DeadLink, match=r"leaves out docs/b\.md"):
        navigation(root)


def test_the_reference_has_every_command_with_its_options() -> None:
    pages = dict(command_pages())
    text = "\n".join(pages.values())
    assert list(pages)[:2] == ["Start", "Forget"]
    for path, command in commands():
        part = text.partition(f"# unplug {path}\n")[2].partition("\n#")[0]
        assert f"\nunplug {path}" in part
        options = {name for option in command.params for name in option.opts if name[:2] == "--"}
        assert not {name for name in options if not re.search(rf"{name}[ `]", part)}, path
    assert "&#91;default: 0.2&#93;" in pages["Start"], (
        "brackets are read as neither link nor formula"
    )


def test_the_reference_of_python_has_every_public_name() -> None:
    pages = dict(door_pages(ROOT))
    assert next(iter(pages)) == "unplug.sdk" and "unplug.trust.bundle" in pages
    lines = pages["unplug.sdk"].splitlines()
    own = {line.removeprefix("::: unplug.sdk.") for line in lines}
    assert {"train", "Exported"} <= own
    links = pages["unplug.sdk"].partition("## From other packages")[2]
    assert "[`Artifact`](unplug.export.md#unplug.export.Artifact)" in links
    assert all(name in own or f"[`{name}`]" in links for name in names)
