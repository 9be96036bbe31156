"""What brings an erased concept back, and the registry of those ways that unplug knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import ClassVar, Protocol

from PIL import Image

from unplug.core import InputError, Registry

from .findings import Claim
from .findings import Unable as Unable
from .practice import Practice
from .scene import Scene


class ConceptAttack(Protocol):
    """A frozen dataclass of settings that draws pictures in which the concept may be back.

    Attributes:
        holds: the attacker's means.
    """

    holds: ClassVar[Claim]

    def __call__(self, scene: Scene) -> Iterator[tuple[str, list[Image.Image]]]:
        """Draws the pictures of each variant of the attack, by the variant's name.

        Raises:
            Unable: the scene lacks what it needs: a reason to leave it out, which is told.
        """


_HERE = "unplug.sdk.evidence.concepts.attacks"
CONCEPT_ATTACKS: Registry[Callable[[], ConceptAttack]] = Registry(
    "concept attack",
    {
        "named": f"{_HERE}.named:Named",
        "within": f"{_HERE}.within:Within",
        "control-image": f"{_HERE}.control_image:ControlImage",
        "image-to-image": f"{_HERE}.image_to_image:ImageToImage",
        "inversion": f"{_HERE}.inversion:Inversion",
        "inverse-matrix": f"{_HERE}.inverse_matrix:InverseMatrix",
        "relearn": f"{_HERE}.relearn:Relearn",
    },
    group="unplug.concept_attacks",
)
USUAL_ATTACKS = ("named", "within", "control-image", "inverse-matrix", "relearn")
"""What an audit tries where nobody says which."""


def attack_of(name: str) -> ConceptAttack:
    """The attack of a name.

    Args:
        name: a name in `CONCEPT_ATTACKS`, or ``NAME:STEPS`` for more or fewer steps of an attack
            that learns.

    Raises:
        InputError: no such attack, or STEPS where nothing is learned.
    """
    known, colon, steps = name.partition(":")
    attack = CONCEPT_ATTACKS.get(known)()
    if not colon:
        return attack
    if not isinstance(attack, Practice) or not steps.isdecimal():
        why = (
            "only an attack that learns takes steps"
            if steps.isdecimal()
            else "STEPS is not a number"
        )
        raise InputError(f"attack {name[:100]!r}", why, "Write it as relearn:100")
    return replace(attack, steps=int(steps))
