"""Smaller promises of the host, each of which was once broken."""

from __future__ import annotations

import asyncio
import inspect
import time
from pathlib import Path
from typing import Any

import pytest

import toolcrib
import toolcrib.sync
from toolcrib import (
    Decision,
    Extension,
    Principal,
    Profile,
    StoreError,
    ToolContext,
    ToolFailure,
    ToolHost,
    ToolResult,
    ToolSpec,
    tool,
)
from toolcrib.core.entry import Entry, Unavailable
from toolcrib.host.session import Session
from toolcrib.stores.memory import MemoryStore
from toolcrib.testing import ApprovalSimulator, EventRecorder


@tool(effects=["read"])
async def look(n: int = 1) -> int:
    """Look."""
    return n


class Hide:
    """Hides every tool."""

    name = "hide"

    def visible(self, spec: ToolSpec, principal: Principal, profile: Profile | None) -> bool:
        return False

    def check(self, ctx: ToolContext) -> Decision:
        return Decision.abstain()


async def test_a_hidden_tool_that_is_down_is_hidden_to_callers_and_to_explain() -> None:
    async with ToolHost(gates=[Hide()]) as host:
        down = Unavailable("tool_unavailable", "the provider is down", time.time())
        made = host.entry_for(look)
        host.catalog.register(Entry(made.spec, made.execute, owner="test", unavailable=down))
        assert (await host.call("look")).reason == "not_in_profile"
        assert host.explain("look").reason == "not_in_profile"
        assert host.tools() == []


async def test_a_tool_that_is_down_stays_listed_with_the_reason() -> None:
    async with ToolHost() as host:
        down = Unavailable("tool_unavailable", "the provider is down", time.time())
        made = host.entry_for(look)
        host.catalog.register(Entry(made.spec, made.execute, owner="test", unavailable=down))
        (listed,) = host.tools()
        assert (listed.name, listed.unavailable) == ("look", "the provider is down")
        result = await host.call("look")
        assert (result.status, result.reason) == ("error", "tool_unavailable")
        assert result.error is not None
        assert result.error.retryable


async def test_schemas_with_several_types_can_be_called_listed_and_explained() -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": ["string", "null"]}},
        "additionalProperties": False,
    }

    async def greet(name: str | None = None) -> str:
        return f"hello {name}"

    spec = ToolSpec(name="greet", input_schema=schema, config={"function": greet})
    async with ToolHost([spec]) as host:
        assert (await host.call("greet", {"name": None})).output == "hello None"
        assert [listed.name for listed in host.tools()] == ["greet"]
        assert host.explain("greet", {"name": "ann"}).verdict == "allow"


async def test_what_an_approver_changed_is_on_the_trail() -> None:
    @tool(effects=["write"], requires_approval=True)
    async def pay(amount: int) -> int:
        return amount

    config = {
        "profiles": {"p": {"rules": [{"allow": "pay"}], "approval": {"edit": True}}},
    }
    approver = ApprovalSimulator(
        {"pay": toolcrib.ApprovalDecision(answer="allow", arguments={"amount": 2}, by="ann")}
    )
    async with ToolHost([pay], config=config, approver=approver) as host:
        result = await host.call("pay", {"amount": 100})
        assert result.output == 2
        trail = {event.type: event.data for event in await host.trail(call_id=result.call_id)}
    assert trail["call.received"]["arguments"] == {"amount": 100}
    assert trail["call.started"]["arguments"] == {"amount": 2}
    assert trail["call.started"]["arguments_hash"]


async def test_a_host_whose_session_cannot_be_closed_stops_all_the_same() -> None:
    class Stuck(MemoryStore):
        closed = False

        async def end_session(self, id: str, now: float) -> bool:
            raise StoreError("no")

        async def close(self) -> None:
            self.closed = True
            await super().close()

    store = Stuck()
    host = ToolHost([look], store=store)
    await host.start()
    await host.session().__aenter__()
    with pytest.raises(StoreError):
        await host.stop()
    assert store.closed
    await host.stop()
    assert (await host.call("look")).reason == "host_stopping"


async def test_a_factory_may_call_another_tool_of_the_session() -> None:
    @tool(scope="session", effects=["read"])
    class Ruler:
        """Measures."""

        def __init__(self, ctx: ToolContext) -> None:
            self.length = 30

        async def __call__(self) -> int:
            return self.length

    async def build(ctx: ToolContext) -> Any:
        length = (await ctx.call("Ruler")).unwrap()

        async def saw(times: int) -> int:
            return length * times

        return saw

    schema = {"type": "object", "properties": {"times": {"type": "integer"}}}
    spec = ToolSpec(name="saw", input_schema=schema, scope="session", factory=build)  # pyright: ignore[reportArgumentType]
    async with ToolHost([Ruler, spec]) as host, host.session() as session:
        first, second = await asyncio.gather(
            session.call("saw", {"times": 2}, timeout=5),
            session.call("saw", {"times": 3}, timeout=5),
        )
        assert (first.output, second.output) == (60, 90)


async def test_an_instance_that_is_built_while_its_session_ends_is_closed_and_not_used() -> None:
    building, go_on, did = asyncio.Event(), asyncio.Event(), list[str]()

    class Bench:
        async def __call__(self) -> None:
            did.append("ran")

        async def close(self) -> None:
            did.append("closed")

    async def build(ctx: ToolContext) -> Bench:
        building.set()
        await go_on.wait()
        return Bench()

    spec = ToolSpec(name="bench", scope="session", factory=build)  # pyright: ignore[reportArgumentType]
    async with ToolHost([spec]) as host:
        async with host.session() as session:
            call = asyncio.ensure_future(session.call("bench"))
            await building.wait()
        go_on.set()
        assert (await call).reason == "unauthenticated"
    assert did == ["closed"]


@pytest.mark.parametrize("reason", ["approval_rejected", "rate_limited", "audit_unavailable"])
async def test_a_tool_cannot_give_the_hosts_reasons(reason: str) -> None:
    @tool(effects=["read"])
    async def fails() -> int:
        raise ToolFailure("no", reason=reason)

    @tool(effects=["read"])
    async def says(ctx: ToolContext) -> ToolResult:
        return ctx.error("no", reason)

    @tool(effects=["read"])
    async def own(ctx: ToolContext) -> ToolResult:
        return ctx.error("no", "row_not_found")

    async with ToolHost([fails, says, own]) as host:
        for name in ("fails", "says"):
            result = await host.call(name)
            assert (result.status, result.reason) == ("error", "tool_error")
        assert (await host.call("own")).reason == "row_not_found"


async def test_whether_trying_again_helps_is_what_the_table_says() -> None:
    @tool(effects=["write"], idempotent=True, timeout=0.05)
    async def safe() -> None:
        await asyncio.sleep(5)

    @tool(effects=["write"], timeout=0.05)
    async def unsafe() -> None:
        await asyncio.sleep(5)

    async with ToolHost([safe, unsafe]) as host:
        for name, may in (("safe", True), ("unsafe", False)):
            failure = (await host.call(name)).error
            assert failure is not None
            assert (failure.reason, failure.retryable) == ("timeout", may)


async def test_an_extension_that_a_reload_brings_is_around_every_call_after_it(
    tmp_path: Path,
) -> None:
    ran: list[str] = []

    class Around(Extension):
        async def before_execute(self, ctx: ToolContext) -> None:
            ran.append(ctx.tool)

    page = tmp_path / "toolcrib.yaml"
    page.write_text("version: 1\n")
    host = ToolHost([look], config=page)
    host.registrar.extension("around", Around)
    async with host:
        await host.call("look")
        page.write_text("version: 1\nextensions: [around]\n")
        await host.reload()
        await host.call("look")
    assert ran == ["look"]


async def test_a_store_named_by_the_program_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "trail.db"
    config = {"host": {"store": f"sqlite:{file}"}}
    async with ToolHost([look], config=config, store="memory") as host:
        await host.call("look")
    assert not file.exists()
    async with ToolHost([look], config=config) as host:
        await host.call("look")
    assert file.exists()


async def test_a_tool_that_needs_a_secret_or_a_tool_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @tool(effects=["read"], requires_secrets=["BILLING_KEY"], requires_tools=["look"])
    async def bill() -> str:
        return "sent with hunter2hunter2"

    monkeypatch.delenv("BILLING_KEY", raising=False)
    async with ToolHost([bill]) as host:
        result = await host.call("bill")
        assert result.reason == "tool_unavailable"
        assert result.error is not None
        assert result.error.message == (
            "it needs the tool look, the secret BILLING_KEY in the environment"
        )
        monkeypatch.setenv("BILLING_KEY", "hunter2hunter2")
        host.register(look)
        assert (await host.call("bill")).output == "sent with «hidden»"


async def test_events_behind_an_id_that_is_not_on_the_trail_are_an_error() -> None:
    async with ToolHost([look]) as host:
        await host.call("look")
        with pytest.raises(toolcrib.NotFound, match="no event"):
            await anext(host.events(after="nowhere.1.0"))


async def test_events_resume_behind_an_id_and_go_on_live() -> None:
    async with ToolHost([look]) as host:
        first = await host.call("look")
        seen = await host.trail(call_id=first.call_id)
        follow = host.events(after=seen[0].id)
        rest = [await anext(follow) for _ in range(len(seen) - 1)]
        assert [event.id for event in rest] == [event.id for event in seen[1:]]
        recorder = EventRecorder(host)
        second = await host.call("look")
        assert (await anext(follow)).call_id == second.call_id
        assert recorder.types
        await follow.aclose()  # pyright: ignore[reportAttributeAccessIssue]


INTERNAL = frozenset(
    {
        "announce", "announce_fact", "apply", "artifacts", "bus", "callers", "catalog", "clock",
        "configured", "entries", "entry_for", "load", "metrics", "nested", "planner", "redactor",
        "registrar", "replan", "session_changed", "settings",
    }
)  # fmt: skip


def _names(thing: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(thing) if not name.startswith("_")}


def test_the_host_without_asyncio_has_the_same_names() -> None:
    assert _names(ToolHost) - INTERNAL <= _names(toolcrib.sync.ToolHost)
    own = {"cwd", "entries", "entry", "expires", "facts", "instance", "over", "row", "touch"}
    assert _names(Session) - own <= _names(toolcrib.sync.Session)
