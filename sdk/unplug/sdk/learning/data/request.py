"""Forget files: which samples or subjects a deletion request names."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from unplug.core import (
    SUBJECT,
    DataError,
    KnownNames,
    counted,
    name_form,
    name_forms,
    parse_json,
    read_regular,
    spoilt_name,
    text_encoding,
)

from .dataset import Dataset
from .digests import stored_name
from .source import Sample
from .sources.caption_records import shown
from .split import Split, check_forget

MAX_BYTES = 64 * 2**20
MOST_NAMED = 5  # people or pictures that a line names


def read_forget_file(path: Path, dataset: Dataset, trained: Split | None = None) -> tuple[str, ...]:
    """Sample ids that a forget file names.

    Args:
        path: UTF-8 text, a sample id or ``subject:NAME`` on each line, or a JSON object with lists
            of strings called ``samples`` and ``subjects`` and nothing else. Lines of the text end
            at line feeds only; one that begins with ``#`` is a comment. White space around a name
            counts only where the data hold names that differ in it alone.
        dataset: the data set that the names refer to.
        trained: see `resolve_names`.

    Returns:
        Ids in the data's order, without repeats.

    Raises:
        DataError: unreadable, empty, not of this form, or naming samples or subjects that the data
            does not hold. A file that can be read in two ways is refused: it must never forget
            somebody else.
    """
    return resolve_names(
        read_forget_names(path, named_samples(dataset.samples)), dataset, str(path), trained
    )


def read_forget_names(path: Path, names: Iterable[str]) -> list[str]:
    """The names in a forget file as they stand there: sample ids and ``subject:NAME``.

    Args:
        path: see `read_forget_file`.
        names: known ids and ``subject:NAME``, which lines may mean.

    Raises:
        DataError: unreadable, not of this form, or to be read in two ways.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataError(str(path), "too large for a forget file", "List ids, one a line")
        raw = read_regular(
            path, max_bytes=MAX_BYTES, error=DataError, too_large="List ids, one a line"
        )
        # not `read_text`: it turns carriage returns into line feeds
        text = raw.decode(text_encoding(raw))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise DataError(
            str(path), reason, "Give a text file with one sample id or subject:NAME a line"
        ) from error
    known = KnownNames(names)
    try:
        named = (
            _from_json(text, known) if text.lstrip().startswith("{") else _from_lines(text, known)
        )
        for number, name in enumerate(named, 1):
            if why := spoilt_name(name_form(name)):
                raise ValueError(f"name {number}, {shown(name)!r}: {why}")
        return named
    except ValueError as error:
        why = f"not a valid request ({error})"
        raise DataError(
            str(path), why, 'Write {"samples": ["ID", ...], "subjects": ["NAME", ...]}'
        ) from error


def _from_json(text: str, known: KnownNames) -> list[str]:
    raw = parse_json(text.encode())
    if surplus := sorted(raw.keys() - {"samples", "subjects"}):
        raise ValueError(f"it has a key {surplus[0]!r}; samples and subjects are all that is read")
    for key, value in raw.items():
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise ValueError(f"{key} is not a list of strings")
    if people := [name for name in raw.get("samples", []) if name.startswith(SUBJECT)]:
        raise ValueError(
            f"its samples hold {shown(people[0])!r}, which is not a sample; people stand in subjects"
        )
    names = [*raw.get("samples", []), *(f"{SUBJECT}{name}" for name in raw.get("subjects", []))]
    # several: the one that is written just so, if any
    alike = {name: known.alike(name) for name in names}
    return [alike[name][0] if len(alike[name]) == 1 else name for name in names]


def _from_lines(text: str, known: KnownNames) -> list[str]:
    names = list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        bare = name_form(line)
        if (
            (why := spoilt_name(bare)) and not bare.startswith("##") and not known.alike(bare)
        ):  # ## underlines a comment
            raise ValueError(f"line {number}, {shown(bare)!r}: {why}")
        if bare.startswith("#") and known.alike(bare):
            raise ValueError(
                f"{shown(bare)} is a comment and the id of a sample as well; a JSON file tells "
                "them apart"
            )
        if not bare or bare.startswith("#"):
            continue
        if len(meant := known.alike(bare) or (bare,)) > 1:
            why = "is several names that differ in white space alone; a JSON file tells them apart"
            raise ValueError(f"{shown(bare)!r} {why}")
        names.extend(meant)
    return names


def named_samples(samples: Iterable[Sample]) -> dict[str, set[str]]:
    """Every name that a request can have in some data, a sample id or ``subject:NAME``, to the ids
    of its samples.
    """
    ids: dict[str, set[str]] = {}
    for sample in samples:
        ids.setdefault(sample.id, set()).add(sample.id)
        if sample.subject is not None:
            ids.setdefault(f"{SUBJECT}{sample.subject}", set()).add(sample.id)
    return ids


def resolve_names(
    names: Sequence[str], dataset: Dataset, where: str, trained: Split | None = None
) -> tuple[str, ...]:
    """Sample ids for sample ids and ``subject:NAME`` lines, in the data's order.

    Args:
        names: the names, at least one.
        dataset: the data set that they refer to.
        where: opens the error message.
        trained: the stored split of a model that may forget whose pictures are gone: their ids are
            taken too, as it holds them, after the others. Whose pictures a subject's were is not
            in it.

    Raises:
        DataError: no names, or one that nobody has.
    """
    if not names:
        raise DataError(where, "it names nothing", "List at least one sample id or subject:NAME")
    samples = named_samples(dataset.samples)
    same = {unicodedata.normalize("NFC", name): name for name in samples}
    learned = frozenset(trained.train) if trained else frozenset()
    wanted: set[str] = set()
    gone: dict[str, None] = {}
    unknown: list[str] = []
    for name in names:
        meant = name if name in samples else same.get(unicodedata.normalize("NFC", name))
        if meant is not None:
            wanted |= samples[meant]
            continue
        forms = {stored_name(trained, form) for form in name_forms(name)} if trained else set()
        if left := learned & forms:
            gone |= dict.fromkeys(left)
        else:
            unknown.append(name)
    if unknown:
        raise _unknown(unknown, KnownNames(samples), where)
    return (*(name for name in dataset.ids if name in wanted), *gone)


def _unknown(names: Sequence[str], known: KnownNames, where: str) -> DataError:
    listed = ", ".join(shown(name) for name in names[:3]) + (", ..." if len(names) > 3 else "")
    comment = any(" #" in name for name in names)
    note = "; a comment stands on a line of its own" if comment else ""
    why = f"{counted(len(names), 'unknown name')} ({listed}){known.near(names)}"
    near = " or ".join(map(shown, known.close(names[0])))
    fix = f"Did you mean {near}? " if near else ""
    return DataError(where, why, f"{fix}`unplug data inspect SPEC --ids` lists the ids{note}")


def _pictures_of(dataset: Dataset) -> dict[str, list[str]]:
    pictures: dict[str, list[str]] = {}
    for sample in dataset.samples:
        if sample.subject is not None:
            pictures.setdefault(sample.subject, []).append(sample.id)
    return pictures


def split_for(split: Split, dataset: Dataset, ids: Sequence[str]) -> Split:
    """A model's split with one more request; who was forgotten by an earlier one stays forgotten.

    Samples that were held out leave validation and test. One that the data hold and no set of the
    split has left them by an earlier request: there is nothing more to do for it.

    Args:
        split: the model's split, with names in clear.
        dataset: the data set that they refer to.
        ids: the ids that the request names; at least one was trained on.

    Raises:
        DataError: see `check_forget`.
    """
    known, held = set(dataset.ids), {*split.train, *split.held_out}
    named = [name for name in ids if name in held or name not in known] or ids
    check_forget(split, named)
    return split.with_forget(sorted({*split.forget, *named}))


def describe_request(ids: Sequence[str], dataset: Dataset) -> str:
    """The people and samples that a request forgets, in one line to read before the work begins.

    Args:
        ids: sample ids as `read_forget_file` returns them.
        dataset: the data set that they belong to.

    Returns:
        For example ``forgets 3 of 60 pictures: all 2 of subject anna; a.png without a subject``,
        and where the very same picture stays in the data under another id, a second sentence that
        names it.
    """
    wanted, named = set(ids), _pictures_of(dataset)
    parts = []
    for subject, theirs in named.items():
        if taken := [name for name in theirs if name in wanted]:
            share = (
                f"all {len(theirs)}"
                if len(taken) == len(theirs)
                else f"{len(taken)} of {len(theirs)}"
            )
            parts.append(f"{share} of subject {shown(subject)}")
    nobody = [
        sample.id for sample in dataset.samples if sample.subject is None and sample.id in wanted
    ]
    parts += [f"{shown(name)} without a subject" for name in nobody[:MOST_NAMED]]
    if lost := len(wanted - set(dataset.ids)):
        parts.append(f"{lost} whose pictures are gone")
    more = max(0, len(parts) - MOST_NAMED) + max(0, len(nobody) - MOST_NAMED)
    listed = "; ".join(parts[:MOST_NAMED]) + (f"; and {more} more" if more else "")
    text = f"forgets {len(ids)} of {counted(len(dataset), 'picture')}: {listed}"
    if twins := same_pictures(ids, dataset):
        gone, stays = twins[0]
        text += (
            f". Careful: {len(twins)} of them stay in the data under another id (first: "
            f"{shown(gone)} is {shown(stays)}); "
            "name these too if they are to be forgotten"
        )
    return text


def same_pictures(ids: Sequence[str], dataset: Dataset) -> tuple[tuple[str, str], ...]:
    """Pairs of a sample to forget and one that stays whose decoded pixels are equal to the last
    bit.
    """
    wanted = set(ids)
    if not wanted:
        return ()
    digests = {
        name: hashlib.sha256(dataset.images[row].tobytes()).digest()
        for name, row in zip(dataset.ids, dataset.rows, strict=True)
    }
    stays = {digest: name for name, digest in digests.items() if name not in wanted}
    return tuple((name, stays[digests[name]]) for name in ids if digests.get(name) in stays)


def pick_forget(dataset: Dataset, split: Split, *, fraction: float, seed: int) -> tuple[str, ...]:
    """A random forget set: whole subjects where they are known, else single samples.

    Args:
        dataset: N samples.
        split: its ``train`` set is drawn from, without those it forgets already.
        fraction: the fraction of the train set, in (0, 1); at least one subject or sample is taken.
        seed: the seed of the draw.

    Returns:
        Lines for a forget file: ``subject:NAME`` or sample ids.
    """
    if not 0.0 < fraction < 1.0:
        raise DataError(f"fraction {fraction}", "out of range", "Use for example 0.02")
    by_id = {sample.id: sample for sample in dataset.samples}
    groups: dict[str, int] = {}
    for sample in filter(None, map(by_id.get, split.retain)):
        key = sample.id if sample.subject is None else f"{SUBJECT}{sample.subject}"
        groups[key] = groups.get(key, 0) + 1
    if not groups:
        raise DataError(
            "the data",
            "they hold none of the samples that the model remembers",
            "Give those it was trained on",
        )
    order = np.random.default_rng([seed, 77]).permutation(len(groups))
    names, wanted, taken = sorted(groups), max(1, round(fraction * len(split.train))), 0
    picked: list[str] = []
    for index in order:
        if taken >= wanted:
            break
        picked.append(names[index])
        taken += groups[names[index]]
    return tuple(sorted(picked))
