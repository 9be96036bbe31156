"""What the OpenAPI document promises, asked of the application by schemathesis, with data of its
form and of other forms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis.errors import Unsatisfiable
from tests.sdk.serve.conftest import Place

from unplug.serve import ServeLimits
from unplug.serve.app import make_app

schemathesis = pytest.importorskip(
    "schemathesis", reason="schemathesis is not installed (the extra [dev] has it)"
)
pytestmark = pytest.mark.long
EXAMPLES = 6
"""For each operation and kind of data: about a minute in all."""


def test_schemathesis_finds_nothing(make_place: Callable[..., Place]) -> None:
    place = make_place(limits=ServeLimits(rate=1e5, burst=100_000, stream_seconds=0.1))
    app, asked = make_app(place.settings), []
    with TestClient(app):  # which begins its work
        schema = schemathesis.openapi.from_asgi("/openapi.json", app)
        for operation in [item.ok() for item in schema.get_all_operations()]:
            asked.append(operation.label)
            for mode in schemathesis.GenerationMode:
                try:
                    ask(
                        operation.as_strategy(generation_mode=mode),
                        {"Authorization": f"Bearer {place.token}"},
                    )
                except Unsatisfiable:  # nothing can be wrong with what takes nothing
                    assert mode is schemathesis.GenerationMode.NEGATIVE
    assert len(asked) == 17


def ask(strategy: Any, headers: dict[str, str]) -> None:
    """Some cases of one operation, each with every check that schemathesis has."""

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    @given(case=strategy)
    def check(case: Any) -> None:
        known = {item["name"] for item in case.operation.definition.raw.get("parameters", ())}
        assume(known.issuperset(case.query or ()))  # others are ignored, as most servers do
        response = case.call(headers=headers)
        # What is wrong and too long as well is too long, which schemathesis does not expect.
        if response.status_code != 413:
            sent = {"headers": headers}
            case.validate_response(response, headers=headers, transport_kwargs=sent)

    check()
