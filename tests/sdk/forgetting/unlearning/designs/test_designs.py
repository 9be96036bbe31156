"""Every design: what it forgets it forgets bit for bit, whatever the order, and it refuses what
would not be exact.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

from unplug.core import CheckpointError, DataError, InputError, UnplugError, sha256_file
from unplug.plugins import DESIGN_STATE, load_checkpoint
from unplug.sdk.cli import main
from unplug.sdk.forgetting.unlearning import DESIGNS, build_design, forget, learned_by_design
from unplug.sdk.learning.data import Dataset, describe_request, resolve_names
from unplug.sdk.learning.training import split_of

from .conftest import CPU, FORMS, PERSONAL, TRUNK, World, only, same


def test_every_design_is_tested() -> None:
    assert set(FORMS) == set(DESIGNS)


def test_forgetting_gives_the_model_of_those_who_are_left(world: World, tmp_path: Path) -> None:
    """In two requests, in one, or refitted from the others' pictures: the same weights and the same
    state, bit for bit.
    """
    first, second = world.split.train[:4], world.split.train[7:9]
    step = world.without(second, tmp_path / "two", start=world.without(first, tmp_path / "one"))
    at_once = world.without([*second, *first], tmp_path / "both")
    refitted = world.without([*first, *second], tmp_path / "oracle", "retrain")
    assert same(step, at_once) and same(step, refitted) and not same(step, world.original)
    state = [sha256_file(model.path / DESIGN_STATE) for model in (step, refitted, world.original)]
    assert state[0] == state[1] != state[2]
    assert [model.record["role"] for model in (world.original, step, refitted)] == [
        "original",
        "unlearned",
        "retrained",
    ]
    facts = step.record["forget"]
    assert (facts["method"], facts["exact"], facts["refitted"], facts["samples"]) == (
        world.design,
        True,
        None,
        2,
    )
    assert 0.0 < facts["cost"]["compute_fraction"] < 1.0
    assert set(split_of(step, world.personal).forget) == {*first, *second}


def test_who_asks_again_does_not_stop_the_others(world: World, tmp_path: Path) -> None:
    first, second = world.split.train[3], world.split.train[8]
    once = world.without([first], tmp_path / "once")
    both = world.without([first, second], tmp_path / "both", start=once)
    assert same(both, world.without([first, second], tmp_path / "at-once"))
    assert world.form.price(once, world.personal, [first, second]) == world.form.price(
        once, world.personal, [second]
    )
    with pytest.raises(
        DataError,
        match="is forgotten already: then the release that forgot it answers such a request",
    ):
        world.without([first], tmp_path / "again", start=once)


def test_the_price_is_told_before_and_is_what_it_costs(world: World, tmp_path: Path) -> None:
    gone = world.split.train[:3]
    price = world.form.price(world.original, world.personal, gone)
    assert (
        world.without(gone, tmp_path / "out").record["forget"]["cost"]["compute_fraction"] == price
    )
    with pytest.raises(DataError, match="were not trained on"):
        world.form.price(world.original, world.personal, world.split.test[:1])


def test_only_what_the_design_reads_is_needed(world: World, tmp_path: Path) -> None:
    """The closed form reads her pictures alone; shards read those of the others beside her, and
    hers not at all.
    """
    gone = world.split.train[3]
    needed = world.form.reads(world.form.load(world.original), [gone])  # type: ignore[arg-type]
    assert (gone in needed) == (world.design == "closed-form") and len(needed) < len(
        world.split.train
    ) / 2
    full = world.without([gone], tmp_path / "full")
    assert same(world.without([gone], tmp_path / "a", data=only(world.personal, needed)), full)
    with pytest.raises(DataError, match="its picture is gone"):
        world.without(
            [gone], tmp_path / "b", data=only(world.personal, [*needed[1:], world.split.test[0]])
        )
    assert not (tmp_path / "b").exists()


def test_whose_pictures_are_gone_may_be_forgotten_too(world: World, tmp_path: Path) -> None:
    """By id, also once names are digests: shards never needed them, and the closed form is refitted
    from the others.
    """
    first, second, everybody = world.split.train[3], world.split.train[8], world.personal.ids
    left = only(world.personal, [name for name in everybody if name != first])
    fewer = only(world.personal, [name for name in everybody if name not in (first, second)])
    asked = resolve_names([first], left, "request", learned_by_design(world.original))
    once = world.without(asked, tmp_path / "once", data=left)
    assert asked == (first,) and same(once, world.without([first], tmp_path / "full"))
    assert (once.record["forget"]["refitted"] is None) == (world.design == "shards")
    again = resolve_names([second], fewer, "request", learned_by_design(once))
    assert again[0].startswith("hmac:") and describe_request(again, fewer).endswith(
        "1 whose pictures are gone"
    )
    assert same(
        world.without(again, tmp_path / "twice", data=fewer, start=once),
        world.without([first, second], tmp_path / "both"),
    )
    with pytest.raises(DataError, match="it is not in this model"):
        world.without(
            resolve_names([first], left, "request", learned_by_design(once)),
            tmp_path / "x",
            data=left,
            start=once,
        )
    with pytest.raises(DataError, match="1 unknown names"):
        resolve_names(["nobody"], left, "request", learned_by_design(once))
    with pytest.raises(DataError, match="1 unknown names"):
        resolve_names([first], left, "request")


def test_another_picture_under_a_name_is_refitted_or_refused(world: World, tmp_path: Path) -> None:
    """Refitted from the others where all of them are there (their own pictures as they are now),
    else refused.
    """
    gone = world.split.train[3]
    needed = world.form.reads(world.form.load(world.original), [gone])  # type: ignore[arg-type]
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
    record, weights = (
        json.loads((place / "unplug.json").read_text()),
        load_file(place / "model.safetensors"),
    )
    if edit == "gone":
        (place / DESIGN_STATE).unlink()
    elif edit in ("edited", "shape"):
        tensors = load_file(place / DESIGN_STATE)
        name = {"closed-form": "sums", "shards": "after"}[world.design]
        tensors[name] = (
            tensors[name] + 1 if edit == "edited" else tensors[name][..., 1:].contiguous()
        )
        save_file(tensors, place / DESIGN_STATE)
        if edit == "shape":
            record["state_sha256"] = sha256_file(place / DESIGN_STATE)
    elif edit == "record":
        record["design"]["grid"] = "fine"
    else:
        weights["classifier.weight" if edit == "head" else sorted(weights)[-1]] += 0.5
        save_file(weights, place / "model.safetensors")
        record["weights_sha256"] = sha256_file(place / "model.safetensors")
    (place / "unplug.json").write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match=BROKEN[edit]):
        world.without(world.split.train[:1], tmp_path / "out", start=load_checkpoint(place))
    assert not (tmp_path / "out").exists()


def test_who_was_held_out_as_well_leaves_the_test_set(world: World, tmp_path: Path) -> None:
    ids = (world.split.train[0], world.split.test[0])
    both = world.without(ids, tmp_path / "both")
    assert (
        same(both, world.without(ids[:1], tmp_path / "alone"))
        and both.record["forget"]["held_out"] == 1
    )
    assert split_of(both, world.personal).test == world.split.test[1:]
    assert world.form.price(world.original, world.personal, ids) == world.form.price(
        world.original, world.personal, ids[:1]
    )


def test_requests_that_cannot_be_met(world: World, tmp_path: Path) -> None:
    names, out = world.split.train, tmp_path / "out"
    once = world.without(names[:1], tmp_path / "once")
    for wanted, why in (
        (names[:1], "it is not in this model"),
        (world.split.test[:1], "were not trained on"),
    ):
        with pytest.raises(DataError, match=why):
            world.without(wanted, out, start=once)
    with pytest.raises(UnplugError):
        world.without(names, out)
    with pytest.raises(DataError, match="nothing would be retained"):
        world.without(names[1:], out, start=once)
    with pytest.raises(DataError, match="nothing would be retained"):
        world.form.price(world.original, world.personal, names)
    with pytest.raises(InputError, match="another method would end that"):
        world.without(names[:1], out, "msg")
    with pytest.raises(InputError, match="costs what the request needs"):
        forget(
            world.original,
            world.personal,
            names[:1],
            None,
            out,
            budget=0.05,
            device=CPU,
            show=False,
        )
    with pytest.raises(InputError, match="no setting 'lam'"):
        build_design(world.design, {"lam": "1"})
    assert not out.exists()


def test_nobody_may_be_in_both_sets_of_data(
    world: World, consented: Dataset, tmp_path: Path
) -> None:
    both = replace(consented, images=255 - consented.images)
    trunk = load_checkpoint(world.original.path.parent / TRUNK)
    with pytest.raises(DataError, match="it is not what the trunk was trained on"):
        world.form.train(
            world.personal,
            world.split,
            trunk.record["recipe"],
            tmp_path / "a",
            trunk=trunk,
            trunk_data=replace(both, digest="0" * 64),
            device=CPU,
            show=False,
        )
    with pytest.raises(DataError, match="90 personal pictures are in it too: face-"):
        world.form.train(
            world.personal,
            world.split,
            trunk.record["recipe"],
            tmp_path / "a",
            trunk=trunk,
            trunk_data=world.personal,
            device=CPU,
            show=False,
        )
    assert not (tmp_path / "a").exists()


def test_from_the_command_line(world: World, tmp_path: Path) -> None:
    trunk, out = world.original.path.parent / TRUNK, tmp_path / "age"
    run, settings = CliRunner(), world.original.record["design"]["settings"]
    pairs = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    trained = run.invoke(
        main,
        [
            "train",
            "age",
            "--forgettable",
            world.design,
            "--data",
            PERSONAL,
            "--trunk",
            str(trunk),
            "-o",
            str(out),
            *pairs,
            "--json",
        ],
    )
    assert trained.exit_code == 0, trained.output
    assert same(load_checkpoint(out), world.original)
    person = world.personal.samples[world.personal.ids.index(world.split.train[0])].subject
    (tmp_path / "who.txt").write_text(f"subject:{person}\n")
    asked = [
        "forget",
        str(out),
        "--data",
        PERSONAL,
        "--forget",
        str(tmp_path / "who.txt"),
        "-o",
        str(tmp_path / "new"),
    ]
    forgot = run.invoke(main, [*asked, "--json"])
    assert forgot.exit_code == 0, forgot.output
    facts = json.loads(forgot.stdout)
    assert facts["method"] == world.design
    told = run.invoke(main, asked)
    assert f"costs {100 * facts['cost']['compute_fraction']:.3g} % of a refit" in told.output
    lonely = run.invoke(
        main, ["train", "age", "--data", PERSONAL, "--trunk", str(trunk), "-o", str(tmp_path / "x")]
    )
    assert (
        lonely.exit_code == 2
        and "Give --forgettable closed-form or shards as well" in lonely.output
    )
    nothing = run.invoke(
        main,
        [
            "train",
            "age",
            "--data",
            PERSONAL,
            "--forgettable",
            world.design,
            "-o",
            str(tmp_path / "x"),
            "--image-size",
            "32",
        ],
    )
    assert nothing.exit_code == 2 and "Give --trunk-data or --trunk" in nothing.output
