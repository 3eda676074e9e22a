"""The short way to a server, against one that answers as no server should."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from mcp_upstreams import Link, call, context, entered, failure, until
from toolcrib.core.link import LINK
from toolcrib.errors import Denial, ToolFailure
from toolcrib.providers.mcp.exchange import Behalf
from toolcrib.providers.mcp.provider import McpProvider

TOOLS = [{"name": "act", "inputSchema": {"type": "object"}}]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
Script = Callable[["Server", int, asyncio.StreamWriter], Awaitable[None]]


def result(id: int, text: str = "good", **more: Any) -> bytes:
    found = {"content": [{"type": "text", "text": text}], **more}
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": found}).encode()


def whole(body: bytes) -> bytes:
    return HEAD % len(body) + body


class Server:
    """A modern server that writes its answers to calls byte by byte."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.heads: list[bytes] = []
        """The heads of calls."""
        self.calls: list[dict[str, Any]] = []
        self.other: list[bytes] = []
        """First lines of what was asked under other addresses."""
        self.writers: list[asyncio.StreamWriter] = []
        self.hung_up = 0
        """Connections that the client ended."""
        self.port = 0

    @property
    def settings(self) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.port}/mcp"
        return {"url": url, "era": "modern"}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.lower().split(b"\r\n")
                found = [line[15:] for line in lines if line.startswith(b"content-length:")]
                body = await reader.readexactly(int(found[0]) if found else 0)
                if not head.startswith(b"POST /mcp "):
                    self.other.append(head.split(b"\r\n")[0])
                    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                    continue
                message = json.loads(body)
                number, method = message["id"], message["method"]
                if method == "tools/call":
                    self.heads.append(head)
                    self.calls.append(message)
                    await self.script(self, number, writer)
                elif method == "subscriptions/listen":
                    start = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
                    writer.write(start)
                    await asyncio.sleep(60)
                else:
                    more: dict[str, Any] = {"tools": TOOLS}
                    if method == "server/discover":
                        more = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
                    made = {"jsonrpc": "2.0", "id": number, "result": more}
                    writer.write(whole(json.dumps(made).encode()))
        self.hung_up += 1


@asynccontextmanager
async def upstream(folder: Path, script: Script) -> AsyncIterator[tuple[McpProvider, Server]]:
    """A provider of such a server."""
    made = Server(script)
    served = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = served.sockets[0].getsockname()[1]
    try:
        async with entered(folder, made.settings) as up:
            assert up._upstream._direct is not None
            yield up, made
    finally:
        for writer in made.writers:
            writer.transport.abort()
        served.close()
        await served.wait_closed()
        await asyncio.sleep(0)


def scripted(*parts: bytes | None) -> Script:
    """Answers with these parts, one after the other; None hangs up. `ID` is the call's id."""

    async def script(server: Server, id: int, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            if part is None:
                writer.transport.abort()
                raise ConnectionResetError
            writer.write(part.replace(b"ID", b"%d" % id))
            await writer.drain()
            await asyncio.sleep(0.005)

    return script


def first_good(then: Script) -> Script:
    """One call is answered as it should be, so that the head of the answer is known."""

    async def script(server: Server, id: int, writer: asyncio.StreamWriter) -> None:
        if len(server.calls) == 1:
            writer.write(whole(result(id)))
        else:
            await then(server, id, writer)

    return script


GOOD = b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"good"}]}}'
LENGTH = len(GOOD) - 1  # ids have one digit here
FULL = HEAD % LENGTH + GOOD


class TestPieces:
    async def test_an_answer_is_read_wherever_it_is_cut(self, tmp_path: Path) -> None:
        async def script(server: Server, id: int, writer: asyncio.StreamWriter) -> None:
            data = whole(result(id))
            at = cuts[len(server.calls) - 1]
            writer.write(data[:at])
            await writer.drain()
            await asyncio.sleep(0.002)
            writer.write(data[at:])

        size = len(whole(result(10)))
        cuts = [0, 1, 9, 17, size - 120, size - 76, size - 75, size - 74, size - 1, 0, 0, 3]
        async with upstream(tmp_path, script) as (up, server):
            for _ in cuts:
                assert (await call(up, "act")).output == "good"
            assert len(server.calls) == len(cuts)

    @pytest.mark.parametrize("known", [False, True], ids=["unknown", "known"])
    @pytest.mark.parametrize("at", [0, 5, 40, len(HEAD), len(FULL) - 1])
    async def test_what_breaks_off_is_sent_once_and_is_not_known(
        self, tmp_path: Path, known: bool, at: int
    ) -> None:
        script = scripted(*([FULL[:at]] if at else []), None)
        async with upstream(tmp_path, first_good(script) if known else script) as (up, server):
            if known:
                await call(up, "act")
            error = await failure(up, "act")
            assert error.reason == "outcome_unknown"
            assert len(server.calls) == 1 + known

    async def test_what_may_be_repeated_is_said_to_be(self, tmp_path: Path) -> None:
        async with upstream(tmp_path, scripted(FULL[:60], None)) as (up, server):
            with pytest.raises(ToolFailure) as caught:
                await up._upstream.call("act", context(up, "act"), Behalf(), repeatable=True)
            assert (caught.value.reason, caught.value.retryable) == ("upstream_error", True)
            assert len(server.calls) == 1


OTHERS: dict[str, bytes] = {
    "another-id": (HEAD % LENGTH + GOOD).replace(b"ID", b"1"),
    "id-as-text": HEAD % (LENGTH + 2) + GOOD.replace(b"ID", b'"ID"'),
    "twice-the-id": HEAD % (LENGTH + 9) + GOOD.replace(b'"id":ID', b'"id":ID,"id":9999'),
    "twice-the-same-id": HEAD % (LENGTH + 9) + GOOD.replace(b'"id":ID', b'"id":9999,"id":ID'),
    "twice-a-result": HEAD % (LENGTH + 12) + GOOD.replace(b'"result"', b'"result":{},"result"'),
    "no-json": HEAD % 4 + b"what",
    "another-type": FULL.replace(b"application/json", b"text/html"),
    "shorter": (HEAD % (LENGTH - 1) + GOOD),
}


class TestAnswers:
    @pytest.mark.parametrize("known", [False, True], ids=["unknown", "known"])
    @pytest.mark.parametrize("data", OTHERS.values(), ids=OTHERS.keys())
    async def test_what_is_no_answer_to_the_call_is_none(
        self, tmp_path: Path, data: bytes, known: bool
    ) -> None:
        script = scripted(data)
        async with upstream(tmp_path, first_good(script) if known else script) as (up, server):
            if known:
                await call(up, "act")
            error = await failure(up, "act")
            assert error.reason == "outcome_unknown"
            assert len(server.calls) == 1 + known

    async def test_a_longer_answer_is_waited_for_behind_a_known_head(self, tmp_path: Path) -> None:
        """As many bytes as last time, under a head that says that more comes."""

        async def script(server: Server, id: int, writer: asyncio.StreamWriter) -> None:
            text = "good" if len(server.calls) == 1 else "good and more than that"
            data = whole(result(id, text))
            size = len(whole(result(id)))
            writer.write(data[:size])
            await writer.drain()
            await asyncio.sleep(0.01)
            writer.write(data[size:])

        async with upstream(tmp_path, script) as (up, _):
            assert (await call(up, "act")).output == "good"
            assert (await call(up, "act")).output == "good and more than that"

    @pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
    async def test_a_second_answer_is_nobodys(self, tmp_path: Path, apart: bool) -> None:
        """It is worded for the next call on the connection, whoever makes that."""

        async def script(server: Server, id: int, writer: asyncio.StreamWriter) -> None:
            if len(server.calls) > 1:
                writer.write(whole(result(id)))
                return
            writer.write(whole(result(id)))
            if apart:
                await writer.drain()
                await asyncio.sleep(0.01)
            writer.write(whole(result(id + 1, "for the next one")))

        async with upstream(tmp_path, script) as (up, server):
            assert (await call(up, "act")).output == "good"
            connections = len(server.writers)
            await asyncio.sleep(0.05)
            assert (await call(up, "act")).output == "good"
            assert len(server.calls) == 2
            assert len(server.writers) == connections + 1, "such a connection is not used again"

    async def test_callers_at_the_same_time_get_their_own(self, tmp_path: Path) -> None:
        waiting: list[tuple[int, str, asyncio.StreamWriter]] = []

        async def script(server: Server, id: int, writer: asyncio.StreamWriter) -> None:
            waiting.append((id, server.calls[-1]["params"]["arguments"]["who"], writer))
            if len(waiting) == 4:
                for number, who, other in reversed(waiting):
                    other.write(whole(result(number, who)))
                waiting.clear()

        async with upstream(tmp_path, script) as (up, _):
            for _ in range(3):
                names = ["ann", "bob", "cid", "dan"]
                found = await asyncio.gather(*(call(up, "act", who=name) for name in names))
                assert [each.output for each in found] == names

    async def test_a_call_that_was_given_up_leaves_nothing_behind(self, tmp_path: Path) -> None:
        """Its answer comes late, when the next call would wait on the same connection."""
        asked = asyncio.Event()

        async def script(server: Server, id: int, writer: asyncio.StreamWriter) -> None:
            if len(server.calls) == 2:
                asked.set()
                await asyncio.sleep(0.03)
            writer.write(whole(result(id, str(len(server.calls)))))

        async with upstream(tmp_path, script) as (up, server):
            assert (await call(up, "act")).output == "1"
            given_up = asyncio.ensure_future(call(up, "act"))
            await asked.wait()
            given_up.cancel()
            await asyncio.gather(given_up, return_exceptions=True)
            assert (await call(up, "act")).output == "3"
            await until(lambda: server.hung_up == 1)  # that is how the server is told
            assert not up._upstream.session.busy

    async def test_a_stream_is_read_as_one(self, tmp_path: Path) -> None:
        start = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        start += b"Transfer-Encoding: chunked\r\n\r\n"
        event = b"data: " + GOOD + b"\n\n"
        parts = (start, b"%x\r\n" % (len(event) - 1), event, b"\r\n0\r\n\r\n")
        async with upstream(tmp_path, first_good(scripted(*parts))) as (up, _):
            for _ in range(3):
                assert (await call(up, "act")).output == "good"

    @pytest.mark.parametrize("status", [401, 403, 500])
    async def test_a_refusal_is_not_asked_again(self, tmp_path: Path, status: int) -> None:
        data = b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % status
        async with upstream(tmp_path, first_good(scripted(data))) as (up, server):
            await call(up, "act")
            error = await failure(up, "act")
            assert error.reason in ("tool_unavailable", "upstream_error")
            assert len(server.calls) == 2


def redirect(status: int, location: bytes | None) -> bytes:
    line = b"" if location is None else b"Location: %b\r\n" % location
    return b"HTTP/1.1 %d Elsewhere\r\n%bContent-Length: 0\r\n\r\n" % (status, line)


class TestRedirects:
    @pytest.mark.parametrize("status", [301, 302, 303])
    async def test_one_that_leads_to_an_outcome_sends_no_call_twice(
        self, tmp_path: Path, status: int
    ) -> None:
        script = first_good(scripted(redirect(status, b"/done")))
        async with upstream(tmp_path, script) as (up, server):
            await call(up, "act")
            error = await failure(up, "act")
            assert error.reason == "outcome_unknown"
            assert len(server.calls) == 2

    @pytest.mark.parametrize("status", [302, 307])
    async def test_one_that_leads_nowhere_sends_none_twice_either(
        self, tmp_path: Path, status: int
    ) -> None:
        script = first_good(scripted(redirect(status, None)))
        async with upstream(tmp_path, script) as (up, server):
            await call(up, "act")
            assert (await failure(up, "act")).reason == "upstream_error"
            assert len(server.calls) == 2

    @pytest.mark.parametrize(
        "location", [b"http://169.254.169.254/x", b"http://127.0.0.1:1/x", b"http://10.0.0.1/mcp"]
    )
    async def test_one_to_another_place_is_guarded(self, tmp_path: Path, location: bytes) -> None:
        script = first_good(scripted(redirect(307, location)))
        async with upstream(tmp_path, script) as (up, server):
            await call(up, "act", secret="s3cret")
            with pytest.raises(Denial):
                await call(up, "act", secret="s3cret")
            assert server.other == []

    async def test_one_on_the_same_server_is_followed(self, tmp_path: Path) -> None:
        """From then on by the long way only."""
        script = first_good(scripted(redirect(307, b"/there")))
        async with upstream(tmp_path, script) as (up, server):
            await call(up, "act")
            await failure(up, "act")
            assert server.other == [b"POST /there HTTP/1.1"]


class TestRequests:
    async def test_arguments_cannot_leave_the_body(self, tmp_path: Path) -> None:
        evil = 'x"}},"id":1}\r\n\r\nPOST /evil HTTP/1.1\r\nContent-Length: 0\r\n\r\n\u2028"\\'
        script = first_good(scripted(FULL))
        async with upstream(tmp_path, script) as (up, server):
            await call(up, "act")
            assert (await call(up, "act", **{evil: evil})).output == "good"
            assert server.calls[-1]["params"]["arguments"] == {evil: evil}
            assert server.other == []

    @pytest.mark.parametrize("name", ["a\r\nX-Evil: 1", "é…", "=?base64?x?=", 'q"uote'])
    async def test_names_of_tools_cannot_leave_their_header(
        self, tmp_path: Path, name: str
    ) -> None:
        script = first_good(scripted(FULL))
        async with upstream(tmp_path, script) as (up, server):
            await call(up, "act")
            ctx = context(up, "act")
            with suppress(Denial, ToolFailure):
                await up._upstream.call(name, ctx, Behalf(), repeatable=False)
            assert not any(b"x-evil" in head.lower().split(b"\r\n") for head in server.heads)
            assert not any(b"\r\nX-Evil" in head for head in server.heads)
            names = [each["params"]["name"] for each in server.calls]
            assert names in (["act"], ["act", name])

    async def test_what_a_caller_said_goes_with_its_own_calls_only(self, tmp_path: Path) -> None:
        async with upstream(tmp_path, scripted(FULL)) as (up, server):
            links: Sequence[Link | None] = (Link(elicitation={}), None, Link())
            for link in links:
                LINK.set(link)
                await call(up, "act")
            LINK.set(None)
            metas: list[dict[str, Any]] = [each["params"]["_meta"] for each in server.calls]
            assert ["traceparent" in meta for meta in metas] == [True, False, True]
            tokens = [meta["progressToken"] for meta in metas]
            assert tokens == [each["id"] for each in server.calls]

    async def test_a_connection_that_was_hung_up_is_not_used(self, tmp_path: Path) -> None:
        async def script(server: Server, id: int, writer: asyncio.StreamWriter) -> None:
            writer.write(whole(result(id)))
            await writer.drain()
            writer.close()

        async with upstream(tmp_path, script) as (up, server):
            for count in range(1, 4):
                assert (await call(up, "act")).output == "good"
                await until(lambda count=count: len(server.calls) == count)
                await asyncio.sleep(0.02)
