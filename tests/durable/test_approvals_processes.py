"""Approvals that outlive a process, and answers that come from another one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from toolcrib import ToolHost, tool
from toolcrib.stores.sqlite import SqliteStore

CAREFUL = {
    "careful": {
        "rules": [{"ask": {"effects": ["write", "egress", "destructive"]}}],
        "approval": {"timeout": "15s", "remember": ["once", "session", "1h", "always"]},
    }
}


class Noted:
    """The same tool as in the script, and what it left."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "noted.log"
        log = self.log

        @tool(effects=["write"])
        async def note(n: int) -> int:
            """Leave a line in the independent log."""
            with log.open("a") as file:
                file.write(f"{n}\n")
            return n

        self.tool = note

    @property
    def lines(self) -> list[str]:
        """One line an execution."""
        return self.log.read_text().split() if self.log.exists() else []


@pytest.fixture
def noted(tmp_path: Path) -> Noted:
    """A tool that keeps count."""
    return Noted(tmp_path)


async def _cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("seeds", [("1", "1"), ("1", "2")], ids=["same", "other"])
async def test_pending_request_outlives_a_killed_process(
    seeds: tuple[str, str], place: Any, scripts: Any, noted: Noted, until: Any
) -> None:
    """The second process orders its sets otherwise, as any new Python process does."""
    store = SqliteStore(place.db)
    first = scripts.start("asking_process.py", "call", place.db, noted.log, PYTHONHASHSEED=seeds[0])
    await until(place.db.exists)
    await store.open()
    waiting = await until(lambda: store.requests(state="pending"))
    first.kill()
    await asyncio.to_thread(first.wait)

    answer = scripts.start(
        "asking_process.py", "answer", place.db, noted.log, PYTHONHASHSEED=seeds[1]
    )
    assert (await asyncio.to_thread(answer.stdout.read)).decode().strip() == "allowed"
    assert noted.lines == []

    again = scripts.start("asking_process.py", "call", place.db, noted.log, PYTHONHASHSEED=seeds[1])
    said = json.loads(await asyncio.to_thread(again.stdout.readline))
    assert (said["status"], said["output"]) == ("ok", 1)
    assert said["metadata"]["approval"] == {"by": "bo", "note": "fine"}
    assert noted.lines == ["1"]

    third = scripts.start("asking_process.py", "call", place.db, noted.log, PYTHONHASHSEED=seeds[1])
    asked = await until(lambda: store.requests(state="pending"))
    assert asked[0].id != waiting[0].id
    third.kill()
    await asyncio.to_thread(third.wait)
    await store.close()
    assert noted.lines == ["1"]
    found = await place.look()
    assert [r.findings for r in found.reports if not r.ok] == []


async def test_host_stopped_while_pending_is_followed_by_one_that_answers(
    place: Any, noted: Noted, until: Any
) -> None:
    config = place.config(profiles=CAREFUL, host={"drain": "0s"})
    before = ToolHost([noted.tool], config=config)
    await before.start()
    call = asyncio.create_task(before.call("note", {"n": 1}))
    await until(before.approvals.list)
    await before.stop()
    assert (await call).reason == "host_stopping"

    async with ToolHost([noted.tool], config=config) as after:
        pending = await after.approvals.list()
        assert [(r.tool, r.arguments) for r in pending] == [("note", {"n": 1})]
        await after.approvals.decide(pending[0].id, by="bo")
        result = await after.call("note", {"n": 1})
        assert (result.status, result.output) == ("ok", 1)
        assert noted.lines == ["1"]
        third = asyncio.create_task(after.call("note", {"n": 1}))
        asked = await until(after.approvals.list)
        assert asked[0].id != pending[0].id
        await _cancelled(third)
    assert noted.lines == ["1"]
    (await place.look()).assert_whole()


async def test_answer_of_another_host_on_the_same_file_reaches_the_waiting_caller(
    place: Any, noted: Noted, until: Any
) -> None:
    config = place.config(profiles=CAREFUL)
    async with ToolHost([noted.tool], config=config) as asks, ToolHost(config=place.config()) as b:
        yes = asyncio.create_task(asks.call("note", {"n": 1}))
        pending = await until(b.approvals.list)
        await b.approvals.decide(pending[0].id, note="go on", by="bo")
        assert (await asyncio.wait_for(yes, 5)).metadata["approval"]["note"] == "go on"

        no = asyncio.create_task(asks.call("note", {"n": 2}))
        pending = await until(b.approvals.list)
        await b.approvals.decide(pending[0].id, allow=False, note="not today", by="bo")
        result = await asyncio.wait_for(no, 5)
    assert (result.status, result.reason) == ("denied", "approval_rejected")
    assert result.error is not None
    assert "not today" in result.error.message
    assert noted.lines == ["1"]
    found = await place.look()
    found.assert_whole()
    assert len(found.reports) == 2


async def test_answer_of_another_process_reaches_the_waiting_process(
    place: Any, scripts: Any, noted: Noted
) -> None:
    asks = scripts.start("asking_process.py", "call", place.db, noted.log, PYTHONHASHSEED="3")
    says = scripts.start("asking_process.py", "answer", place.db, noted.log, PYTHONHASHSEED="4")
    assert await asyncio.to_thread(says.stdout.readline) == b"allowed\n"
    result = json.loads(await asyncio.to_thread(asks.stdout.readline))
    assert (result["status"], result["output"]) == ("ok", 1)
    assert noted.lines == ["1"]
    await asyncio.to_thread(asks.wait)
    await asyncio.to_thread(says.wait)
    (await place.look()).assert_whole()


async def test_grant_revoked_by_another_process_is_not_used_again(
    place: Any, scripts: Any, noted: Noted, until: Any
) -> None:
    async with ToolHost([noted.tool], config=place.config(profiles=CAREFUL)) as host:
        first = asyncio.create_task(host.call("note", {"n": 1}))
        pending = await until(host.approvals.list)
        await host.approvals.decide(pending[0].id, reach="always", by="bo")
        await first
        assert (await host.call("note", {"n": 2})).status == "ok"

        revokes = scripts.start("asking_process.py", "revoke", place.db, noted.log)
        assert await asyncio.to_thread(revokes.stdout.read) == b"True\n"
        third = asyncio.create_task(host.call("note", {"n": 3}))
        await until(host.approvals.list)
        await _cancelled(third)
    assert noted.lines == ["1", "2"]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_one_answer_lets_one_of_a_hundred_identical_calls_run(
    kind: str, place: Any, noted: Noted, until: Any
) -> None:
    config: dict[str, Any] = {"version": 1, "profiles": CAREFUL}
    if kind == "sqlite":
        config = place.config(profiles=CAREFUL)
    async with ToolHost([noted.tool], config=config) as host:
        calls = [asyncio.create_task(host.call("note", {"n": 1})) for _ in range(100)]
        pending = await until(host.approvals.list)
        assert len(pending) == 1
        await host.approvals.decide(pending[0].id, by="bo")
        done, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        asked = await until(host.approvals.list)
        assert len(asked) == 1
        assert asked[0].id != pending[0].id
        await asyncio.sleep(0.1)
        assert len(done) == 1
        assert [call.done() for call in waiting] == [False] * 99
        assert done.pop().result().status == "ok"
        for call in waiting:
            call.cancel()
        endings = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(ending, asyncio.CancelledError) for ending in endings)
        # The question outlives those who asked it.
        assert [r.id for r in await host.approvals.list()] == [asked[0].id]
        used = await host.approvals.list(state="used")
        assert [r.id for r in used] == [pending[0].id]
    assert noted.lines == ["1"]
    if kind == "sqlite":
        found = await place.look()
        found.assert_whole()
        assert len(found.ids("call.received")) == 100
        assert len(found.ids("call.started")) == 1


async def test_hundred_redeemers_in_two_hosts_execute_once(
    place: Any, noted: Noted, until: Any
) -> None:
    config = place.config(profiles=CAREFUL)
    async with (
        ToolHost([noted.tool], config=config) as one,
        ToolHost([noted.tool], config=config) as two,
    ):
        calls = [
            asyncio.create_task((one if n % 2 else two).call("note", {"n": 1})) for n in range(100)
        ]
        pending = await until(one.approvals.list)
        await two.approvals.decide(pending[0].id, by="bo")
        done, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        await until(one.approvals.list)
        await asyncio.sleep(0.2)
        assert sum(call.done() for call in calls) == len(done) == 1
        for call in waiting:
            call.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert noted.lines == ["1"]
    (await place.look()).assert_whole()
