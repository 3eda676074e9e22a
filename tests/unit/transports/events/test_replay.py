"""Resuming: first what is on the trail, then what happens, nothing twice and nothing left out."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from onlookers import AUDITOR, PATIENCE, caller, decoded, look, rest, take, types, until, watched
from toolcrib import NotFound, ToolContext, ToolHost, tool
from toolcrib.core.events import Event
from toolcrib.host.history import History, Wanted
from toolcrib.transports.caller import Badge
from toolcrib.transports.events import Hub, Seen, View
from toolcrib.transports.faults import Fault

CALL = ["call.received", "call.decided", "call.started", "call.finished"]


def ids(found: list[Event]) -> list[str]:
    return [event.id for event in found]


async def test_resuming_behind_each_event_gives_the_rest(store: str) -> None:
    async with watched(store=store) as (host, hub):
        for _ in range(3):
            await host.call("look", principal="ann")
        stored = ids(await host.trail())
        for index, event_id in enumerate(stored[:-1]):
            async with hub.view(AUDITOR, after=event_id) as view:
                found = await take(view, len(stored) - index - 1)
                assert [decoded(seen).id for seen in found] == stored[index + 1 :]


async def test_from_the_beginning_and_then_live(store: str) -> None:
    async with watched(store=store) as (host, hub):
        await host.call("look", principal="ann")
        view = hub.view(AUDITOR, after="")
        await host.call("look", principal="ann")
        await view.open()
        await host.call("look", principal="ann")
        first = await take(view, 7)
        await host.call("look", principal="ann")
        found = [decoded(seen).id for seen in (*first, *await take(view, 10))]
        assert found == ids(await host.trail())


async def test_what_happens_while_the_past_is_read_comes_once(store: str) -> None:
    async with watched(store=store, queue=50) as (host, hub):
        for _ in range(30):
            await host.call("look", principal="ann")
        view = hub.view(AUDITOR, after="")
        found: list[str] = []
        for _ in range(60):  # more than the queue holds, while the reader is still in the past
            await host.call("look", principal="ann")
            found += [decoded(seen).id for seen in await take(view, 1)]
        rest_of_it = await take(view, 1 + 90 * 4 - 60)
        found += [decoded(seen).id for seen in rest_of_it]
        assert found == ids(await host.trail(limit=10_000))
        assert len(hub) == 1


@pytest.mark.parametrize(
    "after",
    [
        pytest.param("nowhere.1.0", id="another run"),
        pytest.param("RUN.999.0", id="a number too high"),
        pytest.param("RUN.0.0", id="a number too low"),
        pytest.param("RUN.1.7", id="no such event in the record"),
        pytest.param("RUN.-1.0", id="no number"),
        pytest.param("RUN", id="no id"),
        pytest.param("RUN.999", id="a record that is not there"),
        pytest.param("RUN.1.0@999999", id="a position too high"),
        pytest.param("@nowhere.1.0", id="another run of others"),
        pytest.param("@" + "9" * 40, id="a number beyond all"),
        pytest.param("RUN.1.0@@", id="nonsense"),
        pytest.param("x" * 100_000, id="long"),
        pytest.param("\x00", id="a control character"),
    ],
)
async def test_an_unknown_place_is_said_with_the_cure(store: str, after: str) -> None:
    async with watched(store=store) as (host, hub):
        run = (await host.trail())[0].id.partition(".")[0]
        view = hub.view(AUDITOR, after=after.replace("RUN", run))
        with pytest.raises(Fault) as refused:
            await take(view, 1)
        assert refused.value.reason == "not_found"
        assert "leave it away to see what happens from now on" in refused.value.message
        assert len(refused.value.message) < 400
        assert len(hub) == 0
        assert not host.bus.active


async def test_a_previous_run_of_the_host_is_resumed(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'trail.db'}"
    async with watched(store=store) as (host, hub):
        view = hub.view(AUDITOR)
        await host.call("look", principal="ann")
        first = await take(view, 2)
        before = ids(await host.trail())
    async with watched(store=store) as (host, hub):
        view = hub.view(AUDITOR, after=first[-1].id)
        await host.call("look", principal="ann")
        expected = [*before[3:], *ids(await host.trail())[len(before) :]]
        found = await take(view, len(expected))
        assert [decoded(seen).id for seen in found] == expected
        assert "host.stopped" in types(found)


async def test_the_owner_of_a_call_that_began_before_the_place_is_known(store: str) -> None:
    @tool(effects=["read"])
    async def slowly(ctx: ToolContext) -> None:
        """Emit into three blocks."""
        for step in range(3):
            ctx.emit("stepped", step=step)
            await (await host.start()).store.flush()

    async with watched(slowly, store=store) as (host, hub):
        result = await host.call("slowly", principal="ann")
        events = await host.trail(call_id=result.call_id)
        second = [event for event in events if event.type == "tool.emitted"][1]
        view = hub.view(caller("ann"), after=second.id)
        assert types(await take(view, 2)) == ["tool.emitted", "call.finished"]
        theirs = hub.view(caller("bob"), after=second.id)
        await host.call("slowly", principal="bob")
        assert (await take(theirs, 1))[0].type == "call.received"


# Other writers.


@asynccontextmanager
async def two_hosts(folder: Path) -> AsyncIterator[tuple[ToolHost, ToolHost, Hub]]:
    """Two hosts on one store, as two processes would be, and the hub of the first."""
    store = f"sqlite:{folder / 'trail.db'}"
    async with watched(look, store=store) as (host, hub), ToolHost([look], store=store) as other:
        await (await other.start()).store.flush()
        yield host, other, hub


async def test_what_another_process_writes_is_seen_too(tmp_path: Path) -> None:
    async with two_hosts(tmp_path) as (host, other, hub):
        view, theirs = hub.view(caller("ann")), hub.view(caller("bob"))
        await view.open()
        await other.call("look", principal="ann")
        assert types(await take(view, 4)) == CALL
        await host.call("look", principal="ann")
        assert types(await take(view, 4)) == CALL
        await other.call("look", principal="bob")
        assert types(await take(theirs, 4)) == CALL


async def test_what_another_process_says_of_itself_is_for_auditors(tmp_path: Path) -> None:
    async with two_hosts(tmp_path) as (_, other, hub):
        mine, all_of_it = hub.view(caller("ann")), hub.view(AUDITOR)
        await mine.open()
        other.unregister("look")
        await other.call("look", principal="ann")
        await other.stop()
        seen = types(await until(all_of_it, lambda event: event.type == "host.stopped"))
        assert seen[0] == "catalog.changed"
        assert types(await take(mine, 3)) == ["call.received", "call.decided", "call.finished"]
        assert mine.take() is None
        again = hub.view(caller("ann"), after="")
        assert types(await take(again, 2)) == ["host.started", "call.received"]


async def test_two_writers_are_told_once_each_and_in_order(tmp_path: Path) -> None:
    async with two_hosts(tmp_path) as (host, other, hub):
        view = hub.view(AUDITOR)
        await view.open()
        found: list[str] = []
        for _ in range(4):
            await host.call("look", principal="ann")
            await (await host.start()).store.flush()
            await other.call("look", principal="ann")
            found += [decoded(seen).id for seen in await take(view, 8)]
        stored = [event.id for event in await host.trail() if event.type.startswith("call.")]
        assert sorted(found) == sorted(stored)
        assert view.take() is None


async def test_a_call_in_another_process_is_followed_to_its_end(tmp_path: Path) -> None:
    async with two_hosts(tmp_path) as (_, other, hub):
        keep = hub.view(AUDITOR)
        await keep.open()
        result = await other.call("look", principal="ann")
        await until(keep, lambda event: event.type == "call.finished")
        view = hub.view(caller("ann"), call_id=result.call_id)
        assert types(await rest(view)) == CALL


@pytest.mark.parametrize("seed", range(6))
async def test_whoever_comes_and_goes_sees_everything_once(tmp_path: Path, seed: int) -> None:
    """Two writers, and a viewer that goes away at any moment and resumes where it was."""
    chance = random.Random(seed)
    async with two_hosts(tmp_path) as (host, other, hub):
        start = hub.view(AUDITOR, after="")
        found = [decoded(seen).id for seen in await take(start, 2)]
        place = (await take(hub.view(AUDITOR, after=""), 2))[-1].id
        start.close()
        view = hub.view(AUDITOR, after=place)
        for _ in range(40):
            step = chance.randrange(4)
            if step == 0:
                await host.call("look", principal="ann")
            elif step == 1:
                await other.call("look", principal="ann")
            elif step == 2:
                await asyncio.sleep(chance.choice([0, 0.01, 0.06]))
            else:
                await view.open()
                for _ in range(chance.randrange(9)):
                    seen = await _soon(view)
                    if seen is None:
                        break
                    found.append(decoded(seen).id)
                    place = seen.id
                if chance.random() < 0.7:
                    view.close()
                    view = hub.view(AUDITOR, after=place)
        await (await other.start()).store.flush()
        stored = ids(await host.trail(limit=10_000))
        while len(found) < len(stored):
            found += [decoded(seen).id for seen in await take(view, 1)]
        assert sorted(found) == sorted(stored)
        for run in {event_id.partition(".")[0] for event_id in stored}:
            mine = [event_id for event_id in found if event_id.startswith(run)]
            assert mine == [event_id for event_id in stored if event_id.startswith(run)]


@pytest.mark.parametrize("seed", range(3))
async def test_whoever_was_cut_off_before_the_first_event_misses_none(
    tmp_path: Path, seed: int
) -> None:
    """Two writers, and a viewer that comes, is told where it is, and loses its connection."""
    chance = random.Random(seed)
    async with two_hosts(tmp_path) as (host, other, hub):
        for writer in chance.choices([host, other], k=5):
            await writer.call("look", principal="ann")
        await (await other.start()).store.flush()
        before = ids(await host.trail(limit=10_000))
        view = hub.view(AUDITOR)
        await view.open()
        place = view.place
        for writer in chance.choices([host, other], k=12):
            await writer.call("look", principal="ann")
            if chance.random() < 0.3:
                view.close()
                view = hub.view(AUDITOR, after=place)
                await view.open()
        view.close()
        again = hub.view(AUDITOR, after=place)
        await (await other.start()).store.flush()
        stored = ids(await host.trail(limit=10_000))
        expected = [event_id for event_id in stored if event_id not in before]
        found = [decoded(seen).id for seen in await take(again, len(expected))]
        assert sorted(found) == sorted(expected)


async def test_the_place_of_whoever_comes_is_behind_what_was(store: str) -> None:
    async with watched(store=store) as (host, hub):
        await host.call("look", principal="ann")
        async with hub.view(AUDITOR) as view:
            place = view.place
            assert place is not None
        await host.call("look", principal="bob")
        again = hub.view(AUDITOR, after=place)
        await host.call("look", principal="carl")
        found = await take(again, 8)
        assert types(found) == CALL * 2
        assert decoded(found[0]).data["principal"] == "bob"
        # A place behind each of them, as ever.
        rest_of_it = await take(hub.view(AUDITOR, after=found[0].id), 7)
        assert [seen.data for seen in rest_of_it] == [seen.data for seen in found[1:]]


async def test_a_place_that_was_not_stored_yet_leads_to_further_ones(tmp_path: Path) -> None:
    async with two_hosts(tmp_path) as (host, other, hub):
        await (await host.start()).store.flush()
        await host.call("look", principal="ann")
        async with hub.view(AUDITOR) as view:
            place = view.place
        await other.call("look", principal="bob")
        await (await other.start()).store.flush()
        await (await host.start()).store.flush()
        found = await take(hub.view(AUDITOR, after=place), 4)
        assert types(found) == CALL
        following = await take(hub.view(AUDITOR, after=found[0].id), 3)
        assert [seen.data for seen in following] == [seen.data for seen in found[1:]]


async def test_who_is_sent_away_before_the_first_event_is_told_where_to_resume(
    store: str,
) -> None:
    async with watched(store=store) as (host, hub):
        badge = Badge()
        view = hub.view(caller("eve", "audit", badge=badge))
        await view.open()
        badge.revoked = True
        await host.call("look", principal="ann")
        (mark,) = await rest(view)
        resume = decoded(mark).data["resume"]
        assert types(await take(hub.view(AUDITOR, after=resume), 4)) == CALL


async def test_the_first_event_of_another_writer_keeps_the_place_in_the_own_run(
    tmp_path: Path,
) -> None:
    async with two_hosts(tmp_path) as (host, other, hub):
        await host.call("look", principal="ann")
        view = hub.view(AUDITOR)
        await view.open()
        await other.call("look", principal="bob")
        told = await take(view, 4)
        view.close()
        await host.call("look", principal="carl")
        found = await take(hub.view(AUDITOR, after=told[-1].id), 4)
        assert types(found) == CALL
        assert decoded(found[0]).data["principal"] == "carl"


async def _soon(view: View) -> Seen | None:
    """The next of a view, unless it takes its time."""
    try:
        return await asyncio.wait_for(anext(view), 0.03)
    except TimeoutError:
        return None


async def test_an_event_told_before_it_is_stored_hides_none_of_another_writer(
    tmp_path: Path,
) -> None:
    async with two_hosts(tmp_path) as (host, other, hub):
        view = hub.view(AUDITOR)
        await view.open()
        await (await host.start()).store.flush()
        call = await host.call("look", principal="ann")
        told = await take(view, 4)  # told, and perhaps not stored yet
        view.close()
        await other.call("look", principal="bob")
        await (await other.start()).store.flush()
        await (await host.start()).store.flush()
        again = hub.view(AUDITOR, after=told[-1].id)
        found = await take(again, 4)
        assert types(found) == CALL
        assert decoded(found[0]).data["principal"] == "bob"
        assert decoded(told[0]).call_id == call.call_id


# Places.


async def test_places_are_found_without_reading_the_trail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(look, store=f"sqlite:{tmp_path / 'trail.db'}") as (host, hub):
        store = (await host.start()).store
        for _ in range(150):
            await host.call("look", principal="ann")
            await store.flush()
        events = await host.trail(limit=10_000)
        middle, last = events[len(events) // 2], events[-1]
        read = 0
        blocks = store.blocks

        async def counted(**asked: int) -> object:
            nonlocal read
            found = await blocks(**asked)  # pyright: ignore[reportArgumentType]
            read += len(found)
            return found

        monkeypatch.setattr(store, "blocks", counted)
        assert (await History(store).find(middle.id)).position > 50
        assert await History(store).end() > 140
        assert read < 40
        async with hub.view(AUDITOR, after=events[-2].id) as view:
            assert decoded((await take(view, 1))[0]) == last
        assert read < 80
        place = await History(store).find_call(str(events[-5].call_id))
        assert place is not None
        assert place.principal == "ann"
        assert read < 120


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 9, 31])
async def test_every_event_of_every_block_is_found(tmp_path: Path, count: int) -> None:
    async with watched(look, store=f"sqlite:{tmp_path / 'trail.db'}") as (host, _):
        store = (await host.start()).store
        for _ in range(count):
            await host.call("look", principal="ann")
            await store.flush()
        history = History(store)
        blocks = await store.blocks(limit=1000)
        assert await history.end() == len(blocks)
        for event in await host.trail():
            place = await history.find(event.id)
            assert f"{place.run}.{place.seq}.{place.index}" == event.id
            block = dict(blocks)[place.position]
            assert block.first <= place.seq <= block.last
        with pytest.raises(NotFound, match="is on the trail"):
            await history.find(f"{blocks[0][1].run}.{blocks[-1][1].last + 1}.0")


async def test_a_trail_that_was_cut_off_in_memory_has_lost_its_places() -> None:
    from toolcrib.stores.memory import MemoryStore

    async with watched(look, store=MemoryStore(keep=4)) as (host, hub):
        store = (await host.start()).store
        first = (await host.trail())[0].id
        for _ in range(10):
            await host.call("look", principal="ann")
            await store.flush()
        with pytest.raises(Fault, match="is on the trail"):
            await hub.view(AUDITOR, after=first).open()


async def test_looking_for_one_call_reads_only_its_records(tmp_path: Path) -> None:
    async with watched(look, store=f"sqlite:{tmp_path / 'trail.db'}") as (host, _):
        wanted = await host.call("look", {"path": "wanted"}, principal="ann")
        await host.call("look", {"path": wanted.call_id}, principal="bob")
        store = (await host.start()).store
        await store.flush()
        place = await History(store).find_call(wanted.call_id)
        assert place is not None
        assert place.principal == "ann"
        assert await History(store).find_call("nothing") is None
        found = await History(store).search(Wanted(call_id=wanted.call_id))
        assert [event.type for event in found] == CALL
        assert {event.call_id for event in found} == {wanted.call_id}
        (call,) = await History(store).recent_calls(wanted=Wanted(call_id=wanted.call_id))
        assert call.id == wanted.call_id


# The host's own way to follow.


async def test_the_host_itself_follows_without_a_gap(store: str) -> None:
    async with ToolHost([look], store=store) as host:
        await host.call("look", principal="ann")
        follow = host.events(after="")
        found = [(await anext(follow)).id]
        for _ in range(600):  # more events than its subscription holds
            await host.call("look", principal="ann")
        stored = ids(await host.trail(limit=10_000))

        async def collect() -> None:
            while len(found) < len(stored):
                found.append((await anext(follow)).id)

        await asyncio.wait_for(collect(), PATIENCE)
        assert found == stored
        waiting = asyncio.ensure_future(anext(follow))
        await asyncio.sleep(0)
        await host.trail()  # so that it is done with the past
        last = await host.call("look", principal="ann")
        assert (await asyncio.wait_for(waiting, PATIENCE)).call_id == last.call_id
        await follow.aclose()  # pyright: ignore[reportAttributeAccessIssue]


async def test_what_happens_at_the_last_look_at_the_trail_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ToolHost([look], store=f"sqlite:{tmp_path / 'trail.db'}") as host:
        parts = await host.start()
        blocks, told = parts.store.blocks, 0

        async def blocks_and_then(**asked: int) -> object:
            nonlocal told
            found = await blocks(**asked)  # pyright: ignore[reportArgumentType]
            while not found and told < 1200:  # more than the subscription of a reader holds
                parts.trail.fact("tool.emitted", "c1", {"number": told})
                told += 1
            return found

        monkeypatch.setattr(parts.store, "blocks", blocks_and_then)
        follow = host.events(after="")
        assert (await anext(follow)).type == "host.started"
        numbers = [(await anext(follow)).data["number"] for _ in range(1200)]
        assert numbers == list(range(1200))
        await follow.aclose()  # pyright: ignore[reportAttributeAccessIssue]
