"""What a client is told without asking."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rpc_peer import caller_of, connected, serving
from toolcrib import ToolContext, ToolHost, tool
from toolcrib.testing import ApprovalSimulator, make_host
from toolcrib.transports.outgoing import MUCH


@tool(effects=["read"])
async def steps(ctx: ToolContext) -> int:
    """Tell."""
    ctx.progress(0.5, "half")
    return 1


@tool(effects=["read"])
def steps_in_a_thread(ctx: ToolContext) -> int:
    """Tell from a thread."""
    ctx.progress(0.25, "a quarter")
    return 1


@tool(effects=["write"])
async def act(n: int = 0) -> int:
    """Act."""
    return n


def asking_host(approver: Any = None, **more: Any) -> ToolHost:
    return make_host(
        [act],
        profile={"rules": [{"ask": "act"}], **more},
        approver=approver or ApprovalSimulator(default="escalate"),
    )


@pytest.mark.parametrize("name", ["steps", "steps_in_a_thread"])
async def test_progress_comes_before_the_answer(name: str) -> None:
    async with serving(ToolHost([steps, steps_in_a_thread])) as service, connected(service) as peer:
        asked = await peer.begin("tools.call", {"name": name})
        result = (await peer.answer(asked))["result"]
        (told,) = peer.all("call.progress")
        assert told["call_id"] == result["call_id"]
        assert told["id"] == asked
        assert told["fraction"] in (0.5, 0.25)
        assert told["message"] in ("half", "a quarter")
        assert [m.get("method") for m in peer.came] == ["call.progress", None]


async def test_progress_goes_to_nobody_else() -> None:
    async with (
        serving(ToolHost([steps])) as service,
        connected(service, caller_of("ann")) as peer,
        connected(service, caller_of("ann")) as other,
    ):
        await peer.call("steps")
        await other.request("host.health")
        assert other.told == []


async def test_progress_is_left_out_for_a_client_that_does_not_read() -> None:
    async with serving(ToolHost([steps])) as service, connected(service) as peer:
        peer.out.waiting = MUCH
        await peer.call("steps")
        assert peer.told == []


async def test_a_question_is_told_and_can_be_answered_on_the_connection() -> None:
    async with serving(asking_host()) as service, connected(service, caller_of("ann")) as peer:
        asked = await peer.begin("tools.call", {"name": "act", "arguments": {"n": 5}})
        told = (await peer.notification("approval.requested"))["approval"]
        assert (told["tool"], told["arguments"], told["state"]) == ("act", {"n": 5}, "pending")
        assert asked not in peer.answers
        decided = await peer.request(
            "approvals.decide", {"id": told["id"], "allow": True, "note": "fine"}
        )
        assert decided["state"] == "allowed"
        assert (await peer.answer(asked))["result"]["output"] == 5
        (answer,) = peer.all("approval.decided")
        assert (answer["approval"]["state"], answer["approval"]["note"]) == ("allowed", "fine")
        assert answer["approval"]["by"] == "ann"
        order = [m.get("method", m.get("id")) for m in peer.came]
        assert order.index("approval.requested") < order.index("approval.decided")
        assert order.index("approval.decided") < order.index(asked)


async def test_changed_arguments_are_told() -> None:
    host = asking_host(approval={"edit": True})
    async with serving(host) as service, connected(service) as peer:
        asked = await peer.begin("tools.call", {"name": "act", "arguments": {"n": 5}})
        told = (await peer.notification("approval.requested"))["approval"]
        answer = {"id": told["id"], "allow": True, "arguments": {"n": 6}}
        await peer.request("approvals.decide", answer)
        assert (await peer.answer(asked))["result"]["output"] == 6
        decided = (await peer.notification("approval.decided"))["approval"]
        assert decided["edited"] == {"n": 6}
        assert decided["state"] == "allowed"


@pytest.mark.parametrize("pause", [0, 0.05])
async def test_an_answer_that_comes_at_once_is_told_after_its_question(
    pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = asking_host(ApprovalSimulator(default="allow"))
    get = host.approvals.get

    async def slowly(id: str) -> Any:
        await asyncio.sleep(pause)
        return await get(id)

    monkeypatch.setattr(host.approvals, "get", slowly)
    async with serving(host) as service, connected(service) as peer:
        assert (await peer.call("act", {"n": 5}))["output"] == 5
        decided = (await peer.notification("approval.decided"))["approval"]
        (asked,) = peer.all("approval.requested")
        assert asked["approval"]["id"] == decided["id"]
        assert (asked["approval"]["state"], decided["state"]) == ("pending", "allowed")
        names = [name for name, _ in peer.told]
        assert names == ["approval.requested", "approval.decided"]


async def test_questions_of_others_are_not_told() -> None:
    async with (
        serving(asking_host()) as service,
        connected(service, caller_of("ann")) as peer,
        connected(service, caller_of("bob", "all")) as other,
    ):
        await peer.begin("tools.call", {"name": "act"})
        await peer.notification("approval.requested")
        await other.request("host.health")
        assert other.told == []


async def test_changes_of_the_tools_are_told_once() -> None:
    async with serving(ToolHost([steps])) as service, connected(service) as peer:
        for n in range(20):
            service.host.register(tool(name=f"t{n}")(_made(n)))
        await peer.notification("tools.changed")
        await asyncio.sleep(0.1)
        assert peer.told == [("tools.changed", {})]
        service.host.unregister("t1")
        await peer.notification("tools.changed", 2)


def _made(n: int) -> Any:
    async def made() -> int:
        """One of many."""
        return n

    return made


async def test_a_sessions_own_tools_are_its_own_business() -> None:
    async with (
        serving(ToolHost([steps])) as service,
        connected(service) as peer,
        connected(service) as other,
    ):
        await peer.request("tools.register", {"tools": [{"name": "mine"}]})
        await peer.notification("tools.changed")
        await asyncio.sleep(0.1)
        assert other.told == []


async def test_a_revoked_caller_is_told_nothing_more() -> None:
    caller = caller_of("ann")
    async with serving(ToolHost([steps])) as service, connected(service, caller) as peer:
        caller.badge.revoked = True
        peer.connection.notify("tools.changed", {})
        error = await peer.refused("host.health")
        assert error["data"]["error"]["reason"] == "unauthenticated"
        assert peer.told == []


async def test_events_are_told_to_those_who_ask() -> None:
    async with serving(ToolHost([steps])) as service, connected(service) as peer:
        asked = await peer.begin("events.subscribe", {"types": ["call.finished"]})
        name = (await peer.answer(asked))["result"]["subscription"]
        result = await peer.call("steps")
        told = await peer.notification("event")
        assert told["subscription"] == name
        assert (told["event"]["type"], told["event"]["call_id"]) == (
            "call.finished",
            result["call_id"],
        )
        assert await peer.request("events.unsubscribe", {"subscription": name}) == {"closed": True}
        await peer.call("steps")
        assert len(peer.all("event")) == 1


async def test_events_go_on_where_they_were_left() -> None:
    async with serving(ToolHost([steps])) as service:
        async with connected(service) as peer:
            await peer.request("events.subscribe", {"types": ["call.finished"]})
            await peer.call("steps")
            resume = (await peer.notification("event"))["resume"]
            second = await peer.call("steps")
        async with connected(service) as peer:
            await peer.request("events.subscribe", {"types": ["call.finished"], "after": resume})
            told = await peer.notification("event")
            assert told["event"]["call_id"] == second["call_id"]


async def test_who_is_cut_off_before_the_first_event_goes_on_from_where_it_began() -> None:
    async with serving(ToolHost([steps])) as service:
        async with connected(service) as peer:
            await peer.call("steps")
            said = await peer.request("events.subscribe", {"types": ["call.finished"]})
        async with connected(service) as peer:
            second = await peer.call("steps")
            asked = {"types": ["call.finished"], "after": said["after"]}
            again = await peer.request("events.subscribe", asked)
            assert again["after"] == said["after"]
            told = await peer.notification("event")
            assert told["event"]["call_id"] == second["call_id"]
            of_one = await peer.request("events.subscribe", {"call_id": second["call_id"]})
            assert of_one["after"] is None


async def test_an_unknown_place_to_go_on_from_is_refused() -> None:
    async with serving(ToolHost([steps])) as service, connected(service) as peer:
        error = await peer.refused("events.subscribe", {"after": "zz.1.0"})
        assert error["data"]["error"]["reason"] == "not_found"


async def test_the_events_of_one_call_end_with_it() -> None:
    async with serving(ToolHost([steps])) as service, connected(service) as peer:
        result = await peer.call("steps")
        await peer.request("events.subscribe", {"call_id": result["call_id"]})
        ended = await peer.notification("event.dropped")
        assert ended["reason"] == "ended"
        assert {told["event"]["call_id"] for told in peer.all("event")} == {result["call_id"]}


async def test_subscriptions_are_limited() -> None:
    async with serving(ToolHost([steps])) as service, connected(service) as peer:
        for _ in range(32):
            await peer.request("events.subscribe", {})
        error = await peer.refused("events.subscribe", {})
        assert error["data"]["error"]["reason"] == "too_many_viewers"


async def test_a_host_that_stops_ends_subscriptions() -> None:
    async with serving(ToolHost([steps])) as service, connected(service) as peer:
        await peer.request("events.subscribe", {"types": ["call.finished"]})
        await service.hub.stop()
        assert (await peer.notification("event.dropped"))["reason"] == "host_stopping"
