"""A proxy on this machine: whoever it brings is neither the proxy nor this machine's user."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from http_gateway import Gateway, Reply, Wire, gateway

FORWARDED = {"X-Forwarded-For": "198.51.100.7", "Host": "localhost"}


async def at_socket(
    gate: Gateway, path: Path, request: tuple[str, ...], who: str | None, headers: dict[str, str]
) -> Reply:
    reader, writer = await asyncio.open_unix_connection(str(path))
    async with Wire(reader, writer) as wire:
        await wire.send(gate.request(*request, who=who, headers=headers))
        return await wire.reply(request[0])


async def test_who_comes_through_a_proxy_is_not_the_user_of_the_socket(tmp_path: Path) -> None:
    path = tmp_path / "host.sock"
    async with gateway(unix=str(path)) as gate:
        asked = ("GET", "/v1/info")
        near = await at_socket(gate, path, asked, None, {"Host": "localhost"})
        assert near.json()["principal"] == "local"
        far = await at_socket(gate, path, asked, None, FORWARDED)
        assert (far.status, far.reason) == (401, "unauthenticated")


@pytest.mark.parametrize("first", ["near", "far"])
async def test_who_comes_through_a_proxy_to_the_socket_answers_nothing_of_its_own(
    tmp_path: Path, first: str
) -> None:
    path = tmp_path / "host.sock"
    async with gateway(unix=str(path)) as gate:
        if first == "near":  # what is known of a token must not be what its holder is elsewhere
            known = ("GET", "/v1/info")
            await at_socket(gate, path, known, "ci", {"Host": "localhost"})
        call = asyncio.ensure_future(gate.call("risky", {"what": "x"}, who="ci"))
        waiting = None
        while waiting is None:
            found = (await gate.ask("GET", "/v1/approvals", who="ci")).json()["approvals"]
            waiting = found[0]["id"] if found else None
        asked = ("POST", f"/v1/approvals/{waiting}", {"allow": True})
        far = await at_socket(gate, path, asked, "ci", FORWARDED)
        assert (far.status, far.reason) == (403, "not_permitted")
        near = await at_socket(gate, path, asked, "ci", {"Host": "localhost"})
        assert near.status == 200
        assert (await call).status == 200
