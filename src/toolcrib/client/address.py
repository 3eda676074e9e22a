"""Where a host is: what the first argument of a client may say."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple
from urllib.parse import SplitResult, urlsplit

from toolcrib.client.errors import ClientError
from toolcrib.core.units import did_you_mean

SCHEMES = ("http", "https", "ws", "wss", "unix", "stdio")
SOCKET_PATH = "/v1/ws"
_BARE = re.compile(r"[A-Za-z0-9.-]+:[0-9]{1,5}(/v1)?/?").fullmatch
"""HOST:PORT, typed without its scheme. Nothing in it can be a secret."""


class Address(NamedTuple):
    """An address, read."""

    kind: Literal["http", "websocket", "stdio"]
    url: str
    """For HTTP what paths are put behind; for WebSocket the whole."""
    socket: str | None = None
    """The path of a unix socket."""

    @property
    def shown(self) -> str:
        """How messages name it."""
        return f"unix:{self.socket}" if self.socket else self.url.removesuffix(":")


def read_address(url: str) -> Address:
    """What `url` means. Raises `ClientError`, which never repeats what may be a secret."""
    if not isinstance(url, str) or not url.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _wrong("there is no address", f"Give one of {_examples()}")
    url = url.strip()
    scheme, colon, rest = url.partition(":")
    scheme = scheme.lower()
    if scheme == "stdio" and colon:
        if rest.strip("/"):
            raise _wrong("nothing stands behind stdio:", "Give the program as command=[…]")
        return Address("stdio", "stdio:")
    if scheme == "unix" and colon:
        path = rest[2:] if rest.startswith("//") else rest
        if not path:
            raise _wrong("the path of the socket is missing", "Write unix:/run/x.sock")
        return Address("http", "http://localhost", path)
    if scheme not in SCHEMES or not rest.startswith("//"):
        raise _wrong("this is no address of a host", _meant(scheme, url))
    return _network(scheme, url)


def _network(scheme: str, url: str) -> Address:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _wrong("the address cannot be read", "Check host and port") from None
    if parts.username is not None or parts.password is not None:
        cure = "Give a token as token=…, or in TOOLCRIB_TOKEN"
        raise _wrong("names and passwords do not belong into an address", cure)
    if not parts.hostname:
        raise _wrong("the name of the host is missing", "Write http://HOST:PORT")
    if parts.query or parts.fragment:
        raise _wrong("an address ends with its path", "Leave out ? and #")
    origin = f"{scheme}://{_host(parts)}{'' if port is None else f':{port}'}"
    path = parts.path.rstrip("/")
    if scheme in ("ws", "wss"):
        return Address("websocket", f"{origin}{path or SOCKET_PATH}")
    # The address that `toolcrib serve` prints ends with the version of the routes.
    return Address("http", f"{origin}{path.removesuffix('/v1')}")


def _host(parts: SplitResult) -> str:
    name = parts.hostname or ""
    return f"[{name}]" if ":" in name else name


def _examples() -> str:
    return "http://HOST:PORT, ws://HOST:PORT, unix:PATH"


def _meant(scheme: str, url: str) -> str:
    if _BARE(url):
        return f"Did you mean http://{url}?"
    close = did_you_mean(scheme, SCHEMES)
    return f"Did you mean {close}://…?" if close else f"Write one of {_examples()}"


def _wrong(message: str, cure: str) -> ClientError:
    return ClientError(message, where="Client(…)", cure=cure)
