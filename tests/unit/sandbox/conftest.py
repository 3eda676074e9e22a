"""Sandboxes with a folder of their own to work in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from executing import children
from needs import needs
from toolcrib.sandbox import landlock
from toolcrib.sandbox.build import FACTORIES
from toolcrib.sandbox.confine import abi


class Room:
    """The part of a workshop that a sandbox looks at."""

    def __init__(self, folder: Path, *hidden: Path) -> None:
        self.folder = folder
        self.hidden = hidden
        self.guarded: tuple[Path, ...] = ()


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Any]:
    """Builds a sandbox of a type from settings; relative paths begin at `tmp_path`."""

    def build(type: str, *hidden: Path, **settings: Any) -> Any:
        if type == "bubblewrap":
            needs("bwrap", "bubblewrap")
        if type == "landlock" and abi() < landlock.NEEDED:
            pytest.skip("needs Landlock of Linux 6.12")
        return FACTORIES[type]("box", settings, Room(tmp_path, *hidden))  # type: ignore[arg-type]

    return build


def descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


@pytest.fixture(autouse=True)
def _nothing_stays_open() -> Iterator[None]:
    """No test leaves a descriptor or a child behind. Others of the same process may have some."""
    before, known = descriptors(), children()
    yield
    after = descriptors()
    # The loop of the test itself is closed after this, so fewer is not asked for.
    assert len(after) <= len(before), sorted(after - before)
    assert children() <= known
