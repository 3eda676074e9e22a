"""Where clients without credentials learn who gives them some (RFC 9728)."""

from __future__ import annotations

from collections.abc import Mapping

from toolcrib.core.serving import ServeSettings
from toolcrib.transports.http.answers import Headers, encode

WELL_KNOWN = "/.well-known/oauth-protected-resource"
_SERVED = ("/mcp", "/v1")
"""What has metadata: the addresses that tokens open."""


def metadata(settings: ServeSettings, head: Mapping[bytes, bytes], path: str) -> bytes | None:
    """The document at a well-known address; None where there is none."""
    resource = path.removeprefix(WELL_KNOWN).rstrip("/") or "/mcp"
    known = any(resource == each or resource.startswith(f"{each}/") for each in _SERVED)
    if not settings.jwt or not known:
        return None
    return encode(
        {
            "resource": _base(settings, head) + resource,
            "authorization_servers": [each.issuer for each in settings.jwt],
            "bearer_methods_supported": ["header"],
            "resource_name": "Toolcrib",
        }
    )


def challenge(settings: ServeSettings, head: Mapping[bytes, bytes], path: str) -> Headers:
    """The header of an answer to somebody without good credentials."""
    value = 'Bearer realm="toolcrib"'
    if b"authorization" in head:
        value += ', error="invalid_token"'
    if settings.jwt and path.isascii() and path.isprintable() and '"' not in path:
        value += f', resource_metadata="{_base(settings, head)}{WELL_KNOWN}{path.rstrip("/")}"'
    return [(b"www-authenticate", value.encode("latin-1", "replace"))]


def _base(settings: ServeSettings, head: Mapping[bytes, bytes]) -> str:
    """The address that the client used; its host was checked before."""
    host = head.get(b"host", b"localhost").decode("latin-1").lower()
    http = settings.http
    # Under a name of the settings, a proxy in front of it speaks TLS.
    named = host in http.hosts or host.partition(":")[0] in http.hosts
    return f"{'https' if http.tls is not None or named else 'http'}://{host}"
