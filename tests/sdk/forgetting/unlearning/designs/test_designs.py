"""Every design: what it forgets it forgets bit for bit, whatever the order, and it refuses what
would not be exact.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

from unplug.core import CheckpointError, DataError, InputError, UnplugError, sha256_file
from unplug.plugins import DESIGN_STATE, Checkpoint, load_checkpoint
from unplug.sdk.cli import main
from unplug.sdk.forgetting.unlearning import DESIGNS, build_design, learned_by_design
from unplug.sdk.forgetting.unlearning.designs import over_trunk
from unplug.sdk.learning.data import Dataset, describe_request, resolve_names
from unplug.sdk.learning.training import split_of

from .conftest import CPU, FORMS, PERSONAL, RECIPE, TRUNK, World, only, same


def test_every_design_is_tested() -> None:
    assert set(FORMS) == set(DESIGNS)


def test_forgetting_gives_the_model_of_those_who_are_left(world: World, tmp_path: Path) -> None:
    """In two requests, in one, or refitted from the others' pictures: the same weights and the same
    state, bit for bit; and for what was said before it costs.
    """
    first, second = world.split.train[:4], world.split.train[7:9]
    once = world.without(first, tmp_path / "one")
    price = world.form.price(once, world.personal, second)
    step = world.without(second, tmp_path / "two", start=once)
    at_once = world.without([*second, *first], tmp_path / "both")
    refitted = world.without([*first, *second], tmp_path / "oracle", "retrain")
    assert same(step, at_once) and same(step, refitted) and not same(step, world.original)
    models = (world.original, refitted, step)
    state = [sha256_file(model.path / DESIGN_STATE) for model in models]
    assert state[0] != state[1] == state[2]
    roles = [model.record["role"] for model in models]
    assert roles == ["original", "retrained", "unlearned"]
    facts = step.record["forget"]
    told = [facts[key] for key in ("method", "exact", "refitted", "samples")]
    assert told == [world.design, True, None, 2]
    assert 0.0 < facts["cost"]["compute_fraction"] == price < 1.0
    assert set(split_of(step, world.personal).forget) == {*first, *second}


def test_a_killed_training_fits_nothing_twice(
    world: World, consented: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was killed when people were fitted goes on from there, to the same weights and state."""
    trunk = load_checkpoint(world.original.path.parent / TRUNK)
    how: dict[str, Any] = {"trunk": trunk, "trunk_data": consented, "device": CPU, "show": False}

    def train() -> Checkpoint:
        return world.form.train(world.personal, world.split, RECIPE, tmp_path / "out", **how)

    with monkeypatch.context() as patch:
        patch.setattr(over_trunk, "measured", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            train()
    assert not (tmp_path / "out").exists()
    with monkeypatch.context() as patch:
        patch.setattr(over_trunk, "rows_of", None)
        again = train()
    assert same(again, world.original) and [path.name for path in tmp_path.iterdir()] == ["out"]
    states = {sha256_file(model.path / DESIGN_STATE) for model in (again, world.original)}
    assert len(states) == 1


def test_who_asks_again_does_not_stop_the_others(world: World, tmp_path: Path) -> None:
    first, second = world.split.train[3], world.split.train[8]
    once = world.without([first], tmp_path / "once")
    both = world.without([first, second], tmp_path / "both", start=once)
    assert same(both, world.without([first, second], tmp_path / "at-once"))
    prices = {world.form.price(once, world.personal, ids) for ids in ([first, second], [second])}
    assert len(prices) == 1
    why = "is forgotten already: then the release that forgot it answers such a request"
    with pytest.raises(DataError, match=why):
        world.without([first], tmp_path / "again", start=once)


def test_only_what_the_design_reads_is_needed(world: World, tmp_path: Path) -> None:
    """The closed form reads her pictures alone; shards read those of the others beside her, and
    hers not at all.
    """
    gone = world.split.train[3]
    needed = world.reads(gone)
    assert (gone in needed) == (world.design == "closed-form")
    assert len(needed) < len(world.split.train) / 2
    full = world.without([gone], tmp_path / "full")
    assert same(world.without([gone], tmp_path / "a", data=only(world.personal, needed)), full)
    fewer = only(world.personal, [*needed[1:], world.split.test[0]])
    with pytest.raises(DataError, match="its picture is gone"):
        world.without([gone], tmp_path / "b", data=fewer)
    assert not (tmp_path / "b").exists()


def test_whose_pictures_are_gone_may_be_forgotten_too(world: World, tmp_path: Path) -> None:
    """By id, also once names are digests: shards never needed them, and the closed form is refitted
    from the others.
    """
    first, second, everybody = world.split.train[3], world.split.train[8], world.personal.ids
    left, fewer = (
        only(world.personal, [name for name in everybody if name not in gone])
        for gone in ([first], [first, second])
    )
    learned = learned_by_design(world.original)
    asked = resolve_names([first], left, "request", learned)
    once = world.without(asked, tmp_path / "once", data=left)
    assert asked == (first,) and same(once, world.without([first], tmp_path / "full"))
    assert (once.record["forget"]["refitted"] is None) == (world.design == "shards")
    again = resolve_names([second], fewer, "request", learned_by_design(once))
    assert again[0].startswith("hmac:")
    assert describe_request(again, fewer).endswith("1 whose pictures are gone")
    twice = world.without(again, tmp_path / "twice", data=fewer, start=once)
    assert same(twice, world.without([first, second], tmp_path / "both"))
    asked = resolve_names([first], left, "request", learned_by_design(once))
    with pytest.raises(DataError, match="it is not in this model"):
        world.without(asked, tmp_path / "x", data=left, start=once)
    for name, known in (("nobody", learned), (first, None)):
        with pytest.raises(DataError, match="1 unknown name"):
            resolve_names([name], left, "request", known)


def test_another_picture_under_a_name_is_refitted_or_refused(world: World, tmp_path: Path) -> None:
    """Refitted from the others where all of them are there (their own pictures as they are now),
    else refused.
    """
    gone = world.split.train[3]
    needed = world.reads(gone)
    images = world.personal.images.copy()
    images[world.personal.rows[world.personal.ids.index(needed[0])]] ^= 255
    changed = replace(world.personal, images=images)
    done = world.without([gone], tmp_path / "a", data=changed)
    assert "refitted from the pictures of the others" in done.record["forget"]["refitted"]
    assert same(done, world.without([gone], tmp_path / "b", "retrain", data=changed))
    with pytest.raises(DataError, match="not those that were added"):
        world.without([gone], tmp_path / "c", data=only(changed, needed))
    assert not (tmp_path / "c").exists()


BROKEN = {
    "gone": "is not there",
    "edited": "hash differs",
    "trunk": "its trunk is not",
    "head": "of the weights is not what it",
    "record": "does not describe the design",
    "shape": "does not belong to this model",
}


@pytest.mark.parametrize("edit", BROKEN)
def test_a_broken_state_is_refused(world: World, tmp_path: Path, edit: str) -> None:
    place = tmp_path / "copy"
    shutil.copytree(world.original.path, place)
    state, weights = place / DESIGN_STATE, place / "model.safetensors"
    record = json.loads((place / "unplug.json").read_text())
    if edit == "gone":
        state.unlink()
    elif edit in ("edited", "shape"):
        tensors = load_file(state)
        name = {"closed-form": "sums", "shards": "after"}[world.design]
        value = tensors[name]
        tensors[name] = value + 1 if edit == "edited" else value[..., 1:].contiguous()
        save_file(tensors, state)
        if edit == "shape":
            record["state_sha256"] = sha256_file(state)
    elif edit == "record":
        record["design"]["grid"] = "fine"
    else:
        tensors = load_file(weights)
        tensors["classifier.weight" if edit == "head" else sorted(tensors)[-1]] += 0.5
        save_file(tensors, weights)
        record["weights_sha256"] = sha256_file(weights)
    (place / "unplug.json").write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match=BROKEN[edit]):
        world.without(world.split.train[:1], tmp_path / "out", start=load_checkpoint(place))
    assert not (tmp_path / "out").exists()


def test_who_was_held_out_as_well_leaves_the_test_set(world: World, tmp_path: Path) -> None:
    ids = (world.split.train[0], world.split.test[0])
    both, alone = (world.without(asked, tmp_path / str(len(asked))) for asked in (ids, ids[:1]))
    assert same(both, alone) and both.record["forget"]["held_out"] == 1
    assert split_of(both, world.personal).test == world.split.test[1:]
    price = world.form.price(world.original, world.personal, ids)
    assert price == world.form.price(world.original, world.personal, ids[:1])


def test_requests_that_cannot_be_met(world: World, tmp_path: Path) -> None:
    names, strangers, out = world.split.train, world.split.test[:1], tmp_path / "out"
    once = world.without(names[:1], tmp_path / "once")
    for wanted, why in (
        (names[:1], "it is not in this model"),
        (strangers, "were not trained on"),
        (names[1:], "nothing would be retained"),
    ):
        with pytest.raises(DataError, match=why):
            world.without(wanted, out, start=once)
    with pytest.raises(UnplugError):
        world.without(names, out)
    for wanted, why in ((strangers, "were not trained on"), (names, "nothing would be retained")):
        with pytest.raises(DataError, match=why):
            world.form.price(world.original, world.personal, wanted)
    with pytest.raises(InputError, match="another method would end that"):
        world.without(names[:1], out, "msg")
    with pytest.raises(InputError, match="costs what the request needs"):
        world.without(names[:1], out, budget=0.05)
    with pytest.raises(InputError, match="no setting 'lam'"):
        build_design(world.design, {"lam": "1"})
    assert not out.exists()


def test_nobody_may_be_in_both_sets_of_data(
    world: World, consented: Dataset, tmp_path: Path
) -> None:
    trunk = load_checkpoint(world.original.path.parent / TRUNK)
    changed = replace(consented, images=255 - consented.images, digest="0" * 64, marks=())
    for data, why in (
        (changed, "it is not the data that .* was trained on"),
        (world.personal, "90 personal pictures are in it too: face-"),
    ):
        with pytest.raises(DataError, match=why):
            world.form.train(
                world.personal,
                world.split,
                trunk.record["recipe"],
                tmp_path / "a",
                trunk=trunk,
                trunk_data=data,
                device=CPU,
                show=False,
            )
    assert not (tmp_path / "a").exists()


def test_from_the_command_line(world: World, tmp_path: Path) -> None:
    def call(words: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, words.split())
        assert done.exit_code == code, done.output
        return done.output

    trunk, out = f"--trunk {world.original.path.parent / TRUNK}", tmp_path / "age"
    settings = world.original.record["design"]["settings"]
    pairs = " ".join(f"--set {name}={value}" for name, value in settings.items())
    train = f"train age --data {PERSONAL} -o {out}"
    call(f"{train} --forgettable {world.design} {trunk} {pairs} --json")
    assert same(load_checkpoint(out), world.original)
    person = world.personal.samples[world.personal.ids.index(world.split.train[0])].subject
    (tmp_path / "who.txt").write_text(f"subject:{person}\n")
    asked = f"forget {out} --data {PERSONAL} --forget {tmp_path}/who.txt -o {tmp_path}/new"
    told = call(asked)
    facts = load_checkpoint(tmp_path / "new").record["forget"]
    assert facts["method"] == world.design
    assert f"costs {100 * facts['cost']['compute_fraction']:.3g} % of a refit" in told
    told = call(f"{train}-x {trunk}", code=2)
    assert "Give --forgettable closed-form or shards as well" in told
    told = call(f"{train}-x --forgettable {world.design} --pixels 32", code=2)
    assert "Give --trunk-data or --trunk" in told
