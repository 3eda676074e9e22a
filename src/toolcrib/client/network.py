"""Connections of a client over TCP or a unix socket, and what their failures mean."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from toolcrib.client.address import Address
from toolcrib.client.errors import CannotConnect, ClientError, ConnectionLost, NotToolcrib

if TYPE_CHECKING:
    import aiohttp

_OWN = ("authorization", "content-type", "host", "idempotency-key")
"""Headers that are the client's own business."""


class Network:
    """Holds connections to one origin. No cookies, no proxies from the environment, and nothing
    is ever sent to where an answer points."""

    def __init__(
        self,
        address: Address,
        *,
        token: str | None,
        headers: Mapping[str, str] | None,
        tls: ssl.SSLContext | str | None,
        timeout: float,
    ) -> None:
        self.address = address
        self.where = address.shown
        self.timeout = timeout
        self._headers = _headers(token, headers, self.where)
        self._tls = _trust(tls, self.where)
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        """The connections, made with the first use."""
        if self._session is None:
            if importlib.util.find_spec("aiohttp") is None:
                raise ClientError(
                    "this address needs an HTTP library that is not installed",
                    where=self.where,
                    cure="Run: pip install 'toolcrib[client]'",
                )
            self._session = self._made()
        return self._session

    def _made(self) -> aiohttp.ClientSession:
        import aiohttp

        tracing = aiohttp.TraceConfig()
        tracing.on_request_redirect.append(_refuse_redirect)
        if self.address.socket is not None:
            connector: aiohttp.BaseConnector = aiohttp.UnixConnector(self.address.socket, limit=0)
        else:
            connector = aiohttp.TCPConnector(limit=0, ssl=self._tls or True)
        return aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=[tracing],
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.timeout),
        )

    async def close(self) -> None:
        """Close every connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


class Redirected(Exception):
    """The answer points somewhere else."""


async def _refuse_redirect(_session: Any, _context: Any, _params: Any) -> NoReturn:
    raise Redirected


def explained(error: BaseException, where: str) -> ClientError:
    """What a failure of the HTTP library means. The library's exceptions may carry the headers,
    and with them the token: they are not chained."""
    import aiohttp

    if isinstance(error, Redirected):
        return NotToolcrib(
            "the answer is a redirect, which is not followed: the token is for this address only",
            where=where,
            cure="Use the address that it leads to, if you trust it",
        )
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = getattr(error.certificate_error, "verify_message", "") or "it cannot be verified"
        cure = (
            "Name the file of the authority's certificate: Client(…, tls='ca.pem'), or the "
            "variable SSL_CERT_FILE"
        )
        return CannotConnect(f"its certificate is not trusted: {why}", where=where, cure=cure)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        cure = "Use http:// or ws:// if the host serves without TLS"
        return CannotConnect("no TLS connection comes about", where=where, cure=cure)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return CannotConnect("the name is not known", where=where, cure="Check the address")
    if isinstance(error, aiohttp.ClientConnectorError):
        # The words of asyncio repeat the address; those of the system say what is wrong.
        number = error.os_error.errno
        why = os.strerror(number).lower() if number else type(error.os_error).__name__
        cure = "Is the host running? Start it with `toolcrib serve`"
        return CannotConnect(f"no connection: {why}", where=where, cure=cure)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return CannotConnect("no connection in time", where=where, cure="Check the address")
    if isinstance(error, aiohttp.ClientResponseError):
        cure = "Check scheme and port: https:// if the host serves with TLS"
        return NotToolcrib("what answers there does not speak HTTP", where=where, cure=cure)
    if isinstance(error, aiohttp.InvalidURL):
        return ClientError("the address cannot be used", where=where, cure="Check host and port")
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return ConnectionLost("no answer in time", where=where)
    # Among other things: a host with TLS hangs up on whoever speaks without.
    plain = where.startswith(("http:", "ws:"))
    cure = "Use https:// or wss:// if the host serves with TLS" if plain else None
    return ConnectionLost("the connection broke before the answer", where=where, cure=cure)


def _headers(token: str | None, headers: Mapping[str, str] | None, where: str) -> dict[str, str]:
    made: dict[str, str] = {}
    for name, value in (headers or {}).items():
        if name.lower() in _OWN:
            cure = "Use token=…" if name.lower() == "authorization" else "Leave it out"
            raise ClientError(f"the header {name} is the client's own", where=where, cure=cure)
        if not _sendable(name) or not _sendable(value):
            raise ClientError(
                f"the header {name[:40]!r} has characters that cannot be sent", where=where
            )
        made[name] = value
    if token:
        if not _sendable(token) or " " in token:
            raise ClientError(
                "the token has characters that no token has",
                where=where,
                cure="Look for spaces and line ends around it",
            )
        made["Authorization"] = f"Bearer {token}"
    return made


def _sendable(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _trust(tls: ssl.SSLContext | str | None, where: str) -> ssl.SSLContext | None:
    if tls is None or isinstance(tls, ssl.SSLContext):
        return tls
    try:
        return ssl.create_default_context(cafile=tls)
    except (OSError, ssl.SSLError) as error:
        raise ClientError(
            f"the certificate file {tls} cannot be read: {error.strerror or error}",
            where=where,
            cure="Name a file in PEM form",
        ) from None
