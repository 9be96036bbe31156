"""Whoever was forgotten stays so: from which models a release may start, by the ledger, by bundles,
by what lies near.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.once import once

from unplug.core import InputError, Job, StillHeld
from unplug.plugins import Checkpoint, load_checkpoint, save_checkpoint
from unplug.sdk import journey
from unplug.sdk.forgetting.tasks import train_age
from unplug.sdk.forgetting.unlearning import request_split
from unplug.sdk.forgetting.unlearning.lineage import lineage_of
from unplug.sdk.learning.data import Dataset, keyed, load_dataset, make_split
from unplug.sdk.learning.training import Recipe
from unplug.sdk.releasing import Answering, prepare, release
from unplug.serve import ServeRecipe
from unplug.serve.release_run import run_release
from unplug.trust.bundle import (
    Publication,
    Signing,
    bundle_id,
    load_signer,
    make_key,
    read_manifest,
    sign_bundle,
)
from unplug.trust.ledger import Ledger, LedgerSigner, open_ledger

from ..cli.calls import fail, leftovers, run
from ..conftest import CPU, QUICK
from ..trust.bundle.test_bundle import edit, make_bundle

SPEC = "synth:n=90,subjects=30,seed=0"
EXACT = replace(QUICK, method="retrain")


def forgotten(original: Checkpoint, dataset: Dataset, ids: Sequence[str], out: Path) -> Checkpoint:
    """A model with the record of one that forgot some samples, and weights that nobody else has;
    nothing is computed.
    """
    split = keyed(request_split(original, dataset, ids))
    model = original.model
    with torch.no_grad():
        next(model.parameters()).add_(1e-3 * len(str(out)))  # other weights in another folder
    record = {
        **original.record,
        "split": split.to_dict(),
        "role": "unlearned",
        "lineage": lineage_of(original, split),
    }
    save_checkpoint(model, out, record=record, card="# A test\n")
    return load_checkpoint(out)


class Story:
    """An original, release 1 of it that forgot Anna, and a second request, by Ben."""

    def __init__(self, folder: Path, trained: Path) -> None:
        self.folder = folder
        shutil.copytree(trained, folder / "exact")
        self.original = load_checkpoint(folder / "exact")
        self.dataset = load_dataset(SPEC, 32, show=False)
        pictures: dict[str, list[str]] = {}
        learned = {*make_split(self.dataset).train}
        for sample in self.dataset.samples:
            if sample.id in learned:
                pictures.setdefault(str(sample.subject), []).append(sample.id)
        (self.anna, self.ben, self.cleo), self.pictures = list(pictures)[:3], pictures
        self.work = folder / ".one.unplug.release"
        self.unlearned = forgotten(
            load_checkpoint(folder / "exact"),
            self.dataset,
            pictures[self.anna],
            self.work / "unlearned",
        )
        self.one = self.bundle("one.unplug", self.original.sha256, self.unlearned.sha256)
        self.ledger: Ledger = open_ledger(str(folder / "ledger.db"), signer=self.signer)
        self.ledger.create()
        self.ask("T-1", self.anna)
        self.ask("T-2", self.ben)
        make_key(folder / "key")

    def signer(self) -> LedgerSigner:
        return LedgerSigner(name="tests.example", seed=bytes(range(32)))

    def ask(self, id: str, person: str) -> None:
        self.ledger.add([f"subject:{person}"], id=id)

    def bundle(self, name: str, original: str, checkpoint: str) -> Path:
        """What a release would leave, as far as anybody reads here."""
        made = make_bundle(self.folder / f"made-{name}")
        lineage = {
            "original_sha256": original,
            "checkpoint_sha256": checkpoint,
            "data_digest": self.dataset.digest,
        }
        edit(made, lambda m: m["lineage"].update(lineage))
        made.rename(self.folder / name)
        shutil.rmtree(self.folder / f"made-{name}")
        return self.folder / name

    def record(
        self, *requests: str, began: str, shipped: str, bundle: Path | None = None, others: int = 0
    ) -> None:
        """What a release on record tells the ledger."""
        number = f"{len(self.ledger.entries()):032x}"
        begin = {"stage": "begin", "model_sha256": began, "samples_of_others": str(others)}
        self.ledger.record("step", requests, facts={"release": number, **begin})
        self.ledger.record(
            "try", requests, facts={"release": number, "ships": "yes", "model_sha256": shipped}
        )
        named = {"bundle_sha256": bundle_id(bundle)} if bundle else {}
        self.ledger.record("release", requests, facts={"release": number, **named})

    def told(self) -> None:
        """Release 1 is on record."""
        self.record(
            "T-1", began=self.original.sha256, shipped=self.unlearned.sha256, bundle=self.one
        )

    def signing(self, *earlier: Path, given: bool = True) -> Signing:
        publication = Publication(name="age", release=2, supersedes=tuple(map(bundle_id, earlier)))
        return Signing(
            signer=load_signer(str(self.folder / "key")),
            publication=publication,
            earlier=earlier if given else (),
        )

    def starts(self, model: Checkpoint, *people: str, out: str = "two.unplug", **more: Any) -> None:
        """Everything in front of the work of release 2."""
        self._walk(prepare, model, people, out, **more)

    def _walk(
        self,
        door: Callable[..., Any],
        model: Checkpoint,
        people: Sequence[str],
        out: str,
        **more: Any,
    ) -> None:
        ids = [name for person in people for name in self.pictures[person]]
        place = self.folder / out
        work = place.with_name(f".{place.name}.release")
        how: dict[str, Any] = {"device": CPU, "say": lambda _: None, "show": False}
        door(model, self.dataset, ids, place, work, EXACT, **how, **more)

    def answers(self, model: Checkpoint, person: str, request: str) -> None:
        """Release 2, on record."""
        answering = Answering(ledger=self.ledger, requests=(request,))
        signed = {"signing": self.signing(), "answering": answering}
        self._walk(release, model, [person], "two.unplug", **signed)

    def refused(self, model: Checkpoint, *people: str, **more: Any) -> str:
        before = leftovers(self.folder)
        with pytest.raises(StillHeld) as caught:
            self.starts(model, *people, **more)
        assert leftovers(self.folder) == before and "\n" not in str(caught.value)
        return str(caught.value)


def train(root: Path) -> None:
    dataset = load_dataset(SPEC, 32, show=False)
    recipe = Recipe(
        size="nano", image_size=32, epochs=1, batch_size=32, augment="flip", dropout=0.0
    )
    train_age(dataset, make_split(dataset), recipe, root / "exact", seed=0, device=CPU, show=False)


@pytest.fixture
def story(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    return Story(tmp_path, once(tmp_path_factory, "lineage", train) / "exact")


def test_the_second_release_from_the_original_is_refused_with_and_without_a_ledger(
    story: Story,
) -> None:
    story.told()
    start = f"Start from the model {story.unlearned.sha256}, {story.work / 'unlearned'}, or "
    refusal = story.refused(story.original, story.ben, ledger=story.ledger)
    assert (
        "request T-1: it was released, and the model" in refusal
        and "still holds 3 samples that it names" in refusal
        and start in refusal
    )
    for signing in (story.signing(story.one), story.signing(story.one, given=False)):
        refusal = story.refused(story.original, story.ben, signing=signing)
        assert (
            "was not made from that bundle's, and still holds 3 samples that it forgot" in refusal
            and start in refusal
        )
    assert start in story.refused(story.original, story.ben, out="one.unplug"), (
        "the bundle in its place goes without a word"
    )
    doors: list[dict[str, Any]] = [
        {"ledger": story.ledger},
        {"signing": story.signing(story.one)},
        {"out": "one.unplug"},
    ]
    for more in doors:
        story.starts(story.original, story.anna, story.ben, **more)
        story.starts(story.unlearned, story.ben, **more)


def test_what_was_refused_before_is_refused_by_name(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python, command line and server ask the same function."""
    story.told()
    with pytest.raises(StillHeld, match="request T-1: it was released"):
        story.answers(story.original, story.ben, "T-2")
    recipe = ServeRecipe(
        name="age",
        checkpoint=str(story.original.path),
        data=SPEC,
        method="retrain",
        device="cpu",
        targets=("litert",),
        precisions=("fp32",),
        sign=str(story.folder / "key"),
    )
    monkeypatch.setenv("UNPLUG_LEDGER", str(story.folder / "ledger.db"))
    for step in (journey.release, journey.plan_release):
        with pytest.raises(StillHeld, match="request T-1: it was released"):
            step(  # without a word of any ledger: this machine's is asked
                story.original.path,
                story.dataset,
                [f"subject:{story.ben}"],
                out=story.folder / "two.unplug",
                method="retrain",
                device="cpu",
            )
    values = {
        "recipe": vars(recipe),
        "ledger": str(story.folder / "ledger.db"),
        "folder": str(story.folder),
        "requests": ["T-2"],
        "before": None,
    }
    with pytest.raises(StillHeld, match="request T-1: it was released"):
        run_release(Job(story.folder, values, {}, {}))


def test_the_command_line(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a request the ledger is told nothing, and is asked all the same."""
    monkeypatch.setenv("UNPLUG_LEDGER", str(story.folder / "ledger.db"))
    story.told()
    forget, out = story.folder / "ben.txt", story.folder / "two.unplug"
    forget.write_text(f"subject:{story.ben}\n")
    before = leftovers(story.folder)
    command = ["release", story.original.path, "--data", SPEC, "--forget", forget, "--out", out]
    command += ["--device", "cpu", "--sign", story.folder / "key", "--method", "retrain"]
    line = fail(*command).line
    assert "request T-1: it was released" in line and story.unlearned.sha256 in line
    assert leftovers(story.folder) == before


def test_touch_looks_at_answered_requests_again(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNPLUG_LEDGER", str(story.folder / "ledger.db"))
    monkeypatch.setenv("UNPLUG_LEDGER_KEY", story.signer().secret_text)
    line = f"ledger touch {story.original.path} {story.unlearned.path} --data {SPEC}"
    run(line)
    story.told()
    again = run(line, 1).output
    assert f"T-1 was answered, and {story.original.path} holds 3 samples of it" in again
    assert again.count("was answered, and") == 1, "T-2 is open, and the other model forgot her"


def withdrawn(story: Story) -> Checkpoint:
    story.told()
    story.ledger.withdraw("T-1")
    return story.original


def retrained_without_her(story: Story) -> Checkpoint:
    """Of another seed and split, with no word of what was before it: it never held her."""
    story.told()
    split = make_split(story.dataset)
    gone = {*story.pictures[story.anna]}
    record = {
        **story.original.record,
        "split": replace(split, train=tuple(n for n in split.train if n not in gone)).to_dict(),
    }
    with torch.no_grad():
        next(story.original.model.parameters()).add_(1.0)
    save_checkpoint(story.original.model, story.folder / "fresh", record=record, card="# A test\n")
    return load_checkpoint(story.folder / "fresh")


def two_steps_away(story: Story) -> Checkpoint:
    """The model between them is gone, and so is the work folder of release 1."""
    story.told()
    between = forgotten(
        story.unlearned, story.dataset, story.pictures[story.cleo], story.folder / "between"
    )
    last = forgotten(
        between, story.dataset, story.pictures[list(story.pictures)[3]], story.folder / "last"
    )
    shutil.rmtree(story.folder / "between")
    shutil.rmtree(story.work)
    return last


def two_steps_by_old_records(story: Story) -> Checkpoint:
    """Records of before name the model in front of them alone."""
    last = two_steps_away(story)
    # which the ledger need not know
    story.record("T-2", began=last.record["lineage"]["original_sha256"], shipped="f" * 64)
    last.record["lineage"].pop("ancestors")
    story.record(began=story.unlearned.sha256, shipped=last.record["lineage"]["original_sha256"])
    return last


def answered_for_another_model(story: Story) -> Checkpoint:
    """T-1 was answered, and this model never learned from her: she was held out there."""
    split = make_split(story.dataset)
    story.ledger.add([f"subject:{name_of(story, split.test[0])}"], id="T-9")
    story.ledger.record("answered", ["T-9"])
    return story.original


def name_of(story: Story, sample: str) -> str:
    return next(str(item.subject) for item in story.dataset.samples if item.id == sample)


@pytest.mark.parametrize(
    "model",
    [
        withdrawn,
        retrained_without_her,
        two_steps_away,
        two_steps_by_old_records,
        answered_for_another_model,
    ],
)
def test_what_knows_nobody_who_was_forgotten_may_start(
    story: Story, model: Callable[[Story], Checkpoint]
) -> None:
    made = model(story)
    signed: dict[str, Any] = (
        {} if model is answered_for_another_model else {"signing": story.signing(story.one)}
    )
    story.starts(made, story.ben, ledger=story.ledger, **signed)


def shredded(story: Story) -> dict[str, Any]:
    story.told()
    story.ledger.record("answered", ["T-1"])
    story.ledger.shred("T-1")
    return {"ledger": story.ledger}


def shredded_without_a_model(story: Story) -> dict[str, Any]:
    told = shredded(story)
    shutil.rmtree(story.work)
    return told


def by_hand(story: Story) -> dict[str, Any]:
    """`unplug ledger record release T-1 --file one.unplug/manifest.json`, as somebody without a
    release on record does.
    """
    story.ledger.record("release", ["T-1"], facts={"sha256 manifest.json": bundle_id(story.one)})
    return {"ledger": story.ledger}


def by_a_server(story: Story) -> dict[str, Any]:
    """As `JobThread` tells of a release; its work lies in the folder of its job."""
    (story.folder / "jobs" / "J-1").mkdir(parents=True)
    story.work.rename(story.folder / "jobs" / "J-1" / "work")
    weights = {"original_sha256": story.original.sha256, "model_sha256": story.unlearned.sha256}
    story.ledger.record(
        "release", ["T-1"], facts={"job": "J-1", "bundle": "0" * 64, "model": "age", **weights}
    )
    return {"ledger": story.ledger, "out": "jobs/J-2/age.unplug"}


def another_bundle_beside(story: Story) -> dict[str, Any]:
    """Two models of one original, each released: who takes the place of both knows whom neither
    does.
    """
    other = forgotten(
        story.original, story.dataset, story.pictures[story.cleo], story.folder / "other"
    )
    beside = story.bundle("other.unplug", story.original.sha256, other.sha256)
    story.original = story.unlearned
    return {"signing": story.signing(story.one, beside)}


def no_folder(story: Story) -> dict[str, Any]:
    """Neither ledger nor work folder: nothing shows whom release 1 forgot."""
    shutil.rmtree(story.work)
    return {"signing": story.signing(story.one)}


def an_id_alone(story: Story) -> dict[str, Any]:
    shutil.rmtree(story.work)
    signing = story.signing(story.one, given=False)
    shutil.rmtree(story.one)
    return {"signing": signing}


@pytest.mark.parametrize(
    ("told", "message", "start"),
    [
        (shredded, "request T-1: it was answered, and ", True),
        (shredded_without_a_model, "its salt was shredded. Start from the model ", True),
        (by_hand, "request T-1: it was released, and ", True),
        (by_a_server, "/jobs/J-1/work/unlearned, or name them", True),
        (another_bundle_beside, "other.unplug: ", False),
        (
            no_folder,
            "nothing shows that whom it forgot stay forgotten. Start from the model ",
            True,
        ),
        (an_id_alone, "nobody says which weights that bundle ships", False),
    ],
)
def test_others_of_the_kind_are_refused(
    story: Story, told: Callable[[Story], dict[str, Any]], message: str, start: bool
) -> None:
    unlearned = story.unlearned.sha256
    more = told(story)
    refusal = story.refused(story.original, story.ben, **more)
    assert message in refusal and (unlearned in refusal) is start


def test_the_ledger_shows_whom_the_forget_set_must_cover(story: Story) -> None:
    """Where the work folder is gone: all whom release 1 forgot are those whom its requests name,
    and they are named again.
    """
    shutil.rmtree(story.work)
    story.told()
    both = (story.anna, story.ben)
    story.starts(story.original, *both, ledger=story.ledger, signing=story.signing(story.one))
    story.record(
        "T-1",
        began=story.original.sha256,
        shipped=story.unlearned.sha256,
        bundle=story.one,
        others=2,
    )
    refusal = story.refused(
        story.original, *both, ledger=story.ledger, signing=story.signing(story.one)
    )
    assert "nothing shows that whom it forgot stay forgotten" in refusal, (
        "two more of whom no request says who they are"
    )


def test_who_waits_for_other_models_stays_forgotten_in_this_one(story: Story) -> None:
    for model in (story.original.sha256, "e" * 64):
        story.ledger.record("touched", ["T-1"], facts={"model_sha256": model, "samples": "3"})
    story.told()
    assert story.ledger.requests()["T-1"].state == "open"
    assert "request T-1: it was released in part" in story.refused(
        story.original, story.ben, ledger=story.ledger
    )
    story.starts(story.unlearned, story.ben, ledger=story.ledger)
    with pytest.raises(InputError, match="this model has forgotten it, and it waits for others"):
        story.answers(story.unlearned, story.anna, "T-1")


def test_it_names_the_newest_model_that_came_of_it(story: Story) -> None:
    story.told()
    second = forgotten(
        story.unlearned,
        story.dataset,
        story.pictures[story.ben],
        story.folder / ".two.unplug.release/unlearned",
    )
    before = story.unlearned.sha256
    story.record("T-2", began=before, shipped=second.sha256)
    refusal = story.refused(story.original, story.cleo, ledger=story.ledger)
    assert f"Start from the model {second.sha256}, {second.path}, or" in refusal
    assert "request T-2" in story.refused(
        load_checkpoint(story.folder / "exact"), story.anna, ledger=story.ledger
    )


def test_whom_a_lost_key_hides_may_still_be_held(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.told()
    monkeypatch.setenv("UNPLUG_KEY", str(story.folder / "new"))
    story.ledger.correct("the old one is lost", key=True)
    with pytest.raises(
        InputError, match=r"request T-1: nobody can tell .* `unplug ledger shred` it"
    ):
        story.starts(story.original, story.ben, ledger=story.ledger)


def test_what_a_bundle_is_signed_over(story: Story) -> None:
    """`bundle sign` has no data: of two models of one original it signs neither in the place of the
    other.
    """
    other = story.bundle("other.unplug", story.original.sha256, "1" * 64)
    next_ = story.bundle("next.unplug", story.unlearned.sha256, "1" * 64)
    with pytest.raises(InputError, match="made from the original of") as caught:
        sign_bundle(other, story.signing(story.one), story.folder / "signed.unplug")
    assert (
        story.unlearned.sha256 in str(caught.value)
        and not (story.folder / "signed.unplug").exists()
    )
    assert (
        read_manifest(next_).lineage.original_sha256
        == read_manifest(story.one).lineage.checkpoint_sha256
    )
