"""What the tests of live events share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each kind of store, by name."""
    return "memory" if request.param == "memory" else f"sqlite:{tmp_path / 'trail.db'}"
