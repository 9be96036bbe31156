"""The model that answers pictures, loaded from what the last release left, and swapped where
another one did.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import sqlalchemy as sa

from unplug.core import UnplugError
from unplug.sdk.drawing.inference import Embedded, load_embedded

from .batching import Batcher
from .jobs import put_model
from .logs import LOG, log_error
from .metrics import Metrics
from .recipe import ServeRecipe
from .tables import ServiceTables, models


@dataclass(frozen=True, kw_only=True)
class ServedRow:
    """What the table says of the model; see `put_model`."""

    name: str
    artifact: str
    sha256: str
    job: str | None
    since: str


@dataclass(kw_only=True)
class Served:
    """The served model of one process.

    Args:
        tables: the tables that name the release's file.
        recipe: the recipe of the model; None serves none.
        batcher: the batcher that runs it.
        metrics: the metrics that count swaps.
    """

    tables: ServiceTables
    recipe: ServeRecipe | None
    batcher: Batcher
    metrics: Metrics
    row: ServedRow | None = None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def refresh(self) -> None:
        """Loads the file that the table names, where it is another than the one that answers;
        requests go on meanwhile.
        """
        if self.recipe is None:
            return
        async with self._turn:
            row = await asyncio.to_thread(self._read)
            if row is None or (self.row is not None and row.sha256 == self.row.sha256):
                return
            try:
                loaded = await asyncio.to_thread(load_embedded, row.artifact)
            except UnplugError as error:  # the old one goes on answering
                log_error("a model cannot be loaded", error, model=row.name)
                return
            self._take(row, loaded)

    def _take(self, row: ServedRow, loaded: Embedded) -> None:
        self.batcher.swap(loaded)
        if self.row is not None:
            self.metrics.swaps.labels(row.name).inc()
        self.row = row
        LOG.info(
            "a model answers",
            extra={"model": row.name, "sha256": loaded.sha256, "batched": loaded.batched},
        )

    def _read(self) -> ServedRow | None:
        assert self.recipe is not None
        with self.tables.reading() as connection:
            row = connection.execute(
                sa.select(models).where(models.c.name == self.recipe.name)
            ).first()
        return None if row is None else ServedRow(**row._mapping)


def put_first_model(tables: ServiceTables, recipe: ServeRecipe) -> None:
    """Says that the recipe's own file answers, until a release brings another.

    Raises:
        ArtifactError: it is not an exported file.
    """
    if recipe.artifact is None:
        return
    sha256 = load_embedded(recipe.artifact).sha256
    with tables.writing() as connection:
        row = connection.execute(
            sa.select(models.c.job).where(models.c.name == recipe.name)
        ).first()
        if row is None or row.job is None:
            put_model(
                connection, name=recipe.name, artifact=recipe.artifact, sha256=sha256, job=None
            )
