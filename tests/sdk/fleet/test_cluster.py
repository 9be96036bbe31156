"""The Ray backend on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.core import DataError, InputError
from unplug.sdk.fleet import Context, Job, fit_many, read_result, run_jobs

from .models import class_family, faces

pytest.importorskip("ray", reason="needs the extra [cluster]")


@pytest.fixture(scope="module")
def ray(jobs_on_path: None) -> Iterator[Any]:
    import ray as library

    library.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield library
    library.shutdown()


@pytest.mark.long
def test_all_that_can_become_of_a_job(ray: Any, tmp_path: Path) -> None:
    jobs = [Job(name=f"add-{x}", target="fleet_jobs:add", arguments={"x": x}) for x in range(3)]
    for how in ("refuse", "raise", "die", "die once"):
        arguments = {"how": how, "mark": str(tmp_path / "mark")}
        jobs.append(Job(name=how.replace(" ", "-"), target="fleet_jobs:misbehave", arguments=arguments))
    context, out = Context(target="fleet_jobs:number", arguments={"start": 3}), tmp_path / "out"
    summary = run_jobs(jobs, context, out, backend="ray", workers=1, show=False)
    assert summary.done == 5
    for x in range(3):
        assert np.array_equal(read_result(out, f"add-{x}").tensors["values"], np.full((2, 3), 3 + x, np.float32))
    refused = read_result(out, "refuse").refused
    assert refused is not None and refused["kind"] == "BudgetExceeded"
    assert summary.failed.keys() == {"raise", "die"}
    assert "ValueError: the job is broken" in summary.failed["raise"]
    assert summary.failed["die"].startswith("its worker died 2 times")
    assert read_result(out, "die-once").facts == {"how": "die once"}
    assert ray.is_initialized(), "a Ray of the caller's is left running"


@pytest.mark.long
def test_a_context_that_refuses_stops_the_run(ray: Any, tmp_path: Path) -> None:
    context = Context(target="fleet_jobs:bad_context", arguments={"kind": "typed"})
    with pytest.raises(DataError, match="data: none"):
        run_jobs([Job(name="a", target="fleet_jobs:add", arguments={"x": 1})], context, tmp_path, backend="ray", show=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_models_are_trained_without_a_shared_disk(ray: Any, tmp_path: Path) -> None:
    family = class_family(epochs=1, batch_size=6)
    (model,) = fit_many(family, faces(12), faces(4, seed=1), (3,), tmp_path / "ray", backend="ray", workers=1)
    (other,) = fit_many(family, faces(12), faces(4, seed=1), (3,), tmp_path / "loop", backend="loop")
    pairs = zip(model.state_dict().values(), other.state_dict().values(), strict=True)
    assert all(bool((a == b).all()) for a, b in pairs)


@pytest.mark.parametrize(
    ("cluster", "error", "words"),
    [
        ("nowhere:1", ConnectionError("no route"), r"Ray cluster nowhere:1: it cannot be reached \(no route\)"),
        (None, RuntimeError("not here"), "Ray cluster on this machine"),
    ],
)
def test_where_ray_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cluster: str | None, error: Exception, words: str
) -> None:
    import ray as library

    calls: list[dict[str, Any]] = []

    def init(**settings: Any) -> None:
        calls.append(settings)
        raise error

    monkeypatch.setattr(library, "is_initialized", lambda: False)
    monkeypatch.setattr(library, "init", init)
    job = Job(name="a", target="fleet_jobs:add", arguments={"x": 1})
    with pytest.raises(InputError, match=words):
        run_jobs([job], None, tmp_path, backend="ray", cluster=cluster, workers=3, show=False)
    (settings,) = calls
    assert settings["address"] == (cluster or "local")
    if cluster is None:
        assert settings["num_cpus"] == 3 and settings["include_dashboard"] is False
