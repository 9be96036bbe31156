"""A release of a project, in a child process: `unplug answer`, asked for over HTTP."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from unplug.core import Job, Reply
from unplug.sdk.project import Project
from unplug.sdk.releasing import ReleaseChoices

from .recipe import ServeRecipe

RUNNER = "unplug.serve.project_run:run_answer"
STAGES = 16
"""About as many lines as an answer tells."""


def project_recipe(project: Project) -> ServeRecipe:
    """What a server releases in a project: all that `unplug.toml` says.

    Args:
        project: The project whose requests are answered.
    """
    model, release = project.settings.model, project.settings.release
    choices: dict[str, Any] = {
        item.name: getattr(release, item.name) for item in fields(ReleaseChoices)
    }
    return ServeRecipe(
        name=model.name,
        checkpoint=model.original,
        data=model.data,
        device=model.device,
        served=release.precisions[0],
        project=str(project.folder),
        runner=RUNNER,
        **choices,
    )


def run_answer(job: Job) -> Reply:
    """Answers the open requests as `unplug answer` does, which records the release itself.

    Args:
        job: See `unplug.serve.release_run.run_release`; its recipe names the project.

    Returns:
        The same, with `recorded`: the ledger holds the release already.

    Raises:
        GateFailed: A gate does not hold; nothing moved.
        UnplugError: See `unplug.sdk.Project.answer`.
    """
    from unplug.sdk.project import NothingToAnswer
    from unplug.trust.bundle import bundle_id, pack_bundle

    from .release_run import served_file

    recipe, folder = ServeRecipe.of(job.values["recipe"]), Path(job.values["folder"])
    project = Project.open(recipe.project)
    lines = [0]

    def say(line: str) -> None:
        lines[0] += 1
        job.progress(min(lines[0], STAGES), STAGES, line)

    try:
        project.answer(say=say)
    except NothingToAnswer:  # a run before this one was killed after its last step
        if not {*job.values["requests"]} & {*project.state().answered}:
            raise
    last = project.state().releases[-1]
    bundle, packed = project.bundle(last.number), folder / f"{recipe.name}.zip"
    pack_bundle(bundle, packed)
    artifact, sha256 = served_file(bundle, recipe.served)
    return Reply(
        values={
            "recorded": True,
            "requests": [id for id in job.values["requests"] if id in last.requests],
            "bundle": str(bundle),
            "bundle_id": bundle_id(bundle),
            "weights": [last.began, last.model],
            "artifact": artifact,
            "sha256": sha256,
            "files": {packed.name: str(packed), **project.certificates(last)},
        }
    )
