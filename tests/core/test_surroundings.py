"""A step sets what it computes with and puts back what it found, whatever else was switched in the
process.
"""

from __future__ import annotations

import contextlib
import random
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageFile
from torch._subclasses.fake_tensor import FakeTensorMode

from unplug.core import InputError, settled
from unplug.core.surroundings import threads


@contextlib.contextmanager
def switched(read: Callable[[], Any], write: Callable[[Any], Any], value: Any) -> Iterator[None]:
    before = read()
    write(value)
    try:
        assert read() == value
        yield
        assert read() == value, "the step left another value than it found"
    finally:
        write(before)


def attribute(holder: Any, name: str, value: Any) -> contextlib.AbstractContextManager[None]:
    return switched(
        lambda: getattr(holder, name), lambda chosen: setattr(holder, name, chosen), value
    )


def set_by(name: str, value: Any) -> Callable[[], Any]:
    """A switch of torch with a function that reads it and one that writes it."""
    return lambda: switched(getattr(torch, f"get_{name}"), getattr(torch, f"set_{name}"), value)


@contextlib.contextmanager
def errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
        with pytest.raises(UserWarning):
            warnings.warn("still an error", stacklevel=1)


def warned() -> str:
    warnings.warn("a library's", stacklevel=1)
    return "went on"


def sums() -> Any:
    return float(np.exp(np.float32(-200.0), dtype=np.float32))


def tf32() -> tuple[bool | None, str, str]:
    """cuDNN's older switch, which refuses to answer beside newer ones that differ, and the newer
    ones.
    """
    cudnn = torch.backends.cudnn
    older = None
    with contextlib.suppress(RuntimeError):
        older = cudnn.allow_tf32
    return older, cudnn.conv.fp32_precision, cudnn.rnn.fp32_precision


def set_tf32(chosen: tuple[bool | None, str, str]) -> None:
    cudnn = torch.backends.cudnn
    cudnn.allow_tf32 = bool(chosen[0])
    cudnn.conv.fp32_precision, cudnn.rnn.fp32_precision = chosen[1:]


SWITCHES: dict[str, tuple[Callable[[], Any], Callable[[], Any], Any]] = {
    "gradients": (lambda: torch.set_grad_enabled(False), torch.is_grad_enabled, True),
    "inference mode": (torch.inference_mode, torch.is_inference_mode_enabled, False),
    "default type": (
        set_by("default_dtype", torch.float64),
        torch.get_default_dtype,
        torch.float32,
    ),
    "default device": (lambda: torch.device("meta"), lambda: torch.zeros(1).device.type, "cpu"),
    "autocast": (lambda: torch.autocast("cpu"), lambda: torch.is_autocast_enabled("cpu"), False),
    "anomaly mode": (
        lambda: torch.autograd.set_detect_anomaly(True),
        torch.is_anomaly_enabled,
        False,
    ),
    "threads": (set_by("num_threads", threads() + 2), torch.get_num_threads, threads()),
    "matmul": (
        set_by("float32_matmul_precision", "medium"),
        torch.get_float32_matmul_precision,
        "highest",
    ),
    "convolutions": (
        lambda: attribute(torch.backends.mkldnn.conv, "fp32_precision", "bf16"),
        lambda: torch.backends.mkldnn.conv.fp32_precision,
        "ieee",
    ),
    "TF32 of cuDNN": (
        lambda: switched(tf32, set_tf32, (True, "tf32", "tf32")),
        tf32,
        (False, "none", "none"),
    ),
    "TF32 of cuDNN by its newer switches": (
        lambda: switched(tf32, set_tf32, (None, "tf32", "ieee")),
        tf32,
        (False, "none", "none"),
    ),
    "oneDNN": (
        lambda: attribute(torch.backends.mkldnn, "enabled", False),
        lambda: torch.backends.mkldnn.enabled,
        True,
    ),
    "determinism": (
        set_by("deterministic_debug_mode", 2),
        torch.get_deterministic_debug_mode,
        0,
    ),
    "NumPy's errors": (lambda: np.errstate(all="raise"), sums, 0.0),
    "warnings": (errors, warned, "went on"),
    "truncated pictures": (
        lambda: attribute(ImageFile, "LOAD_TRUNCATED_IMAGES", True),
        lambda: ImageFile.LOAD_TRUNCATED_IMAGES,
        False,
    ),
    "large pictures": (
        lambda: attribute(Image, "MAX_IMAGE_PIXELS", 10),
        lambda: Image.MAX_IMAGE_PIXELS,
        89_478_485,
    ),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_a_step_has_its_own_and_leaves_the_callers(name: str) -> None:
    switch, read, wanted = SWITCHES[name]
    with warnings.catch_warnings():
        # torch's own about its modes; `errors` puts its filter above
        warnings.simplefilter("ignore")
        with switch():
            assert settled(read)() == wanted


def test_flushed_denormals_count_again_within() -> None:
    smallest = torch.tensor([1e-39])
    torch.set_flush_denormal(True)
    try:
        assert settled(lambda: (smallest / 2).item())() > 0
        assert (smallest / 2).item() == 0
    finally:
        torch.set_flush_denormal(False)


def drawn() -> tuple[float, float, float]:
    return random.random(), float(np.random.random()), float(torch.rand(1))


def sow(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def test_a_step_draws_the_same_and_takes_nothing_from_the_callers_generators() -> None:
    for seed in (1, 2):
        sow(seed)
        expected = drawn()
        sow(seed)
        within = settled(drawn)()
        assert drawn() == expected and within == settled(drawn)()


def test_a_step_in_a_step_keeps_what_the_outer_one_chose() -> None:
    @settled
    def outer() -> bool:
        with torch.no_grad():
            return settled(torch.is_grad_enabled)()

    assert outer() is False


def test_everything_is_put_back_after_an_error() -> None:
    with set_by("default_dtype", torch.float64)(), pytest.raises(ZeroDivisionError):
        settled(lambda: 1 // 0)()


def test_steps_in_two_threads_share_what_belongs_to_the_process() -> None:
    begun, over, seen = threading.Event(), threading.Event(), []

    def late() -> None:
        begun.set()
        over.wait(10)
        seen.append(torch.get_default_dtype())

    with set_by("default_dtype", torch.float64)():
        other = threading.Thread(target=settled(late))
        other.start()
        begun.wait(10)
        settled(lambda: None)()  # ends first, and must not put anything back
        over.set()
        other.join()
    assert seen == [torch.float32]


@contextlib.contextmanager
def hooked(hook: Callable[..., Any]) -> Iterator[None]:
    handle = torch.nn.modules.module.register_module_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@pytest.mark.parametrize(
    ("switch", "named"),
    [
        (FakeTensorMode, "FakeTensorMode"),
        (
            lambda: hooked(lambda module, given, answer: answer * 1.01),
            "torch.nn.modules.module._global_forward_hooks",
        ),
        (
            lambda: torch.autograd.graph.saved_tensors_hooks(
                lambda kept: kept * 2, lambda kept: kept
            ),
            "saved_tensors_hooks",
        ),
        (lambda: torch.autograd.graph.disable_saved_tensors_hooks("not here"), "not here"),
    ],
)
def test_what_cannot_be_set_from_within_is_named(switch: Callable[[], Any], named: str) -> None:
    ran = []
    with switch(), pytest.raises(InputError, match="this process: ") as refused:
        settled(lambda: ran.append(1))()
    assert named in str(refused.value) and str(refused.value).count("\n") == 0 and not ran


def test_hooks_and_modes_that_only_look_on_are_none_of_our_business() -> None:
    seen: list[Any] = []
    with hooked(lambda *told: seen.append(told)):
        settled(lambda: None)()
    assert seen


def test_threads_are_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert threads() == 3
    for nothing in ("", "0", "many"):
        monkeypatch.setenv("OMP_NUM_THREADS", nothing)
        assert threads() >= 1
