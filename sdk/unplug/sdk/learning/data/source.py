"""What a data source is, and how a data spec names one.

A spec is ``KIND:ARGUMENT``: ``utkface:faces/``, ``csv:labels.csv``,
``csv:photos.csv,path=photo,age=taken - born``, ``synth:n=3000,subjects=600,seed=0``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from unplug.core import DataError, Registry, expanded, person_named

Partition = Literal["train", "validation", "test"]
Eyes = tuple[tuple[float, float], tuple[float, float]]
"""x and y of the middles of both eyes, left and right as a picture shows them, in [0, 1] of its
side.
"""
SETTING = re.compile(r",\s*([^,=!]+?)\s*(!?)=\s*")
"""The beginning of each setting after a path in a spec."""
NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One image before decoding.

    Args:
        id: stable name within the source; what forget files and splits refer to.
        payload: the value that the source's ``decode`` needs (a path, or an index).
        age: years, or None where unknown.
        label: class index into the listing's ``classes``, or None.
        subject: the person in the picture, or None where unknown.
        partition: the part of the data set's own official split, or None.
        attributes: facts about the person besides the age, name to value, say "sex" to "female";
            frozen. Models never see them and no digest covers them: they say between whom a model
            differs.
        place: the place in a table, for messages, say "line 7".
        written: the subject's name as the data have it, where `subject` is another text: it is in
            NFC, and None for what stands for nobody (`unplug.core.person_named`). The digest of the
            data covers what is written.
    """

    id: str
    payload: Any
    age: float | None = None
    label: int | None = None
    subject: str | None = None
    partition: Partition | None = None
    attributes: Mapping[str, str] = field(default_factory=lambda: NO_ATTRIBUTES, hash=False)
    place: str = field(default="", compare=False)
    written: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if (meant := person_named(self.subject)) != self.subject:
            object.__setattr__(self, "written", self.subject)
            object.__setattr__(self, "subject", meant)
        if not isinstance(self.attributes, MappingProxyType):
            object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))

    @property
    def person(self) -> str:
        """Who is in the picture, as a key: "subject NAME", or "sample ID" where nobody knows."""
        return f"sample {self.id}" if self.subject is None else f"subject {self.subject}"


@dataclass(frozen=True, kw_only=True)
class SampleProblem:
    """A sample that cannot be used, and why."""

    id: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Files and folders that are no samples and that nobody means as such: what programs leave,
    tables, notes.

    Args:
        reason: why they are left out.
        count: how many; a folder with all that is in it is one.
        first: the name of one of them.
    """

    reason: str
    count: int
    first: str


@dataclass(frozen=True, kw_only=True)
class Listing:
    """All that a source knows before decoding.

    Args:
        samples: usable so far, in a stable order.
        problems: unusable entries (a wrong file name, say).
        left_out: other files there.
        classes: names of the class labels.
        age_edges: borders of the data set's own age groups, where ages are known by group only.
        eyes: the places of the eyes in most pictures, for data whose faces are all framed alike.
        told: notes for users of these data, in sentences, say on files that are not read.
    """

    samples: tuple[Sample, ...]
    problems: tuple[SampleProblem, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    classes: tuple[str, ...] = ()
    age_edges: tuple[float, ...] | None = None
    eyes: Eyes | None = None
    told: tuple[str, ...] = ()


class Source(Protocol):
    """A kind of data. `parallel` says what decodes it: threads (C code) or processes (Python code).

    One that only says other things of another source's pictures names that source in
    ``pictures_of``; they are cached once.
    """

    parallel: Literal["thread", "process"]

    def listing(self) -> Listing:
        """Lists the samples without decoding them."""

    def fingerprint(self, sample: Sample) -> bytes:
        """Hash of the content of one sample; raises `DataError` where it cannot be read."""

    def decode(self, sample: Sample, size: int) -> NDArray[np.uint8]:
        """RGB pixels (size, size, 3); raises `DataError` where the image is broken."""


@runtime_checkable
class Captioned(Protocol):
    """A source that says in words what its pictures show."""

    def captions(self, sample: Sample, seed: int, variants: int) -> tuple[str, ...]:
        """One to `variants` captions of one sample, the fullest first; the same for the same
        arguments.
        """


SOURCES: Registry[Callable[[str], Source]] = Registry(
    "data source",
    {
        "synth": "unplug.sdk.learning.data.sources.synth:SynthSource",
        "utkface": "unplug.sdk.learning.data.sources.utkface:UTKFaceSource",
        "agedb": "unplug.sdk.learning.data.sources.agedb:AgeDBSource",
        "appa-real": "unplug.sdk.learning.data.sources.appareal:AppaRealSource",
        "fairface": "unplug.sdk.learning.data.sources.fairface:FairFaceSource",
        "fairface-midpoints": "unplug.sdk.learning.data.sources.fairface:FairFaceMiddlesSource",
        "imdb-wiki": "unplug.sdk.learning.data.sources.imdbwiki:ImdbWikiSource",
        "lagenda": "unplug.sdk.learning.data.sources.lagenda:LagendaSource",
        "mufac": "unplug.sdk.learning.data.sources.mufac:MUFACSource",
        "mucac": "unplug.sdk.learning.data.sources.mucac:MUCACSource",
        "facesynthetics": "unplug.sdk.learning.data.sources.facesynthetics:FaceSyntheticsSource",
        "cifar10": "unplug.sdk.learning.data.sources.cifar10:CIFAR10Source",
        "imagefolder": "unplug.sdk.learning.data.sources.imagefolder:ImageFolderSource",
        "csv": "unplug.sdk.learning.data.sources.csv:CSVSource",
        "canaries": "unplug.sdk.learning.data.sources.planted:CanariesSource",
        "captions": "unplug.sdk.learning.data.sources.captions:CaptionsSource",
        "webdataset": "unplug.sdk.learning.data.sources.webdataset:WebDatasetSource",
    },
    group="unplug.data",
)


def parse_spec(spec: str) -> Source:
    """The source that a data spec names.

    Args:
        spec: ``KIND:ARGUMENT``.

    Raises:
        DataError: no colon, no text, or an argument that the source refuses.
        InputError: an unknown kind (suggests near ones).

    Example:
        >>> type(parse_spec("synth:n=10")).__name__
        'SynthSource'
    """
    kind, colon, argument = spec.partition(":")
    if any(
        "\ud800" <= letter <= "\udfff" for letter in spec
    ):  # found before hours of training, for cards and records hold it
        why = "it is not UTF-8, and every result of this data names it"
        raise DataError(f"data spec {ascii(spec)[1:-1]}", why, "Rename the file or folder")
    if not colon:
        raise DataError(
            f"data spec {spec!r}",
            "it has no kind",
            f"Write KIND:PATH with a kind of {', '.join(SOURCES)}",
        )
    return SOURCES.get(kind)(argument)


def spec_parts(spec: str) -> tuple[str, Path, str]:
    """Kind, path and settings of a data spec; of one without a path, what would be its.

    Example:
        >>> kind, path, settings = spec_parts("csv:a,b.csv,path=photo,consent=yes")
        >>> kind, path.name, settings
        ('csv', 'a,b.csv', ',path=photo,consent=yes')
    """
    kind, _, argument = spec.partition(":")
    begins = SETTING.search(argument)
    if begins is None or expanded(argument).exists():
        return kind, expanded(argument), ""
    return kind, expanded(argument[: begins.start()]), argument[begins.start() :]


def existing_dir(argument: str, kind: str) -> Path:
    """The folder that a spec names, or a `DataError`."""
    path = expanded(argument)
    if not path.is_dir():
        raise DataError(f"{kind}:{argument}", "no such folder", "Check the path after the colon")
    return path
