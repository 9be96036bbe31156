"""What is asked of a network of others before any data are read: does it answer, learn and forget
as every step needs it?

Each picture has one answer, whatever else is in the batch and however often it is asked; the
answers are logits; and a step of training runs, in channels-last memory or, where the network does
not take that, in contiguous one.

Shapes: B batch, C colours, H = W side in pixels, G age groups.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from unplug.core import (
    CheckpointError,
    Child,
    InputError,
    Job,
    Reply,
    counted,
    explain_memory,
    memory_for,
    out_of_memory,
    seconds_for,
    settled,
)
from unplug.plugins import (
    ADOPTED,
    Adopted,
    AgePredictor,
    Classifier,
    Normalized,
    PictureModel,
    first_answer,
    load_weights,
    search_path,
    tried,
    trust,
)

T = TypeVar("T")

PICTURES = 4
CHECK_SECONDS = 300.0
SIDES = (32, 48, 64, 96, 112, 128, 160, 192, 224)
"""Sides that are tried where a network does not take the one that was said."""
ALIKE = 1e-3
"""A share of the largest answer: float32 sums in another order differ by far less."""
SWOLLEN = 1e3
"""A layer that is so large drives what squashes its answers to the ends of its range."""
CPU = torch.device("cpu")
LOGITS = "Let it return logits, and leave out what it puts them through last"


@dataclass(frozen=True, kw_only=True)
class FirstCheck:
    """A network that passed.

    Args:
        model: the predictor around it; ``model.adopted`` says in which memory it computes.
        notes: notes for its owner, a sentence each.
    """

    model: PictureModel
    notes: tuple[str, ...]


@settled
def check_network(
    adopted: Adopted,
    image_size: int,
    answers: Mapping[str, Any],
    *,
    weights: Path | None = None,
    device: torch.device = CPU,
) -> FirstCheck:
    """Builds a predictor around a network of others, and asks it all that training, forgetting and
    export will ask.

    Args:
        adopted: how the network is built.
        image_size: side of the pictures in pixels.
        answers: the meaning of its answers, ``age_edges`` (G + 1 borders in years) or ``classes`` (G
            names).
        weights: safetensors of the trained network, with its own names of tensors; None leaves the
            weights that it begins with.
        device: the device to test on.

    Raises:
        InputError: it cannot be built, answers otherwise, answers a picture by what stands next to
            it, or does not learn; says which layer is suspect.
        CheckpointError: the weights are a pickle, or not this network's.
    """
    model = built(adopted, image_size, answers)
    if weights is not None:
        # asked first: of a network that answers in another form no weights fit
        Asked(adopted, model, CPU).answers()
        assert model.network is not None
        load_inner(model.network.inner, weights)
    asked = Asked(adopted, model, device)
    asked.answers_each_picture()
    asked.answers_logits()
    notes = [*asked.unusual(), *asked.learns()]
    if why := asked.channels_last():
        notes.append(
            f"it computes in contiguous memory, for it does not take channels-last ({why})"
        )
        state = model.state_dict()
        model = built(replace(adopted, contiguous=True), image_size, answers)
        model.load_state_dict(state)
    return FirstCheck(model=model, notes=tuple(notes))


def load_inner(network: nn.Module, weights: Path) -> None:
    """Fills a network of others from safetensors with its own names; `CheckpointError` says how to
    save them.
    """
    try:
        load_weights(network, weights)
    except CheckpointError as error:
        fix = (
            "Save the state dict of just this network: "
            "safetensors.torch.save_file(network.state_dict(), FILE)"
        )
        raise CheckpointError(error.what, error.why, fix) from error


def check_and_trust(
    adopted: Adopted,
    image_size: int,
    answers: Mapping[str, Any],
    *,
    weights: Path | None = None,
    device: torch.device = CPU,
) -> None:
    """`check_network` in a process of its own, with a bound on memory and time; code that passed it
    may run here from then on.

    Args:
        adopted, image_size, answers, weights, device: see `check_network`.

    Raises:
        InputError, CheckpointError: see `check_network`; nothing is trusted then.
        ConversionError: it took more memory or time than it may, or ended its process.
        OutputError: the list of what may run here cannot be written.
    """
    values = {
        "adopted": adopted.to_dict(),
        "image_size": image_size,
        "answers": dict(answers),
        "device": str(device),
        "weights": None if weights is None else str(weights.absolute()),
    }
    in_child(f"{__name__}:check_apart", adopted, values, weights)


def in_child(
    function: str, adopted: Adopted, values: Mapping[str, Any], weights: Path | None
) -> Reply:
    """Calls a function that checks a network, in a process of its own; code that passed may run
    here from then on.

    Args:
        function: ``module:function`` of the child.
        adopted, weights: the network, which bound its memory and name it in errors.
        values: the function's.

    Raises:
        InputError, ConversionError, OutputError: see `check_and_trust`.
    """
    memory = memory_for(*() if weights is None or not weights.exists() else (weights,))
    bounds: Any = {"memory": memory, "timeout": seconds_for(0, CHECK_SECONDS)}
    with Child({"PYTHONPATH": os.pathsep.join(search_path())}) as child:
        try:
            reply = child.call(function, dict(values), what=_what(adopted), **bounds)
        except InputError as error:
            if out_of_memory(error.why):
                raise InputError(error.what, error.why, explain_memory(memory)) from error
            raise
    if adopted.is_code:
        trust(adopted.call)
    return reply


def check_apart(job: Job) -> Reply:
    """The child's side of `check_and_trust`."""
    values = job.values
    adopted = Adopted.from_dict(values["adopted"])
    with tried(adopted.call):
        check_network(
            adopted,
            values["image_size"],
            values["answers"],
            device=torch.device(values["device"]),
            weights=None if values["weights"] is None else Path(values["weights"]),
        )
    return Reply(values={})


def built(adopted: Adopted, image_size: int, answers: Mapping[str, Any]) -> PictureModel:
    """A predictor with the weights that its network begins with, which can be built again from what
    a checkpoint holds; over a trunk with one random feature.
    """
    kind = Classifier if "classes" in answers else AgePredictor
    made: dict[str, Any] = {**answers, **({} if adopted.tap is None else {"random_features": 1})}
    model: PictureModel = kind(
        size=ADOPTED, image_size=image_size, network=adopted.to_dict(), **made
    )
    what, named = _what(adopted), list(model.named_parameters())
    if lazy := [name for name, parameter in named if is_lazy(parameter)]:
        why = f"{_inner(lazy[0])} has no size before its first picture"
        raise InputError(what, why, "Give its layers their sizes (Linear for LazyLinear, ...)")
    try:
        with torch.device("meta"):
            adopted.build(model.groups if adopted.tap is None else adopted.tap.size)
    except InputError as error:
        why = (
            "a checkpoint's size is checked without memory (on torch's device meta), where "
            f"{error.why}"
        )
        fix = "Compute sizes and rates with Python's numbers or NumPy, not with tensors"
        raise InputError(what, why, fix) from error
    for name, parameter in named:
        if parameter.dtype != torch.float32:
            why = f"its parameter {_inner(name)} is {parameter.dtype}"
            raise InputError(what, why, "Let the factory return float32: network.float()")
    try:
        copy.deepcopy(model)
    except Exception as error:
        why = f"it cannot be copied ({told(error)})"
        raise InputError(what, why, "Keep tensors as parameters or buffers alone") from error
    return model


def _what(adopted: Adopted) -> str:
    return f"network {adopted.factory}"


class Asked:
    """A copy of one network, its pictures and what it answers.

    Args:
        adopted: how it is built.
        model: ``network`` is asked, with ``groups`` answers of pictures of ``image_size``.
        device: the device that it computes on.
    """

    def __init__(self, adopted: Adopted, model: Any, device: torch.device) -> None:
        self.what, self.device = _what(adopted), device
        self.size, self.groups, self.classes = (
            model.image_size,
            model.groups,
            isinstance(model, Classifier),
        )
        assert model.network is not None
        self.network: Any = copy.deepcopy(model.network).to(device)
        self.image_BCHW = self._pictures(self.size)
        self.answer_BG = torch.empty(0)

    def _pictures(self, size: int) -> Tensor:
        """Noise of rising brightness: a mean over the batch differs from each."""
        # of equal pictures the mean over a batch would be that of each
        bright_B111 = (torch.arange(PICTURES) + 1.0)[:, None, None, None] / PICTURES
        generator = torch.Generator().manual_seed(0)
        noise_BCHW = torch.rand(PICTURES, 3, size, size, generator=generator)
        return (noise_BCHW * bright_B111).to(self.device)

    def refuse(self, why: str, fix: str) -> InputError:
        return InputError(self.what, why, fix)

    def answers(self) -> Tensor:
        """What it says in evaluation."""
        with torch.no_grad():
            return self._asked(self.network.eval(), self.image_BCHW, "")

    def answers_each_picture(self) -> None:
        """In evaluation each picture has one answer, and asking changes nothing."""
        before = copy.deepcopy(self.network.eval().state_dict())
        self.answer_BG = self.answers()
        with torch.no_grad():
            self._alike_for(
                slice(None),
                " the second time",
                "the same pictures twice have two answers, also in evaluation",
                "Let it draw nothing and keep nothing there (F.dropout needs "
                "training=self.training)",
            )
            for start, stop in ((0, 1), (1, PICTURES), (0, 2)):
                self._alike_for(
                    slice(start, stop),
                    f" with {counted(stop - start, 'picture')} at a time",
                    "it answers a picture otherwise in a batch with others, also in evaluation",
                    "Let it look at each picture by itself there (batch norm: with "
                    "track_running_stats and eval())",
                )
        for name, value in self.network.state_dict().items():
            if name not in before:
                why = (
                    f"it makes {_inner(name)} when it answers first, where no optimizer and no "
                    "file knows of it"
                )
                raise self.refuse(why, "Make all of its layers in __init__")
            if not torch.equal(value, before[name]):
                why = (
                    f"asking it changes {_inner(name)}, also in evaluation: it would remember whom "
                    "it saw"
                )
                raise self.refuse(why, "Change buffers while it trains alone (if self.training)")

    def _alike_for(self, part: slice, when: str, why: str, fix: str) -> None:
        """Asks for some of the pictures once more."""
        if not _alike(self.answer_BG[part], self._asked(self.network, self.image_BCHW[part], when)):
            raise self.refuse(f"{why}; suspect is {self._suspect(self.image_BCHW, part)}", fix)

    def answers_logits(self) -> None:
        """What is squashed into a range stays there however large the last layer is; a loss of
        logits would not know it.
        """
        self._no_probabilities(self.answer_BG, "")
        if self._held():
            how = "0 and 1 (a sigmoid?)" if self.answer_BG.min() >= 0.0 else "-1 and 1 (a tanh?)"
            why = f"each answer is held between {how}: no group can be far more likely than another"
            raise self.refuse(why, LOGITS)

    def _no_probabilities(self, answer_BG: Tensor, when: str) -> None:
        sums_B = answer_BG.detach().sum(dim=1)
        if answer_BG.min() >= 0.0 and _alike(torch.ones_like(sums_B), sums_B):
            why = (
                f"it answers with probabilities{when} (they add up to 1 and are never below 0), "
                "not with logits"
            )
            raise self.refuse(why, LOGITS)

    def _held(self) -> bool:
        """Whether no layer, however large, drives an answer out of [-1, 1]."""
        if bool((self.answer_BG.abs() > 1.0 + ALIKE).any()):
            return False
        order: list[nn.Module] = []
        with torch.no_grad(), ExitStack() as stack:
            for module in self.network.eval().modules():
                if any(True for _ in module.parameters(recurse=False)):
                    stack.callback(
                        module.register_forward_hook(lambda module, *_: order.append(module)).remove
                    )
            self.network(self.image_BCHW)
        return bool(order) and not any(self._escapes(module) for module in reversed(order))

    @torch.no_grad()
    def _escapes(self, module: nn.Module) -> bool:
        before = [parameter.clone() for parameter in module.parameters(recurse=False)]
        for parameter in module.parameters(recurse=False):
            # noise first: of weights that begin with 0 nothing would swell
            parameter.add_(torch.randn_like(parameter)).mul_(SWOLLEN)
        answer_BG = self.network(self.image_BCHW)
        for parameter, value in zip(module.parameters(recurse=False), before, strict=True):
            parameter.copy_(value)
        return bool((answer_BG.isfinite() & (answer_BG.abs() > 1.0 + ALIKE)).any())

    def unusual(self) -> list[str]:
        """What is told of answers that are logits. By the deviation of a picture of one colour, 0,
        some networks divide.
        """
        sums_B = self.answer_BG.exp().sum(dim=1)
        log = bool((self.answer_BG <= 0.0).all()) and _alike(torch.ones_like(sums_B), sums_B)
        notes = ["its answers are logarithms of probabilities, which are logits like any"] * log
        with torch.no_grad():
            black_BG = self.network.eval()(torch.zeros_like(self.image_BCHW))
        if not bool(black_BG.isfinite().all()):
            notes.append("of a picture of one colour its answer is not a number")
        return notes

    def learns(self) -> list[str]:
        """A step of training: what is told of it."""
        network = copy.deepcopy(self.network).train()
        answers: list[Any] = []
        handle = network.inner.register_forward_hook(
            lambda _module, _given, answer: answers.append(answer)
        )
        for count in (2, PICTURES):
            network.zero_grad(set_to_none=True)
            answer_BG = self._asked(network, self.image_BCHW[:count], " while it trains")
            self._no_probabilities(answer_BG, " while it trains")
            if not answer_BG.requires_grad:
                fix = (
                    "Leave out detach() and no_grad() while it trains, and let parameters ask for "
                    "gradients"
                )
                raise self.refuse("nothing in it learns: its answers have no gradient", fix)
            try:
                self._backward(answer_BG)
            except Exception as error:
                why = f"its gradients cannot be computed: {told(error)}"
                raise self.refuse(why, "Train it once in plain PyTorch") from error
        handle.remove()
        for name, parameter in network.named_parameters():
            if parameter.grad is not None and not bool(parameter.grad.isfinite().all()):
                why = f"the gradient of {_inner(name)} is not a number"
                raise self.refuse(why, "Check its forward for divisions and roots of 0")
        self._copies(network)
        return [*_more(answers), *_untouched(network)]

    def _copies(self, network: Normalized) -> None:
        """What an average or an unlearned model begins with is a copy, also of a network that has
        seen pictures.
        """
        try:
            copy.deepcopy(network)
        except Exception as error:
            kept = [
                f"{_inner(where)}.{name}".lstrip(".")
                for where, module in network.named_modules()
                for name, value in vars(module).items()
                if isinstance(value, Tensor) and value.grad_fn is not None
            ]
            why = (
                f"it keeps what it computed of pictures ({kept[0] if kept else told(error)}), so "
                "it cannot be copied"
            )
            raise self.refuse(why, "Keep nothing between calls, or detach() it") from error

    def channels_last(self) -> str:
        """Why the network does not take channels-last memory, or nothing."""
        other = copy.deepcopy(self.network).to(memory_format=torch.channels_last)
        image_BCHW = self.image_BCHW.contiguous(memory_format=torch.channels_last)
        try:
            plain = self._gradient(self.network, self.image_BCHW)
            pairs = zip(plain, self._gradient(other, image_BCHW), strict=True)
            same = all(_alike(one, two) for one, two in pairs)
            self._backward(other.train()(image_BCHW))
        except Exception as error:  # noqa: BLE001 (contiguous memory it takes: the same was asked there)
            return told(error)
        return "" if same else "its answers or gradients are others there"

    def _gradient(self, network: Normalized, image_BCHW: Tensor) -> list[Tensor]:
        """The answers in evaluation mode, and the gradient of each parameter that has one."""
        network.eval().zero_grad(set_to_none=True)
        answer_BG = network(image_BCHW)
        if answer_BG.requires_grad:
            self._backward(answer_BG)
        return [
            answer_BG.detach(),
            *(weight.grad for weight in network.parameters() if weight.grad is not None),
        ]

    def _backward(self, answer_BG: Tensor) -> None:
        """The backward pass of a loss in which every group has a part."""
        target_B = torch.arange(len(answer_BG), device=self.device) % self.groups
        nn.functional.cross_entropy(answer_BG, target_B).backward()

    def ran(self, network: Callable[[Tensor], T], image_BCHW: Tensor, when: str = "") -> T:
        """What it, or a part of it, says of pictures; `InputError` where it raises."""
        try:
            return network(image_BCHW)
        except InputError:
            raise
        except Exception as error:
            why = f"on pictures of {self.size} pixels{when} it raised {told(error)}"
            fix = "Let it take any number of pictures" if when else self._way_out()
            raise self.refuse(why, fix) from error

    def _asked(self, network: Normalized, image_BCHW: Tensor, when: str) -> Tensor:
        """The answers (B, G), which are finite numbers."""
        answer = self.ran(network, image_BCHW, when)
        count = len(image_BCHW)
        if not isinstance(answer, Tensor) or answer.shape != (count, self.groups):
            raise self._other_form(answer, count, when)
        if not answer.is_floating_point() or not bool(answer.isfinite().all()):
            fix = "Check its forward, and what its weights begin with"
            raise self.refuse(f"what it answers{when} is not a number", fix)
        return answer

    def _other_form(self, answer: Any, count: int, when: str) -> InputError:
        if isinstance(answer, Tensor) and answer.shape == (self.groups,) and count == 1:
            return self.refuse(
                f"it answers one picture with {list(answer.shape)} instead of [1, {self.groups}]",
                "Let it keep the batch: flatten(1) for squeeze()",
            )
        known = f" of {', '.join(map(str, answer))}" if isinstance(answer, dict) else ""
        whole = isinstance(answer, Tensor) and answer.ndim > 0 and len(answer) == count
        gave = (
            list(answer.shape[1 if whole else 0 :])
            if isinstance(answer, Tensor)
            else f"{type(answer).__name__}{known}"
        )
        wanted = f"the data have {self.groups} classes"
        if not self.classes:
            wanted = f"the borders make {self.groups} groups"
        why = f"it answers a picture{when} with {gave} where {wanted}"
        fix = (
            "Give data with one class for each of its answers"
            if self.classes
            else (
                "Give `edges` with one border more than it has answers; a network that says one number "
                "has no groups to decide by"
            )
        )
        return self.refuse(why, "Name its answer logits or out, or put it first" if known else fix)

    def _way_out(self) -> str:
        """A side of pictures that the network takes, where there is one."""
        for size in SIDES:
            try:
                with torch.no_grad():
                    self.network.eval()(self._pictures(size))
            except Exception:  # noqa: BLE001 (the next one is tried)
                continue
            return f"Give `image_size={size}`, which it takes"
        return "Check `image_size`, and let it follow the type and device of what it is given"

    def _suspect(self, image_BCHW: Tensor, part: slice) -> str:
        """The first layer that was given the same and answers otherwise."""
        network = self.network
        whole, alone = _watched(network, image_BCHW), _watched(network, image_BCHW[part])
        for (name, kind, *one), (_, _, *two) in zip(whole, alone, strict=False):
            rows = [value[part] if len(value) == len(image_BCHW) else value for value in one]
            same_input, same_output = map(_alike, rows, two)
            if not same_output:
                before = "" if same_input else "what its forward does in front of "
                return f"{before}its layer {name} ({kind})"
        return "what its forward does after its last layer"


def _watched(network: Normalized, image_BCHW: Tensor) -> list[tuple[str, str, Tensor, Tensor]]:
    """Name, kind, input and output of each layer within the network, in the order in which they
    answer.
    """
    seen: list[tuple[str, str, Tensor, Tensor]] = []

    def watch(name: str) -> Any:
        def look(module: nn.Module, given: tuple[Any, ...], answer: Any) -> None:
            first = next((value for value in given if isinstance(value, Tensor)), None)
            output = first_answer(answer)
            if first is not None and isinstance(output, Tensor):
                seen.append((name, type(module).__name__, first.clone(), output.clone()))

        return look

    with ExitStack() as stack:
        for name, module in network.inner.named_modules():
            if name:
                stack.callback(module.register_forward_hook(watch(name)).remove)
        network(image_BCHW)
    return seen


def _more(answers: Sequence[Any]) -> list[str]:
    """Notes that a network answers more while it trains."""
    if not answers or isinstance(answers[-1], Tensor):
        return []
    kind = type(answers[-1]).__name__
    return [
        f"while it trains it answers more than logits ({kind}): the logits are taken, auxiliary "
        "losses are left out"
    ]


def _untouched(network: nn.Module) -> list[str]:
    """Which parameters no step of training changes."""
    idle, frozen = list[str](), list[str]()
    for name, parameter in network.named_parameters():
        if parameter.grad is None:
            (idle if parameter.requires_grad else frozen).append(_inner(name))
    notes = []
    for names, why in ((idle, "get no gradient"), (frozen, "are frozen")):
        if names:
            notes.append(
                f"{counted(len(names), 'parameter')} of it {why} (first: {names[0]}) and stay as "
                "they are"
            )
    return notes


def _alike(one: Tensor, other: Tensor) -> bool:
    """Equal but for the order of sums."""
    if one.shape != other.shape or not one.numel() or not one.is_floating_point():
        return torch.equal(one, other)
    return bool((one - other).abs().max() <= ALIKE * one.abs().max() + 1e-6)


def _inner(name: str) -> str:
    """A parameter's name as the network's owner knows it."""
    return name.removeprefix("network.").removeprefix("inner.")


def told(error: Exception) -> str:
    """An exception of other people's code, in one line of bounded length."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:200]
