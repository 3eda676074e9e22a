"""A tool that is an HTTP request, against the same request by the client library alone.

The server is a process of its own, in front of which both wait equally.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

from aiohttp import ClientSession, web
from worker import quickest, serve

from toolcrib import ToolHost
from toolcrib.core.context import ToolContext
from toolcrib.core.spec import ToolSpec
from toolcrib.executors.http import HttpExecutor

COUNT = 300
ANSWER = {"name": "toolcrib", "tags": ["a", "b"], "count": 3}


async def answer(request: web.Request) -> web.Response:
    return web.json_response(ANSWER)


async def serve_http() -> None:
    """Answer until the parent closes our standard input."""
    application = web.Application()
    application.router.add_get("/things/{id}", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await runner.cleanup()


async def measure(port: int) -> None:
    url = f"http://127.0.0.1:{port}/things"
    spec = ToolSpec(
        name="thing",
        kind="http",
        effects=frozenset({"read", "egress"}),
        input_schema={
            "type": "object",
            "properties": {"id": {"type": "integer"}},
            "required": ["id"],
            "additionalProperties": False,
        },
        config={"method": "GET", "url": url + "/{id}", "private": True},
    )
    executor = HttpExecutor()
    execute = executor.bind(spec)
    ctx = ToolContext("s", tool="thing", arguments={"id": 7}, call_id="c", spec=spec)
    async with ClientSession() as session, ToolHost([spec]) as host:

        async def alone() -> None:
            async with session.get(f"{url}/7") as response:
                if json.loads(await response.read()) != ANSWER:
                    raise SystemExit("another answer came")

        async def tool() -> None:
            if await execute(ctx) != ANSWER:
                raise SystemExit("another answer came")

        async def governed() -> None:
            if (await host.call("thing", {"id": 7})).unwrap() != ANSWER:
                raise SystemExit("another answer came")

        async def round_() -> dict[str, float]:
            return await quickest({"alone": alone, "tool": tool, "governed": governed}, COUNT)

        await serve(round_)
    await executor.aclose()


def main() -> None:
    if sys.argv[1:] == ["server"]:
        asyncio.run(serve_http())
        return
    server = subprocess.Popen(
        [sys.executable, __file__, "server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with server:
        assert server.stdout is not None
        asyncio.run(measure(int(server.stdout.readline())))


if __name__ == "__main__":
    main()
