"""A client that asks only where its guard lets it, and reads no more than its limits allow."""

from __future__ import annotations

import importlib.util
from time import monotonic
from typing import TYPE_CHECKING

from toolcrib.errors import ToolFailure
from toolcrib.net.exchange import REDIRECTS, Limits, Request, Response, Sending, redirected
from toolcrib.net.guard import Guard

if TYPE_CHECKING:
    import ssl

    from toolcrib.net.connections import Resolve
    from toolcrib.net.quick import Place
    from toolcrib.net.streaming import Answer
    from toolcrib.net.url import Url
    from toolcrib.net.wire import Wire

DEFAULT_LIMITS = Limits()
_INSTALL = "Install it with: pip install 'toolcrib[http]'"


class Client:
    """Holds connections open between requests. No cookies, no proxies from the environment, no
    switch for certificate checks. The HTTP library is loaded with the first request."""

    def __init__(
        self, *, resolve: Resolve | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._resolve = resolve
        self._tls = tls
        self._wire: Wire | None = None

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection. The client can be used again."""
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.aclose()

    async def send(
        self,
        request: Request,
        guard: Guard,
        limits: Limits = DEFAULT_LIMITS,
        sending: Sending | None = None,
    ) -> Response:
        """The answer, after at most `limits.redirects` redirects, each of them checked anew.

        Raises `Denial` for what the guard refuses, and `ToolFailure` (`upstream_error`, `timeout`,
        `output_too_large`) when there is no whole answer. A status of 400 or more is an answer.
        Whoever is cancelled meanwhile finds in `sending` whether the request may have an effect.
        """
        sending = sending or Sending()
        wire = self._loaded()
        end = None if limits.total is None else monotonic() + limits.total
        left = limits.total
        try:
            for _ in range(limits.redirects + 1):
                guard.check(request.url)
                response = await wire.ask(request, guard.private, limits, left, sending)
                sending.open = False
                location = response.headers.get("location")
                if response.status not in REDIRECTS or location is None:
                    return response
                request = redirected(request, response.status, location)
                left = None if end is None else max(end - monotonic(), 0.001)
        except TimeoutError:
            raise ToolFailure(
                f"{request.words} did not answer in time",
                reason="timeout",
                retryable=request.repeatable,
                still_running=sending.open,
            ) from None
        raise _too_far(request, limits)

    async def open(
        self,
        request: Request,
        guard: Guard,
        limits: Limits = DEFAULT_LIMITS,
        sending: Sending | None = None,
    ) -> Answer:
        """The beginning of an answer that is read while it comes, after redirects as for `send`.
        How long the body takes is for the reader to limit."""
        sending = sending or Sending()
        wire = self._loaded()
        for _ in range(limits.redirects + 1):
            guard.check(request.url)
            stream = await wire.open(request, guard.private, limits, sending)
            location = stream.headers.get("location")
            if stream.status not in REDIRECTS or location is None:
                return stream
            stream.close()
            sending.open = False
            request = redirected(request, stream.status, location)
        raise _too_far(request, limits)

    def place(self, url: Url, guard: Guard) -> Place | None:
        """The kept connections to a server, for requests whose bytes are known; None where the
        library for it is missing. Raises `Denial`."""
        guard.check(url)
        return self._loaded().place(url, guard.private)

    def _loaded(self) -> Wire:
        if self._wire is None:
            self._wire = _load(self._resolve, self._tls)
        return self._wire


def _too_far(request: Request, limits: Limits) -> ToolFailure:
    text = f"{request.words} was redirected more than {limits.redirects} times"
    return ToolFailure(text, reason="upstream_error")


def missing_library() -> str | None:
    """What to do about the HTTP library, if it is not installed; None when it is."""
    try:
        found = importlib.util.find_spec("aiohttp") is not None
    except ValueError:
        found = False
    return None if found else _INSTALL


def _load(resolve: Resolve | None, tls: ssl.SSLContext | None) -> Wire:
    if cure := missing_library():
        raise ToolFailure(
            f"the library for HTTP is not installed. {cure}", reason="tool_unavailable"
        )
    from toolcrib.net.wire import Wire

    return Wire(resolve, tls)
