"""Two and three plugins in stock pipelines: saved, opened again as what they were, and never as
random adapters in silence.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import (
    MultiAdapter,
    StableDiffusionAdapterPipeline,
    StableDiffusionPipeline,
    T2IAdapter,
)
from safetensors.torch import load_file, save_file

from unplug.core import CheckpointError, InputError
from unplug.plugins import CODE_FILE, ConditioningPlugin, MultiPlugin, load_checkpoint

from .conftest import SIZE, picture, steering_plugin, tiny_pipeline, tiny_unet

WEIGHTS = "diffusion_pytorch_model.safetensors"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("multi")
    tiny_pipeline(root / "tokenizer").save_pretrained(root / "base")
    return root / "base"


@pytest.fixture(scope="module")
def plugins(folder: Path) -> list[ConditioningPlugin]:
    unet = StableDiffusionPipeline.from_pretrained(folder).unet
    return [
        steering_plugin(unet, seed, condition=kind)
        for seed, kind in enumerate(("canny", "depth", "face_landmark"))
    ]


@pytest.fixture(scope="module")
def images() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.rand(1, 3, SIZE, SIZE, generator=generator) for _ in range(3)]


@pytest.mark.parametrize("count", [2, 3])
def test_a_saved_pipeline_opens_as_what_it_was(
    folder: Path,
    plugins: list[ConditioningPlugin],
    images: list[torch.Tensor],
    count: int,
    tmp_path: Path,
) -> None:
    opened, whole = StableDiffusionAdapterPipeline.from_pretrained, tmp_path / "whole"
    pipe = opened(folder, adapter=MultiPlugin(plugins[:count]))
    strengths = [1.0, 0.5, 0.75][:count]
    how: dict[str, Any] = {"image": images[:count], "adapter_conditioning_scale": strengths}
    drawn = picture(pipe, **how)
    stock = opened(folder, adapter=plugins[:count])
    assert type(stock.adapter) is MultiAdapter
    # a list of plugins is the same pictures
    np.testing.assert_allclose(picture(stock, **how), drawn, atol=1e-5)
    pipe.save_pretrained(whole)
    saved = {file.name for file in (whole / "adapter").iterdir()}
    assert saved == {"config.json", WEIGHTS, CODE_FILE}
    again = opened(whole)
    assert type(again.adapter) is MultiPlugin and not again.adapter.training
    conditions = [part.config.condition for part in again.adapter.adapters]
    assert conditions == ["canny", "depth", "face_landmark"][:count]
    adapter = MultiPlugin.from_pretrained(whole, subfolder="adapter")
    for other in (again, opened(folder, adapter=adapter)):
        assert np.array_equal(picture(other, **how), drawn)
    half = opened(whole, dtype=torch.bfloat16)
    assert {value.dtype for value in half.adapter.parameters()} == {torch.bfloat16}


@pytest.mark.long
def test_a_new_process_opens_it_once_the_class_is_imported(
    folder: Path, plugins: list[ConditioningPlugin], tmp_path: Path
) -> None:
    pipe = StableDiffusionAdapterPipeline.from_pretrained(folder, adapter=MultiPlugin(plugins[:2]))
    pipe.save_pretrained(tmp_path / "whole")
    code = f"""
from diffusers import StableDiffusionAdapterPipeline as Pipeline
try:
    Pipeline.from_pretrained({str(tmp_path / "whole")!r})
except ValueError as error:
    print("import unplug.plugins.multi_plugin before" in str(error))
from unplug.plugins import MultiPlugin
print(type(Pipeline.from_pretrained({str(tmp_path / "whole")!r}).adapter) is MultiPlugin)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert done.stdout.split() == ["True", "True"], done.stderr


def test_strengths_pictures_and_plugins_are_counted(
    plugins: list[ConditioningPlugin], images: list[torch.Tensor]
) -> None:
    both = MultiPlugin(plugins[:2])
    with torch.no_grad():
        one, other = plugins[0](images[0]), plugins[1](images[1])
        for given, (a, b) in (
            (None, (1, 1)),
            (0.5, (0.5, 0.5)),
            ([0.25, 2.0], (0.25, 2.0)),
            ([0, 1], (0, 1)),
        ):
            for residual, first, second in zip(both(images[:2], given), one, other, strict=True):
                torch.testing.assert_close(residual, a * first + b * second, rtol=1e-5, atol=1e-6)
    for count, weights, words in (
        (1, None, "condition images: 1 for 2 plugins"),
        (3, None, "condition images: 3 for 2"),
        (2, [1.0], "strengths: 1 for 2 plugins"),
        (2, [1.0, float("nan")], "not all are finite"),
    ):
        with pytest.raises(InputError, match=words):
            both(images[:count], weights)
    t2i = T2IAdapter(channels=[16, 32], num_res_blocks=1)
    other_base = steering_plugin(tiny_unet(channels=(16, 24)))
    for parts, words in (
        ([], "not 0"),
        (plugins[:1], "not 1"),
        (plugins * 3, "not 9"),
        (plugins[0], "not something else"),
        ([plugins[0], t2i], r"MultiPlugin\[1\]: it is a T2IAdapter, no plugin"),
        ([plugins[0], other_base], "its base is another one .*level 1: 24"),
    ):
        with pytest.raises(InputError, match=words):
            MultiPlugin(parts)  # type: ignore[arg-type]


def test_other_classes_refuse_the_folder_and_stock_ones_say_what_opens_it(
    folder: Path, plugins: list[ConditioningPlugin], tmp_path: Path
) -> None:
    """They would make adapters of random weights of it, and only a line in a log would tell."""
    one, two, listed = (tmp_path / name for name in ("one", "two", "list"))
    plugins[0].save_pretrained(one)
    both = MultiPlugin(plugins[:2])
    both.save_pretrained(two)
    pipe = StableDiffusionAdapterPipeline.from_pretrained(folder, adapter=plugins[:2])
    pipe.save_pretrained(listed)
    opens = "several together with MultiPlugin"
    for kind in (T2IAdapter, MultiAdapter):
        for place in (one, two):
            with pytest.raises(ValueError, match=rf"unplug\.plugins\.ConditioningPlugin, {opens}"):
                kind.from_pretrained(str(place))
    with pytest.raises(ValueError, match=opens):
        StableDiffusionAdapterPipeline.from_pretrained(listed)
    for name, condition in (("adapter", "canny"), ("adapter_1", "depth")):
        # and nothing of it is lost
        assert ConditioningPlugin.from_pretrained(listed / name).config.condition == condition
    for other, place, why in (
        (MultiPlugin, one, "model_type 'plugin'"),
        (ConditioningPlugin, two, "model_type 'multi-plugin'"),
        (MultiPlugin, tmp_path / "gone", "no such folder"),
    ):
        with pytest.raises(CheckpointError, match=why):
            other.from_pretrained(place)
    with pytest.raises(InputError, match="a pickle can run code"):
        both.save_pretrained(tmp_path / "x", safe_serialization=False)
    with pytest.raises(InputError, match="Export each of its plugins"):
        _ = both.iospec


def test_broken_folders_are_refused(plugins: list[ConditioningPlugin], tmp_path: Path) -> None:
    place = tmp_path / "two"
    MultiPlugin(plugins[:2]).save_pretrained(place)
    config, tensors = json.loads((place / "config.json").read_text()), load_file(place / WEIGHTS)
    (one, two), name = config["plugins"], min(tensors)
    lost = {key: value for key, value in tensors.items() if key != name}
    wide = two | {"widths": [10**9] * len(two["widths"])}
    assert load_checkpoint(place).model_type == "multi-plugin"
    for parts, weights, words in (
        ([one], tensors, "2 to 8 plugins, not 1"),
        ("x", tensors, "not something else"),
        ([one, two, one], tensors, "is missing"),
        ([one, {"widths": [2]}], tensors, "widths"),
        ([one, 7], tensors, "it is a int, no plugin"),
        ([one, wide], tensors, "out of range"),
        ([one, two], lost, "is missing"),
        ([one, two], tensors | {name: tensors[name] * float("nan")}, "NaN"),
    ):
        (place / "config.json").write_text(json.dumps(config | {"plugins": parts}))
        save_file(weights, place / WEIGHTS)
        with pytest.raises(CheckpointError, match=words):
            MultiPlugin.from_pretrained(place)
