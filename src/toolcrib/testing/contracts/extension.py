"""What an extension promises."""

from __future__ import annotations

import asyncio
from typing import Any

from toolcrib.core.context import ToolContext
from toolcrib.core.protocols import Extension
from toolcrib.errors import ToolFailure
from toolcrib.pipeline.extensions import wrap
from toolcrib.testing.contracts.promise import promise, undefined
from toolcrib.testing.hosts import make_host
from toolcrib.testing.mocks import MockTool


class ExtensionContract:
    """Inherit, and say how to make an extension that lets a harmless call pass."""

    def make(self) -> Extension:
        """A new extension."""
        undefined(self, "make")

    async def test_it_has_a_priority(self) -> None:
        priority: Any = self.make().priority
        whole = isinstance(priority, int) and not isinstance(priority, bool)
        promise(whole, "an extension's priority is a whole number", priority)

    async def test_a_call_passes_through_it(self) -> None:
        mock = MockTool("echo", return_value="said")
        async with make_host([mock], extensions=[self.make()]) as host:
            result = await host.call("echo", {"n": 1})
        promise(result.status == "ok", "a harmless call passes an extension", result.error)
        promise(mock.call_count == 1, "a call that passes runs once", mock.call_count)

    async def test_the_tool_gets_the_arguments_that_were_decided_on(self) -> None:
        given = {"list": [1, {"deep": True}], "text": "x"}
        mock = MockTool("echo")
        async with make_host([mock], extensions=[self.make()]) as host:
            await host.call("echo", given)
        promise(
            mock.last_input == given,
            "an extension leaves the arguments alone: they were validated, decided on and approved",
            mock.last_input,
        )

    async def test_a_failure_stays_a_failure(self) -> None:
        mock = MockTool("fail", side_effect=ToolFailure("no such row"))
        async with make_host([mock], extensions=[self.make()]) as host:
            result = await host.call("fail")
        promise(result.status != "ok", "an extension makes no success of a failure", result)

    async def test_calls_at_the_same_time_do_not_disturb_each_other(self) -> None:
        async def echo(given: dict[str, Any]) -> Any:
            # Those that came first end last, so that each one meets the others.
            for _ in range(30 - given["n"]):
                await asyncio.sleep(0)
            return given["n"]

        mock = MockTool("echo", side_effect=echo)
        extension = self.make()
        async with make_host([mock], extensions=[extension]) as host:
            alone = [await host.call("echo", {"n": n}) for n in range(10)]
            together = await asyncio.gather(*(host.call("echo", {"n": n}) for n in range(10)))
        promise(
            [r.output for r in together] == [r.output for r in alone],
            "an extension keeps what belongs to a call in ctx.scratch, not in itself",
            [r.output for r in together],
        )

    async def test_cancellation_passes_through_it(self) -> None:
        async def hang(ctx: ToolContext) -> Any:
            await asyncio.get_running_loop().create_future()

        execute = wrap(hang, [self.make()])
        task = asyncio.ensure_future(execute(ToolContext(tool="hang", call_id="c1")))
        await asyncio.wait({task}, timeout=0.02)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=5)
        promise(done and task.cancelled(), "an extension lets cancellation through")
