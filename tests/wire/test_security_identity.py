"""Attacks on who a caller is: what one credential may do must not leak to another."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from http_gateway import CONFIG, LOCAL, TOKENS, Gateway, gateway
from rpc_peer import Peer
from toolcrib import ToolHost, tool
from toolcrib.core.principal import Principal
from toolcrib.core.serving import HttpSettings, ServeSettings, StdioSettings, TokenSettings
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.identity.tokenfile import TokenFile
from toolcrib.transports.service import Service
from toolcrib.transports.serving import Serving, serve
from toolcrib.transports.stdio import stdio_caller

NARROW, WIDE = "tcr_narrow_0123456789abcdef", "tcr_wide_0123456789abcdef01"


@tool(effects=["read"])
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(effects=["write"])
async def purge() -> str:
    """Only for the wide profile."""
    return "purged"


@tool(effects=["read"], permissions=["vault.open"])
async def vault() -> str:
    """Only for those with the permission."""
    return "gold"


TWO: dict[str, Any] = {
    "version": 1,
    "host": {"profile": "narrow"},
    "profiles": {"narrow": {"rules": [{"allow": "add"}]}, "wide": {"default": "allow"}},
    "principals": {"two": {}},
}


def token(name: str, secret: str, profile: str) -> TokenSettings:
    digest = hashlib.sha256(secret.encode()).hexdigest()
    return TokenSettings(name=name, hash=f"sha256:{digest}", principal="two", profile=profile)


@asynccontextmanager
async def opened(host: ToolHost, settings: ServeSettings):
    stop = asyncio.Event()
    ready: asyncio.Future[Serving] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(serve(host, settings, ready=ready.set_result, stop=stop))
    await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
    try:
        yield Gateway(ready.result(), host, None, stop, task)  # type: ignore[arg-type]
    finally:
        stop.set()
        await task


@pytest.mark.parametrize("way", ["call", "list", "get", "search", "explain"])
async def test_a_session_does_not_lend_its_profile_to_a_narrower_token(way: str) -> None:
    tokens = (token("n", NARROW, "narrow"), token("w", WIDE, "wide"))
    settings = ServeSettings(http=HttpSettings(listen=(LOCAL,)), tokens=tokens)
    async with opened(ToolHost([add, purge], config=TWO), settings) as gate:
        session = (await gate.ask("POST", "/v1/sessions", {}, who=WIDE)).json()["id"]
        asked = {
            "call": ("POST", "/v1/tools/purge/call", {"session": session}),
            "list": ("GET", f"/v1/tools?session={session}", None),
            "get": ("GET", f"/v1/tools/purge?session={session}", None),
            "search": ("GET", f"/v1/search?query=purge&session={session}", None),
            "explain": ("POST", "/v1/explain", {"name": "purge", "session": session}),
        }[way]
        refused = await gate.ask(*asked, who=NARROW)
        assert refused.status == 403, refused.body
        assert b"purged" not in refused.body
        assert (await gate.ask(*asked, who=WIDE)).status == 200


async def test_a_session_does_not_lend_the_permissions_of_who_opened_it() -> None:
    config = {**TWO, "host": {"profile": "wide"}}
    service = Service(ToolHost([add, vault], config=config))
    await service.start()
    try:
        strong = Caller(Principal("ana", permissions=["vault.open"]), door="http", profile="wide")
        weak = Caller(Principal("ana"), door="http", profile="wide")
        session = await service.open_session(strong)
        assert (await service.place(strong, "vault", {}, session=session.id)).output == "gold"
        refused = await service.place(weak, "vault", {}, session=session.id)
        assert refused.status == "denied"
        listed = await service.handle(weak, "tools.list", {"session": session.id})
        assert [each.name for each in listed.tools] == ["add"]
        # Nor does the weaker one take anything away from the stronger.
        assert (await service.place(strong, "vault", {}, session=session.id)).output == "gold"
    finally:
        await service.stop()


@pytest.mark.parametrize("door", ["websocket", "events"])
async def test_a_revoked_token_ends_open_connections_without_other_requests(
    tmp_path: Path, door: str
) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    secret = file.add("t", principal="two", profile=None, created=0, expires=None)
    http = HttpSettings(listen=(LOCAL,), heartbeat=0.25)
    settings = ServeSettings(http=http, tokens_file=str(file.path))
    async with opened(ToolHost([add], config=TWO), settings) as gate:
        if door == "websocket":
            url = f"ws://127.0.0.1:{gate.port}/v1/ws"
            headers = {"Authorization": f"Bearer {secret}"}
            async with connect(url, additional_headers=headers, proxy=None) as socket:
                file.revoke("t")
                with pytest.raises(ConnectionClosed) as ended:
                    await asyncio.wait_for(socket.recv(), 20)
                assert ended.value.rcvd is not None
                assert ended.value.rcvd.code == 1008
            return
        async with await gate.connect() as wire:
            await wire.send(gate.request("GET", "/v1/events", who=secret))
            await wire.reader.readuntil(b"retry: ")
            file.revoke("t")
            async with asyncio.timeout(20):
                await wire.reader.readuntil(b'"reason":"unauthenticated"')


async def test_an_unguarded_host_opens_to_no_proxy_by_a_reload() -> None:
    """At the start it is refused; a configuration read again must not get there either."""
    config = {**TWO, "serve": {"http": {"hosts": ["tools.example.org"]}}}
    from toolcrib.transports.identity.identity import Identity

    host = ToolHost([add], config=config)
    identity = Identity(host, host.config.serving)
    with pytest.raises(Fault) as refused:
        await identity.identify(None, door="http", loopback=True)
    assert refused.value.reason == "unauthenticated"
    near = replace(host.config.serving, http=HttpSettings(profile="narrow"))
    identity.renew(near)
    assert (await identity.identify(None, door="http", loopback=True)).principal.name == "local"
    await identity.close()


def test_a_named_principal_on_stdio_does_not_choose_its_profile() -> None:
    service = Service(
        ToolHost([add], config=TWO), ServeSettings(stdio=StdioSettings(principal="two"))
    )
    caller = stdio_caller(service)
    assert caller.may_use("narrow")
    assert not caller.may_use("wide")


AUDITED: dict[str, Any] = {
    **CONFIG,
    "principals": {
        "boss": {"permissions": ["toolcrib.audit"], "profiles": ["work"]},
        "ci": {"profiles": ["work"]},
    },
}


async def test_who_may_only_look_answers_for_nobody_else() -> None:
    async with gateway(config=AUDITED) as gate:
        call = asyncio.ensure_future(gate.call("risky", {"what": "x"}, who="ci"))
        waiting = await pending(gate, "boss")
        refused = await gate.ask("POST", f"/v1/approvals/{waiting}", {"allow": True}, who="boss")
        assert (refused.status, refused.reason) == (403, "not_permitted")
        own = await gate.ask("POST", f"/v1/approvals/{waiting}", {"allow": False}, who="ci")
        assert own.status == 200
        assert (await call).reason == "approval_rejected"


@pytest.mark.parametrize(
    "header", ["X-Forwarded-For", "Forwarded", "X-Forwarded-Host", "X-Real-IP"]
)
async def test_nobody_behind_a_proxy_answers_its_own_question(header: str) -> None:
    async with gateway() as gate:
        call = asyncio.ensure_future(gate.call("risky", {"what": "x"}, who="ci"))
        waiting = await pending(gate, "ci")
        path, away = f"/v1/approvals/{waiting}", {header: "198.51.100.7"}
        refused = await gate.ask("POST", path, {"allow": True}, who="ci", headers=away)
        assert (refused.status, refused.reason) == (403, "not_permitted")
        assert (await gate.ask("POST", path, {"allow": False}, who="ci")).status == 200
        await call


async def test_a_socket_behind_a_proxy_is_not_local() -> None:
    async with gateway() as gate:
        headers = {"Authorization": f"Bearer {TOKENS['ci']}", "X-Forwarded-For": "198.51.100.7"}
        url = f"ws://127.0.0.1:{gate.port}/v1/ws"
        async with connect(url, additional_headers=headers, proxy=None) as socket:
            peer = Peer(socket.send)

            async def read() -> None:
                async for text in socket:
                    peer.take(text)

            reading = asyncio.ensure_future(read())
            made = await peer.begin("tools.call", {"name": "risky", "arguments": {"what": "x"}})
            asked = (await peer.notification("approval.requested"))["approval"]["id"]
            error = await peer.refused("approvals.decide", {"id": asked, "allow": True})
            assert error["data"]["error"]["reason"] == "not_permitted"
            await gate.ask("POST", f"/v1/approvals/{asked}", {"allow": False}, who="boss")
            assert (await peer.answer(made))["result"]["status"] == "denied"
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def pending(gate: Gateway, who: str) -> str:
    """The id of the one request that waits."""
    async with asyncio.timeout(10):
        while True:
            found = (await gate.ask("GET", "/v1/approvals", who=who)).json()["approvals"]
            if found:
                return found[0]["id"]
            await asyncio.sleep(0.01)


async def test_a_key_does_not_hand_on_what_another_profile_was_given() -> None:
    service = Service(ToolHost([add, purge], config=TWO))
    await service.start()
    try:
        wide = Caller(Principal("two"), door="http", profile="wide")
        narrow = Caller(Principal("two"), door="http", profile="narrow")
        asked = {"name": "purge", "arguments": {}, "key": "one"}
        assert (await service.handle(wide, "tools.call", asked)).output == "purged"
        assert (await service.handle(wide, "tools.call", asked)).output == "purged"
        with pytest.raises(Fault) as refused:
            await service.handle(narrow, "tools.call", asked)
        assert refused.value.reason == "key_reused"
    finally:
        await service.stop()
