"""What a phone says of itself: properties, GPU driver, temperature, battery. Pure functions over
what its tools print.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..devices.bench_device import DeviceInfo, State
from ..validity import THERMAL_STATES

PROPERTIES = (
    "ro.product.manufacturer",
    "ro.product.model",
    "ro.soc.manufacturer",
    "ro.soc.model",
    "ro.board.platform",
    "ro.build.version.release",
    "ro.build.version.sdk",
    "ro.build.id",
    "ro.product.cpu.abi",
    "ro.boot.qemu",
    "ro.kernel.qemu",
    "ro.hardware",
    "ro.hardware.vulkan",
)
GLES = re.compile(r"^GLES: *(.+)$", re.MULTILINE)
KERNEL = re.compile(r"^Linux \S+$", re.MULTILINE)
TEMPERATURE = re.compile(r"Temperature\{([^}]*)\}")
PROPERTY = re.compile(r"^\[([^\]]+)\]: \[(.*)\]$", re.MULTILINE)
SKIN, CPU = 3, 0
"""Android's types of temperature, best first: the skin decides when a phone throttles."""
ABIS = {"arm64-v8a": 183, "armeabi-v7a": 40, "x86_64": 62, "x86": 3}
"""To the machine number in an ELF header."""
MARK = "=unplug="
"""On a line of its own between the parts of an answer."""
_NEXT = f"; echo; echo {MARK}; "
ASK = _NEXT.join(
    (
        "getprop",
        "dumpsys SurfaceFlinger 2>/dev/null | grep '^GLES:'",
        "dumpsys battery",
        "uname -sr",
    )
)
ASK_STATE = _NEXT.join(("dumpsys thermalservice", "dumpsys battery"))
EMULATORS = ("goldfish", "ranchu", "cutf_cvm")
"""``ro.hardware`` of virtual phones."""


def read_properties(text: str) -> dict[str, str]:
    """What `getprop` prints.

    Example:
        >>> read_properties("[ro.product.model]: [Pixel 7]\\n[x]: []")["ro.product.model"]
        'Pixel 7'
    """
    return dict(PROPERTY.findall(text))


def read_info(text: str, clock_mode: str | None) -> DeviceInfo:
    """A device from the answer to `ASK`.

    Args:
        text: the text that it printed; parts that a device does not know are empty.
        clock_mode: the clock mode that was set.
    """
    properties, drivers, battery, system = _parts(text, 4)
    kernel, gles = _first(KERNEL, system, 0), _first(GLES, drivers, 1)
    known = read_properties(properties)
    android = known.get("ro.build.version.release")
    virtual = (
        "1" in (known.get("ro.boot.qemu"), known.get("ro.kernel.qemu"))
        or known.get("ro.hardware") in EMULATORS
    )
    emulated = virtual or not android
    percent, charging = read_battery(battery)
    return DeviceInfo(
        where="emulated" if emulated else "device",
        device=_words(known, "ro.product.manufacturer", "ro.product.model") or kernel or "unknown",
        soc=_words(known, "ro.soc.manufacturer", "ro.soc.model") or known.get("ro.board.platform"),
        os=(
            f"Android {android} (API {known.get('ro.build.version.sdk')}, "
            f"{known.get('ro.build.id')})"
        )
        if android
        else kernel or "unknown",
        gpu_driver=gles or known.get("ro.hardware.vulkan"),
        battery_percent=percent,
        charging=charging,
        clock_mode=clock_mode,
    )


def _words(known: Mapping[str, str], *names: str) -> str | None:
    return " ".join(known[name] for name in names if known.get(name)) or None


def read_battery(text: str) -> tuple[float | None, bool | None]:
    """Percent, and whether it is charged, of `dumpsys battery`.

    Example:
        >>> read_battery("  AC powered: false\\n  USB powered: true\\n  level: 42\\n  scale: 50\\n")
        (84.0, True)
    """
    level, scale = (
        re.search(rf"^\s*{name}: (\d+)$", text, re.MULTILINE) for name in ("level", "scale")
    )
    powered = re.findall(r"^\s*\w+ powered: (true|false)$", text, re.MULTILINE)
    percent = (
        None if level is None else 100.0 * int(level[1]) / max(int(scale[1]) if scale else 100, 1)
    )
    return percent, "true" in powered if powered else None


def read_state(text: str) -> State:
    """A device's state from the answer to `ASK_STATE`.

    Example:
        >>> read_state("Thermal Status: 2\\nCurrent temperatures from HAL:\\n"
        ...            " Temperature{mValue=41.5, mType=3, mName=skin, mStatus=2}\\n" + MARK + "\\n level: 80\\n scale: 100")
        State(thermal='moderate', temperature_c=41.5, battery_percent=80.0, charging=None, clock_mode=None)
    """
    thermal, battery = _parts(text, 2)
    status = re.search(r"^\s*Thermal Status: (\d+)", thermal, re.MULTILINE)
    number = int(status[1]) if status else -1
    # what is cached may be old
    now = thermal.partition("Current temperatures from HAL")[2] or thermal
    readings: dict[int, list[float]] = {}
    for fields in TEMPERATURE.findall(now):
        reading = dict(re.findall(r"(\w+)=(-?[\d.]+)", fields))
        if {"mType", "mValue"} <= reading.keys():
            readings.setdefault(int(reading["mType"]), []).append(float(reading["mValue"]))
    hottest = next((max(readings[kind]) for kind in (SKIN, CPU) if kind in readings), None)
    percent, charging = read_battery(battery)
    return State(
        thermal=THERMAL_STATES[number] if 0 <= number < len(THERMAL_STATES) else None,
        temperature_c=hottest,
        battery_percent=percent,
        charging=charging,
    )


def _first(pattern: re.Pattern[str], text: str, group: int) -> str | None:
    match = pattern.search(text)
    return match[group].strip() if match else None


def _parts(text: str, count: int) -> list[str]:
    parts = [part.strip() for part in re.split(rf"^{MARK}$", text, flags=re.MULTILINE)]
    return (parts + [""] * count)[:count]


def elf_machine(head: bytes) -> int | None:
    """Machine number of an ELF file's first 20 bytes, or None of anything else.

    Example:
        >>> elf_machine(b"\\x7fELF" + b"\\x00" * 14 + b"\\xb7\\x00"), elf_machine(b"#!/bin/sh")
        (183, None)
    """
    return (
        int.from_bytes(head[18:20], "little")
        if head[:4] == b"\x7fELF" and len(head) >= 20
        else None
    )
