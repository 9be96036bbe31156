"""A project as an object: what the command line shows, for Python."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unplug.core import InputError, read_json
from unplug.plugins import RECORD
from unplug.trust.ledger import Ledger, Request, open_ledger

from .people import FoundPerson, find_person
from .place import FILE, find_project
from .settings import VARIABLES, ProjectSettings, read_settings
from .state import ProjectState, current_state, model_folder

if TYPE_CHECKING:
    from .answering import Answered, AnswerPlan
    from .status import ProjectStatus


@dataclass(frozen=True, kw_only=True)
class ProjectRequest:
    """A request that was added.

    Args:
        request: as the ledger has it, with the day by which it is due.
        person: whom it names.
        new: whether it was not there before.
    """

    request: Request
    person: FoundPerson
    new: bool


class Project:
    """A folder with ``unplug.toml``; `open` finds it.

    Args:
        folder: that holds the file.
        settings: what it says.

    Example:
        project = Project.open()
        project.request("u10007")
        project.answer()
    """

    def __init__(self, folder: Path, settings: ProjectSettings) -> None:
        self.folder, self.settings = folder, settings

    def __repr__(self) -> str:
        return f"Project({str(self.folder)!r}, {self.settings.model.name!r})"

    @classmethod
    def open(cls, folder: str | Path | None = None) -> Project:
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

    def find(self, person: str) -> FoundPerson:
        """Looks somebody up in the data and in the current model.

        Raises:
            DataError, InputError: see `unplug.sdk.project.people.find_person`.
        """
        with self.surroundings():
            return find_person(self.settings.model.data, self.record(), self.folder, person)

    def request(
        self,
        person: str,
        *,
        id: str | None = None,
        received: date | None = None,
        identity: str = "",
    ) -> ProjectRequest:
        """Records that somebody asks to be forgotten; the same request twice is recorded once.

        Args:
            person: a name in the data, with or without ``subject:``.
            id: your own number of it, never a name; None makes one up.
            received: the day on which it came; None is today.
            identity: how it was checked who asks, without names.

        Raises:
            DataError, InputError: see `find` and `unplug.trust.ledger.Ledger.add`.
        """
        with self.surroundings():
            found = self.find(person)
            request, new = open_ledger().add(
                [found.name], id=id, received=received, identity=identity
            )
            return ProjectRequest(request=request, person=found, new=new)

    def plan(self) -> AnswerPlan:
        """What `answer` would do; computes nothing.

        Raises:
            InputError, DataError: all that a release refuses before it begins.
        """
        from .answering import plan_answer

        with self.surroundings():
            return plan_answer(self)

    def answer(
        self,
        *,
        show: bool = False,
        say: Callable[[str], None] | None = None,
    ) -> Answered:
        """Answers every open request that the data hold whole: forgets from the current model,
        checks, exports, signs, verifies, searches, certifies, and moves "current".

        Killed, the same call goes on. Where a gate refuses nothing moves.

        Args:
            show: progress bars.
            say: called with one line a step.

        Raises:
            GateFailed: no bundle was written, and the requests stay open.
            InputError: nothing is open; see `unplug.sdk.journey.release`.
            OutputError: somebody else answers at this moment; it says who.
        """
        from .answering import answer

        with self.surroundings():
            return answer(self, show=show, say=say or (lambda _: None))

    def status(self) -> ProjectStatus:
        """What is due, which model is current, and what is left of whom it forgot."""
        from .status import status_of

        with self.surroundings():
            return status_of(self)
