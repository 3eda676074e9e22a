"""What a configuration says about an MCP server."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Literal, cast

from toolcrib.core.canonical import digest
from toolcrib.core.jsontext import shown
from toolcrib.core.names import check_name
from toolcrib.core.protocols import Workshop
from toolcrib.core.spec import EFFECTS, Effect
from toolcrib.errors import ConfigError, Denial, SpecError
from toolcrib.net.addresses import Private, address_from, private_from
from toolcrib.net.auth import check_header
from toolcrib.net.client import missing_library
from toolcrib.net.encoding import header_value
from toolcrib.net.settings import Settings
from toolcrib.net.url import Url, parse_url
from toolcrib.protocol.mcp.definitions import Beliefs
from toolcrib.providers.mcp.asking import GRANTS
from toolcrib.providers.mcp.greeting import Wanted

Transport = Literal["stdio", "http", "sse"]
KEYS = (
    "command",
    "args",
    "env",
    "cwd",
    "sandbox",
    "url",
    "transport",
    "headers",
    "auth",
    "private",
    "era",
    "prefix",
    "grants",
    "roots",
    "tools",
    "effects",
    "idempotent",
    "trust_hints",
    "timeout",
    "max_message",
)
_OF_PROGRAMS = ("args", "env", "cwd", "sandbox")
_OF_URLS = ("headers", "auth", "private")
_LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
_EMPTY: Mapping[str, str] = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class McpSettings:
    """All of it, read and checked."""

    name: str
    transport: Transport
    forced: bool
    """Whether the transport was named, so that no other one is tried."""
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: _EMPTY, repr=False)
    cwd: str = ""
    sandbox: str | None = None
    url: Url | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: _EMPTY, repr=False)
    private: Private = field(default_factory=Private)
    era: Wanted = "auto"
    prefix: str = ""
    grants: frozenset[str] = frozenset()
    roots: tuple[Mapping[str, str], ...] = ()
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    beliefs: Beliefs = field(default_factory=Beliefs)
    max_message: int = 16 << 20

    @property
    def identity(self) -> str:
        """Which server is meant, whatever is said to it."""
        place = "" if self.url is None else self.url.without_query
        return digest([self.name, self.argv, self.cwd, place])


def read_settings(name: str, values: Mapping[str, Any], workshop: Workshop) -> McpSettings:
    """The settings of a provider `mcp`. Raises `ConfigError`."""
    given = Settings(values, f"provider {name}").only(*KEYS)
    prefix = _prefix(given, name)
    transport, forced = _transport(given)
    tools = given.part("tools")
    if tools is not None:
        tools.only("include", "exclude")
    beliefs = Beliefs(
        effects=_effects(given),
        idempotent=given.texts("idempotent") or (),
        hints=_flag(given, "trust_hints"),
        timeout=given.duration("timeout", None),
    )
    common: dict[str, Any] = {
        "name": name,
        "transport": transport,
        "forced": forced,
        "era": given.choice("era", ("auto", "handshake", "modern"), "auto"),
        "prefix": prefix,
        "grants": _grants(given),
        "roots": _roots(given, workshop),
        "include": (tools.texts("include") if tools is not None else None) or ("*",),
        "exclude": (tools.texts("exclude") if tools is not None else None) or (),
        "beliefs": beliefs,
        "max_message": given.size("max_message", 16 << 20),
    }
    if transport == "stdio":
        return McpSettings(**common, **_program(given, workshop))
    if cure := missing_library():
        raise ConfigError(f"provider {name}: the library for HTTP is not installed", cure=cure)
    return McpSettings(**common, **_place(given))


def _transport(given: Settings) -> tuple[Transport, bool]:
    program, place = given.has("command"), given.has("url")
    if program == place:
        what = "has both a command and a url" if program else "has neither a command nor a url"
        given.wrong("", what, "Give command: [program, …] to start a server, or url: https://…")
    named = given.choice("transport", ("stdio", "http", "sse"), "stdio" if program else "http")
    if (named == "stdio") is not program:
        what = "is stdio, and there is no command" if place else f"is {named}, and there is no url"
        given.wrong("transport", what)
    for key in _OF_URLS if program else _OF_PROGRAMS:
        if given.has(key):
            what = "a server that is started here" if program else "a server behind a url"
            given.wrong(key, f"means nothing for {what}", "Remove it")
    return cast("Transport", named), given.has("transport")


def _program(given: Settings, workshop: Workshop) -> dict[str, Any]:
    command: Any = given.values["command"]
    if isinstance(command, str):
        try:
            words = shlex.split(command)
        except ValueError:
            given.wrong("command", "has a quote that is not closed")
    else:
        words = list(given.texts("command") or ())
    argv = (*words, *(given.texts("args") or ()))
    if not argv or not argv[0] or any("\0" in word for word in argv):
        given.wrong("command", "names no program", "Write command: [program, argument, …]")
    sandbox = given.text("sandbox")
    if sandbox is not None:
        workshop.sandbox(sandbox)  # what is wrong with the name is said now
    cwd = given.text("cwd")
    folder = workshop.folder if cwd is None else workshop.file(cwd)
    return {"argv": argv, "env": _env(given), "cwd": str(folder), "sandbox": sandbox}


def _env(given: Settings) -> dict[str, str]:
    part = given.part("env")
    made: dict[str, str] = {}
    for name, value in part.values.items() if part is not None else ():
        good = isinstance(value, str) and "\0" not in value
        if not good or not name or "=" in name or "\0" in name:
            given.wrong(f"env.{name}", f"must be text, not {shown(value)}", 'Write NAME: "value"')
        made[name] = value
    return made


def _place(given: Settings) -> dict[str, Any]:
    try:
        url = parse_url(given.need("url"))
    except Denial as error:
        given.wrong("url", f"cannot be used: {error}")
    part = given.part("headers")
    headers: dict[str, str] = {}
    for name, value in part.values.items() if part is not None else ():
        check_header(cast("Settings", part), name, name)
        try:
            headers[name] = header_value(name, value)
        except Denial as error:
            cast("Settings", part).wrong(name, f"cannot be sent: {error}")
    return {"url": url, "headers": headers, "private": _private(given, url)}


def _private(given: Settings, url: Url) -> Private:
    """What the setting says; and a url that names this machine may lead to it."""
    said = private_from(given.values.get("private"))
    address = address_from(url.host)
    here = url.host == "localhost" or (address is not None and address.is_loopback)
    return Private(said.ordinary, (*said.networks, *_LOOPBACK)) if here else said


def _prefix(given: Settings, name: str) -> str:
    value: Any = given.values.get("prefix", f"{name}-")
    if not isinstance(value, str):
        given.wrong("prefix", f"must be text, not {shown(value)}")
    if value:
        try:
            check_name(value)
        except SpecError as error:
            given.wrong("prefix", f"cannot begin a tool's name: {error}")
    return value


def _grants(given: Settings) -> frozenset[str]:
    grants = given.texts("grants") or ()
    for each in grants:
        if each not in GRANTS:
            given.wrong("grants", f"cannot hold {shown(each)}", f"Known: {', '.join(GRANTS)}")
    return frozenset(grants)


def _roots(given: Settings, workshop: Workshop) -> tuple[Mapping[str, str], ...]:
    paths = [workshop.file(path) for path in given.texts("roots") or ()]
    return tuple({"uri": Path(path).as_uri(), "name": path.name or str(path)} for path in paths)


def _effects(given: Settings) -> dict[Effect, tuple[str, ...]]:
    part = given.part("effects")
    if part is None:
        return {}
    part.only(*sorted(EFFECTS))
    return {cast("Effect", name): part.texts(name) or () for name in part.values}


def _flag(given: Settings, name: str) -> bool:
    value: Any = given.values.get(name, False)
    if not isinstance(value, bool):
        given.wrong(name, f"must be true or false, not {shown(value)}")
    return value
