"""Training anew without a concept: the same bytes as a base that never saw it, or one line why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unplug.core import InputError, read_json, write_json
from unplug.sdk.cli import main
from unplug.sdk.drawing.diffusion import (
    BaseRecipe,
    TextPairs,
    VAERecipe,
    base_record,
    load_base,
    train_base,
    weights_digest,
)
from unplug.sdk.forgetting.erasing import ERASURE, Concept, erase, erased_record
from unplug.sdk.learning.data import load_dataset, make_split

from ...drawing.diffusion.conftest import CPU, SIZE, Killed, kill_after, shrink

SPEC = "synth:n=60,subjects=60,seed=2,wears=eye-patch,share=.3"
VAE = VAERecipe(steps=2, batch_size=2, crop=32, channels=4, warmup=1, precision="fp32")
BASE = BaseRecipe(steps=3, batch_size=2, warmup=1, captions=2, precision="fp32")
NETWORKS = ("unet", "text_encoder", "vae")


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


def train(spec: str, out: Path, ids: Any = None, **more: Any) -> Path:
    data = load_dataset(spec, SIZE, show=False)
    data = data if ids is None else data.only(ids)
    split = make_split(data, seed=4, validation=0.02, test=0.02)
    how: dict[str, Any] = {"vae_recipe": VAE} | more
    return train_base(data, split, out, recipe=BASE, seed=4, device=CPU, show=False, **how)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        return train(SPEC, tmp_path_factory.mktemp("retrain") / "base")


def run(base: Path, out: Path, words: str = "eye patch", **options: str) -> dict[str, Any]:
    how: dict[str, Any] = {"method": "retrain", "options": options, "seed": 4, "device": CPU}
    return erase(str(base), [Concept(words=words)], out, show=False, **how)


def digests(folder: Path) -> list[str]:
    base = load_base(str(folder), device=CPU)
    return [weights_digest(getattr(base, name)) for name in NETWORKS]


@pytest.mark.long
def test_it_is_the_base_that_never_saw_it(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed and continued, beside the same training without those pictures, chosen by hand."""
    from unplug.sdk.learning.data import SynthSource

    source = SynthSource(SPEC.partition(":")[2])
    samples = source.listing().samples
    ids = [one.id for one in samples if source.params(one.payload).wears != "eye patch"]
    assert 3 < len(samples) - len(ids) < 40
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_after(patch, TextPairs, 2)
        run(whole, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    record = run(whole, tmp_path / "out")
    assert digests(tmp_path / "out") == digests(train(SPEC, tmp_path / "never", ids))
    data = record["trained"]["data"]
    assert (data["left_out"], data["samples"]) == (len(samples) - len(ids), len(ids))
    own = base_record(str(tmp_path / "out"))
    assert own["data"]["digest"] == base_record(str(tmp_path / "never"))["data"]["digest"]
    assert own["history"]["base"] and own["sha256"] == record["sha256"]
    assert record["changed"]["tensors"] > 100 and record["map"] is None
    told = erased_record(str(tmp_path / "out"))
    assert told is not None and told.base == str(whole) and told.map_bytes is None
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"without the {data['left_out']} pictures" in card and "never saw them" in card
    assert "began from" not in card and "prompts alone" not in card


@pytest.mark.long
def test_a_training_that_went_on_goes_on_from_there(
    whole: Path, base_folder: Path, tmp_path: Path
) -> None:
    """On other data, without the concept; the command says what it cannot know."""
    start = load_base(str(whole), device=CPU)
    more: dict[str, Any] = {"vae_recipe": VAERecipe(steps=0), "words": ("eye", "patch")}
    first = train(SPEC, tmp_path / "first", start=start, **more)
    data = "synth:n=40,subjects=40,seed=3"
    words = ["erase", str(first), "--concept", "eye patch", "--method", "retrain", "--no-probe"]
    words += ["--out", str(tmp_path / "out"), "--set", f"data={data}"]
    wrong = CliRunner().invoke(main, [*words, "--set", f"start={base_folder}"])
    assert wrong.exit_code == 2 and "did not go on from it" in wrong.stderr
    done = CliRunner().invoke(main, [*words, "--set", f"start={whole}"])
    assert done.exit_code == 0, done.output
    assert "never saw it in this training: 0 pictures" in done.output
    assert "may have seen it" in done.output and "this is about prompts" not in done.output
    record = read_json(tmp_path / "out" / ERASURE)
    assert record["trained"]["start"] == base_record(str(first))["start"]
    assert digests(tmp_path / "out")[2] == digests(whole)[2], "the autoencoder stays"
    assert "began from" in (tmp_path / "out" / "README.md").read_text()


def test_bases_of_which_nobody_knows(base_folder: Path, tmp_path: Path) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("drawn")

    how: dict[str, Any] = {"method": "retrain", "seed": 1, "device": CPU, "check": never}
    with pytest.raises(InputError, match=r"no unplug\.json"):
        erase(str(base_folder), [Concept(words="hat")], tmp_path / "out", **how)
    with pytest.raises(InputError, match="did not go on from it"):
        erase("small", [Concept(words="glasses")], tmp_path / "out", **how)
    assert not any(tmp_path.iterdir())


@pytest.mark.long
@pytest.mark.parametrize(
    ("changed", "words", "why"),
    [
        ({}, "hat", "no caption says 'hat'"),
        ({"data": {"spec": SPEC, "digest": "0"}}, "eye patch", "no longer what"),
        ({"data": {"spec": 3}}, "eye patch", r"no unplug\.json"),
        ({"recipe": {"vae": {}, "base": {}}}, "eye patch", "not one that this version"),
        ({"recipe": []}, "eye patch", r"no unplug\.json"),
        ({"image_size": "64"}, "eye patch", r"no unplug\.json"),
    ],
)
def test_records_that_do_not_fit(
    whole: Path, tmp_path: Path, changed: dict[str, Any], words: str, why: str
) -> None:
    import shutil

    base = tmp_path / "base"
    shutil.copytree(whole, base)
    write_json(base / "unplug.json", read_json(base / "unplug.json") | changed)
    with pytest.raises(InputError, match=why):
        run(base, tmp_path / "out", words)
    assert not (tmp_path / "out").exists()
