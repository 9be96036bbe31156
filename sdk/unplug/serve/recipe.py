"""What a server releases, and how it serves: one JSON file that its operator writes, and the limits
of the command line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from unplug.core import STRICT, InputError, expanded, json_sha256, read_dataclass
from unplug.sdk.releasing import ReleaseChoices

from .jobs import RecipeKey

VARIABLE = "UNPLUG_SERVE"
MAX_RECIPE_BYTES = 2**20
RUNNER = "unplug.serve.release_run:run_release"


@dataclass(frozen=True, kw_only=True)
class ServeRecipe(ReleaseChoices):
    """``unplug-serve/1``: how the server releases its one model. Paths are relative to the file.

    Args:
        name: the name of the model and of its bundles, in URLs.
        checkpoint: the trained checkpoint; after the first release each next one goes on from what
            the last one forgot.
        data: spec of the data that it was trained on.
        gates: thresholds of ``unplug release --gate``, as text.
        device: auto, cpu or cuda.
        served: precision of the ONNX file that answers pictures.
        artifact: ONNX file with its card that answers until the first release; None answers nothing
            until then.
        sign: key of ``unplug release --sign``; None leaves bundles unsigned.
        public: public half of a key held by a command.
        automatic: every request asks for a release, one for all that wait; else ``POST /releases``
            does.
        hours: the hours after which a release is given up.
        runner: ``package.module:function`` that does the work, in a child process.
        project: the folder of the project whose ``unplug answer`` does the work.
    """

    __pydantic_config__: ClassVar[Any] = STRICT

    name: str
    checkpoint: str
    data: str
    gates: dict[str, str] = field(default_factory=dict)
    device: str = "auto"
    served: str = "fp32"
    artifact: str | None = None
    sign: str | None = None
    public: str | None = None
    automatic: bool = False
    hours: float = 24.0
    runner: str = RUNNER
    project: str | None = None
    schema: Literal["unplug-serve/1"] = "unplug-serve/1"

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> ServeRecipe:
        """A recipe that went to another process as JSON, which knows no tuples."""
        lists = {name: tuple(raw[name]) for name in ("targets", "precisions")}
        return cls(**{**raw, **lists})

    @classmethod
    def load(cls, path: Path) -> ServeRecipe:
        """Reads a recipe, with its paths made absolute.

        Raises:
            InputError: missing, or not of this schema.
        """
        recipe = read_dataclass(cls, path, InputError, max_bytes=MAX_RECIPE_BYTES)
        bare = recipe.name.translate(dict.fromkeys(map(ord, "-_.")))
        if not bare.isalnum() or len(recipe.name) > 60:
            fix = "Use up to 60 letters, digits and . _ -"
            raise InputError(f"name {recipe.name[:60]!r}", "it stands in URLs", fix)
        here = path.resolve().parent
        places = ["checkpoint", "fleet", "certification", "artifact", "public"]
        if not (recipe.sign or "").startswith(("command:", "env:")):
            places.append("sign")
        given = {
            name: str(here / expanded(value))
            for name in places
            if (value := getattr(recipe, name)) is not None
        }
        kind, _, argument = recipe.data.partition(":")
        if argument and kind != "synth":
            given["data"] = f"{kind}:{here / expanded(argument)}"
        return replace(recipe, **given)  # type: ignore[arg-type]  # all of them are texts


@dataclass(frozen=True, kw_only=True)
class ServeLimits:
    """What one server takes on.

    Args:
        body_bytes: most bytes of a request other than a picture.
        picture_bytes: most bytes of a picture.
        header_bytes: most bytes of all headers of a request.
        total_seconds: seconds from the headers of a request to its answer; streams apart.
        stream_seconds: seconds of a stream of events, after which its reader comes again.
        connections: connections open at once in each worker; beyond that the oldest without a
            request is closed, and where all have one the answer is 503.
        rate: requests a second of one token in each worker.
        burst: requests of one token at once.
        open_requests: requests of one token that nobody was forgotten for yet; more are answered
            429.
        open_names: names in them, which are counted as they were sent; more are answered 429.
        batch: most pictures in one run of the model.
        batch_wait_ms: milliseconds that the first of them waits for others.
        waiting: pictures that may wait for the model; more are answered 503.
    """

    body_bytes: int = 64 * 2**10
    picture_bytes: int = 8 * 2**20
    header_bytes: int = 16 * 2**10
    total_seconds: float = 30.0
    stream_seconds: float = 900.0
    connections: int = 1000
    rate: float = 100.0
    burst: int = 200
    open_requests: int = 10_000
    open_names: int = 100_000
    batch: int = 8
    batch_wait_ms: float = 4.0
    waiting: int = 128

    ranges: ClassVar[dict[str, tuple[float, float]]] = {
        "body_bytes": (1024, 2**26),
        "picture_bytes": (1024, 2**26),
        "header_bytes": (1024, 2**20),
        "total_seconds": (1.0, 3600.0),
        "stream_seconds": (0.1, 86_400.0),
        "connections": (1, 100_000),
        "rate": (0.01, 1e6),
        "burst": (1, 1_000_000),
        "open_requests": (1, 10_000_000),
        "open_names": (1, 100_000_000),
        "batch": (1, 256),
        "batch_wait_ms": (0.0, 1000.0),
        "waiting": (1, 100_000),
    }

    def __post_init__(self) -> None:
        for name, (low, high) in self.ranges.items():
            if not low <= getattr(self, name) <= high:
                option = f"--{name.replace('_', '-')} {getattr(self, name)}"
                raise InputError(option, "it is out of range", f"Use {low:g} to {high:g}")


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """All that a worker process needs to know.

    Args:
        ledger: its place.
        folder: the folder for the jobs' files.
        recipe: the recipe to release; None leaves a server without releases and models.
        limits: see there.
        lease_seconds: how long a silent worker keeps a job.
        poll_seconds: the seconds between looks for jobs and events.
        workers: processes, for `/health`'s sake and logs.
    """

    ledger: str
    folder: str
    recipe: ServeRecipe | None = None
    limits: ServeLimits = field(default_factory=ServeLimits)
    lease_seconds: float = 15.0
    poll_seconds: float = 0.25
    workers: int = 1

    @property
    def recipe_key(self) -> RecipeKey | None:
        """The recipe whose jobs this server takes; None without a recipe."""
        if self.recipe is None:
            return None
        whole = {"recipe": asdict(self.recipe), "folder": str(Path(self.folder).resolve())}
        return RecipeKey(name=self.recipe.name, sha256=json_sha256(whole))

    def to_environment(self) -> None:
        """Hands the settings to the processes that are started from here on."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> ServeSettings:
        """What `to_environment` of the parent wrote."""
        raw = json.loads(os.environ[VARIABLE])
        recipe, limits = raw.pop("recipe"), ServeLimits(**raw.pop("limits"))
        return cls(**raw, limits=limits, recipe=recipe and ServeRecipe.of(recipe))
