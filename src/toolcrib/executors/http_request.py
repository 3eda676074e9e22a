"""From a tool's configuration and a call's arguments to one request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import parse_qsl

import msgspec

from toolcrib.core.spec import ToolSpec
from toolcrib.errors import Denial, ToolFailure
from toolcrib.executors.http_arguments import Takes, arguments_without_place, takes_others
from toolcrib.executors.http_template import MISSING, Arguments, Fill, Places, Slot
from toolcrib.net.auth import NOBODY, Auth, check_header
from toolcrib.net.encoding import (
    Pairs,
    header_value,
    query_pairs,
    query_text,
    scalar,
    segment,
    segments,
)
from toolcrib.net.exchange import METHODS, Request
from toolcrib.net.settings import Settings
from toolcrib.net.url import LONGEST, Url, parse_url

Body = Callable[[Arguments], tuple[bytes, str] | None]
"""The bytes of a body and their content type, or nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestPlan:
    """How to build a tool's requests; read from its configuration once."""

    method: str
    base: Url
    """Scheme, host and port; its target is not used."""
    path: tuple[str | Slot, ...]
    query: tuple[tuple[str, Fill], ...]
    headers: tuple[tuple[str, Fill], ...]
    body: Body | None
    rest: str
    """Where arguments without a place of their own go: `query`, `body`, or nowhere."""
    takes: Takes
    repeatable: bool

    def request(self, arguments: Arguments) -> Request:
        """The request for these arguments."""
        rest = self.takes.rest(arguments)
        if rest and not self.rest:
            raise ToolFailure(
                f"there is no place for the argument {next(iter(rest))}", reason="invalid_arguments"
            )
        pairs: Pairs = []
        for name, fill in self.query:
            value = fill(arguments)
            if value is not MISSING:
                pairs += query_pairs(name, value)
        body = None if self.body is None else self.body(arguments)
        if self.rest == "query":
            for name, value in rest.items():
                pairs += query_pairs(name, value)
        elif self.rest == "body":
            body = msgspec.json.encode(rest), "application/json"
        headers: dict[str, str] = {}
        if body is not None:
            headers["Content-Type"] = body[1]
        for name, fill in self.headers:
            value = fill(arguments)
            if value is not MISSING:
                headers[name] = header_value(name, value)
        return Request(
            method=self.method,
            url=self.base._replace(target=self._target(arguments, pairs)),
            headers=headers,
            body=None if body is None else body[0],
            repeatable=self.repeatable,
        )

    def _target(self, arguments: Arguments, pairs: Pairs) -> str:
        target = ""
        for part in self.path:
            if isinstance(part, str):
                target += part
                continue
            if part.name not in arguments:
                raise ToolFailure(f"{part.name} is missing", reason="invalid_arguments")
            encode = segments if part.many else segment
            target += encode(part.name, arguments[part.name])
        if pairs:
            target += "?" + query_text(pairs)
        if len(target) > LONGEST:
            raise Denial("url_not_allowed", f"the URL would be longer than {LONGEST} characters")
        return target


def request_plan(spec: ToolSpec, settings: Settings, auth: Auth = NOBODY) -> RequestPlan:
    """Read `method`, `url`, `query`, `headers` and `body`."""
    method = settings.text("method", "GET") or "GET"
    if method.upper() not in METHODS:
        settings.wrong(
            "method", f"cannot be {method!r}", f"Use one of: {', '.join(sorted(METHODS))}"
        )
    method = method.upper()
    properties: Mapping[str, Any] = spec.input_schema.get("properties", {})
    places = Places(list(properties))
    base, path, query = _address(spec, settings, places)
    if given := settings.part("query"):
        query += [(n, places.compiled(v, given, n)) for n, v in given.values.items()]
    body = _body(settings, places)
    if body is not None and method in ("GET", "HEAD"):
        settings.wrong("body", f"does not go with {method}", "Use query, or another method")
    headers = _headers(settings, places)
    _check_ours(settings, auth, query, headers)
    rest = _rest(spec, settings, places, method, body is not None)
    fixed = auth.query_names | {name for name, _ in query} if rest == "query" else frozenset[str]()
    takes = arguments_without_place(spec, settings, places, fixed)
    return RequestPlan(
        method=method,
        base=base,
        path=tuple(path),
        query=tuple(query),
        headers=tuple(headers),
        body=body,
        rest=rest,
        takes=takes,
        repeatable=spec.repeatable or method in ("GET", "HEAD", "OPTIONS"),
    )


def _address(
    spec: ToolSpec, settings: Settings, places: Places
) -> tuple[Url, list[str | Slot], list[tuple[str, Fill]]]:
    text = settings.need("url")
    scheme, mark, rest = text.partition("://")
    if not mark and not text.startswith("{"):
        cure = "https://example.com" + text if text.startswith("/") else "https://" + text
        settings.wrong("url", "has no scheme and host", f"Write {cure}")
    place, slash, path = rest.partition("/")
    if "{" in scheme + place or "?" in place or "#" in text:
        _wrong_url(settings, text, "has an argument, a query or a fragment where the host stands")
    path, _, fixed = path.partition("?")
    try:
        # The braces are ours; what stands around them has to be a URL.
        literal = path.replace("{", "").replace("}", "")
        base = parse_url(f"{scheme}{mark}{place}{slash}{literal}")
    except Denial as error:
        settings.wrong("url", f"cannot be used: {error}")
    parts: list[str | Slot] = []
    for part in places.split("/" + path, settings, "url"):
        if isinstance(part, Slot):
            _check_needed(spec, settings, part.name)
            parts.append(part)
        else:
            parts.append(parse_url(f"{base.origin}/{part}").target[1:])
    query = [
        (name, places.compiled(value, settings, "url"))
        for name, value in parse_qsl(fixed, keep_blank_values=True)
    ]
    return base, parts, query


def _check_ours(
    settings: Settings,
    auth: Auth,
    query: list[tuple[str, Fill]],
    headers: list[tuple[str, Fill]],
) -> None:
    """Refuse what would stand beside a credential under its own name."""
    for key, given, ours in (
        ("query", {name: name for name, _ in query}, auth.query_names),
        ("headers", {name.lower(): name for name, _ in headers}, auth.header_names),
    ):
        for name in ours & given.keys():
            settings.wrong(key, f"says {given[name]}, and so does auth", "Remove it from one")


def _check_needed(spec: ToolSpec, settings: Settings, name: str) -> None:
    about: Any = spec.input_schema["properties"][name]
    has_default = isinstance(about, Mapping) and "default" in about
    if name not in spec.input_schema.get("required", ()) and not has_default:
        settings.wrong(
            "url",
            f"has {{{name}}} in its path, which a call may leave out",
            f"Add {name} to input_schema.required, or give it a default",
        )


def _headers(settings: Settings, places: Places) -> list[tuple[str, Fill]]:
    given = settings.part("headers")
    if given is None:
        return []
    fills: list[tuple[str, Fill]] = []
    for name, value in given.values.items():
        check_header(given, name, name)
        fill = places.compiled(value, given, name)
        if isinstance(value, str) and "{" not in value:
            try:
                header_value(name, value)
            except Denial as error:
                given.wrong(name, f"cannot be sent: {error}")
        fills.append((name, fill))
    return fills


def _body(settings: Settings, places: Places) -> Body | None:
    given = settings.part("body")
    if given is None:
        return None
    given.only("json", "form", "text")
    if len(given.values) != 1:
        settings.wrong("body", "needs exactly one form", "Use one of: json, form, text")
    [(name, value)] = given.values.items()
    if name == "form" and not isinstance(value, Mapping):
        given.wrong("form", "must be a mapping of fields")
    if name == "text" and not isinstance(value, str):
        given.wrong("text", "must be text")
    fill = places.compiled(value, given, name)
    write = {"json": _as_json, "form": _as_form, "text": _as_text}[name]

    def body(arguments: Arguments) -> tuple[bytes, str] | None:
        filled = fill(arguments)
        return None if filled is MISSING else write(filled)

    return body


def _as_json(value: Any) -> tuple[bytes, str]:
    return msgspec.json.encode(value), "application/json"


def _as_form(value: Any) -> tuple[bytes, str]:
    pairs = [pair for name, item in value.items() for pair in query_pairs(name, item)]
    return query_text(pairs).encode(), "application/x-www-form-urlencoded"


def _as_text(value: Any) -> tuple[bytes, str]:
    return scalar(value).encode(), "text/plain; charset=utf-8"


def _rest(spec: ToolSpec, settings: Settings, places: Places, method: str, body: bool) -> str:
    """Where arguments without a place go: GET, HEAD, OPTIONS and DELETE put them in the query, the
    others in a JSON body, unless the configuration says what the body is."""
    left = [name for name in places.known if name not in places.used]
    if method in ("GET", "HEAD", "OPTIONS", "DELETE"):
        return "query"
    if not body:
        return "body" if left or takes_others(spec.input_schema) else ""
    if left:
        settings.wrong(
            "body",
            f"leaves out the argument {left[0]}",
            f"Give it a place: {{{left[0]}}} in url, query, headers or body",
        )
    return ""


def _wrong_url(settings: Settings, text: str, why: str) -> NoReturn:
    settings.wrong("url", why, "Write https://host/path/{argument}, and the rest under query")
