"""What is erased: the words of a concept, what prompts that say them shall give instead, and which
wishes contradict each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unplug.core import InputError
from unplug.sdk.drawing.device import asks_for, check_words, words_of


def joined(prompt: str, words: str) -> str:
    """A prompt that says some words at its end.

    Example:
        >>> joined("a portrait of a child", "glasses"), joined("", "glasses"), joined("a child", "")
        ('a portrait of a child, glasses', 'glasses', 'a child')
    """
    return ", ".join(filter(None, (prompt, words)))


@dataclass(frozen=True, kw_only=True)
class Concept:
    """What a base must no longer draw.

    Args:
        words: the words as prompts say them.
        target: the target that prompts with the words shall give instead; "" is the prompt without
            the words.

    Raises:
        InputError: words that no prompt can say, or a target that asks for them.
    """

    words: str
    target: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", check_words(self.words))
        if asks_for(self.target, self.words):
            why = f"it asks for {self.words!r} itself"
            raise InputError(f"target {self.target!r}", why, "Give another, or none")

    def named(self, prompt: str) -> str:
        """The prompt with the words at its end."""
        return joined(prompt, self.words)

    def instead(self, prompt: str) -> str:
        """What that prompt shall give."""
        return joined(prompt, self.target)


def check_wishes(
    concepts: Sequence[Concept], earlier: Sequence[Concept], retained: Sequence[str]
) -> None:
    """Refuses wishes that cannot all come true.

    Args:
        concepts: the concepts to erase now.
        earlier: erased from this base before.
        retained: words that must go on working.

    Raises:
        InputError: none or the same concept twice, a retained one among them, or a target that is
            itself erased.
    """
    if not concepts:
        raise InputError("`concepts`", "there is none", "Give the words to erase")
    every, before = (*earlier, *concepts), [words_of(item.words) for item in earlier]
    keys = [words_of(item.words) for item in every]
    for concept, key in zip(concepts, keys[len(earlier) :], strict=True):
        if keys.count(key) > 1:
            why = "it was erased before" if key in before else "it is there twice"
            raise InputError(f"concept {concept.words!r}", why, "Leave it out")
    for concept in every:
        for kept in retained:
            if asks_for(kept, concept.words):
                why = f"it asks for {concept.words!r}, which is erased"
                raise InputError(f"retained {kept!r}", why, "Keep it or erase it")
        for other in every:
            if asks_for(concept.target, other.words):
                why = f"it is the target of {concept.words!r}"
                fix = "Erase it with another target"
                raise InputError(f"concept {other.words!r}", why, fix)
