"""A project's folder: its settings, its surroundings, and the model that is current in it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from unplug.core import InputError, read_json
from unplug.plugins import RECORD
from unplug.trust.ledger import Ledger, open_ledger

from .place import FILE, find_project
from .settings import VARIABLES, ProjectSettings, read_settings
from .state import ProjectState, current_state, model_folder


class ProjectFolder:
    """A folder with ``unplug.toml``.

    Args:
        folder: the folder that holds the file.
        settings: the contents.
    """

    def __init__(self, folder: Path, settings: ProjectSettings) -> None:
        self.folder, self.settings = folder, settings

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder)!r}, {self.settings.model.name!r})"

    @classmethod
    def open(cls, folder: str | Path | None = None) -> Self:
        """The project that a folder lies in.

        Args:
            folder: None takes the current one.

        Raises:
            InputError: it lies in none, or in two; or ``unplug.toml`` does not follow its schema.
        """
        start = None if folder is None else Path(folder)
        found = find_project(start)
        if found is None:
            why = f"no {FILE} is there, or in a folder above it"
            raise InputError(str(start or Path.cwd()), why, "`unplug init` begins a project")
        return cls(found, read_settings(found))

    @contextlib.contextmanager
    def surroundings(self) -> Iterator[None]:
        """While it lasts, this process finds ledger and keys where the project has them.

        What the environment says already goes before the file.
        """
        values = dict(self.settings.rows())
        asked = {
            variable: str(values[key])
            for key, variable in VARIABLES.items()
            if values[key] is not None and not os.environ.get(variable)
        }
        before = {variable: os.environ.get(variable) for variable in asked}
        os.environ.update(asked)
        try:
            yield
        finally:
            for variable, value in before.items():
                if value is None:
                    os.environ.pop(variable, None)
                else:
                    os.environ[variable] = value

    def ledger(self) -> Ledger:
        """The ledger; what is added to it must be added within `surroundings`."""
        with self.surroundings():
            return open_ledger()

    def state(self) -> ProjectState:
        """Which model is current, and whom it must not know.

        Raises:
            InputError: see `unplug.sdk.project.state.current_state`.
        """
        with self.surroundings():
            return current_state(self.folder, self.settings, open_ledger())

    def current(self) -> Path:
        """The folder of the model that the next answer starts from.

        Raises:
            InputError: there is none yet; or it was moved, deleted or changed since.
        """
        state, original = self.state(), Path(self.settings.model.original)
        if state.current is None:
            why = "this project has no model yet"
            raise InputError(str(original), why, "Train it there, then run `unplug init`")
        roots = dict.fromkeys(
            (
                original,
                Path(self.settings.release.folder),
                original.parent,
                *map(Path, self.settings.evidence.search),
            )
        )
        found = model_folder(state.current, roots)
        if found is not None:
            return found
        whose = "the original" if state.release is None else f"what release {state.release} ships"
        why = f"{whose} ({state.current[:16]}) was moved, deleted or changed"
        places = ", ".join(map(str, roots))
        raise InputError("the current model", why, f"Put it back below one of {places}")

    def record(self) -> Mapping[str, Any]:
        """What the current model's record says."""
        raw = read_json(self.current() / RECORD)
        return raw if isinstance(raw, dict) else {}
