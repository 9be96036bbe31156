"""The cache is its owner's alone, is swept of what the dead left, and is not purged under somebody
who uses it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from unplug.core import OutputError, cache_alone, cache_entries, use_cache

PIXELS = f"{'0a' * 16}-64px"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def put(cache: Path) -> Callable[[str], Path]:
    def make(name: str) -> Path:
        path = cache / name
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.write_text(name)
        path.chmod(0o644)
        return path

    return make


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_an_older_cache_is_narrowed_when_it_is_opened(
    cache: Path, put: Callable[[str], Path]
) -> None:
    files = [
        put(f"{PIXELS}.npy"),
        put("diffusion/latents-ab.npy"),
        put(f"web-page/{'ab' * 6}/assets/page.js"),
    ]
    use_cache()
    assert {mode(path) for path in files} == {0o600}
    assert {mode(path.parent) for path in files} | {mode(cache)} == {0o700}


def test_what_others_keep_in_that_folder_is_left_as_it_is(
    cache: Path, put: Callable[[str], Path], tmp_path: Path
) -> None:
    own, letter, others = put(f"{PIXELS}.npy"), put("letter.txt"), put("diffusion/model.bin")
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "latents-ab.npy").write_text("not in the cache")
    (cache / f"{PIXELS}.json").symlink_to(outside / "latents-ab.npy")
    (cache / "web-page").symlink_to(outside)
    (outside / ("ab" * 6)).write_text("not in the cache either")
    cache.chmod(0o755)
    use_cache()
    assert (mode(own), mode(letter), mode(others), mode(cache)) == (0o600, 0o644, 0o644, 0o755)
    assert mode(outside) == 0o755 and mode(outside / "latents-ab.npy") == 0o644
    ours, foreign = cache_entries(cache)
    assert ours == [own] and sorted(path.name for path in foreign) == [
        f"{PIXELS}.json",
        "letter.txt",
        "model.bin",
        "web-page",
    ]


@pytest.mark.skipif(os.name == "nt", reason="no locks there")
def test_what_a_killed_process_left_is_gone_at_the_next_use(
    cache: Path, put: Callable[[str], Path]
) -> None:
    left = [put(f"{place}.faces.npy.x.unplug-tmp/faces.npy") for place in ("", "diffusion/")]
    use_cache()
    assert not any(path.parent.exists() for path in left)


@pytest.mark.skipif(os.name == "nt", reason="no locks there")
def test_it_is_not_purged_under_somebody_who_uses_it(cache: Path) -> None:
    code = (
        "import sys; from unplug.core import use_cache; use_cache(); print('has it', flush=True); "
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "has it\n"
        with (
            pytest.raises(
                OutputError,
                match=r"another unplug command uses this cache now\. Wait until it has ended",
            ),
            cache_alone(),
        ):
            pass
        use_cache()  # two may use it
        other.communicate()
    with cache_alone() as root:  # this process lets go of it by itself
        assert root == cache
