"""What the `serve:` part of a configuration says: which doors are open, and who may enter."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace


class Listen(msgspec.Struct, frozen=True, kw_only=True):
    """One address."""

    host: str
    """A name or an address; `127.0.0.1` unless said otherwise."""
    port: int
    """0 takes a free one."""

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        from ipaddress import ip_address

        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """Files in PEM form."""

    certificate: str
    key: str
    password: str | None = None

    def __repr__(self) -> str:
        """Without the password."""
        return f"Tls(certificate={self.certificate!r}, key={self.key!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """What prints in colours asks for this instead."""
        return [("certificate", self.certificate), ("key", self.key)]


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`serve.http`."""

    listen: tuple[Listen, ...] = (Listen(host="127.0.0.1", port=8700),)
    """Empty: only the unix socket."""
    unix: str | None = None
    """The path of a unix socket, made with mode 0600."""
    users: tuple[tuple[str, str], ...] = ()
    """Pairs of a system user's name and the principal it is, for the unix socket. The user that
    runs the host is the operator."""
    profile: str | None = None
    """What callers are held to whose token or claims name none."""
    local: str | None = None
    """The principal of callers on this machine without credentials; unset: `local` with all rights
    where no tokens and no jwt are configured, else nobody."""
    hosts: tuple[str, ...] = ()
    """Further names under which clients may call it; its own addresses always count."""
    origins: tuple[str, ...] = ()
    """Origins of web pages that may call it, beside its own."""
    tls: Tls | None = None
    wait: float = 25.0
    """Seconds until a call that has not ended is answered by 202."""
    max_wait: float = 300.0
    """Seconds that a caller may ask to wait at most."""
    max_body: int = 2_097_152
    """Bytes of a request's body."""
    max_headers: int = 32_768
    """Bytes of a request's head."""
    request_timeout: float = 15.0
    """Seconds that a request may take to arrive."""
    keep_alive: float = 75.0
    """Seconds that an idle connection is kept."""
    connections: int = 4096
    """Connections at the same time; more are turned away."""
    heartbeat: float = 15.0
    """Seconds between signs of life on event streams."""
    viewers: int = 4096
    """Event streams at the same time."""
    viewers_per_principal: int = 64
    """Event streams of one principal at the same time."""
    queue: int = 1000
    """Events that wait for one viewer; a slower one is dropped."""
    docs: bool = True
    """Whether `/docs` shows the HTTP API."""
    console: bool = True
    """Whether the web console is served, once this version has one."""


class TokenSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One of `serve.tokens`."""

    name: str
    hash: str
    """`sha256:` and the hexadecimal hash of the secret; the secret itself is not kept."""
    principal: str
    profile: str | None = None
    expires: float | None = None
    """Seconds since 1970."""
    source: str | None = None


class JwtSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One of `serve.jwt`: an issuer whose tokens are believed."""

    name: str
    issuer: str
    audience: tuple[str, ...]
    jwks: str | None = None
    """The URL or file of its keys; unset: found by OpenID discovery at the issuer."""
    algorithms: tuple[str, ...] = ("RS256", "ES256", "EdDSA")
    leeway: float = 60.0
    """Seconds that clocks may differ."""
    cache: float = 300.0
    """Seconds that fetched keys are used without looking again."""
    principal: str = "sub"
    """The claim that names the principal; dots reach into objects."""
    prefix: str = ""
    """What stands before the name, so that two issuers never name the same principal."""
    principals: bool = False
    """Whether a claim may name a principal of the configuration, which it then is."""
    roles: str | None = None
    """The claim with its roles: a list, or words in one text."""
    permissions: str | None = None
    profiles: str | None = None
    """The claim with the profiles it may choose from; the first is the one it is held to."""
    role_names: tuple[tuple[str, str], ...] = ()
    """Pairs of a value of the roles claim and the role it means; others count nothing then. Unset:
    taken as they are."""
    profile: str | None = None
    """What its principals are held to when no claim says so."""
    private: bool = False
    """Whether the issuer may be at a private address."""


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`serve.sessions`."""

    idle: float = 1800.0
    """Seconds without a request after which a session ends."""
    absolute: float = 43_200.0
    """Seconds after which it ends in any case."""
    per_principal: int = 50
    """Open sessions of one principal."""
    connections: int = 1024
    """WebSockets of one principal."""


class StdioSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`serve.stdio`."""

    profile: str | None = None
    principal: str | None = None
    """Who the client is; unset: `local`."""
    max_line: int = 2_097_152
    """Bytes of one message."""


McpApproval = Literal["client", "hold"]
"""Who is asked first when a call needs an approval. client: the program that made the call, where
it can ask its user and the profile lets it · hold: nobody through MCP; the call waits for an answer
from elsewhere."""


class McpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`serve.mcp`."""

    enabled: bool = True
    """Whether MCP is answered, at `/mcp` and on standard input and output."""
    sse: bool = False
    """Whether the old HTTP+SSE transport is served as well, at `/mcp/sse`."""
    ttl: float = 60.0
    """Seconds for which clients may keep lists without asking again."""
    page: int = 200
    """Entries of one page of a list."""
    approval: McpApproval | None = None
    """Unset: `client` where the client can be asked, else `hold`."""
    hold: float = 25.0
    """Seconds that a call waits for an approval from elsewhere before it is answered that it still
    waits."""
    parked: int = 100
    """Calls of one principal that wait for input of their client at the same time."""


class ServeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything under `serve:`."""

    http: HttpSettings = HttpSettings()
    stdio: StdioSettings = StdioSettings()
    mcp: McpSettings = McpSettings()
    tokens: tuple[TokenSettings, ...] = ()
    tokens_file: str | None = None
    """Where `toolcrib tokens` keeps the hashes of the tokens it made; unset: beside the
    configuration, in `.toolcrib`."""
    jwt: tuple[JwtSettings, ...] = ()
    sessions: SessionSettings = SessionSettings()


_Settings = TypeVar("_Settings", ServeSettings, HttpSettings)


def followed(mine: _Settings, before: _Settings, after: _Settings) -> _Settings:
    """`mine` with what changed between two configurations; what was given in their stead stays."""
    changed = {
        each: getattr(after, each)
        for each in mine.__struct_fields__
        if getattr(mine, each) == getattr(before, each)
    }
    return replace(mine, **changed)
