"""A small CLIP tokenizer: byte-pair merges learned from the prompts that the base is trained on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from unplug.plugins.errors import InputError

START, END = "<|startoftext|>", "<|endoftext|>"
BYTES_AND_MARKS = 2 * 256 + 2


def train_tokenizer(prompts: Iterable[str], folder: Path, *, vocabulary: int, length: int) -> Any:
    """Learns merges and saves a ``CLIPTokenizer`` folder; any text can be tokenized, by its bytes at worst.

    Args:
        prompts: what to learn from; their order does not matter.
        folder: where ``CLIPTokenizer.from_pretrained`` finds it again.
        vocabulary: tokens at most, at least 514 (256 bytes, each inside and at the end of a word, and two marks).
        length: tokens a prompt, padding included.

    Returns:
        The tokenizer.

    Raises:
        InputError: a vocabulary that does not hold the bytes.

    Reference:
        Sennrich et al., Neural Machine Translation of Rare Words with Subword Units, 2016, section 3.2.
    """
    if vocabulary < BYTES_AND_MARKS:
        raise InputError(f"vocabulary {vocabulary}", "too small for the bytes", f"Use {BYTES_AND_MARKS} or more")
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
    from transformers import CLIPTokenizer

    bpe = Tokenizer(models.BPE(unk_token=END, end_of_word_suffix="</w>"))
    bpe.normalizer = normalizers.Lowercase()
    bpe.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel(False)])
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, end_of_word_suffix="</w>", show_progress=False, initial_alphabet=alphabet
    )
    words = sorted({word for prompt in prompts for word in prompt.replace(",", " , ").split()})
    bpe.train_from_iterator(words, trainer)
    # The trainer counts only those ends of words that it met; all of them are to be kept.
    merges: Any = [tuple(pair) for pair in json.loads(bpe.to_str())["model"]["merges"]][: vocabulary - BYTES_AND_MARKS]
    tokens = [*alphabet, *(f"{letter}</w>" for letter in alphabet), *("".join(pair) for pair in merges), START, END]
    vocab = {token: index for index, token in enumerate(dict.fromkeys(tokens))}
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = CLIPTokenizer(
        vocab=vocab, merges=merges, unk_token=END, bos_token=START, eos_token=END, pad_token=END, model_max_length=length
    )
    tokenizer.save_pretrained(folder)
    return tokenizer


def encode(tokenizer: Any, prompts: list[str]) -> Any:
    """Token ids (B, L) of prompts, padded and cut to the tokenizer's length, as diffusers' pipelines do."""
    return tokenizer(
        prompts, padding="max_length", max_length=tokenizer.model_max_length, truncation=True, return_tensors="pt"
    ).input_ids
