"""What is asked of a network of others before it is a trunk: where are its features, and are they a
vector of numbers a picture, whatever else is in the batch?

Shapes: B batch, F features, K answers, C = F + 2 K numbers in all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from unplug.core import InputError, Job, Reply
from unplug.plugins import (
    INPUT,
    MAX_CHANNELS,
    ONNX,
    Adopted,
    AdoptedTrunk,
    AgePredictor,
    OnnxGraph,
    PictureModel,
    Tap,
    load_checkpoint,
    read_at,
    tried,
    vectors,
)

from .first_check import ALIKE, CPU, Asked, built, in_child, load_inner
from .onnx_cut import check_file, cut, unknown

PROBE = 991
"""A number of answers that no layer of a network has by chance."""


@dataclass(frozen=True, kw_only=True)
class TrunkOrder:
    """A trunk as somebody asks for it.

    Args:
        adopted: how the network is built; of an ONNX file ``onnx:graph``.
        image_size: side of the pictures in pixels.
        layer: see `Tap`; empty takes what the network answers, of timm its pooled features.
        answer: whether the network's own answer is read too.
        weights: safetensors, or a checkpoint of this network that was made here; of an ONNX file
            the file; None takes what the factory returns.
    """

    adopted: Adopted
    image_size: int
    layer: str = ""
    answer: bool = False
    weights: Path | None = None


def check_trunk(order: TrunkOrder) -> AgePredictor:
    """Builds and checks a trunk in a process of its own, then builds it here; its code may run here
    from then on.

    Returns:
        A predictor around the trunk, whose head means nothing yet.

    Raises:
        InputError: no such layer, no vector or too long a one, or answers that depend on the batch.
        CheckpointError: the weights are a pickle, or not this network's.
        ConversionError: it took more memory or time than it may, or ended its process.
    """
    if order.adopted.package == ONNX:
        assert order.weights is not None
        check_file(order.weights)
    values = {
        "adopted": order.adopted.to_dict(),
        "image_size": order.image_size,
        "layer": order.layer,
        "answer": order.answer,
        "weights": None if order.weights is None else str(order.weights.absolute()),
    }
    reply = in_child(f"{__name__}:check_there", order.adopted, values, order.weights)
    model = _built(Adopted.from_dict(reply.values["adopted"]), order)
    inner = cast(AdoptedTrunk, model.network).inner
    if isinstance(inner, OnnxGraph):
        inner.graph.copy_(torch.from_numpy(np.array(reply.arrays["graph"])))
    elif order.weights is not None:
        _fill(inner, order)
    return model.eval()


def check_there(job: Job) -> Reply:
    """The child's side of `check_trunk`."""
    values = job.values
    adopted = Adopted.from_dict(values["adopted"])
    weights = None if values["weights"] is None else Path(values["weights"])
    more = {name: values[name] for name in ("image_size", "layer", "answer")}
    order = TrunkOrder(adopted=adopted, weights=weights, **more)
    with tried(adopted.call):
        model = _found(order)
    inner = cast(AdoptedTrunk, model.network).inner
    arrays = {"graph": inner.graph.numpy()} if isinstance(inner, OnnxGraph) else {}
    assert model.adopted is not None
    return Reply(values={"adopted": model.adopted.to_dict()}, arrays=arrays)


def _built(adopted: Adopted, order: TrunkOrder) -> AgePredictor:
    return cast(AgePredictor, built(adopted, order.image_size, {}))


def _found(order: TrunkOrder) -> AgePredictor:
    if order.adopted.package == ONNX:
        assert order.weights is not None
        graph = cut(order.weights, order.layer, order.image_size, answer=order.answer)
        size = len(graph)
    else:
        graph, size = b"", _answers(order)
    tap = Tap(channels=1, size=size)
    first = _built(replace(order.adopted, tap=tap, contiguous=True), order)
    inner = cast(AdoptedTrunk, first.network).inner
    if isinstance(inner, OnnxGraph):
        inner.graph.copy_(torch.frombuffer(bytearray(graph), dtype=torch.uint8))
    elif order.weights is not None:
        _fill(inner, order)
    tap = _tapped(cast(AdoptedTrunk, first.eval().network), order, size)
    adopted = replace(order.adopted, tap=tap, contiguous=True)
    model = _built(adopted, order)
    trunk = cast(AdoptedTrunk, model.eval().network)
    trunk.inner.load_state_dict(inner.state_dict())
    asked_of(order, trunk, tap.channels).answers_each_picture()
    return model


def asked_of(order: TrunkOrder, network: nn.Module, answers: int) -> Asked:
    """A network of an order, or a part of it, as `check_network` asks one of its own."""
    model = SimpleNamespace(image_size=order.image_size, groups=answers, network=network)
    return Asked(order.adopted, model, CPU)


def _fill(inner: nn.Module, order: TrunkOrder) -> None:
    """Gives a network the weights of the order."""
    assert order.weights is not None
    if not order.weights.is_dir():
        load_inner(inner, order.weights)
        return
    theirs = _adopted_before(order)
    inner.load_state_dict(theirs.network.inner.state_dict())


def _adopted_before(order: TrunkOrder) -> Any:
    """The model of a checkpoint that `adopt` wrote of the same network."""
    assert order.weights is not None
    model = load_checkpoint(order.weights).model
    adopted = model.adopted if isinstance(model, PictureModel) else None
    if adopted is None or adopted.call != order.adopted.call:
        why = f"it is a checkpoint of another network than {order.adopted.call}"
        raise InputError(str(order.weights), why, "Give what `unplug adopt` made of this network")
    return model


def _answers(order: TrunkOrder) -> int:
    """With how many answers the network of a list was trained; 0 without a last layer."""
    adopted, weights = order.adopted, order.weights
    if adopted.is_code:
        return 0
    if weights is None:
        fix = "Give `weights`, or train it first: `unplug adopt` without `--trunk`"
        raise InputError(f"network {adopted.factory}", "nobody has trained it", fix)
    if weights.is_dir():
        return int(_adopted_before(order).groups)
    from safetensors import SafetensorError, safe_open

    with torch.device("meta"):
        shapes = {name: value.shape for name, value in adopted.build(PROBE).state_dict().items()}
    try:
        with safe_open(str(weights), framework="pt") as file:
            for name in {*file.keys()} & {n for n, shape in shapes.items() if PROBE in shape[:1]}:
                return int(file.get_slice(name).get_shape()[0])
    except (SafetensorError, OSError):
        # `load_inner` says what is wrong with it
        return 0
    return 0


@torch.no_grad()
def _tapped(trunk: AdoptedTrunk, order: TrunkOrder, size: int) -> Tap:
    """Where the features are, by what the network says of some pictures."""
    asked = asked_of(order, trunk.network, 0)
    network, what, layer = asked.network, asked.what, order.layer
    inner = network.inner
    if not layer and order.adopted.package == "timm" and size:
        last = cast(Any, inner).get_classifier()
        names = [name for name, module in inner.named_modules() if module is last and name]
        layer = f"{names[0]}:{INPUT}" if names else ""
    name, _, side = layer.partition(":")
    modules = dict(inner.named_modules())
    if not isinstance(inner, OnnxGraph) and (name not in modules or side not in ("", INPUT)):
        raise unknown(what, "layer", layer, (known for known in modules if known))
    image_BCHW = asked.image_BCHW
    seen, says = asked.ran(lambda given: read_at(inner, network.given(given), layer), image_BCHW)
    features_BF = vectors(seen)
    if features_BF is None or len(features_BF) != len(image_BCHW):
        shape = list(seen.shape) if isinstance(seen, Tensor) else type(seen).__name__
        why = f"what {layer or 'it answers'} says of 4 pictures is {shape}, no vector each"
        raise InputError(what, why, "Name in `features` a layer after the pooling")
    width, answers, logits = features_BF.shape[1], 0, True
    if order.answer:
        answers, logits = _own_answer(says, layer or order.layer, size, what)
    if width + 2 * answers > MAX_CHANNELS:
        more = f" and {2 * answers:,} of its answer" if answers else ""
        why = f"it has {width:,} features{more}, and at most {MAX_CHANNELS:,} are summed exactly"
        raise InputError(what, why, "Name a narrower layer" + (", or no `answer`" if more else ""))
    return Tap(layer=layer, channels=width + 2 * answers, answers=answers, logits=logits, size=size)


def _own_answer(says: Any, layer: str, size: int, what: str) -> tuple[int, bool]:
    """K, and whether the answers are logits."""
    whole = isinstance(says, Tensor) and says.ndim == 2 and says.shape[1] > 1
    if not whole or not layer:
        why = "what it answers is the features already"
        if layer:
            why = "it answers no vector of groups or classes"
        raise InputError(what, why, "Leave out `answer`, or name a layer in `features`")
    sums_B = says.sum(dim=1)
    likely = bool(says.min() >= 0.0) and bool(((sums_B - 1.0).abs() < ALIKE).all())
    return says.shape[1], not likely
