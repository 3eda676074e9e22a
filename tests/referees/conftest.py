"""Judges from outside. They are collected only when this folder is named: `make conformance`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import environments  # noqa: E402
from processes import Gateway, Upstream, gateway, passing, upstream  # noqa: E402


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    named = (Path(arg.partition("::")[0]).resolve() for arg in config.args)
    return None if any(place == HERE or HERE in place.parents for place in named) else True


@pytest.fixture(scope="session", autouse=True)
def referees() -> None:
    """Without its environments nothing here can run; where all has to be tested, that is a
    failure."""
    wanted = (environments.SDK1, environments.SDK2, environments.MODULES)
    missing = [str(place) for place in wanted if not place.exists()]
    if not missing:
        return
    text = f"needs {', '.join(missing)}: make conformance"
    if os.environ.get("CI"):
        pytest.fail(text)
    pytest.skip(text)


@pytest.fixture(scope="session")
def fixture_server() -> Iterator[Upstream]:
    """The fixture of the SDK 2.x, which speaks both eras."""
    with upstream("sdk2") as running:
        yield running


@pytest.fixture(scope="session")
def passed_through(
    fixture_server: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """A gateway that changes nothing of the fixture's names."""
    with gateway(tmp_path_factory.mktemp("through"), passing(fixture_server.url)) as running:
        yield running


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """What a test starts is ended with it."""
    with ExitStack() as stack:
        yield stack
