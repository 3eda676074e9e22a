"""A profile that conceals: a tool that may not be called looks like one that does not exist."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from http_gateway import CONFIG, Gateway, gateway

SECRET, NOTHING = "forbidden", "phantoms2"
HIDDEN: dict[str, Any] = {
    **CONFIG,
    "profiles": {**CONFIG["profiles"], "work": {"rules": [{"allow": "add"}], "conceal": True}},
}


def plain(text: bytes, name: str) -> Any:
    """An answer without names and ids, and with times that begin with 0."""
    shown = text.decode().replace(name, "NAME")
    shown = re.sub(r"\bc[0-9a-f]{15,}\b", "CALL", shown)
    shown = re.sub(r"\b[0-9a-f]{12,}\.\d+(?=\.\d)", "RUN", shown)
    value = json.loads(shown)
    told = [each for kind in ("events", "calls") for each in value.get(kind, ())]
    for each in reversed(told):
        each["time"] -= told[0]["time"]
    return value


async def answers(gate: Gateway, name: str, way: str) -> tuple[int, Any]:
    made = await gate.call(name, {"q": 1}, who="ci")
    call = made.json()["call_id"]
    path = {
        "calls.get": f"/v1/calls/{call}",
        "calls.trail": f"/v1/calls/{call}/trail",
        "calls.list": f"/v1/calls?tool={name}",
        "calls.denied": f"/v1/calls?tool={name}&status=denied",
        "calls.reason": f"/v1/calls?tool={name}&reason=not_in_profile",
        "tools.get": f"/v1/tools/{name}",
    }.get(way)
    if path is None:
        body = {"name": name, "arguments": {"q": 1}}
        found = await gate.ask("POST", "/v1/explain", body, who="ci")
    else:
        found = await gate.ask("GET", path, who="ci")
    return found.status, plain(found.body, name)


@pytest.mark.parametrize(
    "way",
    [
        "calls.get", "calls.trail", "calls.list", "calls.denied", "calls.reason", "tools.get",
        "explain",
    ],
)  # fmt: skip
async def test_no_method_tells_a_concealed_tool_from_none(way: str) -> None:
    async with gateway(config=HIDDEN) as gate:
        assert await answers(gate, SECRET, way) == await answers(gate, NOTHING, way)


async def test_those_who_may_look_see_what_it_was() -> None:
    async with gateway(config=HIDDEN) as gate:
        call = (await gate.call(SECRET, {}, who="ci")).json()["call_id"]
        got = await gate.ask("GET", f"/v1/calls/{call}", who="boss")
        assert got.reason == "not_in_profile"
        trail = (await gate.ask("GET", f"/v1/calls/{call}/trail", who="boss")).json()["events"]
        assert trail[-1]["type"] == "call.denied"
        listed = (await gate.ask("GET", f"/v1/calls?tool={SECRET}", who="boss")).json()["calls"]
        assert listed[0]["reason"] == "not_in_profile"
        said = await gate.ask("POST", "/v1/explain", {"name": SECRET}, who="boss")
        assert said.json()["reason"] == "not_in_profile"


async def test_what_is_told_is_what_can_be_looked_for() -> None:
    async with gateway(config=HIDDEN) as gate:
        for _ in range(3):
            await gate.call(SECRET, {}, who="ci")
            await gate.call("add", {"a": 1, "b": 2}, who="ci")

        async def found(query: str, who: str) -> list[str]:
            answer = await gate.ask("GET", f"/v1/calls?{query}", who=who)
            return [each["tool"] for each in answer.json()["calls"]]

        assert await found("reason=unknown_tool&limit=2", "ci") == [SECRET] * 2
        assert await found("reason=not_in_profile", "ci") == []
        assert await found("reason=not_in_profile", "boss") == [SECRET] * 3
        assert await found("status=ok&limit=3", "ci") == ["add"] * 3


async def test_which_providers_there_are_is_not_for_everybody() -> None:
    async with gateway() as gate:
        told = (await gate.ask("GET", "/v1/health", who="ci")).json()
        assert told == {"status": "ok", "checks": []}
        checks = (await gate.ask("GET", "/v1/health", who="boss")).json()["checks"]
        assert [each["name"] for each in checks] == ["trail"]


async def test_the_question_of_somebody_else_looks_like_none() -> None:
    async with gateway() as gate:
        call = asyncio.ensure_future(gate.call("risky", {"what": "x"}, who="boss"))
        found: list[Any] = []
        while not found:
            found = (await gate.ask("GET", "/v1/approvals", who="boss")).json()["approvals"]
        theirs, none = found[0]["id"], "a" + "0" * 12
        said = [await gate.ask("GET", f"/v1/approvals/{one}", who="ci") for one in (theirs, none)]
        assert said[0].body.replace(theirs.encode(), b"ID") == said[1].body.replace(
            none.encode(), b"ID"
        )
        await gate.ask("POST", f"/v1/approvals/{theirs}", {"allow": False}, who="boss")
        await call
