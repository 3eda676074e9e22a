"""Many clients that number their requests alike: every answer belongs to its question."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp

from hostile import Running, running, write_project

SOCKETS, PER_SOCKET = 35, 550
REQUESTERS, PER_REQUESTER = 15, 60
CLIENTS = SOCKETS + REQUESTERS
TOOLS = '''
    """A tool that says whose call it ran."""

    from __future__ import annotations

    import asyncio

    from toolcrib import ToolContext, tool


    @tool(effects=["read"])
    async def mine(ctx: ToolContext, client: int, n: int) -> list[object]:
        """Who asked, what was asked, in which session; later ones may be done sooner."""
        if n % 5 == 0:
            await asyncio.sleep((n % 7) / 500)
        return [client, n, ctx.principal.name, ctx.session_id]
'''


def secret(client: int) -> str:
    return f"token-of-client-{client:04}"


def write(folder: Path) -> None:
    lines = ["version: 1", "host: {store: memory, profile: all}", "tools: [{python: tools.py}]"]
    lines += ["profiles: {all: {default: allow}}", "principals:"]
    lines += [f"  p{client}: {{}}" for client in range(CLIENTS)]
    lines += ["serve:", '  http: {listen: "127.0.0.1:0", profile: all}', "  tokens:"]
    for client in range(CLIENTS):
        hashed = hashlib.sha256(secret(client).encode()).hexdigest()
        lines.append(f'    t{client}: {{hash: "sha256:{hashed}", principal: p{client}}}')
    write_project(folder, "\n".join(lines), TOOLS)


def bearer(client: int) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret(client)}"}


async def over_a_socket(gateway: Running, http: aiohttp.ClientSession, client: int) -> Counter[str]:
    """Calls in bursts, all numbered from 0 as every other client's."""
    seen: Counter[str] = Counter()
    async with http.ws_connect(f"{gateway.url}/v1/ws", headers=bearer(client)) as socket:
        await socket.send_json({"jsonrpc": "2.0", "id": 0, "method": "host.info"})
        session = (await socket.receive_json())["result"]["session"]
        for start in range(0, PER_SOCKET, 50):
            for n in range(start, start + 50):
                params = {"name": "mine", "arguments": {"client": client, "n": n}}
                text = {"jsonrpc": "2.0", "id": n, "method": "tools.call", "params": params}
                await socket.send_str(json.dumps(text, separators=(",", ":")))
            left = set(range(start, start + 50))
            while left:
                message = await socket.receive_json()
                left.remove(message["id"])
                result = message["result"]
                assert result["output"] == [client, message["id"], f"p{client}", session]
                seen[result["call_id"]] += 1
    return seen


async def over_requests(gateway: Running, http: aiohttp.ClientSession, client: int) -> Counter[str]:
    """Calls one by one and side by side, over connections that all clients share."""
    seen: Counter[str] = Counter()
    url = f"{gateway.url}/v1/tools/mine/call"

    async def one(n: int) -> None:
        given = {"arguments": {"client": client, "n": n}}
        async with http.post(url, json=given, headers=bearer(client)) as answer:
            result: dict[str, Any] = await answer.json()
        assert result["output"][:3] == [client, n, f"p{client}"]
        assert answer.headers["toolcrib-call-id"] == result["call_id"]
        seen[result["call_id"]] += 1

    for start in range(0, PER_REQUESTER, 5):
        await asyncio.gather(*(one(n) for n in range(start, start + 5)))
    return seen


async def test_equal_ids_of_fifty_clients_do_not_cross(tmp_path: Path) -> None:
    write(tmp_path)
    connector = aiohttp.TCPConnector(limit=60)
    async with (
        running(tmp_path, "--quiet") as gateway,
        aiohttp.ClientSession(connector=connector) as http,
    ):
        work = [over_a_socket(gateway, http, client) for client in range(SOCKETS)]
        work += [over_requests(gateway, http, client) for client in range(SOCKETS, CLIENTS)]
        seen = sum(await asyncio.gather(*work), Counter[str]())
    assert seen.total() == SOCKETS * PER_SOCKET + REQUESTERS * PER_REQUESTER >= 20_000
    assert set(seen.values()) == {1}
