"""The client's end of a JSON-RPC connection: it sends messages and sorts what comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from toolcrib import ToolHost
from toolcrib.core.principal import Principal
from toolcrib.core.serving import ServeSettings
from toolcrib.transports.caller import PREFIX, RIGHTS, Caller
from toolcrib.transports.reading import Reading
from toolcrib.transports.rpc import Connection
from toolcrib.transports.service import Service

Handler = Callable[[dict[str, Any]], Awaitable[Any]]


class Peer:
    """Answers, notifications and requests of the host, as they came. `send` is how texts leave."""

    def __init__(self, send: Callable[[str], Any]) -> None:
        self.came: list[Any] = []
        """Every text from the host, decoded, in order."""
        self.answers: dict[Any, dict[str, Any]] = {}
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[dict[str, Any]] = []
        """Requests of the host."""
        self._send = send
        self._news = asyncio.Event()
        self._next = 1000
        self._tasks: set[asyncio.Task[None]] = set()
        self.tools: dict[str, Handler] = {}
        """Functions that answer `client.call` by the tool's name."""

    def take(self, text: bytes | str) -> None:
        """A text from the host."""
        came = json.loads(text)
        self.came.append(came)
        for message in came if isinstance(came, list) else [came]:
            self._sort(message)
        self._news.set()

    def _sort(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            self.answers[message["id"]] = message
        elif "id" not in message:
            self.told.append((message["method"], message["params"]))
        else:
            self.asked.append(message)
            handler = self.tools.get(message["params"].get("tool"))
            if handler is not None:
                task = asyncio.ensure_future(self._run(message, handler))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _run(self, message: dict[str, Any], handler: Handler) -> None:
        result = await handler(message["params"])
        await self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    async def send(self, value: Any) -> None:
        """Send a message, or a text as it stands."""
        done = self._send(value if isinstance(value, str) else json.dumps(value))
        if done is not None:
            await done

    async def begin(self, method: str, params: Any = None) -> int:
        """Send a request; gives its id."""
        self._next += 1
        message = {"jsonrpc": "2.0", "id": self._next, "method": method}
        await self.send(message if params is None else message | {"params": params})
        return self._next

    async def answer(self, id: Any) -> dict[str, Any]:
        """The whole answer to a request."""
        await self.until(lambda: id in self.answers)
        return self.answers[id]

    async def request(self, method: str, params: Any = None) -> Any:
        """What a request gave; fails when it is an error."""
        answer = await self.answer(await self.begin(method, params))
        assert "result" in answer, answer
        return answer["result"]

    async def refused(self, method: str, params: Any = None) -> dict[str, Any]:
        """The error that a request gave."""
        answer = await self.answer(await self.begin(method, params))
        assert "error" in answer, answer
        return answer["error"]

    async def call(self, name: str, arguments: Any = None, **given: Any) -> dict[str, Any]:
        """The result of a call."""
        return await self.request("tools.call", {"name": name, "arguments": arguments, **given})

    async def notify(self, method: str, params: Any) -> None:
        await self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def notification(self, method: str, count: int = 1) -> dict[str, Any]:
        """The params of the newest of `count` notifications of that name."""
        await self.until(lambda: len(self.all(method)) >= count)
        return self.all(method)[count - 1]

    def all(self, method: str) -> list[dict[str, Any]]:
        return [params for name, params in self.told if name == method]

    async def until(self, check: Callable[[], object]) -> None:
        """Wait for something that depends on what comes."""
        async with asyncio.timeout(20):
            while not check():
                self._news.clear()
                await self._news.wait()


class Pile:
    """An outlet in memory: every message arrives at once, unless it is held up."""

    def __init__(self) -> None:
        self.waiting = 0
        self.peer: Peer | None = None

    def give(self, frame: bytes, more: bool) -> bool:
        self.push(frame)
        return False

    def push(self, frame: bytes) -> None:
        assert self.peer is not None
        self.peer.take(frame)

    async def flush(self) -> None: ...
    async def room(self) -> None: ...
    async def finish(self, seconds: float) -> None: ...


def caller_of(name: str = "ann", *rights: str, **given: Any) -> Caller:
    """A caller with rights, or with all of them when `all` is given."""
    held = RIGHTS if rights == ("all",) else rights
    who = Principal(name, permissions=[PREFIX + right for right in held])
    return Caller(who, **{"door": "stdio", "profiles": None, "local": True, **given})


@asynccontextmanager
async def serving(host: ToolHost, settings: ServeSettings | None = None) -> AsyncIterator[Service]:
    """A started service around a host."""
    service = Service(host, settings or ServeSettings())
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


@asynccontextmanager
async def connected(
    service: Service, caller: Caller | None = None, **given: Any
) -> AsyncIterator[Peer]:
    """A client with a connection of its own, in this process."""
    caller = caller or caller_of()
    session = await service.open_session(caller, lasting=False)
    out = Pile()
    connection = Connection(service, caller.at(session), out, max_bytes=100_000, **given)
    texts: asyncio.Queue[str] = asyncio.Queue()
    reading = Reading(connection, out, texts.get, lambda why: None)
    out.peer = peer = Peer(texts.put_nowait)
    peer.connection = connection  # type: ignore[attr-defined]
    peer.out = out  # type: ignore[attr-defined]
    try:
        yield peer
    finally:
        await reading.stop()
        await connection.close()
