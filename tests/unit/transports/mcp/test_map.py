"""The packages of MCP say what each of their files is for."""

from __future__ import annotations

import pkgutil
import re
from types import ModuleType

import pytest

from toolcrib.providers import mcp as provider
from toolcrib.transports import mcp as door


@pytest.mark.parametrize("package", [door, provider], ids=["door", "provider"])
def test_the_map_names_every_file_and_nothing_else(package: ModuleType) -> None:
    named = set(re.findall(r"`([a-z_]+)`", package.__doc__ or ""))
    files = {found.name for found in pkgutil.iter_modules(package.__path__)}
    assert files - named == set()
    assert named - files <= {"initialize", "mcp"}
