"""Tools that run in a connected client."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from executing import until
from rpc_peer import Peer, caller_of, connected, serving
from toolcrib import ToolContext, ToolHost, tool
from toolcrib.testing import ApprovalSimulator, EventRecorder, make_host
from toolcrib.transports import client_tools

GREET = {
    "name": "greet",
    "description": "Greet somebody.",
    "input_schema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "loud": {"type": "boolean", "default": False}},
        "required": ["name"],
        "additionalProperties": False,
    },
    "effects": ["read"],
}


async def greet(params: dict[str, Any]) -> dict[str, Any]:
    given = params["arguments"]
    text = f"hello {given['name']}"
    return {"output": text.upper() if given["loud"] else text}


async def never(params: dict[str, Any]) -> Any:
    await asyncio.sleep(60)


async def offer(peer: Peer, handler: Any = greet, **changes: Any) -> None:
    described = GREET | changes
    peer.tools[described["name"]] = handler
    names = (await peer.request("tools.register", {"tools": [described]}))["names"]
    assert names == [described["name"]]


@tool(effects=["read"])
async def ask_client(name: str, ctx: ToolContext) -> Any:
    """Call the client's tool from a tool of the host."""
    return (await ctx.call("greet", {"name": name})).unwrap()


async def test_a_client_offers_a_tool_and_calls_it() -> None:
    async with serving(ToolHost()) as service, connected(service) as peer:
        await offer(peer)
        (listed,) = (await peer.request("tools.list"))["tools"]
        assert (listed["name"], listed["kind"]) == ("greet", "client")
        result = await peer.call("greet", {"name": "ann"})
        assert (result["status"], result["output"]) == ("ok", "hello ann")
        (asked,) = peer.asked
        assert asked["method"] == "client.call"
        assert asked["params"]["call_id"] == result["call_id"]
        assert asked["params"]["arguments"] == {"name": "ann", "loud": False}
        assert asked["params"]["timeout"] > 0


async def test_the_whole_path_of_a_call_applies() -> None:
    async with serving(ToolHost()) as service, connected(service) as peer:
        recorder = EventRecorder(service.host)
        await offer(peer)
        wrong = await peer.call("greet", {"nome": "ann"})
        assert wrong["error"]["reason"] == "invalid_arguments"
        assert peer.asked == []
        await peer.call("greet", {"name": "ann"})
        assert recorder.only("call.finished")[-1].data["status"] == "ok"


async def test_a_tool_of_the_host_may_call_it_in_the_same_session() -> None:
    async with serving(ToolHost([ask_client])) as service, connected(service) as peer:
        await offer(peer)
        assert (await peer.call("ask_client", {"name": "bob"}))["output"] == "hello bob"


async def test_rules_hold_for_it() -> None:
    host = make_host([], profile={"rules": [{"allow": "greet*"}]})
    async with serving(host) as service, connected(service) as peer:
        await offer(peer)
        await offer(peer, name="secret")
        listed = (await peer.request("tools.list"))["tools"]
        assert [each["name"] for each in listed] == ["greet"]
        refused = await peer.call("secret", {"name": "a"})
        assert (refused["status"], refused["error"]["reason"]) == ("denied", "not_in_profile")
        assert peer.asked == []


async def test_a_person_is_asked_about_it() -> None:
    host = make_host(
        [],
        profile={"rules": [{"allow": "greet*"}]},
        approver=ApprovalSimulator(default="escalate"),
    )
    async with serving(host) as service, connected(service) as peer:
        await offer(peer, requires_approval=True)
        asked = await peer.begin("tools.call", {"name": "greet", "arguments": {"name": "a"}})
        told = (await peer.notification("approval.requested"))["approval"]
        assert peer.asked == []
        await peer.request("approvals.decide", {"id": told["id"], "allow": True})
        assert (await peer.answer(asked))["result"]["output"] == "hello a"


async def test_its_own_words_when_it_fails() -> None:
    async def fail(params: dict[str, Any]) -> Any:
        return {"error": "no such person", "reason": "person_unknown"}

    async def lie(params: dict[str, Any]) -> Any:
        return {"error": "denied!", "reason": "denied_by_rule"}

    async with serving(ToolHost()) as service, connected(service) as peer:
        await offer(peer, fail)
        result = await peer.call("greet", {"name": "ann"})
        assert result["status"] == "error"
        assert result["error"]["reason"] == "person_unknown"
        assert result["error"]["message"] == "no such person"
        peer.tools["greet"] = lie  # a reason that is the host's to give
        assert (await peer.call("greet", {"name": "ann"}))["error"]["reason"] == "tool_error"


async def test_an_error_answer_is_a_failure() -> None:
    async with serving(ToolHost()) as service, connected(service) as peer:
        await peer.request("tools.register", {"tools": [GREET]})
        call = await peer.begin("tools.call", {"name": "greet", "arguments": {"name": "a"}})
        await peer.until(lambda: peer.asked)
        error = {"code": -32601, "message": "no such method here"}
        await peer.send({"jsonrpc": "2.0", "id": peer.asked[0]["id"], "error": error})
        result = (await peer.answer(call))["result"]
        assert (result["error"]["reason"], result["error"]["message"]) == (
            "tool_error",
            "no such method here",
        )


@pytest.mark.parametrize("said", [5, None, {"out": 1}, {"error": 5}, {"content": "text"}], ids=repr)
async def test_an_answer_that_is_none(said: Any) -> None:
    async def odd(params: dict[str, Any]) -> Any:
        return said

    async with serving(ToolHost()) as service, connected(service) as peer:
        await offer(peer, odd)
        assert (await peer.call("greet", {"name": "a"}))["error"]["reason"] == "invalid_output"


async def test_its_output_is_held_to_its_schema() -> None:
    async with serving(ToolHost()) as service, connected(service) as peer:
        await offer(peer, output_schema={"type": "integer"})
        assert (await peer.call("greet", {"name": "a"}))["error"]["reason"] == "invalid_output"


async def test_content_is_passed_on() -> None:
    async def shown(params: dict[str, Any]) -> Any:
        return {"output": 1, "content": [{"type": "text", "text": "one"}]}

    async with serving(ToolHost()) as service, connected(service) as peer:
        await offer(peer, shown)
        result = await peer.call("greet", {"name": "a"})
        assert result["content"] == [{"type": "text", "text": "one"}]


async def test_a_timeout_is_told_to_the_client() -> None:
    async with serving(ToolHost()) as service, connected(service) as peer:
        await offer(peer, never, timeout=0.05)
        result = await peer.call("greet", {"name": "a"})
        assert result["error"]["reason"] == "timeout"
        assert result["error"]["still_running"] is True
        told = await peer.notification("client.cancel")
        assert told == {"call_id": result["call_id"]}


async def test_a_cancel_is_told_to_the_client() -> None:
    async with serving(ToolHost()) as service, connected(service) as peer:
        await offer(peer, never)
        call = await peer.begin("tools.call", {"name": "greet", "arguments": {"name": "a"}})
        await peer.until(lambda: peer.asked)
        await peer.notify("calls.cancel", {"request": call})
        assert (await peer.answer(call))["result"]["error"]["reason"] == "cancelled"
        assert await peer.notification("client.cancel")


async def test_progress_of_a_client_is_progress_of_the_call() -> None:
    async with (
        serving(ToolHost()) as service,
        connected(service) as peer,
        connected(service) as other,
    ):
        await offer(peer, never)
        call = await peer.begin("tools.call", {"name": "greet", "arguments": {"name": "a"}})
        await peer.until(lambda: peer.asked)
        found = peer.asked[0]["params"]["call_id"]
        await other.notify("client.progress", {"call_id": found, "fraction": 0.9})
        await peer.notify("client.progress", {"call_id": found, "fraction": "much"})
        await peer.notify("client.progress", {"call_id": "c0", "fraction": 0.1})
        await peer.notify("client.progress", {"call_id": found, "fraction": 0.5, "message": "half"})
        told = await peer.notification("call.progress")
        assert told == {"call_id": found, "id": call, "fraction": 0.5, "message": "half"}
        assert len(peer.all("call.progress")) == 1


async def test_nobody_else_can_answer() -> None:
    async with (
        serving(ToolHost()) as service,
        connected(service) as peer,
        connected(service) as other,
    ):
        await offer(peer, never)
        call = await peer.begin("tools.call", {"name": "greet", "arguments": {"name": "a"}})
        await peer.until(lambda: peer.asked)
        forged = {"jsonrpc": "2.0", "id": peer.asked[0]["id"], "result": {"output": "forged"}}
        await other.send(forged)
        await other.request("host.health")
        assert call not in peer.answers
        await peer.send({**forged, "result": {"output": "real"}})
        assert (await peer.answer(call))["result"]["output"] == "real"
        await peer.send(forged)  # a second answer to the same question
        assert (await peer.request("host.health"))["status"] == "ok"


async def test_only_its_own_session_has_it() -> None:
    async with (
        serving(ToolHost()) as service,
        connected(service, caller_of("ann")) as peer,
        connected(service, caller_of("ann")) as other,
        connected(service, caller_of("bob")) as stranger,
    ):
        await offer(peer)
        session = (await peer.request("host.info"))["session"]
        assert (await other.call("greet", {"name": "a"}))["error"]["reason"] == "unknown_tool"
        # The same principal may name the session; another one may not.
        assert (await other.call("greet", {"name": "a"}, session=session))["output"] == "hello a"
        refused = await stranger.call("greet", {"name": "a"}, session=session)
        assert refused["error"]["reason"] == "unauthenticated"
        assert len(peer.asked) == 1


async def test_a_client_that_goes_away_ends_the_calls_of_others() -> None:
    async with serving(ToolHost()) as service, connected(service, caller_of("ann")) as other:
        async with connected(service, caller_of("ann")) as peer:
            await offer(peer, never)
            session = (await peer.request("host.info"))["session"]
            params = {"name": "greet", "arguments": {"name": "a"}, "session": session}
            call = await other.begin("tools.call", params)
            await peer.until(lambda: peer.asked)
        result = (await other.answer(call))["result"]
        assert (result["status"], result["error"]["reason"]) == ("error", "client_gone")
        again = await other.answer(await other.begin("tools.call", params))
        assert again["result"]["error"]["reason"] == "unauthenticated"


async def test_a_revoked_client_is_not_asked_any_more() -> None:
    caller = caller_of("ann")
    async with serving(ToolHost()) as service, connected(service, caller) as peer:
        await offer(peer)
        (session,) = service.host.callers.sessions.values()
        caller.badge.revoked = True
        result = await service.host.call("greet", {"name": "a"}, session=session)
        assert result.reason == "client_gone"
        assert peer.asked == []


async def test_tools_are_taken_back() -> None:
    async with serving(ToolHost()) as service, connected(service) as peer:
        await offer(peer)
        gone = await peer.request("tools.unregister", {"names": ["greet", "nothing"]})
        assert gone == {"names": ["greet"]}
        assert (await peer.call("greet", {"name": "a"}))["error"]["reason"] == "unknown_tool"
        await offer(peer)  # and offered again


async def test_names_collide_as_others_do() -> None:
    async with serving(ToolHost([ask_client])) as service, connected(service) as peer:
        for name in ("ask_client", "ask-client", "Ask_Client"):
            for replace in (False, True):
                asked = {"tools": [GREET | {"name": name}], "replace": replace}
                error = await peer.refused("tools.register", asked)
                assert error["data"]["error"]["reason"] == "invalid_request"
        await offer(peer)
        error = await peer.refused("tools.register", {"tools": [GREET]})
        assert "greet" in error["message"]


async def test_a_name_that_models_use_for_another_tool_is_taken() -> None:
    @tool(name="a.b", effects=["read"])
    async def dotted() -> int:
        """Dotted."""
        return 1

    async with serving(ToolHost([dotted])) as service, connected(service) as peer:
        wire = (await peer.request("tools.get", {"name": "a.b"}))["wire_name"]
        await peer.refused("tools.register", {"tools": [GREET | {"name": wire}]})
        assert (await peer.call(wire))["output"] == 1


async def test_only_tools_of_the_connection_can_be_replaced() -> None:
    async with serving(ToolHost()) as service, connected(service) as peer:
        (session,) = service.host.callers.sessions.values()
        session.register(ask_client)
        asked = {"tools": [GREET | {"name": "ask_client"}], "replace": True}
        await peer.refused("tools.register", asked)
        assert session.entries["ask_client"].spec.kind == "python"


async def test_two_tools_of_one_name_are_refused() -> None:
    async with serving(ToolHost()) as service, connected(service) as peer:
        await offer(peer)
        twice = [GREET | {"description": "One."}, GREET | {"description": "Other."}]
        await peer.refused("tools.register", {"tools": twice, "replace": True})
        found = await peer.request("tools.get", {"name": "greet"})
        assert found["description"] == "Greet somebody."


async def test_its_own_tool_can_be_replaced() -> None:
    async with serving(ToolHost()) as service, connected(service) as peer:
        await offer(peer)
        again = {"tools": [GREET | {"description": "Other."}], "replace": True}
        await peer.request("tools.register", again)
        assert (await peer.request("tools.get", {"name": "greet"}))["description"] == "Other."


async def test_all_tools_or_none() -> None:
    async with serving(ToolHost([ask_client])) as service, connected(service) as peer:
        await offer(peer)
        tools = [
            GREET | {"description": "Other."},
            GREET | {"name": "fresh"},
            GREET | {"name": "ask_client"},
        ]
        await peer.refused("tools.register", {"tools": tools, "replace": True})
        listed = (await peer.request("tools.list"))["tools"]
        assert [(t["name"], t["description"]) for t in listed if t["kind"] == "client"] == [
            ("greet", "Greet somebody.")
        ]


BAD: dict[str, dict[str, Any]] = {
    "name": {"name": "gr eet"},
    "no object": {"input_schema": {"type": "string"}},
    "broken": {"input_schema": {"type": "object", "properties": 5}},
    "remote": {"input_schema": {"type": "object", "$ref": "http://example.com/x"}},
    "output": {"output_schema": {"type": "nonsense"}},
    "effects": {"effects": ["fly"]},
    "timeout": {"timeout": -1},
    "member": {"config": {"argv": ["rm"]}},
}


@pytest.mark.parametrize("change", list(BAD.values()), ids=list(BAD))
async def test_a_wrong_description_is_refused_with_the_reason(change: dict[str, Any]) -> None:
    async with serving(ToolHost()) as service, connected(service) as peer:
        error = await peer.refused("tools.register", {"tools": [GREET | change]})
        assert error["data"]["error"]["reason"] == "invalid_request"
        assert len(error["message"]) > 20
        assert (await peer.request("tools.list"))["tools"] == []


async def test_how_many_and_how_large_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_tools, "MOST_TOOLS", 3)
    monkeypatch.setattr(client_tools, "MOST_BYTES", 3000)
    monkeypatch.setattr(client_tools, "LONGEST", 2000)
    async with serving(ToolHost()) as service, connected(service) as peer:

        async def refused(*tools: dict[str, Any]) -> str:
            error = await peer.refused("tools.register", {"tools": list(tools)})
            return error["data"]["error"]["reason"]

        def made(name: str, size: int = 10) -> dict[str, Any]:
            return {"name": name, "description": "x" * size}

        assert await refused(*(made(f"t{n}") for n in range(4))) == "quota_exceeded"
        assert await refused(made("long", 2000)) == "quota_exceeded"
        assert await refused(made("a", 1800), made("b", 1800)) == "quota_exceeded"
        assert await refused(made("a"), made("a")) == "invalid_request"
        await peer.request("tools.register", {"tools": [made("a", 1800), made("b")]})
        assert await refused(made("c", 1800)) == "quota_exceeded"
        await peer.request("tools.unregister", {"names": ["a"]})
        await peer.request("tools.register", {"tools": [made("c", 1800)]})


async def test_what_is_concealed_stays_so() -> None:
    """Offering a name tells nothing about tools that the client must not know of."""
    host = make_host(
        [ask_client], profile={"rules": [{"allow": "greet*"}], "default": "deny", "conceal": True}
    )
    async with serving(host) as service, connected(service) as peer:
        said: set[str] = set()
        for name in ("ask_client", "ask-client", "nothing_here"):
            error = await peer.refused("tools.register", {"tools": [GREET | {"name": name}]})
            said.add(error["message"].replace(name, "NAME"))
            assert error["data"]["error"]["reason"] == "not_permitted"
        assert len(said) == 1


async def test_a_name_like_that_of_a_concealed_tool_gives_nothing_away() -> None:
    @tool(effects=["read"])
    async def greet_x() -> None:
        """Hidden: the pattern has another separator."""

    host = make_host(
        [greet_x], profile={"rules": [{"allow": "greet-*"}], "default": "deny", "conceal": True}
    )
    async with serving(host) as service, connected(service) as peer:
        error = await peer.refused("tools.register", {"tools": [GREET | {"name": "greet-x"}]})
        assert "greet_x" not in str(error)


# In a session that is not the connection's own.


async def opened(peer: Peer, **given: Any) -> str:
    return (await peer.request("sessions.open", given))["id"]


async def offer_in(peer: Peer, session: str, **more: Any) -> Any:
    peer.tools.setdefault("greet", greet)
    asked = {"tools": [GREET], "session": session, **more}
    return await peer.request("tools.register", asked)


async def reason_of(peer: Peer, session: str | None = None) -> str | None:
    """How a call of the tool ends in a session; None when it does well."""
    given = {} if session is None else {"session": session}
    error = (await peer.call("greet", {"name": "a"}, **given))["error"]
    return None if error is None else error["reason"]


async def test_a_session_gets_a_tool_that_no_other_one_sees() -> None:
    async with (
        serving(ToolHost()) as service,
        connected(service, caller_of("ann")) as peer,
        connected(service, caller_of("ann")) as other,
    ):
        one, two = await opened(peer), await opened(peer)
        assert await offer_in(peer, one) == {"names": ["greet"]}
        assert await reason_of(peer, one) is None
        assert peer.asked[-1]["params"]["session"] == one
        assert await reason_of(peer, two) == "unknown_tool"
        assert await reason_of(peer) == "unknown_tool"
        assert await reason_of(other, one) is None  # it may come from anywhere
        assert len(peer.asked) == 2
        listed = await peer.request("tools.list", {"session": one})
        assert [each["name"] for each in listed["tools"]] == ["greet"]
        assert (await peer.request("tools.list"))["tools"] == []
        # The same name, in each session and for itself.
        await offer(peer)
        assert await reason_of(peer) is None
        assert peer.asked[-1]["params"]["session"] is None
        gone = {"names": ["greet"], "session": one}
        assert await peer.request("tools.unregister", gone) == {"names": ["greet"]}
        assert await peer.request("tools.unregister", gone) == {"names": []}
        assert await reason_of(peer, one) == "unknown_tool"
        assert await reason_of(peer) is None


async def test_nobody_else_s_session_gets_tools() -> None:
    async with (
        serving(ToolHost()) as service,
        connected(service, caller_of("ann")) as peer,
        connected(service, caller_of("bob")) as stranger,
    ):
        session = await opened(peer)
        await offer_in(peer, session)
        said: set[str] = set()
        for method, asked in (
            ("tools.register", {"tools": [GREET], "replace": True}),
            ("tools.unregister", {"names": ["greet"]}),
        ):
            for name in (session, "s0000"):
                error = await stranger.refused(method, {**asked, "session": name})
                assert error["data"]["error"]["reason"] == "not_found"
                said.add(error["message"].replace(name, "ID"))
        assert len(said) == 1
        assert await reason_of(peer, session) is None


async def test_a_session_under_a_profile_that_the_caller_may_not_use_gets_no_tools() -> None:
    host = ToolHost(config={"profiles": {"wide": {"default": "allow"}, "narrow": {}}})
    wide = caller_of("ann", profile="wide")
    narrow = caller_of("ann", profile="narrow", profiles=())
    async with (
        serving(host) as service,
        connected(service, wide) as peer,
        connected(service, narrow) as other,
    ):
        session = await opened(peer)
        error = await other.refused("tools.register", {"tools": [GREET], "session": session})
        assert error["data"]["error"]["reason"] == "not_permitted"


async def test_with_its_connection_a_tool_leaves_the_session() -> None:
    async with serving(ToolHost()) as service, connected(service, caller_of("ann")) as other:
        async with connected(service, caller_of("ann")) as peer:
            session = await opened(other)
            await offer_in(peer, session)
            peer.tools["greet"] = never
            params = {"name": "greet", "arguments": {"name": "a"}, "session": session}
            call = await other.begin("tools.call", params)
            await peer.until(lambda: peer.asked)
        assert (await other.answer(call))["result"]["error"]["reason"] == "client_gone"
        assert await reason_of(other, session) == "unknown_tool"
        await offer_in(other, session)  # the name is free
        assert await reason_of(other, session) is None


async def test_with_its_session_a_tool_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_tools, "MOST_TOOLS", 1)
    async with serving(ToolHost()) as service, connected(service) as peer:
        session = await opened(peer)
        await offer_in(peer, session)
        await peer.request("sessions.close", {"id": session})
        error = await peer.refused("tools.register", {"tools": [GREET], "session": session})
        assert error["data"]["error"]["reason"] == "not_found"
        await offer(peer)  # it does not count any more


async def test_tools_of_all_sessions_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_tools, "MOST_TOOLS", 2)
    async with serving(ToolHost()) as service, connected(service) as peer:
        for _ in range(2):
            await offer_in(peer, await opened(peer))
        asked = {"tools": [GREET], "session": await opened(peer)}
        error = await peer.refused("tools.register", asked)
        assert error["data"]["error"]["reason"] == "quota_exceeded"


async def test_a_client_that_comes_back_takes_the_place_of_its_lost_connection() -> None:
    """The host may not have noticed that the old one is gone."""
    async with (
        serving(ToolHost()) as service,
        connected(service, caller_of("ann")) as lost,
        connected(service, caller_of("ann")) as back,
    ):
        session = await opened(lost)
        await offer_in(lost, session)
        await back.refused("tools.register", {"tools": [GREET], "session": session})
        await offer_in(back, session, replace=True)
        await lost.connection.close()  # type: ignore[attr-defined]
        assert await reason_of(back, session) is None
        assert (len(lost.asked), len(back.asked)) == (0, 1)


async def test_the_tools_of_a_connection_are_replaced_by_itself_only() -> None:
    async with (
        serving(ToolHost()) as service,
        connected(service, caller_of("ann")) as peer,
        connected(service, caller_of("ann")) as other,
    ):
        await offer(peer)
        session = (await peer.request("host.info"))["session"]
        asked = {"tools": [GREET], "session": session, "replace": True}
        await other.refused("tools.register", asked)
        taken = {"names": ["greet"], "session": session}
        assert await other.request("tools.unregister", taken) == {"names": []}
        assert await reason_of(peer) is None
        assert (len(peer.asked), len(other.asked)) == (1, 0)


async def test_a_closed_session_takes_no_tools() -> None:
    async with serving(ToolHost()) as service, connected(service) as peer:
        session = (await peer.request("host.info"))["session"]
        await peer.request("sessions.close", {"id": session})
        error = await peer.refused("tools.register", {"tools": [GREET]})
        assert error["data"]["error"]["reason"] == "not_found"


async def test_a_call_from_another_thread_reaches_the_client() -> None:
    async with serving(ToolHost()) as service, connected(service) as peer:
        await offer(peer)
        (session,) = service.host.callers.sessions.values()

        def call() -> Any:
            return asyncio.run(_called(service.host, session))

        assert (await asyncio.to_thread(call)).output == "hello thread"


async def _called(host: ToolHost, session: Any) -> Any:
    return await host.call("greet", {"name": "thread"}, session=session)


async def test_nothing_is_left_when_the_client_has_gone() -> None:
    async with serving(ToolHost()) as service:
        before = len(asyncio.all_tasks())
        async with connected(service) as peer:
            await offer(peer, never)
            await peer.begin("tools.call", {"name": "greet", "arguments": {"name": "a"}})
            await peer.until(lambda: peer.asked)
            for task in peer._tasks:
                task.cancel()
        await until(lambda: len(asyncio.all_tasks()) == before)
        assert service.host.callers.sessions == {}
