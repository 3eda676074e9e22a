"""The way to a host over HTTP, by TCP or a unix socket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast
from urllib.parse import quote, urlencode

import msgspec

from toolcrib.client.answers import encoded, ended, fault, strange
from toolcrib.client.errors import CannotConnect, ClientError, ConnectionLost, NotToolcrib
from toolcrib.client.http_calls import HttpCalls
from toolcrib.client.link import READING, Placed, pauses
from toolcrib.client.network import Network, explained
from toolcrib.client.sse import BEGUN, Message, messages
from toolcrib.core.events import Event
from toolcrib.core.result import ToolResult
from toolcrib.errors import ToolcribError
from toolcrib.transports.wire import METHODS

if TYPE_CHECKING:
    import aiohttp

ATTEMPTS = 5
"""How often a request is made that may be made again."""
_GATEWAY = (502, 503, 504)
_ABOUT_CALLS = ("tools.call", "calls.get")
"""Their answer is how a call ended, also when that was not well."""
_QUIET = 60.0
"""Seconds without a sign of life after which an event stream counts as broken."""


class Reply(NamedTuple):
    """An answer of the host's: JSON, whatever its status."""

    status: int
    body: bytes


class HttpLink:
    """Requests on pooled connections."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.where = network.where
        self.closed = False
        self.principal: str | None = None
        self.durable = False
        self._calls = HttpCalls(self)
        self._streams: set[aiohttp.ClientResponse] = set()

    async def open(self) -> None:
        """Connections are made as they are needed."""
        self.network.session()

    async def close(self) -> None:
        """Cancel what goes on, then close every connection."""
        self.closed = True
        await self._calls.close()
        for stream in list(self._streams):
            stream.close()
        await self.network.close()

    async def ask(self, method: str, params: Mapping[str, Any]) -> bytes | msgspec.Raw:
        """The answer to a method; those that only read are asked again when it was lost."""
        way = route(method, params)
        left = ATTEMPTS if method in READING and method != "host.info" else 1
        steps = pauses()
        while True:
            left -= 1
            try:
                reply = await self.exchange(*way)
                break
            except (CannotConnect, ConnectionLost):
                if not left:
                    raise
            await asyncio.sleep(next(steps))
        if reply.status >= 400 and not (method in _ABOUT_CALLS and ended(reply.body)):
            raise fault(reply.body, self.where)
        return reply.body

    async def place(self, call: Placed) -> ToolResult:
        """Make a call and wait for its ending."""
        return await self._calls.place(call)

    async def exchange(
        self,
        verb: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        wait: float = 0.0,
    ) -> Reply:
        """One request and its whole answer, which may be a refusal."""
        import aiohttp

        sent = dict(headers or {})
        if body is not None:
            sent["Content-Type"] = "application/json"
        patience = aiohttp.ClientTimeout(
            total=None,
            sock_connect=self.network.timeout,
            sock_read=wait + self.network.timeout,
        )
        problem: ClientError
        try:
            async with self.network.session().request(
                verb, self._url(path, query), data=body, headers=sent, timeout=patience
            ) as response:
                content = response.content_type
                reply = Reply(response.status, await response.read())
            return self._checked(reply, content)
        except ToolcribError:
            raise
        except Exception as error:
            problem = explained(error, self.where)
        raise problem

    def _checked(self, reply: Reply, content: str) -> Reply:
        """The reply, if a Toolcrib host gave it."""
        if content == "application/json":
            return reply
        if reply.status in _GATEWAY:  # a proxy stands between: the request may have got through
            raise ConnectionLost(f"a proxy answered {reply.status}", where=self.where)
        kind = content or "no type"
        raise strange(self.where, f"the answer is {kind} with status {reply.status}, not JSON")

    def _url(self, path: str, query: Mapping[str, str] | None) -> Any:
        from yarl import URL

        tail = f"?{urlencode(query)}" if query else ""
        return URL(f"{self.network.address.url}{path}{tail}", encoded=True)

    # Events.

    async def follow(self, types: Sequence[str] | None, after: str | None) -> AsyncIterator[Event]:
        """Events as they happen; a broken stream is taken up where it ended."""
        failing: float | None = None
        steps = pauses()
        query: dict[str, str] = {"types": ",".join(types)} if types else {}
        while not self.closed:
            try:
                async for message in self.stream("/v1/events", query, after):
                    if message is BEGUN:
                        continue
                    failing, steps = None, pauses()
                    after = message.id or after
                    event = message.event()
                    if event is not None and event.type != "viewer.dropped":
                        yield event
            except NotToolcrib:
                raise
            except ClientError as error:
                if self.closed:
                    return
                if error.reason not in (None, "host_stopping"):
                    raise
                failing = failing or time.monotonic()
                if time.monotonic() - failing > self.network.timeout:
                    raise
            await asyncio.sleep(next(steps))

    async def stream(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        after: str | None = None,
    ) -> AsyncIterator[Message]:
        """One event stream, to its end. An empty message says that it has begun."""
        import aiohttp

        headers = {"Accept": "text/event-stream"}
        if after:
            headers["Last-Event-ID"] = after
        elif after is not None:
            query = {**(query or {}), "after": ""}  # from the beginning, which no header can say
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self.network.timeout, sock_read=_QUIET
        )
        problem: ClientError
        try:
            async with self.network.session().get(
                self._url(path, query), headers=headers, timeout=timeout
            ) as response:
                if response.content_type != "text/event-stream":
                    reply = Reply(response.status, await response.read())
                    self._checked(reply, response.content_type)
                    raise fault(reply.body, self.where)
                self._streams.add(response)
                try:
                    yield BEGUN
                    async for message in messages(response.content.iter_any()):
                        yield message
                finally:
                    self._streams.discard(response)
            return
        except ToolcribError:
            raise
        except Exception as error:
            problem = explained(error, self.where)
        raise problem

    # Tools that run in the client need a connection on which the host can ask.

    async def offer(self, thing: Any, *, replace: bool, session: str | None) -> None:
        """Not possible here."""
        self._no_offers()

    async def withdraw(self, name: str, *, session: str | None) -> bool:
        """Not possible here."""
        self._no_offers()

    def session_ended(self, session: str) -> None:
        """Nothing was offered in it."""

    def _no_offers(self) -> NoReturn:
        raise ClientError(
            "over HTTP the host cannot call back, so no tool can run here",
            where=self.where,
            cure="Use ws:// or stdio: to offer tools of your own",
        )


class Route(NamedTuple):
    """How a method is asked for over HTTP."""

    verb: str
    path: str
    query: dict[str, str]
    body: bytes | None
    headers: dict[str, str]


def route(method: str, params: Mapping[str, Any]) -> Route:
    """The route of a method, with its parameters where they belong."""
    http = METHODS[method].http
    if http is None:
        raise ToolcribError(f"{method} needs a connection: use ws:// or stdio:")
    verb, path = http
    rest = {key: value for key, value in params.items() if value is not None}
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    for name in ("id", "name"):
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", segment(str(rest.pop(name, ""))))
    if method == "tools.call":
        if "key" in rest:
            headers["Idempotency-Key"] = str(rest.pop("key"))
        if "wait" in rest:
            query["wait"] = _text(rest.pop("wait"))
    if verb == "POST":
        return Route(verb, path, query, encoded(rest), headers)
    query |= {key: _text(value) for key, value in rest.items()}
    return Route(verb, path, query, None, headers)


def segment(text: str) -> str:
    """`text` as one part of a path, whatever it is."""
    made = quote(text, safe="")
    return made if made.strip(".") else made.replace(".", "%2E")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in cast("Sequence[Any]", value))
    return str(value)
