"""What age models and classifiers say of people that they never saw: checkpoints, exported files and bundles alike,
as arrays.

Shapes: N pictures, G age groups or classes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unplug.core import Array, InputError, progress
from unplug.export import Artifact, Session, load_artifact
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.drawing.conditions import scaled
from unplug.sdk.drawing.inference import face_faults, over_probability
from unplug.sdk.forgetting.unlearning import members_of
from unplug.sdk.learning.data import Dataset, OnBad, Split, load_again, load_split, parse_spec
from unplug.trust.bundle import Trust, artifact_paths

from .copies import Training, training_data
from .people import Part, People, people_of

if TYPE_CHECKING:
    import torch

CHUNK = 256  # pictures at once
Infer = Callable[[Array], Mapping[str, Array]]


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What one model says of N pictures.

    Args:
        name: the folder or file.
        sha256: the SHA-256 of the weights or of the exported file.
        checkpoint_sha256: the hash of the weights that it is, or was exported from.
        target, precision: the form of an exported file, else None.
        runtime: the runtime that ran it.
        role: the role in a checkpoint's record (original, unlearned, retrained), or None.
        parameters: the number of the network's parameters where known.
        bytes: the size of an exported file, or None.
        edges: G + 1 borders of the age groups in years.
        logits_NG, expected_age_N: outputs, finite; a classifier says no age, and has NaN.
        seconds: wall time of a picture, one at a time for a file; with the reading of its pixels.
        people: the people in the pictures.
        classes: G names of a classifier's classes; then there are no `edges`.
    """

    name: str
    sha256: str
    checkpoint_sha256: str
    target: str | None
    precision: str | None
    runtime: str
    role: str | None
    parameters: int | None
    bytes: int | None
    edges: tuple[float, ...]
    logits_NG: Array
    expected_age_N: Array
    seconds: float
    people: People
    classes: tuple[str, ...] = ()

    def over(self, age: float) -> Array:
        """P(age >= T) of every picture (N,); `InputError` where T lies outside of the model's
        groups.
        """
        return over_probability(self.logits_NG, self.edges, age)


@dataclass(frozen=True, kw_only=True)
class _Subject:
    """One model, not yet run: what it is, and a context in which pixels go in and outputs come out."""

    facts: dict[str, Any]
    image_size: int
    opened: Callable[[], Any]
    checkpoint: Checkpoint | None = None


def ask(
    models: Sequence[Path | Checkpoint],
    data: str | Dataset,
    *,
    part: Part = "test",
    checkpoints: Sequence[Path] = (),
    splits: Sequence[Path] = (),
    training: Sequence[str] = (),
    trust: Trust | None = None,
    landmarker: Path | None = None,
    on_bad: OnBad = "error",
    model_type: str = "age",
    device: torch.device | None = None,
    show: bool = True,
) -> tuple[Answers, ...]:
    """Runs every model on the same people, whom none of them learned from as far as splits tell.

    Args:
        models: checkpoints, loaded or by their folders, exported files and bundles.
        data: a data spec, or data loaded already.
        part: the set of the training's split that is asked about, where the data are those of the
            training.
        checkpoints: folders whose records say what exported files learned from.
        splits: split files that say so.
        training: data specs where the pictures of the trainings lie, where they are not where a
            record says.
        trust: the keys that may have signed the bundles.
        landmarker: MediaPipe's ``face_landmarker.task``, to say of how many pictures nothing could
            be said; None looks at none.
        on_bad: "skip" counts pictures that cannot be read as failures to process; "error" refuses
            them.
        model_type: "age", or "classes" where classifiers are asked about labels.
        device: the device for checkpoints; None is the CPU.
        show: a progress bar.

    Returns:
        One `Answers` a checkpoint or file, in the order of the arguments.

    Raises:
        InputError: no model of that type, or outputs that are not numbers.
        DataError: nobody is left to ask about.
        ArtifactError, CheckpointError, BundleCheckFailed: a model that is broken.

    Example:
        ``ask([Path("model/")], "utkface:faces/")[0].over(18.0)``
    """
    for spec in training:  # what a record says may be gone; what somebody says now is meant
        parse_spec(spec)
    subjects = [
        subject for model in models for subject in _subjects(model, trust, device, model_type)
    ]
    learned = _learned(subjects, checkpoints, splits, model_type)
    asked: dict[int, tuple[Dataset, People, Array]] = {}
    for size in dict.fromkeys(subject.image_size for subject in subjects):
        record = next((item.checkpoint.record for item in subjects if item.checkpoint), {})
        dataset = _at(size, data, on_bad, record, show)
        pictures = _training(dataset, learned, training, show)
        people, index_N = people_of(
            dataset,
            [split for split, _ in learned],
            part,
            pictures,
            labelled=model_type == "classes",
        )
        if landmarker is not None:
            people = _checked(people, index_N, dataset, landmarker, show)
        asked[size] = dataset, people, index_N
    total = sum(len(asked[subject.image_size][1]) for subject in subjects)
    with progress(total=total, label="evaluate", show=show) as bar:
        return tuple(
            _asked(subject, *asked[subject.image_size], bar.update) for subject in subjects
        )


def _at(
    size: int, data: str | Dataset, on_bad: OnBad, record: Mapping[str, Any], show: bool
) -> Dataset:
    """The data in pictures of the side that a model reads."""
    if isinstance(data, Dataset) and data.size == size:
        return data
    spec = data if isinstance(data, str) else data.spec
    return load_again(spec, size, record, on_bad=on_bad, show=show)


def _asked(
    subject: _Subject, dataset: Dataset, people: People, index_N: Array, done: Callable[[int], Any]
) -> Answers:
    logits, ages, seconds = [], [], 0.0
    classes = subject.facts.get("classes", ())
    with subject.opened() as infer:
        infer(dataset.pixels(index_N[:1]))  # opens files and warms caches, outside of the clock
        for start in range(0, len(index_N), CHUNK):
            pixels = dataset.pixels(index_N[start : start + CHUNK])
            began = time.perf_counter()
            outputs = infer(pixels)
            seconds += time.perf_counter() - began
            logits.append(np.asarray(outputs["logits" if classes else "age_logits"], np.float64))
            if not classes:
                ages.append(np.asarray(outputs["expected_age"], np.float64).reshape(-1))
            done(len(pixels))
    logits_NG = np.concatenate(logits)
    age_N = np.full(len(index_N), np.nan) if classes else np.concatenate(ages)
    if not (np.isfinite(logits_NG).all() and (classes or np.isfinite(age_N).all())):
        why = "some of its outputs are not numbers"
        raise InputError(
            subject.facts["name"], why, "Check it with `unplug parity`, or export in fp32"
        )
    return Answers(
        **subject.facts,
        logits_NG=logits_NG,
        expected_age_N=age_N,
        seconds=seconds / len(index_N),
        people=people,
    )


def _checked(
    people: People, index_N: Array, dataset: Dataset, landmarker: Path, show: bool
) -> People:
    """The people with what the quality check finds wrong with their pictures, as the files show
    them.
    """
    paths = [dataset.samples[index].payload for index in index_N]
    if not all(isinstance(path, Path) for path in paths):
        # scaled pictures say nothing of the size of a face
        return replace(people, faults="its pictures are no files of their own")
    return replace(people, faults=face_faults(paths, landmarker, dataset.size, show=show))


def _training(
    dataset: Dataset, learned: Sequence[tuple[Split, str | None]], given: Sequence[str], show: bool
) -> Training:
    """The data of trainings on other data, by digest: where somebody says, else where records do."""
    data: dict[str, Dataset | str] = {}
    for split, spec in learned:
        if split.data_digest != dataset.digest and not isinstance(
            data.get(split.data_digest), Dataset
        ):
            specs = [*given, *([] if spec is None else [spec])]
            data[split.data_digest] = training_data(split, specs, dataset.size, show=show)
    return data


def _learned(
    subjects: Sequence[_Subject],
    checkpoints: Sequence[Path],
    files: Sequence[Path],
    model_type: str,
) -> list[tuple[Split, str | None]]:
    """What is known of the trainings of all models, each once, and where its data lay; every file
    belongs to a checkpoint.
    """
    given = [load_checkpoint(path, expect=model_type) for path in checkpoints]
    known = {one.sha256: one for model in given for one in (model, *members_of(model).values())}
    known |= {model.sha256: model for item in subjects if (model := item.checkpoint) is not None}
    for subject in subjects if given else ():
        if subject.facts["checkpoint_sha256"] not in known:
            why = "it was not exported from any of the checkpoints given"
            raise InputError(
                subject.facts["name"], why, "Give the `checkpoint` that it was exported from"
            )
    owners = {name: model for name, model in known.items() if "split" in model.record}
    if not files and any(subject.facts["checkpoint_sha256"] not in owners for subject in subjects):
        # of one model nobody knows what it saw, so of no picture that all of them did not
        return []
    splits: list[tuple[Split, str | None]] = [(load_split(path), None) for path in files]
    return splits + [
        (Split.from_dict(model.record["split"], f"{model.path}/unplug.json"), _spec(model))
        for model in owners.values()
    ]


def _spec(model: Checkpoint) -> str | None:
    data = model.record.get("data")
    spec = data.get("spec") if isinstance(data, dict) else None
    return spec if isinstance(spec, str) else None


def _subjects(
    model: Path | Checkpoint, trust: Trust | None, device: torch.device | None, model_type: str
) -> Iterator[_Subject]:
    if isinstance(model, Checkpoint):
        yield _of_checkpoint(model, device)
    elif (model / "config.json").is_file():
        yield _of_checkpoint(load_checkpoint(model, expect=model_type), device)
    else:
        for path in artifact_paths([model], trust, members=True):
            yield _of_file(load_artifact(path), model, model_type)


def _of_checkpoint(found: Checkpoint, device: torch.device | None) -> _Subject:
    path, network = found.path, found.model

    @contextmanager
    def opened() -> Iterator[Infer]:
        import torch

        where = torch.device("cpu") if device is None else device
        model, tensor = network.to(where), network.iospec.inputs[0]

        def infer(pixels_NHWC: Array) -> Mapping[str, Array]:
            with torch.no_grad():
                outputs = model(torch.from_numpy(scaled(pixels_NHWC, tensor)).to(where))
            return {name: value.double().cpu().numpy() for name, value in outputs.items()}

        yield infer

    facts = {
        "name": path.name or str(path),
        "sha256": found.sha256,
        "checkpoint_sha256": found.sha256,
        "target": None,
        "precision": None,
        "runtime": "torch",
        "role": found.record.get("role"),
        "bytes": None,
        "parameters": sum(item.numel() for item in network.parameters()),
        "edges": tuple(getattr(network, "age_edges", ())),
        "classes": tuple(getattr(network, "classes", ())),
    }
    return _Subject(facts=facts, image_size=network.image_size, opened=opened, checkpoint=found)


def name_in(path: Path, given: Path) -> str:
    """The name of a file that was given, or lies in the bundle that was given; that of a member
    of a family has the member's in it.

    Example:
        >>> name_in(Path("b/artifacts/age.fp32.onnx"), Path("b"))
        'b/age.fp32.onnx'
        >>> name_in(file := Path("b/members/small/age.fp32.onnx"), file)
        'members/small/age.fp32.onnx'
    """
    own = path.parts[-3:] if path.parent.parent.name == "members" else path.parts[-1:]
    return "/".join(own if path == given else (given.name, *own))


def _of_file(artifact: Artifact, given: Path, model_type: str) -> _Subject:
    card = artifact.card
    names = {tensor.name for tensor in card.iospec.outputs}
    first = card.iospec.images_in("NCHW").inputs[0]
    if model_type == "classes":
        if "classes" not in card.config or "logits" not in names:
            why = f"it is a {card.model_type} model, which says no label"
            raise InputError(str(artifact.path), why, "Give an exported classifier")
    elif "age_edges" not in card.config or not {"age_logits", "expected_age"} <= names:
        why = f"it is a {card.model_type} model, which says no age"
        raise InputError(str(artifact.path), why, "Give an exported age predictor")

    @contextmanager
    def opened() -> Iterator[Infer]:
        with ExitStack() as stack:
            session = stack.enter_context(Session(artifact))
            yield lambda pixels_NHWC: session.run_channels_first(
                {first.name: scaled(pixels_NHWC, first)}
            )

    facts = {
        "name": name_in(artifact.path, given),
        "sha256": card.sha256,
        "checkpoint_sha256": card.checkpoint_sha256,
        "target": card.target,
        "precision": card.precision,
        "runtime": Session(artifact).runtime.name,
        "role": None,
        "bytes": card.bytes,
        "parameters": card.parameters,
        "edges": tuple(float(edge) for edge in card.config.get("age_edges", ())),
        "classes": tuple(card.config.get("classes", ())),
    }
    return _Subject(facts=facts, image_size=first.height, opened=opened)
