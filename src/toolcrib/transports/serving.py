"""Opens the doors of a host, follows its configuration, and closes them in order."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from toolcrib.core.serving import HttpSettings, ServeSettings, followed
from toolcrib.errors import ConfigError, ToolcribError
from toolcrib.host.host import ToolHost
from toolcrib.transports.service import Service
from toolcrib.transports.warming import QUIET, load_rest

if TYPE_CHECKING:
    from toolcrib.transports.http.app import App
    from toolcrib.transports.http.server import HttpDoor
    from toolcrib.transports.identity.identity import Identity
    from toolcrib.transports.stdio import StdioDoor

_log = logging.getLogger("toolcrib")
_LOOK = 0.25
"""Seconds between two looks at whether the configuration changed."""


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """What is open, as far as it was asked for."""

    service: Service
    doors: tuple[str, ...]
    urls: tuple[str, ...] = ()
    """Where the HTTP door is, with its real ports."""
    unix: str | None = None
    """The path of the unix socket."""


async def serve(
    host: ToolHost,
    settings: ServeSettings,
    *,
    doors: Collection[str] = ("http",),
    ready: Callable[[Serving], None],
    stop: asyncio.Event | None = None,
    stdio: StdioDoor | None = None,
) -> None:
    """Serve the host until `stop` is set, a signal says so, or the stdio client has gone.

    `stdio` is the door to use for `stdio`, where it had to take the descriptors before.
    SIGHUP reads the configuration again. SIGTERM and SIGINT end it in order: nothing new is
    accepted, running calls get `host.drain` seconds; the same signal again ends it at once.
    Raises `ConfigError` when a door cannot be opened.
    """
    if any(door != "stdio" for door in doors):
        from toolcrib.transports.identity.doors import check_doors

        check_doors(host.config, settings, doors)
    stop = stop or asyncio.Event()
    door: HttpDoor | None = None
    if "http" in doors:
        door = _http_door(settings.http)
    if "stdio" in doors and stdio is None:
        from toolcrib.transports.stdio import StdioDoor

        stdio = StdioDoor()
    gateway = _Gateway(host, settings, doors, door, stdio)
    with _Signals(stop, gateway.reload):
        await gateway.run(ready, stop)


def new_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The quickest kind of event loop there is, for `asyncio.Runner(loop_factory=…)`."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _expect_mcp() -> None:
    """Load what most clients of stdio begin with, while the store is opened on its thread."""
    import toolcrib.transports.mcp.stdio  # noqa: F401 # pyright: ignore[reportUnusedImport]


class _Gateway:
    """One run of `serve`."""

    def __init__(
        self,
        host: ToolHost,
        settings: ServeSettings,
        doors: Collection[str],
        door: HttpDoor | None,
        stdio: StdioDoor | None,
    ) -> None:
        self._host = host
        self._settings = settings
        self._doors = tuple(doors)
        self._door = door
        self._stdio = stdio
        self._app: App | None = None
        self._service: Service | None = None
        self._config = host.config
        self._tasks: set[asyncio.Task[Any]] = set()
        self._reloading = asyncio.Lock()

    async def run(self, ready: Callable[[Serving], None], stop: asyncio.Event) -> None:
        """Open, wait, close."""
        door = self._door
        if door is not None:
            door.bind()
        try:
            service = Service(self._host, self._settings)
            if self._stdio is not None and self._settings.mcp.enabled:
                asyncio.get_running_loop().call_soon(_expect_mcp)
            await service.start()
        except BaseException:
            if door is not None:
                door.close()
            raise
        self._service = service
        identity: Identity | None = None
        try:
            if door is not None:
                from toolcrib.transports.http.app import create_app
                from toolcrib.transports.identity.identity import Identity

                identity = Identity(self._host, self._settings)
                self._app = create_app(service, identity, door.addresses)
                await door.open(self._app)
            await self._serve(service, identity, ready, stop)
        finally:
            await self._close(service, identity)

    async def _serve(
        self,
        service: Service,
        identity: Identity | None,
        ready: Callable[[Serving], None],
        stop: asyncio.Event,
    ) -> None:
        stopped = self._go(stop.wait())
        talking: asyncio.Task[Any] | None = None
        following = self._go(self._follow(identity))
        loading = asyncio.get_running_loop().call_later(QUIET, load_rest)

        def opened() -> None:
            door = self._door
            ready(
                Serving(
                    service=service,
                    doors=self._doors,
                    urls=() if door is None else door.urls,
                    unix=None if door is None else self._settings.http.unix,
                )
            )

        try:
            if self._stdio is None:
                opened()
                await stopped
                return
            talking = self._go(self._stdio.serve(service, ready=opened))
            await asyncio.wait({stopped, talking}, return_when=asyncio.FIRST_COMPLETED)
            self._stdio.stop()
            await talking
        finally:
            following.cancel()
            loading.cancel()
            stopped.cancel()

    async def _close(self, service: Service, identity: Identity | None) -> None:
        """Accept nothing more, let calls end, then end what is connected."""
        ends: list[Awaitable[Any]] = [service.stop()]
        if self._door is not None:
            from toolcrib.transports.websocket import close_websockets

            self._door.close()
            ends.append(close_websockets(service, self._host.settings.drain))
            if self._app is not None:
                ends.append(self._app.close())
        try:
            await asyncio.gather(*ends)
        finally:
            if self._door is not None:
                await self._door.shutdown()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if identity is not None:
                await identity.close()

    def reload(self) -> None:
        """Read the configuration, tokens and certificates again."""
        self._go(self._reload())

    async def _reload(self) -> None:
        async with self._reloading:
            try:
                await self._host.reload()
            except ToolcribError as error:
                _log.error("the configuration was not taken: %s", error)
            except Exception:
                _log.exception("the configuration could not be read again")
            self._renew()

    async def _follow(self, identity: Identity | None) -> None:
        """Take over what a reload changed, whoever asked for it."""
        while True:
            await asyncio.sleep(_LOOK)
            if identity is not None:
                identity.look()
            if self._host.config is not self._config:
                self._renew()

    def _renew(self) -> None:
        before, after = self._config.serving, self._host.config.serving
        http = followed(self._settings.http, before.http, after.http)
        self._config = self._host.config
        old = self._settings.http
        lasting = replace(http, listen=old.listen, unix=old.unix)
        if (http.tls is None) != (old.tls is None):
            lasting = replace(lasting, tls=old.tls)
        if lasting != http:
            _log.warning("serve.http: other addresses, or TLS where there was none, need a restart")
            http = lasting
        self._settings = replace(followed(self._settings, before, after), http=http)
        if self._service is not None:
            self._service.renew(self._settings)
        if self._door is None or self._app is None:
            return
        try:
            self._door.renew(http)
        except ConfigError as error:
            _log.error("the certificate was not taken: %s", error)
        self._app.renew(http)

    def _go(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _http_door(settings: HttpSettings) -> HttpDoor:
    try:
        from toolcrib.transports.http.server import HttpDoor
    except ImportError as error:
        raise ConfigError(
            f"the HTTP door needs {error.name}, which is not installed",
            key="serve.http",
            cure="pip install 'toolcrib[serve]'",
        ) from None
    return HttpDoor(settings)


class _Signals:
    """Signals while serving; outside the main thread there are none to be had."""

    def __init__(self, stop: asyncio.Event, reload: Callable[[], None]) -> None:
        self._stop = stop
        self._reload = reload
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.getsignal(number)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._end)

    def _end(self) -> None:
        self._stop.set()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            # Asked twice, the system ends the process as if nobody listened.
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    def __exit__(self, *_: object) -> None:
        if not self._before:
            return
        loop = asyncio.get_running_loop()
        for number, handler in self._before.items():
            loop.remove_signal_handler(number)
            if handler is not None:
                signal.signal(number, handler)
