"""A project as an object: what the command line shows, for Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from unplug.trust.ledger import Request, open_ledger

from .answering import (
    Answered,
    AnswerPlan,
    answer,
    bundle_at,
    evidence_at,
    plan_answer,
    without_work,
)
from .folder import ProjectFolder
from .found_person import FoundPerson, find_person
from .state import ProjectRelease
from .status import ProjectStatus, status_of


@dataclass(frozen=True, kw_only=True)
class ProjectRequest:
    """A request that was added.

    Args:
        request: the request as the ledger has it, with the day by which it is due.
        person: the people that it names.
        new: whether it was not there before.
        way: the commands that settle it where `answer` has nothing to do; None where it has.
    """

    request: Request
    person: FoundPerson
    new: bool
    way: str | None


class Project(ProjectFolder):
    """A folder with ``unplug.toml``: which model is current in it, and whom that must not know.

    Example:
        project = Project.open()
        project.request("u10007")
        project.answer()
    """

    def find(self, person: str) -> FoundPerson:
        """Looks somebody up in the data and in the current model.

        Raises:
            DataError, InputError: see `unplug.sdk.project.found_person.find_person`.
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
            way = without_work(self, self.state(), request.id, asdict(found))
            return ProjectRequest(request=request, person=found, new=new, way=way)

    def plan(self) -> AnswerPlan:
        """What `answer` would do; computes nothing.

        Raises:
            InputError, DataError: all that a release refuses before it begins.
        """
        with self.surroundings():
            return plan_answer(self)

    def answer(
        self,
        *,
        show: bool = True,
        say: Callable[[str], None] | None = None,
    ) -> Answered:
        """Answers every open request that the data hold whole: forgets from the current model,
        checks, exports, signs, verifies, searches, certifies, and moves "current".

        Killed, the same call goes on. Where a gate refuses nothing moves.

        Args:
            show: progress bars, on a terminal and in a notebook.
            say: called with one line a step.

        Raises:
            GateFailed: no bundle was written, and the requests stay open.
            InputError: nothing is open; see `unplug.sdk.journey.release`.
            OutputError: somebody else answers at this moment; it says who.
        """
        with self.surroundings():
            return answer(self, show=show, say=say or (lambda _: None))

    def bundle(self, number: int) -> Path:
        """Where the bundle of a release lies.

        Args:
            number: the number of the release.
        """
        return bundle_at(self.settings.release, self.settings.model.name, number)

    def certificates(self, release: ProjectRelease) -> dict[str, str]:
        """Names and places of the certificates of a release, to be handed out.

        Args:
            release: One of `state().releases`.
        """
        found: dict[str, str] = {}
        with self.surroundings():
            ledger = open_ledger()
        for id in release.requests:
            folder = evidence_at(self, ledger, id)
            for file in (folder / "certificate").glob("certificate.*"):
                found[f"certificate-{folder.name}{file.name.removeprefix('certificate')}"] = str(
                    file
                )
        return found

    def status(self) -> ProjectStatus:
        """What is due, which model is current, and what is left of whom it forgot."""
        with self.surroundings():
            return status_of(self)
