"""The process belongs to somebody else: a step sets what it computes with, and puts back what it
found.

A notebook or an import may have turned gradients off, chosen another default type or number of
threads, made warnings errors, or drawn from the global generators. A step gives the same bytes all
the same, and the caller finds everything as it was.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from operator import attrgetter
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from .errors import InputError

P = ParamSpec("P")
R = TypeVar("R")
PILLOW = {
    "PIL.ImageFile.LOAD_TRUNCATED_IMAGES": False,
    "PIL.Image.MAX_IMAGE_PIXELS": 1024**3 // 4 // 3,
}
EXACT = ("mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn", "cuda.matmul")
"""Backends of torch that may be told to round float32."""
BACKENDS: dict[str, Any] = {
    "torch.backends.mkldnn.enabled": True,
    "torch.backends.mkldnn.deterministic": False,
    "torch.backends.cudnn.enabled": True,
    "torch.backends.cudnn.benchmark": False,
    "torch.backends.cudnn.deterministic": False,
    **{f"torch.backends.{name}.fp32_precision": "ieee" for name in EXACT},
}
UNSET = "none"
"""The precision that nobody chose, which is the exact one."""


def settled(function: Callable[P, R]) -> Callable[P, R]:
    """A step that computes the same whatever was switched in this process, and leaves all switches
    as it found them.

    A step within a step changes nothing more. What it sets: gradients, inference mode, autocast,
    anomaly mode, the default type and device, threads (`threads`), how exact and how deterministic
    backends are, global generators, what NumPy and Pillow make of errors, and warnings that
    somebody made errors.

    Raises:
        InputError: a switch of torch that cannot be set from within.
    """

    @functools.wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        with settle():
            return function(*args, **kwargs)

    return inside


@contextlib.contextmanager
def settle() -> Iterator[None]:
    """What `settled` does, around a block."""
    with ExitStack() as stack:
        # A library may be imported within a step; one that follows inside finds it.
        for library, part in _PARTS.items():
            if library in sys.modules:
                stack.enter_context(part.entered())
        yield


def threads() -> int:
    """Threads that a step computes with: ``OMP_NUM_THREADS``, else one a core that this process may
    use.

    How many there are decides the last bits of a sum, so that it is not what some other part of the
    process chose last.
    """
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if asked.isdecimal() and int(asked):
        return int(asked)
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    # Two processors of one core are one to those who multiply: torch counts alike.
    place = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    known = [(item, Path(place.format(item))) for item in os.sched_getaffinity(0)]
    return len(
        {path.read_text(encoding="ascii") if path.is_file() else str(item) for item, path in known}
    )


def use_threads(count: int) -> None:
    """Has steps, and torch where it is loaded, compute with so many threads from now on, in this
    process and its children.
    """
    os.environ["OMP_NUM_THREADS"] = str(count)
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(count)


class _Part:
    """Some switches: those of the process set by the first thread that comes and put back by the
    last, its own by each.
    """

    def __init__(
        self, process: Callable[[ExitStack], None], thread: Callable[[ExitStack], None]
    ) -> None:
        self._process, self._thread = process, thread
        self._lock, self._inside, self._kept = threading.Lock(), 0, ExitStack()
        self._here = threading.local()

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        if getattr(self._here, "inside", False):
            yield
            return
        with self._shared(), ExitStack() as of_thread:
            self._thread(of_thread)
            self._here.inside = True
            of_thread.callback(setattr, self._here, "inside", False)
            yield

    @contextlib.contextmanager
    def _shared(self) -> Iterator[None]:
        with self._lock, ExitStack() as made:
            if self._inside == 0:
                self._process(made)
                self._kept = made.pop_all()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    self._kept.close()


def _base_of_process(stack: ExitStack) -> None:
    stack.callback(random.setstate, random.getstate())
    random.seed(0)
    stack.enter_context(warnings.catch_warnings())
    filters = list(warnings.filters)
    if any(item[0] == "error" for item in filters):
        warnings.resetwarnings()
        for action, message, category, module, line in filters:
            texts = [getattr(item, "pattern", item) or "" for item in (message, module)]
            told = "default" if action == "error" else action
            warnings.filterwarnings(told, texts[0], category, texts[1], line, append=True)  # type: ignore[arg-type]
    _set_all(stack, PILLOW)


def _base_of_thread(_: ExitStack) -> None:
    """What Python itself switches is the process's."""


def _numpy_of_process(stack: ExitStack) -> None:
    import numpy as np

    stack.callback(np.random.set_state, np.random.get_state())
    np.random.seed(0)


def _numpy_of_thread(stack: ExitStack) -> None:
    import numpy as np

    stack.enter_context(np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"))


def _torch_of_process(stack: ExitStack) -> None:
    import torch

    there = torch.cuda.is_initialized()
    stack.enter_context(
        torch.random.fork_rng(devices=range(torch.cuda.device_count()) if there else ())
    )
    (torch.manual_seed if there else torch.default_generator.manual_seed)(0)
    with contextlib.suppress(
        RuntimeError
    ):  # torch tells so where its newer switches were used, which are set below
        if (rough := torch.get_float32_matmul_precision()) != "highest":
            stack.callback(torch.set_float32_matmul_precision, rough)
            torch.set_float32_matmul_precision("highest")
    _set_all(stack, BACKENDS)
    _exact_cudnn(stack)
    switches: tuple[tuple[Callable[[], Any], Callable[[Any], Any], Any], ...] = (
        (torch.get_default_dtype, torch.set_default_dtype, torch.float32),
        (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode, 0),
        (torch.get_num_threads, torch.set_num_threads, threads()),
    )
    for read, write, wanted in switches:
        if (before := read()) != wanted:
            stack.callback(write, before)
            write(wanted)


def _exact_cudnn(stack: ExitStack) -> None:
    """No TF32 in cuDNN, by its older switch: torch's own converters read it, and it refuses where
    the newer ones differ.
    """
    from torch.backends import cudnn

    newer = (
        [(part, part.fp32_precision) for part in (cudnn.conv, cudnn.rnn)]
        if hasattr(cudnn, "conv")
        else []
    )
    try:
        older = cudnn.allow_tf32
    except RuntimeError:  # somebody used the newer ones, so that this one says the opposite
        older = newer[0][1] != "tf32"
    if older or any(chosen not in ("ieee", UNSET) for _, chosen in newer):
        for part, chosen in newer:
            stack.callback(setattr, part, "fp32_precision", chosen)
        # before the newer ones, which it sets too
        stack.callback(setattr, cudnn, "allow_tf32", older)
        cudnn.allow_tf32 = False


def _torch_of_thread(stack: ExitStack) -> None:
    import torch

    contexts: list[AbstractContextManager[Any]] = []
    if torch.is_inference_mode_enabled():
        contexts.append(torch.inference_mode(False))
    if not torch.is_grad_enabled() or contexts:
        contexts.append(torch.enable_grad())
    if torch.is_anomaly_enabled():
        contexts.append(torch.autograd.set_detect_anomaly(False))
    if torch.get_default_device().type != "cpu":
        contexts.append(torch.device("cpu"))
    if not float(torch.tensor([1e-39], device="cpu", dtype=torch.float32) / 2):
        stack.callback(torch.set_flush_denormal, True)
        torch.set_flush_denormal(False)
    contexts += [
        torch.autocast(kind, enabled=False)
        for kind in ("cpu", "cuda")
        if torch.is_autocast_enabled(kind)
    ]
    for context in contexts:
        stack.enter_context(context)
    try:
        problem = _answers()
    except Exception as error:  # noqa: BLE001 (whatever somebody's mode or hook raises is told as its own)
        problem = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    if problem:
        why = f"{_switches()} is on in it, under which torch computes something else ({problem})"
        raise InputError("this process", why, "Call unplug outside of it, or switch it off")


def _answers() -> str:
    """What is wrong with one step of training whose numbers are known, or nothing."""
    import torch

    layer = torch.nn.Conv2d(1, 1, 1)
    with (
        torch.no_grad(),
        torch.autograd.graph.saved_tensors_hooks(lambda kept: kept, lambda kept: kept),
    ):
        layer.weight.fill_(2.0)
        layer.bias.zero_()  # type: ignore[union-attr]
    loss = torch.nn.functional.relu(layer(torch.full((2, 1, 1, 1), 3.0))).square().sum()
    loss.backward()
    numbers = (loss.item(), layer.weight.grad.item())  # type: ignore[union-attr]
    return (
        ""
        if numbers == (72.0, 72.0)
        else f"a sum and its gradient are {numbers[0]:g} and {numbers[1]:g} instead of 72"
    )


def _switches() -> str:
    """Names of what is on around this call."""
    from torch.nn.modules import module
    from torch.overrides import _get_current_function_mode_stack
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    names = [
        type(mode).__name__
        for mode in (*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack())
    ]
    hooks = [
        name
        for name, value in vars(module).items()
        if name.startswith("_global_") and name.endswith("hooks") and value
    ]
    names += [f"torch.nn.modules.module.{name}" for name in hooks]
    return ", ".join(names) or "torch.autograd.graph.saved_tensors_hooks"


def _set_all(stack: ExitStack, wanted: dict[str, Any]) -> None:
    """Sets attributes of modules that are loaded; they are as before when the stack is left."""
    for name, value in wanted.items():
        module, _, attribute = name.rpartition(".")
        root = name.partition(".")[0] if name.startswith("torch.") else module
        if root not in sys.modules:
            continue
        holder = (
            sys.modules[root]
            if root == module
            else attrgetter(module.partition(".")[2])(sys.modules[root])
        )
        before = getattr(holder, attribute, value)  # an older torch has no such switch
        if before not in (value, UNSET):
            stack.callback(setattr, holder, attribute, before)
            setattr(holder, attribute, value)


_PARTS = {
    "random": _Part(_base_of_process, _base_of_thread),
    "numpy": _Part(_numpy_of_process, _numpy_of_thread),
    "torch": _Part(_torch_of_process, _torch_of_thread),
}
"""By the module that they are of; Python's own is always loaded."""
