"""A server in a sandbox: kept from what it need not see, and ended with everything it started."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_upstreams import SCRIPT, lives
from needs import needs
from toolcrib import ToolHost


def config(folder: Path, **options: Any) -> Path:
    """A host whose server lives in a sandbox that sees the folder `seen`."""
    needs("bwrap", "bubblewrap")
    seen = folder / "seen"
    seen.mkdir()
    shutil.copy(SCRIPT, seen / "server.py")
    command = [sys.executable, "-I", str(seen / "server.py"), json.dumps(options)]
    up = {"type": "mcp", "command": command, "sandbox": "jail", "trust": "off"}
    up |= {"cwd": "seen", "env": {"GIVEN": "yes"}}
    jail = {"type": "bubblewrap", "read": ["seen", sys.prefix, sys.base_prefix]}
    file = folder / "toolcrib.yaml"
    made = {"version": 1, "providers": {"up": up}, "sandboxes": {"jail": jail}}
    file.write_text(json.dumps(made))
    return file


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_it_answers_and_sees_only_its_own(
    tmp_path: Path, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCRIB_TEST_SECRET", "s3cret")
    (tmp_path / "secret.txt").write_text("mine")
    async with ToolHost.from_config(config(tmp_path, era=era)) as host:
        assert (await host.call("up-echo", {"text": "a"})).output == "a"
        read = "up-open"
        near = await host.call(read, {"path": str(tmp_path / "seen" / "server.py")})
        assert "MCP server" in near.output
        for path in (tmp_path / "secret.txt", tmp_path / "toolcrib.yaml"):
            far = await host.call(read, {"path": str(path)})
            assert far.output == "FileNotFoundError"
        env = json.loads((await host.call("up-env", {})).output)
        assert env["GIVEN"] == "yes"
        assert "TOOLCRIB_TEST_SECRET" not in env


async def test_it_is_ended_with_everything_it_started(tmp_path: Path) -> None:
    async with ToolHost.from_config(config(tmp_path)) as host:
        assert (await host.call("up-child", {})).status == "ok"
        inside = _below(tmp_path)
        assert len(inside) >= 2
    assert not [pid for pid in inside if lives(pid)]
    assert [task for task in asyncio.all_tasks() if "up " in task.get_name()] == []


def _below(folder: Path) -> list[int]:
    """The processes that were started with this folder in their command, and what they started."""
    found: list[int] = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                words = (place / "cmdline").read_text()
                parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            if str(folder) in words or parent in found:
                found.append(int(place.name))
    return found
