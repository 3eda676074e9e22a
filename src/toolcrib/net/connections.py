"""Open connections, and the look-up that decides where they may lead."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from toolcrib.net.addresses import Private
from toolcrib.net.exchange import Sending
from toolcrib.net.guard import checked
from toolcrib.net.inflate import ACCEPTED

if TYPE_CHECKING:
    import ssl

    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name: `await resolve(host, port)`."""

DEFAULT_HEADERS = {"User-Agent": "toolcrib", "Accept": "*/*", "Accept-Encoding": ACCEPTED}
_MOST = 256
"""Connections at a time; more requests than that wait for one."""
_Pools = dict[Private, aiohttp.ClientSession]

CONNECTED: ContextVar[Sending | None] = ContextVar("CONNECTED", default=None)
"""Who is told when the request of this task has its connection; None where it does not matter."""


async def system_resolve(host: str, port: int) -> Sequence[str]:
    """The addresses that the operating system knows for a name."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return list(dict.fromkeys(cast("str", info[4][0]) for info in found))


class GuardedResolver(AbstractResolver):
    """Looks a name up once and hands out its addresses only if all of them may be connected to.

    The connection is made to one of these very addresses, so an answer that changes between the
    check and the connection changes nothing.
    """

    def __init__(self, private: Private, resolve: Resolve) -> None:
        self._private = private
        self._resolve = resolve

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The checked addresses of `host`."""
        addresses = [ip_address(text) for text in await self._resolve(host, port)]
        if not addresses:
            raise OSError(None, "the name has no address")
        checked(host, addresses, self._private)
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """Nothing is held."""


class GuardedConnector(aiohttp.TCPConnector):
    """Notes that a request has a connection, from which moment on it may reach the server."""

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        """A connection, a kept one or a new one."""
        made = await super().connect(req, traces, timeout)
        sending = CONNECTED.get()
        if sending is not None:
            sending.open = True
        return made


class Connections:
    """Sessions of the client library: one for each event loop and each rule on addresses.

    A connection that one rule permitted must never serve a request under a stricter one.
    """

    def __init__(self, resolve: Resolve | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._resolve = resolve or system_resolve
        self._tls = tls
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pools] = WeakKeyDictionary()

    def session(self, private: Private) -> aiohttp.ClientSession:
        """The session for requests under `private`, in the running loop."""
        loop = asyncio.get_running_loop()
        pools = self._pools.get(loop)
        if pools is None:
            pools = self._pools[loop] = {}
        session = pools.get(private)
        if session is None or session.closed:
            session = pools[private] = self._open(private)
        return session

    def _open(self, private: Private) -> aiohttp.ClientSession:
        connector = GuardedConnector(
            resolver=GuardedResolver(private, self._resolve),
            use_dns_cache=False,
            limit=_MOST,
            ssl=self._tls or True,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=DEFAULT_HEADERS,
            skip_auto_headers=("Content-Type",),
            auto_decompress=False,
            trust_env=False,
        )
        # It would send PUT and DELETE a second time when a connection drops; only the caller
        # knows whether that does harm.
        session._retry_connection = False  # pyright: ignore[reportPrivateUsage]
        return session

    async def aclose(self) -> None:
        """Close every connection; those of other loops that still run, over there."""
        here = asyncio.get_running_loop()
        pools, self._pools = dict(self._pools), WeakKeyDictionary()
        for loop, sessions in pools.items():
            for session in sessions.values():
                if loop is here:
                    await session.close()
                elif loop.is_running():
                    there = asyncio.run_coroutine_threadsafe(session.close(), loop)
                    await asyncio.wrap_future(there)
