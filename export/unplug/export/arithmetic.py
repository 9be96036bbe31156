"""In what arithmetic a number was taken: a host's kernels may be more, or less, exact than the file
that they run.
"""

from __future__ import annotations

import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
WIDENING = ("onnx", "onnx-web", "litert", "litert-web", "tensorflow")
"""Runtimes that compute a float16 file in float32 on a CPU."""
INTEGER = ("int8-static", "int8-dynamic")


def widened(runtime: str, precision: str) -> bool:
    """Whether a runtime's numbers say nothing of the half precision in which a phone will compute
    the file.

    Example:
        >>> widened("onnx", "fp16"), widened("mil", "fp16"), widened("onnx", "fp32")
        (True, False, False)
    """
    return precision == "fp16" and runtime in WIDENING


def arithmetic(runtime: str, precision: str) -> str | None:
    """What a runtime computes a precision in, on this machine; None where it does not tell.

    Example:
        >>> arithmetic("onnx", "fp16"), arithmetic("mil", "fp16")
        ('float32 (the host widens float16)', 'float16 tensors, float32 sums')
    """
    if runtime == "mil":
        return "float32" if precision == "fp32" else "float16 tensors, float32 sums"
    if runtime not in (*WIDENING, "executorch"):
        return None
    if precision in INTEGER:
        return f"int8 ({kernels()})"
    return "float32 (the host widens float16)" if precision == "fp16" else "float32"


def kernels() -> str:
    """The processor's instructions for products of 8-bit numbers.

    x86 without VNNI adds pairs of such products in 16 bits, which saturate where both operands are
    large.
    """
    machine = platform.machine()
    try:
        lines = CPUINFO.read_text("utf-8", "replace").splitlines()
    except OSError:
        return machine
    flags = next((line.split() for line in lines if line.startswith(("flags", "Features"))), [])
    known = [
        name
        for name in ("avx512_vnni", "avx_vnni", "avx512bw", "avx2", "i8mm", "asimddp")
        if name in flags
    ]
    if not known:
        return machine
    return f"{machine}, {known[0]}" + (
        "" if known[0] not in ("avx512bw", "avx2") else " without VNNI"
    )
