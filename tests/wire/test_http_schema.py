"""The HTTP door against its own description: whatever is sent, the answer is one it names."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
)

from http_gateway import TOKENS, gateway
from toolcrib.transports.http.openapi import describe

STREAMS = {"events", "calls.events"}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A gateway in a thread of its own: what asks here does not wait in a loop."""
    opened: list[str] = []
    up, over = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def run() -> None:
        async with gateway(wait=0.5, max_wait=1.0) as served:
            opened.append(served.url)
            up.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    assert up.wait(20)
    yield opened[0]
    loop.call_soon_threadsafe(over.set)
    thread.join()
    loop.close()


def described() -> Any:
    """The description without what never ends, and with the limits of this gateway."""
    document = describe()
    for path in [path for path, verbs in document["paths"].items() if _streams(verbs)]:
        del document["paths"][path]
    for verbs in document["paths"].values():
        for operation in verbs.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "wait":
                    parameter["schema"] = {"type": "number", "minimum": 0, "maximum": 1}
    return document


def _streams(verbs: dict[str, Any]) -> bool:
    return any(operation["operationId"] in STREAMS for operation in verbs.values())


schema = schemathesis.openapi.from_dict(described())


@schema.parametrize()
@settings(max_examples=15, suppress_health_check=list(HealthCheck), deadline=None)
def test_every_answer_is_one_that_the_description_names(
    case: schemathesis.Case, address: str
) -> None:
    headers = {"Authorization": f"Bearer {TOKENS['boss']}"}
    response = case.call(base_url=address, headers=headers)
    case.validate_response(response, checks=CHECKS)


def status_is_named(_: Any, response: Any, case: schemathesis.Case) -> None:
    """The coverage of verbs is beside the description, and answered all the same."""
    if case.method != "OPTIONS":
        names = case.operation.definition.raw["responses"]
        assert str(response.status_code) in names, (case.method, case.path, response.text)


CHECKS: list[Any] = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_is_named,
]
