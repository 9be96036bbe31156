"""A loaded data set: pixels in a memory map, labels in arrays, one digest over all of it."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unplug.core import DataError, InputError, json_sha256, one_line, settled, spoilt_name, tell

from .labels import check_labels
from .naming import told_of_people
from .picture_cache import fingerprints, pixels
from .source import Captioned, Eyes, LeftOut, Listing, Sample, SampleProblem, parse_spec
from .sources.caption_records import shown

OnBad = Literal["error", "skip"]
MIN_SIZE = 8
MARK = 16
"""Hexadecimal digits of a mark: that of a row that changed is the same once in 2^64."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """N decoded samples.

    Args:
        spec: the data spec that it was loaded from.
        images: memory map (rows, size, size, 3) RGB; sample i is row ``rows[i]``.
        rows: N row numbers.
        samples: N samples, in the source's order.
        problems: unusable entries, each with the reason.
        left_out: other files there, see `LeftOut`.
        digest: SHA-256 over ids, contents and labels of the N samples; of what is left of a
            training's data, theirs, see `unplug.sdk.learning.data.again`.
        classes: names of the class labels.
        age_edges: the data set's own age groups, or None.
        eyes, told: see `Listing`.
        marks: N short SHA-256, each over one sample; none of data that nobody loaded.
        content: SHA-256 over the N samples that are here, which caches go by; "" is `digest`.
    """

    spec: str
    images: NDArray[np.uint8]
    rows: NDArray[np.int64]
    samples: tuple[Sample, ...]
    problems: tuple[SampleProblem, ...]
    digest: str
    left_out: tuple[LeftOut, ...] = ()
    classes: tuple[str, ...] = ()
    age_edges: tuple[float, ...] | None = None
    eyes: Eyes | None = None
    told: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    content: str = ""

    def __post_init__(self) -> None:
        if not self.content:
            object.__setattr__(self, "content", self.digest)

    __repr__ = one_line

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def facts(self) -> dict[str, Any]:
        """What the record of a training says of its data, ready for JSON."""
        eyes = {} if self.eyes is None else {"eyes": [list(eye) for eye in self.eyes]}
        return {
            "spec": self.spec,
            "digest": self.digest,
            "samples": len(self),
            "unusable": len(self.problems),
            **eyes,
        }

    @property
    def size(self) -> int:
        """Side of the images in pixels."""
        return int(self.images.shape[1])

    def pixels(self, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint8]:
        """RGB pixels (len(indices), size, size, 3) of some samples, copied into memory."""
        return np.asarray(self.images[self.rows[np.asarray(indices, dtype=np.int64)]])

    @property
    def ages(self) -> NDArray[np.float32]:
        """Age in years per sample (N,), NaN where unknown."""
        return np.array(
            [np.nan if sample.age is None else sample.age for sample in self.samples],
            dtype=np.float32,
        )

    @property
    def ids(self) -> tuple[str, ...]:
        """The sample ids, in the source's order."""
        return tuple(sample.id for sample in self.samples)

    def only(self, ids: Sequence[str]) -> Dataset:
        """These samples alone, in the source's order, with a digest of their own; see `indices`."""
        rows = np.sort(self.indices(ids))
        digest = json_sha256([self.content, rows.tolist()])
        return replace(
            self,
            rows=self.rows[rows],
            samples=tuple(self.samples[row] for row in rows),
            digest=digest,
            marks=tuple(self.marks[row] for row in rows) if self.marks else (),
            content=digest,
        )

    def indices(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Positions of some ids (len(ids),); `DataError` where one is unknown."""
        position = {sample.id: index for index, sample in enumerate(self.samples)}
        unknown = [name for name in ids if name not in position]
        if unknown:
            raise DataError(
                f"data {self.spec}",
                f"{len(unknown)} of {len(ids)} wanted samples are not in it (first: {unknown[0]})",
                "Give the data that the split was made from",
            )
        return np.array([position[name] for name in ids], dtype=np.int64)


@settled
def load_dataset(
    spec: str,
    size: int,
    *,
    on_bad: OnBad = "error",
    show: bool = True,
    tells: bool = True,
    classes: Sequence[str] = (),
    labelled: Sequence[str] | None = None,
) -> Dataset:
    """Loads, decodes and caches the data that a spec names.

    Args:
        spec: ``KIND:ARGUMENT``, see `unplug.sdk.learning.data.source`.
        size: side in pixels, at least 8.
        on_bad: "error" refuses data with unusable samples and names them; "skip" goes on and counts
            them.
        show: progress bars, and on standard error what is told of the data.
        tells: False where the caller shows ``told`` itself.
        classes: labels that come first, in this order; none are in the source's.
        labelled: labels that a classifier is to learn, as `check_labels` knows them; None asks for
            none.

    Returns:
        The data set; ``problems`` lists what cannot be used, ``told`` what one should know of the
        rest.

    Raises:
        DataError: nothing usable, or unusable samples with ``on_bad="error"``.
        InputError: `size` is too small.
        DataError, InputError: `labelled` and other labels, before any picture is decoded.

    Example:
        >>> len(load_dataset("synth:n=4,subjects=2", 32, show=False))
        4
    """
    if size < MIN_SIZE:
        raise InputError(f"size {size}", "too small for an image", f"Use {MIN_SIZE} pixels or more")
    source = parse_spec(spec)
    listing = _numbered(source.listing(), classes)
    if labelled is not None:
        check_labels(f"data {spec}", listing.samples, listing.classes, labelled)
    prints = _checked_ids(listing.samples, fingerprints(source, listing.samples, show))
    positions = [place for place, content in enumerate(prints) if isinstance(content, bytes)]
    samples = [listing.samples[place] for place in positions]
    contents = [content for content in prints if isinstance(content, bytes)]
    array, bad = pixels(spec, source, samples, positions, contents, size, show)
    problems = (
        *listing.problems,
        *(problem for problem in prints if isinstance(problem, SampleProblem)),
        *(SampleProblem(id=samples[row].id, reason=why) for row, why in sorted(bad.items())),
    )
    rows = [row for row in range(len(samples)) if row not in bad]
    _report(spec, problems, len(rows), on_bad)
    texts = [_text(samples[row], contents[row]) for row in rows]
    told = (*listing.told, *told_of_people(listing.samples))
    for line in told if show and tells else ():
        tell(f"{spec}: {line}")
    return Dataset(
        spec=spec,
        images=array,
        rows=np.array(rows, dtype=np.int64),
        samples=tuple(samples[row] for row in rows),
        problems=problems,
        left_out=listing.left_out,
        digest=hashlib.sha256(b"".join(texts)).hexdigest(),
        marks=tuple(hashlib.sha256(text).hexdigest()[:MARK] for text in texts),
        classes=listing.classes,
        age_edges=listing.age_edges,
        eyes=listing.eyes,
        told=told,
    )


def _numbered(listing: Listing, classes: Sequence[str]) -> Listing:
    """The listing with its labels numbered as these; digests cover the number of a label."""
    names = (*classes, *(name for name in listing.classes if name not in set(classes)))
    if names == listing.classes:
        return listing
    place = {name: number for number, name in enumerate(names)}
    samples = tuple(
        sample
        if sample.label is None
        else replace(sample, label=place[listing.classes[sample.label]])
        for sample in listing.samples
    )
    return replace(listing, samples=samples, classes=names)


def _text(sample: Sample, content: bytes) -> bytes:
    """What digests cover of a sample, with the hash of its content.

    It has a name as it is written: models that were trained before names had one Unicode form know
    their data again.
    """
    person = sample.subject if sample.written is None else sample.written
    return repr((sample.id, sample.age, sample.label, person, content.hex())).encode()


def _checked_ids(
    samples: Sequence[Sample], prints: Sequence[bytes | SampleProblem]
) -> list[bytes | SampleProblem]:
    """Refuses ids that a deletion request could not name, or that would stand on both sides of a
    split.
    """
    seen: dict[str, str] = {}
    checked: list[bytes | SampleProblem] = []
    for sample, content in zip(samples, prints, strict=True):
        name, same = sample.id, unicodedata.normalize("NFC", sample.id)
        why = None
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            name, why = ascii(name)[1:-1], "its name is not UTF-8, so no forget file could name it"
        elif same in seen:
            form = "" if seen[same] == name else ", in another Unicode form"
            why = f"the id appears twice{form}"
        elif unaskable := _unaskable(sample):
            why = f"{sample.place}: {unaskable}" if sample.place else unaskable
        checked.append(content if why is None else SampleProblem(id=name, reason=why))
        seen.setdefault(same, sample.id)
    return checked


def _unaskable(sample: Sample) -> str | None:
    """Why no deletion request could name a sample or the person in it, or None."""
    for taken, what in (
        ("subject:", "a person in a forget file"),
        ("hmac:", "a digest in a record"),
    ):
        if sample.id.startswith(taken):
            return f"ids that begin with {taken} would stand for {what}"
    person = sample.subject or ""
    if any(unicodedata.category(letter) == "Cc" for letter in person):
        return (
            f"subject {shown(person)!r} holds a line feed or another control character: a quote "
            "may be missing"
        )
    for name, text in (
        (sample.id, f"id {shown(sample.id)!r}"),
        (f"subject:{person}", f"subject {shown(person)!r}"),
    ):
        if why := spoilt_name(name):
            return f"{text}: {why}"
    return None


def _report(spec: str, problems: Sequence[SampleProblem], kept: int, on_bad: OnBad) -> None:
    if not problems or (on_bad == "skip" and kept):
        return
    first = problems[0]
    raise DataError(
        f"data {spec}",
        f"{len(problems)} of {len(problems) + kept} samples cannot be used (first: {first.id}: "
        f"{first.reason})",
        "Repair or remove them, or pass `on_bad=skip` to go on without them"
        if kept
        else "Repair them, or check that this is the right place",
    )


def describe(dataset: Dataset) -> dict[str, Any]:
    """Counts and ranges of a data set, ready for JSON (``unplug data inspect``)."""
    ages = dataset.ages[~np.isnan(dataset.ages)]
    subjects = {sample.subject for sample in dataset.samples if sample.subject is not None}
    parts = [sample.partition for sample in dataset.samples if sample.partition is not None]
    labels = [sample.label for sample in dataset.samples if sample.label is not None]
    histogram = np.histogram(ages, bins=np.arange(0, 131, 10))[0] if len(ages) else np.zeros(0, int)
    return {
        "spec": dataset.spec,
        "samples": len(dataset),
        "unusable": [{"id": problem.id, "reason": problem.reason} for problem in dataset.problems],
        "left_out": [asdict(item) for item in dataset.left_out],
        "size": dataset.size,
        "told": list(dataset.told),
        "digest": dataset.digest,
        "subjects": len(subjects) or None,
        "ages": {
            "known": len(ages),
            "min": float(ages.min()) if len(ages) else None,
            "mean": round(float(ages.mean()), 3) if len(ages) else None,
            "max": float(ages.max()) if len(ages) else None,
            "per_decade": [int(count) for count in histogram],
        },
        "classes": {name: labels.count(index) for index, name in enumerate(dataset.classes)},
        "partitions": {part: parts.count(part) for part in sorted(set(parts))},
        "attributes": _attributes(dataset),
        "captions": _captions(dataset),
    }


def _attributes(dataset: Dataset) -> dict[str, dict[str, int]]:
    """How many samples have each value of each attribute, the commonest first, at most 24 of one."""
    counted: dict[str, Counter[str]] = {}
    for sample in dataset.samples:
        for name, value in sample.attributes.items():
            counted.setdefault(name, Counter())[value] += 1
    return {name: dict(counted[name].most_common(24)) for name in sorted(counted)}


def _captions(dataset: Dataset) -> dict[str, Any] | None:
    """How many samples have words (a source that is `Captioned` lists no sample without) and the
    first one's, or None.
    """
    source = parse_spec(dataset.spec)
    if not isinstance(source, Captioned):
        return None
    return {"samples": len(dataset), "first": source.captions(dataset.samples[0], 0, 1)[0]}
