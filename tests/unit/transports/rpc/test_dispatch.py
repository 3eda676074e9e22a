"""Requests on one connection: at the same time, each answered once, none mixed up."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from executing import until
from rpc_peer import Peer, caller_of, connected, serving
from toolcrib import ToolContext, ToolHost, tool
from toolcrib.core.serving import ServeSettings
from toolcrib.testing import ApprovalSimulator, EventRecorder, make_host


@tool(effects=["read"])
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


class Gate:
    """Tools that wait until a test lets them go on."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.started = 0

    def tool(self) -> Any:
        @tool(effects=["read"])
        async def wait(n: int) -> int:
            """Wait."""
            self.started += 1
            await self.go.wait()
            return n

        return wait


def plain(name: str, arguments: Any, id: Any) -> str:
    """A call as most clients write it."""
    params = {"name": name, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": id, "method": "tools.call", "params": params}
    return json.dumps(message, separators=(",", ":"))


@pytest.mark.parametrize("spaced", [False, True], ids=["compact", "spaced"])
async def test_a_call_is_answered_by_the_plain_result(spaced: bool) -> None:
    async with serving(ToolHost([add])) as service, connected(service) as peer:
        text = plain("add", {"a": 1, "b": 2}, "x")
        await peer.send(json.dumps(json.loads(text)) if spaced else text)
        answer = await peer.answer("x")
        inside = (await service.host.call("add", {"a": 1, "b": 2})).to_dict()
        assert answer["result"].pop("call_id") != inside.pop("call_id")
        assert answer == {"jsonrpc": "2.0", "id": "x", "result": inside}


async def test_a_failed_call_is_a_result_too() -> None:
    async with serving(ToolHost([add])) as service, connected(service) as peer:
        result = await peer.call("add", {"a": 1})
        assert (result["status"], result["error"]["reason"]) == ("error", "invalid_arguments")
        assert (await peer.call("nothing"))["error"]["reason"] == "unknown_tool"


async def test_answers_come_when_they_are_ready() -> None:
    gate = Gate()
    async with serving(ToolHost([add, gate.tool()])) as service, connected(service) as peer:
        for n in range(50):
            await peer.send(plain("wait", {"n": n}, n))
        assert (await peer.call("add", {"a": 1, "b": 1}))["output"] == 2
        assert not any(n in peer.answers for n in range(50))
        gate.go.set()
        for n in range(50):
            assert (await peer.answer(n))["result"]["output"] == n


async def test_the_trail_names_door_and_session() -> None:
    async with serving(ToolHost([add])) as service, connected(service) as peer:
        recorder = EventRecorder(service.host)
        info = await peer.request("host.info")
        await peer.call("add", {"a": 1, "b": 2})
        data = recorder.only("call.received")[0].data
        assert (data["door"], data["session"]) == ("stdio", info["session"])
        assert "tools.register" in info["methods"]
        assert info["capabilities"]["client_tools"] is True


async def test_an_id_in_use_is_refused_and_not_answered_twice() -> None:
    gate = Gate()
    async with serving(ToolHost([gate.tool()])) as service, connected(service) as peer:
        await peer.send(plain("wait", {"n": 1}, 7))
        await peer.send(plain("wait", {"n": 2}, 7))
        refusal = await peer.answer(None)
        assert refusal["error"]["code"] == -32600
        assert "7" in refusal["error"]["message"]
        await peer.send(plain("wait", {"n": 3}, "7"))  # text is another id than the number
        gate.go.set()
        assert (await peer.answer(7))["result"]["output"] == 1
        assert (await peer.answer("7"))["result"]["output"] == 3
        await peer.send(plain("wait", {"n": 4}, 7))  # and now it is free again
        await peer.until(lambda: peer.answers[7]["result"]["output"] == 4)
        assert gate.started == 3


async def test_too_many_requests_are_refused() -> None:
    gate = Gate()
    async with (
        serving(ToolHost([gate.tool()])) as service,
        connected(service, most_requests=3) as peer,
    ):
        for n in range(5):
            await peer.send(plain("wait", {"n": n}, n))
        for n in (3, 4):
            error = (await peer.answer(n))["error"]
            assert (error["code"], error["data"]["error"]["reason"]) == (429, "too_many_calls")
        gate.go.set()
        for n in range(3):
            assert (await peer.answer(n))["result"]["output"] == n


async def test_a_batch_is_answered_in_one_text() -> None:
    gate = Gate()
    async with serving(ToolHost([add, gate.tool()])) as service, connected(service) as peer:
        batch = [
            json.loads(plain("wait", {"n": 5}, 1)),
            {"jsonrpc": "2.0", "method": "tools.call", "params": {"name": "add"}},
            json.loads(plain("add", {"a": 1, "b": 2}, 2)),
            "nonsense",
            {"jsonrpc": "2.0", "id": 3, "method": "no.such"},
        ]
        await peer.send(batch)
        await until(lambda: gate.started)
        assert peer.came == []
        gate.go.set()
        await peer.until(lambda: peer.came)
        (answers,) = peer.came
        assert {answer["id"] for answer in answers} == {1, 2, None, 3}
        assert len(answers) == 4
        assert peer.answers[2]["result"]["output"] == 3
        assert peer.answers[3]["error"]["code"] == -32601


async def test_a_batch_of_notifications_is_not_answered() -> None:
    async with serving(ToolHost([add])) as service, connected(service) as peer:
        await peer.send([{"jsonrpc": "2.0", "method": "host.info"}])
        await peer.send([])
        assert (await peer.answer(None))["error"]["code"] == -32600
        await peer.request("host.info")
        assert len(peer.came) == 2


async def test_a_notification_is_done_and_not_answered() -> None:
    gate = Gate()
    async with serving(ToolHost([gate.tool()])) as service, connected(service) as peer:
        await peer.notify("tools.call", {"name": "wait", "arguments": {"n": 1}})
        await until(lambda: gate.started)
        gate.go.set()
        await peer.request("host.health")
        assert len(peer.came) == 1


FAULTS: dict[str, tuple[str, Any, int, str]] = {
    "unknown": ("tools.nothing", {}, -32601, "unknown_method"),
    "missing": ("tools.get", {}, -32602, "invalid_request"),
    "misspelt": ("tools.list", {"prefex": "a"}, -32602, "invalid_request"),
    "call without name": ("tools.call", {}, -32602, "invalid_request"),
    "call as list": ("tools.call", ["add"], -32602, "invalid_request"),
    "register misspelt": ("tools.register", {"tool": []}, -32602, "invalid_request"),
    "unregister without names": ("tools.unregister", None, -32602, "invalid_request"),
    "subscribe misspelt": ("events.subscribe", {"type": "a"}, -32602, "invalid_request"),
    "unsubscribe unknown": ("events.unsubscribe", {"subscription": "e9"}, 404, "not_found"),
    "no right": ("host.reload", {}, 403, "not_permitted"),
    "unknown call": ("calls.get", {"id": "c1"}, 404, "not_found"),
    "cancel of nonsense": ("calls.cancel", {"request": [1]}, -32602, "invalid_request"),
    "cancel of two": ("calls.cancel", {"request": 1, "id": "c"}, -32602, "invalid_request"),
}


@pytest.mark.parametrize(
    ("method", "params", "code", "reason"), list(FAULTS.values()), ids=list(FAULTS)
)
async def test_faults_have_one_shape(method: str, params: Any, code: int, reason: str) -> None:
    async with serving(ToolHost([add])) as service, connected(service) as peer:
        error = await peer.refused(method, params)
        assert error["code"] == code
        assert error["data"]["error"]["reason"] == reason
        assert error["data"]["status"] in ("error", "denied")
        assert error["message"] == error["data"]["error"]["message"]


@pytest.mark.parametrize("text", ["{", "nonsense", '"text"', "\x00", '{"jsonrpc":"2.0"'], ids=ascii)
async def test_nonsense_is_answered_and_survived(text: str) -> None:
    async with serving(ToolHost([add])) as service, connected(service) as peer:
        await peer.send(text)
        error = (await peer.answer(None))["error"]
        assert error["code"] == (-32600 if text.startswith('"') else -32700)
        assert (await peer.call("add", {"a": 1, "b": 2}))["output"] == 3


async def test_one_call_with_two_ways_to_say_its_arguments_does_not_run() -> None:
    gate = Gate()
    async with serving(ToolHost([gate.tool()])) as service, connected(service) as peer:
        text = plain("wait", {"n": 1}, 1).replace('"n":1', '"n":1,"n":2')
        await peer.send(text)
        assert (await peer.answer(None))["error"]["code"] == -32700
        assert gate.started == 0


@pytest.mark.parametrize("by", ["request", "call"])
async def test_a_call_is_cancelled_while_it_runs(by: str) -> None:
    gate = Gate()
    async with serving(ToolHost([gate.tool()])) as service, connected(service) as peer:
        recorder = EventRecorder(service.host)
        await peer.send(plain("wait", {"n": 1}, 1))
        await until(lambda: gate.started)
        if by == "request":
            await peer.notify("calls.cancel", {"request": 1})
        else:
            found = recorder.only("call.started")[0].call_id
            assert await peer.request("calls.cancel", {"id": found}) == {"cancelled": True}
        result = (await peer.answer(1))["result"]
        assert (result["status"], result["error"]["reason"]) == ("error", "cancelled")


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_cancel_that_comes_with_its_call_counts(store: str, tmp_path: Path) -> None:
    """Also while the call cannot be reached, because it is being written down."""

    @tool(effects=["write"])
    async def change() -> None:
        """Wait."""
        await asyncio.sleep(60)

    host = ToolHost([change], store=store if store == "memory" else f"sqlite:{tmp_path}/store")
    async with serving(host) as service, connected(service) as peer:
        await peer.send(plain("change", {}, 1))
        await peer.notify("calls.cancel", {"request": 1})
        assert (await peer.answer(1))["result"]["error"]["reason"] == "cancelled"


async def test_what_is_no_call_is_cancelled_as_well() -> None:
    gate = Gate()
    async with serving(ToolHost([gate.tool()])) as service, connected(service) as peer:
        recorder = EventRecorder(service.host)
        await peer.send(plain("wait", {"n": 1}, 1))
        await until(lambda: gate.started)
        found = recorder.only("call.started")[0].call_id
        asked = await peer.begin("calls.get", {"id": found, "wait": None})
        await asyncio.sleep(0.01)
        assert (await peer.request("calls.cancel", {"request": asked})) == {"cancelled": True}
        assert (await peer.answer(asked))["error"]["data"]["error"]["reason"] == "cancelled"
        gate.go.set()
        assert (await peer.answer(1))["result"]["output"] == 1


async def test_nobody_cancels_the_request_of_another_connection() -> None:
    gate = Gate()
    async with (
        serving(ToolHost([gate.tool()])) as service,
        connected(service) as peer,
        connected(service) as other,
    ):
        await peer.send(plain("wait", {"n": 1}, 1))
        await until(lambda: gate.started)
        assert await other.request("calls.cancel", {"request": 1}) == {"cancelled": False}
        gate.go.set()
        assert (await peer.answer(1))["result"]["output"] == 1


async def test_equal_ids_of_many_connections_do_not_cross() -> None:
    async def one(peer: Peer, number: int) -> None:
        for n in range(40):
            await peer.send(plain("add", {"a": number * 1000, "b": n}, n))
        for n in range(40):
            assert (await peer.answer(n))["result"]["output"] == number * 1000 + n

    async with (
        serving(ToolHost([add])) as service,
        connected(service, caller_of("a")) as a,
        connected(service, caller_of("b")) as b,
        connected(service, caller_of("c")) as c,
    ):
        await asyncio.gather(one(a, 1), one(b, 2), one(c, 3))


async def test_closing_cancels_what_runs_and_ends_the_session() -> None:
    stopped: list[str] = []

    @tool(effects=["read"])
    async def slow(ctx: ToolContext) -> None:
        """Wait."""
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append(ctx.session_id)

    async with serving(ToolHost([slow])) as service:
        recorder = EventRecorder(service.host)
        async with connected(service) as peer:
            session = (await peer.request("host.info"))["session"]
            await peer.begin("tools.call", {"name": "slow"})
            await recorder.wait_for("call.started")
        assert stopped == [session]
        assert service.host.callers.sessions == {}
        assert recorder.only("call.finished")[0].data["reason"] == "cancelled"
        assert len(recorder.only("session.closed")) == 1


async def test_closing_leaves_a_question_to_people() -> None:
    host = make_host(
        [add],
        profile={"rules": [{"ask": "add"}]},
        approver=ApprovalSimulator(default="escalate"),
    )
    async with serving(host) as service:
        async with connected(service) as peer:
            await peer.begin("tools.call", {"name": "add", "arguments": {"a": 1, "b": 2}})
            await peer.notification("approval.requested")
        (pending,) = await host.approvals.list()
        assert pending.state == "pending"


async def test_a_call_that_may_go_on_does_when_its_connection_ends() -> None:
    gate = Gate()
    async with serving(ToolHost([gate.tool()])) as service:
        async with connected(service) as peer:
            state = await peer.call("wait", {"n": 1}, wait=0.01)
            assert state["state"] == "running"
            await peer.begin("tools.call", {"name": "wait", "arguments": {"n": 2}, "key": "k"})
            await until(lambda: gate.started == 2)
        gate.go.set()
        async with connected(service) as peer:
            found = await peer.request("calls.get", {"id": state["call_id"], "wait": 5})
            assert found["output"] == 1
            assert (await peer.call("wait", {"n": 2}, key="k"))["output"] == 2
        assert gate.started == 2


async def test_draining_lets_what_runs_end() -> None:
    gate = Gate()
    async with serving(ToolHost([gate.tool()])) as service, connected(service) as peer:
        await peer.send(plain("wait", {"n": 1}, 1))
        await until(lambda: gate.started)
        draining = asyncio.ensure_future(peer.connection.drain(20))
        await asyncio.sleep(0.01)
        assert not draining.done()
        gate.go.set()
        await draining
        assert peer.answers[1]["result"]["output"] == 1


async def test_nothing_stays_behind() -> None:
    async with serving(ToolHost([add]), ServeSettings()) as service:
        before = len(asyncio.all_tasks())
        for _ in range(5):
            async with connected(service) as peer:
                await asyncio.gather(*(peer.call("add", {"a": n, "b": 1}) for n in range(20)))
                await peer.request("events.subscribe", {})
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == before
        assert not service.host.bus.heard
