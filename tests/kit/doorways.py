"""The same small surface at every door, spoken raw: what a client of that door would write."""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from toolcrib import ToolHost
from toolcrib.client import Client, ClientError
from toolcrib.core.serving import ServeSettings
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.service import Service
from toolcrib.transports.wire import METHODS

PROJECT = Path(__file__).parents[1] / "wire" / "project"
ALL = ("toolcrib.approve", "toolcrib.audit", "toolcrib.admin")
Progress = Callable[[float | None, str | None], None]


class Wrong(Exception):
    """A request that was not answered, with what the door said: the shape all doors share."""

    def __init__(self, said: dict[str, Any]) -> None:
        super().__init__(said)
        self.said = said
        self.reason: str = said["error"]["reason"]


def copy_project(folder: Path) -> Path:
    """A project of its own for one gateway."""
    shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
    return folder


class Door:
    """What the suite does at a door."""

    name = ""
    connected = False
    """Whether it is a connection with a session of its own."""
    folder: Path
    """Where its project is."""

    async def request(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """The answer as plain JSON. Raises `Wrong`."""
        raise NotImplementedError

    async def raw(self, name: str, arguments: Any = None, **given: Any) -> bytes:
        """The bytes of the `ToolResult` that a call is answered by."""
        raise NotImplementedError

    async def call(self, name: str, arguments: Any = None, **given: Any) -> dict[str, Any]:
        """The result of a call as plain JSON."""
        return json.loads(await self.raw(name, arguments, **given))

    async def followed(self, name: str, arguments: Any, told: Progress) -> dict[str, Any]:
        """The result of a call whose progress is followed."""
        raise NotImplementedError


class InProcess(Door):
    """No door at all: what every other one is compared with."""

    name = "python"

    def __init__(self, host: ToolHost) -> None:
        self.host = host

    async def raw(self, name: str, arguments: Any = None, **given: Any) -> bytes:
        return msgspec.json.encode(await self.host.call(name, arguments, **given))

    async def request(self, method: str, params: dict[str, Any] | None = None) -> Any:
        service = Service(self.host, ServeSettings())
        service.parts = await self.host.start()
        who = self.host.callers.principal(None)
        caller = Caller(
            type(who)(who.name, who.roles, ALL), door="python", profiles=None, local=True
        )
        try:
            return json.loads(msgspec.json.encode(await service.handle(caller, method, params)))
        except Fault as fault:
            raise Wrong(msgspec.to_builtins(fault.result())) from None

    async def followed(self, name: str, arguments: Any, told: Progress) -> dict[str, Any]:
        stop = self.host.on_event(
            lambda event: (
                told(event.data["fraction"], event.data["message"])
                if event.type == "call.progress"
                else None
            )
        )
        try:
            return await self.call(name, arguments)
        finally:
            stop()


class Http(Door):
    """REST, one request a call."""

    name = "http"

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self.http = session

    async def raw(self, name: str, arguments: Any = None, **given: Any) -> bytes:
        body = {"arguments": arguments, **given}
        url = f"{self.url}/v1/tools/{name}/call"
        # As a stream: the client library frowns on a megabyte in one piece.
        text = io.BytesIO(json.dumps(body).encode())
        kind = {"Content-Type": "application/json"}
        async with self.http.post(url, data=text, headers=kind) as response:
            content = await response.read()
            while response.status == 202:
                where = response.headers["Location"]
                async with self.http.get(f"{self.url}{where}?wait=20") as response:
                    content = await response.read()
            return content

    async def request(self, method: str, params: dict[str, Any] | None = None) -> Any:
        row = METHODS[method].http
        assert row is not None
        verb, path = row
        rest = dict(params or {})
        for part in re.findall(r"{(\w+)}", path):
            path = path.replace(f"{{{part}}}", str(rest.pop(part)))
        given: dict[str, Any] = {}
        if verb == "GET":
            given["params"] = {k: str(v).lower() if v is True else str(v) for k, v in rest.items()}
        elif verb == "POST":
            given["json"] = rest
        async with self.http.request(verb, f"{self.url}{path}", **given) as response:
            said = await response.json()
            if method not in ("tools.call", "calls.get") and response.status >= 400:
                raise Wrong(said)
            return said

    async def followed(self, name: str, arguments: Any, told: Progress) -> dict[str, Any]:
        url = f"{self.url}/v1/events?types=call.progress"
        async with self.http.get(url) as stream:
            assert stream.status == 200
            calling = asyncio.ensure_future(self.call(name, arguments))
            reading = asyncio.ensure_future(self._progress(stream, told))
            result = await calling
            await asyncio.sleep(0.1)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            return result

    async def _progress(self, stream: aiohttp.ClientResponse, told: Progress) -> None:
        async for line in stream.content:
            if line.startswith(b"data:"):
                data = json.loads(line[5:])["data"]
                told(data["fraction"], data["message"])


class Observed(Http):
    """REST, with somebody who follows every call on the event stream."""

    name = "sse"

    async def raw(self, name: str, arguments: Any = None, **given: Any) -> bytes:
        url = f"{self.url}/v1/events?types=call.finished,call.denied"
        async with self.http.get(url) as stream:
            content = await super().raw(name, arguments, **given)
            result = json.loads(content)
            async with asyncio.timeout(10):
                async for line in stream.content:
                    if not line.startswith(b"data:"):
                        continue
                    event = json.loads(line[5:])
                    if event["call_id"] == result["call_id"]:
                        break
        seen, failure = event["data"], result["error"] or {}
        assert (seen["status"], seen["reason"]) == (result["status"], failure.get("reason"))
        if result["status"] == "ok" and len(content) < 500:
            assert seen["output"] == result["output"]
        return content


class _Rpc(Door):
    """JSON-RPC over some stream of texts."""

    connected = True

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._waiting: dict[Any, asyncio.Future[Any]] = {}
        self.pushed: list[dict[str, Any]] = []
        self.texts: dict[Any, bytes] = {}
        self.told: dict[Any, Progress] = {}
        self.tools: dict[str, Callable[..., Any]] = {}

    async def send(self, message: Any) -> None:
        raise NotImplementedError

    async def took(self, text: bytes) -> None:
        message = json.loads(text)
        if isinstance(message, list):
            self.pushed.append({"batch": message})
            return
        if "method" not in message:
            future = self._waiting.pop(message.get("id"), None)
            self.texts[message.get("id")] = text
            if future is None:
                self.pushed.append(message)
            elif not future.done():
                future.set_result(message)
        elif message["method"] == "client.call" and "id" in message:
            asked = message["params"]
            answer = self.tools[asked["tool"]](**asked["arguments"])
            await self.send({"jsonrpc": "2.0", "id": message["id"], "result": {"output": answer}})
        else:
            if message["method"] == "call.progress":
                told = self.told.get(message["params"]["id"])
                if told is not None:
                    told(message["params"]["fraction"], message["params"]["message"])
            self.pushed.append(message)

    async def ask(self, method: str, params: Any = None) -> tuple[int, asyncio.Future[Any]]:
        number = next(self._ids)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        await self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}})
        return number, future

    async def request(self, method: str, params: dict[str, Any] | None = None) -> Any:
        _, future = await self.ask(method, params)
        message = await future
        if "error" in message:
            raise Wrong(message["error"]["data"])
        return message["result"]

    async def raw(self, name: str, arguments: Any = None, **given: Any) -> bytes:
        asked = {"name": name, "arguments": arguments, **given}
        number, future = await self.ask("tools.call", asked)
        message = await future
        assert "result" in message, message
        return bytes(msgspec.json.decode(self.texts[number], type=dict[str, msgspec.Raw])["result"])

    async def followed(self, name: str, arguments: Any, told: Progress) -> dict[str, Any]:
        number, future = await self.ask("tools.call", {"name": name, "arguments": arguments})
        self.told[number] = told
        return (await future)["result"]


class WebSocket(_Rpc):
    """JSON-RPC over a WebSocket."""

    name = "websocket"

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        super().__init__()
        self.socket = socket

    async def send(self, message: Any) -> None:
        await self.socket.send_str(json.dumps(message))

    async def read(self) -> None:
        async for message in self.socket:
            await self.took(message.data.encode())


class Stdio(_Rpc):
    """JSON-RPC over the standard streams of a process."""

    name = "stdio"

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        super().__init__()
        self.process = process

    async def send(self, message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        await self.process.stdin.drain()

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            await self.took(line)


class Library(Door):
    """The Python client."""

    def __init__(self, client: Client, name: str, connected: bool) -> None:
        self.client = client
        self.name = name
        self.connected = connected

    async def raw(self, name: str, arguments: Any = None, **given: Any) -> bytes:
        return msgspec.json.encode(await self.client.call(name, arguments, **given))

    async def request(self, method: str, params: dict[str, Any] | None = None) -> Any:
        try:
            return await self.client.request(method, params)
        except ClientError as error:
            said = {"reason": error.reason, "message": error.message, "details": error.details}
            raise Wrong({"error": said}) from None

    async def followed(self, name: str, arguments: Any, told: Progress) -> dict[str, Any]:
        result = await self.client.call(name, arguments, on_progress=told)
        return msgspec.to_builtins(result)


# Gateways.


def command(*words: str) -> list[str]:
    """How the command line is started here."""
    return [sys.executable, "-m", "toolcrib", *words]


def environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "TMPDIR", "PYTHONPATH")}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1"}


@contextlib.asynccontextmanager
async def gateway(folder: Path, *more: str) -> AsyncIterator[str]:
    """A gateway in a process of its own; its URL."""
    process = await asyncio.create_subprocess_exec(
        *command("serve", "--config", str(folder / "toolcrib.yaml"), *more),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
        start_new_session=True,
    )
    assert process.stderr is not None
    said = b""
    try:
        async with asyncio.timeout(30):
            while not (found := re.search(rb"HTTP\s+(http://\S+?)/v1", said)):
                line = await process.stderr.readline()
                assert line, said.decode()
                said += line
        drain = asyncio.ensure_future(_drain(process.stderr))
        yield found[1].decode()
        drain.cancel()
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.readline():
        pass


@contextlib.asynccontextmanager
async def reading(door: WebSocket | Stdio) -> AsyncIterator[Any]:
    task = asyncio.ensure_future(door.read())
    try:
        yield door
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def stdio(folder: Path, *more: str) -> AsyncIterator[Stdio]:
    """A host as the child of its client."""
    process = await asyncio.create_subprocess_exec(
        *command("serve", "--stdio", "--config", str(folder / "toolcrib.yaml"), *more),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment(),
        limit=8_000_000,
        start_new_session=True,
    )
    door = Stdio(process)
    try:
        async with reading(door):
            yield door
    finally:
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(20):
            await process.wait()


@contextlib.asynccontextmanager
async def open_door(name: str, folder: Path) -> AsyncIterator[Door]:
    """A door of that name, before a gateway of its own."""
    copy_project(folder)
    async with _open(name, folder) as door:
        door.folder = folder
        yield door


@contextlib.asynccontextmanager
async def _open(name: str, folder: Path) -> AsyncIterator[Door]:
    if name == "python":
        async with ToolHost.from_config(folder / "toolcrib.yaml") as host:
            host.folder = str(folder)
            yield InProcess(host)
        return
    if name == "stdio":
        async with stdio(folder) as door:
            yield door
        return
    if name == "client-stdio":
        words = command("serve", "--stdio", "--config", str(folder / "toolcrib.yaml"))
        async with Client("stdio:", command=words) as client:
            yield Library(client, name, True)
        return
    async with gateway(folder) as url:
        if name == "client-http":
            async with Client(url) as client:
                yield Library(client, name, False)
            return
        if name == "client-websocket":
            async with Client(f"{url.replace('http', 'ws', 1)}/v1/ws") as client:
                yield Library(client, name, True)
            return
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            if name == "websocket":
                async with (
                    session.ws_connect(f"{url}/v1/ws", max_msg_size=0) as socket,
                    reading(WebSocket(socket)) as door,
                ):
                    yield door
            else:
                yield (Http if name == "http" else Observed)(url, session)


DOORS = (
    "python",
    "stdio",
    "http",
    "sse",
    "websocket",
    "client-http",
    "client-websocket",
    "client-stdio",
)
