"""The one service behind every door, asked directly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from toolcrib import Principal, ToolContext, ToolHost, tool
from toolcrib.core.events import Event
from toolcrib.core.result import ToolResult
from toolcrib.core.serving import ServeSettings, SessionSettings
from toolcrib.transports.caller import Caller
from toolcrib.transports.calls import keyed_id
from toolcrib.transports.faults import Fault
from toolcrib.transports.methods import HANDLERS
from toolcrib.transports.models import CallState
from toolcrib.transports.service import Service
from toolcrib.transports.wire import METHODS

CONFIG: dict[str, Any] = {
    "version": 1,
    "host": {"profile": "plain"},
    "profiles": {
        "plain": {
            "default": "deny",
            "rules": [{"allow": ["add", "slow", "count"]}, {"ask": "deploy"}],
            "approval": {"timeout": "30s", "via": ["cli", "client"]},
        },
        "wide": {"default": "allow"},
    },
    "principals": {"ann": {"profiles": ["plain", "wide"]}, "bob": {"profiles": ["plain"]}},
}
RIGHTS = ("toolcrib.approve", "toolcrib.audit", "toolcrib.admin")

runs: list[str] = []


@tool(effects=["read"])
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effects=["read"])
async def slow(seconds: float = 5.0) -> str:
    """Sleep."""
    await asyncio.sleep(seconds)
    return "slept"


@tool(effects=["write"])
async def deploy(env: str) -> str:
    """Put a version in place."""
    runs.append(env)
    return f"deployed to {env}"


@tool(effects=["write"])
async def count(ctx: ToolContext, word: str) -> int:
    """Count words, and remember that it ran."""
    runs.append(word)
    return len(word)


@tool(effects=["read"])
def hidden_one() -> int:
    """Outside the plain profile."""
    return 1


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    runs.clear()
    host = ToolHost([add, slow, deploy, count, hidden_one], config=CONFIG)
    made = Service(host, ServeSettings(sessions=SessionSettings(per_principal=3)))
    await made.start()
    yield made
    await made.stop()


def caller(name: str = "ann", *rights: str, **given: Any) -> Caller:
    who = Principal(name, permissions=rights)
    options: dict[str, Any] = {"door": "http", "profile": "plain", "profiles": ()}
    return Caller(who, **{**options, **given})


async def refused(service: Service, who: Caller, method: str, params: Any = None) -> Fault:
    with pytest.raises(Fault) as caught:
        await service.handle(who, method, params)
    return caught.value


def test_every_method_has_a_handler_or_belongs_to_connections() -> None:
    connected = {row.name for row in METHODS.values() if row.http is None}
    assert set(HANDLERS) == set(METHODS) - connected
    assert len({row.http for row in METHODS.values() if row.http}) == len(METHODS) - len(connected)


async def test_a_call_is_the_same_as_in_process(service: Service) -> None:
    got = await service.handle(
        caller(), "tools.call", {"name": "add", "arguments": {"a": 1, "b": 2}}
    )
    here = await service.host.call("add", {"a": 1, "b": 2}, principal="ann", profile="plain")
    assert msgspec.structs.replace(got, call_id="") == msgspec.structs.replace(here, call_id="")
    trail = await service.host.trail(call_id=got.call_id)
    assert trail[0].data["door"] == "http"
    assert trail[0].data["principal"] == "ann"


async def test_the_shortcut_holds_to_a_changed_configuration(service: Service) -> None:
    who = caller("bob")
    assert (await service.place(who, "add", {"a": 1, "b": 2})).status == "ok"
    changed = {**CONFIG, "principals": {"bob": {"profiles": ["wide"]}}}
    service.host._config_source = changed  # pyright: ignore[reportPrivateUsage]
    await service.host.reload()
    result = await service.place(who, "add", {"a": 1, "b": 2})
    assert result.reason == "not_in_profile"


async def test_a_profile_that_is_not_the_callers_is_refused_and_on_the_trail(
    service: Service,
) -> None:
    got = await service.handle(caller(), "tools.call", {"name": "add", "profile": "wide"})
    assert (got.status, got.reason) == ("denied", "not_in_profile")
    assert (await service.host.trail(call_id=got.call_id))[-1].type == "call.denied"
    for method, params in (
        ("tools.list", {"profile": "wide"}),
        ("tools.get", {"name": "add", "profile": "wide"}),
        ("explain", {"name": "add", "profile": "wide"}),
        ("sessions.open", {"profile": "wide"}),
    ):
        assert (await refused(service, caller(), method, params)).reason == "not_permitted"
    free = caller(profiles=("wide",))
    page = await service.handle(free, "tools.list", {"profile": "wide"})
    assert "hidden_one" in [tool.name for tool in page.tools]


async def test_listing_pages_and_filters(service: Service) -> None:
    first = await service.handle(caller(), "tools.list", {"limit": 2})
    assert [tool.name for tool in first.tools] == ["add", "count"]
    assert first.total == 4
    assert first.next == "count"
    rest = await service.handle(caller(), "tools.list", {"limit": 2, "cursor": first.next})
    assert [tool.name for tool in rest.tools] == ["deploy", "slow"]
    assert rest.next is None
    only = await service.handle(caller(), "tools.list", {"prefix": "de"})
    assert [tool.name for tool in only.tools] == ["deploy"]
    assert "config" not in msgspec.to_builtins(only.tools[0])
    wrong = await refused(service, caller(), "tools.list", {"limit": 0})
    assert wrong.reason == "invalid_request"


async def test_search_finds_only_what_may_be_called(service: Service) -> None:
    found = await service.handle(caller(), "tools.search", {"query": "add numbers"})
    assert [hit.tool.name for hit in found.tools] == ["add"]
    none = await service.handle(caller(), "tools.search", {"query": "outside profile hidden"})
    assert none.tools == []


async def test_unknown_members_and_methods_are_faults(service: Service) -> None:
    assert (await refused(service, caller(), "tools.cal")).code == -32601
    wrong = await refused(service, caller(), "tools.call", {"name": "add", "argumens": {}})
    assert wrong.code == -32602
    assert "argumens" in wrong.message
    assert (await refused(service, caller(), "tools.call", [1])).reason == "invalid_request"
    assert runs == []


async def test_what_needs_a_right_needs_it(service: Service) -> None:
    needing = [row for row in METHODS.values() if row.right is not None]
    assert len(needing) >= 8
    for row in needing:
        params = {"name": "x"} if "{name}" in (row.http or ("", ""))[1] else None
        if row.name == "providers.decide":
            params = {"name": "x", "tools": {}, "accept": True}
        assert (await refused(service, caller(), row.name, params)).reason == "not_permitted"
    assert (await refused(service, caller(), "tools.list", {"as": "bob"})).reason == "not_permitted"
    said = await service.handle(caller("eve", *RIGHTS), "explain", {"name": "add", "as": "bob"})
    assert said.principal == "bob"


async def test_calls_belong_to_who_made_them(service: Service) -> None:
    made = await service.place(caller("ann"), "add", {"a": 1, "b": 2})
    for method in ("calls.get", "calls.trail", "calls.cancel"):
        other = await refused(service, caller("bob"), method, {"id": made.call_id})
        assert other.reason == "not_found"
        never = await refused(service, caller("bob"), method, {"id": "c-none"})
        assert other.message.replace(made.call_id, "") == never.message.replace("c-none", "")
    mine = await service.handle(caller("ann"), "calls.get", {"id": made.call_id})
    assert mine.status == "ok"
    assert mine.output == 3
    seen = await service.handle(caller("bob"), "calls.list")
    assert seen.calls == []
    assert (await refused(service, caller("bob"), "calls.list", {"principal": "ann"})).http == 403
    auditor = await service.handle(caller("eve", "toolcrib.audit"), "calls.list")
    assert [call.id for call in auditor.calls] == [made.call_id]


async def test_a_call_that_takes_long_is_asked_about_later(service: Service) -> None:
    who = caller()
    state = await service.handle(
        who, "tools.call", {"name": "slow", "arguments": {"seconds": 0.3}, "wait": 0.01}
    )
    assert isinstance(state, CallState)
    assert state.state == "running"
    assert state.tool == "slow"
    again = await service.handle(who, "calls.get", {"id": state.call_id})
    assert isinstance(again, CallState)
    ended = await service.handle(who, "calls.get", {"id": state.call_id, "wait": 5})
    assert isinstance(ended, ToolResult)
    assert ended.output == "slept"


async def test_cancelling_stops_the_attempt(service: Service) -> None:
    who = caller()
    state = await service.handle(who, "tools.call", {"name": "slow", "wait": 0.01})
    assert (
        await refused(service, caller("bob"), "calls.cancel", {"id": state.call_id})
    ).http == 404
    done = await service.handle(who, "calls.cancel", {"id": state.call_id})
    assert done.cancelled
    ended = await service.handle(who, "calls.get", {"id": state.call_id, "wait": 5})
    assert ended.reason == "cancelled"
    assert not (await service.handle(who, "calls.cancel", {"id": state.call_id})).cancelled


async def waiting(service: Service, who: Caller) -> tuple[CallState, Any]:
    state = await service.handle(
        who, "tools.call", {"name": "deploy", "arguments": {"env": "prod"}, "wait": 0.05}
    )
    assert isinstance(state, CallState)
    assert state.state == "awaiting_approval"
    assert state.approval is not None
    return state, state.approval


async def test_an_approver_answers_for_others_and_nobody_else(service: Service) -> None:
    who = caller("ann")
    state, approval = await waiting(service, who)
    answer = {"id": approval, "allow": True}
    assert (await refused(service, caller("bob"), "approvals.decide", answer)).http == 404
    assert (await refused(service, who, "approvals.decide", answer)).reason == "not_permitted"
    assert (await service.handle(caller("bob"), "approvals.list")).approvals == []
    assert runs == []
    boss = caller("boss", "toolcrib.approve")
    wrong = await refused(service, boss, "approvals.decide", {**answer, "reach": "forever"})
    assert wrong.reason == "answer_refused"
    decided = await service.handle(boss, "approvals.decide", {**answer, "note": "fine"})
    assert (decided.state, decided.by) == ("allowed", "boss")
    ended = await service.handle(who, "calls.get", {"id": state.call_id, "wait": 5})
    assert ended.output == "deployed to prod"
    assert runs == ["prod"]
    late = await refused(service, boss, "approvals.decide", answer)
    assert late.reason == "answer_refused"


async def test_an_equal_call_knows_which_question_it_waits_for(service: Service) -> None:
    heard: list[tuple[str | None, str]] = []
    stop = service.host.bus.on_fact(lambda event: heard.append((event.call_id, event.type)))
    first, approval = await waiting(service, caller())
    second, same = await waiting(service, caller())
    stop()
    assert approval == same
    asked = [call for call, type_ in heard if type_ == "approval.requested"]
    assert asked == [first.call_id, second.call_id], "each call's follower is told"
    told = [e for e in await service.host.trail() if e.type == "approval.requested"]
    assert len(told) == 1, "people are asked once"


async def test_a_local_client_answers_its_own_request(service: Service) -> None:
    who = caller("ann", local=True)
    state, approval = await waiting(service, who)
    await service.handle(who, "approvals.decide", {"id": approval, "allow": False, "note": "no"})
    ended = await service.handle(who, "calls.get", {"id": state.call_id, "wait": 5})
    assert ended.reason == "approval_rejected"
    assert "no" in ended.error.message


async def test_one_key_runs_once(service: Service) -> None:
    who = caller()
    params = {"name": "count", "arguments": {"word": "once"}, "key": "k1"}
    results = await asyncio.gather(*(service.handle(who, "tools.call", params) for _ in range(20)))
    assert runs == ["once"]
    assert {result.call_id for result in results} == {results[0].call_id}
    assert all(result == results[0] for result in results)
    other = {**params, "arguments": {"word": "twice"}}
    assert (await refused(service, who, "tools.call", other)).reason == "key_reused"
    assert (await service.handle(caller("bob"), "tools.call", params)).output == 4
    assert runs == ["once", "once"], "another principal's key is another key"


async def test_one_key_runs_once_across_a_restart(tmp_path: Any) -> None:
    runs.clear()
    params = {"name": "count", "arguments": {"word": "kept"}, "key": "k1"}
    results: list[ToolResult] = []
    for _ in range(2):
        host = ToolHost([count], config=CONFIG | {"profiles": {"plain": {"default": "allow"}},
            "principals": {}}, store=f"sqlite:{tmp_path / 'trail.db'}")  # fmt: skip
        service = Service(host)
        await service.start()
        results.append(await service.handle(caller(), "tools.call", params))
        await service.stop()
    assert runs == ["kept"]
    assert results[0] == results[1]


async def test_sessions_name_and_never_authorise(service: Service) -> None:
    ann, bob = caller("ann"), caller("bob")
    opened = await service.handle(ann, "sessions.open", {"metadata": {"why": "test"}})
    assert opened.expires is not None
    for method in ("sessions.get", "sessions.close"):
        assert (await refused(service, bob, method, {"id": opened.id})).reason == "not_found"
    stolen = await service.handle(
        bob, "tools.call", {"name": "add", "arguments": {"a": 1, "b": 2}, "session": opened.id}
    )
    assert stolen.reason == "unauthenticated"
    never = await service.handle(
        bob, "tools.call", {"name": "add", "arguments": {"a": 1, "b": 2}, "session": "s0"}
    )
    assert stolen.error.message.replace(opened.id, "s0") == never.error.message
    used = await service.handle(
        ann, "tools.call", {"name": "add", "arguments": {"a": 1, "b": 2}, "session": opened.id}
    )
    assert used.output == 3
    for _ in range(2):
        await service.handle(ann, "sessions.open")
    full = await refused(service, ann, "sessions.open")
    assert full.reason == "too_many_sessions"
    assert (await service.handle(bob, "sessions.open")).principal == "bob"
    assert (await service.handle(ann, "sessions.close", {"id": opened.id})).closed
    assert len((await service.handle(ann, "sessions.list")).sessions) == 2


@pytest.mark.parametrize("cwd", ["/", "..", "../..", "/etc", "no-such-folder"])
async def test_a_session_cannot_leave_the_hosts_folder(service: Service, cwd: str) -> None:
    assert (await refused(service, caller(), "sessions.open", {"cwd": cwd})).http == 422


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


async def test_sessions_expire_idle_and_in_any_case() -> None:
    clock = Clock()
    host = ToolHost([add], clock=clock)
    service = Service(host, ServeSettings(sessions=SessionSettings(idle=100, absolute=250)))
    await service.start()
    who = caller(profile=None)

    async def used(id: str) -> str | None:
        params = {"name": "add", "arguments": {"a": 1, "b": 2}, "session": id}
        return (await service.handle(who, "tools.call", params)).reason

    first = (await service.handle(who, "sessions.open")).id
    second = (await service.handle(who, "sessions.open")).id
    clock.now += 90
    assert await used(first) is None
    clock.now += 90
    assert await used(first) is None
    assert await used(second) == "unauthenticated", "it was idle for too long"
    clock.now += 90
    assert await used(first) == "unauthenticated", "its whole time is over"
    assert (await refused(service, who, "sessions.get", {"id": first})).reason == "not_found"
    await service.stop()


async def test_nobody_else_keeps_a_session_open() -> None:
    clock = Clock()
    service = Service(
        ToolHost([add], clock=clock), ServeSettings(sessions=SessionSettings(idle=100))
    )
    await service.start()
    opened = (await service.handle(caller("ann", profile=None), "sessions.open")).id
    call = {"name": "add", "arguments": {"a": 1, "b": 2}, "session": opened}
    clock.now += 90
    stolen = await service.handle(caller("bob", profile=None), "tools.call", call)
    assert stolen.reason == "unauthenticated"
    clock.now += 90
    late = await service.handle(caller("ann", profile=None), "tools.call", call)
    assert late.reason == "unauthenticated"
    await service.stop()


async def test_a_session_that_nobody_asks_for_ends_by_itself() -> None:
    clock = Clock()
    host = ToolHost([add], clock=clock)
    # How often it is looked for follows from the shorter of the two, in real seconds.
    service = Service(host, ServeSettings(sessions=SessionSettings(idle=0.02, absolute=250)))
    await service.start()
    opened = (await service.handle(caller(profile=None), "sessions.open")).id
    closed = asyncio.Event()

    def hear(event: Event) -> None:
        if (event.type, event.data.get("session")) == ("session.closed", opened):
            closed.set()

    host.on_event(hear)
    clock.now += 1
    await asyncio.wait_for(closed.wait(), 10)
    assert opened not in host.callers.sessions
    await service.stop()


async def test_info_says_who_one_is(service: Service) -> None:
    info = await service.handle(caller("ann", profiles=("plain",)), "host.info")
    assert (info.principal, info.profile, info.profiles) == ("ann", "plain", ["plain"])
    assert "host.reload" not in info.methods
    assert "tools.register" not in info.methods
    assert info.wire == "1"
    assert info.tools == 4
    boss = await service.handle(caller("boss", *RIGHTS, door="websocket"), "host.info")
    assert "host.reload" in boss.methods
    assert "tools.register" in boss.methods


async def test_a_wrong_configuration_changes_nothing(service: Service) -> None:
    broken = {**CONFIG, "profiles": {"plain": {"defaut": "allow"}}}
    service.host._config_source = broken  # pyright: ignore[reportPrivateUsage]
    admin = caller("boss", *RIGHTS)
    wrong = await refused(service, admin, "host.reload")
    assert wrong.reason == "config_rejected"
    assert "defaut" in wrong.message
    assert (await service.place(caller(), "add", {"a": 1, "b": 2})).status == "ok"
    service.host._config_source = CONFIG  # pyright: ignore[reportPrivateUsage]
    assert (await service.handle(admin, "host.reload")).tools >= 0


async def test_after_the_stop_nothing_runs(service: Service) -> None:
    await service.stop()
    assert service.health().status == "stopping"
    result = await service.place(caller(), "count", {"word": "late"})
    assert result.reason == "host_stopping"
    assert runs == []


async def test_changed_limits_hold_for_the_next_session(service: Service) -> None:
    service.renew(ServeSettings(sessions=SessionSettings(per_principal=1)))
    await service.handle(caller(), "sessions.open")
    assert (await refused(service, caller(), "sessions.open")).reason == "too_many_sessions"


async def test_a_key_whose_call_was_lost_is_not_run_again(tmp_path: Any) -> None:
    """The host was killed between the entry of the key and the first record of the call."""
    runs.clear()
    params = {"name": "count", "arguments": {"word": "lost"}, "key": "k1"}
    host = ToolHost([count], store=f"sqlite:{tmp_path / 'trail.db'}")
    service = Service(host)
    await service.start()
    who = caller(profile=None)
    asked = msgspec.convert(params, METHODS["tools.call"].request)
    lost = service.calls._first(who, asked, keyed_id(who, "k1"))  # pyright: ignore[reportPrivateUsage, reportArgumentType]
    assert await lost is None
    result = await service.handle(who, "tools.call", params)
    assert (result.status, result.reason) == ("error", "outcome_unknown")
    assert runs == []
    await service.stop()


async def test_who_leaves_does_not_end_a_call_that_others_wait_for(service: Service) -> None:
    calls = service.calls
    ending: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
    waits = asyncio.ensure_future(calls._wait(ending, "c-nowhere", 0.0))  # pyright: ignore[reportPrivateUsage]
    await asyncio.sleep(0.01)
    waits.cancel()
    await asyncio.gather(waits, return_exceptions=True)
    assert not ending.cancelled()
