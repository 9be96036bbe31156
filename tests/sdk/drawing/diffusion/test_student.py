"""Students: the step and its inverse, a target worked out by a loop, a run that goes on after a
kill, both forms drawn with.
"""

from __future__ import annotations

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from unplug.core import CheckpointError, InputError, read_json, write_json
from unplug.sdk.drawing.device import WEIGHTS_NAME, GuidanceSchedule
from unplug.sdk.drawing.diffusion import (
    StudentRecipe,
    base_record,
    generate,
    load_base,
    load_loras,
    sampling_of,
    train_student,
)
from unplug.sdk.drawing.diffusion.load import RECORD
from unplug.sdk.drawing.diffusion.noise import noise_like
from unplug.sdk.drawing.diffusion.recipe import Distillation
from unplug.sdk.drawing.diffusion.small import diffusers
from unplug.sdk.drawing.diffusion.student import (
    StudentLoss,
    ddim,
    grid,
    velocity_between,
)
from unplug.sdk.learning.data import Dataset

from .conftest import CPU, SIZE

FEW = StudentRecipe(
    steps=4, batch_size=2, warmup=1, drawn_steps=2, substeps=2, captions=2, precision="fp32"
)


def test_the_step_is_that_of_diffusers_and_has_an_inverse(base: Any) -> None:
    """DDIM's own scheduler on the same latent and velocity, from every timestep of four."""
    scheduler = diffusers().DDIMScheduler.from_config(base.scheduler.config)
    scheduler.set_timesteps(4)
    times_SK, alpha_N = grid(1000, 4, 1), torch.cat([base.scheduler.alphas_cumprod, torch.ones(1)])
    assert times_SK[:, 0].tolist() == scheduler.timesteps.tolist() == [999, 749, 499, 249]
    z, velocity = torch.randn(2, 1, 4, 8, 8).unbind()
    for now, after in times_SK.tolist():
        levels = alpha_N[[now]], alpha_N[[after]]
        stepped = ddim(*levels, z, velocity)
        assert torch.allclose(stepped, scheduler.step(velocity, now, z).prev_sample, atol=1e-5)
        assert torch.allclose(velocity_between(*levels, z, stepped), velocity, atol=1e-4)
        with pytest.raises(InputError, match="cleaner"):
            velocity_between(*levels[::-1], z, z)


@pytest.mark.parametrize("distillation", get_args(Distillation))
def test_a_student_of_one_unguided_substep_has_nothing_to_learn(
    base: Any, distillation: Distillation
) -> None:
    """Its target is then the teacher's own prediction; with several substeps it is not."""
    generator = torch.Generator().manual_seed(0)
    ids, latent = (
        torch.zeros(3, base.tokenizer.model_max_length, dtype=torch.long),
        torch.randn(3, 4, SIZE // 8, SIZE // 8),
    )
    alpha_N = base.scheduler.alphas_cumprod.float()

    def loss(substeps: int, guidance: float) -> float:
        recipe = StudentRecipe(
            substeps=substeps, teacher_guidance=guidance, distillation=distillation
        )
        model = StudentLoss(base.unet, base.unet, base.text_encoder, ids[0], alpha_N, recipe)
        with torch.no_grad():
            return float(model(latent, ids, generator))

    assert loss(1, 1.0) < 1e-6 < 1e-3 < loss(3, 1.0)


class OnePicture(nn.Module):
    """The exact velocity where all data is one picture, plus an error: every DDIM step of it,
    however long, ends on one line.

    z = sqrt(a) x + sqrt(1 - a) e, so v = sqrt(a) e - sqrt(1 - a) x = (sqrt(a) z - x) / sqrt(1 - a).
    """

    def __init__(self, alpha_N: Tensor, picture_1chw: Tensor, error: float) -> None:
        super().__init__()
        self.alpha_N, self.picture_1chw, self.error = alpha_N, picture_1chw, error
        self.asked: list[list[int]] = []

    def forward(self, z_Bchw: Tensor, times_B: Tensor, text_BLD: Tensor) -> SimpleNamespace:
        self.asked.append(times_B.tolist())
        alpha_B111 = self.alpha_N[times_B].view(-1, 1, 1, 1)
        exact_Bchw = (alpha_B111.sqrt() * z_Bchw - self.picture_1chw) / (1 - alpha_B111).sqrt()
        return SimpleNamespace(sample=exact_Bchw + self.error)


@pytest.mark.parametrize("distillation", get_args(Distillation))
@pytest.mark.parametrize("error", [0.0, 0.5])
def test_a_teacher_that_is_exact_teaches_the_exact_velocity(
    base: Any, distillation: Distillation, error: float
) -> None:
    """Of one picture, however the student is taught; progressive by its own error alone,
    consistency by a part of it.
    """
    alpha_N, latent = (
        base.scheduler.alphas_cumprod.float(),
        torch.randn(1, 4, 8, 8).expand(16, -1, -1, -1),
    )
    student, teacher = (OnePicture(alpha_N, latent[:1], value) for value in (error, 0.0))
    ids = torch.zeros(16, base.tokenizer.model_max_length, dtype=torch.long)
    recipe = StudentRecipe(
        drawn_steps=2, substeps=4, teacher_guidance=1.0, distillation=distillation
    )
    model = StudentLoss(student, teacher, base.text_encoder, ids[0], alpha_N, recipe)
    with torch.no_grad():
        loss = float(model(latent, ids, torch.Generator().manual_seed(0)))
    places = {time for row in grid(1000, 2, 4)[:, :-1].tolist() for time in row}
    if distillation == "progressive":
        assert (
            loss == pytest.approx(error**2, abs=1e-4)
            and len(student.asked) == 1
            and len(teacher.asked) == 4
        )
        assert set(student.asked[0]) == {999, 499}
    else:
        assert loss == pytest.approx(0.0, abs=1e-4) if error == 0 else 0.01 < loss < error**2
        assert (len(student.asked), len(teacher.asked)) == (2, 1) and student.asked[
            -1
        ] == teacher.asked[0]
        assert {999, 499} < set(teacher.asked[0]) <= places


def test_consistency_is_a_loop_over_pictures(base: Any) -> None:
    """Each picture by itself: one step of the teacher, the student's jump to the end, the velocity
    that does both at once.
    """
    alpha_N = base.scheduler.alphas_cumprod.float()
    alphas, latent = torch.cat([alpha_N, torch.ones(1)]), torch.randn(6, 4, SIZE // 8, SIZE // 8)
    ids = torch.arange(6 * base.tokenizer.model_max_length).view(6, -1) % 20
    recipe = StudentRecipe(
        drawn_steps=2, substeps=3, teacher_guidance=1.0, distillation="consistency"
    )
    teacher, student = base.unet, copy.deepcopy(base.unet)
    with torch.no_grad():
        student.conv_out.bias += 0.3
        loss = float(
            StudentLoss(student, teacher, base.text_encoder, ids[0], alpha_N, recipe)(
                latent, ids, torch.Generator().manual_seed(3)
            )
        )
        generator = torch.Generator().manual_seed(3)
        row_B, place_B = (
            torch.randint(2, (6,), generator=generator),
            torch.randint(3, (6,), generator=generator),
        )
        noise, text, losses = noise_like(latent, generator), base.text_encoder(ids)[0], []
        for one, (row, place) in enumerate(zip(row_B.tolist(), place_B.tolist(), strict=True)):
            now, after, end = grid(1000, 2, 3)[row, [place, place + 1, 3]].tolist()
            part, words = slice(one, one + 1), text[one : one + 1]
            z = alphas[now].sqrt() * latent[part] + (1 - alphas[now]).sqrt() * noise[part]
            then = ddim(alphas[[now]], alphas[[after]], z, teacher(z, now, words).sample)
            if after != end:
                then = ddim(
                    alphas[[after]], alphas[[end]], then, student(then, after, words).sample
                )
            target = velocity_between(alphas[[now]], alphas[[end]], z, then)
            losses.append(float((student(z, now, words).sample - target).square().mean()))
    assert {0, 1, 2} == set(place_B.tolist()) and loss == pytest.approx(sum(losses) / 6, rel=1e-4)


def test_the_guidance_of_a_teacher_rises(base: Any) -> None:
    """In pure noise there is next to none then, and the student of one step has as good as nothing
    to learn.
    """
    latent = torch.randn(3, 4, SIZE // 8, SIZE // 8)
    ids = torch.arange(3 * base.tokenizer.model_max_length).view(3, -1) % 20
    alpha_N = base.scheduler.alphas_cumprod.float()

    def loss(schedule: GuidanceSchedule) -> float:
        recipe = StudentRecipe(
            drawn_steps=1, substeps=1, teacher_guidance=8.0, teacher_schedule=schedule
        )
        model = StudentLoss(
            base.unet, base.unet, base.text_encoder, torch.zeros_like(ids[0]), alpha_N, recipe
        )
        with torch.no_grad():
            return float(model(latent, ids, torch.Generator().manual_seed(0)))

    assert 1000 * loss("linear") < loss("constant")


def weights(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*.safetensors"))
    }


def train(
    base_folder: Path, faces: Dataset, out: Path, *, half: bool = False, **changes: Any
) -> Path:
    teacher = load_base(str(base_folder), device=CPU)
    recipe = StudentRecipe(**{**FEW.to_dict(), **changes})
    return train_student(
        teacher,
        {
            "schema": "unplug-base/1",
            "image_size": SIZE,
            "data": {"spec": "s"},
            "seed": 0,
            "metrics": {"vae_psnr_db": 1.0},
            "parameters": {"unet": 1, "vae": 1, "text_encoder": 1},
        },
        faces,
        out,
        recipe,
        seed=1,
        device=CPU,
        half=half,
        show=False,
    )


@pytest.mark.long
def test_a_base_that_says_how_it_draws(base_folder: Path, faces: Dataset, tmp_path: Path) -> None:
    out = train(base_folder, faces, tmp_path / "student")
    how = sampling_of(str(out))
    assert (how.steps, how.guidance, how.solver) == (2, 1.0, "ddim") and base_record(str(out))[
        "student"
    ]["rank"] == 0
    learned = base_record(str(out))
    assert learned["split"]["train"] == list(faces.ids) and len(learned["earlier"]) == 1
    before, after = weights(base_folder), weights(out)
    assert before.keys() == after.keys()
    teacher, student = (load_base(str(path), device=CPU) for path in (base_folder, out))
    assert torch.equal(teacher.vae.decoder.conv_in.weight, student.vae.decoder.conv_in.weight)
    assert not torch.equal(teacher.unet.conv_in.weight, student.unet.conv_in.weight)
    write_json(
        out / RECORD,
        {**read_json(out / RECORD), "sampling": {"steps": 0, "guidance": 1.0, "solver": "ddim"}},
    )
    with pytest.raises(CheckpointError, match="to draw with"):
        sampling_of(str(out))


@pytest.mark.long
@pytest.mark.parametrize("distillation", get_args(Distillation))
def test_low_rank_weights_act_on_the_teacher(
    base_folder: Path, faces: Dataset, tmp_path: Path, distillation: Distillation
) -> None:
    out = train(
        base_folder,
        faces,
        tmp_path / "lora",
        rank=2,
        lr=0.05,
        steps=6,
        half=True,
        distillation=distillation,
    )
    assert read_json(out / RECORD)["student"]["distillation"] == distillation
    tensors = load_file(out / WEIGHTS_NAME)
    assert tensors and {value.shape[0] for name, value in tensors.items() if "lora_A" in name} == {
        2
    }
    assert {value.dtype for value in tensors.values()} == {torch.float16}
    plain, steered = (load_base(str(base_folder), device=CPU) for _ in range(2))
    load_loras(steered, [out])
    drawn = [
        generate(pipe, ["a portrait"], seeds=[0], size=SIZE, steps=2, guidance=1.0, solver="ddim")[
            0
        ]
        for pipe in (plain, steered)
    ]
    assert (
        drawn[0].tobytes() != drawn[1].tobytes()
        and load_file(out / WEIGHTS_NAME).keys() == tensors.keys()
    )
