"""``unplug-decision/1``: a decision with what it holds, as `unplug threshold` writes it and a
bundle's manifest carries it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from unplug.core import STRICT, InputError, read_dataclass

from .decision import Decision

DECISION_KEY = "decision"
"""Where it stands in a manifest: in ``postprocessing``."""
MAX_BYTES = 2**20


@dataclass(frozen=True, kw_only=True)
class GroupHeld:
    """People of one group.

    Args:
        name: the name of the group.
        minors, adults: how many people it was fitted on.
        holds: whether they were enough, so that the limits hold in this group by itself.
    """

    name: str
    minors: int
    adults: int
    holds: bool


@dataclass(frozen=True, kw_only=True)
class Share:
    """What was answered of the pictures of one side.

    Args:
        pictures: how many.
        over, under, unsure: shares of them, together 1.
    """

    pictures: int
    over: float
    under: float
    unsure: float


@dataclass(frozen=True, kw_only=True)
class ModelHeld:
    """A checkpoint or exported file that the limits were fitted on.

    Args:
        name: the name of the folder or file.
        sha256: the SHA-256 of its weights or bytes.
        over_from, under_to: the cut-offs that it would do with by itself.
        minors, adults: the whole decision's answers for those people.
    """

    name: str
    sha256: str
    over_from: float
    under_to: float
    minors: Share
    adults: Share


@dataclass(frozen=True, kw_only=True)
class DecisionRecord:
    """``unplug-decision/1``: a decision and the limits that it holds, on which models, for people
    like whom.

    Args:
        age: T in years.
        over_from, under_to: see `Decision`; the strictest of `models`, so that the limits hold on
            each of them.
        max_fpr: share of minors called over, at most; and `max_fnr`: of adults called under.
        method: "clopper-pearson": holds with `confidence` over the draw of people. "conformal": on
            average over draws.
        confidence: the confidence in the first; null for the second.
        minors_from: youngest age that counted as a minor.
        minors, adults: people that it was fitted on, each once.
        data_digest: the data digest of their pictures.
        apart: how it is known that the model never saw them: "held out" by its split, "other data"
            than its training's by its split, or "said" by the person who fitted it.
        by: attribute by whose groups the limits hold as well; null for none.
        groups: the groups of that attribute, including the small ones.
        models: the models that it was fitted on.
        schema: always ``unplug-decision/1``.
    """

    __pydantic_config__: ClassVar = STRICT

    age: float
    over_from: float
    under_to: float
    max_fpr: float
    max_fnr: float
    method: Literal["clopper-pearson", "conformal"]
    confidence: float | None
    minors_from: float
    minors: int
    adults: int
    data_digest: str
    apart: Literal["held out", "other data", "said"]
    by: str | None
    groups: tuple[GroupHeld, ...]
    models: tuple[ModelHeld, ...]
    schema: Literal["unplug-decision/1"]

    @property
    def rule(self) -> Decision:
        """The rule itself; `InputError` where its ends cross."""
        return Decision(age=self.age, over_from=self.over_from, under_to=self.under_to)

    def fitted_on(self, sha256: str) -> bool:
        """Whether it names a model, by the SHA-256 of its weights or bytes: about any other it
        decides nothing.
        """
        return any(item.sha256 == sha256 for item in self.models)

    def limit(self) -> str:
        """What it holds, in one clause.

        Example:
            ``at most 1 % of minors called over 18 and 5 % of adults under it (95 % confidence, 790
            and 7210 people)``
        """
        sure = (
            "on average over draws"
            if self.confidence is None
            else f"{100 * self.confidence:g} % confidence"
        )
        return (
            f"at most {100 * self.max_fpr:g} % of minors called over {self.age:g} and "
            f"{100 * self.max_fnr:g} % of adults under "
            f"it ({sure}, {self.minors} and {self.adults} people)"
        )


def read_decision(path: Path) -> DecisionRecord:
    """A record out of its file.

    Raises:
        InputError: it is missing, too large, of another form, or its rule crosses.
    """
    return _checked(read_dataclass(DecisionRecord, path, InputError, max_bytes=MAX_BYTES))


def decision_in(postprocessing: dict[str, Any], where: str) -> DecisionRecord | None:
    """The record in a manifest's ``postprocessing``; None where it carries none.

    Args:
        postprocessing: the ``postprocessing`` of a manifest.
        where: opens the error message.

    Raises:
        InputError: what stands there is not a record, or its rule crosses.
    """
    from pydantic import TypeAdapter, ValidationError

    if postprocessing.get(DECISION_KEY) is None:
        return None
    try:
        return _checked(
            TypeAdapter(DecisionRecord).validate_json(json.dumps(postprocessing[DECISION_KEY]))
        )
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part)[:60] for part in first["loc"]) or DECISION_KEY
        raise InputError(
            where,
            f"its decision does not follow its schema ({place}: {first['msg'][:200]})",
            _AGAIN,
        ) from problem


_AGAIN = "Write it again with `unplug threshold`, or get another release"


def _checked(record: DecisionRecord) -> DecisionRecord:
    _ = record.rule
    return record
