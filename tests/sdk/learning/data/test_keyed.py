"""Splits with digests for names: the operator finds everybody again, nobody else finds out who was
forgotten.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from unplug.core import InputError, json_sha256, operator_key
from unplug.sdk.learning.data import (
    Dataset,
    Split,
    keyed,
    keyed_names,
    load_dataset,
    make_split,
    opened,
)

from .conftest import Draw, assert_reasons, load


@pytest.fixture
def dataset() -> Dataset:
    return load_dataset("synth:n=12,subjects=6", 16, show=False)


@pytest.fixture
def split(dataset: Dataset) -> Split:
    made = make_split(dataset)
    return made.with_forget(made.train[2:4])


def test_nobody_forgotten_is_nothing_to_hide(dataset: Dataset) -> None:
    plain = make_split(dataset)
    assert keyed(plain) is plain and opened(plain, dataset) is plain
    assert plain.to_dict()["schema"] == "unplug-split/1" and "key" not in plain.to_dict()


def test_the_stored_form_names_nobody_and_is_found_again(dataset: Dataset, split: Split) -> None:
    stored = Split.from_dict(json.loads(json.dumps(keyed(split).to_dict())))
    text = json.dumps(stored.to_dict())
    assert stored.key == operator_key().id and json.loads(text)["schema"] == "unplug-split/2"
    assert not any(name in text for name in dataset.ids)
    assert all(
        list(part) == sorted(part)
        for part in (stored.train, stored.validation, stored.test, stored.forget)
    )
    assert opened(stored, dataset) == split and keyed(stored) == stored
    assert set(stored.retain) == {keyed_names(split)[name] for name in split.retain}


def test_who_is_gone_from_the_data_stays_forgotten(dataset: Dataset, split: Split) -> None:
    samples = tuple(sample for sample in dataset.samples if sample.id not in split.forget)
    again = opened(keyed(split), replace(dataset, samples=samples))
    assert again.retain == split.retain and len(again.forget) == 2
    assert all(name.startswith("hmac:") for name in again.forget)
    next_one = again.with_forget((*again.forget, split.retain[0]))
    wanted = split.with_forget((*split.forget, split.retain[0]))
    assert keyed(next_one) == keyed(wanted)
    assert opened(keyed(next_one), dataset).forget == wanted.forget


def test_no_hash_in_it_can_be_tried_out(dataset: Dataset, split: Split) -> None:
    """Who has all names, the split of the original and the code tries every pair, and every plain
    hash of each name.
    """
    stored = keyed(split)
    text = json.dumps(stored.to_dict()) + stored.forget_sha256
    plain = split.with_forget(split.train[:1])
    for pair in combinations(split.train, 2):
        guess = plain.with_forget(pair)
        assert guess.sha256 not in text and guess.forget_sha256 not in text
    for name in dataset.ids:
        assert (
            hashlib.sha256(name.encode()).hexdigest() not in text and json_sha256(name) not in text
        )


def test_without_its_key_it_is_one_clear_error(
    dataset: Dataset, split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = keyed(split)
    monkeypatch.setenv("UNPLUG_KEY", str(tmp_path / "key"))
    for what in ("no key is there", "it is the key"):
        with pytest.raises(InputError, match=rf"{what}.* under the key {stored.key}"):
            opened(stored, dataset)
        operator_key()
    other = keyed(split)
    assert other.key != stored.key and not {*other.train} & {*stored.train}
    assert len(stored.retain) == len(split.retain), "sizes can be told"


def test_the_same_name_in_other_data_has_another_digest(split: Split) -> None:
    other = replace(split, data_digest="0" * 64)
    assert not {*keyed(split).train} & {*keyed(other).train}


def test_ids_that_look_like_digests_are_refused(fill: Draw) -> None:
    table = fill("pets", {"0.png": 10, "1.png": 20}) / "ids.csv"
    table.write_text("path,id\n0.png,hmac:12\n1.png,fine\n")
    assert_reasons(load(f"csv:{table}", on_bad="skip"), {"hmac:12": "would stand for a digest"})
