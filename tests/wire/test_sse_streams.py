"""Server-sent events over real connections: the form, resuming, silence, and how streams end."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
import pytest

from onlookers import PATIENCE, look, work
from toolcrib import ToolHost
from toolcrib.core.events import Event
from toolcrib.core.serving import HttpSettings, Listen, ServeSettings, TokenSettings
from toolcrib.transports.serving import Serving, serve

TOKENS = {"ann": "ann-token-0123456789", "bob": "bob-token-0123456789", "eve": "eve-token-0123456"}
CONFIG: dict[str, Any] = {
    "profiles": {"all": {"rules": [{"allow": "*"}]}},
    "principals": {"ann": {}, "bob": {}, "eve": {"permissions": ["toolcrib.audit"]}},
    "host": {"drain": "1s"},
}
CALL = ["call.received", "call.decided", "call.started", "call.finished"]


class Gateway(NamedTuple):
    """A host behind its HTTP door."""

    url: str
    host: ToolHost
    http: aiohttp.ClientSession
    serving: Serving
    stop: asyncio.Event
    task: asyncio.Task[None]

    def get(self, path: str, who: str = "ann", **headers: str) -> Any:
        """A request of somebody's."""
        given = {"Authorization": f"Bearer {TOKENS[who]}", **headers}
        return self.http.get(f"{self.url}{path}", headers=given)


@asynccontextmanager
async def gateway(**http: Any) -> AsyncIterator[Gateway]:
    """A host that serves on a port of its own."""
    tokens = tuple(
        TokenSettings(name=name, hash=f"sha256:{_hash(secret)}", principal=name, profile="all")
        for name, secret in TOKENS.items()
    )
    listen = (Listen(host="127.0.0.1", port=0),)
    settings = ServeSettings(http=HttpSettings(listen=listen, profile="all", **http), tokens=tokens)
    host = ToolHost([look, work], config=CONFIG)
    opened: asyncio.Future[Serving] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    task = asyncio.create_task(serve(host, settings, ready=opened.set_result, stop=stop))
    await asyncio.wait({task, opened}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        await task
    serving = await opened
    async with aiohttp.ClientSession() as session:
        try:
            yield Gateway(serving.urls[0], host, session, serving, stop, task)
        finally:
            stop.set()
            await asyncio.wait_for(task, PATIENCE)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class Frame(NamedTuple):
    """One event of a stream as a client reads it; `comment` where it is a sign of life."""

    id: str | None
    event: str | None
    data: Any
    comment: bool = False


async def frames(answer: aiohttp.ClientResponse, count: int | None = None) -> list[Frame]:
    """The next so many events of a stream, or all until it ends."""

    async def collect() -> list[Frame]:
        found: list[Frame] = []
        while count is None or len(found) < count:
            try:
                text = (await answer.content.readuntil(b"\n\n")).decode()
            except asyncio.IncompleteReadError:
                return found
            if not text:
                return found
            if text.startswith("retry:"):
                continue
            found.append(_frame(text))
        return found

    return await asyncio.wait_for(collect(), PATIENCE)


def _frame(text: str) -> Frame:
    if text.startswith(":"):
        return Frame(None, None, None, comment=True)
    fields = dict(line.split(": ", 1) for line in text.rstrip("\n").split("\n"))
    assert list(fields) in (["id", "event", "data"], ["event", "data"])
    return Frame(fields.get("id"), fields["event"], json.loads(fields["data"]))


async def test_events_have_the_form_that_browsers_read() -> None:
    async with gateway() as at, at.get("/v1/events") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Accel-Buffering"] == "no"
        first = await asyncio.wait_for(answer.content.readuntil(b"\n\n"), PATIENCE)
        assert re.fullmatch(rb"retry: \d+\nid: [0-9a-f]+\.\d+\n\n", first)
        result = await at.host.call("work", {"steps": 1}, principal="ann")
        found = await frames(answer, 7)
        assert [frame.event for frame in found] == [
            *CALL[:3],
            "call.progress",
            "tool.log",
            "tool.emitted",
            "call.finished",
        ]
        assert [frame.id is None for frame in found] == [False] * 3 + [True] * 2 + [False] * 2
        stored = await at.host.trail(call_id=result.call_id)
        assert [frame.data for frame in found if frame.id] == [e.to_dict() for e in stored]


async def test_each_sees_its_own_and_the_auditor_everything() -> None:
    async with (
        gateway() as at,
        at.get("/v1/events?types=call.finished", who="ann") as ann,
        at.get("/v1/events?types=call.finished", who="bob") as bob,
        at.get("/v1/events?types=call.finished", who="eve") as eve,
    ):
        for who in ("ann", "bob"):
            await at.host.call("look", principal=who)
        assert [frame.data["data"]["principal"] for frame in await frames(ann, 1)] == ["ann"]
        assert [frame.data["data"]["principal"] for frame in await frames(bob, 1)] == ["bob"]
        seen = [frame.data["data"]["principal"] for frame in await frames(eve, 2)]
        assert seen == ["ann", "bob"]


async def test_a_connection_that_was_lost_is_resumed_by_its_last_id() -> None:
    async with gateway() as at:
        async with at.get("/v1/events?types=call.*") as answer:
            await at.host.call("look", principal="ann")
            (*_, last) = await frames(answer, 2)
        await at.host.call("look", principal="ann")
        assert last.id is not None
        resumed = {"Last-Event-ID": last.id}
        async with at.get("/v1/events?types=call.*&after=nonsense", **resumed) as answer:
            found = await frames(answer, 6)
            await at.host.call("look", principal="ann")
            found += await frames(answer, 4)
        assert [frame.event for frame in found] == [*CALL[2:], *CALL, *CALL]
        async with at.get("/v1/events?types=call.*&after=") as answer:
            assert [frame.event for frame in await frames(answer, 12)] == CALL * 3


async def test_a_connection_that_was_lost_before_the_first_event_is_resumed_too() -> None:
    async with gateway() as at:
        await at.host.call("look", {"path": "before"}, principal="ann")
        async with at.get("/v1/events?types=call.received") as answer:
            block = await asyncio.wait_for(answer.content.readuntil(b"\n\n"), PATIENCE)
        place = dict(line.split(": ") for line in block.decode().strip().split("\n"))["id"]
        await at.host.call("look", {"path": "meanwhile"}, principal="ann")
        async with at.get("/v1/events?types=call.received", **{"Last-Event-ID": place}) as answer:
            await at.host.call("look", {"path": "after"}, principal="ann")
            found = await frames(answer, 2)
        assert [each.data["data"]["arguments"]["path"] for each in found] == ["meanwhile", "after"]


async def test_who_says_where_to_begin_is_told_no_other_place() -> None:
    async with gateway() as at:
        result = await at.host.call("look", principal="ann")
        for query in ("?after=", f"?call_id={result.call_id}"):
            async with at.get(f"/v1/events{query}") as answer:
                first = await asyncio.wait_for(answer.content.readuntil(b"\n\n"), PATIENCE)
                assert re.fullmatch(rb"retry: \d+\n\n", first)


async def test_one_principal_has_so_many_streams_and_no_more() -> None:
    async with gateway(viewers_per_principal=1) as at, at.get("/v1/events") as first:
        assert first.status == 200
        async with at.get("/v1/events") as second:
            assert second.status == 429
            assert (await second.json())["error"]["reason"] == "too_many_viewers"
        async with at.get("/v1/events", who="bob") as other:
            assert other.status == 200


@pytest.mark.parametrize(
    ("query", "status", "reason"),
    [
        pytest.param("?after=nowhere.1.0", 404, "not_found", id="unknown place"),
        pytest.param("?types=cal.finished", 422, "invalid_request", id="unknown type"),
        pytest.param("?call_id=c0", 404, "not_found", id="unknown call"),
        pytest.param("?type=call.finished", 422, "invalid_request", id="unknown parameter"),
    ],
)
async def test_what_is_wrong_is_said_before_the_stream_begins(
    query: str, status: int, reason: str
) -> None:
    async with gateway() as at, at.get(f"/v1/events{query}") as answer:
        assert answer.status == status
        body = await answer.json()
        assert body["error"]["reason"] == reason
        assert len(at.serving.service.hub) == 0


async def test_nobody_looks_on_without_credentials() -> None:
    async with gateway() as at, at.http.get(f"{at.url}/v1/events") as answer:
        assert answer.status == 401


async def test_silence_is_broken_by_comments() -> None:
    async with gateway(heartbeat=0.02) as at, at.get("/v1/events") as answer:
        assert [frame.comment for frame in await frames(answer, 3)] == [True] * 3
        await at.host.call("look", principal="ann")
        found: list[Frame] = []
        while len(found) < 4:
            found += [frame for frame in await frames(answer, 1) if not frame.comment]
        assert [frame.event for frame in found] == CALL


async def test_the_stream_of_one_call_ends_with_it() -> None:
    async with gateway() as at:
        result = await at.host.call("work", principal="ann")
        await at.host.call("look", principal="ann")
        path = f"/v1/events?call_id={result.call_id}"
        async with at.get(path) as answer:
            found = await frames(answer)
        assert [frame.event for frame in found] == [*CALL[:3], *["tool.emitted"] * 2, CALL[3]]
        async with at.get(f"/v1/calls/{result.call_id}/events") as answer:
            assert await frames(answer) == found
        async with at.get(path, who="bob") as answer:
            assert answer.status == 404
        # A browser would come again for ever, if it were not told that this is all.
        async with at.get(path, **{"Last-Event-ID": str(found[-1].id)}) as answer:
            assert answer.status == 204
            assert await answer.read() == b""


async def test_a_client_that_goes_away_is_forgotten() -> None:
    async with gateway() as at:
        hub = at.serving.service.hub
        async with at.get("/v1/events"), at.get("/v1/events"):
            assert len(hub) == 2
            assert at.host.bus.active
        await _soon(lambda: len(hub) == 0)
        assert not at.host.bus.active


async def _soon(true: Any) -> None:
    async def look_again() -> None:
        while not true():  # noqa: ASYNC110 - nobody tells when a connection is lost
            await asyncio.sleep(0.005)

    await asyncio.wait_for(look_again(), PATIENCE)


async def test_a_client_that_does_not_read_is_dropped_and_delays_no_call() -> None:
    async with gateway(queue=20) as at:
        hub = at.serving.service.hub
        host, port = at.url.removeprefix("http://").split(":")
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            raw.connect((host, int(port)))
            head = f"GET /v1/events HTTP/1.1\r\nHost: {host}:{port}\r\n"
            raw.sendall(f"{head}Authorization: Bearer {TOKENS['eve']}\r\n\r\n".encode())
            await _soon(lambda: len(hub) == 1)
            data = {"message": "x" * 200_000}
            for _ in range(500):
                assert (await at.host.call("look", principal="ann")).success
                at.host.bus.publish(Event(id="", type="tool.log", time=0.0, data=data))
                await asyncio.sleep(0)
                if not len(hub):
                    break
            assert len(hub) == 0
            text = await asyncio.wait_for(asyncio.to_thread(_read_all, raw), PATIENCE)
            assert b"event: viewer.dropped\n" in text
            assert b'"reason":"slow_reader"' in text


def _read_all(raw: socket.socket) -> bytes:
    """All that comes until the answer has ended."""
    raw.settimeout(PATIENCE)
    found = bytearray()
    while not found.endswith(b"\r\n0\r\n\r\n"):
        found += raw.recv(1 << 20)
    return bytes(found)


async def test_a_host_that_stops_ends_its_streams_in_order() -> None:
    async with gateway() as at, at.get("/v1/events?types=host.*") as answer:
        at.stop.set()
        found = await frames(answer)
        assert [frame.event for frame in found] == ["host.stopped", "viewer.dropped"]
        assert found[-1].data["data"]["reason"] == "host_stopping"
        await asyncio.wait_for(asyncio.shield(at.task), PATIENCE)
