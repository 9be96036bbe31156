"""A service over a ledger of its own, with a release that costs nothing; on SQLite, and on
PostgreSQL where it is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.exported import save_age_model
from tests.once import once
from tests.sdk.trust.ledger.conftest import postgresql as postgresql  # fixtures
from tests.sdk.trust.ledger.conftest import server as server

from unplug.export import export_checkpoint
from unplug.serve import SCOPES, ServeLimits, ServeRecipe, ServeSettings, ServiceTables, add_token
from unplug.serve.app import make_app
from unplug.trust.ledger import Ledger, LedgerSigner, open_ledger

ROOT = Path(__file__).resolve().parents[3]
RUNNER = "benchmarks.service_job:run"
OPEN = ServeLimits(rate=1e5, burst=100_000, stream_seconds=1.0)
ANNA = {"names": ["subject:anna-of-the-test", "face-0001"]}
SOON = 60.0


@dataclass(frozen=True, kw_only=True)
class Place:
    """What a service needs, made: its ledger, tables, settings, and a token that may do everything."""

    where: str
    folder: Path
    tables: ServiceTables
    settings: ServeSettings
    token: str

    @property
    def ledger(self) -> Ledger:
        """Opened anew."""
        return open_ledger(self.where)

    @property
    def headers(self) -> dict[str, str]:
        """Of a request that may do everything."""
        return {"authorization": f"Bearer {self.token}"}

    def token_for(self, *scopes: str) -> dict[str, str]:
        """Headers of a request that may do only that."""
        return {"authorization": f"Bearer {add_token(self.tables, 'test', scopes)[1]}"}


def data_of(folder: Path) -> str:
    """Data that hold whom the tests name; nobody looks at a picture."""
    rows = [("face-0001", "anna-of-the-test"), ("a", "bea")]
    for id, _ in rows:
        (folder / id).touch()
    lines = ["path,age,subject", *(f"{id},30,{subject}" for id, subject in rows)]
    (folder / "labels.csv").write_text("\n".join(lines), encoding="utf-8")
    return f"csv:{folder / 'labels.csv'}"


@pytest.fixture
def make_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Place]:
    """A place for a service, on a database that a test names."""
    key = tmp_path / "ledger-key"
    monkeypatch.setenv("UNPLUG_LEDGER_KEY", str(key))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    signer = LedgerSigner(name="tests.example", seed=bytes(range(32)))
    key.write_text(f"{signer.secret_text}\n")
    key.chmod(0o600)

    def make(where: str | None = None, *, limits: ServeLimits = OPEN, **recipe: Any) -> Place:
        place = where or str(tmp_path / "ledger.db")
        open_ledger(place).create()
        tables = ServiceTables(place)
        tables.create()
        settings = ServeSettings(
            ledger=place,
            folder=str(tmp_path / "service"),
            limits=limits,
            lease_seconds=2.0,
            poll_seconds=0.05,
            recipe=ServeRecipe(
                name="age",
                checkpoint="none",
                **{"data": data_of(tmp_path), "runner": RUNNER} | recipe,
            ),
        )
        return Place(
            where=place,
            folder=tmp_path,
            tables=tables,
            settings=settings,
            token=add_token(tables, "all", list(SCOPES))[1],
        )

    return make


@pytest.fixture
def place(make_place: Callable[..., Place]) -> Place:
    return make_place()


@pytest.fixture(params=["sqlite", "postgresql"])
def anywhere(request: pytest.FixtureRequest, make_place: Callable[..., Place]) -> Place:
    """The same on either database."""
    return make_place(None if request.param == "sqlite" else request.getfixturevalue("postgresql"))


@pytest.fixture(scope="session")
def onnx_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two small age models of other weights, exported."""
    root = once(tmp_path_factory, "served", _export)
    return root / "0" / "age.fp32.onnx", root / "1" / "age.fp32.onnx"


def _export(root: Path) -> None:
    for seed in (0, 1):
        checkpoint = save_age_model(root / f"model-{seed}", seed)
        export_checkpoint(checkpoint, targets=("onnx",), precisions=("fp32",), out=root / str(seed))


def until(holds: Callable[[], bool], seconds: float = SOON) -> None:
    """Waits for what is to come soon."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Api(TestClient):
    """A service that runs meanwhile, asked with a token that may do everything.

    Args:
        place: of it.
        releases: whether it does; else it has no recipe.
    """

    def __init__(self, place: Place, *, releases: bool = True, **options: Any) -> None:
        settings = place.settings if releases else replace(place.settings, recipe=None)
        super().__init__(make_app(settings), **{"headers": place.headers} | options)

    def submit(self, key: str, body: Any = ANNA) -> Any:
        return self.post("/requests", json=body, headers={"Idempotency-Key": key})

    def job(self, id: str) -> dict[str, Any]:
        return dict(self.get(f"/releases/{id}").json())

    def ended(self, id: str | None = None) -> dict[str, Any]:
        """A release that was asked for, or a new one, once it is over."""
        id = id or self.post("/releases").json()["id"]
        until(lambda: self.job(id).get("state") in ("done", "failed"))
        return self.job(id)
