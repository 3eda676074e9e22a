"""Which names and which web pages a request may come with.

A web page can make a browser on this machine send requests here, and can make its own name lead
here (DNS rebinding). The `Host` header then names the page's host, and `Origin` the page: neither
can be forged by a page, so both are checked before anything else is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from toolcrib.core.serving import HttpSettings, Listen
from toolcrib.transports.faults import Fault

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not bound to
UNIX = ("localhost", "toolcrib")
"""What clients of the unix socket may write as host: they need some name, and no page gets here."""
_ONCE = frozenset(
    (
        b"host", b"origin", b"authorization", b"content-length", b"content-type",
        b"content-encoding", b"transfer-encoding", b"idempotency-key", b"if-none-match",
        b"last-event-id",
    )
)  # fmt: skip
_GUARDED = ("/v1", "/mcp")
_FORWARDED = frozenset(
    (
        b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto",
        b"x-real-ip",
    )
)  # fmt: skip


def read_head(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The headers by name. Raises `Fault` when one that decides something stands twice."""
    found = dict(headers)
    if len(found) != len(headers):
        seen: set[bytes] = set()
        for name, _ in headers:
            if name in seen and (name in _ONCE or name.startswith(b"mcp-")):
                raise Fault("not_a_request", f"the header {name.decode('ascii')} stands twice")
            seen.add(name)
    return found


def is_forwarded(head: Mapping[bytes, bytes]) -> bool:
    """Whether a proxy passed this on: then the other end of the socket is not the caller's."""
    return not _FORWARDED.isdisjoint(head)


class Guard:
    """Holds the names and origins that are accepted."""

    def __init__(self, settings: HttpSettings, addresses: Iterable[Listen] = ()) -> None:
        own: set[str] = set(UNIX if settings.unix else ())
        ports: set[int] = set()
        origins: set[str] = set()
        scheme = "http" if settings.tls is None else "https"
        self._everywhere: set[int] = set()
        for listen in tuple(addresses) or settings.listen:
            names = LOOPBACK if listen.loopback else (_bracketed(listen.host.lower()),)
            if listen.host in EVERYWHERE:
                names = LOOPBACK
                self._everywhere.add(listen.port)
            ports.add(listen.port)
            for name in names:
                own |= {name, f"{name}:{listen.port}"}
                origins.add(f"{scheme}://{name}:{listen.port}")
                if listen.port == (80 if scheme == "http" else 443):
                    origins.add(f"{scheme}://{name}")
        for name in (each.lower() for each in settings.hosts):
            own.add(name)
            origins.add(f"https://{name}")
            if not _has_port(name):
                own |= {f"{name}:{port}" for port in ports}
        self._scheme = scheme
        self._hosts = frozenset(name.encode() for name in own)
        self._shared = frozenset(origin.lower().rstrip("/").encode() for origin in settings.origins)
        self._origins = self._shared | {origin.encode() for origin in origins}

    def check(self, head: Mapping[bytes, bytes], scope: Mapping[str, Any]) -> None:
        """Raise `Fault` unless the request comes under a name, and from a page, that may be."""
        host = head.get(b"host")
        if host not in self._hosts and not self._is_own(host, scope):
            raise Fault(
                "host_refused",
                "this host is not served under that name; serve.http.hosts lists further names",
            )
        origin = head.get(b"origin")
        if origin is not None:
            if origin.lower() not in self._origins and not self._is_same(origin, host):
                raise Fault(
                    "origin_refused",
                    "pages of that origin may not call; serve.http.origins lists those that may",
                )
        elif head.get(b"sec-fetch-site") == b"cross-site" and scope["path"].startswith(_GUARDED):
            raise Fault("origin_refused", "another site's page may not call")

    def plain(self, head: Mapping[bytes, bytes]) -> bool:
        """Whether it is clear at once that a request which no page made may pass."""
        return head.get(b"host") in self._hosts

    def shares(self, head: Mapping[bytes, bytes]) -> bytes | None:
        """The origin that may read the answer, where it is another site's."""
        origin = head.get(b"origin")
        return origin if origin is not None and origin.lower() in self._shared else None

    def _is_own(self, host: bytes | None, scope: Mapping[str, Any]) -> bool:
        """Whether the name is written in other letters, or is the very address that was reached
        where the host listens on all of them."""
        if host is None:
            return False
        if host.lower() in self._hosts:
            return True
        server = scope.get("server")
        if not self._everywhere or not server or server[1] not in self._everywhere:
            return False
        name = _bracketed(server[0]).encode()
        return host in (name, b"%s:%d" % (name, server[1]))

    def _is_same(self, origin: bytes, host: bytes | None) -> bool:
        """Whether a page that came from the very address that was reached calls it."""
        if host is None or host.lower() in self._hosts:
            return False
        return origin == b"%s://%s" % (self._scheme.encode(), host)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _has_port(name: str) -> bool:
    return ":" in name.rpartition("]")[2]
