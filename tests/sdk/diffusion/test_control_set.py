"""What a control is trained on: every sample beside its own picture, words and condition, and only those that have one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from unplug.core import DataError, InputError
from unplug.plugins.conditions import build_condition
from unplug.sdk.conditions.arrays import _digest
from unplug.sdk.data import Dataset, captions_digest, captions_of, load_dataset
from unplug.sdk.diffusion import ControlSet, load_control_set, to_image
from unplug.sdk.diffusion import control_set as module
from unplug.sdk.diffusion.control_set import ControlDraws
from unplug.sdk.diffusion.tokenizer import encode

from .conftest import CPU, SIZE

N, K = 7, 3


def numbered() -> ControlSet:
    """Every array says of which row it is; three samples lack the condition."""
    rows = np.arange(N + 3)
    return ControlSet(
        ids=tuple(f"s{row}" for row in rows if row % 3), rows=rows[rows % 3 > 0],
        latent=np.broadcast_to(rows[:, None, None, None], (N + 3, 1, 2, 2)).astype(np.float16),
        condition=np.broadcast_to(rows[:, None, None, None] * 20, (N + 3, 4, 4, 3)).astype(np.uint8),
        text=np.broadcast_to(np.arange(K * (N + 3) + 1)[:, None, None], (K * (N + 3) + 1, 2, 2)).astype(np.float16),
        prompt=1 + K * rows[:, None] + np.arange(K), empty=np.zeros((2, 2), np.float16), subject=rows * 11,
        prompts=("", *(f"{row} {which}" for row in rows for which in range(K))),
    )  # fmt: skip


DATA = numbered()


@given(ids=st.lists(st.sampled_from([*DATA.ids, "s0", "s3", "nobody"]), max_size=12), variant=st.integers(0, 2**31))
def test_a_subset_keeps_everything_of_a_sample_together(ids: list[str], variant: int) -> None:
    part = DATA.subset(ids)
    kept = [int(name[1:]) for name in ids if name in DATA.ids]
    assert part.ids == tuple(f"s{row}" for row in kept) and part.rows.tolist() == kept
    assert part.subset(part.ids[:1]).ids == part.ids[:1]
    index = torch.arange(len(part))
    for which, batch in ((0, part.batch(index, CPU)), (variant % K, part.batch(index, CPU, variant_B=index * 0 + variant))):
        assert batch["latent_Bchw"][:, 0, 0, 0].tolist() == kept
        assert (batch["condition_BCHW"][:, 0, 0, 0] * 255).round().tolist() == [20 * row for row in kept]
        assert batch["text_BLD"][:, 0, 0].tolist() == [1 + K * row + which for row in kept]
    assert part.subject[part.rows].tolist() == [11 * row for row in kept]
    assert [part.prompts[part.prompt[row, 0]] for row in part.rows] == [f"{row} 0" for row in kept]


def test_batches_are_floats_and_draws_leave_out_their_share() -> None:
    batch = DATA.batch(torch.tensor([5, 0, 0]), CPU)
    names = ("latent_Bchw", "text_BLD", "condition_BCHW")
    assert {key: value.dtype for key, value in batch.items()} == dict.fromkeys(names, torch.float32)
    assert batch["condition_BCHW"].is_contiguous(memory_format=torch.channels_last)
    assert tuple(batch["condition_BCHW"].shape) == (3, 3, 4, 4)
    batch["latent_Bchw"].zero_()
    assert DATA.latent[1].any(), "a batch shares memory with the cache"

    def drawn(drop: float, seed: int = 0) -> dict[str, torch.Tensor]:
        return ControlDraws(DATA, drop, CPU)(torch.Generator().manual_seed(seed), 400)

    for batch, share in ((drawn(0.0), 0.0), (drawn(1.0), 1.0), (drawn(0.25), 0.25)):
        gone = (batch["text_BLD"] == 0).all(dim=2).all(dim=1)
        assert float(gone.double().mean()) == pytest.approx(share, abs=0.09 * (0 < share < 1))
        row, text = batch["latent_Bchw"][:, 0, 0, 0], batch["text_BLD"][:, 0, 0]
        assert bool(((text - 1) // K == row)[~gone].all())
        if not share:
            assert {int(which) for which in (text - 1) % K} == set(range(K)) and {int(r) for r in row} == set(
                DATA.rows.tolist()
            )
    assert torch.equal(drawn(0.5)["text_BLD"], drawn(0.5)["text_BLD"])
    assert not torch.equal(drawn(0.5)["latent_Bchw"], drawn(0.5, seed=1)["latent_Bchw"])


def test_refused_sets(base: Any, tmp_path: Path, faces: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"data at 32 px: the base makes pictures of 64 px. Load it at 64"):
        load_control_set(base, load_dataset("synth:n=2", 32, show=False), "canny", show=False)
    Image.new("RGB", (80, 80)).save(tmp_path / "a.png")
    with pytest.raises(DataError, match="it has no captions"):
        load_control_set(base, load_dataset(f"imagefolder:{tmp_path}", SIZE, show=False), "canny", show=False)
    for kind, options in (("cany", {}), ("canny", {"hight": "3"}), ("canny", {"low": "900"})):
        with pytest.raises(InputError):
            load_control_set(base, faces, kind, options, show=False)
    with pytest.raises(DataError, match="no sample has the condition"):
        ControlDraws(DATA.subset(["s0"]), 0.1, CPU)
    monkeypatch.setattr(module, "conditions_in_worker", Finder(set(range(20))))
    with pytest.raises(DataError, match="canny was found in none of 20 samples"):
        load_control_set(base, faces, "canny", show=False)


class Finder:
    """Draws nothing on some pictures."""

    def __init__(self, missing: set[int]) -> None:
        self.missing = missing

    def __call__(self, kind: str, options: Any, images: Any, size: int, **_: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        found = np.array([row not in self.missing for row in range(len(images))])
        drawn = np.stack([np.full((size, size, 3), row, np.uint8) for row in range(len(images))])
        return drawn * found[:, None, None, None], found


def test_samples_without_the_condition_are_left_out(base: Any, faces: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "conditions_in_worker", Finder({0, 5, 19}))
    data, missing = load_control_set(base, faces, "canny", captions=3, seed=2, show=False)
    assert missing == 3 and data.ids == tuple(name for row, name in enumerate(faces.ids) if row not in {0, 5, 19})
    words = captions_of(faces, seed=2, variants=3)
    assert data.captions_sha256 == captions_digest(words)
    place = 3  # of row 4 among those that are left
    assert data.ids[place] == faces.ids[4]
    for which in range(3):
        batch = data.batch(torch.tensor([place]), CPU, variant_B=torch.tensor([which]))
        with torch.no_grad():
            mean = base.vae.encode(to_image(faces.pixels([4]), CPU)).latent_dist.mean * base.vae.config.scaling_factor
            text = base.text_encoder(encode(base.tokenizer, [words[4][which]]))[0]
        torch.testing.assert_close(batch["latent_Bchw"], mean, rtol=2e-3, atol=1e-3)
        torch.testing.assert_close(batch["text_BLD"], text, rtol=2e-3, atol=1e-3)
        assert batch["condition_BCHW"].mul(255).round().unique().tolist() == [4.0]
    with torch.no_grad():
        empty = base.text_encoder(encode(base.tokenizer, [""]))[0][0]
    torch.testing.assert_close(torch.from_numpy(np.array(data.empty)).float(), empty, rtol=2e-3, atol=1e-3)
    people = [sample.subject for row, sample in enumerate(faces.samples) if row not in {0, 5, 19}]
    numbers = data.subject[data.rows].tolist()
    assert [[a == b for b in people] for a in people] == [[a == b for b in numbers] for a in numbers]


def test_pictures_are_read_piece_by_piece_and_give_the_conditions(faces: Dataset, control_set: ControlSet, base: Any) -> None:
    # With pictures left out, the rows of the data set are not those on disk.
    some = replace(faces, rows=faces.rows[[1, 4, 9, 11]], samples=tuple(faces.samples[row] for row in (1, 4, 9, 11)))
    pictures: Any = module._Pictures(some)
    assert len(pictures) == 4 and pictures.shape == (4, SIZE, SIZE, 3)
    assert np.array_equal(pictures[1:9], faces.pixels([4, 9, 11]))
    whole: Any = module._Pictures(faces)
    assert _digest(whole) == _digest(faces.images)
    assert _digest(pictures) == _digest(faces.pixels([1, 4, 9, 11]))
    for place in (0, 13):
        expected = build_condition("canny").render(faces.pixels([place])[0], SIZE)
        assert expected.any() and np.array_equal(control_set.condition[control_set.rows[place]], expected)
    loose, _ = load_control_set(base, faces, "canny", {"low": "20", "high": "40"}, show=False)
    assert int((np.asarray(loose.condition) > 0).sum()) > int((np.asarray(control_set.condition) > 0).sum())


def test_a_cache_is_found_by_its_condition(base: Any, faces: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by where a task file lies, and without reading all pictures again."""
    found: list[tuple[str, str]] = []
    draw = module.conditions_in_worker

    def watched(kind: str, options: Any, *given: Any, out: Path, digest: str, **how: Any) -> Any:
        found.append((out.name, digest))
        return draw("canny", {}, *given, out=tmp_path / "drawn.npy", digest=digest, **how)

    monkeypatch.setattr(module, "conditions_in_worker", watched)
    for name, text in (("one.task", "a"), ("two.task", "a"), ("three.task", "b")):
        (tmp_path / name).write_text(text)
        load_control_set(base, faces, "face_landmark", {"task": str(tmp_path / name)}, show=False)
    assert found[0] == found[1] and found[0][0] != found[2][0]
    assert {digest for _, digest in found} == {f"data {faces.digest}"}
