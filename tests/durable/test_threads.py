"""One host, many threads and loops."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from toolcrib import ToolHost, tool
from toolcrib.core.chain import verify_run
from toolcrib.core.events import decode_record, events_of
from toolcrib.errors import NameTaken
from toolcrib.sync import ToolHost as SyncToolHost

THREADS = 8
EXPECTED = {None, "unknown_tool"}


def _in_threads(work: Callable[[int], Any], count: int = THREADS) -> list[Any]:
    """Run `work` in many threads at once; what one of them raises is raised here."""
    results: list[Any] = [None] * count
    problems: list[BaseException] = []
    ready = threading.Barrier(count)

    def main(number: int) -> None:
        try:
            ready.wait(10)
            results[number] = work(number)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=main, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if problems:
        raise problems[0]
    assert not any(thread.is_alive() for thread in threads)
    return results


def _in_loops(work: Callable[[int], Coroutine[Any, Any, Any]]) -> list[Any]:
    return _in_threads(lambda number: asyncio.run(work(number)))


def _named(name: str, value: int, effects: str = "read") -> Any:
    @tool(name=name, effects=[effects])
    async def named() -> int:
        return value

    return named


async def _trail_of(host: ToolHost) -> tuple[list[Any], list[Any]]:
    """All events of the host's own run, and what verification finds in it."""
    parts = await host.start()
    # Every transaction carries the records that wait, so this one brings them all to the store.
    await parts.store.end_session("nobody", 0.0)
    blocks = [block for _, block in await parts.store.blocks(limit=100_000)]
    numbers = [block.first + i for block in blocks for i in range(block.count)]
    assert numbers == [*range(1, len(numbers) + 1)]
    report = verify_run(parts.trail.run, blocks, parts.trail._key)
    events = [
        event
        for block in blocks
        for index, line in enumerate(block.lines.split(b"\n"))
        for event in events_of(decode_record(line), block.run, block.first + index)
    ]
    return events, list(report.findings)


def _options(kind: str, place: Any) -> dict[str, Any]:
    return {"config": place.config()} if kind == "sqlite" else {}


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_register_replace_unregister_and_call_together_lose_nothing(kind: str, place: Any) -> None:
    rounds = 80 if kind == "memory" else 60
    host = ToolHost([_named("shared", 0), _named("kept", 7, "write")], **_options(kind, place))
    asyncio.run(_started(host))
    made: list[str] = []

    async def hammer(number: int) -> Counter[str | None]:
        endings: Counter[str | None] = Counter()

        async def call(name: str) -> Any:
            result = await host.call(name)
            endings[result.reason] += 1
            made.append(result.call_id)
            return result

        for turn in range(rounds):
            mine = f"own-{number}-{turn}"
            host.register(_named(mine, turn))
            host.register(_named("shared", number), replace=True)
            assert (await call(mine)).output == turn
            host.register(_named(mine, -turn - 1), replace=True)
            assert (await call(mine)).output == -turn - 1
            await asyncio.gather(call("shared"), call("kept"), call(f"own-{number - 1}-{turn}"))
            if turn % 2:
                assert host.unregister(mine)
                assert (await call(mine)).reason == "unknown_tool"
            try:
                host.register(_named("contested", number))
            except NameTaken:
                host.unregister("contested")
        return endings

    endings = sum(_in_loops(hammer), Counter())
    assert set(endings) <= EXPECTED
    names = {tool.name for tool in host.tools()} - {"contested"}
    kept = {f"own-{n}-{turn}" for n in range(THREADS) for turn in range(0, rounds, 2)}
    assert names == kept | {"shared", "kept"}

    async def check() -> None:
        assert (await host.call("shared")).output in range(THREADS)
        for name in list(kept)[:20]:
            turn = int(name.rpartition("-")[2])
            assert (await host.call(name)).output == -turn - 1
        events, findings = await _trail_of(host)
        assert findings == []
        received = Counter(e.call_id for e in events if e.type == "call.received")
        ended = Counter(e.call_id for e in events if e.type in ("call.finished", "call.denied"))
        assert len(set(made)) == len(made) == sum(endings.values())
        assert set(made) <= set(received)
        assert set(received.values()) == set(ended.values()) == {1}
        assert set(received) == set(ended)
        await host.stop()

    asyncio.run(check())


async def _started(host: ToolHost) -> None:
    await host.start()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_many_short_loops_use_one_host(kind: str, place: Any) -> None:
    """`asyncio.run` for each call, from several threads: loops come and go all the time."""
    host = ToolHost([_named("write", 1, "write"), _named("read", 2)], **_options(kind, place))

    def work(number: int) -> list[str]:
        async def once(name: str) -> str:
            result = await host.call(name)
            assert result.success, result
            return result.call_id

        return [asyncio.run(once("write" if turn % 2 else "read")) for turn in range(25)]

    made = [call_id for ids in _in_threads(work) for call_id in ids]
    assert len(set(made)) == 25 * THREADS

    async def check() -> None:
        events, findings = await _trail_of(host)
        assert findings == []
        ended = Counter(e.call_id for e in events if e.type == "call.finished")
        assert ended == Counter(made)
        assert [e.type for e in events].count("host.started") == 1
        await host.stop()

    asyncio.run(check())


def test_threads_that_start_one_host_open_it_once(place: Any) -> None:
    host = ToolHost([_named("write", 1, "write")], config=place.config())

    async def first_call(number: int) -> str:
        result = await host.call("write")
        assert result.success, result
        return result.call_id

    made = _in_loops(first_call)
    asyncio.run(host.stop())
    found = asyncio.run(place.look())
    found.assert_whole()
    assert len(found.reports) == 1
    assert set(made) == found.ids("call.finished")
    assert [e.type for e in found.events].count("host.started") == 1


def test_concurrency_limit_holds_across_loops_and_leaks_no_place() -> None:
    running = 0
    most = 0
    lock = threading.Lock()

    @tool(effects=["read"])
    async def busy() -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        await asyncio.sleep(0.001)
        with lock:
            running -= 1
        return 1

    profiles = {
        "p": {
            "rules": [{"allow": "busy"}],
            "limits": {"calls": "100000/s", "concurrent": 3, "queue": 1000, "per": "profile"},
        }
    }
    host = ToolHost([busy], config={"version": 1, "profiles": profiles})
    asyncio.run(_started(host))

    async def work(number: int) -> int:
        results = [await host.call("busy") for _ in range(20)]
        results += await asyncio.gather(*(host.call("busy") for _ in range(20)))
        return sum(result.success for result in results)

    assert sum(_in_loops(work)) == 40 * THREADS
    assert most == 3

    async def after() -> None:
        results = await asyncio.gather(*(host.call("busy") for _ in range(9)))
        assert all(result.success for result in results)
        await host.stop()

    asyncio.run(after())


def test_approval_is_answered_from_another_loop() -> None:
    profiles = {"p": {"rules": [{"ask": "write"}]}}
    host = ToolHost([_named("write", 5, "write")], config={"version": 1, "profiles": profiles})
    asyncio.run(_started(host))

    async def work(number: int) -> Any:
        if number:
            return await asyncio.wait_for(host.call("write", principal=f"p{number}"), 20)
        answered = 0
        while answered < THREADS - 1:
            for request in await host.approvals.list():
                await host.approvals.decide(request.id, by="bo")
                answered += 1
            await asyncio.sleep(0.005)
        return None

    results = _in_loops(work)[1:]
    assert [result.output for result in results] == [5] * (THREADS - 1)
    asyncio.run(host.stop())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_synchronous_host_from_many_threads(kind: str, place: Any) -> None:
    with SyncToolHost(
        [_named("write", 1, "write"), _named("read", 2)], **_options(kind, place)
    ) as host:

        def work(number: int) -> list[str]:
            host.register(_named(f"own-{number}", number))
            with host.session(principal=f"p{number}") as session:
                results = [session.call("write") for _ in range(5)]
            results += [host.call("read") for _ in range(20)]
            results.append(host.call(f"own-{number}"))
            assert results[-1].output == number
            assert all(result.success for result in results)
            return [result.call_id for result in results]

        made = [call_id for ids in _in_threads(work) for call_id in ids]
        assert len(set(made)) == 26 * THREADS
        events = host.trail(limit=100_000)
        ended = Counter(e.call_id for e in events if e.type == "call.finished")
        assert ended == Counter(made)
        assert host.call("own-3").output == 3
    if kind == "sqlite":
        asyncio.run(place.look()).assert_whole()


async def test_synchronous_host_where_a_loop_runs_already() -> None:
    """As in a notebook: the cell's code runs inside a loop and cannot await."""
    assert asyncio.get_running_loop().is_running()
    with SyncToolHost([_named("read", 2)]) as host:
        assert host.call("read").output == 2
        assert host.explain("read").verdict == "allow"
        with host.session(principal="ada") as session:
            assert session.call("read").output == 2
    assert threading.active_count() < 20
    assert not any(t.name == "toolcrib-sync" for t in threading.enumerate())


def test_synchronous_host_after_stop_says_so() -> None:
    host = SyncToolHost([_named("read", 2)])
    with host:
        assert host.call("read").success
    assert host.call("read").reason == "host_stopping"
    host.stop()
    assert not any(t.name == "toolcrib-sync" for t in threading.enumerate())


def test_tool_that_calls_its_own_synchronous_host_does_not_hang() -> None:
    host: SyncToolHost | None = None

    @tool(effects=["read"])
    async def outer() -> str:
        assert host is not None
        return str(host.call("inner").output)

    host = SyncToolHost([outer, _named("inner", 1)])
    with host:
        result = host.call("outer")
        assert result.reason == "unexpected_failure"
        assert host.call("inner").output == 1
