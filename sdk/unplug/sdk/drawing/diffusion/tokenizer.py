"""A small CLIP tokenizer: byte-pair merges learned from the prompts that the base is trained on."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from unplug.core import InputError
from unplug.sdk.drawing.device import AddedToken, Tokenizer

START, END = "<|startoftext|>", "<|endoftext|>"
WORD_END = "</w>"
BYTES_AND_MARKS = 2 * 256 + 2
PRIVATE_USE = 0xE000
"""First code point of Unicode's private use area: no byte's character is there."""
Pair = tuple[str, str]
_MARKS = {"bos_token": START, "eos_token": END, "unk_token": END, "pad_token": END}


def train_tokenizer(prompts: Iterable[str], folder: Path, *, vocabulary: int, length: int) -> Any:
    """Learns merges and saves a ``CLIPTokenizer`` folder; any text can be tokenized, by its bytes
    at worst.

    Args:
        prompts: the prompts to learn from; their order does not matter.
        folder: the folder that ``CLIPTokenizer.from_pretrained`` will read.
        vocabulary: tokens at most, at least 514 (256 bytes, each inside and at the end of a word,
            and two marks).
        length: tokens a prompt, padding included.

    Returns:
        The tokenizer.

    Raises:
        InputError: a vocabulary that does not hold the bytes.
    """
    if vocabulary < BYTES_AND_MARKS:
        raise InputError(
            f"vocabulary {vocabulary}", "too small for the bytes", f"Use {BYTES_AND_MARKS} or more"
        )
    from tokenizers import pre_tokenizers
    from transformers import CLIPTokenizer

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    untrained = [*letters, *(f"{letter}{WORD_END}" for letter in letters)]
    merges: list[Any] = [*learn_merges(_words(prompts), vocabulary - BYTES_AND_MARKS)]
    tokens = [*untrained, *("".join(pair) for pair in merges), START, END]
    vocab = {token: index for index, token in enumerate(dict.fromkeys(tokens))}
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = CLIPTokenizer(vocab=vocab, merges=merges, model_max_length=length, **_MARKS)
    tokenizer.save_pretrained(folder)
    return tokenizer


def spelled_words(tokenizer: Any, words: Iterable[str]) -> tuple[str, ...]:
    """Those of some words that are no token, each once: a prompt with one of them is spelled."""
    parts = (part.lower() for text in words for part in text.split())
    return tuple(dict.fromkeys(part for part in parts if len(tokenizer.tokenize(part)) != 1))


def teach_words(tokenizer: Any, text_encoder: Any, words: Sequence[str]) -> Any:
    """A tokenizer with new tokens, and rows for them in the text encoder, which is changed in place.

    A new word starts as the mean of the pieces that it was spelled with, and is cut out of a prompt
    only where it stands alone: prompts without it keep their ids.

    Args:
        tokenizer: not changed.
        text_encoder: the text encoder for its tokens.
        words: `spelled_words` of it.

    Reference:
        Hewitt, Initializing New Word Embeddings for Pretrained Language Models, 2021.
    """
    from torch import nn
    from transformers import AddedToken as Token

    before = text_encoder.get_input_embeddings()
    pieces = [tokenizer.convert_tokens_to_ids(tokenizer.tokenize(word)) for word in words]
    table_VD = before.weight.detach()[: len(tokenizer)]
    rows = [table_VD[ids].mean(dim=0, keepdim=True) for ids in pieces]
    taught = copy.deepcopy(tokenizer)
    # `normalized` finds them in any case, as all other words are.
    taught.add_tokens([Token(word, single_word=True, normalized=True) for word in words])
    text_encoder.set_input_embeddings(nn.Embedding.from_pretrained(torch.cat([table_VD, *rows])))
    text_encoder.config.vocab_size = len(taught)
    return taught


def open_tokenizer(folder: Path) -> Any:
    """The tokenizer that `train_tokenizer` saved."""
    from transformers import CLIPTokenizer

    return CLIPTokenizer.from_pretrained(folder, local_files_only=True)


def _words(prompts: Iterable[str]) -> list[str]:
    """All different words, as CLIP's tokenizer cuts texts, one character a byte."""
    from transformers import CLIPTokenizer

    backend = CLIPTokenizer(
        vocab={START: 0, END: 1}, merges=[], unk_token=END, bos_token=START, eos_token=END
    ).backend_tokenizer
    words: set[str] = set()
    for prompt in set(prompts):
        words |= {
            word
            for word, _ in backend.pre_tokenizer.pre_tokenize_str(
                backend.normalizer.normalize_str(prompt)
            )
        }
    return sorted(words)


def learn_merges(words: Sequence[str], most: int) -> list[Pair]:
    """Merges that make up to `most` new tokens: again and again the pair of neighbours that is in
    most places of the words.

    The last letter of a word goes through the trainer as a character of its own. Given as the
    trainer's own `end_of_word_suffix`, those letters would be numbered in the order of a hash
    table, by which the trainer breaks ties: the same prompts would give other tokens in the next
    process.

    Args:
        words: one character a byte, each counted once.
        most: new tokens.

    Example:
        >>> learn_merges(["low", "lower", "lowest"], 2)
        [('l', 'o'), ('w', 'e')]

    Reference:
        Sennrich et al., Neural Machine Translation of Rare Words with Subword Units, 2016, section
        3.2.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    last = {letter: chr(PRIVATE_USE + number) for number, letter in enumerate(letters)}
    alphabet = [*letters, *last.values()]
    backend = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=len(alphabet) + most, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator([word[:-1] + last[word[-1]] for word in words if word], trainer)
    spelled = str.maketrans(
        {character: f"{letter}{WORD_END}" for letter, character in last.items()}
    )
    return [
        (one.translate(spelled), two.translate(spelled))
        for one, two in json.loads(backend.to_str())["model"]["merges"]
    ]


def plain_tokenizer(tokenizer: Any) -> Tokenizer:
    """transformers' tokenizer as the one that exported files are read with, which gives the same
    ids.
    """
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    names = ("single_word", "lstrip", "rstrip", "normalized")
    added = tokenizer.added_tokens_decoder.items()
    return Tokenizer(
        vocabulary=tuple(sorted(vocabulary := tokenizer.get_vocab(), key=vocabulary.__getitem__)),
        merges=tuple(pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]),
        length=tokenizer.model_max_length,
        start=tokenizer.bos_token_id,
        end=tokenizer.eos_token_id,
        padding=tokenizer.pad_token_id,
        added=tuple(
            AddedToken(id=number, **{name: getattr(item, name) for name in names})
            for number, item in added
        ),
    )


def encode(tokenizer: Any, prompts: list[str]) -> Any:
    """Token ids (B, L) of prompts, padded and cut to the tokenizer's length, as diffusers'
    pipelines do.
    """
    return tokenizer(
        prompts,
        padding="max_length",
        max_length=tokenizer.model_max_length,
        truncation=True,
        return_tensors="pt",
    ).input_ids
