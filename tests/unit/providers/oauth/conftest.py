"""A guarded server, and what signs requests to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from authority import Guarded, guarded, oauth_of
from toolcrib.providers.mcp.oauth.source import OAuth


@pytest.fixture
async def up() -> AsyncIterator[Guarded]:
    async with guarded() as made:
        yield made


@pytest.fixture
async def sign(up: Guarded, tmp_path: Path) -> AsyncIterator[Callable[..., OAuth]]:
    """Makes what signs requests; each one is like a process of its own with the same files."""
    made: list[OAuth] = []

    def make(**given: Any) -> OAuth:
        made.append(oauth_of(tmp_path, given.pop("url", up.url), **given))
        return made[-1]

    yield make
    for each in made:
        await each.aclose()
