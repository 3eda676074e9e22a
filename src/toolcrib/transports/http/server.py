"""The server: uvicorn's protocol with our limits on sockets of our own."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from contextvars import Context, copy_context
from email.utils import formatdate
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.server import ServerState

from toolcrib.core.serving import HttpSettings, Listen, Tls
from toolcrib.errors import ConfigError
from toolcrib.transports.eager import Starter
from toolcrib.transports.http.connection import Connection
from toolcrib.transports.http.listening import most_connections, open_tcp, open_unix, remove_unix
from toolcrib.transports.http.sockets import DirectSocket

if TYPE_CHECKING:
    from toolcrib.transports.http.app import App

_TICKS = (0.25, 1.0)
"""Seconds between two looks at the clock, at least and at most."""
_PING = 30.0
"""Seconds between two signs of life of a WebSocket."""


class HttpDoor:
    """Listens on every address of the settings and hands requests to the application.

    `bind` tells the real addresses, `open` begins to accept, `close` ends that, and `shutdown`
    ends what is connected.
    """

    def __init__(self, settings: HttpSettings) -> None:
        self.settings = settings
        self.most = most_connections(settings.connections)
        """Connections at the same time."""
        self.state = ServerState()
        self.closing = False
        """Nothing new is accepted, and connections end with their answer."""
        self.loop: asyncio.AbstractEventLoop
        self.starter: Starter
        self.context: Context
        """What it was opened in: no call has set anything there."""
        self.config: uvicorn.Config
        self.app: App
        """What answers requests."""
        self.addresses: tuple[Listen, ...] = ()
        """Where it listens, with the ports it was given."""
        self._tcp: list[socket.socket] = []
        self._unix: tuple[socket.socket, os.stat_result] | None = None
        self._tls = None if settings.tls is None else load_tls(settings.tls)
        self._servers: list[asyncio.Server] = []
        self._tick: asyncio.TimerHandle | None = None
        self._second = 0
        self.date_line = b""
        """What every answer says of the time."""

    @property
    def urls(self) -> tuple[str, ...]:
        """Where it can be reached."""
        scheme = "http" if self._tls is None else "https"
        return tuple(f"{scheme}://{_written(each)}" for each in self.addresses)

    def bind(self) -> None:
        """Take the addresses. Raises `ConfigError`."""
        try:
            found: list[Listen] = []
            for listen in self.settings.listen:
                held = open_tcp(listen)
                self._tcp += held
                found.append(Listen(host=listen.host, port=held[0].getsockname()[1]))
            self.addresses = tuple(found)
            if self.settings.unix is not None:
                made = open_unix(self.settings.unix)
                self._unix = (made, Path(self.settings.unix).stat())
        except BaseException:
            self._let_go()
            raise

    async def open(self, app: App) -> None:
        """Begin to accept."""
        self.loop = asyncio.get_running_loop()
        self.starter = Starter()
        self.context = copy_context()
        self.app = app
        asgi: Any = app
        self.config = uvicorn.Config(
            asgi,
            http=Connection,
            ws=DirectSocket,
            ws_max_size=self.settings.max_body,
            ws_per_message_deflate=False,
            ws_ping_interval=_PING,
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            interface="asgi3",
        )
        self.config.load()
        self._look()
        timeout = self.settings.request_timeout
        for held in self._tcp:
            secure: dict[str, Any] = {}
            if self._tls is not None:
                secure = {"ssl": self._tls, "ssl_handshake_timeout": timeout}
            factory = partial(Connection, self, "http")
            self._servers.append(await self.loop.create_server(factory, sock=held, **secure))
        if self._unix is not None:
            factory = partial(Connection, self, "unix")
            self._servers.append(await self.loop.create_server(factory, sock=self._unix[0]))

    def renew(self, settings: HttpSettings) -> None:
        """Go by these limits from now on, and read the certificate again. Raises `ConfigError`
        and changes nothing when that cannot be used."""
        if self._tls is not None and settings.tls is not None:
            load_tls(settings.tls)  # the one in use is not touched before this worked
            load_tls(settings.tls, self._tls)
        self.settings = settings
        self.most = most_connections(settings.connections)

    def close(self) -> None:
        """Accept nothing more. What is connected is still answered."""
        self.closing = True
        for server in self._servers:
            server.close()
        self._let_go()

    async def shutdown(self, seconds: float = 5.0) -> None:
        """End every connection after its answer, and what has not ended after `seconds` at once."""
        for connection in list(self.state.connections):
            if isinstance(connection, Connection):  # WebSockets are being closed, with a reason
                connection.shutdown()
        if self.state.tasks:
            await asyncio.wait(list(self.state.tasks), timeout=seconds)
        for task in list(self.state.tasks):
            task.cancel()
        if self.state.tasks:
            await asyncio.wait(list(self.state.tasks), timeout=1.0)
        for connection in list(self.state.connections):
            if isinstance(connection, Connection):
                connection.break_off()
        end = self.loop.time() + 1.0
        while self.state.connections and self.loop.time() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.005)  # what was written last leaves
        for connection in list(self.state.connections):
            connection.transport.abort()
        if self._tick is not None:
            self._tick.cancel()
        self.starter.close()
        await asyncio.sleep(0)
        for server in self._servers:
            await server.wait_closed()

    def _look(self) -> None:
        """Look at the clock for all connections: a timer for each would be dearer."""
        soonest = min(self.settings.request_timeout, self.settings.keep_alive)
        tick = min(max(_TICKS[0], soonest / 8), _TICKS[1])
        self._tick = self.loop.call_later(tick, self._look)
        now = self.loop.time()
        for connection in list(self.state.connections):
            if isinstance(connection, Connection):
                connection.sweep(now)
        second = int(time.time())
        if second != self._second:
            self._second = second
            date = formatdate(second, usegmt=True).encode()
            self.state.default_headers = [(b"date", date)]
            self.date_line = b"date: %b\r\n" % date

    def _let_go(self) -> None:
        for held in self._tcp:
            held.close()
        if self._unix is not None and self.settings.unix is not None:
            remove_unix(self.settings.unix, self._unix[1])
            self._unix[0].close()
        self._tcp, self._unix = [], None


def load_tls(tls: Tls, into: ssl.SSLContext | None = None) -> ssl.SSLContext:
    """A context with the certificate of these files. Raises `ConfigError`."""
    context = into or ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(tls.certificate, tls.key, lambda: tls.password or "")
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or "unusable"
        raise ConfigError(
            f"the certificate {tls.certificate} cannot be used with the key {tls.key}: {why}",
            key="serve.http.tls",
            cure="Name a certificate and its key in PEM form",
        ) from None
    return context


def _written(listen: Listen) -> str:
    host = f"[{listen.host}]" if ":" in listen.host else listen.host
    return f"{host}:{listen.port}"
