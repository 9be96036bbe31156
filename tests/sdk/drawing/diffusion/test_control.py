"""Plugin, ControlNet and T2I-Adapter beside one frozen base: what they are shown, what learns,
their losses at fixed noise.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from unplug.core import DataError, InputError, UnplugError
from unplug.plugins.conditions import build_condition
from unplug.sdk.drawing.conditions import exact
from unplug.sdk.drawing.diffusion import (
    CONTROLS,
    ControlRecipe,
    ControlSet,
    fit_control,
    load_control_set,
    losses,
    mean_loss,
    to_image,
    use_fast_attention,
)
from unplug.sdk.drawing.diffusion.control_set import ControlDraws, clutter
from unplug.sdk.drawing.diffusion.control_training import ControlLoss
from unplug.sdk.drawing.diffusion.digest import weights_digest
from unplug.sdk.drawing.diffusion.measure import LEVELS, fixed_noise, fixed_steps
from unplug.sdk.drawing.diffusion.noise import MIN_SHARE
from unplug.sdk.drawing.diffusion.tokenizer import encode
from unplug.sdk.learning.data import Dataset, captions_digest, captions_of, load_dataset

from .conftest import CPU, SIZE, picture, steering_plugin, tiny_unet

KINDS = ("plugin", "controlnet", "t2i-adapter")
RECIPE = ControlRecipe(steps=2, batch_size=2, warmup=0, precision="fp32")


PLUGIN = CONTROLS.get("plugin")()


def made(kind: str, base: Any, seed: int = 0) -> tuple[Any, nn.Module]:
    torch.manual_seed(seed)
    control = CONTROLS.get(kind)()
    return control, control.build(base.unet, condition="canny", image_size=SIZE)


def shown() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Noisy latents, timesteps, text and conditions."""
    generator = torch.Generator().manual_seed(4)
    noisy, text, condition = (
        torch.randn(2, *shape, generator=generator)
        for shape in ((4, 8, 8), (16, 32), (3, SIZE, SIZE))
    )
    return noisy, torch.tensor([7, 800]), text, condition


def test_what_no_control_can_be_made_of_is_refused(base: Any) -> None:
    assert set(CONTROLS) >= set(KINDS)
    with pytest.raises(InputError, match=r"control 'plugins'.*plugin"):
        CONTROLS.get("plugins")
    other, pipeline = steering_plugin(tiny_unet(channels=(16, 24))), PLUGIN.pipeline
    for network in (other, [steering_plugin(base.unet), other]):
        with pytest.raises(UnplugError, match=r"canny plugin: made for another base \(.*24.*32"):
            pipeline(base, network)
    why = r"takes values in \[-1, 1\] and diffusers' pipelines feed \[0, 1\]"
    with pytest.raises(InputError, match=why):
        pipeline(base, steering_plugin(base.unet, input_range=(-1.0, 1.0)))


@pytest.mark.parametrize("kind", KINDS)
def test_where_training_starts(kind: str, base: Any) -> None:
    """Zero projections and zero convolutions: at the bare base, to the bit. T2I-Adapter has none."""
    control, network = made(kind, base)
    noisy, steps, text, condition = shown()
    with torch.no_grad():
        bare = base.unet(noisy, steps, text).sample
        added = control.residuals(network.eval(), noisy, steps, text, condition)
        steered = base.unet(noisy, steps, text, **added).sample
    if kind == "t2i-adapter":
        assert (steered - bare).abs().max() > 1e-3
    else:
        assert torch.equal(steered, bare)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_the_control_and_nothing_else(
    kind: str, base: Any, control_set: ControlSet
) -> None:
    control, network = made(kind, base)
    before = weights_digest(base.unet)
    model = ControlLoss(control, network.train(), base, "uniform", "velocity")
    assert {name.split(".")[0] for name in model.state_dict()} == {"network"}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator, batch = torch.Generator().manual_seed(1), control_set.batch(torch.arange(2), CPU)
    # What stands in front of a zero projection has a gradient once that has moved.
    for _ in range(3):
        optimizer.zero_grad()
        model(**batch, generator=generator).backward()
        optimizer.step()
    assert all(bool(value.grad.any()) for value in network.parameters() if value.grad is not None)
    assert not [name for name, value in network.named_parameters() if value.grad is None]
    frozen = (base.unet, base.vae, base.text_encoder)
    assert all(value.grad is None for part in frozen for value in part.parameters())
    assert weights_digest(base.unet) == before and not base.unet.training


def test_two_controls_with_a_seed_see_the_same_batches(base: Any, control_set: ControlSet) -> None:
    seen: dict[tuple[str, int], list[tuple[Tensor, ...]]] = {}
    how: dict[str, Any] = {"condition": "canny", "image_size": SIZE, "device": CPU, "show": False}
    for kind in KINDS:
        for seed in (0, 1):
            rows = seen.setdefault((kind, seed), [])
            hook = base.unet.register_forward_pre_hook(
                lambda _, given, rows=rows: rows.append(given)
            )
            fit_control(CONTROLS.get(kind)(), base, control_set, RECIPE, seed=seed, **how)
            hook.remove()
    first = seen["plugin", 0]
    assert len(first) == RECIPE.steps and not torch.equal(first[0][0], first[1][0])
    for kind in KINDS:
        for mine, theirs in zip(first, seen[kind, 0], strict=True):
            assert all(map(torch.equal, mine, theirs)), kind
        assert not torch.equal(seen[kind, 1][0][0], first[0][0])


def test_a_copy_shares_the_base_and_the_network_comes_back_as_it_was(
    base: Any, some: ControlSet
) -> None:
    control, network = made("plugin", base)
    model = ControlLoss(control, network, base, "cubic", "noise")
    twin = copy.deepcopy(model)
    assert twin.frozen[1] is base.unet and twin.network is not network
    assert all(map(torch.equal, twin.parameters(), model.parameters()))
    for training in (True, False):
        network = steering_plugin(base.unet).train(training)
        before = weights_digest(network)
        losses(control, network, base, some, device=CPU, levels=2)
        assert network.training == training and weights_digest(network) == before


@pytest.mark.parametrize("kind", KINDS)
def test_pipelines_share_the_base(kind: str, base: Any) -> None:
    control, network = made(kind, base)
    pipe = control.pipeline(base, network)
    assert pipe.unet is base.unet and pipe.vae is base.vae
    assert control.every_step == (kind == "controlnet")
    assert picture(pipe, image=torch.zeros(1, 3, SIZE, SIZE)).shape == (1, 4, 8, 8)


@pytest.mark.parametrize(
    ("channels", "device", "changed"),
    [((96, 192), "cpu", True), ((320, 1280), "cpu", False), ((96, 192), "cuda", False)],
)
def test_attention_is_only_written_out_where_it_is_small(
    channels: tuple[int, ...], device: str, changed: bool
) -> None:
    calls: list[Any] = []
    config = SimpleNamespace(block_out_channels=channels)
    unet = SimpleNamespace(config=config, set_attn_processor=calls.append)
    use_fast_attention(unet, torch.device(device))
    assert bool(calls) == changed


CLOSE = {"rtol": 1e-4, "atol": 1e-5}
"""Convolutions sum in another order for another batch size."""


@pytest.fixture(scope="module")
def some(control_set: ControlSet) -> ControlSet:
    return control_set.subset(control_set.ids[:5])


@pytest.fixture(scope="module")
def plugin(base: Any) -> Any:
    return steering_plugin(base.unet)


@pytest.fixture(scope="module")
def found(base: Any, plugin: Any, some: ControlSet) -> Tensor:
    return losses(PLUGIN, plugin, base, some, device=CPU)


@pytest.mark.long
@pytest.mark.parametrize("batch_size", [1, 64])
def test_the_batch_size_does_not_matter(
    base: Any, plugin: Any, some: ControlSet, found: Tensor, batch_size: int
) -> None:
    again = losses(PLUGIN, plugin, base, some, device=CPU, batch_size=batch_size)
    torch.testing.assert_close(again, found, **CLOSE)
    part = some.subset([some.ids[place] for place in (3, 0)])  # nor does the order
    again = losses(PLUGIN, plugin, base, part, device=CPU)
    torch.testing.assert_close(again, found[[3, 0]], **CLOSE)


@pytest.mark.parametrize("steered", [True, False])
def test_one_sample_at_one_level_by_hand(
    base: Any, plugin: Any, some: ControlSet, found: Tensor, steered: bool
) -> None:
    table = found if steered else losses(None, None, base, some, device=CPU)
    assert tuple(table.shape) == (5, LEVELS) and table.dtype == torch.float32
    place, level, step = 2, 5, 687  # the middle of the sixth of eight stretches of 1000: 687.5, cut
    batch = some.batch(torch.tensor([place]), CPU)
    clean, noise = batch["latent_Bchw"], fixed_noise(torch.Size((4, 8, 8)), 0, level)[None]
    with torch.no_grad():
        share = float(base.scheduler.alphas_cumprod[step])
        noisy = share**0.5 * clean + (1 - share) ** 0.5 * noise
        added = plugin(batch["condition_BCHW"]) if steered else None
        extra = {} if added is None else {"down_intrablock_additional_residuals": added}
        guess = base.unet(noisy, step, batch["text_BLD"], **extra).sample
        velocity = share**0.5 * noise - (1 - share) ** 0.5 * clean
    wanted = float((guess - velocity).square().mean())
    assert float(table[place, level]) == pytest.approx(wanted, rel=1e-4)


def test_means_and_nothing(base: Any, plugin: Any, some: ControlSet, found: Tensor) -> None:
    share_T = base.scheduler.alphas_cumprod[fixed_steps(1000)].clamp(min=MIN_SHARE)
    for weighting, wanted in (("velocity", found[:3]), ("noise", found[:3] * share_T)):
        mean = mean_loss(PLUGIN, plugin, base, some, weighting=weighting, device=CPU, most=3)
        assert mean == pytest.approx(float(wanted.mean()), rel=1e-4)
    assert tuple(losses(None, None, base, some.subset([]), device=CPU).shape) == (0, LEVELS)


N, K = 7, 3


def numbered() -> ControlSet:
    """Every array says of which row it is; three samples lack the condition."""
    rows = np.arange(N + 3)

    def spread(numbers: NDArray[Any], *shape: int) -> NDArray[Any]:
        return np.broadcast_to(numbers.reshape(-1, *[1] * len(shape)), (len(numbers), *shape))

    return ControlSet(
        ids=tuple(f"s{row}" for row in rows if row % 3),
        rows=rows[rows % 3 > 0],
        latent=spread(rows, 1, 2, 2).astype(np.float16),
        condition=spread(rows * 20, 4, 4, 3).astype(np.uint8),
        text=spread(np.arange(K * (N + 3) + 1), 2, 2).astype(np.float16),
        prompt=1 + K * rows[:, None] + np.arange(K),
        empty=np.zeros((2, 2), np.float16),
        subject=rows * 11,
        prompts=("", *(f"{row} {which}" for row in rows for which in range(K))),
    )


DATA = numbered()


@given(
    ids=st.lists(st.sampled_from([*DATA.ids, "s0", "s3", "nobody"]), max_size=12),
    variant=st.integers(0, 2**31),
)
def test_a_subset_keeps_everything_of_a_sample_together(ids: list[str], variant: int) -> None:
    part = DATA.subset(ids)
    kept = [int(name[1:]) for name in ids if name in DATA.ids]
    assert part.ids == tuple(f"s{row}" for row in kept) and part.rows.tolist() == kept
    assert part.subset(part.ids[:1]).ids == part.ids[:1]
    index = torch.arange(len(part))
    for which, how in ((0, {}), (variant % K, {"variant_B": index * 0 + variant})):
        batch = part.batch(index, CPU, **how)
        latent, condition = (batch[name][:, 0, 0, 0] for name in ("latent_Bchw", "condition_BCHW"))
        assert latent.tolist() == kept
        assert (condition * 255).round().tolist() == [20 * row for row in kept]
        assert batch["text_BLD"][:, 0, 0].tolist() == [1 + K * row + which for row in kept]
    assert part.subject[part.rows].tolist() == [11 * row for row in kept]
    assert [part.prompts[part.prompt[row, 0]] for row in part.rows] == [f"{row} 0" for row in kept]


def test_batches_are_floats_and_draws_leave_out_their_share() -> None:
    batch = DATA.batch(torch.tensor([5, 0, 0]), CPU)
    assert {value.dtype for value in batch.values()} == {torch.float32}
    assert batch["condition_BCHW"].is_contiguous(memory_format=torch.channels_last)
    assert tuple(batch["condition_BCHW"].shape) == (3, 3, 4, 4)
    batch["latent_Bchw"].zero_()
    assert DATA.latent[1].any(), "a batch shares memory with the cache"

    def drawn(drop: float, seed: int = 0) -> dict[str, torch.Tensor]:
        return ControlDraws(DATA, drop, CPU)(torch.Generator().manual_seed(seed), 400)

    for share in (0.0, 1.0, 0.25):
        batch = drawn(share)
        gone = (batch["text_BLD"] == 0).all(dim=2).all(dim=1)
        assert float(gone.double().mean()) == pytest.approx(share, abs=0.09 * (0 < share < 1))
        row, text = batch["latent_Bchw"][:, 0, 0, 0], batch["text_BLD"][:, 0, 0]
        assert bool(((text - 1) // K == row)[~gone].all())
        if not share:
            assert set(((text - 1) % K).tolist()) == set(range(K))
            assert set(row.tolist()) == set(DATA.rows.tolist())
    assert torch.equal(drawn(0.5)["text_BLD"], drawn(0.5)["text_BLD"])
    assert not torch.equal(drawn(0.5)["latent_Bchw"], drawn(0.5, seed=1)["latent_Bchw"])


def test_refused_sets(
    base: Any, tmp_path: Path, faces: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("RGB", (80, 80)).save(tmp_path / "a.png")
    small, folder = (("synth:n=2", 32), (f"imagefolder:{tmp_path}", SIZE))
    for (spec, side), why in (
        (small, r"data at 32 px: the base makes pictures of 64 px. Load it at 64"),
        (folder, "it has no captions"),
    ):
        with pytest.raises(DataError, match=why):
            load_control_set(base, load_dataset(spec, side, show=False), "canny", show=False)
    for kind, options in (("cany", {}), ("canny", {"hight": "3"}), ("canny", {"low": "900"})):
        with pytest.raises(InputError):
            load_control_set(base, faces, kind, options, show=False)
    with pytest.raises(DataError, match="no sample has the condition"):
        ControlDraws(DATA.subset(["s0"]), 0.1, CPU)
    monkeypatch.setattr(exact, "conditions_in_worker", Finder(set(range(20))))
    with pytest.raises(DataError, match="canny was found in none of 20 samples"):
        load_control_set(base, faces, "canny", show=False)


class Finder:
    """Draws nothing on some pictures."""

    def __init__(self, missing: set[int]) -> None:
        self.missing = missing

    def __call__(
        self, kind: str, options: Any, images: Any, size: int, **_: Any
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        found = np.array([row not in self.missing for row in range(len(images))])
        drawn = np.stack([np.full((size, size, 3), row, np.uint8) for row in range(len(images))])
        return drawn * found[:, None, None, None], found


def test_samples_without_the_condition_are_left_out(
    base: Any, faces: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = {0, 5, 19}
    monkeypatch.setattr(exact, "conditions_in_worker", Finder(gone))
    data, missing = load_control_set(base, faces, "canny", captions=3, seed=2, show=False)
    left = [row for row in range(len(faces)) if row not in gone]
    assert missing == 3 and data.ids == tuple(faces.ids[row] for row in left)
    words = captions_of(faces, seed=2, variants=3)
    assert data.captions_sha256 == captions_digest(words)
    place, half = left.index(4), {"rtol": 2e-3, "atol": 1e-3}
    for which in range(3):
        batch = data.batch(torch.tensor([place]), CPU, variant_B=torch.tensor([which]))
        with torch.no_grad():
            mean = base.vae.encode(to_image(faces.pixels([4]), CPU)).latent_dist.mean
            mean = mean * base.vae.config.scaling_factor
            text, empty = base.text_encoder(encode(base.tokenizer, [words[4][which], ""]))[0]
        torch.testing.assert_close(batch["latent_Bchw"], mean, **half)
        torch.testing.assert_close(batch["text_BLD"][0], text, **half)
        torch.testing.assert_close(torch.from_numpy(np.array(data.empty)).float(), empty, **half)
        assert batch["condition_BCHW"].mul(255).round().unique().tolist() == [4.0]
    people = [faces.samples[row].subject for row in left]
    numbers = data.subject[data.rows].tolist()
    assert len(set(people)) == len(set(numbers)) == len(set(zip(people, numbers, strict=True)))


def test_pictures_give_the_conditions(faces: Dataset, control_set: ControlSet, base: Any) -> None:
    for place in (0, 13):
        expected = build_condition("canny").render(faces.pixels([place])[0], SIZE)
        drawn = control_set.condition[control_set.rows[place]]
        assert expected.any() and np.array_equal(drawn, expected)
    # With pictures left out, the rows of the data set are not those on disk.
    rows = [1, 4, 9, 11]
    some = replace(faces, rows=faces.rows[rows], samples=tuple(faces.samples[row] for row in rows))
    few, _ = load_control_set(base, replace(some, digest="some"), "canny", show=False)
    assert np.array_equal(few.condition[few.rows], control_set.condition[rows])
    loose, _ = load_control_set(base, faces, "canny", {"low": "20", "high": "40"}, show=False)
    lines = [int((np.asarray(data.condition) > 0).sum()) for data in (loose, control_set)]
    assert lines[0] > lines[1]


def test_a_cache_is_found_by_its_condition(
    base: Any, faces: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by where a task file lies, and without reading all pictures again."""
    asked: list[tuple[str, str]] = []
    draw = exact.conditions_in_worker

    def watched(kind: str, options: Any, *given: Any, out: Path, digest: str, **how: Any) -> Any:
        asked.append((out.name, digest))
        return draw("canny", {}, *given, out=tmp_path / "drawn.npy", digest=digest, **how)

    monkeypatch.setattr(exact, "conditions_in_worker", watched)
    for name, raw in (("one.task", b"\xff"), ("two.task", b"\xff"), ("three.task", b"\xfe")):
        (tmp_path / name).write_bytes(raw)
        load_control_set(base, faces, "face_landmark", {"task": str(tmp_path / name)}, show=False)
    assert asked[0] == asked[1] and asked[0][0] != asked[2][0]
    assert {digest for _, digest in asked} == {f"data {faces.digest}"}


def test_clutter_wipes_and_adds_and_keeps_the_rest(some: ControlSet) -> None:
    lines = (torch.rand(64, 3, 32, 32, generator=torch.Generator().manual_seed(0)) > 0.8).float()
    changed, again = (clutter(lines, 0.5, torch.Generator().manual_seed(1)) for _ in range(2))
    assert 0.2 < float((changed != lines).flatten(1).any(dim=1).float().mean()) < 0.6
    assert torch.equal(changed, again) and set(changed.unique().tolist()) == {0.0, 1.0}
    assert bool((changed < lines).any()) and bool((changed > lines).any())
    plain, cluttered = (
        ControlDraws(some, 0.0, CPU, clutter=share)(torch.Generator().manual_seed(2), 16)
        for share in (0.0, 1.0)
    )
    assert torch.equal(plain["latent_Bchw"], cluttered["latent_Bchw"])
    assert not torch.equal(plain["condition_BCHW"], cluttered["condition_BCHW"])
