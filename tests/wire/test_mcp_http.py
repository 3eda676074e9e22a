"""MCP over real sockets: both eras at one address, streams, and clients that misbehave."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from executing import until
from http_gateway import CONFIG, Gateway, gateway
from mcp_client import (
    BOTH,
    CAPABILITIES,
    MODERN,
    SUBSCRIPTION,
    VERSION,
    Client,
    message,
    meta,
    modern,
    modern_headers,
    streams_closed,
)
from toolcrib import tool
from toolcrib.core.link import LINK, InputRefused
from toolcrib.core.serving import JwtSettings, McpSettings, SessionSettings
from toolcrib.errors import ToolFailure
from toolcrib.transports.mcp.entrance import Entrance

ADD = {"name": "add", "arguments": {"a": 1, "b": 2}}


@pytest.fixture(autouse=True)
async def _closing() -> AsyncIterator[None]:
    async with streams_closed():
        yield


@pytest.fixture
async def gate() -> AsyncIterator[Gateway]:
    async with gateway() as made:
        yield made


def slow(seconds: float, **more: Any) -> dict[str, Any]:
    return {"name": "slow", "arguments": {"seconds": seconds}, **more}


def stubborn(seconds: float, **more: Any) -> dict[str, Any]:
    """A call that tells how far it is."""
    given = {"name": "stubborn", "arguments": {"seconds": seconds}}
    return {**given, "_meta": {"progressToken": "t", **more}}


def door(gate: Gateway) -> Any:
    """What the gateway has open for MCP."""
    service = gate.serving.service
    found = [each for each in gc.get_objects() if type(each) is Entrance]
    return next(each.door for each in found if each._service is service)


# Requests that stand alone.


async def test_a_modern_call_is_answered_in_one_piece(gate: Gateway) -> None:
    reply = await Client(gate).modern("tools/call", ADD, "x")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert "mcp-session-id" not in reply.headers
    answer = reply.json()
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", "x")
    assert answer["result"]["resultType"] == "complete"
    assert answer["result"]["structuredContent"] == 3
    received = gate.recorder.only("call.received")[0]
    assert (received.data["door"], received.data["principal"]) == ("mcp", "boss")


WRONG_HEADERS: dict[str, tuple[dict[str, Any], dict[str, str | None], int]] = {
    "no version": ({}, {"MCP-Protocol-Version": None}, -32020),
    "another version than the body": ({}, {"MCP-Protocol-Version": "2025-11-25"}, -32020),
    "no method": ({}, {"Mcp-Method": None}, -32020),
    "another method": ({}, {"Mcp-Method": "tools/list"}, -32020),
    "the method in other letters": ({}, {"Mcp-Method": "TOOLS/CALL"}, -32020),
    "no name": ({}, {"Mcp-Name": None}, -32020),
    "another name": ({}, {"Mcp-Name": "slow"}, -32020),
    "a name that is no base64": ({}, {"Mcp-Name": "=?base64?@@?="}, -32020),
    "no meta": ({"_meta": None}, {}, -32602),
    "no version in the meta": ({"_meta": {CAPABILITIES: {}}}, {}, -32602),
    "no capabilities": ({"_meta": {VERSION: MODERN}}, {}, -32602),
    "a revision that is not spoken": (
        {"_meta": meta(**{VERSION: "1999-01-01"})},
        {"MCP-Protocol-Version": "1999-01-01"},
        -32022,
    ),
}


@pytest.mark.parametrize("case", WRONG_HEADERS)
async def test_headers_that_do_not_fit_the_body_are_refused(gate: Gateway, case: str) -> None:
    params, headers, code = WRONG_HEADERS[case]
    body = modern("tools/call", {**ADD, **params}, 7)
    given = {**modern_headers(body), **headers}
    sent = {name: value for name, value in given.items() if value is not None}
    for _ in range(2):  # calls at an address that is known go a shorter way
        reply = await Client(gate).post(body, sent)
        assert (reply.status, reply.json()["id"], reply.json()["error"]["code"]) == (400, 7, code)
    assert gate.recorder.only("call.started") == []
    if code == -32022:
        assert reply.json()["error"]["data"]["requested"] == "1999-01-01"
        assert MODERN in reply.json()["error"]["data"]["supported"]


async def test_names_may_be_encoded_and_headers_may_have_spaces(gate: Gateway) -> None:
    body = modern("tools/call", ADD)
    for name in ("=?base64?YWRk?=", "  add  ", "add"):
        reply = await Client(gate).post(body, {**modern_headers(body), "Mcp-Name": name})
        assert reply.json()["result"]["structuredContent"] == 3


@pytest.mark.parametrize(
    "method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "no/such"]
)
async def test_methods_that_are_not_there_are_not_found(gate: Gateway, method: str) -> None:
    reply = await Client(gate).modern(method, {}, 5)
    assert (reply.status, reply.json()["error"]["code"], reply.json()["id"]) == (404, -32601, 5)


async def test_without_a_session_there_is_nothing_to_get_or_delete(gate: Gateway) -> None:
    for verb, headers in (
        ("GET", {"Accept": "text/event-stream"}),
        ("GET", {"Accept": BOTH, "MCP-Protocol-Version": MODERN, "Mcp-Session-Id": "x"}),
        ("PUT", {}),
        ("PATCH", {}),
    ):
        reply = await gate.ask(verb, "/mcp", headers=headers)
        assert (reply.status, reply.headers["allow"]) == (405, "POST, GET, DELETE, OPTIONS"), verb
    assert (await gate.ask("DELETE", "/mcp")).status == 400


async def test_a_modern_notification_is_accepted(gate: Gateway) -> None:
    body = modern("notifications/whatever", id=None)
    reply = await Client(gate).post(body, {"MCP-Protocol-Version": MODERN})
    assert (reply.status, reply.body) == (202, b"")


async def test_a_session_id_means_nothing_to_a_modern_request(gate: Gateway) -> None:
    client = Client(gate)
    client.session = "made-up"
    assert (await client.modern("tools/call", ADD)).json()["result"]["structuredContent"] == 3


async def test_progress_turns_the_answer_into_a_stream(gate: Gateway) -> None:
    client = Client(gate)
    body = modern("tools/call", stubborn(0.01, **meta()), 9)
    stream = await client.stream("POST", body, modern_headers(body))
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.headers["x-accel-buffering"] == "no"
    first = await stream.next()
    assert first is not None
    assert (first.id, first.json()["method"]) == (None, "notifications/progress")
    assert first.json()["params"]["progressToken"] == "t"
    last = await stream.message()
    assert (last["id"], last["result"]["structuredContent"]) == (9, "done")
    assert await stream.message() is None
    await stream.close()


@pytest.mark.parametrize("streaming", [False, True])
async def test_who_closes_the_stream_cancels_the_call(gate: Gateway, streaming: bool) -> None:
    client = Client(gate)
    body = modern("tools/call", stubborn(60, **meta()) if streaming else slow(60))
    wire = await gate.connect()
    await wire.send(gate.request("POST", "/mcp", body, headers=modern_headers(body)))
    if streaming:
        await wire.reader.readuntil(b"progressToken")
    await until(lambda: gate.recorder.only("call.started"))
    await wire.close()
    await until(lambda: gate.recorder.only("call.finished"))
    assert gate.recorder.only("call.finished")[0].data["reason"] == "cancelled"
    assert (await client.modern("tools/call", ADD)).status == 200


async def test_whoever_waits_long_gets_signs_of_life() -> None:
    async with gateway(heartbeat=0.05) as gate:
        body = modern("tools/call", slow(0.3))
        stream = await Client(gate).stream("POST", body, modern_headers(body))
        await stream.beat()
        last = await stream.message()
        assert last["result"]["structuredContent"] == "done"
        await stream.close()


# Listening.


async def listen(client: Client, id: Any = 3, **wanted: Any) -> Any:
    body = modern("subscriptions/listen", {"notifications": wanted}, id)
    return await client.stream("POST", body, modern_headers(body))


async def test_listening_is_acknowledged_first_and_tagged(gate: Gateway) -> None:
    stream = await listen(Client(gate), "sub", toolsListChanged=True)
    first = await stream.message()
    assert first["method"] == "notifications/subscriptions/acknowledged"
    assert first["params"]["notifications"] == {"toolsListChanged": True}
    assert first["params"]["_meta"] == {SUBSCRIPTION: "sub"}
    gate.host.unregister("echo")
    second = await stream.message()
    assert second["method"] == "notifications/tools/list_changed"
    assert second["params"]["_meta"] == {SUBSCRIPTION: "sub"}
    gate.stop.set()
    last = await stream.message()
    assert last == {
        "jsonrpc": "2.0",
        "id": "sub",
        "result": {"resultType": "complete", "_meta": {SUBSCRIPTION: "sub"}},
    }
    assert await stream.message() is None
    await stream.close()


async def test_listening_for_nonsense_is_refused(gate: Gateway) -> None:
    for wanted in ("x", None, {"toolsListChanged": "yes"}, {"resourceSubscriptions": [1]}):
        reply = await Client(gate).modern("subscriptions/listen", {"notifications": wanted})
        assert (reply.status, reply.json()["error"]["code"]) == (400, -32602), wanted
    assert len(door(gate).held) == 0


async def test_listeners_are_counted_and_forgotten() -> None:
    async with gateway(viewers_per_principal=2) as gate:
        client = Client(gate)
        streams = [await listen(client, n, toolsListChanged=True) for n in range(2)]
        for stream in streams:
            assert (await stream.message())["params"]["_meta"]
        reply = await client.modern("subscriptions/listen", {"notifications": {}})
        assert (reply.status, reply.json()["error"]["code"]) == (429, 429)
        assert (await listen(Client(gate, who="ci"), 1)).status == 200
        await streams[0].close()
        await until(lambda: len(door(gate).held) == 2)
        assert (await listen(client, 5)).status == 200


# Clients that open with initialize.


async def test_a_session_is_opened_used_and_ended(gate: Gateway) -> None:
    client = Client(gate)
    said = await client.open()
    assert said["protocolVersion"] == "2025-11-25"
    assert len(client.session or "") >= 32
    found = await client.ask("tools/call", ADD, "x")
    assert (found["id"], found["result"]["content"][0]["text"]) == ("x", "3")
    assert (await client.ask("ping"))["result"] == {}
    ended = await gate.ask("DELETE", "/mcp", headers=client.headers())
    assert (ended.status, ended.body) == (204, b"")
    assert (await client.post(message("ping"))).status == 404
    assert (await gate.ask("DELETE", "/mcp", headers=client.headers())).status == 404


async def test_a_session_belongs_to_its_principal_and_its_address(gate: Gateway) -> None:
    client = Client(gate)
    await client.open()
    for other in (Client(gate, who="ci"), Client(gate, path="/mcp/work")):
        other.session, other.version = client.session, client.version
        reply = await other.post(message("ping"))
        assert (reply.status, reply.json()["error"]["data"]["reason"]) == (404, "not_found")
    unknown = Client(gate)
    unknown.session = "x" * 43
    assert (await unknown.post(message("ping"))).json()["error"] == reply.json()["error"]
    assert (await client.ask("ping"))["result"] == {}


async def test_without_its_session_a_request_is_refused(gate: Gateway) -> None:
    client = Client(gate)
    for body in (message("tools/list"), message("ping"), message("notifications/x", id=None)):
        assert (await client.post(body)).status == 400
    assert (await client.post({"jsonrpc": "2.0", "id": 1, "result": {}})).status == 400


@pytest.mark.parametrize(
    ("offered", "agreed"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ],
)
async def test_revisions_are_agreed_on(gate: Gateway, offered: str, agreed: str) -> None:
    client = Client(gate)
    assert (await client.open(offered))["protocolVersion"] == agreed
    for version, status in ((agreed, 200), (None, 200), ("1999-01-01", 400), ("x y", 400)):
        client.version = version
        assert (await client.post(message("ping"))).status == status, version


async def test_what_a_client_has_to_say_it_can_read(gate: Gateway) -> None:
    body = modern("tools/call", ADD)
    for accept, status in (
        ("application/json", 406),
        ("text/event-stream", 406),
        ("text/html", 406),
        ("", 406),
        ("*/*", 200),
        ("application/*, text/*", 200),
        ("text/event-stream;q=0.5 , APPLICATION/JSON", 200),
    ):
        reply = await Client(gate).post(body, {**modern_headers(body), "Accept": accept})
        assert reply.status == status, accept
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx"):
        reply = await Client(gate).post(body, {**modern_headers(body), "Content-Type": kind})
        assert reply.status == 415
    client = Client(gate)
    await client.open()
    reply = await gate.ask("GET", "/mcp", headers=client.headers({"Accept": "application/json"}))
    assert reply.status == 406


async def test_progress_of_a_session_has_event_ids(gate: Gateway) -> None:
    client = Client(gate)
    await client.open()
    stream = await client.stream("POST", message("tools/call", stubborn(0.01)))
    events = [await stream.next() for _ in range(3)]
    primed, progress, last = events
    assert primed is not None
    assert progress is not None
    assert last is not None
    assert (primed.data, primed.retry) == ("", "1000")
    assert progress.json()["method"] == "notifications/progress"
    assert last.json()["id"] == 1
    ids = [event.id for event in events if event is not None]
    assert len(set(ids)) == 3
    assert all(ids)
    assert await stream.next() is None
    await stream.close()


async def test_a_call_that_takes_a_while_can_be_resumed(gate: Gateway) -> None:
    """Even where it says nothing: the stream begins with the place to come back to."""
    client = Client(gate)
    await client.open()
    stream = await client.stream("POST", message("tools/call", slow(0.4), "it"))
    first = await stream.next()
    assert first is not None
    assert (first.data, bool(first.id)) == ("", True)
    await stream.close()
    again = await client.stream("GET", headers={"Last-Event-ID": str(first.id)})
    assert [one["id"] for one in await again.rest()] == ["it"]
    older = Client(gate)
    await older.open("2025-06-18")
    assert (await older.ask("tools/call", slow(0.2)))["result"]["content"][0]["text"] == "done"


async def test_older_clients_get_no_event_without_a_message(gate: Gateway) -> None:
    client = Client(gate)
    await client.open("2025-06-18")
    stream = await client.stream("POST", message("tools/call", stubborn(0.01)))
    first = await stream.next()
    assert first is not None
    assert first.json()["method"] == "notifications/progress"
    await stream.rest()
    await stream.close()


async def test_a_stream_that_broke_off_is_resumed(gate: Gateway) -> None:
    """Losing the connection is not cancelling: the answer is there for whoever comes back."""
    client = Client(gate)
    await client.open()
    stream = await client.stream("POST", message("tools/call", stubborn(0.3), "it"))
    event = await stream.next()
    event = await stream.next()
    assert event is not None
    assert event.id is not None
    await stream.close()
    again = await client.stream("GET", headers={"Last-Event-ID": event.id})
    assert [one["id"] for one in await again.rest()] == ["it"]
    await again.close()
    assert gate.recorder.only("call.finished")[0].data["status"] == "ok"


async def test_an_answer_that_came_meanwhile_waits_for_its_client(gate: Gateway) -> None:
    client = Client(gate)
    await client.open()
    stream = await client.stream("POST", message("tools/call", stubborn(0.05), "it"))
    first = await stream.next()
    assert first is not None
    assert first.id is not None
    await stream.close()
    await until(lambda: gate.recorder.only("call.finished"))
    again = await client.stream("GET", headers={"Last-Event-ID": first.id})
    found = await again.rest()
    assert [one.get("method", one.get("id")) for one in found] == ["notifications/progress", "it"]
    await again.close()
    for wrong in (first.id, "nonsense", "9-9", "-1", "0-" + "9" * 50):
        reply = await gate.ask("GET", "/mcp", headers=client.headers({"Last-Event-ID": wrong}))
        assert reply.status == 400, wrong


async def test_nobody_else_can_resume_it(gate: Gateway) -> None:
    client = Client(gate)
    await client.open()
    stream = await client.stream("POST", message("tools/call", stubborn(0.05)))
    first = await stream.next()
    assert first is not None
    assert first.id is not None
    await stream.close()
    other = Client(gate, who="ci")
    await other.open()
    head = other.headers({"Last-Event-ID": first.id})
    assert (await gate.ask("GET", "/mcp", who="ci", headers=head)).status == 400


async def test_a_call_is_cancelled_by_a_notification(gate: Gateway) -> None:
    client = Client(gate)
    await client.open()
    going = asyncio.ensure_future(client.post(message("tools/call", slow(60), 44)))
    await until(lambda: gate.recorder.only("call.started"))
    other = Client(gate, who="ci")
    await other.open()
    for params in ({"requestId": 44}, {"requestId": [1]}, {}, None, [44]):
        told = await other.post(message("notifications/cancelled", params, None))
        assert told.status == 202
    assert gate.recorder.only("call.finished") == []
    await client.post(message("notifications/cancelled", {"requestId": 44}, None))
    await going
    assert gate.recorder.only("call.finished")[0].data["reason"] == "cancelled"


async def test_an_id_that_is_in_use_is_not_used_again(gate: Gateway) -> None:
    client = Client(gate)
    await client.open()
    going = asyncio.ensure_future(client.post(message("tools/call", slow(0.3), 5)))
    await until(lambda: gate.recorder.only("call.started"))
    again = await client.ask("tools/call", ADD, 5)
    assert again["error"]["code"] == -32600
    assert b'"done"' in (await going).body
    assert len(gate.recorder.only("call.started")) == 1


@tool(effects=["read"])
async def ask_name() -> str:
    """Ask the client for a name."""
    link = LINK.get()
    assert link is not None
    params = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
    try:
        given = await link.ask({"who": {"method": "elicitation/create", "params": params}})
    except InputRefused as refused:
        raise ToolFailure(f"refused: {refused}") from None
    return f"said {given['who']['content']['name']}"


@pytest.fixture
async def asking() -> AsyncIterator[Gateway]:
    rules = {"rules": [{"allow": ["add", "ask_name"]}]}
    config = {**CONFIG, "profiles": {**CONFIG["profiles"], "work": rules}}
    async with gateway(config=config, more=[ask_name]) as made:
        yield made


def named(id: Any, name: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": {"action": "accept", "content": {"name": name}}}


async def test_a_client_is_asked_on_the_stream_of_its_request(asking: Gateway) -> None:
    client = Client(asking)
    await client.open(elicitation={})
    stream = await client.stream("POST", message("tools/call", {"name": "ask_name"}, 8))
    asked = await stream.message()
    assert (asked["method"], asked["params"]["message"]) == ("elicitation/create", "Who?")
    other = Client(asking, who="ci")
    await other.open(elicitation={})
    assert (await other.post(named(asked["id"], "Eve"))).status == 202
    assert (await client.post(named("no such question", "Eve"))).status == 202
    answered = await client.post(named(asked["id"], "Ann"))
    assert (answered.status, answered.body) == (202, b"")
    last = await stream.message()
    assert (last["id"], last["result"]["content"][0]["text"]) == (8, "said Ann")
    assert (await client.post(named(asked["id"], "too late"))).status == 202


async def test_a_client_that_answers_with_an_error_or_leaves_is_not_waited_for(
    asking: Gateway,
) -> None:
    client = Client(asking)
    await client.open(elicitation={})
    stream = await client.stream("POST", message("tools/call", {"name": "ask_name"}, 1))
    asked = await stream.message()
    error = {"code": -32601, "message": "cannot"}
    await client.post({"jsonrpc": "2.0", "id": asked["id"], "error": error})
    assert (await stream.message())["result"]["isError"] is True
    stream = await client.stream("POST", message("tools/call", {"name": "ask_name"}, 2))
    await stream.message()
    await asking.ask("DELETE", "/mcp", headers=client.headers())
    await until(lambda: len(asking.recorder.only("call.finished")) == 2)


async def test_a_question_that_is_not_needed_any_more_is_taken_back(asking: Gateway) -> None:
    client = Client(asking)
    await client.open(elicitation={})
    stream = await client.stream("POST", message("tools/call", {"name": "ask_name"}, 6))
    asked = await stream.message()
    await client.post(message("notifications/cancelled", {"requestId": 6}, None))
    back = await stream.message()
    assert back["method"] == "notifications/cancelled"
    assert back["params"]["requestId"] == asked["id"]


async def test_a_question_finds_its_client_again(asking: Gateway) -> None:
    """The stream broke off after the question; it goes on where the client resumes it."""
    client = Client(asking)
    await client.open(elicitation={})
    stream = await client.stream("POST", message("tools/call", {"name": "ask_name"}, 6))
    primed = await stream.next()
    assert primed is not None
    assert primed.id is not None
    await stream.close()
    again = await client.stream("GET", headers={"Last-Event-ID": primed.id})
    asked = await again.message()
    await client.post(named(asked["id"], "Ann"))
    assert (await again.message())["result"]["content"][0]["text"] == "said Ann"


async def test_changes_come_on_the_stream_that_belongs_to_no_request(gate: Gateway) -> None:
    client = Client(gate)
    await client.open()
    stream = await client.stream("GET")
    first = await stream.next()
    assert first is not None
    assert first.data == ""
    gate.host.unregister("echo")
    event = await stream.next()
    assert event is not None
    assert event.json()["method"] == "notifications/tools/list_changed"
    newer = await client.stream("GET")  # takes its place; nothing is said twice
    assert (await newer.next()) is not None
    assert await stream.next() is None
    await stream.close()
    assert (await gate.ask("DELETE", "/mcp", headers=client.headers())).status == 204
    assert await newer.next() is None
    await newer.close()


async def test_batches_are_for_the_revision_that_has_them(gate: Gateway) -> None:
    client = Client(gate)
    await client.open("2025-03-26")
    batch = [
        message("tools/call", ADD, 1),
        message("ping", id="p"),
        message("notifications/whatever", id=None),
        {"jsonrpc": "2.0"},
        message("initialize", {}, 9),
    ]
    reply = await client.post(batch)
    found = {each.get("id"): each for each in reply.json()}
    assert reply.status == 200
    assert found["p"]["result"] == {}
    assert found[1]["result"]["content"][0]["text"] == "3"
    assert found[None]["error"]["code"] == found[9]["error"]["code"] == -32600
    told = await client.post([message("notifications/x", id=None)])
    assert (told.status, told.body) == (202, b"")
    for wrong in ([], [message("ping", id=n) for n in range(101)]):
        assert (await client.post(wrong)).status == 400
    newer = Client(gate)
    await newer.open("2025-06-18")
    assert (await newer.post(batch)).status == 400


async def test_a_batch_with_progress_is_a_stream(gate: Gateway) -> None:
    client = Client(gate)
    await client.open("2025-03-26")
    batch = [message("tools/call", stubborn(0.01), 1), message("ping", id=2)]
    stream = await client.stream("POST", batch)
    found = await stream.rest()
    assert found[0]["method"] == "notifications/progress"
    assert sorted(each["id"] for each in found[1:]) == [1, 2]
    await stream.close()


# Profiles, sessions of the host, and who may not.


async def test_the_path_names_a_profile_among_those_allowed(gate: Gateway) -> None:
    listed = (await Client(gate, path="/mcp/other").modern("tools/list")).json()["result"]["tools"]
    assert [each["name"] for each in listed] == ["add"]
    client = Client(gate, path="/mcp/other")
    await client.modern("tools/call", slow(0.0))
    assert gate.recorder.only("call.started") == []
    for who, path, status in (
        ("ci", "/mcp/other", 403),
        ("ci", "/mcp/none", 403),
        ("boss", "/mcp/none", 403),
        ("boss", "/mcp/work/x", 404),
        ("boss", "/mcp/s/nobody", 404),
        ("boss", "/mcp//", 404),
        ("boss", "/mcp/", 200),
        ("boss", "/mcp/wor%6b", 200),
        ("boss", "/mcp/%ff", 404),
        ("boss", "/mcpx", 404),
    ):
        reply = await Client(gate, path=path, who=who).modern("tools/list")
        assert reply.status == status, (who, path)


async def test_the_path_names_a_session_of_the_host(gate: Gateway) -> None:
    made = (await gate.ask("POST", "/v1/sessions", {"profile": "other"})).json()
    mine = Client(gate, path=f"/mcp/s/{made['id']}")
    listed = (await mine.modern("tools/list")).json()["result"]["tools"]
    assert [each["name"] for each in listed] == ["add"]
    assert (await mine.modern("tools/call", ADD)).json()["result"]["structuredContent"] == 3
    theirs = Client(gate, path=f"/mcp/s/{made['id']}", who="ci")
    assert (await theirs.modern("tools/list")).status == 404
    await gate.ask("DELETE", f"/v1/sessions/{made['id']}")
    assert (await mine.modern("tools/list")).status == 404


async def test_nobody_enters_without_credentials(gate: Gateway) -> None:
    for who in (None, "wrong-token-1234"):
        reply = await Client(gate, who=who).modern("tools/call", ADD)
        assert reply.status == 401
        assert reply.headers["www-authenticate"].startswith('Bearer realm="toolcrib"')
        assert reply.json()["error"]["data"]["reason"] == "unauthenticated"
    assert gate.recorder.only("call.started") == []
    assert (await gate.ask("GET", "/.well-known/oauth-protected-resource")).status == 404


async def test_it_can_be_switched_off() -> None:
    async with gateway(other={"mcp": McpSettings(enabled=False)}) as gate:
        assert (await Client(gate).modern("tools/list")).status == 404


def marked() -> Any:
    properties = {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "note": {"type": "string"},
    }

    @tool(effects=["read"], input_schema={"type": "object", "properties": properties})
    async def where(region: str = "", note: str = "") -> str:
        """Say where."""
        return f"{region} {note}"

    return where


@pytest.mark.parametrize(
    ("arguments", "header", "right"),
    [
        ({"region": "eu"}, "eu", True),
        ({"region": "é"}, "=?base64?w6k=?=", True),
        ({"region": "eu"}, "us", False),
        ({"region": "eu"}, None, False),
        ({"region": "eu"}, "=?base64?nonsense!?=", False),
        ({}, "eu", False),
        ({}, None, True),
    ],
)
async def test_arguments_that_headers_repeat(arguments: Any, header: Any, right: bool) -> None:
    rules = {"rules": [{"allow": ["where", "add"]}]}
    config = {**CONFIG, "profiles": {**CONFIG["profiles"], "work": rules}}
    async with gateway(config=config, more=[marked()]) as gate:
        body = modern("tools/call", {"name": "where", "arguments": arguments})
        headers = modern_headers(body) | ({} if header is None else {"Mcp-Param-Region": header})
        client = Client(gate)
        said = f"{arguments.get('region', '')} "
        for _ in range(2):  # the second time it goes the short way
            reply = await client.post(body, headers)
            if right:
                assert reply.json()["result"]["structuredContent"] == said
            else:
                assert (reply.status, reply.json()["error"]["code"]) == (400, -32020)
        assert len(gate.recorder.only("call.received")) == (2 if right else 0)


async def test_of_tools_that_may_not_be_called_headers_tell_nothing() -> None:
    async with gateway(more=[marked()]) as gate:
        body = modern("tools/call", {"name": "where", "arguments": {"region": "eu"}})
        for _ in range(2):
            reply = await Client(gate).post(body, modern_headers(body))
            assert reply.json().get("error", {}).get("code") != -32020


async def test_headers_that_stand_twice_are_refused(gate: Gateway) -> None:
    body = modern("tools/call", ADD)
    for name in ("mcp-name", "mcp-method", "mcp-protocol-version", "mcp-param-x"):
        made = gate.request("POST", "/mcp", body, headers=modern_headers(body))
        twice = b"\r\n%b: 1\r\n%b: 2\r\n\r\n" % (name.encode(), name.encode())
        async with await gate.connect() as wire:
            await wire.send(made.replace(b"\r\n\r\n", twice, 1))
            assert (await wire.reply("POST")).status == 400, name
    assert gate.recorder.events == []


async def test_who_gives_credentials_is_told_to_those_without() -> None:
    issuer = JwtSettings(name="login", issuer="https://login.example", audience=("crib",))
    async with gateway(other={"jwt": (issuer,)}, hosts=("crib.example",)) as gate:
        for path in ("/mcp", "/mcp/work"):
            reply = await Client(gate, path=path, who=None).modern("tools/list")
            assert reply.status == 401
            told = reply.headers["www-authenticate"]
            place = told.partition('resource_metadata="')[2].rstrip('"')
            at = f"http://127.0.0.1:{gate.port}"
            assert place == f"{at}/.well-known/oauth-protected-resource{path}"
            found = (await gate.ask("GET", place.removeprefix(at), who=None)).json()
            assert found["resource"] == f"{at}{path}"
            assert found["authorization_servers"] == ["https://login.example"]
        bad = await Client(gate, who="not-a-token-at-all").modern("tools/list")
        assert 'error="invalid_token"' in bad.headers["www-authenticate"]
        base = "/.well-known/oauth-protected-resource"
        named = await gate.ask("GET", base, who=None, headers={"Host": "crib.example"})
        assert named.json()["resource"] == "https://crib.example/mcp"
        assert (await gate.ask("GET", f"{base}/elsewhere", who=None)).status == 404
        assert (await gate.ask("POST", base, {}, who=None)).status == 405


async def test_pages_of_configured_origins_may_call() -> None:
    async with gateway(origins=("https://page.example",)) as gate:
        origin = {"Origin": "https://page.example"}
        asked = {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type, mcp-param-region, x-evil",
        }
        reply = await gate.ask("OPTIONS", "/mcp", who=None, headers=origin | asked)
        assert reply.status == 204
        assert "mcp-param-region" in reply.headers["access-control-allow-headers"]
        assert "x-evil" not in reply.headers["access-control-allow-headers"]
        body = modern("tools/call", stubborn(0.01, **meta()))
        client = Client(gate)
        stream = await client.stream("POST", body, modern_headers(body) | origin)
        assert stream.headers["access-control-allow-origin"] == "https://page.example"
        assert (await stream.rest())[-1]["result"]["structuredContent"] == "done"
        body = modern("tools/call", slow(60))
        wire = await gate.connect()
        headers = modern_headers(body) | origin
        await wire.send(gate.request("POST", "/mcp", body, headers=headers))
        await until(lambda: len(gate.recorder.only("call.started")) == 2)
        await wire.close()
        await until(lambda: len(gate.recorder.only("call.finished")) == 2)
        assert gate.recorder.only("call.finished")[1].data["reason"] == "cancelled"


# Bounds.


async def test_old_sessions_make_room_unless_they_are_in_use() -> None:
    async with gateway(other={"sessions": SessionSettings(per_principal=3)}) as gate:
        clients = [Client(gate) for _ in range(5)]
        for client in clients:
            await client.open()
        found = [(await client.post(message("ping"))).status for client in clients]
        assert found == [404, 404, 200, 200, 200]
        streams = [await client.stream("GET") for client in clients[2:]]
        reply = await Client(gate).post(message("initialize", {}, 0))
        assert (reply.status, reply.json()["error"]["data"]["reason"]) == (429, "too_many_sessions")
        other = Client(gate, who="ci")
        await other.open()
        for stream in streams:
            await stream.close()


async def test_sessions_end_when_nobody_uses_them() -> None:
    settings = SessionSettings(idle=0.2)
    async with gateway(other={"sessions": settings}) as gate:
        client = Client(gate)
        await client.open()
        assert len(door(gate).connections) == 1
        await until(lambda: len(door(gate).connections) == 0)
        assert (await client.post(message("ping"))).status == 404


def _files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_hundred_clients_leave_nothing_behind(gate: Gateway) -> None:
    client = Client(gate)
    await client.open()
    await (await client.stream("GET")).close()
    await client.modern("tools/call", ADD)
    await gate.ask("DELETE", "/mcp", headers=client.headers())
    open_door = door(gate)
    await until(lambda: len(open_door.held) == 0)
    tasks, files = len(asyncio.all_tasks()), _files()
    for turn in range(100):
        one = Client(gate)
        await one.open()
        stream = await one.stream("GET")
        assert (await one.ask("tools/call", ADD))["result"]
        if turn % 3 == 0:
            stream.wire.writer.transport.abort()
        else:
            await stream.close()
        listening = await listen(one, turn, toolsListChanged=True)
        await listening.close()
        await gate.ask("DELETE", "/mcp", headers=one.headers())
    await until(lambda: len(open_door.held) == 0)
    assert len(open_door.connections) == 0
    await until(lambda: len(asyncio.all_tasks()) <= tasks + 1)
    await until(lambda: _files() <= files + 1)


async def test_a_reader_that_takes_nothing_holds_up_nobody() -> None:
    """Its stream is cut off when too much waits for it; calls go on."""
    async with gateway(keep_alive=0.5) as gate:
        client = Client(gate)
        await client.open()
        stream = await client.stream("GET")
        connection = next(iter(door(gate).connections._all.values()))
        for _ in range(40):
            connection.tell("notifications/message", {"level": "info", "data": "x" * 1_000_000})
            await asyncio.sleep(0)
        await until(lambda: not connection.general.attached)
        assert (await client.ask("tools/call", ADD))["result"]
        await stream.close()


async def test_the_old_transport_is_there_when_asked_for() -> None:
    async with gateway() as gate:
        assert (await gate.ask("GET", "/mcp/sse")).status in (403, 404)
    async with gateway(other={"mcp": McpSettings(sse=True)}) as gate:
        client = Client(gate, path="/mcp/sse")
        stream = await client.stream("GET")
        first = await stream.next()
        assert first is not None
        path = first.data
        assert path.startswith("/mcp/messages/")
        sender = Client(gate, path=path)
        params = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {}}
        assert (await sender.post(message("initialize", params, 0))).status == 202
        assert (await stream.message())["result"]["protocolVersion"] == "2024-11-05"
        await sender.post(message("notifications/initialized", id=None))
        assert (await sender.post(message("tools/call", ADD, 1))).status == 202
        assert (await stream.message())["result"]["content"][0]["text"] == "3"
        assert (await sender.post(modern("tools/call", ADD, 2))).status == 202
        assert (await stream.message())["error"]["code"] == -32600
        assert (await sender.post(b"{")).status == 202
        assert (await stream.message())["error"]["code"] == -32700
        stranger = Client(gate, path=path, who="ci")
        assert (await stranger.post(message("ping"))).status == 404
        going = await sender.post(message("tools/call", slow(60), 3))
        assert going.status == 202
        await until(lambda: len(gate.recorder.only("call.started")) == 2)
        await stream.close()
        await until(lambda: len(gate.recorder.only("call.finished")) == 2)
        assert gate.recorder.only("call.finished")[-1].data["reason"] == "cancelled"
        assert (await sender.post(message("ping"))).status == 404


async def test_a_client_that_never_comes_back_is_given_up(
    gate: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.transports.mcp.posts.GRACE", 0.1)
    client = Client(gate)
    await client.open()
    stream = await client.stream("POST", message("tools/call", stubborn(60)))
    await stream.close()
    await until(lambda: gate.recorder.only("call.finished"))
    assert gate.recorder.only("call.finished")[0].data["reason"] == "cancelled"


async def test_streams_end_with_the_credentials_that_opened_them() -> None:
    async with gateway(heartbeat=0.05) as gate:
        client = Client(gate)
        await client.open()
        old, new = await client.stream("GET"), await listen(client, toolsListChanged=True)
        assert await old.next() is not None
        assert await new.next() is not None
        next(iter(door(gate).connections._all.values())).caller.badge.revoked = True
        assert await old.next() is None
        assert await new.next() is None  # and no goodbye in order
        assert len(door(gate).held) == 0


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_calls_end_before_the_host_does(era: str) -> None:
    async with gateway() as gate:
        client = Client(gate)
        if era == "handshake":
            await client.open()
            body, headers = message("tools/call", slow(0.4)), {}
        else:
            body = modern("tools/call", slow(0.4))
            headers = modern_headers(body)
        going = asyncio.ensure_future(client.post(body, headers))
        await until(lambda: gate.recorder.only("call.started"))
        gate.stop.set()
        assert b'"done"' in (await going).body
        await gate.task


async def test_a_question_does_not_keep_the_host(asking: Gateway) -> None:
    client = Client(asking)
    await client.open(elicitation={})
    stream = await client.stream("POST", message("tools/call", {"name": "ask_name"}, 6))
    assert (await stream.message())["method"] == "elicitation/create"
    asking.stop.set()
    assert (await stream.message())["result"]["isError"] is True
    await asking.task
