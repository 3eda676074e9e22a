"""What a transport promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from toolcrib.core.protocols import Transport
from toolcrib.errors import ToolFailure
from toolcrib.host.host import ToolHost
from toolcrib.testing.contracts.promise import is_text, promise, undefined
from toolcrib.testing.hosts import make_host
from toolcrib.testing.mocks import MockTool
from toolcrib.testing.recorder import EventRecorder

_RULES = {"rules": [{"allow": ["good", "bad", "slow", "quick"]}]}


class TransportContract:
    """Inherit, say how to make the door, and how a client calls a tool through it."""

    patience: float = 5.0
    """Seconds after which something that should happen counts as not happening."""

    def make(self) -> Transport:
        """A new door that has not been served."""
        undefined(self, "make")

    async def call(self, door: Transport, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool as a client does; gives the result as the client reads it: a mapping."""
        undefined(self, "call")

    async def test_it_has_a_name(self) -> None:
        name = self.make().name
        promise(is_text(name), "a door has a name; the trail says through which a call came", name)

    async def test_it_says_once_that_it_is_open(self) -> None:
        opened: list[int] = []
        async with _served(self.make(), lambda: opened.append(1)):
            await asyncio.sleep(0.01)
        promise(len(opened) == 1, "a door calls `ready` once", len(opened))

    async def test_the_same_result_leaves_through_it(self) -> None:
        door = self.make()
        async with _served(door) as host:
            for name in ("good", "bad", "hidden", "no_such_tool"):
                inside = (await host.call(name, {"n": 1})).to_dict()
                outside = dict(await self.call(door, name, {"n": 1}))
                for result in (inside, outside):
                    result.pop("call_id")
                promise(
                    outside == inside,
                    f"a result leaves through a door as it is in process ({name})",
                    outside,
                )

    async def test_the_trail_says_through_which_door(self) -> None:
        door = self.make()
        async with _served(door) as host:
            recorder = EventRecorder(host)
            await self.call(door, "good", {"n": 1})
            received = recorder.only("call.received")
        doors = [event.data["door"] for event in received]
        promise(doors == [door.name], "the trail names the door of a call", doors)

    async def test_a_slow_call_holds_up_no_other(self) -> None:
        door = self.make()
        async with _served(door) as host:
            recorder = EventRecorder(host)
            slow = asyncio.ensure_future(_called(self.call(door, "slow", {})))
            await recorder.wait_for("call.started")
            quick = asyncio.ensure_future(_called(self.call(door, "quick", {})))
            ended, _ = await asyncio.wait({quick}, timeout=self.patience)
            quick.cancel()
            slow.cancel()
            await asyncio.wait({quick, slow}, timeout=5)
        promise(ended, "calls through a door run at the same time")

    async def test_it_closes_when_it_is_told_to(self) -> None:
        async with make_host(_tools(), profile=_RULES) as host:
            ready = asyncio.Event()
            serving = asyncio.ensure_future(_serve(self.make(), host, ready))
            await _open(serving, ready)
            serving.cancel()
            done, _ = await asyncio.wait({serving}, timeout=self.patience)
        promise(done, "a door closes within seconds when its task is cancelled")


def _tools() -> list[MockTool]:
    async def wait(given: dict[str, Any]) -> None:
        await asyncio.sleep(60)

    return [
        MockTool("good", return_value={"text": "ü", "list": [1, 2.5, None]}),
        MockTool("bad", side_effect=ToolFailure("no such row")),
        MockTool("hidden"),
        MockTool("slow", side_effect=wait),
        MockTool("quick", return_value=1),
    ]


@asynccontextmanager
async def _served(
    door: Transport, opened: Callable[[], object] = lambda: None
) -> AsyncGenerator[ToolHost]:
    """A host behind the door, from when the door is open until it is closed."""
    async with make_host(_tools(), profile=_RULES) as host:
        ready = asyncio.Event()
        serving = asyncio.ensure_future(_serve(door, host, ready, opened))
        await _open(serving, ready)
        try:
            yield host
        finally:
            serving.cancel()
            await asyncio.wait({serving}, timeout=5)


async def _serve(
    door: Transport,
    host: ToolHost,
    ready: asyncio.Event,
    opened: Callable[[], object] = lambda: None,
) -> None:
    def is_open() -> None:
        opened()
        ready.set()

    await door.serve(host, ready=is_open)


async def _open(serving: asyncio.Future[None], ready: asyncio.Event) -> None:
    waiting = asyncio.ensure_future(ready.wait())
    await asyncio.wait({serving, waiting}, timeout=5, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if serving.done() and not serving.cancelled() and serving.exception() is not None:
        raise AssertionError(
            f"broken promise: a door serves until it is cancelled; found: {serving.exception()!r}"
        )
    if not ready.is_set():
        serving.cancel()
        await asyncio.wait({serving}, timeout=5)
    promise(ready.is_set(), "a door calls `ready` when it can be used")
    promise(not serving.done(), "a door serves until it is cancelled")


async def _called(calling: Awaitable[Any]) -> Any:
    return await calling
