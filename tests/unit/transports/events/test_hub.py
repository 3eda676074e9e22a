"""The hub: many viewers, one listener, no call that waits for any of them."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path

import pytest

from onlookers import (
    AUDITOR,
    PATIENCE,
    caller,
    decoded,
    look,
    rest,
    take,
    types,
    until,
    watched,
    work,
)
from toolcrib import ToolContext, ToolHost, ToolResult, tool
from toolcrib.core.events import Event
from toolcrib.core.serving import HttpSettings
from toolcrib.transports.caller import Badge
from toolcrib.transports.events import BEAT, DROPPED, Hub
from toolcrib.transports.faults import Fault
from toolcrib.transports.order import InOrder

CALL = ["call.received", "call.decided", "call.started", "call.finished"]


async def test_without_viewers_the_host_is_not_listened_to(store: str) -> None:
    async with watched(store=store) as (host, hub):
        assert not host.bus.active
        first, second = hub.view(AUDITOR), hub.view(AUDITOR)
        assert host.bus.active
        assert len(hub) == 2
        await first.open()
        first.close()
        first.close()
        assert host.bus.active
        second.close()
        assert not host.bus.active
        assert len(hub) == 0
        async with hub.view(AUDITOR):
            assert host.bus.active
        assert not host.bus.active


async def test_every_viewer_gets_the_same_bytes_in_order(store: str) -> None:
    async with watched(store=store) as (host, hub):
        views = [hub.view(AUDITOR) for _ in range(3)]
        for _ in range(5):
            await host.call("look", principal="ann")
        found = [await take(view, 20) for view in views]
        assert types(found[0]) == CALL * 5
        assert found[0] == found[1] == found[2]
        assert all(a.data is b.data for a, b in zip(found[0], found[1], strict=True))
        stored = [event for event in await host.trail() if event.type.startswith("call.")]
        assert [decoded(seen) for seen in found[0]] == stored


async def test_a_slow_viewer_gets_what_waits_and_is_sent_away() -> None:
    async with watched(queue=6) as (host, hub):
        slow, quick = hub.view(AUDITOR), hub.view(AUDITOR)
        seen: list[str] = []
        for _ in range(3):
            assert (await host.call("look", principal="ann")).success
            seen += types(await take(quick, 4))
        assert seen == CALL * 3
        assert len(hub) == 1
        found = await rest(slow)
        assert types(found) == [*CALL, *CALL[:2], DROPPED]
        mark = decoded(found[-1])
        assert mark.data["reason"] == "slow_reader"
        assert mark.data["resume"] == found[-1].id == found[-2].id
        again = hub.view(AUDITOR, after=mark.data["resume"])
        assert types(await take(again, 6)) == [*CALL[2:], *CALL]


async def test_a_call_does_not_wait_for_a_viewer_that_reads_nothing(store: str) -> None:
    async with watched(store=store, queue=2) as (host, hub):
        idle = [hub.view(AUDITOR) for _ in range(20)]
        results = [await host.call("look", principal="ann") for _ in range(20)]
        assert all(result.success for result in results)
        await asyncio.sleep(0)
        assert len(hub) == 0
        assert types(await rest(idle[0]))[-1] == DROPPED


async def test_a_loop_that_hangs_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.transports.events._MOST_WAITING", 10)
    async with watched() as (host, hub):
        view = hub.view(AUDITOR)
        for number in range(50):  # without a turn of the loop in between
            host.bus.publish(Event(id="", type="tool.log", time=float(number)))
        found = await rest(view)
        assert types(found) == ["tool.log"] * 10 + [DROPPED]
        assert decoded(found[-1]).data["reason"] == "slow_reader"


async def test_who_goes_away_while_the_past_is_read_is_not_read_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(look, store=f"sqlite:{tmp_path / 'trail.db'}") as (host, hub):
        store = (await host.start()).store
        for _ in range(60):
            await host.call("look", principal="ann")
            await store.flush()
        view = hub.view(caller("bob"), types=["call.*"], after="")
        await view.open()
        read, blocks = 0, store.blocks

        async def counted(**asked: int) -> object:
            nonlocal read
            read += 1
            if read == 3:
                view.close()
            return await blocks(**asked)  # pyright: ignore[reportArgumentType]

        monkeypatch.setattr(store, "blocks", counted)
        assert await rest(view) == []
        assert read == 3


async def test_there_is_an_end_to_how_many_look_on() -> None:
    async with watched(viewers=2) as (_, hub):
        first, _second = hub.view(AUDITOR), hub.view(AUDITOR)
        with pytest.raises(Fault) as refused:
            hub.view(AUDITOR)
        assert refused.value.reason == "too_many_viewers"
        first.close()
        hub.view(AUDITOR)


async def test_there_is_an_end_to_how_often_one_principal_looks_on() -> None:
    async with watched(per_principal=2) as (host, hub):
        first, second = hub.view(caller("ann")), hub.view(caller("ann", "audit"))
        with pytest.raises(Fault, match="ann has 2 event streams open") as refused:
            hub.view(caller("ann"))
        assert refused.value.reason == "too_many_viewers"
        hub.view(caller("bob"))
        first.close()
        first.close()
        third = hub.view(caller("ann"))
        with pytest.raises(Fault):
            hub.view(caller("ann"))
        # Also when what they may see is looked at again.
        host.bus.publish(Event(id="", type="config.loaded", time=1.0))
        await asyncio.sleep(0)
        with pytest.raises(Fault):
            hub.view(caller("ann"))
        second.close()
        third.close()
        assert hub._crowd._counts == {"bob": 1}  # pyright: ignore[reportPrivateUsage]


async def test_limits_can_change() -> None:
    async with watched() as (_, hub):
        views = [hub.view(caller("ann")) for _ in range(3)]
        hub.renew(HttpSettings(viewers=4, viewers_per_principal=3))
        with pytest.raises(Fault, match="ann has 3"):
            hub.view(caller("ann"))
        hub.view(caller("bob"))
        with pytest.raises(Fault, match="4 event streams are open"):
            hub.view(caller("carl"))
        assert len(hub) == len(views) + 1


async def test_a_view_ends_when_its_reader_closes_it() -> None:
    async with watched() as (_, hub):
        view = hub.view(AUDITOR)
        reading = asyncio.ensure_future(rest(view))
        await asyncio.sleep(0)
        view.close()
        assert await reading == []


async def test_stopping_tells_what_is_left_and_then_says_so() -> None:
    async with ToolHost([look]) as host:
        hub = Hub(host)
        await hub.start()
        reading, unread = hub.view(AUDITOR), hub.view(AUDITOR, after="")
        task = asyncio.ensure_future(rest(reading))
        await host.call("look", principal="ann")
        await host.stop()
        await hub.stop()
        found = await task
        assert types(found) == [*CALL, "host.stopped", DROPPED]
        assert decoded(found[-1]).data["reason"] == "host_stopping"
        assert types(await rest(unread)) == [DROPPED]
        with pytest.raises(Fault) as refused:
            hub.view(AUDITOR)
        assert refused.value.reason == "host_stopping"
        assert not host.bus.active


async def test_a_reader_of_the_past_is_told_when_the_host_stops(tmp_path: Path) -> None:
    async with ToolHost([look], store=f"sqlite:{tmp_path / 'trail.db'}") as host:
        for _ in range(200):
            await host.call("look", principal="ann")
        hub = Hub(host)
        await hub.start()
        view = hub.view(AUDITOR, after="")
        await take(view, 1)
        await host.stop()
        await hub.stop()
        found = await rest(view)
        assert found[-1].type == DROPPED
        assert decoded(found[-1]).data["reason"] == "host_stopping"
        assert decoded(found[-1]).data["resume"] == found[-2].id


async def test_who_lost_its_credentials_sees_nothing_more() -> None:
    async with watched() as (host, hub):
        badge = Badge()
        view = hub.view(caller("eve", "audit", badge=badge))
        await host.call("look", principal="ann")
        await asyncio.sleep(0)
        badge.revoked = True
        await host.call("look", principal="ann")
        (found,) = await rest(view)
        assert decoded(found).data["reason"] == "unauthenticated"


async def test_who_lost_its_credentials_is_noticed_in_silence() -> None:
    async with watched() as (_, hub):
        badge = Badge()
        view = hub.view(caller("eve", "audit", badge=badge), heartbeat=0.01)
        assert await take(view, 1) == [BEAT]
        badge.revoked = True
        found = await rest(view)
        assert decoded(found[-1]).data["reason"] == "unauthenticated"
        assert len(hub) == 0


PEOPLE = """
principals:
  eve: {{permissions: [{permissions}]}}
"""


async def test_rights_follow_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "toolcrib.yaml"
    file.write_text(PEOPLE.format(permissions="toolcrib.audit"))
    async with watched(look, config=file) as (host, hub):
        who = caller("eve")
        who.principal = host.callers.principal("eve")
        view = hub.view(who)
        await host.call("look", principal="ann")
        assert types(await take(view, 4)) == CALL
        file.write_text(PEOPLE.format(permissions=""))
        await host.reload()
        await asyncio.sleep(0)
        await host.call("look", principal="ann")
        await host.call("look", principal="eve")
        assert (await take(view, 1))[0].type == "config.loaded"
        found = await take(view, 4)
        assert {decoded(seen).data.get("principal", "eve") for seen in found} == {"eve"}


async def test_who_may_not_audit_any_more_does_not_follow_calls_of_others(tmp_path: Path) -> None:
    file = tmp_path / "toolcrib.yaml"
    file.write_text(PEOPLE.format(permissions="toolcrib.audit"))
    async with watched(wait, config=file) as (host, hub):
        call, go_on = await begin(host, "c5")
        who = caller("eve")
        who.principal = host.callers.principal("eve")
        view = hub.view(who, call_id="c5")
        assert types(await take(view, 4)) == [*CALL[:3], "tool.emitted"]
        file.write_text(PEOPLE.format(permissions=""))
        await host.reload()
        go_on.set()
        await call
        (mark,) = await rest(view)
        assert decoded(mark).data["reason"] == "not_permitted"


async def test_signs_of_life_come_in_silence_only() -> None:
    async with watched() as (host, hub):
        view = hub.view(AUDITOR, heartbeat=0.02)
        plain = hub.view(AUDITOR)
        assert await take(view, 2) == [BEAT, BEAT]
        await host.call("look", principal="ann")
        found = await until(view, lambda event: event.type == "call.finished")
        assert [kind for kind in types(found) if kind] == CALL
        assert types(await take(plain, 4)) == CALL


async def test_many_viewers_share_one_timer_and_need_no_task() -> None:
    async with watched() as (_, hub):
        loop = asyncio.get_running_loop()
        before = len(asyncio.all_tasks())
        timers = len(loop._scheduled)  # pyright: ignore[reportAttributeAccessIssue]
        views = [hub.view(caller(f"p{n}"), heartbeat=15.0) for n in range(500)]
        for view in views:
            await view.open()
        assert len(asyncio.all_tasks()) == before
        assert len(loop._scheduled) <= timers + 1  # pyright: ignore[reportAttributeAccessIssue]
        for view in views:
            view.close()
        gc.collect()
        assert len(hub) == 0


async def test_an_event_that_cannot_be_encoded_stops_nobody() -> None:
    async with watched() as (host, hub):
        view = hub.view(AUDITOR)
        host.bus.publish(Event(id="", type="tool.log", time=1.0, data={"message": "\udc80"}))
        host.bus.publish(Event(id="", type="tool.log", time=2.0, data={"message": 2**90}))
        host.bus.publish(Event(id="", type="tool.log", time=3.0, data={"message": object}))
        host.bus.publish(Event(id="", type="tool.log", time=4.0, data={"message": "fine"}))
        found = await until(view, lambda event: event.time == 4.0)
        assert types(found) == ["tool.log"] * 4


# One call.


@tool(effects=["read"])
async def wait(ctx: ToolContext) -> str:
    """Wait until it is told to go on."""
    ctx.progress(0.5, "half")
    ctx.emit("waits")
    began, go_on = GATES[ctx.call_id]
    began.set()
    await go_on.wait()
    return "done"


GATES: dict[str, tuple[asyncio.Event, asyncio.Event]] = {}


async def begin(host: ToolHost, call_id: str) -> tuple[asyncio.Task[ToolResult], asyncio.Event]:
    """A call of ann's that runs, and what lets it end."""
    began, go_on = GATES[call_id] = asyncio.Event(), asyncio.Event()
    call = asyncio.create_task(host.call("wait", principal="ann", call_id=call_id))
    await asyncio.wait_for(began.wait(), PATIENCE)
    return call, go_on


async def test_one_call_is_followed_from_its_beginning_to_its_end(store: str) -> None:
    async with watched(wait, look, store=store) as (host, hub):
        call, go_on = await begin(host, "c1")
        view = hub.view(caller("ann"), call_id="c1")
        assert types(await take(view, 4)) == [*CALL[:3], "tool.emitted"]
        await host.call("look", principal="ann")
        go_on.set()
        assert (await call).output == "done"
        assert types(await rest(view)) == ["call.finished"]
        assert len(hub) == 0
        again = await rest(hub.view(caller("ann"), call_id="c1"))
        assert types(again) == [*CALL[:3], "tool.emitted", "call.finished"]
        late = hub.view(caller("ann"), call_id="c1", after=again[2].id)
        assert types(await rest(late)) == ["tool.emitted", "call.finished"]


async def test_a_call_that_has_written_nothing_yet_is_followed_too() -> None:
    @tool(effects=["read"])
    async def hold() -> str:
        """Wait."""
        began.set()
        await go_on.wait()
        return "x"

    began, go_on = asyncio.Event(), asyncio.Event()
    async with watched(hold) as (host, hub):
        call = asyncio.ensure_future(host.call("hold", principal="ann", call_id="c2"))
        await asyncio.wait_for(began.wait(), PATIENCE)
        view = hub.view(caller("ann"), call_id="c2", types=["call.started"])
        await view.open()
        assert not view.over
        go_on.set()
        await call
        assert types(await rest(view)) == ["call.started"]


async def test_what_runs_when_the_first_viewer_comes_has_its_owner(store: str) -> None:
    async with watched(wait, store=store) as (host, hub):
        call, go_on = await begin(host, "c3")
        mine, theirs = hub.view(caller("ann")), hub.view(caller("bob"))
        host.bus.publish(Event(id="", type="call.progress", time=1.0, call_id="c3"))
        go_on.set()
        await call
        assert types(await take(mine, 2)) == ["call.progress", "call.finished"]
        host.bus.publish(Event(id="", type="host.started", time=99.0))
        assert types(await until(theirs, lambda event: event.time == 99.0)) == ["host.started"]


async def test_after_its_last_event_a_call_is_over(store: str) -> None:
    async with watched(store=store) as (host, hub):
        result = await host.call("look", principal="ann")
        found = await rest(hub.view(caller("ann"), call_id=result.call_id))
        view = hub.view(caller("ann"), call_id=result.call_id, after=found[-1].id)
        await view.open()
        assert view.over
        assert await rest(view) == []
        assert len(hub) == 0


@pytest.mark.parametrize("who", ["bob", "approver"])
async def test_a_call_of_somebody_else_is_as_unknown_as_none(store: str, who: str) -> None:
    async with watched(wait, look, store=store) as (host, hub):
        call, go_on = await begin(host, "c4")
        ended = await host.call("look", principal="ann")
        rights = ("approve",) if who == "approver" else ()
        for call_id in ("c4", ended.call_id, "nothing"):
            with pytest.raises(Fault) as refused:
                await hub.view(caller(who, *rights), call_id=call_id).open()
            assert refused.value.reason == "not_found"
            assert refused.value.message == f"call_id: there is no call {call_id!r}"
            assert len(hub) == 0
        go_on.set()
        await call
        assert types(await rest(hub.view(AUDITOR, call_id="c4")))[-1] == "call.finished"


# Threads.


async def test_threads_tell_in_the_order_of_the_trail() -> None:
    @tool(effects=["read"])
    def shout(ctx: ToolContext) -> int:
        """Emit from a thread."""
        for step in range(40):
            ctx.emit("shouted", step=step)
        return 0

    async with watched(shout, work, queue=10_000) as (host, hub):
        view = hub.view(AUDITOR)
        calls = [host.call("shout", principal="ann") for _ in range(8)]
        assert all(result.success for result in await asyncio.gather(*calls))
        stored = [event.id for event in await host.trail() if event.type != "host.started"]
        found = await take(view, len(stored))
        assert [decoded(seen).id for seen in found] == stored


async def test_an_event_of_another_loop_reaches_the_viewers() -> None:
    async with watched() as (host, hub):
        view = hub.view(AUDITOR)
        waiting = asyncio.ensure_future(take(view, 4))
        await asyncio.sleep(0)
        thread = threading.Thread(target=lambda: asyncio.run(host.call("look", principal="ann")))
        thread.start()
        assert types(await waiting) == CALL
        thread.join()


def _event(seq: int, index: int = 0) -> Event:
    return Event(id=f"r.{seq}.{index}", type="call.started", time=0.0)


def _places(order: InOrder, *events: Event) -> list[tuple[int, int]]:
    return [place for place, _ in order.sorted(list(events))]


def test_an_event_waits_for_the_record_before_its_own() -> None:
    order = InOrder()
    assert _places(order, _event(7), _event(7, 1)) == [(7, 0), (7, 1)]
    assert _places(order, _event(10), _event(9)) == []
    assert len(order.held) == 2
    unstored = Event(id="", type="tool.log", time=0.0)
    assert _places(order, unstored, _event(8)) == [(0, 0), (8, 0), (9, 0), (10, 0)]
    assert not order.held


def test_a_record_that_never_comes_is_not_waited_for_forever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("toolcrib.transports.order.monotonic", lambda: now[0])
    order = InOrder()
    assert _places(order, _event(1)) == [(1, 0)]
    assert _places(order, _event(3)) == []
    now[0] += 0.1
    assert _places(order, _event(4)) == []
    now[0] += 1.0
    assert _places(order) == [(3, 0), (4, 0)]
    assert _places(order, _event(5)) == [(5, 0)]
