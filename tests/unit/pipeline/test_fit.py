"""A result made fit to leave is the same whether its JSON was looked over first or not."""

from __future__ import annotations

import copy
import datetime as dt
import random
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from toolcrib import Extension, ToolContext, ToolHost, ToolResult, tool
from toolcrib.core.events import CallRecord, decode_record, encode_record
from toolcrib.core.jsontext import is_shallow
from toolcrib.core.result import Failure, ReadResult, Truncated
from toolcrib.core.settings import HostSettings
from toolcrib.observe.redact import HIDDEN, Redactor
from toolcrib.observe.sensitive import forms_of
from toolcrib.pipeline.extensions import wrap
from toolcrib.pipeline.fit import fit
from toolcrib.pipeline.flight import Flight
from toolcrib.pipeline.recorder import Recorder

SECRETS = ["tok_9f8e7d6c5b4a39281706", 'pa"ss\\wo\nrd/é😀x', "48151623421337"]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


class Walking(Redactor):
    """One that never spares itself the walk."""

    def clear(self, data: bytes) -> bool:
        return False


class Part(msgspec.Struct):
    of: Any
    more: Any = None


@pytest.fixture
async def flight() -> AsyncIterator[Flight]:
    """The context of a call."""
    seen: list[ToolContext] = []

    @tool(effects={"read"}, name="give", output_schema=SCHEMA)
    async def give(ctx: ToolContext) -> Any:
        seen.append(ctx)
        return {}

    async with ToolHost([give]) as host:
        assert (await host.call("give")).success
        assert isinstance(seen[0], Flight)
        yield seen[0]


def ended(flight: Flight, result: ToolResult, hider: Redactor, limit: int = 100_000) -> list[Any]:
    """What the caller gets, what is kept of what was cut, and what the trail keeps."""
    kept: list[str] = []

    def keep(call_id: str, principal: str, text: str) -> bool:
        kept.append(text)
        return len(text) % 2 == 0

    flight.shaped = None
    made = fit(flight.plan, flight, result, hider, limit, keep)
    record = flight.record(made, hider, 500)
    fields = ("status", "reason", "message", "output", "output_size", "output_hash", "arguments")
    told = [getattr(record, field) for field in fields]
    return [made, kept, [bytes(t) if isinstance(t, msgspec.Raw) else t for t in told]]


class Maker:
    """Makes what tools return."""

    def __init__(self, seed: int) -> None:
        self.any = random.Random(seed)
        self.forms = sorted({form for secret in SECRETS for form in forms_of(secret)})

    def text(self) -> str:
        """A text, sometimes with a secret in it or a part of one."""
        some = self.any.choice
        if self.any.random() < 0.75:
            return some(["", "type", "a/b", "C:\\users", "…", "line\nline", "null", "x" * 50])
        form = some(self.forms)
        at = self.any.randrange(len(form))
        return some(["", "x ", "… "]) + some([form, form[:at], form[at:]]) + some(["", " y", "…"])

    def value(self, depth: int = 0) -> Any:
        """Something that has a JSON form, in most cases."""
        kind = self.any.random()
        if depth > 2 or kind < 0.4:
            return self.text()
        if kind < 0.6:
            odd = (None, True, 7, -0.5, 48151623421337, Decimal("1.10"), Decimal("1E15"), (1, None))
            odder = (dt.date(2024, 1, 2), b"abc", float("nan"), {1: "x", "1": "y"}, [None, 1.5])
            return self.any.choice([*odd, *odder, msgspec.Raw(b'{"z" : "a\\/\\u0062"}')])
        if kind < 0.7:
            return Part(self.value(depth + 1), self.value(depth + 1))
        if kind < 0.72:
            inner = self.value(depth + 1)
            for _ in range(self.any.choice([62, 64, 66, 150, 190])):
                inner = [inner]
            return inner
        if kind < 0.85:
            return [self.value(depth + 1) for _ in range(self.any.randrange(4))]
        return {self.text(): self.value(depth + 1) for _ in range(self.any.randrange(4))}

    def result(self) -> ToolResult:
        """A result, good or bad."""
        kind = self.any.random()
        blocks = [{"type": "text", "text": self.value()} for _ in range(self.any.randrange(3))]
        metadata = self.any.choice([{}, {"mcp": {"resultType": "complete", "x": self.value()}}])
        output = {"a": self.text()} if kind < 0.4 else self.value()
        if kind > 0.9:
            error = Failure(reason="tool_error", message=self.text(), details={"d": self.text()})
            return ToolResult(status="error", error=error, output=output, content=blocks)
        return ToolResult(
            output=output, content=blocks if self.any.random() < 0.6 else None, metadata=metadata
        )


@pytest.mark.parametrize("secrets", [SECRETS, SECRETS[:1], []], ids=["three", "one", "none"])
async def test_the_look_before_the_walk_changes_nothing(flight: Flight, secrets: Any) -> None:
    quick, walking = Redactor(["*_pin"], secrets), Walking(["*_pin"], secrets)
    make = Maker(seed=5)
    for turn in range(1700):
        result = make.result()
        limit = make.any.choice([60, 300, 100_000, 100_000])
        flight.noted = {"note": "n"} if turn % 9 == 0 else None
        given = {"q": make.text(), "my_pin": "1", "n": make.any.choice([1, 48151623421337])}
        flight.encoded, flight.unchecked = msgspec.json.encode(given), True
        assert ended(flight, result, quick, limit) == ended(flight, result, walking, limit)


@pytest.mark.parametrize("secrets", [SECRETS, []], ids=["three", "none"])
async def test_what_was_read_from_json_ends_as_anything_else(flight: Flight, secrets: Any) -> None:
    hider = Redactor(["*_pin"], secrets)
    make = Maker(seed=6)
    same = 0
    for _ in range(1700):
        result = make.result()
        limit = make.any.choice([60, 300, 100_000])
        try:
            text = msgspec.json.encode([result.output, result.content, result.metadata])
            output, content, metadata = msgspec.json.decode(text)
        except (msgspec.MsgspecError, ValueError):
            continue
        if not is_shallow(text, 60):
            continue  # of a tool's own value so deep not every null can be told from a NaN
        said = {"output": output, "content": content, "metadata": metadata}
        said |= {"status": result.status, "error": result.error}
        flight.noted, flight.encoded = None, b"{}"
        there = ended(flight, ReadResult(**copy.deepcopy(said)), hider, limit)
        assert there == ended(flight, ToolResult(**said), hider, limit)
        assert type(there[0]) is ToolResult
        same += 1
    assert same > 1000


async def test_an_extension_may_change_what_was_read(flight: Flight) -> None:
    class Dated(Extension):
        async def after_execute(self, ctx: ToolContext, result: ToolResult) -> ToolResult:
            assert type(result) is ToolResult
            return msgspec.structs.replace(result, output={"a": dt.date(2024, 1, 2)})

    async def inner(ctx: ToolContext) -> ToolResult:
        return ReadResult(call_id="c1", output={"a": "x"}, metadata={"m": 1})

    changed = await wrap(inner, [Dated()])(flight)
    made, _, _ = ended(flight, changed, Redactor(secrets=SECRETS))
    assert (made.output, made.metadata) == ({"a": "2024-01-02"}, {"m": 1})


async def test_what_a_tool_changes_later_has_left_already(flight: Flight) -> None:
    output, blocks, more = {"a": "x"}, [{"type": "text", "text": "x"}], {"m": {"n": 1}}
    result = ToolResult(output=output, content=blocks, metadata=more)
    made, _, _ = ended(flight, result, Redactor(secrets=SECRETS))
    output["a"], blocks[0]["text"], more["m"]["n"] = "y", "y", 2
    assert (made.output, made.content, made.metadata) == (
        {"a": "x"},
        [{"type": "text", "text": "x"}],
        {"m": {"n": 1}},
    )


@pytest.mark.parametrize("where", ["output", "content", "metadata"])
async def test_a_secret_is_hidden_wherever_it_stands(flight: Flight, where: str) -> None:
    said: dict[str, Any] = {"output": {"a": "x"}, "content": [{"text": "x"}], "metadata": {}}
    said[where] = [{"text": SECRETS[0]}] if where == "content" else {"a": SECRETS[0]}
    made, _, told = ended(flight, ToolResult(**said), Redactor(secrets=SECRETS))
    assert made.success
    assert SECRETS[0] not in str(made) + str(told)
    assert HIDDEN in str(getattr(made, where))


@pytest.mark.parametrize("value", [[None, float("nan")], {"a": None, "b": [float("inf")]}], ids=str)
async def test_a_nan_beside_a_null_is_no_json(flight: Flight, value: Any) -> None:
    for said in ({"output": value}, {"metadata": {"m": value}}, {"content": [{"text": value}]}):
        made, _, _ = ended(flight, ToolResult(**{"output": {}, **said}), Redactor())
        assert made.reason == "invalid_output"


async def test_a_null_deep_inside_is_no_json(flight: Flight) -> None:
    for depth, fits in ((62, True), (66, False)):
        inner: Any = None
        for _ in range(depth):
            inner = [inner]
        made, _, _ = ended(flight, ToolResult(output={"b": inner}), Redactor())
        assert made.success is fits


async def test_a_failure_tells_no_secret(flight: Flight) -> None:
    error = Failure(reason="tool_error", message=f"not {SECRETS[0]}", details={"d": [SECRETS[0]]})
    result = ToolResult(status="error", error=error)
    made, _, _ = ended(flight, result, Redactor(secrets=SECRETS))
    assert made.error.message == f"not {HIDDEN}"
    assert made.error.details == {"d": [HIDDEN]}


async def test_the_size_is_that_of_what_leaves(flight: Flight) -> None:
    result = ToolResult(output={"b": [Decimal("1E15")] * 3})
    for hider in (Redactor(secrets=SECRETS), Walking(secrets=SECRETS)):
        made, kept, _ = ended(flight, result, hider, limit=40)
        assert made.truncated.original == len(kept[0]) == 64


async def test_the_trail_keeps_of_a_cut_output_what_the_caller_got(flight: Flight) -> None:
    made, kept, told = ended(flight, ToolResult(output={"a": "x" * 90}), Redactor(), limit=50)
    assert kept == [f'{{"a":"{"x" * 90}"}}']
    assert msgspec.json.decode(told[3]) == made.output
    assert made.metadata == {"artifact": flight.call_id}


async def test_what_was_cut_before_is_not_cut_for_its_mark(flight: Flight) -> None:
    cut = ToolResult(output={"a": "x" * 90}, truncated=Truncated(1000, 50))
    made, _, _ = ended(flight, cut, Redactor(), limit=50)
    assert made.output == {"a": "x" * 90}
    assert made.truncated == Truncated(1000, 50)


async def test_what_the_caller_is_told_besides(flight: Flight) -> None:
    flight.noted = {"note": "fine with me"}
    made, _, _ = ended(flight, ToolResult(output={}, metadata={"m": 1}), Redactor())
    assert made.metadata == {"m": 1, "note": "fine with me"}


async def test_a_task_is_not_held_to_the_schema(flight: Flight) -> None:
    for kind, fits in (("task", True), ("complete", False)):
        result = ToolResult(output={"a": 1}, metadata={"mcp": {"resultType": kind}})
        made, _, _ = ended(flight, result, Redactor(secrets=SECRETS))
        assert made.success is fits


async def test_content_over_the_limit_is_cut(flight: Flight) -> None:
    blocks = [{"type": "text", "text": "x" * 50}, {"type": "text", "text": "y" * 50}]
    for secrets in ([], SECRETS):
        result = ToolResult(output={}, content=blocks)
        made, _, _ = ended(flight, result, Redactor(secrets=secrets), limit=100)
        assert (made.truncated.original, made.truncated.kept) == (150, 100)
        assert "y" * 50 not in str(made.content)
        made, _, _ = ended(flight, result, Redactor(secrets=secrets), limit=150)
        assert (made.truncated, made.content) == (None, blocks)


async def test_output_of_another_shape_is_refused(flight: Flight) -> None:
    for secrets in ([], SECRETS):
        made, _, told = ended(flight, ToolResult(output={"a": 1}), Redactor(secrets=secrets))
        assert made.reason == "invalid_output"
        assert told[:2] == ["error", "invalid_output"]


class Waiting:
    """Leases that have to find out first who writes the ending; meanwhile a secret comes up."""

    def __init__(self, hider: Redactor) -> None:
        self.hider = hider

    def in_doubt(self, flight: Flight) -> bool:
        return True

    async def written_off(self, flight: Flight, result: ToolResult) -> bool:
        self.hider.add_secret("a-secret-from-later")
        return False


class Trail:
    """Where the records go."""

    def __init__(self) -> None:
        self.records: list[Any] = []

    def append(self, record: Any) -> int:
        self.records.append(record)
        return len(self.records)


async def test_the_record_hides_what_became_a_secret_meanwhile(flight: Flight) -> None:
    hider, trail = Redactor(secrets=SECRETS), Trail()
    result = ToolResult(output={"a": "it is a-secret-from-later"})
    made = fit(flight.plan, flight, result, hider, 1000, lambda *_: False)
    settings: Any = type("Settings", (), {"audit_capture": 1000})()
    leases: Any = Waiting(hider)
    flight.opened, flight.seat = True, None
    writer: Any = trail
    await Recorder(settings, writer, hider, leases).end(flight, made)
    assert "a-secret-from-later" not in bytes(trail.records[0].output).decode()


async def test_the_short_record_says_what_the_long_one_does(flight: Flight) -> None:
    hider = Redactor(["*_pin"], SECRETS)
    settings = HostSettings(audit_capture=200)
    make = Maker(seed=7)
    short = {True: 0, False: 0}
    for _ in range(1700):
        given = make.any.choice([{}, {"q": make.text()}, {"my_pin": "1"}, {"n": "x" * 210}])
        flight.encoded, flight.odd, flight.shaped = msgspec.json.encode(given), False, None
        flight.unchecked = True
        limit = make.any.choice([60, 300])
        made = fit(flight.plan, flight, make.result(), hider, limit, lambda *_: False)
        trail: Any = Trail()
        leases: Any = None
        brief = Recorder(settings, trail, hider, leases).end_briefly(flight, flight.plan.seat, made)
        short[brief] += 1
        long = flight.record(made, hider, settings.audit_capture)
        assert isinstance(long, CallRecord)
        if brief:
            told = decode_record(encode_record(trail.records[0]))
            assert isinstance(told, CallRecord)
            assert facts(told) == facts(long)
        else:
            assert trail.records == []
            odd = long.output_hash or long.arguments_hash or made.truncated
            assert odd or made.status != "ok"
    assert min(short.values()) > 200, short


def facts(record: CallRecord) -> list[Any]:
    """What a record says, but for times."""
    times = ("time", "decide_s", "run_s", "total_s")
    told = [getattr(record, name) for name in record.__struct_fields__ if name not in times]
    return [bytes(t) if isinstance(t, msgspec.Raw) else t for t in told]


async def test_nothing_short_is_written_of_what_went_otherwise(flight: Flight) -> None:
    hider = Redactor()
    trail: Any = Trail()
    leases: Any = None
    recorder = Recorder(HostSettings(), trail, hider, leases)
    for name in ("odd", "ended"):
        flight.odd = flight.ended = False
        made = fit(flight.plan, flight, ToolResult(output={"a": "x"}), hider, 300, lambda *_: False)
        setattr(flight, name, True)
        assert not recorder.end_briefly(flight, flight.plan.seat, made)
    assert trail.records == []


async def test_what_has_no_output_has_none_in_the_short_record_either(flight: Flight) -> None:
    hider, trail = Redactor(), Trail()
    leases: Any = None
    writer: Any = trail
    flight.odd, flight.plan.checks_output = False, False
    result = ReadResult(call_id="c1", content=[{"type": "image"}], metadata={})
    made = fit(flight.plan, flight, result, hider, 300, lambda *_: False)
    assert Recorder(HostSettings(), writer, hider, leases).end_briefly(
        flight, flight.plan.seat, made
    )
    long = flight.record(made, hider, 300)
    assert isinstance(long, CallRecord)
    told = decode_record(encode_record(trail.records[0]))
    assert isinstance(told, CallRecord)
    assert facts(told) == facts(long)
    assert told.output_size == 0
