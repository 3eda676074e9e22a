"""A process with a host whose only tool asks; it calls, answers or revokes as it is told."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from toolcrib import ToolHost, tool

what, db, log = sys.argv[1:4]
noted = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

PROFILES = {
    "careful": {
        "rules": [{"ask": {"effects": ["write", "egress", "destructive"]}}],
        "approval": {"timeout": "15s", "remember": ["once", "session", "1h", "always"]},
    }
}


@tool(effects=["write"])
async def note(n: int) -> int:
    """Leave a line in the independent log."""
    os.write(noted, f"{n}\n".encode())
    return n


async def main() -> None:
    config = {
        "version": 1,
        "host": {"store": f"sqlite:{db}", "audit": {"key": f"{db}.key"}},
        "profiles": PROFILES,
    }
    async with ToolHost([note], config=config) as host:
        if what == "call":
            result = await host.call("note", {"n": 1}, principal="ada")
            print(json.dumps(result.to_dict()), flush=True)
        elif what == "answer":
            while not (waiting := await host.approvals.list()):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.01)
            final = await host.approvals.decide(waiting[0].id, note="fine", by="bo")
            print(final.state, flush=True)
        elif what == "revoke":
            for grant in await host.approvals.grants():
                print(await host.approvals.revoke(grant.id, by="bo"), flush=True)


asyncio.run(main())
