"""A host whose file may not grow past a limit, as on a full disk; later the limit is lifted."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys

from toolcrib import ToolHost, tool

db, effects = sys.argv[1:]
log = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
ran = 0


@tool(effects=["write"])
async def note(text: str) -> int:
    """Count, and leave a mark where the limit does not matter."""
    global ran
    ran += 1
    return ran


async def main() -> None:
    config = {"version": 1, "host": {"store": f"sqlite:{db}", "audit": {"key": f"{db}.key"}}}
    async with ToolHost([note], config=config) as host:
        assert (await host.call("note", {"text": "first"})).success
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
        endings: list[str | None] = []
        while not endings or endings[-1] is None:
            result = await host.call("note", {"text": "x" * 4000})
            endings.append(result.metadata.get("trail") or result.reason)
            assert len(endings) < 500
        full = ran
        refused = [(await host.call("note", {"text": "y"})).reason for _ in range(20)]
        stood = ran == full
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        for _ in range(300):
            result = await host.call("note", {"text": "z"})
            if result.success:
                break
            await asyncio.sleep(0.01)
    said = {"last": endings[-1], "refused": refused, "stood": stood, "again": result.status}
    print(json.dumps(said | {"ran": ran}), flush=True)


asyncio.run(main())
