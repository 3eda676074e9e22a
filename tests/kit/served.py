"""A real gateway on loopback in the test's own loop, and a way to it that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from toolcrib import ToolContext, ToolFailure, ToolHost, tool
from toolcrib.core.serving import Listen, ServeSettings
from toolcrib.transports.service import Service
from toolcrib.transports.serving import Serving, serve


@tool(effects=["read"])
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


class Ledger:
    """What the tools did."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.cancelled: list[str] = []


def tools(ledger: Ledger) -> list[Any]:
    @tool(effects=["write"])
    async def work(label: str, seconds: float = 0.0) -> str:
        """Do something that must happen once."""
        ledger.begun.append(label)
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            ledger.cancelled.append(label)
            raise
        ledger.ended.append(label)
        return f"did {label}"

    @tool(effects=["read"])
    async def steps(ctx: ToolContext, count: int = 3) -> int:
        """Tell how far it is."""
        for step in range(count):
            ctx.progress((step + 1) / count, f"step {step + 1}")
            await asyncio.sleep(0)
        return count

    @tool(effects=["read"])
    def failing() -> None:
        """Fail in words."""
        raise ToolFailure("closed", reason="shop_closed", details={"day": "Sunday"})

    @tool(effects=["read"])
    def same(a: float | None = None) -> float | None:
        """Give back what came."""
        return a

    @tool(effects=["read"])
    def large() -> str:
        """More than the host hands over."""
        return "0123456789" * 500

    @tool(effects=["write"])
    def deploy(env: str) -> str:
        """A person is asked first."""
        return f"on {env}"

    @tool(effects=["destructive"])
    def wipe() -> str:
        """Never allowed."""
        return "wiped"

    return [add, work, steps, failing, same, large, deploy, wipe]


RELAY = "127.0.0.2"
CONFIG: dict[str, Any] = {
    "version": 1,
    "host": {"profile": "worker", "max_output": 1000, "drain": "300ms"},
    "profiles": {
        "worker": {
            "default": "allow",
            "rules": [{"ask": "deploy"}, {"deny": "wipe", "reason": "never_wipe"}],
            "approval": {"timeout": "60s", "remember": ["once", "session", "1h"],
                         "via": ["cli", "client"]},
        },
        "narrow": {"default": "deny", "rules": [{"allow": "add"}]},
    },
    "serve": {"http": {"listen": "127.0.0.1:0", "profile": "worker"}},
}  # fmt: skip


@dataclass
class Gateway:
    """A running gateway."""

    host: ToolHost
    service: Service
    url: str
    ledger: Ledger
    unix: str | None = None
    stop: Callable[[], Any] = field(default=lambda: None)

    @property
    def socket(self) -> str:
        return self.url.replace("http", "ws", 1)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


@contextlib.asynccontextmanager
async def gateway(
    *,
    port: int = 0,
    ledger: Ledger | None = None,
    store: str = "memory",
    unix: str | None = None,
    change: Callable[[dict[str, Any]], dict[str, Any]] = lambda config: config,
    settings: Callable[[ServeSettings], ServeSettings] = lambda settings: settings,
) -> AsyncIterator[Gateway]:
    """A gateway that serves the tools above until the block ends."""
    ledger = ledger or Ledger()
    host = ToolHost(tools(ledger), config=change(CONFIG), store=store)
    chosen = host.config.serving
    http = replace(
        chosen.http,
        listen=(Listen(host="127.0.0.1", port=port),),
        unix=unix,
        hosts=(RELAY,),
    )
    opened: asyncio.Future[Serving] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()
    serving = asyncio.ensure_future(
        serve(host, settings(replace(chosen, http=http)), ready=opened.set_result, stop=over)
    )
    try:
        await asyncio.wait({serving, opened}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        told = opened.result()
        yield Gateway(host, told.service, told.urls[0], ledger, told.unix, over.set)
    finally:
        over.set()
        await serving


class Way:
    """A TCP relay to a gateway, under the same port. It can be cut, held up, and closed for a
    while."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.answers = True
        """Whether what the gateway says is handed on."""
        self.connections = 0
        self.heard = bytearray()
        """What clients sent."""
        self.said = bytearray()
        """What the gateway sent."""
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://{RELAY}:{self.port}"

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._connected, RELAY, self.port)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            there, onward = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            writer.transport.abort()
            return
        self._writers.add(onward)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._carry(reader, onward, False))
                group.create_task(self._carry(there, writer, True))
        except* OSError:
            pass
        finally:
            for each in (writer, onward):
                each.transport.abort()
                self._writers.discard(each)
            self._tasks.discard(task)

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: bool
    ) -> None:
        while data := await reader.read(65536):
            if answers and not self.answers:
                continue
            heard = self.said if answers else self.heard
            heard += data
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError

    def cut(self) -> None:
        """Break every connection; new ones are taken."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def close(self) -> None:
        """Break every connection, and take no new ones."""
        if self._server is not None:
            self._server.close()
            self.cut()
            await self._server.wait_closed()
            self._server = None
        await asyncio.gather(*self._tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def way(port: int) -> AsyncIterator[Way]:
    """A relay to the gateway with that port."""
    made = Way(port)
    await made.open()
    try:
        yield made
    finally:
        await made.close()


async def until(check: Callable[[], object]) -> None:
    """Wait until something is so."""
    for _ in range(2000):
        if check():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to be")


HOST = '''
"""A host on standard input and output, as small as it can be."""
import asyncio
import sys

from toolcrib import ToolHost, tool
from toolcrib.core.serving import ServeSettings
from toolcrib.transports.service import Service
from toolcrib.transports.stdio import StdioDoor

door = StdioDoor()
door.claim()


@tool(effects=["read"])
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    print("this is no protocol")
    return a + b


@tool(effects=["read"])
def variables() -> list[str]:
    """The names of what the process has in its environment."""
    import os

    return sorted(os.environ)


@tool(effects=["read"])
def number() -> int:
    """The id of the process."""
    import os

    return os.getpid()


@tool(effects=["read"])
async def slow() -> None:
    """Take long."""
    await asyncio.sleep(60)


@tool(effects=["read"])
def child() -> int:
    """Leave a process behind."""
    import subprocess

    return subprocess.Popen(["sleep", "60"]).pid


@tool(effects=["read"])
def leave() -> None:
    """End the process, whatever is going on."""
    import os

    os._exit(3)


async def main() -> None:
    host = ToolHost([add, variables, number, slow, child, leave], store="memory")
    service = Service(host, ServeSettings())
    await service.start()
    try:
        await door.serve(service, ready=lambda: None)
    finally:
        await service.stop()


asyncio.run(main())
'''
