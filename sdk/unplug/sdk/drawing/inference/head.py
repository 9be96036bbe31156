"""A head that a phone adds people to and forgets them from, without a server, a network or torch:
the reference for the apps.

What `unplug head make` writes of a closed-form model is one file: a fixed lift, integer sums over
everybody who is in, and a commitment to each of them. The exported trunk gives the pooled features
of a picture. docs/formats.md says step by step what is computed, for Kotlin, Swift and TypeScript;
`tests/vectors/head` holds a run of it.

Shapes: N pictures, C pooled channels, D lifted features, G age groups or classes, K = D + 1 + G
    (features, one, groups), of ages and one more: the age.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from unplug.core import (
    STRICT,
    Array,
    InputError,
    atomic_path,
    check_content,
    parse_json,
    read_regular,
)
from unplug.plugins import MAX_CLASS_NAME, MAX_CLASSES

SCHEMA: Literal["unplug-head/1"] = "unplug-head/1"
BITS, FEATURE_RANGE, AGE_RANGE, WIDTH = 20, 6, 7, 4.0
"""Bits of a number in the sums; powers of two that features and ages stay below; years that soft
age groups are wide.
"""
MAX_BYTES = 2**28
MAX_FEATURES, MAX_CHANNELS, MAX_GROUPS, MAX_PEOPLE = 4096, 4096, MAX_CLASSES, 2_000_000
RIDGES, GRIDS, SCALES = (1e-9, 1e6), (2.0**-40, 2.0**10), (1e-6, 1e6)
"""What the facts may be: beyond it float64 runs over, and a head that was edited would answer with
something other than numbers.
"""
RESTORE = "Make it again with `unplug head make`"
Float = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class HeadFacts:
    """``unplug-head/1``: what a head is computed by.

    Args:
        trunk_sha256: the hash of the trunk's weight file; only that trunk's features mean anything
            here.
        grid: pooled features are rounded to multiples of it.
        ridge: penalty a picture.
        scale: the factor that group scores are multiplied by.
        edges: G + 1 borders of the age groups in years; the age is held between the first and the
            last. None of them: the head tells classes.
        classes: their G names, of 1 to 100 letters. A file has either these or edges.
        digest: SHA-256 over the tensors, in the order of `TENSORS`.
    """

    __pydantic_config__: ClassVar = STRICT

    trunk_sha256: str
    grid: float
    ridge: float
    scale: float
    edges: tuple[float, ...] = ()
    classes: tuple[str, ...] = ()
    digest: str = ""
    schema: Literal["unplug-head/1"] = SCHEMA


TENSORS = {
    "lift": np.float32,
    "offset": np.float32,
    "centers": np.float64,
    "sums": np.int64,
    "committed": np.uint8,
}
"""Names and types: (D, C), (D,), (G,), the upper triangle of (K, K) row by row, and 32 bytes a
picture in rising order.
"""


@dataclass(frozen=True, kw_only=True)
class DeviceHead:
    """The head: what it is computed by, and who is in it. The truth of a picture is an age in
    years, or the number of its class.

    Args:
        facts: see `HeadFacts`.
        lift_DC, offset_D: the fixed features relu(L x + l).
        center_G: years in the middle of each age group, zeros of classes.
        sums_KK: sum of z z^T over everybody, z = (features, 1, groups, age) in units of 2^-20 of
            each column's range; of classes z has no age, and groups are 1 for the picture's class.
        committed: SHA-256 of every picture that is in, see `commitment`.

    Example:
        ``head = load_head("head.safetensors").add("me-1", features_C, 31.0)``
    """

    facts: HeadFacts
    lift_DC: Float
    offset_D: Float
    center_G: Float
    sums_KK: NDArray[np.int64]
    committed: frozenset[bytes]

    def add(self, name: str, pooled_C: Array, truth: float) -> DeviceHead:
        """The head with one more picture: its name, the trunk's features of it, and the truth.

        Raises:
            InputError: it is in already, is not of this trunk's width, or is not finite.
        """
        digest, z_K = self._read(name, pooled_C, truth)
        if digest in self.committed:
            raise InputError(
                f"picture {name}", "it is in this head already", "Give other pictures other names"
            )
        return replace(
            self, sums_KK=self.sums_KK + np.outer(z_K, z_K), committed=self.committed | {digest}
        )

    def remove(self, name: str, pooled_C: Array, truth: float) -> DeviceHead:
        """The head without a picture, as if it had never been there, bit for bit.

        Raises:
            InputError: that picture under that name and truth is not in it, or nobody would be
                left.
        """
        digest, z_K = self._read(name, pooled_C, truth)
        if digest not in self.committed:
            word = "class" if self.facts.classes else "age"
            why = f"this picture, under this name and with this {word}, is not in this head"
            raise InputError(
                f"picture {name}", why, f"Give name, picture and {word} as they were added"
            )
        if len(self.committed) == 1:
            raise InputError(
                f"picture {name}", "nobody would be left in this head", "Delete the head instead"
            )
        return replace(
            self, sums_KK=self.sums_KK - np.outer(z_K, z_K), committed=self.committed - {digest}
        )

    def weights(self) -> tuple[Float, Float]:
        """W (G + 1, D) and b (G + 1,): argmin sum |W a + b - y|^2 + ridge N |W|^2, by Cholesky of
        the scaled normal equations.

        Raises:
            InputError: the equations are singular, which sums of real pictures are not.
        """
        features = len(self.lift_DC)
        range_K = 2.0**self._exponent_K
        # Powers of two alone: float64 gives the same bits in every language.
        gram_KK = self.sums_KK * 2.0 ** (-2 * BITS) * range_K[:, None] * range_K
        gram_PP, cross_PG = (
            gram_KK[: features + 1, : features + 1].copy(),
            gram_KK[: features + 1, features + 1 :],
        )
        gram_PP[np.arange(features), np.arange(features)] += self.facts.ridge * len(self.committed)
        scale_P = 1.0 / np.sqrt(gram_PP.diagonal())
        try:
            low_PP = np.linalg.cholesky(gram_PP * scale_P[:, None] * scale_P)
        except np.linalg.LinAlgError as error:
            raise InputError("head", "its equations are singular", RESTORE) from error
        half_PG = np.linalg.solve(low_PP, scale_P[:, None] * cross_PG)
        solved_PG = scale_P[:, None] * np.linalg.solve(low_PP.T, half_PG)
        return solved_PG[:-1].T.copy(), solved_PG[-1].copy()

    def answer(self, pooled_NC: Array) -> dict[str, Float]:
        """``age_logits`` (N, G) and ``expected_age`` (N, 1) in years, or ``logits`` (N, G) of
        classes, of the trunk's features of N pictures.

        Features are not rounded here, as they are not in the network that ships.
        """
        weight_KD, bias_K = self.weights()
        answer_NK = self._lifted(np.asarray(pooled_NC, np.float64), np.inf) @ weight_KD.T + bias_K
        if not np.isfinite(answer_NK).all():
            raise InputError("head", "it answers with something other than numbers", RESTORE)
        if self.facts.classes:
            return {"logits": self.facts.scale * answer_NK}
        ages = self.facts.edges
        return {
            "age_logits": self.facts.scale * answer_NK[:, :-1],
            "expected_age": answer_NK[:, -1:].clip(ages[0], ages[-1]),
        }

    def commitment(self, name: str, pooled_C: Array, truth: float) -> bytes:
        """SHA-256 of name (UTF-8), a zero byte, the rounded features (int32, little-endian) and the
        truth (float64).
        """
        return hashlib.sha256(
            name.encode()
            + b"\0"
            + self._steps(pooled_C).astype("<i4").tobytes()
            + np.array(truth, "<f8").tobytes()
        ).digest()

    def save(self, path: Path) -> None:
        """Writes the file, whole or not at all; its owner's alone, for it sums up faces."""
        from safetensors.numpy import save

        tensors = self._tensors()
        facts = asdict(replace(self.facts, digest=_digest(tensors)))
        del facts["edges" if self.facts.classes else "classes"]
        with atomic_path(path, private=True) as temporary:
            temporary.write_bytes(
                save(tensors, metadata={"unplug": json.dumps(facts, sort_keys=True)})
            )

    def _tensors(self) -> dict[str, NDArray[Any]]:
        rows = [np.frombuffer(item, np.uint8) for item in sorted(self.committed)]
        return {
            "lift": self.lift_DC.astype(np.float32),
            "offset": self.offset_D.astype(np.float32),
            "centers": self.center_G,
            "sums": self.sums_KK[np.triu_indices(len(self.sums_KK))],
            "committed": np.stack(rows),
        }

    @property
    def _exponent_K(self) -> Float:
        groups, aged = [1] * len(self.center_G), [] if self.facts.classes else [AGE_RANGE]
        return np.array([FEATURE_RANGE] * len(self.lift_DC) + [1] + groups + aged, np.float64)

    def _steps(self, pooled_C: Array) -> Float:
        pooled_C = np.asarray(pooled_C, np.float64).reshape(-1)
        if len(pooled_C) != self.lift_DC.shape[1] or not np.isfinite(pooled_C).all():
            why = (
                f"{len(pooled_C)} features where this trunk has {self.lift_DC.shape[1]}, or some "
                "are no numbers"
            )
            raise InputError("picture", why, "Give what the exported trunk says of it")
        steps_C = np.rint(pooled_C / self.facts.grid)
        if (abs(steps_C) >= 2**31).any():
            raise InputError(
                "picture",
                "its features are far larger than any of this trunk",
                "Give what the exported trunk says",
            )
        return np.asarray(steps_C, np.float64)

    def _lifted(self, pooled_NC: Float, most: float) -> Float:
        with np.errstate(over="ignore", invalid="ignore"):  # who answers looks at what came of it
            return np.asarray(
                (pooled_NC @ self.lift_DC.T + self.offset_D).clip(0.0, most), np.float64
            )

    def _read(self, name: str, pooled_C: Array, truth: float) -> tuple[bytes, NDArray[np.int64]]:
        """The commitment, and z as integers."""
        targets = self._one_hot(truth) if self.facts.classes else self._aged(truth)
        steps_C = self._steps(pooled_C)
        feature_D = self._lifted(steps_C[None] * self.facts.grid, 2.0**FEATURE_RANGE)[0]
        z_K = np.concatenate([feature_D, [1.0], targets])
        return self.commitment(name, pooled_C, truth), np.rint(
            z_K * 2.0 ** (BITS - self._exponent_K)
        ).astype(np.int64)

    def _aged(self, age: float) -> Float:
        """Soft age groups and the age (G + 1,)."""
        if not (math.isfinite(age) and 0.0 <= age < 2.0**AGE_RANGE):
            raise InputError(
                f"age {age}", "it is not an age", f"Give years from 0 up to {2**AGE_RANGE - 1}"
            )
        power_G = -0.5 * ((self.center_G - age) / WIDTH) ** 2
        # less the largest: one group is 1 however far the age is from all centres
        odds_G = np.exp(power_G - power_G.max())
        return np.append(odds_G / odds_G.sum(), age)

    def _one_hot(self, number: float) -> Float:
        if number not in range(len(self.facts.classes)):
            known = ", ".join(self.facts.classes[:9])
            raise InputError(f"class {number}", "no class has this number", f"Known are {known}")
        one_G = np.zeros(len(self.facts.classes))
        one_G[int(number)] = 1.0
        return one_G


def load_head(path: str | Path) -> DeviceHead:
    """Reads a head; the file may come from anywhere.

    Raises:
        InputError: no head, one that was edited or cut, or numbers that do not belong together.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    raw = read_regular(Path(path), max_bytes=MAX_BYTES)
    check_content(Path(path))
    try:
        size = int.from_bytes(raw[:8], "little")
        text = parse_json(raw[8 : 8 + size])["__metadata__"]["unplug"]
        tensors = load(raw)
        facts = _facts(parse_json(text.encode()))
        head = _opened(facts, tensors)
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(str(path), f"it is not a head ({error})", RESTORE) from error
    if facts.digest != _digest(tensors):
        raise InputError(
            str(path), "its numbers are not those that were written (SHA-256 differs)", RESTORE
        )
    return head


def _facts(raw: Any) -> HeadFacts:
    from pydantic import TypeAdapter

    facts: HeadFacts = TypeAdapter(HeadFacts).validate_json(json.dumps(raw))
    ranges = ((facts.ridge, RIDGES), (facts.grid, GRIDS), (facts.scale, SCALES))
    inside = all(low <= value <= high for value, (low, high) in ranges)
    rising = len(facts.edges) >= 3 and all(
        low < high for low, high in itertools.pairwise(facts.edges)
    )
    rising = rising and not facts.classes and all(map(math.isfinite, facts.edges))
    named = not facts.edges and len(set(facts.classes)) == len(facts.classes) >= 2
    named = named and all(1 <= len(name) <= MAX_CLASS_NAME for name in facts.classes)
    # an empty list of the other kind is one more spelling of the same head
    if not inside or not (rising or named) or {"edges", "classes"} <= raw.keys():
        raise ValueError("its settings are out of range")
    return facts


def _opened(facts: HeadFacts, tensors: dict[str, NDArray[Any]]) -> DeviceHead:
    """The head that the tensors give; `ValueError` where they do not belong together."""
    wrong = [
        name for name, kind in TENSORS.items() if name not in tensors or tensors[name].dtype != kind
    ]
    if wrong or len(tensors) != len(TENSORS):
        raise ValueError(f"its tensors are not {', '.join(TENSORS)} in their types")
    lift_DC, offset_D, center_G, sums, rows = (tensors[name] for name in TENSORS)
    groups = len(facts.classes) or len(facts.edges) - 1
    features = len(lift_DC) if lift_DC.ndim == 2 else 0
    size = features + 1 + groups + (not facts.classes)
    shapes = (offset_D.shape, center_G.shape, sums.shape, rows.shape[1:])
    if (
        shapes != ((features,), (groups,), (size * (size + 1) // 2,), (32,))
        or not 0 < features <= MAX_FEATURES
    ):
        raise ValueError("its tensors have other shapes")
    if not (
        0 < lift_DC.shape[1] <= MAX_CHANNELS
        and groups <= MAX_GROUPS
        and 0 < len(rows) <= MAX_PEOPLE
    ):
        raise ValueError("it is larger than any head")
    if not all(np.isfinite(item).all() for item in (lift_DC, offset_D, center_G)):
        raise ValueError("some of its values are not numbers")
    sums_KK = np.zeros((size, size), np.int64)
    sums_KK[np.triu_indices(size)] = sums
    # The file holds the upper triangle; the matrix is symmetric.
    sums_KK = np.triu(sums_KK) + np.triu(sums_KK, 1).T
    committed = frozenset(row.tobytes() for row in rows)
    # The column of ones is 2^(20-1) in its units: its square counts the pictures.
    inside = int(sums_KK[features, features]) >> 2 * (BITS - 1)
    if len(committed) != len(rows) or inside != len(rows) or (sums_KK.diagonal() < 0).any():
        raise ValueError(f"its sums hold {inside} pictures where {len(rows)} are named")
    return DeviceHead(
        facts=facts,
        lift_DC=lift_DC.astype(np.float64),
        offset_D=offset_D.astype(np.float64),
        center_G=center_G,
        sums_KK=sums_KK,
        committed=committed,
    )


def _digest(tensors: dict[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name in TENSORS:
        digest.update(name.encode() + b"\0" + np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()
