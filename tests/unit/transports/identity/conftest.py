"""A host with principals and profiles, and an issuer beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from issuer import NOW, Issuer, issuer
from toolcrib import ToolHost
from toolcrib.core.serving import HttpSettings, ServeSettings
from toolcrib.testing import FakeClock
from toolcrib.transports.identity import Identity

CONFIG: dict[str, Any] = {
    "profiles": {"base": {}, "narrow": {}, "wide": {}},
    "principals": {
        "ci": {"roles": ["builder"], "permissions": ["repo.read"]},
        "boss": {"profiles": ["wide", "narrow"], "permissions": ["toolcrib.admin"]},
    },
    "host": {"profile": "base"},
}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def host(clock: FakeClock) -> ToolHost:
    return ToolHost(config=CONFIG, clock=clock)


@pytest.fixture
async def login() -> AsyncIterator[Issuer]:
    async with issuer() as made:
        yield made


@pytest.fixture
async def make(host: ToolHost) -> AsyncIterator[Callable[..., Identity]]:
    """Makes identities from parts of `serve:`, and closes them."""
    made: list[Identity] = []

    def make(*, of: ToolHost | None = None, http: Any = None, **serve: Any) -> Identity:
        settings = ServeSettings(http=HttpSettings(**(http or {})), **serve)
        made.append(Identity(of or host, settings))
        return made[-1]

    yield make
    for each in made:
        await each.close()
