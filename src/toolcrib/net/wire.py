"""One request on the wire, in the words of the HTTP library, and its failures in ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from toolcrib.errors import Denial, ToolcribError, ToolFailure
from toolcrib.net.addresses import Private
from toolcrib.net.connections import CONNECTED, Connections, Resolve
from toolcrib.net.exchange import Limits, Request, Response, Sending
from toolcrib.net.inflate import Inflater
from toolcrib.net.streaming import Answer, Stream

try:
    from toolcrib.net.quick import QuickConnections
except ImportError:  # httptools comes with the extra `serve`; it goes without, at a price
    QuickConnections = None

if TYPE_CHECKING:
    import ssl

    from toolcrib.net.quick import Place
    from toolcrib.net.url import Url

_Times = tuple[float | None, float, float | None]
_KEPT = 100
_FAILURES = (aiohttp.ClientError, OSError, ValueError)


class Wire:
    """Sends requests over kept connections; follows no redirect."""

    def __init__(self, resolve: Resolve | None, tls: ssl.SSLContext | None) -> None:
        self._connections = Connections(resolve, tls)
        self._timeouts: dict[_Times, aiohttp.ClientTimeout] = {}
        self._quick = None if QuickConnections is None else QuickConnections(resolve, tls)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._connections.aclose()
        if self._quick is not None:
            await self._quick.aclose()

    async def ask(
        self,
        request: Request,
        private: Private,
        limits: Limits,
        total: float | None,
        sending: Sending,
    ) -> Response:
        """The answer to one request, within `total` seconds. A `TimeoutError` passes through."""
        # Nothing can leave before there is a connection, and nobody knows what left after that.
        CONNECTED.set(sending if request.acts else None)
        session = self._connections.session(private)
        url = _for_library(request)
        timeout = self._timeout((total, limits.connect, limits.pause))
        tries = 2 if request.repeatable else 1
        while True:
            tries -= 1
            try:
                reply = await session.request(
                    request.method,
                    url,
                    headers=request.headers,
                    data=request.body,
                    timeout=timeout,
                    allow_redirects=False,
                )
                try:
                    return await _read(request, reply, limits)
                finally:
                    if reply.content.is_eof():
                        reply.release()
                    else:
                        reply.close()
            except (ToolcribError, TimeoutError):
                raise
            except _FAILURES as error:
                # A server may close a kept connection at the moment it is used again.
                if not tries or not _dropped(error):
                    raise _failure(request, error) from error

    async def open(
        self, request: Request, private: Private, limits: Limits, sending: Sending
    ) -> Answer:
        """The beginning of an answer, whose body comes for as long as it takes."""
        if self._quick is not None and limits.pause is None:
            return await self._quick.open(request, private, limits, sending)
        CONNECTED.set(sending if request.acts else None)
        try:
            reply = await self._connections.session(private).request(
                request.method,
                _for_library(request),
                headers=request.headers,
                data=request.body,
                timeout=self._timeout((None, limits.connect, limits.pause)),
                allow_redirects=False,
            )
        except (ToolcribError, TimeoutError):
            raise
        except _FAILURES as error:
            raise _failure(request, error) from error
        return Stream(request, reply, _headers(reply), _failure)

    def place(self, url: Url, private: Private) -> Place | None:
        """The kept connections to a server, where they are ours."""
        return None if self._quick is None else self._quick.place(url, private)

    def _timeout(self, times: _Times) -> aiohttp.ClientTimeout:
        made = self._timeouts.get(times)
        if made is None:
            total, connect, pause = times
            made = aiohttp.ClientTimeout(total=total, connect=connect, sock_read=pause)
            if len(self._timeouts) < _KEPT:
                self._timeouts[times] = made
        return made


def _for_library(request: Request) -> URL:
    url = request.url
    try:
        made = URL(str(url), encoded=True)
        # Two readers that find different hosts in one text are how guards are passed by.
        if (made.scheme, made.raw_host, made.port) == url[:3]:
            return made
    except ValueError:
        pass
    raise Denial("url_not_allowed", f"{url.without_query} can be read in two ways")


async def _read(request: Request, reply: aiohttp.ClientResponse, limits: Limits) -> Response:
    headers = _headers(reply)
    well = reply.status < 300
    limit = limits.max_bytes if well else min(limits.error_bytes, limits.max_bytes)
    inflater = Inflater(headers.get("content-encoding", ""), limit)
    if request.method != "HEAD":
        while piece := await reply.content.readany():
            if not inflater.feed(piece):
                break
        if inflater.full and well and not limits.cut:
            raise ToolFailure(
                f"{request.words} answered with more than {limits.max_bytes} bytes",
                reason="output_too_large",
            )
    return Response(
        status=reply.status,
        headers=headers,
        body=inflater.body(),
        url=request.url,
        cut=inflater.full,
    )


def _headers(reply: aiohttp.ClientResponse) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in reply.headers.items():
        key = name.lower()
        found[key] = f"{found[key]}, {value}" if key in found else value
    return found


def _dropped(error: Exception) -> bool:
    if isinstance(error, aiohttp.ClientConnectorError):
        return False
    return isinstance(error, aiohttp.ServerDisconnectedError | OSError)


def _failure(request: Request, error: Exception) -> ToolFailure:
    """Our own words for what the library raises: its texts hold the whole URL."""
    place, unsent = request.url.authority, True
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        why = f"the connection to {place} is not secure: its certificate is not accepted"
    elif isinstance(error, aiohttp.ClientConnectorDNSError):
        why = f"no address is known for {place}"
    elif isinstance(error, aiohttp.ClientConnectorError):
        why = f"{place} cannot be reached"
        if isinstance(error.os_error, ConnectionRefusedError):
            why += ": the connection was refused"
    elif isinstance(error, aiohttp.ClientResponseError | ValueError):
        why, unsent = f"{place} does not answer in HTTP", False
    else:
        why, unsent = f"{place} closed the connection before its answer was whole", False
    return ToolFailure(why, reason="upstream_error", retryable=request.repeatable or unsent)
