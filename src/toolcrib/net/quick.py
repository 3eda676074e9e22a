"""Kept connections for servers that are asked all the time, at a fraction of the usual cost.

What may be connected to, and how, is as everywhere in this package: the addresses of a name are
checked, and the connection is made to one of these very addresses.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from time import monotonic
from weakref import WeakKeyDictionary

from toolcrib.errors import Denial, ToolFailure
from toolcrib.net.addresses import Private, address_from
from toolcrib.net.connections import DEFAULT_HEADERS, GuardedResolver, Resolve, system_resolve
from toolcrib.net.encoding import HEADER_NAME
from toolcrib.net.exchange import SAFE, Limits, Request, Sending
from toolcrib.net.quickwire import QuickConnection, QuickStream
from toolcrib.net.url import Url

_KEPT = 64
"""Idle connections to one place."""
_IDLE = 4.0
"""Seconds after which an idle connection is not trusted any more. Most servers hang up after five,
and a request that is sent at that very moment may or may not have arrived."""
_Place = tuple[str, str, int, Private]
_Idle = list[QuickConnection]


class QuickConnections:
    """The connections of one client, in each loop that it is used in."""

    def __init__(self, resolve: Resolve | None, tls: ssl.SSLContext | None) -> None:
        self._resolve = resolve or system_resolve
        self._tls = tls
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool] = WeakKeyDictionary()

    async def open(
        self, request: Request, private: Private, limits: Limits, sending: Sending
    ) -> QuickStream:
        """The beginning of an answer. Raises `ToolFailure`; a `TimeoutError` passes through."""
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            pool = self._pools[loop] = _Pool()
        head = _head(request)
        idle = pool.idle(request.url, private)
        connection = pool.take(idle)
        if connection is None:
            connection = await self._connect(pool, idle, request.url, private, limits)
        sending.open = sending.open or request.acts
        stream = connection.send(request, head + request.body if request.body else head)
        try:
            while not stream.begun:
                await stream.more()
        except BaseException:
            stream.close()
            raise
        return stream

    def place(self, url: Url, private: Private) -> Place:
        """Where requests to one URL go, from the loop that runs now."""
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            pool = self._pools[loop] = _Pool()
        return Place(pool, pool.idle(url, private))

    async def aclose(self) -> None:
        """Close every connection; those of other loops that still run, over there."""
        here = asyncio.get_running_loop()
        pools, self._pools = dict(self._pools), WeakKeyDictionary()
        for loop, pool in pools.items():
            if loop is here:
                pool.close()
            elif loop.is_running():
                loop.call_soon_threadsafe(pool.close)
        await asyncio.sleep(0)  # a connection that was given up is let go of in the next turn

    async def _connect(
        self, pool: _Pool, idle: _Idle, url: Url, private: Private, limits: Limits
    ) -> QuickConnection:
        loop = asyncio.get_running_loop()
        where = url.authority
        try:
            async with asyncio.timeout(limits.connect):
                hosts = await self._addresses(url, private)
                tls = self._secure() if url.scheme == "https" else None
                problem: OSError | None = None
                for host in hosts:
                    try:
                        _, made = await loop.create_connection(
                            lambda: QuickConnection(
                                lambda kept: pool.give(idle, kept), pool.forget
                            ),
                            host,
                            url.port,
                            ssl=tls,
                            server_hostname=url.host if tls is not None else None,
                        )
                    except ssl.SSLError:
                        raise
                    except OSError as error:
                        problem = error
                    else:
                        pool.held.add(made)
                        return made
        except ssl.SSLError as error:
            why = f"the connection to {where} is not secure: its certificate is not accepted"
            raise ToolFailure(why, reason="upstream_error", retryable=True) from error
        except socket.gaierror as error:
            why = f"no address is known for {where}"
            raise ToolFailure(why, reason="upstream_error", retryable=True) from error
        why = f"{where} cannot be reached"
        if isinstance(problem, ConnectionRefusedError):
            why += ": the connection was refused"
        raise ToolFailure(why, reason="upstream_error", retryable=True) from problem

    async def _addresses(self, url: Url, private: Private) -> list[str]:
        if address_from(url.host) is not None:  # the guard has looked at it
            return [url.host]
        found = await GuardedResolver(private, self._resolve).resolve(url.host, url.port)
        return [each["host"] for each in found]

    def _secure(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls


class Place:
    """The kept connections to one server, for who knows what it wants to send to it."""

    def __init__(self, pool: _Pool, idle: _Idle) -> None:
        self._pool = pool
        self._idle = idle

    def send(self, request: Request, data: bytes) -> QuickStream | None:
        """Send a request on a connection that is there; None when there is none at the moment.
        `data` is the whole of it, head and body."""
        connection = self._pool.take(self._idle)
        return None if connection is None else connection.send(request, data)


class _Pool:
    """The connections of one loop."""

    def __init__(self) -> None:
        self.held: set[QuickConnection] = set()
        self._idle: dict[_Place, _Idle] = {}
        self._latest: tuple[Url, Private, _Idle] | None = None

    def idle(self, url: Url, private: Private) -> _Idle:
        """The connections that wait for a request to this place under this rule."""
        latest = self._latest
        if latest is not None and latest[0] is url and latest[1] is private:
            return latest[2]
        found = self._idle.setdefault((*url[:3], private), [])
        self._latest = url, private, found
        return found

    def take(self, idle: _Idle) -> QuickConnection | None:
        """The connection that was used last, if it is still good."""
        while idle:
            found = idle.pop()
            if found.open and monotonic() - found.since < _IDLE:
                return found
            found.close()
        return None

    def give(self, idle: _Idle, connection: QuickConnection) -> None:
        """Keep a connection for the next request."""
        if connection not in self.held or len(idle) >= _KEPT:
            connection.close()
            return
        connection.since = monotonic()
        idle.append(connection)

    def forget(self, connection: QuickConnection) -> None:
        """It is gone."""
        self.held.discard(connection)
        for idle in self._idle.values():
            if connection in idle:
                idle.remove(connection)

    def close(self) -> None:
        """Close all of them."""
        held, self.held = self.held, set()
        self._idle.clear()
        self._latest = None
        for connection in held:
            connection.close()


def lines_of(request: Request) -> bytes:
    """The head of a request but for the length of its body, which follows."""
    lines = [f"{request.method} {request.url.target} HTTP/1.1", f"Host: {request.url.authority}"]
    given = request.headers
    for name, value in given.items():
        if not HEADER_NAME(name) or "\r" in value or "\n" in value or "\0" in value:
            raise Denial("url_not_allowed", f"the header {name[:40]!a} cannot be sent")
        lines.append(f"{name}: {value}")
    names = {name.lower() for name in given}
    lines += [f"{k}: {v}" for k, v in DEFAULT_HEADERS.items() if k.lower() not in names]
    lines.append("")
    try:
        return "\r\n".join(lines).encode("latin-1")
    except UnicodeEncodeError:
        raise Denial("url_not_allowed", "a header holds characters that it cannot carry") from None


def _head(request: Request) -> bytes:
    lines = lines_of(request)
    if request.body is not None or request.method not in SAFE:
        return b"%bContent-Length: %d\r\n\r\n" % (lines, len(request.body or b""))
    return lines + b"\r\n"
