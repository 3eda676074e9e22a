"""What `serve:` can say: the doors that are opened, and who may enter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from toolcrib.core.serving import (
    HttpSettings,
    McpSettings,
    ServeSettings,
    SessionSettings,
    StdioSettings,
    Tls,
)
from toolcrib.core.settings import HostConfig
from toolcrib.core.units import format_duration, format_size
from toolcrib.host.config.credentials import TOKEN, Issuers
from toolcrib.host.config.doorkinds import BYTES, LISTEN, PASSWORD
from toolcrib.host.config.kinds import (
    BAD,
    DURATION,
    FLAG,
    PATH,
    PAUSE,
    TEXT,
    Kind,
    choice,
    whole,
)
from toolcrib.host.config.node import Node
from toolcrib.host.config.reading import MASK, Reading
from toolcrib.host.config.shapes import ListOf, MapOf, Section, Setting

_HTTP = HttpSettings()
_SESSIONS = SessionSettings()
_STDIO = StdioSettings()
_MCP = McpSettings()
_WORDS = ListOf(TEXT, one=True)


def _seconds(name: str, kind: Kind, doc: str, default: float) -> Setting:
    return Setting(name=name, kind=kind, doc=doc, default=format_duration(default))


def _build_tls(values: dict[str, Any], node: Node, key: str, reading: Reading) -> Any:
    if ("cert" in values) == ("certificate" in values):
        what = "has no certificate" if "cert" not in values else "has cert and certificate"
        reading.wrong(node, key, f"{key} {what}", "Name the file of the certificate, once")
        return BAD
    if "key" not in values:
        reading.wrong(node, key, f"{key} has no key", "Name the file of the private key")
        return BAD
    found = values.get("certificate") or values["cert"]
    return Tls(certificate=found, key=values["key"], password=values.get("password"))


TLS = Section(
    "a mapping such as {certificate: cert.pem, key: key.pem}",
    (
        Setting(name="certificate", kind=PATH, doc="the file of the certificate and its chain"),
        Setting(name="cert", kind=PATH, doc="the same as certificate"),
        Setting(name="key", kind=PATH, doc="the file of the private key"),
        Setting(name="password", kind=PASSWORD, doc="the password of the private key"),
    ),
    _build_tls,
    least=2,
    schema_more={
        "required": ["key"],
        "oneOf": [{"required": ["certificate"]}, {"required": ["cert"]}],
    },
)


def _build_http(values: dict[str, Any], node: Node, key: str, reading: Reading) -> Any:
    if "users" in values:
        values["users"] = tuple(values["users"].items())
    made = HttpSettings(**values)
    if not made.listen and made.unix is None:
        place = node.get("listen") or node
        message = f"{key} listens nowhere: listen is empty and there is no unix socket"
        reading.wrong(place, f"{key}.listen", message, "Name an address, or the path of a socket")
        return BAD
    if made.wait > made.max_wait:
        place = node.get("wait") or node.get("max_wait") or node
        message = f"{key}.wait is longer than max_wait ({format_duration(made.max_wait)})"
        reading.wrong(place, f"{key}.wait", message, "Shorten it, or lengthen max_wait")
        return BAD
    return made


HTTP = Section(
    "a mapping such as {listen: 8700}",
    (
        Setting(
            name="listen",
            kind=ListOf(LISTEN, one=True),
            doc="the addresses, each a port of this machine or an address and a port; an empty "
            "list leaves the unix socket only",
            default="127.0.0.1:8700",
        ),
        Setting(name="unix", kind=PATH, doc="the path of a unix socket, made with mode 0600"),
        Setting(
            name="users",
            kind=MapOf(TEXT, "user"),
            doc="system users on the unix socket, by name, and the principal that each is",
        ),
        Setting(
            name="profile",
            kind=TEXT,
            doc="what callers are held to whose token or claims name none",
            default="host.profile",
        ),
        Setting(
            name="local",
            kind=TEXT,
            doc="the principal of callers on this machine without credentials",
            default="the operator where no tokens and no jwt are configured, else nobody",
        ),
        Setting(
            name="hosts",
            kind=_WORDS,
            doc="further names under which clients may call it; its own addresses always count",
        ),
        Setting(
            name="origins",
            kind=_WORDS,
            doc="origins of web pages that may call it, beside its own",
        ),
        Setting(name="tls", kind=TLS, doc="the certificate, for https"),
        _seconds("wait", PAUSE, "how long a call may take until it is answered by 202", _HTTP.wait),
        _seconds("max_wait", DURATION, "how long a caller may ask to wait", _HTTP.max_wait),
        Setting(
            name="max_body",
            kind=BYTES,
            doc="bytes of a request's body",
            default=format_size(_HTTP.max_body),
        ),
        Setting(
            name="max_headers",
            kind=BYTES,
            doc="bytes of a request's head",
            default=format_size(_HTTP.max_headers),
        ),
        _seconds(
            "request_timeout",
            DURATION,
            "how long a request may take to arrive",
            _HTTP.request_timeout,
        ),
        _seconds("keep_alive", DURATION, "how long an idle connection is kept", _HTTP.keep_alive),
        Setting(
            name="connections",
            kind=whole(1),
            doc="connections at the same time; more are turned away",
            default=str(_HTTP.connections),
        ),
        _seconds(
            "heartbeat",
            DURATION,
            "the time between signs of life on event streams",
            _HTTP.heartbeat,
        ),
        Setting(
            name="viewers",
            kind=whole(1),
            doc="event streams at the same time",
            default=str(_HTTP.viewers),
        ),
        Setting(
            name="viewers_per_principal",
            kind=whole(1),
            doc="event streams of one principal at the same time",
            default=str(_HTTP.viewers_per_principal),
        ),
        Setting(
            name="queue",
            kind=whole(1),
            doc="events that wait for one viewer; a slower one is dropped",
            default=str(_HTTP.queue),
        ),
        Setting(name="docs", kind=FLAG, doc="whether /docs shows the HTTP API", default="true"),
        Setting(
            name="console",
            kind=FLAG,
            doc="whether a web console is served; this version has none yet",
            default="true",
        ),
    ),
    _build_http,
)


MCP = Section(
    "a mapping such as {sse: true}",
    (
        Setting(
            name="enabled",
            kind=FLAG,
            doc="whether MCP is answered, at /mcp and on standard input and output",
            default="true",
        ),
        Setting(
            name="sse",
            kind=FLAG,
            doc="whether the old HTTP+SSE transport is served as well, at /mcp/sse",
            default="false",
        ),
        _seconds("ttl", PAUSE, "how long clients may keep lists without asking again", _MCP.ttl),
        Setting(
            name="page",
            kind=whole(1, 1000),
            doc="entries of one page of a list",
            default=str(_MCP.page),
        ),
        Setting(
            name="approval",
            kind=choice("client", "hold"),
            doc="whether a call's own client is asked for an approval, or the call waits for an "
            "answer from elsewhere",
            default="client where it can be asked, else hold",
        ),
        _seconds(
            "hold",
            PAUSE,
            "how long a call waits for an approval before it is answered that it waits",
            _MCP.hold,
        ),
        Setting(
            name="parked",
            kind=whole(1),
            doc="calls of one principal that wait for input of their client at the same time",
            default=str(_MCP.parked),
        ),
    ),
)


SERVE = Section(
    "a mapping such as {http: {listen: 8700}}",
    (
        Setting(name="http", kind=HTTP, doc="HTTP, event streams and WebSocket"),
        Setting(
            name="stdio",
            kind=Section(
                "a mapping such as {profile: developer}",
                (
                    Setting(
                        name="profile",
                        kind=TEXT,
                        doc="what the client is held to",
                        default="host.profile",
                    ),
                    Setting(
                        name="principal",
                        kind=TEXT,
                        doc="who the client is",
                        default="the operator",
                    ),
                    Setting(
                        name="max_line",
                        kind=BYTES,
                        doc="bytes of one message",
                        default=format_size(_STDIO.max_line),
                    ),
                ),
            ),
            doc="the client that started this process",
        ),
        Setting(name="mcp", kind=MCP, doc="the Model Context Protocol"),
        Setting(name="tokens", kind=MapOf(TOKEN, "token"), doc="bearer tokens, by name"),
        Setting(
            name="tokens_file",
            kind=PATH,
            doc="where `toolcrib tokens` keeps the hashes of the tokens it made",
            default=".toolcrib/tokens.json",
        ),
        Setting(name="jwt", kind=Issuers(), doc="issuers whose signed tokens are believed"),
        Setting(
            name="sessions",
            kind=Section(
                "a mapping such as {idle: 30m}",
                (
                    _seconds(
                        "idle",
                        DURATION,
                        "how long a session lasts without a request",
                        _SESSIONS.idle,
                    ),
                    _seconds(
                        "absolute", DURATION, "how long it lasts in any case", _SESSIONS.absolute
                    ),
                    Setting(
                        name="per_principal",
                        kind=whole(1),
                        doc="open sessions of one principal",
                        default=str(_SESSIONS.per_principal),
                    ),
                    Setting(
                        name="connections",
                        kind=whole(1),
                        doc="WebSockets of one principal",
                        default=str(_SESSIONS.connections),
                    ),
                ),
            ),
            doc="how long sessions last",
        ),
    ),
)


def serve_settings(given: dict[str, Any]) -> ServeSettings:
    """The settings of the doors from what `serve:` gives."""
    return ServeSettings(
        http=given.get("http", _HTTP),
        stdio=StdioSettings(**given.get("stdio", {})),
        mcp=McpSettings(**given.get("mcp", {})),
        tokens=tuple(replace(made, name=name) for name, made in given.get("tokens", {}).items()),
        tokens_file=given.get("tokens_file"),
        jwt=given.get("jwt", ()),
        sessions=SessionSettings(**given.get("sessions", {})),
    )


def tokens_file(config: HostConfig) -> Path | None:
    """Where tokens are kept that `toolcrib tokens` made: where the configuration says, else beside
    it; None for a configuration that is in no file."""
    if config.serving.tokens_file is not None:
        return Path(config.serving.tokens_file)
    main = Path(config.sources[0]).absolute() if config.sources else None
    if main is None or not main.is_file():
        return None
    return main.parent / ".toolcrib" / "tokens.json"


def as_written(roots: list[Node]) -> dict[str, Any]:
    """What `serve:` says in all files, without the secrets: nobody needs them any more."""
    found: dict[str, Any] = {}
    for root in roots:
        serve = root.get("serve")
        found |= serve.plain() if serve is not None and serve.entries is not None else {}
    tokens: dict[str, Any] = found.get("tokens") or {}
    http: dict[str, Any] = found.get("http") or {}
    entries: list[dict[str, Any]] = [*tokens.values(), http.get("tls") or {}]
    for entry in entries:
        entry |= {name: MASK for name in ("secret", "password") if name in entry}
    return found
