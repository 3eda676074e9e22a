"""One request to a server, from its sending to its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, cast

import msgspec

from toolcrib.core.link import CallerLink, UpstreamError
from toolcrib.errors import ToolcribError
from toolcrib.protocol import jsonrpc
from toolcrib.protocol.jsonrpc import Id, Message, Request, Response

Told = Callable[[str, dict[str, Any]], None]
encode = msgspec.json.Encoder(decimal_format="number").encode
MAX_DEPTH = 128
"""How deep a server's messages may be nested."""
IN_THREAD = 1 << 20
"""Bytes from which on a message is read in a thread, so that others are served meanwhile."""


class Lost(ToolcribError):
    """There is no connection to the server, or none any more."""


class Nonsense(Lost):
    """The server answered, and what it said is no answer: it may have acted on the request."""


class Refused(ToolcribError):
    """The server answered with an HTTP status that says no, and with no message of the protocol."""

    def __init__(self, status: int, words: str, *, gone: bool = False) -> None:
        super().__init__(words)
        self.status = status
        self.gone = gone
        """Whether the server does not know the session any more, and so did not look at the
        request."""


class Behalf:
    """Whose request it is, and how far it got."""

    heard = False
    """Whether somebody hears notifications that belong to the request."""
    _told: Told | None = None
    _last: Exchange | None = None
    _before = False

    def __init__(self, link: CallerLink | None = None, told: Told | None = None) -> None:
        self.link = link
        """Who is asked when the server wants to know something; None when nobody can be."""
        if told is not None:
            self._told = told
            self.heard = True

    def told(self, method: str, params: dict[str, Any]) -> None:
        """A notification that belongs to the request."""
        if self._told is not None:
            self._told(method, params)

    def waiting(self) -> AbstractContextManager[None]:
        """Entered while somebody is asked: that time is not the tool's."""
        return nullcontext()

    def note(self, exchange: Exchange) -> None:
        """Another round of the request begins."""
        if self._last is not None:
            self._before = self.sent
        self._last = exchange

    @property
    def sent(self) -> bool:
        """Whether the server may have got any of it."""
        return self._before or (self._last is not None and self._last.sent)

    @property
    def unanswered(self) -> bool:
        """Whether the server may have got the last round and did not answer."""
        return self._last is not None and self._last.sent and not self._last.answered


OURS = Behalf()
"""A request that the provider makes for itself, and of which nobody asks how far it got."""


class Exchange:
    """One request in flight. Its id is its progress token too."""

    __slots__ = (
        "answered",
        "behalf",
        "headers",
        "id",
        "method",
        "params",
        "sent",
        "version",
    )

    def __init__(
        self,
        id: int,
        method: str,
        params: Mapping[str, Any],
        *,
        behalf: Behalf = OURS,
        headers: Mapping[str, str] | None = None,
        version: str | None = None,
    ) -> None:
        self.id = id
        self.method = method
        self.params = params
        self.behalf = behalf
        self.version = version
        """The revision that a modern request names; None in the handshake era."""
        self.headers = headers or {}
        """What the request says in HTTP headers besides."""
        self.sent = False
        """Whether the server may have got it."""
        self.answered = False

    def frame(self) -> bytes:
        """The request as a message."""
        return jsonrpc.request(self.id, self.method, encode(self.params))


class Incoming(Protocol):
    """What a wire hands to its session. None of it waits."""

    def notified(self, method: str, params: Any, exchange: Exchange | None) -> None:
        """A notification, and the request on whose own stream it came."""
        ...

    def requested(self, request: Request, exchange: Exchange | None) -> None:
        """A request of the server."""
        ...

    def doubted(self) -> None:
        """The session may have ended: somebody should ask the server something."""
        ...

    def gone(self, why: str) -> None:
        """The connection ended without being asked to."""
        ...


class Wire(Protocol):
    """A connection to one server."""

    shared: bool
    """Whether all messages come on one channel, so that nothing but ids tells them apart."""

    async def open(self, incoming: Incoming) -> None:
        """Connect. Raises `Lost`, or `ToolFailure` with words for the operator."""
        ...

    async def ask(self, exchange: Exchange) -> dict[str, Any]:
        """The result. Raises `UpstreamError`, `Lost`, `Refused` or `ToolFailure`; cancelled, it
        tells the server."""
        ...

    async def tell(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        ...

    async def reply(self, frame: bytes) -> None:
        """Send the answer to a request of the server."""
        ...

    def began(self, version: str, *, modern: bool) -> None:
        """The greeting is over: this revision is spoken from now on."""
        ...

    def listen(self) -> None:
        """Take in what a handshake server says by itself, where that needs a stream of its own."""
        ...

    async def aclose(self) -> None:
        """End it, and everything that was started for it."""
        ...


def result_of(response: Response) -> dict[str, Any]:
    """The result that an answer holds. Raises `UpstreamError`."""
    error = response.error
    if error is not None:
        code, message = error.get("code"), error.get("message")
        if type(code) is not int:
            code = jsonrpc.INTERNAL_ERROR
        words = message if isinstance(message, str) else "the server reported an error"
        raise UpstreamError(code, words, error.get("data"))
    result: Any = response.result
    if not isinstance(result, dict):
        raise UpstreamError(jsonrpc.INTERNAL_ERROR, "the server's result is not an object")
    return cast("dict[str, Any]", result)


def messages_of(data: bytes | str, limit: int) -> list[Message]:
    """The messages of a text; one that is none is among them as `Wrong`."""
    found = jsonrpc.read(data, max_bytes=limit, max_depth=MAX_DEPTH)
    return found if isinstance(found, list) else [found]


def answer(id: Id, result: Mapping[str, Any] | UpstreamError) -> bytes:
    """The answer to a request of the server."""
    if isinstance(result, UpstreamError):
        data = None if result.data is None else encode(result.data)
        return jsonrpc.error(id, result.code, result.message, data)
    return jsonrpc.result(id, encode(result))
