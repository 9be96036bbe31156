"""The text encoder is transformers' CLIP, tensor by tensor, and takes no configuration that nobody
has.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from unplug.core import CheckpointError
from unplug.plugins import load_checkpoint

CONFIG = {
    "vocab_size": 40,
    "hidden_size": 24,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "max_position_embeddings": 9,
    "bos_token_id": 38,
    "eos_token_id": 39,
    "pad_token_id": 39,
}


@pytest.fixture(scope="module")
def theirs() -> Any:
    """transformers' network by activation."""
    from transformers import CLIPTextConfig, CLIPTextModel

    torch.manual_seed(0)
    return {
        name: CLIPTextModel(CLIPTextConfig(**CONFIG, hidden_act=name)).eval()
        for name in ("quick_gelu", "gelu")
    }


@pytest.mark.parametrize("activation", ["quick_gelu", "gelu"])
def test_it_is_transformers_own(theirs: Any, activation: str, tmp_path: Path) -> None:
    theirs[activation].save_pretrained(tmp_path / "text_encoder")
    mine = load_checkpoint(tmp_path / "text_encoder")
    assert mine.model_type == "text_encoder"
    ids = torch.randint(0, 40, (3, 9), dtype=torch.int32)
    with torch.inference_mode():
        wanted = theirs[activation](ids.long()).last_hidden_state
        assert torch.allclose(mine.model(ids)[0], wanted, atol=2e-6)
    (given,), (made,) = mine.model.iospec.inputs, mine.model.iospec.outputs
    assert (given.dtype, given.shape, given.range) == (
        "int32",
        (1, 9),
        (0.0, 39.0),
    ) and made.shape == (1, 9, 24)


def test_a_later_word_changes_no_earlier_state(theirs: Any, tmp_path: Path) -> None:
    theirs["gelu"].save_pretrained(tmp_path)
    model = load_checkpoint(tmp_path).model
    ids = torch.arange(9, dtype=torch.int32)[None]
    other = torch.where(torch.arange(9) < 5, ids, 30)
    with torch.inference_mode():
        one, two = model(ids)[0], model(other)[0]
    assert torch.equal(one[:, :5], two[:, :5]) and not torch.allclose(one[:, 5:], two[:, 5:])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"vocab_size": 10**9}, "vocab_size 1000000000: out of range"),
        ({"hidden_size": "wide"}, "hidden_size wide: out of range"),
        ({"num_hidden_layers": True}, "num_hidden_layers True"),
        ({"num_attention_heads": 5}, "hidden_size 24: not divisible by 5 heads"),
        ({"hidden_act": "tanh"}, "hidden_act tanh: not known here"),
        ({"layer_norm_eps": 0}, "layer_norm_eps 0"),
        (
            {"max_position_embeddings": 1024, "hidden_size": 8192, "num_attention_heads": 1},
            "it asks for [0-9,]+ parameters",
        ),
        ({"num_hidden_layers": 1}, "does not belong to this model"),
    ],
)
def test_broken_configurations(
    theirs: Any, tmp_path: Path, values: dict[str, Any], words: str
) -> None:
    theirs["gelu"].save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    with pytest.raises(CheckpointError, match=words):
        load_checkpoint(tmp_path)


def test_names_of_every_version_of_transformers(theirs: Any, tmp_path: Path) -> None:
    """Version 4 puts a prefix in front, and older ones store the positions too."""
    theirs["gelu"].save_pretrained(tmp_path)
    file, ids = tmp_path / "model.safetensors", torch.arange(9, dtype=torch.int32)[None]
    plain = {name.removeprefix("text_model."): value for name, value in load_file(file).items()}
    older = {f"text_model.{name}": value for name, value in plain.items()}
    answers = []
    for tensors in (plain, older | {"text_model.embeddings.position_ids": torch.arange(9)[None]}):
        save_file(tensors, file)
        answers.append(load_checkpoint(tmp_path).model(ids)[0])
    assert torch.equal(*answers)
