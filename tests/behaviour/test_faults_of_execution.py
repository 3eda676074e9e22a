"""What runs tools may be anybody's: whatever it does wrong is told clearly, no call runs that
should not, and nobody else is harmed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from support import assert_one_ending

from executing import children, until
from toolcrib import (
    ConfigError,
    SpecError,
    ToolFailure,
    ToolHost,
    ToolPolicy,
    ToolResult,
    ToolSpec,
    ToolTemplate,
)

Execute = Callable[[Any], Any]


class Odd:
    """An executor that does what the test tells it."""

    kind = "odd"

    def __init__(self, bind: Any = None, run: Any = None, close: Any = None) -> None:
        self._bind = bind
        self._run = run
        self._close = close
        self.ran = 0

    def bind(self, spec: ToolSpec, workshop: Any) -> Any:
        if isinstance(self._bind, BaseException):
            raise self._bind
        return self.execute if self._bind is None else self._bind

    async def execute(self, ctx: Any) -> Any:
        self.ran += 1
        if isinstance(self._run, BaseException):
            raise self._run
        return self._run(ctx) if callable(self._run) else self._run

    async def aclose(self) -> None:
        if self._close is not None:
            raise self._close


def spec(name: str = "t", **fields: Any) -> ToolSpec:
    return ToolSpec(name=name, kind="odd", effects=frozenset({"read"}), **fields)


def host_of(executor: Odd, *, config: Any = None) -> ToolHost:
    host = ToolHost(config=config)
    host.registrar.executor(executor)
    host.add_executor(executor)
    return host


def named(thing: object) -> str:
    return type(thing).__name__


NONSENSE = [ValueError("hunter2"), KeyError("hunter2"), TypeError(), None, 7, "run", [], object()]


@pytest.mark.parametrize("bind", [x for x in NONSENSE if x is not None], ids=named)
def test_an_executor_that_cannot_read_a_spec_is_told_at_registration(bind: Any) -> None:
    host = host_of(Odd(bind=bind))
    with pytest.raises(SpecError, match="tool t: the executor of kind 'odd'") as raised:
        host.register(spec())
    assert "hunter2" not in str(raised.value)
    assert raised.value.cure
    assert host.get("t") is None


def test_it_is_told_with_the_other_mistakes_of_the_file() -> None:
    tools = [{"name": "one", "kind": "odd"}, {"name": "two", "kind": "od"}]
    host = host_of(Odd(bind=KeyError("hunter2")), config={"tools": tools})
    with pytest.raises(ConfigError) as raised:
        host.load()
    words = [str(mistake) for mistake in raised.value.all()]
    assert len(words) == 2
    assert "could not read it: KeyError" in words[0]
    assert "Did you mean odd?" in words[1]


class Knobs(ToolPolicy):
    most: int = 1


@pytest.mark.parametrize("made", NONSENSE, ids=named)
def test_a_template_that_builds_nonsense(made: Any) -> None:
    def constructor(policy: Knobs, workshop: Any) -> Any:
        if isinstance(made, Exception):
            raise made
        return made

    host = ToolHost(config={"tools": [{"template": "odd"}]})
    host.registrar.template(ToolTemplate(name="odd", policy=Knobs, constructor=constructor))
    with pytest.raises(ConfigError) as raised:
        host.load()
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("run", "status", "reason"),
    [
        (object(), "error", "invalid_output"),
        (float("nan"), "error", "invalid_output"),
        ({1: {2, 3}}, "ok", None),
        (lambda ctx: asyncio.sleep, "error", "invalid_output"),
        (RuntimeError("hunter2"), "error", "unexpected_failure"),
        (KeyError(), "error", "unexpected_failure"),
        (RecursionError(), "error", "unexpected_failure"),
        (ToolFailure("no luck", reason="no such reason"), "error", "tool_error"),
        (ToolFailure("no luck", reason="denied_by_rule"), "error", "tool_error"),
        (lambda ctx: ctx.ok(object()), "error", "invalid_output"),
        (ToolResult(call_id="x", status="maybe"), "error", "invalid_output"),
        (ToolResult(call_id="x", status="denied"), "error", "invalid_output"),
    ],
    ids=lambda value: value if isinstance(value, str) else named(value),
)
async def test_what_an_executor_answers_is_looked_at(
    run: Any, status: str, reason: str | None
) -> None:
    executor = Odd(run=run)
    host = host_of(executor)
    host.register(spec())
    async with host:
        result = await host.call("t")
        assert (result.status, result.reason) == (status, reason), result
        assert "hunter2" not in repr(result)
        ending = await assert_one_ending(host, result.call_id)
        assert ending.data["status"] == status
        assert executor.ran == 1


async def test_an_answer_does_not_pass_for_another_calls() -> None:
    host = host_of(Odd(run=ToolResult(call_id="somebody-elses", output=1)))
    host.register(spec())
    async with host:
        result = await host.call("t", call_id="c1")
        assert (result.call_id, result.output) == ("c1", 1)


async def test_a_cancellation_that_nobody_asked_for_is_the_tools_failure() -> None:
    host = host_of(Odd(run=asyncio.CancelledError()))
    host.register(spec())
    async with host:
        result = await host.call("t")
        assert result.status == "error"
        await assert_one_ending(host, result.call_id)
        assert (await host.call("t")).status == "error"


async def test_closing_goes_on_when_one_fails(caplog: pytest.LogCaptureFixture) -> None:
    before = children()
    host = host_of(Odd(run=1, close=RuntimeError("stuck")))
    process = {"module": "os", "function": "getpid"}
    host.register(spec())
    host.register(ToolSpec(name="p", kind="process", config=process))
    async with host:
        assert (await host.call("t")).output == 1
        assert (await host.call("p")).output in children() - before
    await until(lambda: children() == before)
    assert "closing what runs the kind odd failed" in caplog.text


async def test_a_workshop_that_fails_fails_the_registration() -> None:
    class Taking(Odd):
        def bind(self, spec: ToolSpec, workshop: Any) -> Execute:
            workshop.sandbox("nowhere")
            return self.execute

    host = host_of(Taking())
    with pytest.raises(ConfigError, match="there is no sandbox 'nowhere'"):
        host.register(spec())
    assert host.tools() == []


@pytest.mark.parametrize("built", [KeyError("hunter2"), None, 7], ids=str)
def test_a_sandbox_type_that_builds_nonsense(built: Any) -> None:
    def factory(*given: Any) -> Any:
        if isinstance(built, Exception):
            raise built
        return built

    host = ToolHost(config={"sandboxes": {"box": {"type": "odd"}}})
    host.registrar.sandbox("odd", factory)
    with pytest.raises(ConfigError, match="the sandbox box") as raised:
        host.load()
    assert "hunter2" not in str(raised.value)
