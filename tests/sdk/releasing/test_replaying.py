"""A released head computed again by an auditor: what an operator with time would edit is found."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file
from torch import Tensor

from unplug.core import sha256_file, write_json
from unplug.plugins import DESIGN_STATE, Checkpoint, load_checkpoint
from unplug.sdk import journey
from unplug.sdk.cli import main
from unplug.sdk.learning.data import Split
from unplug.sdk.releasing import NOT_SHOWN, Replay
from unplug.sdk.releasing.replaying import absences, committed_list, forms_of
from unplug.trust.ledger import CommittedList, is_absent

from ..forgetting.unlearning.designs.conftest import (  # noqa: F401 (fixtures)
    PERSONAL,
    World,
    consented,
    personal,
    worlds,
)
from ..trust.bundle.test_bundle import make_bundle, rewrite
from ..trust.certificates.conftest import refile
from ..trust.commands import called, refused, shown

FILE = "artifacts/age.fp32.onnx"
LIST = "reports/commitments.json"


@pytest.fixture(scope="module")
def released(worlds: dict[str, World], tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    """A folder with ``state``, whose model forgot one person, and ``a.unplug`` of it; nobody may
    write to it.
    """
    closed, folder = worlds["closed-form"], tmp_path_factory.mktemp("released")
    closed.without(closed.split.train[:1], folder / "state")
    bundle_of(load_checkpoint(folder / "state"), folder)
    return folder


def head_of(state: Checkpoint) -> bytes:
    weights = state.model.state_dict()
    names = ("classifier.weight", "classifier.bias")
    return b"before" + b"between".join(weights[name].numpy().tobytes() for name in names) + b"after"


def bundle_of(state: Checkpoint, folder: Path) -> None:
    """As a release writes it, but that its file holds nothing besides the head."""
    bundle, sha256 = make_bundle(folder, head_of(state), name="age.fp32.onnx"), state.sha256
    rewrite(bundle, f"{FILE}.json", lambda card: card.update(checkpoint_sha256=sha256))
    rewrite(bundle, "reports/audit.json", lambda audit: audit["models"][1].update(sha256=sha256))
    write_list(bundle, committed_list(state))
    manifest = json.loads((bundle / "manifest.json").read_text())
    refile(bundle, LIST, lineage=manifest["lineage"] | {"checkpoint_sha256": sha256})
    bundle.rename(folder / "a.unplug")


def write_list(bundle: Path, said: CommittedList | None) -> None:
    assert said is not None
    write_json(bundle / LIST, asdict(said))
    refile(bundle, LIST)


@pytest.fixture
def case(released: Path, tmp_path: Path) -> Path:
    """A copy that may be harmed."""
    shutil.copytree(released, tmp_path, dirs_exist_ok=True)
    return tmp_path


def replayed(case: Path, data: str | None = None) -> Replay:
    state = case / "state"
    return journey.replay(case / "a.unplug", state, data=data, device="cpu", show=False)


def edit_state(
    state: Path,
    change: Callable[[dict[str, Tensor]], Mapping[str, Tensor]],
    record: Callable[[dict[str, Any]], object] = lambda _: None,
) -> None:
    """Other tensors and another record, and the hash that binds them."""
    save_file(dict(change(load_file(state / DESIGN_STATE))), state / DESIGN_STATE)
    told = json.loads((state / "unplug.json").read_text())
    record(told)
    told["state_sha256"] = sha256_file(state / DESIGN_STATE)
    write_json(state / "unplug.json", told)


def test_an_honest_release_is_computed_again_from_the_state_and_from_the_pictures(
    released: Path,
    worlds: dict[str, World],  # noqa: F811
) -> None:
    alone = replayed(released)
    assert alone.equal == ("the list of who is in", "the weights", FILE)
    assert alone.differs == alone.untold == ()
    split = worlds["closed-form"].split
    assert alone.samples == len(split.retain) - 1
    whole = replayed(released, data=PERSONAL)
    pictures = ("the commitments, from the pictures", "the sums, from the pictures")
    assert whole.equal == (*alone.equal, *pictures) and whole.differs == ()
    assert whole.root == alone.root
    others = replayed(released, data="synth:n=90,subjects=30,seed=3").differs
    count = f"{alone.samples} of {alone.samples} commitments"
    assert others == (f"{pictures[0]}: {count} fit no picture, name and truth of the data",)
    assert NOT_SHOWN in shown(f"replay {released / 'a.unplug'} --state {released / 'state'}")


def test_who_left_is_proved_to_be_between_two_neighbours(
    released: Path,
    worlds: dict[str, World],  # noqa: F811
) -> None:
    closed, state = worlds["closed-form"], load_checkpoint(released / "state")
    asked = {"T-1": closed.split.train[:1], "T-2": closed.split.test[:1]}
    made = absences(closed.original, state, closed.personal, asked)
    assert made is not None and made.requests["T-2"] == ()  # no weights come from the test set
    (proof,) = made.requests["T-1"]
    listed, before = committed_list(state), committed_list(closed.original)
    assert listed is not None and before is not None
    assert is_absent(proof, root=listed.root, size=listed.samples)
    assert not is_absent(proof, root=before.root, size=before.samples)
    (row,) = closed.rows_of(asked["T-1"]).committed.values()
    assert proof.commitment == row.hex()
    tails = worlds["shards"].original
    assert absences(tails, tails, closed.personal, asked) is None


@pytest.mark.parametrize("place", [6, -6])
def test_one_changed_bit_of_a_head_is_found(case: Path, place: int) -> None:
    """The first bit of the weights, and the last of the bias: its file has a true hash again."""
    file = case / "a.unplug" / FILE
    raw = bytearray(file.read_bytes())
    raw[place] ^= 1
    file.write_bytes(raw)
    digest = sha256_file(file)
    rewrite(case / "a.unplug", f"{FILE}.json", lambda card: card.update(sha256=digest))
    refile(case / "a.unplug", FILE)
    done = replayed(case)
    assert done.differs == (f"{FILE}: its head is not the one that the sums give",)
    value = called(f"replay {case / 'a.unplug'} --state {case / 'state'}", code=1)
    assert value["differs"] == list(done.differs)


def test_a_head_in_half_precision_has_the_bytes_that_converters_write() -> None:
    """A number below half of the least half, 2^-24, is 0 in torch and 2^-24 by ONNX Runtime."""
    from onnxruntime.transformers.float16 import convert_np_to_float16

    value = torch.tensor([1.1e-8, -1.1e-8, 0.0, 4e-8, 1e-7, 0.1, -7.0])
    forms = forms_of(value, half=True)
    assert convert_np_to_float16(value.numpy()).tobytes() in forms
    assert value.half().numpy().tobytes() in forms and value.numpy().tobytes() in forms
    assert np.frombuffer(forms[-1], np.float16)[:3].tolist() == [2.0**-24, -(2.0**-24), 0.0]
    assert forms_of(value, half=False) == [value.numpy().tobytes()]


def test_a_person_who_was_put_back_is_found(case: Path, worlds: dict[str, World]) -> None:  # noqa: F811
    original, state = worlds["closed-form"].original, case / "state"
    # in the state alone, with its list: the weights contradict it
    record = json.loads((original.path / "unplug.json").read_text())
    edit_state(
        state,
        lambda _: load_file(original.path / DESIGN_STATE),
        lambda told: told.update(split=record["split"]),
    )
    call = f"replay {case / 'a.unplug'} --state {state}"
    assert "of the weights is not what it gives" in refused(call, code=1)
    # in the weights too: both are not what was released
    done = journey.replay(case / "a.unplug", original, device="cpu", show=False)
    listed, weights, file = done.differs
    told = CliRunner().invoke(main, [*shlex.split(call)[:-1], str(original.path)])
    (line,) = (line for line in told.stdout.splitlines() if line.startswith("differs: "))
    assert told.exit_code == 1 and line == f"differs: {listed}; {weights}; {file}"
    count = len(worlds["closed-form"].split.retain)
    assert f"over {count} samples, and the bundle" in listed
    assert f"over {count - 1} samples" in listed
    assert weights.startswith("the weights: they are not those that the bundle names")
    assert file.startswith(FILE)


def test_a_name_that_is_missing_from_a_list_is_found(case: Path) -> None:
    bundle, state = case / "a.unplug", case / "state"
    rows = [bytes(row.numpy()) for row in load_file(state / DESIGN_STATE)["committed"]]
    # in the bundle
    write_list(bundle, CommittedList.of(rows[1:]))
    (line,) = replayed(case).differs
    assert f"over {len(rows)} samples, and the bundle" in line

    # in the state as well
    def shorter(told: dict[str, Any]) -> None:
        split = Split.from_dict(told["split"])
        left = tuple(name for name in split.train if name != min(split.retain))
        told["split"] = replace(split, train=left).to_dict()

    edit_state(state, lambda held: held | {"committed": held["committed"][1:].clone()}, shorter)
    call = f"replay {bundle} --state {state}"
    assert f"it holds {len(rows)} samples where the split says {len(rows) - 1}" in refused(call, 1)

    # and in the number of people that the sums count: then they give another head
    def fewer(held: dict[str, Tensor]) -> Mapping[str, Tensor]:
        size, sums = 48 + 1 + load_checkpoint(state).model.groups + 1, held["sums"].clone()
        row_T, column_T = torch.triu_indices(size, size)
        one = int(((row_T == 48) & (column_T == 48)).nonzero())
        sums[0, one] -= 2 ** (2 * 19)
        return held | {"sums": sums}

    edit_state(state, fewer)
    assert "the normal equations are singular" in refused(call, code=1)


def test_what_cannot_be_replayed_is_refused_in_one_line(
    case: Path,
    worlds: dict[str, World],  # noqa: F811
) -> None:
    bundle, state = case / "a.unplug", case / "state"
    before = sorted(path for path in case.rglob("*"))
    other = worlds["shards"].original.path
    assert "of the design shards, and replay checks" in refused(f"replay {bundle} --state {other}")
    call = f"replay {bundle} --state {state}"

    def twice(held: dict[str, Tensor]) -> Mapping[str, Tensor]:
        committed = held["committed"].clone()
        committed[1] = committed[0]
        return held | {"committed": committed}

    edit_state(state, twice)
    assert "is in the list twice" in refused(call)
    rewrite(bundle, LIST, lambda said: said.update(samples="many"))
    assert f"{LIST}: " in refused(call)
    (state / DESIGN_STATE).unlink()
    assert "it is not there" in refused(call)
    assert sorted(path for path in case.rglob("*")) == [
        path for path in before if path != state / DESIGN_STATE
    ]
