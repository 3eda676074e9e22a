"""A head that was read before is not read again: that changes nothing for who sends it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from http_gateway import CONFIG, TOKENS, Gateway, Reply, Wire, gateway, tools
from toolcrib import ToolHost, tool
from toolcrib.core.link import LINK
from toolcrib.core.serving import ServeSettings, TokenSettings
from toolcrib.protocol.mcp import keys
from toolcrib.testing import FakeClock
from toolcrib.transports.http.connection import Connection
from toolcrib.transports.identity.identity import Identity, Known
from toolcrib.transports.identity.tokenfile import TokenFile

VERSION = "2026-07-28"
Ask = Callable[..., bytes]


@pytest.fixture
def again(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each request whose head was known was answered by that."""
    seen: list[bool] = []
    real = Connection._again

    def counted(self: Connection, *given: Any) -> bool:
        seen.append(real(self, *given))
        return seen[-1]

    monkeypatch.setattr(Connection, "_again", counted)
    return seen


def rest(served: Gateway, value: Any = 1, *, name: str = "echo", **more: Any) -> bytes:
    arguments = {"value": value} if name == "echo" else value
    return served.request("POST", f"/v1/tools/{name}/call", {"arguments": arguments}, **more)


def mcp(
    served: Gateway, value: Any = 1, *, name: str = "echo", path: str = "/mcp", **more: Any
) -> bytes:
    arguments = {"value": value} if name == "echo" else value
    meta = {keys.VERSION: VERSION, keys.CAPABILITIES: {}}
    params = {"name": name, "arguments": arguments, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "Accept": "application/json, text/event-stream",
        "Mcp-Protocol-Version": VERSION,
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
        **more.pop("headers", {}),
    }
    return served.request("POST", path, body, headers=headers, **more)


both = pytest.mark.parametrize("ask", [rest, mcp], ids=["rest", "mcp"])


def output(reply: Reply) -> Any:
    found = reply.json()
    return found["output"] if "output" in found else found["result"]["structuredContent"]


def is_refused(reply: Reply) -> bool:
    """Whether the call was not made."""
    found = reply.json()
    return (
        reply.status >= 400
        or found.get("result", {}).get("isError")
        or (found.get("status") == "denied")
    )


async def asked(wire: Wire, request: bytes) -> Reply:
    await wire.send(request)
    return await wire.reply()


async def known(wire: Wire, request: bytes, again: list[bool]) -> None:
    """Have the head of a request known on this connection."""
    for _ in range(3):
        assert (await asked(wire, request)).status == 200
    assert again[-1], "or this test proves nothing"
    again.clear()


def count(served: Gateway) -> int:
    return len(served.recorder.only("call.finished"))


class TestBytes:
    @both
    async def test_a_client_that_sends_the_body_apart_is_known_too(
        self, ask: Ask, again: list[bool]
    ) -> None:
        async with gateway() as served, await served.connect() as wire:
            await asked(wire, ask(served, name="echo"))  # who asks is known from then on
            for value in (1, "later", [1, 2]):
                head, end, body = ask(served, value).partition(b"\r\n\r\n")
                await wire.send(head + end)
                await asyncio.sleep(0.02)
                await wire.send(body)
                assert output(await wire.reply()) == value
            assert again == [True] * len(again)
            assert len(again) >= 2

    @both
    async def test_the_length_of_the_body_may_differ(self, ask: Ask, again: list[bool]) -> None:
        async with gateway() as served, await served.connect() as wire:
            await known(wire, ask(served), again)
            for value in ("", "x", "x" * 100, "x" * 10_000, [1, 2]):
                assert output(await asked(wire, ask(served, value))) == value
            assert all(again)

    @both
    async def test_a_request_may_come_in_pieces(self, ask: Ask, again: list[bool]) -> None:
        async with gateway() as served, await served.connect() as wire:
            request = ask(served, "abc")
            await known(wire, request, again)
            head = request.index(b"\r\n\r\n")
            for at in (1, 20, head, head + 2, head + 4, head + 5, len(request) - 1):
                before = count(served)
                await wire.send(request[:at])
                await asyncio.sleep(0.01)
                assert count(served) == before, "nothing is done with half a request"
                assert output(await asked(wire, request[at:])) == "abc"
                assert output(await asked(wire, ask(served, "next"))) == "next"

    @both
    async def test_several_in_one_piece_are_answered_in_order(
        self, ask: Ask, again: list[bool]
    ) -> None:
        async with gateway() as served, await served.connect() as wire:
            await known(wire, ask(served), again)
            await wire.send(b"".join(ask(served, n) for n in range(5)))
            assert [output(await wire.reply()) for _ in range(5)] == list(range(5))
            one, two = ask(served, "one"), ask(served, "two")
            await wire.send(one + two[:30])
            await asyncio.sleep(0.01)
            await wire.send(two[30:])
            assert [output(await wire.reply()) for _ in range(2)] == ["one", "two"]

    @both
    async def test_a_body_is_never_taken_for_a_request(self, ask: Ask, again: list[bool]) -> None:
        """The body is a whole request with a known head, alone in a segment of its own."""
        async with gateway() as served, await served.connect() as wire:
            inner = ask(served, "smuggled")
            await known(wire, inner, again)
            done = count(served)
            for path in ("/v1/tools/echo/call", "/mcp"):
                outer = served.request("POST", path, inner)
                await wire.send(outer[: -len(inner)])
                await asyncio.sleep(0.01)
                assert (await asked(wire, inner)).status == 400
                assert (await asked(wire, outer)).status == 400
            assert count(served) == done

    @both
    async def test_nor_when_its_own_request_is_answered_already(
        self, ask: Ask, again: list[bool]
    ) -> None:
        """An address that is not there is refused before the body has come."""
        async with gateway() as served, await served.connect() as wire:
            inner = ask(served, "smuggled")
            await known(wire, inner, again)
            done = count(served)
            outer = served.request("POST", "/v1/nothing", inner)
            assert (await asked(wire, outer[: -len(inner)])).status == 404
            await wire.send(inner)
            assert output(await asked(wire, ask(served, "next"))) == "next"
            assert count(served) == done + 1

    @both
    async def test_nor_is_a_part_of_a_head(self, ask: Ask, again: list[bool]) -> None:
        async with gateway() as served, await served.connect() as wire:
            inner = ask(served, "smuggled")
            await known(wire, inner, again)
            done = count(served)
            await wire.send(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Inner: ")
            await asyncio.sleep(0.02)
            assert (await asked(wire, inner)).status == 400  # two hosts
            assert count(served) == done

    @both
    async def test_too_much_after_a_known_head_is_not_swallowed(
        self, ask: Ask, again: list[bool]
    ) -> None:
        async with gateway() as served, await served.connect() as wire:
            await known(wire, ask(served), again)
            await wire.send(ask(served, "fits") + b"and more\r\n\r\n")
            assert output(await wire.reply()) == "fits"
            assert (await wire.reply()).status == 400
            await wire.closed()

    @pytest.mark.parametrize(
        "line",
        [
            b"Content-Length: 5",
            b"Transfer-Encoding: chunked",
            b"Content-Length: +9",
            b"Host: evil.test",
            b"Authorization: Bearer other",
            b" folded: 1",
        ],
        ids=lambda line: line.decode(),
    )
    @both
    async def test_a_head_with_more_in_it_is_another_one(
        self, ask: Ask, again: list[bool], line: bytes
    ) -> None:
        async with gateway() as served, await served.connect() as wire:
            request = ask(served)
            await known(wire, request, again)
            done = count(served)
            reply = await asked(wire, request.replace(b"\r\n\r\n", b"\r\n" + line + b"\r\n\r\n", 1))
            assert reply.status == 400
            assert count(served) == done
            assert not any(again)

    @pytest.mark.parametrize(
        "line", [b"Connection: close", b"Connection: Upgrade\r\nUpgrade: h2c"], ids=["close", "h2c"]
    )
    @both
    async def test_what_ends_a_connection_ends_it(
        self, ask: Ask, again: list[bool], line: bytes
    ) -> None:
        async with gateway() as served, await served.connect() as wire:
            request = ask(served)
            await known(wire, request, again)
            done = count(served)
            last = request.replace(b"\r\n\r\n", b"\r\n" + line + b"\r\n\r\n", 1)
            await wire.send(last)
            reply = await wire.reply()
            assert reply.headers["connection"] == "close"
            await wire.send(request)
            await wire.closed()
            assert count(served) <= done + 1

    @pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
    @both
    async def test_nothing_is_done_behind_a_request_that_was_too_large(
        self, ask: Ask, again: list[bool], apart: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The connection stays open for a moment, so that the refusal can be read."""
        async with gateway(max_body=2000) as served, await served.connect() as wire:
            request = ask(served)
            await known(wire, request, again)
            done = count(served)
            large = ask(served, "x" * 3000)
            await wire.send(large if apart else large + request)
            if apart:
                assert (await wire.reply()).status == 413
                await wire.send(request)
            await wire.closed()
            assert count(served) == done
            assert not caplog.records

    @both
    async def test_http_1_0_is_answered_once(self, ask: Ask, again: list[bool]) -> None:
        async with gateway() as served, await served.connect() as wire:
            await known(wire, ask(served), again)
            old = ask(served, "old").replace(b"HTTP/1.1", b"HTTP/1.0", 1)
            reply = await asked(wire, old)
            assert (output(reply), reply.headers["connection"]) == ("old", "close")
            assert await wire.closed() == b""
            assert not any(again)

    @both
    async def test_a_request_waits_for_the_one_before_it(self, ask: Ask, again: list[bool]) -> None:
        async with gateway() as served, await served.connect() as wire:
            await known(wire, ask(served), again)
            await wire.send(ask(served, {"seconds": 0.05}, name="slow"))
            await asyncio.sleep(0.01)
            await wire.send(ask(served, "second"))
            await asyncio.sleep(0.01)
            await wire.send(ask(served, "third"))
            assert [output(await wire.reply()) for _ in range(3)] == ["done", "second", "third"]
            assert output(await asked(wire, ask(served, "fourth"))) == "fourth"

    @both
    async def test_answers_that_nobody_reads_are_waited_for(
        self, ask: Ask, again: list[bool]
    ) -> None:
        async with gateway() as served, await served.connect() as wire:
            await known(wire, ask(served), again)
            text = "x" * 60_000

            async def send() -> None:
                for number in range(100):
                    await wire.send(ask(served, f"{number:03}{text}"))

            sending = asyncio.ensure_future(send())
            await asyncio.sleep(0.1)
            for number in range(100):
                assert output(await wire.reply())[:3] == f"{number:03}"
            await sending


class TestOneCallAfterAnother:
    @both
    async def test_a_queued_request_sees_nothing_of_the_call_before_it(self, ask: Ask) -> None:
        """A proxy puts the requests of many callers on one connection."""

        @tool(effects=["read"])
        async def peek() -> bool:
            """Look whose line it is."""
            return LINK.get() is not None

        config = deepcopy(CONFIG)
        config["profiles"]["work"]["rules"][0]["allow"].append("peek")
        async with gateway(config=config, more=[peek]) as served, await served.connect() as wire:
            await asked(wire, mcp(served))  # the first one opens the door of MCP
            await wire.send(ask(served, {"seconds": 0.05}, name="slow", who="boss"))
            await asyncio.sleep(0.02)
            await wire.send(rest(served, {}, name="peek", who="ci"))
            assert output(await wire.reply()) == "done"
            assert output(await wire.reply()) is False


def write(path: Path, **changes: Any) -> Path:
    """A configuration that is read again."""
    path.write_text(json.dumps({**CONFIG, **changes}))
    return path


async def follows(served: Gateway) -> None:
    """Have the doors take over what a reload brought."""
    await served.host.reload()
    await asyncio.sleep(0.3)


class TestStanding:
    @both
    async def test_a_revoked_token(
        self, ask: Ask, again: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Identity, "look", lambda _: None)  # so that the request notices it
        file = TokenFile(tmp_path / "tokens.json")
        secret = file.add("laptop", principal="ci", profile="work", created=0.0, expires=None)
        other = {"tokens_file": str(file.path)}
        async with gateway(other=other) as served, await served.connect() as wire:
            request = ask(served, who=secret)
            await known(wire, request, again)
            file.revoke("laptop")
            await asyncio.sleep(0.6)
            done = count(served)
            assert (await asked(wire, request)).status == 401
            assert count(served) == done
            assert (await asked(wire, ask(served))).status == 200

    @both
    async def test_an_expired_token(self, ask: Ask, again: list[bool]) -> None:
        short = TokenSettings(
            name="short",
            hash=f"sha256:{hashlib.sha256(b'tcr_short_0123456789').hexdigest()}",
            principal="ci",
            profile="work",
            expires=time.time() + 0.5,
        )
        other = {"tokens": (short,)}
        async with gateway(other=other) as served, await served.connect() as wire:
            request = ask(served, who="tcr_short_0123456789")
            await known(wire, request, again)
            await asyncio.sleep(max(0.0, (short.expires or 0) - time.time()) + 0.01)
            done = count(served)
            assert (await asked(wire, request)).status == 401
            assert count(served) == done

    @both
    async def test_rules_that_changed(self, ask: Ask, again: list[bool], tmp_path: Path) -> None:
        file = write(tmp_path / "toolcrib.json")
        async with gateway(config=file) as served, await served.connect() as wire:
            await known(wire, ask(served), again)
            rules = {**CONFIG["profiles"]["work"], "rules": [{"allow": "add"}]}
            write(file, profiles={**CONFIG["profiles"], "work": rules})
            await served.host.reload()
            reply = await asked(wire, ask(served))
            assert is_refused(reply)

    @both
    async def test_a_principal_without_its_profile(
        self, ask: Ask, again: list[bool], tmp_path: Path
    ) -> None:
        file = write(tmp_path / "toolcrib.json")
        async with gateway(config=file) as served, await served.connect() as wire:
            request = ask(served, who="ci")
            await known(wire, request, again)
            write(file, principals={**CONFIG["principals"], "ci": {"profiles": ["other"]}})
            await served.host.reload()
            reply = await asked(wire, request)
            assert is_refused(reply)

    async def test_a_profile_in_the_address_that_was_taken_away(
        self, again: list[bool], tmp_path: Path
    ) -> None:
        file = write(tmp_path / "toolcrib.json")
        async with gateway(config=file) as served, await served.connect() as wire:
            request = mcp(served, {"a": 1, "b": 2}, name="add", path="/mcp/other")
            await asked(wire, request)
            boss = {**CONFIG["principals"]["boss"], "profiles": ["work"]}
            await known(wire, request, again)
            write(file, principals={**CONFIG["principals"], "boss": boss})
            await served.host.reload()
            assert (await asked(wire, request)).status == 403

    async def test_a_session_that_ended(self, again: list[bool]) -> None:
        async with gateway() as served, await served.connect() as wire:
            opened = await served.ask("POST", "/v1/sessions", {})
            handle = opened.json()["id"]
            request = mcp(served, path=f"/mcp/s/{handle}")
            await known(wire, request, again)
            await served.ask("DELETE", f"/v1/sessions/{handle}")
            done = count(served)
            assert (await asked(wire, request)).status == 404
            assert count(served) == done

    @both
    async def test_settings_of_the_door_that_changed(
        self, ask: Ask, again: list[bool], tmp_path: Path
    ) -> None:
        def door(**http: Any) -> dict[str, Any]:
            return {"http": {"hosts": ["gate.test"], **http}}

        file = write(tmp_path / "toolcrib.json", serve=door())
        given: dict[str, Any] = {"config": file, "hosts": ("gate.test",)}
        async with gateway(**given) as served, await served.connect() as wire:
            named = ask(served, headers={"Host": "gate.test"})
            await known(wire, named, again)
            large = ask(served, "x" * 3000)
            await known(wire, large, again)
            write(file, serve=door(hosts=["other.test"], max_body=2000))
            await served.host.reload()
            # Known anew before the door goes by its new settings.
            await known(wire, named, again)
            await asyncio.sleep(0.3)
            assert (await asked(wire, named)).status == 421
            assert (await asked(wire, ask(served))).status == 200
            assert (await asked(wire, large)).status == 413

    async def test_mcp_that_was_switched_off(self, again: list[bool], tmp_path: Path) -> None:
        file = write(tmp_path / "toolcrib.json")
        async with gateway(config=file) as served, await served.connect() as wire:
            await known(wire, mcp(served), again)
            write(file, serve={"mcp": {"enabled": False}})
            await follows(served)
            done = count(served)
            assert (await asked(wire, mcp(served))).status == 404
            assert count(served) == done

    @both
    async def test_what_a_proxy_passes_on_is_not_local(self, ask: Ask, again: list[bool]) -> None:
        async with gateway(guarded=False) as served, await served.connect() as wire:
            await known(wire, ask(served, who=None), again)
            passed = ask(served, who=None, headers={"X-Forwarded-For": "192.0.2.1"})
            for _ in range(2):
                assert (await asked(wire, passed)).status == 401
            assert (await asked(wire, ask(served, who=None))).status == 200

    @both
    async def test_who_is_at_a_unix_socket_is_asked_each_time(
        self, ask: Ask, again: list[bool], tmp_path: Path
    ) -> None:
        path = str(tmp_path / "s")
        async with gateway(unix=path) as served:
            async with Wire(*await asyncio.open_unix_connection(path)) as wire:
                for _ in range(3):
                    reply = await asked(wire, ask(served, who=None, headers={"Host": "toolcrib"}))
                    assert reply.status == 200
            assert again == []

    @both
    async def test_callers_on_one_connection_stay_who_they_are(
        self, ask: Ask, again: list[bool]
    ) -> None:
        async with gateway() as served, await served.connect() as wire:
            for _ in range(3):
                for who in TOKENS:
                    await asked(wire, ask(served, who=who))
            assert sum(again) >= 2
            await asyncio.sleep(0.05)
            names = [e.data["principal"] for e in served.recorder.only("call.received")]
            assert names == ["boss", "ci"] * 3

    @both
    async def test_the_clocks_go_on(self, ask: Ask, again: list[bool]) -> None:
        async with gateway(keep_alive=0.3, request_timeout=0.3) as served:
            async with await served.connect() as wire:
                await known(wire, ask(served), again)
                assert await wire.closed() == b""
            async with await served.connect() as wire:
                await known(wire, ask(served, {"seconds": 0.0}, name="slow"), again)
                long = ask(served, {"seconds": 0.8}, name="slow")
                assert output(await asked(wire, long)) == "done"
                assert again == [True]
            async with await served.connect() as wire:
                await known(wire, ask(served), again)
                await wire.send(ask(served)[:40])
                assert (await wire.reply()).status == 408
            async with await served.connect() as wire:
                await known(wire, ask(served), again)
                await wire.send(ask(served)[:-3])
                assert (await wire.reply()).status == 408

    @both
    async def test_the_time_for_a_request_begins_with_it(self, ask: Ask, again: list[bool]) -> None:
        """Not with the pause before it."""
        times = {"keep_alive": 10, "request_timeout": 0.8}
        async with gateway(**times) as served, await served.connect() as wire:
            await known(wire, ask(served), again)
            await asyncio.sleep(1.0)
            await wire.send(ask(served)[:-3])
            await asyncio.sleep(0.4)
            assert (await asked(wire, ask(served)[-3:])).status == 200

    @both
    async def test_a_host_that_stops(self, ask: Ask, again: list[bool]) -> None:
        async with gateway() as served, await served.connect() as wire:
            await known(wire, ask(served), again)
            await wire.send(ask(served, {"seconds": 0.2}, name="slow"))
            await asyncio.sleep(0.05)
            served.stop.set()
            await asyncio.sleep(0.02)
            await wire.send(ask(served))
            assert output(await wire.reply()) == "done"
            assert is_refused(await wire.reply())
            assert await wire.closed() == b""

    @both
    async def test_a_connection_to_a_host_that_stops_ends_with_its_answer(
        self, ask: Ask, again: list[bool]
    ) -> None:
        async with gateway() as served, await served.connect() as wire:
            await known(wire, ask(served), again)
            async with await served.connect() as busy:
                await busy.send(ask(served, {"seconds": 0.3}, name="slow"))
                await asyncio.sleep(0.05)
                served.stop.set()
                await asyncio.sleep(0.02)
                reply = await asked(wire, ask(served))
                assert is_refused(reply)
                assert reply.headers["connection"] == "close"
                assert output(await busy.reply()) == "done"


class TestHolding:
    """What was found out about credentials holds until the rules change, or its time is over."""

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock(time.time())

    async def found(self, host: ToolHost, **more: Any) -> tuple[Identity, Known]:
        secret = b"tcr_short_0123456789"
        digest = f"sha256:{hashlib.sha256(secret).hexdigest()}"
        token = TokenSettings(name="t", hash=digest, principal="ci", profile="work", **more)
        identity = Identity(host, ServeSettings(tokens=(token,)))
        sent = b"Bearer " + secret
        await identity.identify(sent, door="http", loopback=False)
        known = identity.known(sent, "http", False)
        assert known is not None
        assert identity.holds(known)
        return identity, known

    async def test_until_its_time(self, clock: FakeClock) -> None:
        host = ToolHost(tools(), config=CONFIG, clock=clock)
        identity, known = await self.found(host, expires=clock.time() + 1000)
        clock.advance(1001)
        assert not known.caller.badge.over, "which goes by the clock of the machine"
        assert not identity.holds(known)
        await identity.close()

    async def test_until_the_rules_change(self, tmp_path: Path) -> None:
        """Whether or not that changes anything for the caller: it is asked about again."""
        host = ToolHost(tools(), config=write(tmp_path / "toolcrib.json"), store="memory")
        await host.start()
        identity, known = await self.found(host)
        await host.reload()
        assert not identity.holds(known)
        assert not known.caller.badge.over
        await identity.close()
        await host.stop()

    async def test_until_the_badge_is_taken_back(self) -> None:
        identity, known = await self.found(ToolHost(tools(), config=CONFIG))
        known.caller.badge.revoked = True
        assert not identity.holds(known)
        await identity.close()
