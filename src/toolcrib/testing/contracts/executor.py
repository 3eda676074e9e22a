"""What an executor promises."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from toolcrib.core.context import ToolContext
from toolcrib.core.protocols import Executor
from toolcrib.core.result import ToolResult
from toolcrib.core.spec import ToolSpec
from toolcrib.testing.contracts.promise import (
    check_value,
    ends_badly,
    is_text,
    promise,
    snapshot,
    undefined,
)
from toolcrib.testing.hosts import make_host

Call = tuple[ToolSpec, Mapping[str, Any]]
"""A tool, and arguments to call it with."""


class ExecutorContract:
    """Inherit, say how to make the executor, and name one call of each sort."""

    def make(self) -> Executor:
        """A new executor."""
        undefined(self, "make")

    def good_call(self) -> Call:
        """A call that ends well."""
        undefined(self, "good_call")

    def failing_call(self) -> Call:
        """A call whose tool fails."""
        undefined(self, "failing_call")

    def slow_call(self) -> Call:
        """A call that takes longer than a minute unless it is stopped."""
        undefined(self, "slow_call")

    async def test_it_has_the_kind_of_its_specs(self) -> None:
        executor = self.make()
        kind = executor.kind
        promise(is_text(kind), "an executor has a kind", kind)
        for spec, _ in (self.good_call(), self.failing_call(), self.slow_call()):
            promise(spec.kind == kind, f"its specs are of kind {kind!r}", spec.kind)

    async def test_it_gives_json_or_a_result(self) -> None:
        ctx = _context(*self.good_call())
        value = await self.make().execute(ctx)
        check_value(value, "an executor")
        promise(_succeeded(value), "the good call ends well", value)

    async def test_it_leaves_the_call_as_it_is(self) -> None:
        ctx = _context(*self.good_call())
        before = snapshot(ctx)
        await self.make().execute(ctx)
        promise(
            snapshot(ctx) == before, "an executor changes neither arguments nor call", ctx.arguments
        )

    async def test_calls_at_the_same_time_do_not_disturb_each_other(self) -> None:
        executor = self.make()
        alone = _output(await executor.execute(_context(*self.good_call())))
        contexts = [
            _context(*(self.failing_call() if n % 2 else self.good_call())) for n in range(10)
        ]
        ends: list[Any] = await asyncio.gather(
            *(executor.execute(ctx) for ctx in contexts), return_exceptions=True
        )
        words = "a call has the same end among others as it has alone"
        for end in ends[::2]:
            same = not isinstance(end, BaseException) and _output(end) == alone
            promise(same, words, end)
        for end in ends[1::2]:
            well = not isinstance(end, BaseException) and _succeeded(end)
            promise(not well, words, end)

    async def test_a_failure_is_reported_as_one(self) -> None:
        await ends_badly(self.make().execute, _context(*self.failing_call()), "an executor")

    async def test_a_cancelled_call_stops(self) -> None:
        ctx = _context(*self.slow_call())
        task = asyncio.ensure_future(_run(self.make(), ctx))
        done, _ = await asyncio.wait({task}, timeout=0.05)
        promise(not done, "the slow call takes its time")
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=5)
        promise(done, "an executor ends within seconds when its call is cancelled")
        promise(
            task.cancelled(),
            "an executor lets cancellation through and gives no result instead of it",
        )

    async def test_it_runs_in_a_host(self) -> None:
        good, bad = self.good_call(), self.failing_call()
        specs = {spec.name: spec for spec, _ in (good, bad)}
        async with make_host(specs.values(), executors=[self.make()]) as host:
            ended = await host.call(good[0].name, good[1])
            promise(ended.status == "ok", "the good call ends well in a host", ended.error)
            failed = await host.call(bad[0].name, bad[1])
            promise(
                failed.status != "ok" and failed.reason != "unexpected_failure",
                "a failing call ends in a host with a reason of its own",
                failed,
            )


def _context(spec: ToolSpec, arguments: Mapping[str, Any]) -> ToolContext:
    return ToolContext(tool=spec.name, arguments=arguments, spec=spec, call_id="c1")


async def _run(executor: Executor, ctx: ToolContext) -> Any:
    return await executor.execute(ctx)


def _output(value: Any) -> Any:
    return value.output if isinstance(value, ToolResult) else value


def _succeeded(value: Any) -> bool:
    return not isinstance(value, ToolResult) or value.status == "ok"
