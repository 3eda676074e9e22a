"""What the tests of the client begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from served import HOST, Gateway, gateway


@pytest.fixture
async def served() -> AsyncIterator[Gateway]:
    async with gateway() as made:
        yield made


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A host for standard input and output."""
    file = tmp_path / "host.py"
    file.write_text(HOST)
    return file
