"""The journey as functions, one a step: what ``unplug COMMAND`` does, for Python.

Each imports what it needs when it is called, so that timing exported files takes no torch. Devices
are "auto", "cpu" or "cuda"; the same seed gives the same bytes on the same machine. On a terminal
and in a notebook a step draws progress bars; scripts and pipes get none, and ``show=False`` gives
nobody any. Each step sets what torch, NumPy and others compute with, whatever the process had
switched, and puts it back, see `unplug.core.settled`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from unplug.core import InputError, settled, temporary_folder

if TYPE_CHECKING:
    import torch

    from unplug.core import Array
    from unplug.export import Artifact, Explanation, ParityReport
    from unplug.mobile_bench import BenchReport
    from unplug.plugins import Checkpoint
    from unplug.sdk.drawing.device import FoundMark
    from unplug.sdk.drawing.inference import Answer
    from unplug.sdk.evidence.assurance import ClassEvaluation, EvaluationReport
    from unplug.sdk.evidence.auditing import AuditReport
    from unplug.sdk.evidence.concepts import Claim, ErasureAudit
    from unplug.sdk.exporting import Exported, ExportOrder
    from unplug.sdk.forgetting.erasing import Concept
    from unplug.sdk.forgetting.tasks import GroupTask, Need, StoredTask
    from unplug.sdk.generating import Generated, Steerings
    from unplug.sdk.learning.data import Dataset, OnBad, Split
    from unplug.sdk.releasing import Answering, Release, ReleaseConfig, ReleasePlan, Replay
    from unplug.sdk.searching import Front, SearchOrder, TimedOn
    from unplug.sdk.tracing import TracedSearch
    from unplug.trust.bundle import GeneratorManifest, Signing, Trust
    from unplug.trust.ledger import Ledger

Place = str | Path
"""A file or a folder."""
MAX_JUDGED = 24
"""Models in one evaluation: more make no page that anybody reads."""


@settled
def train(
    data: Dataset,
    split: Split,
    *,
    out: Place,
    task: Literal["age", "classes"] = "age",
    forgettable: str | None = None,
    trunk: Checkpoint | Place | None = None,
    trunk_data: Dataset | None = None,
    family: Sequence[Checkpoint | Place] = (),
    design: Mapping[str, Any] | None = None,
    seed: int = 0,
    device: str = "auto",
    restart: bool = False,
    show: bool = True,
    **recipe: Any,
) -> Checkpoint:
    """Trains a face-age predictor, or a classifier, on the retain set of a split; an unfinished run
    at `out` is continued.

    Args:
        data: a data set with ages, or with labels; its side in pixels is that of the model's input.
        split: a split from `make_split`.
        out: checkpoint folder to write.
        task: "age", or "classes" for the labels of the data.
        forgettable: a design, see ``unplug list designs``; None trains an ordinary model.
        trunk: the trunk of a design: a model of the task that never saw personal data, or what
            `adopt_trunk` made; None trains one on `trunk_data`.
        trunk_data: the data that a design's trunk was trained on; None reads the data that the
            trunk's record names.
        family: trunks of one side and one set of data, in the place of `trunk`. The one
            whose head errs least over all is the reference; each other is a member in its size
            with the same head, below ``members``.
        design: settings of the design, fields of `unplug.sdk.forgetting.unlearning.ClosedForm` or
            `Shards`.
        restart: drop an unfinished run instead of continuing it.
        recipe: fields of `unplug.sdk.learning.training.Recipe`, say ``size="nano", epochs=10``.

    Returns:
        The saved checkpoint; ``record["metrics"]`` holds accuracy, and mean absolute error in years
        of ages.

    Raises:
        DataError, InputError, TrainingError, OutputError: see
            `unplug.sdk.forgetting.tasks.train_pictures`.
    """
    from unplug.sdk.forgetting.tasks import train_pictures
    from unplug.sdk.forgetting.unlearning import build_design, check_design
    from unplug.sdk.learning.training import Recipe

    trunks: dict[str, Any] = {"trunk": trunk, "trunk_data": trunk_data, "family": family}
    check_design(forgettable, design, **trunks, edges=recipe.get("edges"))
    kind = _predicts(task)
    chosen = Recipe(**{"image_size": data.size, **kind.defaults} | recipe).halved()
    shared: dict[str, Any] = {
        "seed": seed,
        "device": _device(device),
        "restart": restart,
        "show": show,
    }
    if forgettable is None:
        return train_pictures(kind, data, split, chosen, Path(out), **shared)
    if family:
        shared["family"] = [_checkpoint(item) for item in family]
    return build_design(forgettable, design).train(
        data,
        split,
        chosen,
        Path(out),
        kind=kind,
        trunk=None if trunk is None else _checkpoint(trunk),
        trunk_data=trunk_data,
        **shared,
    )


@settled
def search(
    data: Dataset,
    split: Split,
    *,
    out: Place,
    task: Literal["age", "classes"] = "age",
    order: SearchOrder | None = None,
    on: Sequence[TimedOn] = (),
    on_bad: OnBad = "error",
    seed: int = 0,
    device: str = "auto",
    restart: bool = False,
    show: bool = True,
    say: Callable[[str], None] | None = None,
    **recipe: Any,
) -> list[Front]:
    """Finds the sizes that err least within some milliseconds on a device, and compares them
    with the sizes made by hand and with a random search of equal cost, on people whom it never saw.

    Args:
        data: a data set with ages, or with labels.
        split: a split from `make_split`: its validation people choose, its test people are asked
            once, at the end.
        out: the folder of the front; an unfinished search there is continued.
        task: "age", or "classes".
        order: budgets and effort; None takes `unplug.sdk.searching.SearchOrder()`.
        on: the devices that the milliseconds are of (default: this machine). Of several each has a
            front of its own in ``OUT/NAME``, from one set of trainings.
        on_bad: how the data were loaded.
        restart: drop an unfinished search.
        say: told what is done.
        recipe: fields of `unplug.sdk.learning.training.Recipe` but its size.

    Returns:
        A front a device, as it is in ``front.json``.

    Raises:
        InputError, TrainingError, DataError, OutputError: see `unplug.sdk.searching.search`.
    """
    from unplug.sdk.learning.training import Recipe
    from unplug.sdk.searching import SearchOrder, TimedOn
    from unplug.sdk.searching import search as search_sizes

    chosen = Recipe(**{"image_size": data.size, **_predicts(task).defaults} | recipe)
    return search_sizes(
        task,
        data,
        split,
        Path(out),
        order or SearchOrder(),
        list(on) or [TimedOn()],
        chosen,
        on_bad=on_bad,
        seed=seed,
        device=_device(device),
        restart=restart,
        show=show,
        say=say or _silent,
    )


@settled
def adopt(
    factory: str,
    data: Dataset | str,
    *,
    out: Place,
    task: Literal["age", "classes"] = "age",
    weights: Place | None = None,
    split: Split | None = None,
    edges: Sequence[float] | None = None,
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5),
    std: tuple[float, float, float] = (0.5, 0.5, 0.5),
    arguments: Mapping[str, Any] | None = None,
    on_bad: OnBad = "error",
    seed: int = 0,
    device: str = "auto",
    show: bool = True,
    say: Callable[[str], None] | None = None,
    **recipe: Any,
) -> Checkpoint:
    """Makes a network of your own an age predictor, or a classifier, that every step works on.

    Args:
        factory: ``timm:NAME``, ``torchvision:NAME``, or ``package.module:factory`` or
            ``./FILE.py:factory``: code of yours, which this call allows to run here. The network
            takes pictures (B, 3, H, W) and answers one logit an age group or class.
        data: data with ages or labels, or their spec.
        out: checkpoint folder to write.
        task: "age", or "classes": it answers the labels of the data in alphabetical order.
        weights: safetensors of the trained network; None trains it here.
        split: a split into the people who trained it and others. `weights` need one, or data with
            official parts: nobody but you knows.
        edges: borders of its age groups in years; None takes ours.
        mean, std: it sees (RGB in [0, 1] - mean) / std.
        arguments: the factory's.
        on_bad: the way with pictures of a data spec that cannot be read.
        say: told what is trained.
        recipe: fields of `unplug.sdk.learning.training.Recipe`: how it would be trained again.

    Returns:
        The saved checkpoint.

    Raises:
        InputError, CheckpointError, DataError, OutputError: see
            `unplug.sdk.forgetting.tasks.adopt`.
    """
    from unplug.plugins import ADOPTED, AGE_EDGES, Adopted, is_trusted
    from unplug.sdk.forgetting.tasks import adopt as adopt_weights
    from unplug.sdk.forgetting.tasks import (
        check_and_trust,
        check_network,
        check_new,
        train_pictures,
    )
    from unplug.sdk.learning.data import load_dataset, make_split
    from unplug.sdk.learning.training import Recipe

    place, chosen = Path(out), _device(device)
    kind, aged = _predicts(task), task == "age"
    given: dict[str, Any] = {"image_size": data.size} if not isinstance(data, str) else {}
    if aged:
        given["edges"] = tuple(map(float, AGE_EDGES if edges is None else edges))
    how = Recipe(**{**given, **kind.defaults, **recipe, "size": ADOPTED, "dropout": 0.0})
    if factory.startswith("onnx:"):
        raise InputError(factory, "an ONNX file cannot be trained", "Adopt it with `--trunk`")
    adopted = Adopted(factory=factory, arguments=dict(arguments or {}), mean=mean, std=std)
    file = None if weights is None else Path(weights)
    check_new(place)
    known = adopted.is_code and is_trusted(adopted.call)
    check = check_network if known else check_and_trust
    examine = partial(check, adopted, how.image_size, weights=file, device=chosen)
    if aged:
        examine({"age_edges": list(given["edges"])})
    if isinstance(data, str):
        labelled = None if aged else ()
        data = load_dataset(data, how.image_size, on_bad=on_bad, show=show, labelled=labelled)
    parts = {sample.partition for sample in data.samples}
    if split is None and file is not None and not {"train", "test"} <= parts:
        fix = (
            "`unplug data split SPEC --out FILE` makes one, if it was trained on that; or give "
            "data with a column partition"
        )
        raise InputError(
            "`split`", "it is not known which of these pictures trained the network", fix
        )
    split = split or make_split(data, seed=seed)
    if not aged:
        examine(kind.of_data(how, data, split).answers)
    shared: Any = {"seed": seed, "device": chosen}
    if file is not None:
        return adopt_weights(kind, adopted, file, data, split, how, place, **shared)
    (say or _silent)(
        f"training {factory} at {how.image_size} px on {len(split.retain)} of {len(data)} samples"
    )
    shared |= {"show": show, "adopted": adopted.to_dict()}
    return train_pictures(kind, data, split, how, place, **shared)


@settled
def adopt_trunk(
    factory: str,
    data: Dataset | str,
    *,
    out: Place,
    trained_on: Dataset | str,
    weights: Place | None = None,
    features: str = "",
    answer: bool = False,
    edges: Sequence[float] | None = None,
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5),
    std: tuple[float, float, float] = (0.5, 0.5, 0.5),
    arguments: Mapping[str, Any] | None = None,
    image_size: int = 64,
    on_bad: OnBad = "error",
    seed: int = 0,
    device: str = "auto",
    show: bool = True,
) -> Checkpoint:
    """Makes a network of somebody else the frozen trunk of a design, for ``train(trunk=...)``.

    Args:
        factory: see `adopt`; or ``onnx:FILE``, whose features ONNX Runtime computes.
        data: pictures with ages or labels that nobody may withdraw, or their spec: designs learn
            from them what they may learn without asking anybody.
        out: checkpoint folder to write.
        trained_on: the data that trained the network, their spec, or the words "public weights".
        weights: safetensors, or a checkpoint of this network from `adopt`; a factory of yours may
            return a trained network.
        features: the layer whose output is a vector of features, ``LAYER:input`` for what goes into
            it, of an ONNX file a tensor. Without it they are what the network answers, of timm what
            its classifier sees.
        answer: let the head see the network's own answer too.
        edges: borders of the age groups in years; None takes ours.
        mean, std, arguments, on_bad: see `adopt`.
        image_size: side of the pictures in pixels, where `data` is a spec.

    Returns:
        The saved checkpoint.

    Raises:
        InputError, CheckpointError, ConversionError: see
            `unplug.sdk.forgetting.tasks.check_trunk`.
        DataError, OutputError: see `unplug.sdk.forgetting.unlearning.adopt_trunk`.
    """
    from unplug.plugins import ADOPTED, ONNX, Adopted
    from unplug.sdk.forgetting.tasks import TrunkOrder, check_new, check_trunk
    from unplug.sdk.forgetting.unlearning import adopt_trunk as adopt_features
    from unplug.sdk.learning.data import load_dataset
    from unplug.sdk.learning.training import PUBLIC, Recipe

    side = image_size if isinstance(data, str) else data.size
    borders = None if edges is None else tuple(map(float, edges))
    recipe = Recipe(size=ADOPTED, image_size=side, dropout=0.0, edges=borders)
    check_new(Path(out))
    kind, _, file = factory.partition(":")
    if kind == ONNX:
        factory, weights = f"{ONNX}:graph", file
    adopted = Adopted(factory=factory, arguments=dict(arguments or {}), mean=mean, std=std)
    order = TrunkOrder(
        adopted=adopted,
        image_size=side,
        layer=features,
        answer=answer,
        weights=None if weights is None else Path(weights),
    )
    model = check_trunk(order)
    read = partial(load_dataset, size=side, on_bad=on_bad, show=show)
    if isinstance(data, str):
        data = read(data)
    if isinstance(trained_on, str) and trained_on != PUBLIC:
        trained_on = data if trained_on == data.spec else read(trained_on)
    shared: Any = {"seed": seed, "device": _device(device), "show": show}
    return adopt_features(model, data, recipe, Path(out), trained_on=trained_on, **shared)


@settled
def unlearn(
    original: Checkpoint | Place,
    data: Dataset,
    forget_ids: Sequence[str],
    *,
    out: Place,
    method: str | None = None,
    budget: float | None = None,
    options: Mapping[str, str] | None = None,
    withhold: Sequence[Need] = (),
    retrained: Checkpoint | Place | None = None,
    fleet: Place | None = None,
    base: str | None = None,
    task: StoredTask | None = None,
    seed: int = 0,
    device: str = "auto",
    restart: bool = False,
    show: bool = True,
) -> Checkpoint:
    """Unlearns some samples within a budget, and saves the result.

    Args:
        original: a checkpoint that was trained here, or its folder.
        data: the data that it was trained on.
        forget_ids: training samples or ``subject:NAME``.
        out: checkpoint folder to write.
        method: see ``unplug list methods``; None takes the design's own way, or "msg"; "retrain"
            trains from scratch on the retain set, the oracle of audits.
        budget: fraction of retraining, compute and wall time each; None takes the method's default.
        options: hyperparameters of the method, as text.
        withhold: data that the method must do without, such as "forget data"; a method that needs
            them is refused.
        retrained: the oracle, whose real cost is then shown next to the estimate.
        fleet: folder of references, of ``unplug references``; a method that needs out-of-fold
            answers, as "folds", takes them from it.
        base: the diffusion base of a plugin; None takes the base in its record.
        task: the task of `original`, if it is open already (a base is large); `base` is then not
            read.

    Returns:
        The saved checkpoint; ``record["forget"]`` holds method, settings and cost.

    Raises:
        DataError, BudgetExceeded, InsufficientMemoryError, OutputError: see
            `unplug.sdk.forgetting.unlearning.forget`.
    """
    from unplug.sdk.evidence.fleet import out_of_fold
    from unplug.sdk.forgetting.tasks import task_of
    from unplug.sdk.forgetting.unlearning import check_fleet, forget, learned_by_design
    from unplug.sdk.learning.data import as_trained, resolve_names
    from unplug.sdk.learning.training import pick_device

    check_fleet(fleet, method)
    model, chosen = _checkpoint(original), pick_device(device)
    data = as_trained(data, model.record)
    task = task or task_of(model, device=chosen, base=base)
    ids = resolve_names(forget_ids, data, "forget_ids", learned_by_design(model))
    return forget(
        model,
        data,
        ids,
        method,
        Path(out),
        budget=budget,
        options=options,
        withhold=withhold,
        outside=None if fleet is None else out_of_fold(Path(fleet), model, task, data, ids, seed),
        oracle=None if retrained is None else _checkpoint(retrained),
        task=task,
        seed=seed,
        device=chosen,
        restart=restart,
        show=show,
    )


@settled
def erase(
    base: str,
    concepts: Sequence[Concept],
    *,
    out: Place,
    method: str = "uce",
    options: Mapping[str, str] | None = None,
    retained: Sequence[str] = (),
    prompts: Sequence[str] = (),
    plugins: Sequence[Place] = (),
    plugin_options: Mapping[str, str] | None = None,
    seed: int = 0,
    device: str = "auto",
    half: bool = False,
    check: bool = True,
    restart: bool = False,
    show: bool = True,
) -> dict[str, Any]:
    """Takes concepts out of a text-to-image base; an unfinished run at `out` is continued.

    Args:
        base: small, a diffusers folder, or OWNER/NAME on the hub; an erased base is erased further.
        concepts: the concepts that prompts shall no longer get.
        out: pipeline folder to write; stock diffusers loads it.
        method: a name of ``unplug list erasures``.
        options: settings of the method.
        retained: words that must go on working.
        prompts: further prompts; none: faces for bases of ours, things and scenes for others.
        plugins: conditioning plugins of the base that forget with it, so that control images cannot
            bring the concept back; they are written into `out`.
        plugin_options: their settings, see `unplug.sdk.forgetting.erasing.PluginForgetting`.
        half: store the weights in float16.
        check: first draw pictures and see whether the words control what is drawn at all.
        restart: drop an unfinished run.

    Returns:
        What ``erasure.json`` in `out` says.

    Raises:
        CheckpointError, InputError, TrainingError, OutputError: see
            `unplug.sdk.forgetting.erasing.erase`.
    """
    from unplug.sdk.evidence.concepts import check_words
    from unplug.sdk.forgetting.erasing import erase as run

    def asked(original: Any, name: str) -> None:
        if check:
            check_words(original, name, concepts, seed=seed, device=_device(device), show=show)

    return run(
        base,
        concepts,
        Path(out),
        method=method,
        options=options,
        retained=retained,
        prompts=prompts,
        plugins=list(map(str, plugins)),
        plugin_options=plugin_options,
        seed=seed,
        device=_device(device),
        half=half,
        check=asked,
        restart=restart,
        show=show,
    )


@settled
def audit(
    models: Sequence[Checkpoint | Artifact | Place],
    data: Dataset | str,
    forget_ids: Sequence[str] | Path,
    *,
    on_bad: OnBad = "error",
    original: Checkpoint | Place | None = None,
    retrained: Checkpoint | Place | None = None,
    references: Sequence[Checkpoint | Place] = (),
    train_references: int = 0,
    fleet: Place | None = None,
    attacks: Sequence[str] | None = None,
    original_artifacts: Sequence[Artifact | Place] = (),
    retrained_artifacts: Sequence[Artifact | Place] = (),
    rounding: bool = True,
    others: str | None = None,
    relearn: bool = False,
    base: str | None = None,
    work: Place | None = None,
    seed: int = 0,
    device: str = "auto",
    show: bool = True,
    say: Callable[[str], None] | None = None,
) -> AuditReport:
    """Attacks models and measures what they still remember of a forget set, compared with the
    original and the retrained model.

    Args:
        models: checkpoints, exported files or bundles; of a family every member is audited,
            and compared with its own original and its own retrained model.
        data: the data that the original was trained on, or its data spec.
        forget_ids: training samples or ``subject:NAME``, or the path of a file of them.
        on_bad: the way with pictures of a data spec that cannot be read: "skip" goes on without
            them.
        original: the model before forgetting; None takes the one in the record of the unlearned
            model.
        retrained: the oracle.
        references: models for RMIA and LiRA that were retrained with other seeds.
        train_references: the number of references to train here, into `work`; each costs a
            retraining.
        fleet: folder of references, of ``unplug references``: each person is ranked among models
            that never saw her.
        attacks: names; None takes all that can run.
        original_artifacts, retrained_artifacts: exports of the original and of the oracle in the
            form of files among `models`; those that are missing are made.
        rounding: measure what export did to the edit, which exports the original alike.
        others: data spec of other pictures of the same people, which no model saw.
        relearn: measure how soon each model learns the forget set again.
        base: the diffusion base of a plugin.
        work: folder of the reference models; None takes a temporary one.
        say: called with a line for each long step.

    Raises:
        InputError, DataError, CheckpointError, ArtifactError: models that do not belong to this
            request, or are broken.
    """
    from unplug.plugins import MEMBERS
    from unplug.sdk.evidence.auditing import (
        audit_family,
        counterparts,
        each_member,
        given_for,
        load_audited,
        train_more_references,
    )

    say = say or _silent
    with temporary_folder("unplug-audit-") as folder:
        audited = load_audited(
            _paths(models),
            data,
            forget_ids,
            on_bad=on_bad,
            original=None if original is None else _path(original),
            retrained=None if retrained is None else _path(retrained),
            references=_paths(references),
            fleet=None if fleet is None else Path(fleet),
            attacks=attacks,
            others=others,
            base=base,
            device=_device(device),
            show=show,
        )
        family = each_member(audited)
        before = given_for(family, _paths(original_artifacts), "original")
        oracles = given_for(family, _paths(retrained_artifacts), "retrained")
        compared = []
        for one, ours, theirs in zip(family, before, oracles, strict=True):
            place = folder if one.member is None else folder / MEMBERS / one.member
            exports, unable = counterparts(one, ours, theirs, place, say, rounding=rounding)
            compared.append((replace(one, skipped=one.skipped | unable), exports))
        trained = train_more_references(
            audited, train_references, Path(work or folder), seed, say, show
        )
        return audit_family(
            compared,
            [*audited.references, *trained],
            attacks=attacks,
            relearn=relearn,
            seed=seed,
            say=say,
            show=show,
        )


@settled
def audit_erasure(
    erased: Place,
    *,
    work: Place,
    oracle: Place | None = None,
    seed: int = 0,
    device: str = "auto",
    show: bool = True,
    say: Callable[[str], None] | None = None,
    **order: Any,
) -> ErasureAudit:
    """Measures how often an erased concept comes back, by what an attacker holds.

    Args:
        erased: folder that `erase` wrote.
        work: folder for finished rows: the same call goes on from them.
        oracle: a base that never saw the concept; without it the original's pictures of prompts
            that do not say it are the reference.
        say: called with a line for each row.
        order: fields of `unplug.sdk.evidence.concepts.AuditOrder`, say ``pictures=200``.

    Raises:
        CheckpointError, InputError: see `unplug.sdk.evidence.concepts.audit_erasure`.
    """
    from unplug.sdk.evidence.concepts import AuditOrder
    from unplug.sdk.evidence.concepts import audit_erasure as run

    return run(
        str(erased),
        AuditOrder(**order),
        oracle=None if oracle is None else str(oracle),
        seed=seed,
        device=_device(device),
        work=Path(work),
        show=show,
        say=say or _silent,
    )


@settled
def export(
    checkpoints: Checkpoint | Place | Sequence[Checkpoint | Place],
    *,
    out: Place,
    show: bool = True,
    say: Callable[[str], None] | None = None,
    **order: Any,
) -> Exported:
    """Converts checkpoints to every target in every precision; a whole base with all its parts, the
    plugins named with it, and ``pipeline.json``.

    Args:
        checkpoints: one or several, their folders, or names of what ships; or a base and plugins
            for it.
        out: folder for the files, each with its card; of several checkpoints one in it for each.
        say: called with warnings, and where samples come from.
        order: fields of `unplug.sdk.exporting.ExportOrder`, say ``to=["onnx"],
            precision=["fp32"], check=16``.

    Returns:
        The ``files``, and by model what was found of them.

    Raises:
        InputError, MissingExtraError, ConversionError, OutputError: see
            `unplug.export.export_checkpoint`.
    """
    from unplug.sdk.drawing.diffusion import shipped_folder
    from unplug.sdk.exporting import ExportOrder, export_models

    if isinstance(checkpoints, str) or not isinstance(checkpoints, Sequence):
        checkpoints = [checkpoints]
    return export_models(
        [shipped_folder(item) if isinstance(item, str) else _path(item) for item in checkpoints],
        ExportOrder(out=Path(out), **order),
        show=show,
        say=say or _silent,
    )


@settled
def evaluate(
    models: Sequence[Checkpoint | Artifact | Place],
    data: Dataset | str,
    *,
    protocol: str = "fate-aev",
    on_bad: OnBad = "error",
    part: Literal["test", "validation"] = "test",
    checkpoints: Sequence[Checkpoint | Place] = (),
    splits: Sequence[Place] = (),
    training: Sequence[str] = (),
    limit: float = 0.01,
    challenges: Sequence[float] = (),
    landmarker: Place | None = None,
    trust: Trust | None = None,
    seed: int = 0,
    device: str = "auto",
    show: bool = True,
) -> EvaluationReport | ClassEvaluation:
    """Judges age models at age limits, or classifiers by the labels of the data, on people whom
    none of them learned from as far as splits tell.

    Args:
        models: checkpoints, exported files or bundles; classifiers if the first is one.
        data: data with ages in years, minors and adults, or with labels; or their data spec.
        protocol: see ``unplug list age-protocols``.
        on_bad: the way with pictures of a data spec that cannot be read: "skip" counts them as
            failures to process.
        part: the part of the training's split, if these are its data.
        checkpoints, splits: records that say whom exported files learned from.
        training: data specs of the trainings, where their pictures are not where the records say.
        limit: the claims' limit on false positives over minors.
        challenges: T in years of Challenge-T; none takes the protocol's.
        landmarker: MediaPipe's ``face_landmarker.task``, to say of how many pictures nothing could
            be said; None looks at none, nor does a classifier.
        trust: the keys that may have signed the bundles.
        device: the device of checkpoints; exported files run on the CPU.

    Raises:
        DataError: data that the numbers cannot be had of.
        InputError, CheckpointError, ArtifactError: see `unplug.sdk.evidence.assurance.ask`.
    """
    from unplug.export import load_artifact
    from unplug.plugins import read_config
    from unplug.sdk.evidence.assurance import (
        PROTOCOLS,
        Asking,
        ask,
        judge,
        judge_classes,
        people_needed,
    )
    from unplug.trust.bundle import artifact_paths

    paths, chosen = _paths(models), PROTOCOLS.get(protocol)
    people_needed(limit)  # refuses one that means nothing before anything runs
    if not 0 < len(paths) <= MAX_JUDGED:
        raise InputError(f"{len(paths)} models", "out of range", f"Give 1 to {MAX_JUDGED}")
    on_torch = any((path / "config.json").is_file() for path in paths)
    if (paths[0] / "config.json").is_file():
        first, _ = read_config(paths[0])
    else:
        first = load_artifact(artifact_paths(paths[:1], trust)[0]).card.model_type
    classes = first == "classes"
    if classes and challenges:
        raise InputError("`challenge`", "it is about ages", "Leave it out of classifiers")
    answers = ask(
        paths,
        data,
        part=part,
        checkpoints=_paths(checkpoints),
        splits=[Path(split) for split in splits],
        training=training,
        trust=trust,
        landmarker=None if landmarker is None or classes else Path(landmarker),
        on_bad=on_bad,
        model_type="classes" if classes else "age",
        device=_device(device) if on_torch else None,
        show=show,
    )
    if classes:
        return judge_classes(answers, seed)
    return judge(answers, chosen, Asking(limit=limit, challenges=tuple(challenges), seed=seed))


@settled
def check(
    files: Sequence[Artifact | Place],
    checkpoint: Checkpoint | Place,
    *,
    runtime: str | None = None,
    coreml_host: str | None = None,
    show: bool = True,
    say: Callable[[str], None] | None = None,
    **on: Any,
) -> ParityReport:
    """Compares exported files with their checkpoint, per named output, on synthetic faces (a
    plugin: their edges).

    Args:
        files: exported files of one model; a folder stands for all in it.
        checkpoint: the checkpoint that they were made from.
        runtime: the runtime for the files; None takes that of each one's target.
        coreml_host: a Mac, ``user@mac``, where Core ML itself runs them.
        say: told where the samples come from.
        on: fields of `unplug.sdk.exporting.ParityOrder`, say ``samples=8``, or ``data`` of the
            training.

    Raises:
        InputError, ArtifactError, CheckpointError: see `unplug.export.measure_parity`.
    """
    from unplug.sdk.exporting import ParityOrder, compare_files

    return compare_files(
        _artifacts(files),
        _path(checkpoint),
        ParityOrder(**on),
        runtime=runtime,
        coreml_host=coreml_host,
        show=show,
        say=say or _silent,
    )


@settled
def explain(
    files: Sequence[Artifact | Place],
    checkpoint: Checkpoint | Place,
    *,
    layers: Place,
    show: bool = True,
    **on: Any,
) -> list[Explanation]:
    """Walks the layers of exported files and of their checkpoint, and names the first one out of
    tolerance.

    Args:
        files, checkpoint, on: see `check`; the first four samples are taken.
        layers: folder for a picture and a JSON of each file's layers.
    """
    from unplug.sdk.exporting import ParityOrder, explain_files

    return explain_files(
        _artifacts(files), _path(checkpoint), ParityOrder(**on), Path(layers), show=show
    )


@settled
def bench(
    files: Sequence[Artifact | Place],
    *,
    on: str | Sequence[str] = "host",
    delegates: Sequence[str] = (),
    runtime: str | None = None,
    checkpoint: Checkpoint | Place | None = None,
    out: Place | None = None,
    show: bool = True,
    say: Callable[[str], None] | None = None,
    **plan: Any,
) -> BenchReport:
    """Times exported files side by side: cold starts in random order, parity on every run.

    Args:
        files: exported files; a checkpoint's folder, or the name of what ships, is timed with
            PyTorch itself.
        on: devices, see ``unplug list devices``.
        delegates: the runtime's delegates; a row for each.
        runtime: the runtime for the files; None takes that of each one's target.
        checkpoint: the checkpoint to compare every run's outputs with; None takes the file's own
            untimed run.
        out: report to write; the same call goes on where an earlier one was cut off.
        say: called with a line where a device is waited for, or something is missing.
        plan: fields of `unplug.mobile_bench.Plan`, say ``repeats=3, threads=4``.

    Raises:
        InputError, DeviceError, ArtifactError: see `unplug.mobile_bench.bench_artifacts`.
    """
    from unplug.core import follow
    from unplug.mobile_bench import Plan, bench_artifacts

    asked = [name for name in ("iterations", "repeats") if name in plan]
    if asked and plan.get("sustain_s") is not None:
        why = "a sustained run is one cold start of `sustain_s` seconds"
        raise InputError(f"`{asked[0]}`", why, "Leave it out")
    timed = Plan(**plan)
    reference = None if checkpoint is None else _path(checkpoint)
    loaded = [_timed(file) for file in files]
    journal, say = None if out is None else Path(out), say or _silent
    with follow("bench", show=show) as progress:
        report = bench_artifacts(
            loaded,
            on=on,
            plan=timed,
            runtime=runtime,
            delegates=delegates,
            checkpoint=reference,
            journal=journal,
            progress=progress,
            say=say,
        )
    if journal is not None:
        _keep(report, journal, [on] if isinstance(on, str) else on, say)
    return report


def _keep(
    report: BenchReport, out: Path, places: Sequence[str], say: Callable[[str], None]
) -> None:
    """Writes a report; what was measured towards it stays where something failed."""
    from unplug.mobile_bench import journals

    report.save(out)
    for journal in journals(out, places):
        if not any(row.status == "failed" for row in report.rows):
            journal.unlink(missing_ok=True)
        elif journal.is_file():
            say(f"{journal} keeps what was measured: the same command goes on with what is missing")


def _timed(file: Artifact | Place) -> Artifact:
    if not isinstance(file, str | Path):
        return file
    from unplug.export import checkpoint_artifact, load_artifact
    from unplug.sdk.drawing.diffusion import shipped_folder

    folder = shipped_folder(str(file))
    return (
        checkpoint_artifact(folder) if (folder / "config.json").is_file() else load_artifact(file)
    )


@settled
def release(
    original: Checkpoint | Place,
    data: Dataset,
    forget_ids: Sequence[str],
    *,
    out: Place,
    retrained: Checkpoint | Place | None = None,
    base: str | None = None,
    task: StoredTask | None = None,
    gates: Mapping[str, Any] | None = None,
    signing: Signing | None = None,
    answering: Answering | None = None,
    ledger: Ledger | None = None,
    device: str = "auto",
    restart: bool = False,
    show: bool = True,
    say: Callable[[str], None] | None = None,
    **config: Any,
) -> Release:
    """Forgets, audits, exports, checks, times and writes a bundle, or refuses where a gate does not
    hold.

    Args:
        original: a checkpoint that was trained here, or its folder.
        data: the data that it was trained on.
        forget_ids: training samples or ``subject:NAME``.
        out: bundle folder; intermediate results stay in ``.NAME.release`` next to it and are used
            again.
        retrained: the oracle; None trains it.
        base: the diffusion base of a plugin.
        task: the task of `original`, if it was opened already; `base` is not read then.
        gates: thresholds, fields of `unplug.sdk.releasing.Gates`; the budget is that of `config`.
        signing: the signer and the release's place: `unplug.trust.bundle.Signing`.
        answering: the requests that it answers, and their ledger: `unplug.sdk.releasing.Answering`.
        ledger: the ledger whose answered requests must stay forgotten; None takes that of
            `answering`, else the one of this machine, where there is one.
        restart: drop unfinished trainings of an earlier run instead of continuing them.
        say: called with one line a stage.
        config: fields of `unplug.sdk.releasing.ReleaseConfig`, say ``method="msg", budget=0.05,
            targets=("litert",)``.

    Raises:
        GateFailed: says which gate, and by how much; no bundle is written.
        InputError: a request that cannot be answered, see `unplug.sdk.releasing.begin`.
    """
    from unplug.sdk.releasing import release as walk

    places = _release_places(original, data, forget_ids, out, gates, config)
    return walk(
        *places,
        oracle=None if retrained is None else _checkpoint(retrained, like=places[0]),
        base=base,
        task=task,
        device=_device(device),
        say=say or _silent,
        show=show,
        restart=restart,
        signing=signing,
        answering=answering,
        ledger=_ledger(ledger, answering),
    )


@settled
def release_erased(
    base: Place,
    audit: Place,
    *,
    out: Place,
    claim: Claim | None = None,
    signing: Signing | None = None,
    show: bool = True,
    say: Callable[[str], None] | None = None,
    **order: Any,
) -> GeneratorManifest:
    """Exports an erased base with its plugins, its audit and the record of its erasure as one
    bundle, or refuses where a gate does not hold.

    Args:
        base: folder that `erase` wrote.
        audit: report of `audit_erasure`.
        out: bundle folder.
        claim: the claim: None is "control images" where plugins ship, else "prompts".
        signing: the signer and the release's place.
        say: called with a line for each gate.
        order: fields of `unplug.sdk.exporting.ExportOrder`, say ``to=["onnx"]``.

    Raises:
        GateFailed: says which gates, and by how much; no bundle is written.
        InputError, ReportError: see `unplug.sdk.releasing.release_erased`.
    """
    from unplug.sdk.releasing import release_erased as run

    chosen, made = _order_of_base(out, signing, order, show=show, say=say)
    return run(
        Path(base),
        Path(audit),
        Path(out),
        export=made,
        precisions=chosen.precision,
        packs=chosen.packs,
        claim=claim,
        signing=signing,
        say=say or _silent,
    )


@settled
def release_packs(
    base: Place,
    *,
    out: Place,
    signing: Signing | None = None,
    show: bool = True,
    say: Callable[[str], None] | None = None,
    **order: Any,
) -> GeneratorManifest:
    """Exports a base with its packs as one bundle; of packs that left since the bundle that it
    supersedes it says so, and refuses where anything else differs.

    Args:
        base: a diffusers folder from which nothing was erased, or exported files.
        out: bundle folder.
        signing: the signer, and the release's place and predecessor.
        say: called with a line for each gate.
        order: fields of `unplug.sdk.exporting.ExportOrder`, say ``packs=["patch"]``.

    Raises:
        GateFailed, CheckFailed: what left is still there, or something else is not equal.
        InputError: see `unplug.sdk.releasing.release_packs`.
    """
    from unplug.sdk.releasing import release_packs as run

    chosen, made = _order_of_base(out, signing, order, show=show, say=say)
    how: Any = {"signing": signing, "say": say or _silent}
    return run(Path(base), chosen.packs, Path(out), export=made, **how)


def _order_of_base(
    out: Place,
    signing: Signing | None,
    order: Mapping[str, Any],
    *,
    show: bool,
    say: Callable[[str], None] | None,
) -> tuple[ExportOrder, Callable[[Sequence[Path], Path], Sequence[Artifact]]]:
    """How a base is exported for a release, and what does it. The UNet keeps the input that packs
    of a bundle before have used, for else it would be another file.
    """
    from unplug.sdk.exporting import ExportOrder, export_models
    from unplug.trust.bundle import read_generator

    earlier = () if signing is None else signing.earlier
    slots = any(read_generator(path).packs for path in earlier)
    chosen = ExportOrder(**{"lora_slots": slots, **order, "out": Path(out)})

    def made(checkpoints: Sequence[Path], folder: Path) -> Sequence[Artifact]:
        how = replace(chosen, out=folder)
        return export_models(checkpoints, how, show=show, say=say or _silent).files

    return chosen, made


@settled
def plan_release(
    original: Checkpoint | Place,
    data: Dataset,
    forget_ids: Sequence[str],
    *,
    out: Place,
    retrained: Checkpoint | Place | None = None,
    base: str | None = None,
    task: StoredTask | None = None,
    gates: Mapping[str, Any] | None = None,
    signing: Signing | None = None,
    answering: Answering | None = None,
    ledger: Ledger | None = None,
    device: str = "auto",
    show: bool = True,
    say: Callable[[str], None] | None = None,
    **config: Any,
) -> ReleasePlan:
    """What `release` would do with the same arguments, and how long that takes as far as anybody
    knows; computes nothing.

    Raises:
        InputError, DataError, OutputError: all that `release` refuses before it begins.
    """
    from unplug.sdk.releasing import begin, prepare
    from unplug.sdk.releasing import plan_release as plan

    places = _release_places(original, data, forget_ids, out, gates, config)
    material = prepare(
        *places,
        oracle=None if retrained is None else _checkpoint(retrained, like=places[0]),
        base=base,
        task=task,
        device=_device(device),
        say=say or _silent,
        show=show,
        signing=signing,
        ledger=_ledger(ledger, answering),
    )
    answer: tuple[str, ...] | None = None
    if answering is not None:
        answer = begin(answering, material, Path(out), signing, write=False).answer.requests
    return plan(material, requests=answer, signed=signing is not None)


def trace(
    data: str,
    person: str,
    folders: Sequence[Place],
    *,
    deep: Sequence[Place] = (),
    purge: bool = False,
    ledger: Ledger | None = None,
    request: str | None = None,
    out: Place | None = None,
    show: bool = True,
) -> TracedSearch:
    """Finds what still holds a person, was trained on her, was made from that, or names her.

    Args:
        data: spec of the data that hold, or held, her pictures.
        person: a sample id or ``subject:NAME``.
        folders: searched with all below them for records of unplug's.
        deep: searched file by file, by contents.
        purge: delete what the cache keeps of her.
        ledger, request: the ledger and the request that record it.
        out: file for the result.

    Raises:
        DataError, InputError: see `unplug.sdk.tracing.search_for`.
    """
    from unplug.sdk.tracing import search_for

    return search_for(
        data,
        person,
        [Path(folder) for folder in folders],
        deep=[Path(folder) for folder in deep],
        purge=purge,
        ledger=ledger,
        request=request,
        out=None if out is None else Path(out),
        show=show,
    )


@settled
def replay(
    bundle: Place,
    state: Checkpoint | Place,
    *,
    data: str | None = None,
    trust: Trust | None = None,
    device: str = "auto",
    show: bool = True,
) -> Replay:
    """Computes a released head again from its state, bit for bit; with data the state as well.

    Args:
        bundle, trust: see `unplug.sdk.releasing.replay_release`.
        state: the released closed-form checkpoint, with its ``design.safetensors``.
        data: spec of the training's data; None compares no pictures.

    Raises:
        InputError, CheckFailed: see `unplug.sdk.releasing.replay_release`.
        DataError: see `unplug.sdk.learning.data.load_dataset`.
    """
    from unplug.sdk.learning.data import load_again
    from unplug.sdk.releasing import replay_release

    model, dataset = _checkpoint(state), None
    if data is not None:
        dataset = load_again(data, model.model.image_size, model.record, show=show)
    chosen = _device(device)
    return replay_release(
        Path(bundle), model, dataset=dataset, trust=trust, device=chosen, show=show
    )


def _release_places(
    original: Checkpoint | Place,
    data: Dataset,
    forget_ids: Sequence[str],
    out: Place,
    gates: Mapping[str, Any] | None,
    config: Mapping[str, Any],
) -> tuple[Checkpoint, Dataset, tuple[str, ...], Path, Path, ReleaseConfig]:
    """The checkpoint, the output and the way of a release."""
    from unplug.sdk.learning.data import as_trained, resolve_names
    from unplug.sdk.releasing import ReleaseConfig, asked_gates

    chosen, place, model = ReleaseConfig(**config), Path(out), _checkpoint(original)
    limits = asked_gates(gates or {}, config)
    data = as_trained(data, model.record)
    return (
        model,
        data,
        resolve_names(forget_ids, data, "forget_ids"),
        place,
        place.parent / f".{place.name}.release",
        replace(chosen, gates=limits),
    )


@settled
def run(
    model: Checkpoint | Artifact | Place,
    inputs: Mapping[str, Array] | Sequence[Place] | Place | int,
    *,
    box: str | None = None,
    landmarker: Place | None = None,
    margin: float | None = None,
    align: bool = False,
    decision: Place | None = None,
    trust: Trust | None = None,
) -> Answer:
    """Runs a model on pictures or arrays and says what comes out.

    Args:
        model: a checkpoint, an exported file, or a bundle, which is verified first; the first of
            its files whose runtime is installed is taken. Of a family these are the files of the
            best member that takes at most `unplug.sdk.drawing.inference.FRAME_MS`.
        inputs, box, landmarker: see `unplug.sdk.drawing.inference.run`.
        margin: around the found face; None frames it as UTKFace does.
        align: whether `landmarker` puts the eyes where UTKFace has them; a bundle that says where
            needs no `align`.
        decision: the file that ``unplug threshold`` wrote; None takes the decision that a bundle
            carries.
        trust: the keys that may have signed the bundle.

    Returns:
        The outputs, and what they mean where that is known.

    Raises:
        InputError, DataError, ArtifactError, CheckpointError: see
            `unplug.sdk.drawing.inference.run`.
    """
    from unplug.sdk.drawing import inference

    if align and (landmarker is None or box is not None):
        fix = "Give `landmarker` FILE, and no `box`"
        raise InputError("`align`", "it needs eyes to go by", fix)
    path, member, record, framed = inference.open_bundle(_path(model), trust)
    record = record if decision is None else inference.read_decision(Path(decision))
    holds = record is not None and record.fitted_on(inference.model_sha256(path))
    answer = inference.run(
        path,
        inputs,
        box=box,
        landmarker=landmarker,
        frame=inference.Frame() if framed is None and align else framed,
        decision=record.rule if record is not None and holds else None,
        **({} if margin is None else {"margin": margin}),
    )
    notes = answer.notes
    if framed is not None and notes:
        notes = (*notes, "this bundle puts eyes in their place, and nothing found any here")
    if member is not None:
        most = f"the best of its family that takes at most {inference.FRAME_MS:g} ms"
        notes = (*notes, f"the member {member.name} ran, {most}")
    return replace(answer, notes=notes, decision=record, holds=holds)


@settled
def generate(
    prompt: str,
    steerings: Steerings = (),
    *,
    device: str = "auto",
    show: bool = True,
    say: Callable[[str], None] | None = None,
    **order: Any,
) -> Generated:
    """Draws pictures from a prompt, steered by plugins.

    Args:
        prompt: the text to draw.
        steerings: plugins, each with the picture that it follows; or what makes them, told of which
            condition each plugin is.
        device: the device for a base on torch; files run on the CPU.
        say: called with what the base does not read of a text.
        order: fields of `unplug.sdk.generating.DrawOrder`, say ``base="small", count=4``.

    Returns:
        The ``pictures``, and how they were drawn.

    Raises:
        InputError, DataError, CheckpointError: see `unplug.sdk.drawing.diffusion.draw_pictures`,
            and of files `unplug.sdk.drawing.device.draw`.
    """
    from unplug.sdk.generating import DrawOrder, generate_pictures

    return generate_pictures(
        DrawOrder(prompt=prompt, **order),
        steerings,
        device=device,
        show=show,
        say=say or _silent,
    )


@settled
def detect(
    files: Sequence[Path], *, mark: Path | None = None, show: bool = True
) -> tuple[FoundMark, ...]:
    """Says of pictures whether they carry the mark of a decoder, see `find_marks`.

    Args:
        files: pictures.
        mark: the file of the key; None is the public one of the decoder that ships.

    Raises:
        InputError, DataError: a file without a key, or a picture that no mark is read from.
    """
    from unplug.core import follow
    from unplug.sdk.drawing.device import find_marks

    with follow("detect", show=show) as progress:
        return find_marks(files, mark, progress=progress)


def _ledger(given: Ledger | None, answering: Answering | None) -> Ledger | None:
    """The ledger whose answered requests must stay forgotten."""
    from unplug.trust.ledger import find_ledger

    if given is None and answering is not None:
        return answering.ledger
    return find_ledger() if given is None else given


def _checkpoint(model: Checkpoint | Place, like: Checkpoint | None = None) -> Checkpoint:
    from unplug.plugins import load_checkpoint

    expect = None if like is None else like.model_type
    return load_checkpoint(model, expect=expect) if isinstance(model, str | Path) else model


def _predicts(task: str) -> type[GroupTask]:
    """The task of a predictor over pictures; `InputError` where it is none."""
    from unplug.sdk.forgetting.tasks import TASKS, GroupTask

    kind = TASKS.get(task)
    if not issubclass(kind, GroupTask):
        raise InputError(f"task {task!r}", "it is trained otherwise", "Use age or classes")
    return kind


def _device(name: str) -> torch.device:
    from unplug.sdk.learning.training import pick_device

    return pick_device(name)


def _silent(_line: str) -> None:
    return


def _path(model: Checkpoint | Artifact | Place) -> Path:
    return Path(model) if isinstance(model, str | Path) else model.path


def _paths(models: Sequence[Checkpoint | Artifact | Place]) -> list[Path]:
    return [_path(model) for model in models]


def _artifacts(files: Sequence[Artifact | Place]) -> list[Artifact]:
    """Loaded; of a folder, all in it."""
    from unplug.export import artifacts_at, load_artifact

    artifacts: list[Artifact] = []
    for file in files:
        if isinstance(file, str | Path):
            artifacts += map(load_artifact, artifacts_at(Path(file)))
        else:
            artifacts.append(file)
    return artifacts
