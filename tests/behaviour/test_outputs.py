"""What comes back: plain JSON values, within limits, without secrets."""

from __future__ import annotations

import datetime as dt
import enum
import json
import logging
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import msgspec
import pydantic
import pytest
from support import allowing

from toolcrib import ToolContext, ToolFailure, ToolHost, ToolResult, tool
from toolcrib.core.result import Failure


@dataclass
class Part:
    id: int
    tags: set[str] = field(default_factory=set)


class Packed(msgspec.Struct):
    part: Part
    when: dt.date


class Model(pydantic.BaseModel):
    name: str
    parts: list[Part] = []


class Colour(enum.Enum):
    RED = "red"


UTC = dt.UTC


def returning(value: Any, **fields: Any) -> Any:
    """A tool that returns this value."""

    @tool(**{"name": "give", "effects": {"read"}, **fields})
    async def give() -> Any:
        return value() if callable(value) else value

    return give


@pytest.mark.parametrize(
    ("value", "output"),
    [
        (None, None),
        (True, True),
        (2**70, 2**70),
        ("text", "text"),
        (Part(1, {"a"}), {"id": 1, "tags": ["a"]}),
        (
            Packed(Part(2), dt.date(2024, 5, 1)),
            {"part": {"id": 2, "tags": []}, "when": "2024-05-01"},
        ),
        (Model(name="m", parts=[Part(3)]), {"name": "m", "parts": [{"id": 3, "tags": []}]}),
        ({"deep": [Model(name="m"), (1, 2)]}, {"deep": [{"name": "m", "parts": []}, [1, 2]]}),
        ({"s"}, ["s"]),
        (frozenset(), []),
        (dt.datetime(2024, 5, 1, 12, tzinfo=UTC), "2024-05-01T12:00:00Z"),
        (b"abc", "YWJj"),
        (Colour.RED, "red"),
        ({Colour.RED: 1}, {"red": 1}),
        ({1: "one"}, {"1": "one"}),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (range(3), [0, 1, 2]),
        (PurePosixPath("a/b"), "a/b"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_values_arrive_as_json(value: Any, output: Any) -> None:
    async with ToolHost([returning(value)]) as host:
        result = await host.call("give")
        assert (result.status, result.output) == ("ok", output)
        assert json.loads(json.dumps(result.to_dict()))["output"] == output
        events = await host.trail(call_id=result.call_id)
        assert events[-1].data["output"] == output


async def test_decimals_keep_their_value() -> None:
    async with ToolHost([returning(Decimal("1.50"))]) as host:
        result = await host.call("give")
        assert Decimal(str(result.output)) == Decimal("1.50")
        json.dumps(result.to_dict())


def circle() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


class Loose:
    """Not a JSON value, and its spelling tells an address."""


NOT_JSON = {
    "object": Loose(),
    "object inside": {"a": [Loose()]},
    "function": lambda: len,
    "nan": float("nan"),
    "infinity inside": [1.0, float("inf")],
    "half a pair": "\ud800",
    "circle": circle,
    "generator": lambda: (n for n in range(3)),
    "made when called": lambda: {"a": object()},
    "odd keys": {(1, 2): 3},
}


@pytest.mark.parametrize("value", NOT_JSON.values(), ids=NOT_JSON.keys())
async def test_what_is_no_json_is_an_invalid_output(value: Any) -> None:
    async with ToolHost([returning(value), returning(1, name="fine")]) as host:
        result = await host.call("give")
        assert (result.status, result.reason) == ("error", "invalid_output"), result
        assert result.output is None
        assert "0x" not in str(result.to_dict())
        assert (await host.trail(call_id=result.call_id))[-1].data["reason"] == "invalid_output"
        assert (await host.call("fine")).success


@pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=str)
async def test_a_number_that_is_none_does_not_slip_through_the_short_way(value: float) -> None:
    @tool(effects={"read"}, inline=True)
    def ratio() -> float:
        return value

    async with ToolHost([ratio]) as host:
        assert (await host.call("ratio")).reason == "invalid_output"


async def test_an_output_that_breaks_its_schema_is_told_with_the_place() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    async with ToolHost([returning({"n": "x"}, output_schema=schema)]) as host:
        result = await host.call("give")
        assert result.reason == "invalid_output"
        assert result.error.details["problems"][0]["path"] == "n"
    async with ToolHost([returning({"n": 1}, output_schema=schema)]) as host:
        assert (await host.call("give")).success


async def test_the_annotated_output_is_held_to() -> None:
    @tool(effects={"read"}, inline=True)
    def count() -> int:
        return "three"  # type: ignore[return-value]

    async with ToolHost([count]) as host:
        assert (await host.call("count")).reason == "invalid_output"


SMALL = {"host": {"max_output": 100}}


@pytest.mark.parametrize(
    ("value", "size"), [("x" * 500, 500), (["x" * 500], 504)], ids=["text", "list"]
)
async def test_output_over_the_limit_is_cut_visibly(value: Any, size: int) -> None:
    async with ToolHost([returning(value)], config=SMALL) as host:
        result = await host.call("give")
        assert result.success
        assert (result.truncated.original, result.truncated.kept) == (size, 100)
        assert "cut" in result.output
        assert len(result.output) < 200
        assert result.to_dict()["truncated"] == {"from": size, "to": 100}


async def test_output_within_the_limit_is_whole() -> None:
    async with ToolHost([returning("x" * 98)], config=SMALL) as host:
        result = await host.call("give")
        assert (result.output, result.truncated) == ("x" * 98, None)


async def test_the_trail_keeps_a_part_with_size_and_hash() -> None:
    config = {"host": {"audit": {"capture": 50}}}
    async with ToolHost([returning("y" * 500)], config=config) as host:
        result = await host.call("give")
        assert result.output == "y" * 500
        data = (await host.trail(call_id=result.call_id))[-1].data
        assert data["output_size"] == 502
        assert len(data["output"]) < 150
        assert data["output_hash"]


async def test_a_result_that_the_tool_made_itself() -> None:
    blocks = [{"type": "text", "text": "hello"}]

    @tool(effects={"read"}, name="give")
    async def give(ctx: ToolContext) -> Any:
        return ToolResult(
            call_id="forged", output={"n": Part(1)}, content=blocks, metadata={"part": Part(2)}
        )

    async with ToolHost([give]) as host:
        result = await host.call("give")
        assert result.call_id != "forged"
        assert result.output == {"n": {"id": 1, "tags": []}}
        assert result.content == blocks
        assert result.metadata == {"part": {"id": 2, "tags": []}}
        json.dumps(result.to_dict())


ODD_RESULTS = {
    "unknown status": lambda: ToolResult(status="splendid"),  # type: ignore[arg-type]
    "denied without a word": lambda: ToolResult(status="denied"),
    "error without a word": lambda: ToolResult(status="error"),
    "error that is text": lambda: ToolResult(status="error", error="no"),  # type: ignore[arg-type]
    "content that is no list": lambda: ToolResult(content=5),  # type: ignore[arg-type]
    "details that are no json": lambda: ToolResult(
        status="error", error=Failure(reason="tool_error", message="m", details={"o": Loose()})
    ),
}


@pytest.mark.parametrize("value", ODD_RESULTS.values(), ids=ODD_RESULTS.keys())
async def test_a_result_that_is_none_is_put_right(value: Any) -> None:
    async with ToolHost([returning(value)]) as host:
        result = await host.call("give")
        assert result.status in ("error", "denied")
        assert result.reason
        json.dumps(result.to_dict())
        ending = (await host.trail(call_id=result.call_id))[-1]
        assert (ending.data["status"], ending.data["reason"]) == (result.status, result.reason)


async def test_details_of_a_failure_are_json_too() -> None:
    @tool(effects={"read"}, name="give")
    async def give() -> Any:
        raise ToolFailure("no", details={"part": Part(1), "odd": Loose()})

    async with ToolHost([give]) as host:
        result = await host.call("give")
        assert result.status == "error"
        json.dumps(result.to_dict())


SECRET = "k9-Pq/77+zz secret"


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A configuration into which a secret came from the environment."""
    monkeypatch.setenv("TOOLCRIB_TEST_SECRET", SECRET)
    return {
        "host": {"max_output": 1000},
        "principals": {"ann": {"attributes": {"key": "${TOOLCRIB_TEST_SECRET}"}}},
        **allowing(),
    }


async def assert_hidden(host: ToolHost, result: ToolResult) -> None:
    assert SECRET not in json.dumps(result.to_dict())
    assert SECRET not in str([event.to_dict() for event in await host.trail()])


def giving(how: str) -> Any:
    """A tool that lets the secret out in some way."""

    @tool(effects={"read"}, name="leak")
    async def leak(ctx: ToolContext, text: str = "") -> Any:
        ctx.emit("leak", value=SECRET)
        match how:
            case "output":
                return f"the key is {SECRET}!"
            case "deep":
                return {"a": [{"b": SECRET}]}
            case "key":
                return {SECRET: 1}
            case "content":
                return ToolResult(content=[{"type": "text", "text": SECRET}])
            case "metadata":
                return ctx.ok("fine", key=SECRET)
            case "failure":
                raise ToolFailure(f"cannot use {SECRET}", details={"used": SECRET})
            case "denial":
                return ctx.deny("action_not_allowed", f"not with {SECRET}", used=SECRET)
            case "bug":
                raise RuntimeError(f"failed with {SECRET}")
            case _:
                return "nothing"

    return leak


WAYS = ["output", "deep", "key", "content", "metadata", "failure", "denial", "bug"]


@pytest.mark.parametrize("how", WAYS)
async def test_a_secret_of_the_configuration_leaves_nowhere(how: str, config: Any) -> None:
    async with ToolHost([giving(how)], config=config) as host:
        result = await host.call("leak", {"text": SECRET})
        await assert_hidden(host, result)


async def test_a_secret_is_not_in_the_log(config: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with ToolHost([giving("bug")], config=config) as host:
            result = await host.call("leak")
            assert result.reason == "unexpected_failure"
    assert "leak" in caplog.text
    assert SECRET not in caplog.text


async def test_a_cut_does_not_leave_half_a_secret(config: Any) -> None:
    text = "x" * (1000 - len(SECRET) + 3) + SECRET + "y" * 500
    async with ToolHost([returning(text)], config=config) as host:
        result = await host.call("give")
        assert result.truncated is not None
        assert SECRET[: len(SECRET) - 3] not in result.output
        data = (await host.trail(call_id=result.call_id))[-1].data
        assert SECRET[: len(SECRET) - 3] not in str(data)


async def test_a_refusal_does_not_spell_a_secret_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCRIB_TEST_SECRET", SECRET)
    rule = {
        "allow": "leak",
        "when": {"arguments": {"text": {"in": ["${TOOLCRIB_TEST_SECRET}"]}}},
    }
    config = {"profiles": {"only": {"rules": [rule]}}}
    async with ToolHost([giving("nothing")], config=config) as host:
        result = await host.call("leak", {"text": "guess"})
        assert result.status == "denied"
        await assert_hidden(host, result)
        assert SECRET not in str(host.explain("leak", {"text": "guess"}).to_dict())


async def test_telling_keys_are_hidden_on_the_trail_only() -> None:
    @tool(effects={"read"}, name="login")
    async def login(user: str, password: str) -> dict[str, str]:
        return {"user": user, "session_token": "t0-12345"}

    async with ToolHost([login]) as host:
        result = await host.call("login", {"user": "ann", "password": "hunter2"})
        assert result.output == {"user": "ann", "session_token": "t0-12345"}
        told = str([event.to_dict() for event in await host.trail(call_id=result.call_id)])
        assert "ann" in told
        assert "hunter2" not in told
        assert "t0-12345" not in told


async def test_what_a_caller_gets_does_not_depend_on_unrelated_secrets(config: Any) -> None:
    value = {"session_token": "t0-12345", "plain": 1}
    async with ToolHost([returning(value)], config=config) as host:
        assert (await host.call("give")).output == value
