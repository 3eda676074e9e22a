"""One behaviour at every door: the same calls, and results compared whole.

What may differ is masked: ids, and times.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from doorways import DOORS, Door, Wrong, open_door

_ID = re.compile(r"\b(?:c[0-9a-f]{16,}|[ksag][0-9a-f]{12,}|g[0-9a-f]{12})\d*\b")


def masked(result: Any) -> Any:
    """A result without what differs from call to call."""
    text = _ID.sub("ID", json.dumps(result, sort_keys=True, ensure_ascii=False))
    return json.loads(re.sub(r'"(retry_after|expires|created)": [\d.]+', r'"\1": 0', text))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reference(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Door]:
    async with open_door("python", tmp_path_factory.mktemp("project") / "project") as door:
        yield door


@pytest_asyncio.fixture(params=DOORS, scope="module", loop_scope="module")
async def door(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Door]:
    async with open_door(request.param, tmp_path_factory.mktemp("project") / "project") as opened:
        yield opened


pytestmark = pytest.mark.asyncio(loop_scope="module")


CALLS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "ok": ("add", {"a": 1, "b": 2}, {}),
    "a default filled in": ("add", {"a": 1}, {}),
    "nested output": ("nested", {"depth": 20}, {}),
    "wrong type": ("add", {"a": "one"}, {}),
    "missing argument": ("add", {}, {}),
    "no arguments": ("add", None, {}),
    "unknown argument": ("add", {"a": 1, "c": 3}, {}),
    "unknown tool": ("ad", {"a": 1}, {}),
    "denied with rule and line": ("wipe", {"disk": "sda"}, {}),
    "outside the profile": ("nested", {}, {"profile": "narrow"}),
    "no such profile": ("add", {"a": 1}, {"profile": "nobody"}),
    "no such session": ("add", {"a": 1}, {"session": "s0000000000000000"}),
    "failure in words": ("failing", {"code": 3}, {}),
    "unexpected failure": ("broken", {}, {}),
    "timeout of the tool": ("late", {}, {}),
    "timeout of the caller": ("slow", {"seconds": 20}, {"timeout": 0.2}),
    "cut output": ("large", {"size": 5000}, {}),
    "composition": ("sum_all", {"numbers": [1, 2, 3, 4]}, {}),
    "composition does not widen": ("reach", {}, {}),
    "newest version": ("greet", {"name": "Ada"}, {}),
    "named version": ("greet@1", {"name": "Ada"}, {}),
    "unicode": ("echo", {"text": 'naïve 日本語 🛠️ \u0000 \u2028 " \\ \x7f'}, {}),
    "folder": ("where", {}, {}),
}


@pytest.mark.parametrize("case", CALLS)
async def test_a_call_ends_the_same(door: Door, reference: Door, case: str) -> None:
    name, arguments, given = CALLS[case]
    here = await reference.raw(name, arguments, **given)
    there = await door.raw(name, arguments, **given)
    assert masked(json.loads(there)) == masked(json.loads(here))
    # Byte for byte, but for the id.
    assert _ID.sub("ID", there.decode()) == _ID.sub("ID", here.decode())
    assert b"Traceback" not in there
    assert b"secret words" not in there


async def test_a_megabyte_passes_both_ways(door: Door) -> None:
    text = "ä0123456789" * 85_000
    result = await door.call("echo", {"text": text})
    assert result["truncated"]["from"] == len(text), result["error"]
    whole = await door.request("calls.output", {"id": result["call_id"]})
    assert whole["text"] == text


async def test_two_hundred_at_the_same_time(door: Door) -> None:
    results = await asyncio.gather(*(door.call("add", {"a": n, "b": n}) for n in range(200)))
    assert [result["output"] for result in results] == [2 * n for n in range(200)]
    assert len({result["call_id"] for result in results}) == 200


async def test_explain_says_the_same(door: Door, reference: Door) -> None:
    for name, arguments in (("wipe", {"disk": "sda"}), ("deploy", {"env": "prod"}), ("ad", {})):
        asked = {"name": name, "arguments": arguments}
        there, here = (
            await door.request("explain", asked),
            await reference.request("explain", asked),
        )
        assert there == here
    assert there["verdict"] == "deny"


async def test_the_same_tools_are_listed(door: Door, reference: Door) -> None:
    here = await reference.request("tools.list", {"limit": 1000})
    there = await door.request("tools.list", {"limit": 1000})
    assert there == here
    assert there["total"] > 10
    names = {tool["name"] for tool in there["tools"]}
    assert "wipe" not in names
    assert "add" in names
    narrow = await door.request("tools.list", {"profile": "narrow"})
    assert [tool["name"] for tool in narrow["tools"]] == ["add"]


async def test_what_is_wrong_with_a_request_has_one_shape(door: Door, reference: Door) -> None:
    for method, params in (
        ("calls.get", {"id": "c-nothing"}),
        ("tools.get", {"name": "wipe"}),
        ("approvals.decide", {"id": "a-nothing", "allow": True}),
        ("sessions.get", {"id": "s-nothing"}),
        ("tools.list", {"limit": 0}),
    ):
        said: list[Any] = []
        for each in (door, reference):
            try:
                answer = await each.request(method, params)
            except Wrong as wrong:
                answer = wrong.said
            said.append({k: answer["error"][k] for k in ("reason", "message", "details")})
        assert said[0] == said[1]


# People.


async def pending(door: Door, before: set[str]) -> dict[str, Any]:
    async with asyncio.timeout(10):
        while True:
            found = (await door.request("approvals.list"))["approvals"]
            new = [request for request in found if request["id"] not in before]
            if new:
                return new[-1]
            await asyncio.sleep(0.02)


async def asked(door: Door, arguments: dict[str, Any], **given: Any) -> tuple[Any, dict[str, Any]]:
    known = {r["id"] for r in (await door.request("approvals.list"))["approvals"]}
    calling = asyncio.ensure_future(door.call("deploy", arguments, **given))
    return calling, await pending(door, known)


ANSWERS: dict[str, dict[str, Any]] = {
    "allowed": {"allow": True},
    "allowed with a note": {"allow": True, "note": "go ahead"},
    "refused": {"allow": False, "note": "not today"},
    "edited": {"allow": True, "arguments": {"env": "staging", "version": 7}},
}


@pytest.mark.parametrize("answer", ANSWERS)
async def test_a_person_answers(door: Door, reference: Door, answer: str) -> None:
    results: list[Any] = []
    for each in (door, reference):
        calling, request = await asked(each, {"env": "prod", "version": len(answer)})
        assert request["tool"] == "deploy"
        assert request["message"] == "somebody has to say yes"
        assert not calling.done()
        decided = await each.request("approvals.decide", {"id": request["id"], **ANSWERS[answer]})
        assert decided["state"] == ("allowed" if ANSWERS[answer]["allow"] else "denied")
        results.append(masked(await calling))
    assert results[0] == results[1]
    if answer == "edited":
        assert results[0]["output"] == "version 7 on staging"


async def test_nobody_answers(door: Door, reference: Door) -> None:
    results = [
        masked(await each.call("deploy", {"env": "prod"}, profile="hasty"))
        for each in (door, reference)
    ]
    assert results[0] == results[1]
    assert results[0]["error"]["reason"] == "approval_expired"


# While it runs.


async def test_progress_is_told(door: Door) -> None:
    heard: list[tuple[float | None, str | None]] = []
    result = await door.followed("steps", {"count": 3}, lambda f, m: heard.append((f, m)))
    assert result["output"] == 3
    assert heard == [(1 / 3, "step 1"), (2 / 3, "step 2"), (1.0, "step 3")]


async def test_a_call_is_cancelled_from_elsewhere(door: Door, reference: Door) -> None:
    results: list[Any] = []
    for each in (door, reference):
        calling = asyncio.ensure_future(each.call("slow", {"seconds": 30}))
        going = await _going(each)
        assert (await each.request("calls.cancel", {"id": going}))["cancelled"]
        results.append(masked(await calling))
    assert results[0] == results[1]
    assert results[0]["error"]["reason"] == "cancelled"


async def _going(door: Door) -> str:
    """The id of the call of `slow` that runs, as soon as it does."""
    async with asyncio.timeout(10):
        while True:
            calls = (await door.request("calls.list", {"tool": "slow", "limit": 50}))["calls"]
            for call in calls:
                if call["status"] is None:
                    return call["id"]
            await asyncio.sleep(0.02)


# Sessions and changes.


async def test_a_session_scoped_tool_counts_in_its_session(door: Door) -> None:
    one = await door.request("sessions.open", {})
    two = await door.request("sessions.open", {"profile": "worker"})
    counted = [
        (await door.call("counter", {}, session=session["id"]))["output"]
        for session in (one, two, one, one)
    ]
    assert counted == [1, 1, 2, 3]
    assert (await door.request("sessions.close", {"id": one["id"]}))["closed"]
    gone = await door.call("counter", {}, session=one["id"])
    assert gone["error"]["reason"] == "unauthenticated"
    await door.request("sessions.close", {"id": two["id"]})


async def test_tools_that_come_and_go_while_one_is_connected(door: Door) -> None:
    file = door.folder / "tools.py"
    before = file.read_text()
    for turn in range(3):
        name = f"fresh_{turn}"
        assert (await door.call(name))["error"]["reason"] == "unknown_tool"
        file.write_text(
            f'{before}\n\n@tool(effects=["read"])\ndef {name}() -> int:\n    return {turn}\n'
        )
        await door.request("host.reload")
        assert (await door.call(name))["output"] == turn
        assert (await door.request("tools.get", {"name": name}))["name"] == name
        file.write_text(before)
        await door.request("host.reload")
        assert (await door.call(name))["error"]["reason"] == "unknown_tool"


async def test_a_wrong_configuration_keeps_the_old_one(door: Door) -> None:
    file = door.folder / "toolcrib.yaml"
    before = file.read_text()
    file.write_text(before.replace("default: deny", "defualt: deny"))
    try:
        with pytest.raises(Wrong) as wrong:
            await door.request("host.reload")
    finally:
        file.write_text(before)
    assert wrong.value.reason == "config_rejected"
    assert "defualt" in str(wrong.value.said)
    assert (await door.call("add", {"a": 1}))["output"] == 3
