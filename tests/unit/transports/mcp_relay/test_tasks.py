"""Tasks of servers behind the host: each client has its own ids, and only for its own tasks."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import pytest

from toolcrib.core.link import LINK, InputRefused, UpstreamError
from toolcrib.protocol.mcp.keys import CAPABILITIES, TASKS, VERSION
from toolcrib.transports.mcp import tasks
from toolcrib.transports.mcp.asked import asked_modern
from toolcrib.transports.mcp.faults import McpFault
from toolcrib.transports.mcp.listening import Listening

ABLE = {"extensions": {TASKS: {}}}


def job_server(kit: Any) -> Any:
    server = kit.Server("one", era="modern")
    server.capabilities["extensions"] = {TASKS: {}}
    server.definitions = [{"name": "job", "inputSchema": {"type": "object"}}]
    server.answers["tools/call"] = lambda _: {
        "resultType": "task",
        "taskId": "t-1",
        "status": "working",
        "ttlMs": 60_000,
        "x-new": 1,
    }

    def get(params: Any) -> dict[str, Any]:
        if params["taskId"] != "t-1":
            raise UpstreamError(-32602, "unknown task")
        return {"taskId": "t-1", "status": "completed", "result": {"content": []}}

    server.answers["tasks/get"] = get
    server.answers["tasks/update"] = server.answers["tasks/cancel"] = lambda _: {}
    return server


async def begin(gateway: Any, **more: Any) -> dict[str, Any]:
    return await gateway.modern("tools/call", {"name": "one-job"}, capabilities=ABLE, **more)


async def test_a_task_comes_through_a_call_and_is_asked_about_under_an_id_of_ours(
    start: Any, kit: Any
) -> None:
    server = job_server(kit)
    gateway = await start(server)
    made = await begin(gateway)
    task = made.pop("taskId")
    assert made == {"resultType": "task", "status": "working", "ttlMs": 60_000, "x-new": 1}
    assert task != "t-1"
    answer = await gateway.modern("tasks/get", {"taskId": task}, capabilities=ABLE)
    assert answer == {
        "resultType": "complete",
        "taskId": task,
        "status": "completed",
        "result": {"content": []},
    }
    given = {"taskId": task, "inputResponses": {"a": {"action": "accept"}}}
    assert await gateway.modern("tasks/update", given, capabilities=ABLE) == {
        "resultType": "complete"
    }
    assert server.asked[-1] == ("tasks/update", {**given, "taskId": "t-1"})
    await gateway.modern("tasks/cancel", {"taskId": task}, capabilities=ABLE)
    assert server.asked[-1] == ("tasks/cancel", {"taskId": "t-1"})
    assert all(dict(link.capabilities) == ABLE for link in server.links)
    trail = await gateway.host.trail()
    assert [e.type for e in trail if e.type == "call.finished"] == ["call.finished"]


async def test_a_task_is_not_held_to_the_schema_of_what_comes_later(start: Any, kit: Any) -> None:
    server = job_server(kit)
    server.definitions[0]["outputSchema"] = {"type": "object", "required": ["done"]}
    gateway = await start(server)
    assert (await begin(gateway))["resultType"] == "task"


async def test_a_task_is_its_own_callers(start: Any, kit: Any) -> None:
    server = job_server(kit)
    gateway = await start(server)
    task = (await begin(gateway))["taskId"]
    asked = len(server.asked)
    answers: list[dict[str, Any]] = []
    for caller, name, endpoint in (
        (gateway.caller("bob"), task, kit.Endpoint()),
        (gateway.caller(), task, kit.Endpoint(profile="none")),
        (gateway.caller(), "t-1", kit.Endpoint()),
        (gateway.caller(), "no-such-task-at-all", kit.Endpoint()),
        (gateway.caller(), None, kit.Endpoint()),
        (gateway.caller(), ["t-1"], kit.Endpoint()),
    ):
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(McpFault) as caught:
                await gateway.modern(
                    method, {"taskId": name}, caller=caller, endpoint=endpoint, capabilities=ABLE
                )
            error = caught.value.error()
            assert error.pop("message").startswith("there is no task")
            answers.append(error)
    assert answers == [{"code": -32602}] * 18
    assert len(server.asked) == asked


async def test_without_the_extension_there_are_no_tasks(start: Any, kit: Any) -> None:
    gateway = await start(job_server(kit))
    task = (await begin(gateway))["taskId"]
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        for capabilities in ({}, {"extensions": {}}, {"extensions": []}):
            with pytest.raises(McpFault) as caught:
                await gateway.modern(method, {"taskId": task}, capabilities=capabilities)
            assert (caught.value.code, caught.value.http) == (-32021, 400)
            assert caught.value.data == {"requiredCapabilities": {"extensions": {TASKS: {}}}}
    for method in ("tasks/list", "tasks/result"):
        with pytest.raises(McpFault) as caught:
            await gateway.modern(method, {"taskId": task}, capabilities=ABLE)
        assert caught.value.code == -32601


async def test_the_extension_is_declared_where_a_server_has_it(start: Any, kit: Any) -> None:
    gateway = await start(job_server(kit))
    relays, caller = gateway.dispatcher.relays, gateway.caller()
    assert relays.capabilities(caller, kit.Endpoint(), "modern")["extensions"] == {TASKS: {}}
    assert "extensions" not in relays.capabilities(caller, kit.Endpoint(), "handshake")
    assert "extensions" not in relays.capabilities(caller, kit.Endpoint(profile="none"), "modern")


async def test_so_many_tasks_are_remembered_and_the_oldest_make_room(
    start: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MOST_EACH", 3)
    monkeypatch.setattr(tasks, "MOST", 5)
    gateway = await start(job_server(kit))
    bob = gateway.caller("bob")
    bobs = [(await begin(gateway, caller=bob))["taskId"] for _ in range(2)]
    anns = [(await begin(gateway))["taskId"] for _ in range(5)]

    async def known(task: str, caller: Any = None) -> bool:
        try:
            await gateway.modern("tasks/get", {"taskId": task}, caller=caller, capabilities=ABLE)
        except McpFault:
            return False
        return True

    assert [await known(task) for task in anns] == [False, False, True, True, True]
    assert [await known(task, bob) for task in bobs] == [
        True,
        True,
    ]  # nobody pushes others out first
    eve = gateway.caller("eve")
    await begin(gateway, caller=eve)
    assert [await known(task, bob) for task in bobs] == [False, True]


async def test_a_task_is_forgotten_when_its_time_is_over(
    start: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = await start(job_server(kit))
    task = (await begin(gateway))["taskId"]
    later = tasks.time.monotonic() + 60 + 61
    monkeypatch.setattr(
        tasks, "time", type("Later", (), {"monotonic": staticmethod(lambda: later)})
    )
    with pytest.raises(McpFault, match="there is no task"):
        await gateway.modern("tasks/get", {"taskId": task}, capabilities=ABLE)
    assert gateway.dispatcher.relays.tasks._tasks == {}


def telling_server(kit: Any, **honoured: Any) -> tuple[Any, list[Any]]:
    """A server that tells of its tasks, and the lines on which it is listened to."""
    server, lines = job_server(kit), []
    numbers = itertools.count(1)
    server.answers["tools/call"] = lambda _: {
        "resultType": "task",
        "taskId": f"t-{next(numbers)}",
        "status": "working",
    }

    async def listen(params: Any) -> Any:
        line = LINK.get()
        lines.append(line)
        told = honoured or params["notifications"]
        meta = {"io.modelcontextprotocol/subscriptionId": 7}
        acknowledged = {"notifications": told, "_meta": meta}
        line.notify("notifications/subscriptions/acknowledged", acknowledged)
        line.notify("notifications/tasks", {"taskId": "t-1", "status": "working", "_meta": meta})
        try:
            await asyncio.Event().wait()
        finally:
            lines.remove(line)

    server.answers["subscriptions/listen"] = listen
    return server, lines


async def listening(gateway: Any, kit: Any, who: Any, *names: str, able: Any = ABLE) -> Any:
    """An open stream, and what its client was told on it."""
    meta = {VERSION: "2026-07-28", CAPABILITIES: able}
    wanted = {"toolsListChanged": True, "taskIds": list(names)}
    params = {"notifications": wanted, "_meta": meta}
    sink = kit.Sink()
    told = Listening(asked_modern(9, "subscriptions/listen", params), who, sink)
    await told.open(gateway.dispatcher, kit.Endpoint())
    return told, sink.frames


def said(frames: list[bytes]) -> list[Any]:
    messages = [json.loads(frame) for frame in frames]
    for message in messages:
        assert message["params"].pop("_meta") == {"io.modelcontextprotocol/subscriptionId": 9}
    return [(message["method"].rpartition("/")[2], message["params"]) for message in messages]


async def test_a_client_is_told_of_its_own_tasks_under_its_own_ids(start: Any, kit: Any) -> None:
    server, lines = telling_server(kit)
    gateway = await start(server)
    mine, other = [(await begin(gateway))["taskId"] for _ in range(2)]
    bobs = (await begin(gateway, caller=gateway.caller("bob")))["taskId"]
    stream, frames = await listening(gateway, kit, gateway.caller(), mine, bobs, "t-2", "none")
    assert server.asked[-1][1] == {"notifications": {"taskIds": ["t-1"]}}
    assert dict(lines[0].capabilities) == ABLE
    done = {"taskId": "t-1", "status": "completed", "result": {"content": []}, "x-new": 1}
    lines[0].notify("notifications/tasks", done)
    for stranger in ({"taskId": "t-2"}, {"taskId": "t-3"}, {"taskId": ["t-1"]}, {}):
        lines[0].notify("notifications/tasks", stranger)
    lines[0].notify("notifications/message", {"level": "info", "data": "no"})
    assert said(frames) == [
        ("acknowledged", {"notifications": {"toolsListChanged": True, "taskIds": [mine]}}),
        ("tasks", {"taskId": mine, "status": "working"}),
        ("tasks", {**done, "taskId": mine}),
    ]
    with pytest.raises(InputRefused):
        await lines[0].ask({})
    stream.close()
    await gateway.until(lambda: not lines)
    assert other != mine


async def test_who_may_not_use_the_tool_any_more_hears_nothing_of_its_task(
    start: Any, kit: Any
) -> None:
    server, lines = telling_server(kit)
    gateway = await start(server)
    task = (await begin(gateway))["taskId"]
    caller = gateway.caller()
    stream, frames = await listening(gateway, kit, caller, task)
    caller.profile = "none"
    lines[0].notify("notifications/tasks", {"taskId": "t-1", "status": "completed"})
    assert [method for method, _ in said(frames)] == ["acknowledged", "tasks"]
    stream.close()


@pytest.mark.parametrize("why", ["not declared", "not honoured", "not there"])
async def test_what_cannot_be_told_is_not_acknowledged(start: Any, kit: Any, why: str) -> None:
    honoured = {"toolsListChanged": True} if why == "not honoured" else {}
    server, lines = telling_server(kit, **honoured)
    if why == "not there":
        del server.answers["subscriptions/listen"]
    gateway = await start(server)
    task = (await begin(gateway))["taskId"]
    able = {} if why == "not declared" else ABLE
    stream, frames = await listening(gateway, kit, gateway.caller(), task, able=able)
    assert said(frames) == [("acknowledged", {"notifications": {"toolsListChanged": True}})]
    await gateway.until(lambda: not lines)
    stream.close()


async def test_a_filter_of_tasks_that_is_none_is_refused(start: Any, kit: Any) -> None:
    gateway = await start(job_server(kit))
    for names in ("t-1", [1], ["t"] * 101):
        meta = {VERSION: "2026-07-28", CAPABILITIES: ABLE}
        params = {"notifications": {"taskIds": names}, "_meta": meta}
        asked = asked_modern(9, "subscriptions/listen", params)
        told = Listening(asked, gateway.caller(), kit.Sink())
        with pytest.raises(McpFault) as caught:
            await told.open(gateway.dispatcher, kit.Endpoint())
        assert caught.value.code == -32602
        told.close()
