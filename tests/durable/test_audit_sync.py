"""When a call waits until its records are on disk, and when it does not."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from toolcrib import ToolHost, tool
from toolcrib.core.chain import Block
from toolcrib.core.events import decode_record, events_of
from toolcrib.core.protocols import TrailSource
from toolcrib.stores.sqlite import SqliteStore


class Watched:
    """Stands between a trail and its store, and writes down when records were committed."""

    def __init__(self, trail: TrailSource, book: list[tuple[str, str]]) -> None:
        self._trail = trail
        self._book = book
        self.hold = threading.Event()
        self.hold.set()

    def take(self) -> Block | None:
        """Give the records, or keep the transaction open for as long as the test says."""
        self.hold.wait(10)
        return self._trail.take()

    def done(self, block: Block) -> None:
        """The commit has happened: note it before anybody is woken."""
        for index, line in enumerate(block.lines.split(b"\n")):
            for event in events_of(decode_record(line), block.run, block.first + index):
                self._book.append((event.type, event.call_id or ""))
        self._trail.done(block)

    def failed(self, block: Block, error: BaseException) -> None:
        """Pass it on."""
        self._trail.failed(block, error)


class WatchedStore(SqliteStore):
    """A store whose commits can be seen and held up."""

    def __init__(self, path: Any) -> None:
        super().__init__(path)
        self.book: list[tuple[str, str]] = []
        self.watched: list[Watched] = []

    def attach(self, trail: TrailSource) -> None:
        """Put the watcher in between."""
        self.watched.append(Watched(trail, self.book))
        super().attach(self.watched[-1])

    def hold(self) -> None:
        """Commit nothing more for now."""
        for watched in self.watched:
            watched.hold.clear()

    def go_on(self) -> None:
        """Commit what waits."""
        for watched in self.watched:
            watched.hold.set()


def _tools(book: list[tuple[str, str]]) -> list[Any]:
    from toolcrib import ToolContext

    @tool(effects=["write"])
    async def write(ctx: ToolContext) -> str:
        book.append(("ran", ctx.call_id))
        return "w"

    @tool(effects=["read"])
    async def read(ctx: ToolContext) -> str:
        book.append(("ran", ctx.call_id))
        return "r"

    @tool
    async def unknown(ctx: ToolContext) -> str:
        book.append(("ran", ctx.call_id))
        return "u"

    return [write, read, unknown]


def _host(place: Any, sync: str) -> tuple[ToolHost, WatchedStore]:
    store = WatchedStore(place.db)
    config = place.config(host={"audit": {"sync": sync}})
    del config["host"]["store"]
    return ToolHost(_tools(store.book), config=config, store=store), store


WAITED = [
    ("effects", "write"), ("effects", "unknown"),
    ("always", "write"), ("always", "read"), ("always", "unknown"),
]  # fmt: skip
NOT_WAITED = [("effects", "read"), ("never", "write"), ("never", "read"), ("never", "unknown")]


@pytest.mark.parametrize(("sync", "name"), WAITED)
async def test_decision_is_on_disk_before_the_tool_starts_and_the_ending_before_the_reply(
    sync: str, name: str, place: Any
) -> None:
    host, store = _host(place, sync)
    async with host:
        for _ in range(3):
            result = await host.call(name)
            store.book.append(("replied", result.call_id))
            own = [what for what, call_id in store.book if call_id == result.call_id]
            assert own == [
                "call.received",
                "call.decided",
                "call.started",
                "ran",
                "call.finished",
                "replied",
            ]


@pytest.mark.parametrize(("sync", "name"), WAITED)
async def test_tool_does_not_start_while_its_decision_is_not_on_disk(
    sync: str, name: str, place: Any, until: Any
) -> None:
    host, store = _host(place, sync)
    async with host:
        store.hold()
        calls = [asyncio.create_task(host.call(name)) for _ in range(5)]
        await asyncio.sleep(0.15)
        assert [what for what, _ in store.book if what == "ran"] == []
        assert not any(call.done() for call in calls)
        store.go_on()
        results = await asyncio.gather(*calls)
    assert all(result.success for result in results)


@pytest.mark.parametrize(("sync", "name"), NOT_WAITED)
async def test_call_that_need_not_wait_does_not_and_is_on_disk_soon(
    sync: str, name: str, place: Any, until: Any
) -> None:
    host, store = _host(place, sync)
    async with host:
        await host.start()
        await until(lambda: ("host.started", "") in store.book)
        store.hold()
        result = await asyncio.wait_for(host.call(name), 5)
        assert result.success
        assert ("ran", result.call_id) in store.book
        assert ("call.finished", result.call_id) not in store.book
        store.go_on()
        await until(lambda: ("call.finished", result.call_id) in store.book, 1)
        assert (await place.look()).of(result.call_id)[-1] == "call.finished"


async def test_reading_call_reaches_the_disk_without_anybody_asking(place: Any, until: Any) -> None:
    host, _ = _host(place, "effects")
    async with host:
        results = [await host.call("read") for _ in range(3)]

        async def written() -> bool:
            return {r.call_id for r in results} <= (await place.look()).ids("call.finished")

        await until(written, 1)


async def test_many_waiting_calls_share_their_commits(place: Any) -> None:
    host, _ = _host(place, "effects")
    async with host:
        results = await asyncio.gather(*(host.call("write") for _ in range(64)))
        assert all(result.success for result in results)
        assert host._parts is not None
        blocks = await host._parts.store.blocks(limit=1000)
    assert len(blocks) < 64


async def test_asked_call_starts_only_after_its_start_is_on_disk(place: Any, until: Any) -> None:
    store = WatchedStore(place.db)
    config = place.config(profiles={"p": {"rules": [{"ask": "write"}]}})
    del config["host"]["store"]
    async with ToolHost(_tools(store.book), config=config, store=store) as host:
        call = asyncio.create_task(host.call("write"))
        (request,) = await until(host.approvals.list)
        await host.approvals.decide(request.id, by="bo")
        result = await call
        store.book.append(("replied", result.call_id))
    own = [what for what, call_id in store.book if call_id == result.call_id]
    assert own == [
        "call.received",
        "call.decided",
        "approval.requested",
        "approval.decided",
        "approval.used",
        "call.started",
        "ran",
        "call.finished",
        "replied",
    ]
