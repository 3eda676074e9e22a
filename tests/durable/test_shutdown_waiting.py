"""A host that is told to stop does not wait for people."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from toolcrib import ApprovalRequest, ToolHost, tool

CONFIG = {
    "version": 1,
    "host": {"drain": "30s"},
    "profiles": {"careful": {"default": "ask", "approval": {"timeout": "5m"}}},
}
ran: list[str] = []


@tool(effects=["write"])
def deploy(env: str) -> str:
    """Put a version in place."""
    ran.append(env)
    return env


async def asked(host: ToolHost) -> list[ApprovalRequest]:
    async with asyncio.timeout(10):
        while True:
            found = await host.approvals.list()
            if found:
                return found
            await asyncio.sleep(0.01)


async def test_what_waits_for_a_person_ends_at_once_and_its_question_stays(tmp_path: Path) -> None:
    ran.clear()
    store = f"sqlite:{tmp_path / 'trail.db'}"
    host = ToolHost([deploy], config=CONFIG, store=store)
    await host.start()
    calling = asyncio.ensure_future(host.call("deploy", {"env": "prod"}))
    pending = await asked(host)
    began = time.monotonic()
    await host.stop()
    assert time.monotonic() - began < 20, "it waited for the drain"
    assert (await calling).reason == "host_stopping"
    async with ToolHost([deploy], config=CONFIG, store=store) as again:
        assert [request.id for request in await again.approvals.list()] == [pending[0].id]
        await again.approvals.decide(pending[0].id, True)
        assert (await again.call("deploy", {"env": "prod"})).output == "prod"
    assert ran == ["prod"]
