"""What a server has besides tools is used only while the server itself is trusted."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from executing import until
from toolcrib import ToolHost
from upstream import Upstreams, definition

READ = "up-read_resource"


def stage(*tools: str) -> Upstreams:
    made = Upstreams(up=[definition(name) for name in tools])
    made.relays.add("up")
    return made


async def assert_held(host: ToolHost, server: Upstreams) -> None:
    assert READ not in {tool.name for tool in host.tools()}
    result = await host.call(READ, {"uri": "file:///a"})
    assert (result.status, result.reason) == ("denied", "definition_changed")
    assert READ not in server.ran


@pytest.mark.parametrize("tools", [(), ("shout",)], ids=["no-tools", "tools"])
async def test_nothing_of_a_server_is_used_before_a_person_accepted_it(
    tmp_path: Path, tools: tuple[str, ...]
) -> None:
    server = stage(*tools)
    async with server.host(tmp_path, up={"trust": "review"}) as host:
        await assert_held(host, server)
        trust = host.sources.trust
        seen = {key: seen.digest for key, seen in trust.keepers["up"].seen.items()}
        trust.decide("up", seen, "ann", accept=True)
    async with server.host(tmp_path, up={"trust": "review"}) as host:
        assert (await host.call(READ, {"uri": "file:///a"})).status == "ok"


async def test_nothing_of_another_server_in_its_place_is_used(tmp_path: Path) -> None:
    server = stage("shout")
    async with server.host(tmp_path) as host:
        assert (await host.call(READ, {"uri": "file:///a"})).status == "ok"
    server.ran.clear()
    async with server.host(tmp_path, up={"url": "https://evil.example/mcp"}) as host:
        await assert_held(host, server)


async def test_nothing_is_used_while_the_lock_cannot_be_read(tmp_path: Path) -> None:
    server = stage("shout")
    async with server.host(tmp_path):
        pass
    (tmp_path / "toolcrib.lock").write_text("{not json")
    async with server.host(tmp_path) as host:
        await assert_held(host, server)


async def test_a_server_without_tools_is_used_on_first_use(tmp_path: Path) -> None:
    server = stage()
    async with server.host(tmp_path) as host:
        assert (await host.call(READ, {"uri": "file:///a"})).status == "ok"
        assert json.loads((tmp_path / "toolcrib.lock").read_text())["providers"] == {}


async def test_a_server_that_changes_without_end_is_listened_to_less(tmp_path: Path) -> None:
    """Each list says that there is another one, with other words in it."""
    server = stage("shout")
    times: list[float] = []
    clock = asyncio.get_running_loop().time

    class Restless(list[Any]):
        def __deepcopy__(self, memo: Any) -> Any:
            times.append(clock())
            if "up" in server.changed:
                server.changed["up"]()
            return [definition("shout", description=f"Version {len(times)}.")]

    server.lists["up"] = Restless()
    async with server.host(tmp_path) as host:
        await until(lambda: len(times) > 6)
        pauses = [later - first for first, later in pairwise(times)]
        assert pauses[-1] > 8 * 0.02
        assert len(host.sources.trust.keepers["up"]._since) == 1
