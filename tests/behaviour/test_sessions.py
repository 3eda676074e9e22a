"""A principal's stay: its own tools, its own instances, and the end of both."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support import Counted, allowing, assert_one_ending

from toolcrib import ConfigError, NameTaken, NotFound, ToolContext, ToolHost, tool
from toolcrib.core.ledger import SessionRow
from toolcrib.errors import StoreError
from toolcrib.stores.memory import MemoryStore

BUILT: list[Any] = []
CLOSED: list[Any] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    BUILT.clear()
    CLOSED.clear()


@tool(name="notes", effects={"read"}, scope="session", inline=True)
class Notes:
    """Keeps notes for one session."""

    def __init__(self, ctx: ToolContext) -> None:
        self.owner = ctx.session_id
        self.kept: list[str] = []
        BUILT.append(self)

    def __call__(self, text: str) -> list[str]:
        """Add a note."""
        self.kept.append(text)
        return self.kept

    def close(self) -> None:
        CLOSED.append(self)


@tool(name="counter", effects={"read"}, scope="session")
class Counter:
    """Counts for one session."""

    def __init__(self, ctx: ToolContext) -> None:
        self.n = 0
        BUILT.append(self)

    async def __call__(self) -> int:
        """Count."""
        self.n += 1
        return self.n

    async def aclose(self) -> None:
        await asyncio.sleep(0)
        CLOSED.append(self)

    def close(self) -> None:
        raise AssertionError("aclose is the one to call")


async def test_one_instance_a_session_closed_with_it() -> None:
    async with ToolHost([Notes, Counter]) as host:
        async with host.session() as session:
            assert (await session.call("notes", {"text": "a"})).output == ["a"]
            assert (await session.call("notes", {"text": "b"})).output == ["a", "b"]
            assert [(await session.call("counter")).output for _ in range(2)] == [1, 2]
            assert len(BUILT) == 2
            assert BUILT[0].owner == session.id
            assert CLOSED == []
        assert set(CLOSED) == set(BUILT)


async def test_sessions_do_not_share_instances() -> None:
    async with ToolHost([Counter]) as host:
        async with host.session() as one, host.session() as two:
            assert [(await one.call("counter")).output for _ in range(3)] == [1, 2, 3]
            assert (await two.call("counter")).output == 1
        assert len(BUILT) == len(CLOSED) == 2


async def test_a_call_without_a_session_gets_an_instance_for_itself() -> None:
    async with ToolHost([Counter, Notes]) as host:
        assert [(await host.call("counter")).output for _ in range(2)] == [1, 1]
        assert (await host.call("notes", {"text": "a"})).output == ["a"]
        assert len(BUILT) == 3
        assert CLOSED == BUILT


async def test_calls_at_the_same_time_share_one_instance() -> None:
    async with ToolHost([Counter]) as host, host.session() as session:
        results = await asyncio.gather(*(session.call("counter") for _ in range(20)))
        assert sorted(r.output for r in results) == list(range(1, 21))
        assert len(BUILT) == 1


async def test_the_host_closes_the_sessions_that_are_left() -> None:
    host = ToolHost([Counter])
    session = host.session()
    await session.__aenter__()
    await session.call("counter")
    await host.stop()
    assert session.closed
    assert CLOSED == BUILT


async def test_an_instance_that_cannot_be_closed_keeps_nobody_else() -> None:
    @tool(name="stuck", effects={"read"}, scope="session", inline=True)
    class Stuck:
        """Does not close."""

        def __init__(self, ctx: ToolContext) -> None:
            pass

        def __call__(self) -> int:
            """One."""
            return 1

        def close(self) -> None:
            raise RuntimeError("stuck")

    async with ToolHost([Counter, Stuck]) as host:
        async with host.session() as session:
            await session.call("counter")
            await session.call("stuck")
        assert CLOSED == BUILT


async def test_a_session_has_its_own_surroundings() -> None:
    @tool(effects={"read"})
    async def look(ctx: ToolContext) -> dict[str, Any]:
        return {
            "id": ctx.session_id,
            "cwd": ctx.cwd,
            "env": dict(ctx.environment),
            "meta": dict(ctx.metadata),
            "who": ctx.principal.name,
        }

    async with (
        ToolHost([look]) as host,
        host.session(
            principal="ann", cwd="/somewhere", environment={"A": "1"}, metadata={"k": 2}
        ) as session,
    ):
        assert (await session.call("look")).output == {
            "id": session.id,
            "cwd": "/somewhere",
            "env": {"A": "1"},
            "meta": {"k": 2},
            "who": "ann",
        }
        by_id = await host.call("look", session=session.id)
        assert by_id.output["who"] == "ann"


async def test_a_session_id_does_not_authorise_another_principal() -> None:
    @tool(effects={"read"})
    async def look(ctx: ToolContext) -> str:
        return ctx.principal.name

    async with ToolHost([look]) as host, host.session(principal="ann") as session:
        result = await host.call("look", session=session.id, principal="mallory")
        assert (result.status, result.reason) == ("denied", "unauthenticated")
        assert (await host.call("look", session=session.id, principal="ann")).output == "ann"
        assert (await host.call("look", session=session.id)).output == "ann"


async def test_a_tool_of_one_session_is_nobody_elses() -> None:
    own = Counted("own")
    async with ToolHost() as host, host.session() as one, host.session() as two:
        one.register(own.tool)
        assert [t.name for t in one.tools()] == ["own"]
        assert [t.name for t in two.tools()] == []
        assert host.tools() == []
        assert (await one.call("own")).success
        assert (await two.call("own")).reason == "unknown_tool"
        assert (await host.call("own")).reason == "unknown_tool"
        assert one.unregister("own")
        assert (await one.call("own")).reason == "unknown_tool"
        assert own.runs == 1


async def test_a_tool_of_one_session_answers_to_the_name_that_models_see() -> None:
    own = Counted("my.own")
    async with ToolHost() as host, host.session() as session:
        session.register(own.tool)
        wire = session.tools()[0].wire_name
        assert wire != "my.own"
        assert (await session.call(wire)).success


async def test_a_tool_of_a_session_is_held_to_the_sessions_profile() -> None:
    own = Counted("own")
    host = ToolHost([Counted("other").tool], config=allowing("other"))
    async with host, host.session() as session:
        session.register(own.tool)
        assert [t.name for t in session.tools()] == ["other"]
        assert (await session.call("own")).reason == "not_in_profile"
        assert own.runs == 0


async def test_a_tool_of_a_session_takes_no_name_that_is_taken() -> None:
    async with ToolHost([Counted("taken").tool]) as host, host.session() as session:
        with pytest.raises(NameTaken, match="taken"):
            session.register(Counted("taken").tool)
        session.register(Counted("mine").tool)
        with pytest.raises(NameTaken):
            session.register(Counted("mine").tool)


async def test_a_session_follows_what_the_host_registers_removes_and_replaces() -> None:
    old, new = Counted("shared"), Counted("shared")
    async with ToolHost() as host, host.session() as session:
        assert session.tools() == []
        host.register(old.tool)
        assert (await session.call("shared")).success
        host.register(new.tool, replace=True)
        assert (await session.call("shared")).success
        assert (old.runs, new.runs) == (1, 1)
        assert host.unregister("shared")
        assert session.tools() == []
        assert (await session.call("shared")).reason == "unknown_tool"
        changes = [e.data["change"] for e in await host.trail() if e.type == "catalog.changed"]
        assert changes == ["added", "replaced", "removed"]


async def test_a_running_call_finishes_on_what_it_began_with() -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    @tool(effects={"read"}, name="slow")
    async def slow() -> str:
        entered.set()
        await leave.wait()
        return "old"

    async with ToolHost([slow]) as host, host.session() as session:
        call = asyncio.ensure_future(session.call("slow"))
        await entered.wait()
        host.unregister("slow")
        leave.set()
        assert (await call).output == "old"


@pytest.mark.parametrize("by", ["object", "id"])
async def test_a_closed_session_is_refused(by: str) -> None:
    work = Counted()
    async with ToolHost([work.tool]) as host:
        async with host.session() as session:
            pass
        handle = session if by == "object" else session.id
        result = await host.call("work", session=handle, call_id="c1")
        assert (result.status, result.reason) == ("denied", "unauthenticated")
        assert result.call_id == "c1"
        assert work.runs == 0
        await assert_one_ending(host, "c1")
        with pytest.raises(NotFound):
            session.tools()


async def test_a_session_needs_a_profile_that_exists() -> None:
    host = ToolHost([Counted().tool], config=allowing())
    with pytest.raises(ConfigError, match="nowhere"):
        host.session(profile="nowhere")


async def test_sessions_are_on_the_trail() -> None:
    async with ToolHost() as host:
        async with host.session(principal="ann") as session:
            pass
        told = [
            (e.type, e.data["session"], e.data["principal"])
            for e in await host.trail()
            if e.type.startswith("session.")
        ]
        assert told == [
            ("session.opened", session.id, "ann"),
            ("session.closed", session.id, "ann"),
        ]


class _Held(MemoryStore):
    """Keeps a session only when it is told to; or fails to."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.error = error

    async def put_session(self, session: SessionRow) -> None:
        await self.go.wait()
        if self.error is not None:
            raise self.error
        await super().put_session(session)


async def test_who_connects_does_not_wait_until_the_session_is_kept() -> None:
    store = _Held()
    async with ToolHost([Counted().tool], store=store) as host:
        session = host.session(principal="ann")
        session.passing = True
        await asyncio.wait_for(session.__aenter__(), 5)
        assert (await session.call("work")).status == "ok"
        lasting = asyncio.create_task(host.session(principal="ann").__aenter__())
        closing = asyncio.create_task(session.close())
        await asyncio.sleep(0.05)
        assert not lasting.done()
        assert not closing.done()
        store.go.set()
        await asyncio.wait_for(asyncio.gather(lasting, closing), 5)
        kept = {row.id: row.ended is not None for row in await store.sessions(open_only=False)}
        assert kept == {session.id: True, lasting.result().id: False}


async def test_a_session_that_cannot_be_kept_is_said(caplog: pytest.LogCaptureFixture) -> None:
    store = _Held(StoreError("the disk is full"))
    store.go.set()
    async with ToolHost([Counted().tool], store=store) as host:
        with pytest.raises(StoreError, match="the disk is full"):
            await host.session(principal="ann").__aenter__()
        passing = host.session(principal="ann")
        passing.passing = True
        async with passing:
            await asyncio.sleep(0)
    assert f"the session {passing.id} could not be kept: the disk is full" in caplog.text
