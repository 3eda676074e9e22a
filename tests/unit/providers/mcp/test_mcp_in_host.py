"""The provider as a host keeps it: started again, listed anew, and gone when the host is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from mcp_http_server import mcp_server
from mcp_upstreams import command, descriptors, lives, until
from toolcrib import ToolHost


def config(folder: Path, **settings: Any) -> Path:
    import json

    given = {"type": "mcp", "trust": "off", "restart_first": "20ms", **settings}
    file = folder / "toolcrib.yaml"
    file.write_text(json.dumps({"version": 1, "providers": {"up": given}}))
    return file


async def test_a_server_that_died_is_started_again(tmp_path: Path) -> None:
    async with ToolHost.from_config(config(tmp_path, command=command())) as host:
        assert (await host.call("up-echo", {"text": "a"})).output == "a"
        died = await host.call("up-die", {})
        assert (died.status, died.reason) == ("error", "outcome_unknown")
        await until(lambda: host.sources.status()[0].restarts == 1)
        await until(lambda: host.sources.status()[0].state == "up")
        assert (await host.call("up-echo", {"text": "b"})).output == "b"


async def test_a_tool_that_is_gone_leaves_the_catalog(tmp_path: Path) -> None:
    async with ToolHost.from_config(config(tmp_path, command=command(era="modern"))) as host:
        assert (await host.call("up-change", {})).status == "ok"
        await until(lambda: "up-echo" not in {tool.name for tool in host.tools()})
        assert (await host.call("up-echo", {"text": "a"})).reason == "unknown_tool"


async def test_a_timeout_calls_the_work_off(tmp_path: Path) -> None:
    log = tmp_path / "log"
    file = config(tmp_path, command=command(log=str(log)), timeout="100ms")
    async with ToolHost.from_config(file) as host:
        result = await host.call("up-hang", {})
        assert result.reason == "timeout"
        assert result.error is not None
        assert result.error.still_running
        await until(lambda: "notifications/cancelled" in log.read_text())
        assert (await host.call("up-echo", {"text": "b"})).output == "b"


async def test_hosts_come_and_go_and_leave_nothing(tmp_path: Path) -> None:
    children: list[int] = []
    async with mcp_server("handshake") as server:
        async with ToolHost.from_config(config(tmp_path, url=server.url)) as host:
            await host.call("up-echo", {})  # what is loaded once is loaded now
        tasks, fds = len(asyncio.all_tasks()), descriptors()
        for _ in range(3):
            async with ToolHost.from_config(config(tmp_path, url=server.url)) as host:
                assert (await host.call("up-stream", {})).output == "good"
            async with ToolHost.from_config(config(tmp_path, command=command())) as host:
                children.append(int((await host.call("up-child", {})).output))
        assert not [child for child in children if lives(child)]
        await until(lambda: len(asyncio.all_tasks()) <= tasks)
        await until(lambda: descriptors() <= fds)
