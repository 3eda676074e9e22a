"""Tools that run in the client, called by the host under its rules."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from typing import Annotated, Any

import pytest

from served import Gateway, until, way
from toolcrib import NameTaken, SpecError, ToolContext, ToolFailure, ToolPolicy, tool
from toolcrib.client import Client, ClientError, Refused
from toolcrib.client.sync import Client as SyncClient


def socket(url: str) -> str:
    return url.replace("http", "ws", 1)


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


async def test_a_function_runs_here(served: Gateway) -> None:
    async def mirror(point: Point, times: Annotated[int, "how often"] = 1) -> Point:
        """Turn a point around."""
        assert isinstance(point, Point)
        return Point(-point.x * times, -point.y)

    async with Client(served.socket) as host, Client(served.socket) as other:
        await host.register(mirror)
        [listed] = [each for each in await host.tools() if each.name == "mirror"]
        assert listed.description == "Turn a point around."
        assert listed.input_schema["properties"]["times"]["description"] == "how often"
        assert (await host.call("mirror", {"point": {"x": 1}})).output == {"x": -1, "y": 0}
        assert (await host.call("mirror", {"point": 1})).reason == "invalid_arguments"
        assert (await other.call("mirror", {"point": {"x": 1}})).reason == "unknown_tool"
        with pytest.raises(NameTaken):
            await host.register(mirror)
        with pytest.raises(Refused, match="taken"):
            await host.register(tool(name="add")(mirror))
        assert await host.unregister("mirror")
        assert not await host.unregister("mirror")
        assert (await host.call("mirror", {"point": {"x": 1}})).reason == "unknown_tool"


async def test_a_replaced_one_is_the_new_one(served: Gateway) -> None:
    def first() -> int:
        return 1

    def second() -> int:
        return 2

    async with Client(served.socket) as host:
        await host.register(tool(name="it")(first))
        assert (await host.call("it")).output == 1
        await host.register(tool(name="it")(second), replace=True)
        assert (await host.call("it")).output == 2


async def test_a_synchronous_function_runs_in_a_thread_and_tells_its_progress(
    served: Gateway,
) -> None:
    heard: list[Any] = []

    def count(ctx: ToolContext, to: int = 3) -> str:
        for n in range(to):
            ctx.progress(n / to, f"at {n}")
        return threading.current_thread().name

    async with Client(served.socket) as host:
        await host.register(count)
        result = await host.call("count", on_progress=lambda *said: heard.append(said))
    assert result.output != threading.current_thread().name
    assert heard == [(0.0, "at 0"), (1 / 3, "at 1"), (2 / 3, "at 2")]


async def test_failures_are_told_and_surprises_are_not(
    served: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    def closed() -> None:
        raise ToolFailure("the shop is closed", reason="shop_closed")

    def refused(ctx: ToolContext) -> None:
        ctx.deny("not_today", "come back")

    def surprised() -> None:
        raise RuntimeError("secret words")

    def odd() -> object:
        return object()

    async def nested(ctx: ToolContext) -> Any:
        return await ctx.call("add", {"a": 1})

    async with Client(served.socket) as host:
        for function in (closed, refused, surprised, odd, nested):
            await host.register(function)
        assert (await host.call("closed")).reason == "shop_closed"
        result = await host.call("refused")
        assert result.error is not None
        assert (result.reason, result.error.message) == ("not_today", "come back")
        for name in ("surprised", "nested"):
            result = await host.call(name)
            assert result.reason == "unexpected_failure"
            assert "secret" not in str(result)
        assert (await host.call("odd")).reason == "invalid_output"
    assert "secret words" in caplog.text


async def test_a_cancelled_call_stops_here(served: Gateway) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        begun.set()
        try:
            await asyncio.sleep(30)
        finally:
            stopped.set()

    async with Client(served.socket) as host:
        await host.register(slow)
        calling = asyncio.ensure_future(host.call("slow"))
        await begun.wait()
        calling.cancel()
        async with asyncio.timeout(5):
            await stopped.wait()
        result = await host.call("slow", timeout=0.1)
        assert result.reason == "timeout"


async def test_tools_come_back_with_the_connection(served: Gateway) -> None:
    def here() -> str:
        return "here"

    async with way(served.port) as between, Client(socket(between.url)) as host:
        await host.register(here)
        between.cut()
        await until(lambda: between.connections > 1)
        assert (await host.call("here")).output == "here"


async def test_a_session_has_tools_of_its_own(served: Gateway) -> None:
    def first() -> str:
        return "first"

    def second() -> str:
        return "second"

    async with Client(served.socket) as host, host.session() as one, host.session() as two:
        await one.register(tool(name="it")(first))
        await two.register(tool(name="it")(second))
        assert (await one.call("it")).output == "first"
        assert (await two.call("it")).output == "second"
        assert (await host.call("it")).reason == "unknown_tool"
        with pytest.raises(NameTaken):
            await one.register(tool(name="it")(second))
        await one.register(tool(name="it")(second), replace=True)
        assert (await one.call("it")).output == "second"
        assert "it" in [each.name for each in await one.tools()]
        assert await one.unregister("it")
        assert not await one.unregister("it")
        assert (await one.call("it")).reason == "unknown_tool"
        assert (await two.call("it")).output == "second"


async def test_tools_of_a_session_come_back_with_the_connection(
    served: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    async with way(served.port) as between, Client(socket(between.url)) as host:
        async with host.session() as session, host.session() as short:
            for each in (session, short):
                await each.register(tool(name="here")(lambda: "here"))
            await served.host.callers.sessions[short.id].close()
            between.cut()
            await until(lambda: between.connections > 1)
            assert (await session.call("here")).output == "here"
            assert "not offered any more" in caplog.text
            short.closed = True  # the host did it
        ended = caplog.text
        between.cut()
        await until(lambda: between.connections > 2)
        assert (await host.call("add", {"a": 1})).output == 3
        assert caplog.text == ended  # what left with its session is not offered again


async def test_what_a_session_offers_is_gone_with_the_client(served: Gateway) -> None:
    async with Client(served.url) as other, other.session() as session:
        async with Client(served.socket) as host:
            await host.register(tool(name="here")(lambda: "here"), session=session.id)
            assert (await session.call("here")).output == "here"
        await until(lambda: not served.host.callers.sessions[session.id].entries)
        assert (await session.call("here")).reason == "unknown_tool"


class Careful(ToolPolicy):
    """Some limits."""

    limit: int = 1


@pytest.mark.parametrize(
    ("marked", "words"),
    [({"policy": Careful}, "policy"), ({"permissions": ["x"]}, "permissions")],
    ids=["policy", "permissions"],
)
async def test_what_would_not_be_checked_is_not_offered(
    served: Gateway, marked: dict[str, Any], words: str
) -> None:
    @tool(**marked)
    def guarded() -> None: ...

    async with Client(served.socket) as host:
        with pytest.raises(SpecError, match=f"{words} would not be checked"):
            await host.register(guarded)
        assert (await host.call("guarded")).reason == "unknown_tool"


async def test_over_http_nothing_can_run_here(served: Gateway) -> None:
    async with Client(served.url) as host:
        with pytest.raises(ClientError, match="ws://"):
            await host.register(lambda: 1)
        async with host.session() as session:
            with pytest.raises(ClientError, match="ws://"):
                await session.register(lambda: 1)
            with pytest.raises(ClientError, match="ws://"):
                await session.unregister("it")


async def test_from_synchronous_code(served: Gateway) -> None:
    def work() -> Any:
        with SyncClient(served.socket) as host:
            host.register(tool(name="twice")(lambda n=2: 2 * n))
            assert host.call("twice").output == 4
            with host.session() as session:
                session.register(tool(name="thrice")(lambda n=2: 3 * n))
                assert session.call("thrice").output == 6
                assert session.unregister("thrice")
                assert session.call("thrice").reason == "unknown_tool"
                host.register(tool(name="thrice")(lambda n=2: 3 * n), session=session)
                assert host.unregister("thrice", session=session)
            return host.call("twice").output

    assert await asyncio.to_thread(work) == 4
