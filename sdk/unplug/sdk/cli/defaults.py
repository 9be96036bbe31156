"""What commands below a project take from ``unplug.toml`` where nobody says it.

A command line goes before the environment, that before the file, and the file before a command's
own default; ``unplug config`` shows what it comes to.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unplug.core import is_there

if TYPE_CHECKING:
    from unplug.sdk.project import Project, ProjectFolder, ProjectSettings

DATA, MODEL, FILES = ("spec", "on_bad"), ("checkpoint",), ("targets", "precisions")
TAKES: dict[str, tuple[str, ...]] = {
    "train age": DATA,
    "train classes": DATA,
    "references": (*MODEL, *DATA),
    "forget": (*MODEL, *DATA),
    "certify": (*MODEL, *DATA),
    "evaluate": ("models", *DATA),
    "threshold": ("models", *DATA),
    "audit": DATA,
    "data pick-forget": (*MODEL, *DATA),
    "export": ("checkpoints", "to", "precision"),
    "release": (*MODEL, *DATA, *FILES, "key", "public", "method", "budget", "references"),
    "ledger add": ("spec",),
    "ledger queue": ("spec",),
    "ledger touch": ("checkpoints", "spec"),
    "trace": ("spec", "folders"),
    "certificate issue": ("key", "trusted"),
    "bundle sign": ("key", "public"),
    "bundle verify": ("trusted",),
}
"""Command to those of its parameters that a project says something of."""


def open_project() -> Project:
    """The project around the current folder. Where there is none nothing slow is imported to say
    so.
    """
    from unplug.sdk.project import ProjectFolder

    ProjectFolder.open()
    from unplug.sdk.project import Project

    return Project.open()


@contextlib.contextmanager
def project_defaults(command: str) -> Iterator[dict[str, Any] | None]:
    """While it lasts, ledger and keys are the project's that the current folder lies in.

    Args:
        command: the first word after ``unplug``; ``init`` and ``config`` look at the file
            themselves.

    Yields:
        Click's defaults of the commands that begin so; None outside of projects.

    Raises:
        InputError: ``unplug.toml`` does not follow its schema.
    """
    from unplug.sdk.project import find_project

    folder = None if command in ("init", "config") else find_project()
    if folder is None:
        yield None
        return
    from unplug.sdk.project import ProjectFolder, read_settings

    project = ProjectFolder(folder, read_settings(folder))
    with project.surroundings():
        yield _nested(command, project)


def _nested(command: str, project: ProjectFolder) -> dict[str, Any]:
    """The parameters of each command in the form that click looks them up."""
    values = {**_of_file(project.settings), **_of_state(project)}
    found: dict[str, Any] = {}
    for words, names in TAKES.items():
        first, _, second = words.partition(" ")
        if first == command:
            taken = {name: values[name] for name in names if name in values}
            found[first] = {**found.get(first, {}), second: taken} if second else taken
    return found


def _of_file(settings: ProjectSettings) -> Mapping[str, Any]:
    """Parameters by what the file says; of the release, only what stands there."""
    model, release = settings.model, settings.release
    given = {
        name: getattr(release, name)
        for name in ("method", "budget", "references")
        if f"release.{name}" in settings.given
    }
    files = {
        name: ",".join(value)
        for name, key, value in (
            ("targets", "to", release.targets),
            ("precisions", "precision", release.precisions),
        )
        if f"release.{key}" in settings.given
    }
    if release.public is not None:
        given["public"] = release.public
    public = Path(release.public or f"{release.sign}.pub")
    folders = dict.fromkeys((*settings.evidence.search, release.folder))
    return {
        "spec": model.data,
        "on_bad": model.on_bad,
        "key": release.sign,
        "folders": [path for path in folders if is_there(Path(path))],
        **({"trusted": [str(public)]} if is_there(public) else {}),
        **({"to": files["targets"]} if "targets" in files else {}),
        **({"precision": files["precisions"]} if "precisions" in files else {}),
        **files,
        **given,
    }


def _of_state(project: ProjectFolder) -> Mapping[str, Callable[[], Any]]:
    """Parameters that name a model: the current one, looked up where a command asks for it."""
    return {
        "checkpoint": lambda: str(project.current()),
        "checkpoints": lambda: [str(project.current())],
        "models": lambda: [str(project.current())],
    }
