"""One connection for everything, which may break."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from served import Gateway, Way, gateway, until, way
from toolcrib import Event
from toolcrib.client import CannotConnect, Client, ConnectionLost, Refused


def socket(url: str) -> str:
    return url.replace("http", "ws", 1)


async def test_many_calls_at_once_do_not_cross(served: Gateway) -> None:
    async with Client(served.socket) as host:
        results = await asyncio.gather(*(host.call("add", {"a": n, "b": n}) for n in range(200)))
    assert [result.output for result in results] == [2 * n for n in range(200)]
    assert len({result.call_id for result in results}) == 200


async def test_what_was_under_way_is_of_unknown_outcome_and_never_replayed(
    served: Gateway,
) -> None:
    async with way(served.port) as between, Client(socket(between.url)) as host:
        calling = asyncio.ensure_future(host.call("work", {"label": "x", "seconds": 0.2}))
        await until(lambda: served.ledger.begun)
        between.cut()
        result = await calling
        assert (result.status, result.reason) == ("error", "outcome_unknown")
        assert (await host.call("add", {"a": 1})).output == 3
        assert served.ledger.begun == ["x"]
        assert between.heard.count(b'"tools.call"') == 0  # frames of a client are masked


async def test_what_never_left_is_sent_once_there_is_a_connection(served: Gateway) -> None:
    async with way(served.port) as between, Client(socket(between.url)) as host:
        await between.close()
        await asyncio.sleep(0.05)
        calling = asyncio.ensure_future(host.call("work", {"label": "x"}))
        asking = asyncio.ensure_future(host.info())
        await asyncio.sleep(0.1)
        assert not calling.done()
        await between.open()
        assert (await calling).output == "did x"
        assert (await asking).name == "toolcrib"


async def test_a_connection_that_does_not_come_back(served: Gateway) -> None:
    async with way(served.port) as between, Client(socket(between.url), timeout=0.3) as host:
        await between.close()
        await asyncio.sleep(0.05)
        with pytest.raises(CannotConnect, match="does not come back"):
            await host.call("add", {"a": 1})


async def test_a_lost_answer_is_asked_for_again_only_where_that_changes_nothing(
    served: Gateway,
) -> None:
    async with way(served.port) as between, Client(socket(between.url)) as host:
        between.answers = False
        reading = asyncio.ensure_future(host.get("add"))
        writing = asyncio.ensure_future(host.session().__aenter__())
        await asyncio.sleep(0.1)
        between.answers = True
        between.cut()
        view = await reading
        assert view is not None
        assert view.name == "add"
        with pytest.raises(ConnectionLost):
            await writing


async def test_a_token_that_does_not_hold_any_more_ends_the_reconnecting(
    unused_tcp_port: int,
) -> None:
    def guarded(token: str) -> Any:
        tokens = {"ann": {"secret": token, "principal": "ann", "profile": "worker"}}
        return lambda config: {
            **config,
            "principals": {"ann": {"profiles": ["worker"]}},
            "serve": {**config["serve"], "tokens": tokens},
        }

    first, second = "first-token-0123456789", "other-token-0123456789"
    async with way(unused_tcp_port) as between:
        async with gateway(port=unused_tcp_port, change=guarded(first)):
            host = Client(socket(between.url), first)
            await host.start()
        async with gateway(port=unused_tcp_port, change=guarded(second)):
            with pytest.raises(Refused, match="unauthenticated"):
                await host.call("add", {"a": 1})
            await host.stop()


async def test_cancelling_the_task_cancels_the_call(served: Gateway) -> None:
    async with Client(served.socket) as host:
        calling = asyncio.ensure_future(host.call("work", {"label": "x", "seconds": 30}))
        await until(lambda: served.ledger.begun)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await until(lambda: served.ledger.cancelled)
        assert (await host.call("add", {"a": 1})).output == 3


async def test_patience_ends_in_cancelling(served: Gateway) -> None:
    async with Client(served.socket) as host:
        result = await host.call("work", {"label": "x", "seconds": 30}, patience=0.2)
    assert result.reason == "cancelled"
    assert served.ledger.cancelled == ["x"]


async def test_closing_the_client_ends_its_calls(served: Gateway) -> None:
    host = Client(served.socket)
    await host.start()
    calling = asyncio.ensure_future(host.call("work", {"label": "x", "seconds": 30}))
    await until(lambda: served.ledger.begun)
    await host.stop()
    result = (await asyncio.gather(calling, return_exceptions=True))[0]
    assert isinstance(result, Exception) or result.reason == "outcome_unknown"
    await until(lambda: served.ledger.cancelled)


# Events.


@pytest.fixture(params=["http", "ws"])
def scheme(request: pytest.FixtureRequest) -> str:
    return request.param


async def numbers(events: Any, count: int, found: list[int] | None = None) -> list[int]:
    """The first arguments of the calls that are told of."""
    found = [] if found is None else found
    event: Event
    async for event in events:
        found.append(event.data["arguments"]["a"])
        if len(found) == count:
            break
    return found


async def test_events_come_as_they_happen(served: Gateway, scheme: str) -> None:
    async with Client(served.url.replace("http", scheme, 1)) as host:
        events = host.events(types=["call.received", "call.finished"])
        first = asyncio.ensure_future(anext(events))
        await _watched(served)
        result = await host.call("add", {"a": 1})
        assert ((await first).type, (await anext(events)).type) == (
            "call.received",
            "call.finished",
        )
        assert first.result().call_id == result.call_id
        await events.aclose()


async def test_events_since_an_id_and_from_the_beginning(served: Gateway, scheme: str) -> None:
    async with Client(served.url.replace("http", scheme, 1)) as host:
        for n in range(5):
            await host.call("add", {"a": n})
        trail = await host.trail()
        received = [e for e in trail if e.type == "call.received"]
        events = host.events("", types=["call.received"])
        assert await numbers(events, 5) == [0, 1, 2, 3, 4]
        await events.aclose()
        events = host.events(received[2].id, types=["call.received"])
        assert await numbers(events, 2) == [3, 4]
        await events.aclose()


async def test_an_unknown_id_is_told(served: Gateway, scheme: str) -> None:
    async with Client(served.url.replace("http", scheme, 1)) as host:
        with pytest.raises(Refused, match="not_found"):
            await anext(host.events("nothing.1.1"))


async def test_a_broken_stream_goes_on_without_loss_or_repetition(
    served: Gateway, scheme: str
) -> None:
    url = served.url
    async with (
        way(served.port) as between,
        Client(between.url.replace("http", scheme, 1)) as host,
        Client(url) as other,
    ):
        events = host.events(types=["call.received"])
        found: list[int] = []
        reading = asyncio.ensure_future(numbers(events, 40, found))
        await _watched(served)
        for n in range(40):
            await other.call("add", {"a": n})
            if n == 10:
                await until(lambda: found)
                between.cut()
            if n == 20:
                await between.close()
            if n == 30:
                await between.open()
        assert await reading == list(range(40))
        await events.aclose()


async def test_a_stream_that_broke_before_its_first_event_misses_none(
    served: Gateway, scheme: str
) -> None:
    async with (
        way(served.port) as between,
        Client(between.url.replace("http", scheme, 1)) as host,
        Client(served.url) as other,
    ):
        await other.call("add", {"a": -1})
        events = host.events(types=["call.received"])
        reading = asyncio.ensure_future(numbers(events, 3))
        await _watched(served)
        await until(lambda: _placed(between))
        await between.close()
        await until(lambda: not served.host.bus.active)
        for n in range(3):
            await other.call("add", {"a": n})
        await between.open()
        assert await reading == [0, 1, 2]
        await events.aclose()


def _placed(between: Way) -> bool:
    """Whether the client was told where its stream begins."""
    return b"\nid: " in between.said or b'"after":"' in between.said


async def test_a_stream_ends_with_its_client(served: Gateway, scheme: str) -> None:
    host = Client(served.url.replace("http", scheme, 1))
    events = host.events()
    reading = asyncio.ensure_future(_all(events))
    await _watched(served)
    await host.stop()
    async with asyncio.timeout(5):
        await reading


async def test_a_reader_that_is_slow_misses_nothing(
    served: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.client.subscriptions.MOST_WAITING", 5)
    async with Client(served.socket) as host:
        events = host.events(types=["call.received"])
        first = asyncio.ensure_future(anext(events))
        await _watched(served)
        for n in range(30):
            await host.call("add", {"a": n})
        assert (await first).data["arguments"]["a"] == 0
        assert await numbers(events, 29) == list(range(1, 30))
        await events.aclose()


async def _all(events: Any) -> list[Event]:
    return [event async for event in events]


async def _watched(served: Gateway) -> None:
    """Wait until the host has a viewer."""
    await until(lambda: served.host.bus.active)


async def test_requests_have_ids_of_their_own(served: Gateway) -> None:
    seen: list[int] = []
    async with Client(served.socket) as host:
        link: Any = host._link  # pyright: ignore[reportPrivateUsage]
        send = link._pipe.send

        async def noted(frame: bytes) -> None:
            seen.append(json.loads(frame)["id"])
            await send(frame)

        link._pipe.send = noted
        await asyncio.gather(*(host.info() for _ in range(20)))
    assert len(set(seen)) == 20
