"""The provider `openapi`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, cast

from toolcrib.core.context import ToolContext
from toolcrib.core.protocols import Workshop
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ConfigError, Denial, ToolFailure
from toolcrib.net.addresses import private_from
from toolcrib.net.auth import KeepSecret, auth_from, check_header
from toolcrib.net.client import Client, missing_library
from toolcrib.net.encoding import header_value
from toolcrib.net.exchange import Limits, Request, Sending
from toolcrib.net.guard import Guard, guard_for, host_rules
from toolcrib.net.reply import check_status, output_of
from toolcrib.net.settings import Settings
from toolcrib.net.url import Url, parse_url
from toolcrib.providers.openapi.build import KIND, Call, build_call, build_spec
from toolcrib.providers.openapi.document import MAX_BYTES, Unusable, read_document
from toolcrib.providers.openapi.operations import Names, Operation, chosen, operations_of
from toolcrib.providers.openapi.ours import Ours
from toolcrib.providers.openapi.reading import built, check_file, read_file
from toolcrib.providers.openapi.servers import Servers

_KEYS = [
    "spec",
    "base_url",
    "include",
    "exclude",
    "naming",
    "auth",
    "headers",
    "hosts",
    "private",
    "max_bytes",
    "timeout",
]


_ACCEPT = {"Accept": "application/json, application/yaml;q=0.9, */*;q=0.5"}


class Skipped(NamedTuple):
    """An operation that did not become a tool."""

    operation: str
    """`GET /users/{id}`."""
    reason: str


class OpenApiProvider:
    """Reads a document when it is entered, and runs its operations. Credentials stay here: the
    specs hold none."""

    kind = KIND

    def __init__(
        self,
        name: str,
        settings: Settings,
        spec: Path | Url,
        client: Client | None = None,
        keep_secret: KeepSecret | None = None,
    ) -> None:
        self.name = name
        self.skipped: tuple[Skipped, ...] = ()
        """What did not become a tool, and why; never silently."""
        self._spec = spec
        self._client = client or Client()
        self._private = private_from(settings.values.get("private"))
        self._auth = auth_from(settings.part("auth"), self._private, keep_secret)
        self._headers = _headers(settings)
        self._ours = Ours(
            headers=self._auth.header_names | {name.lower() for name in self._headers},
            query=self._auth.query_names,
        )
        base = settings.text("base_url")
        if "?" in (base or ""):
            settings.wrong("base_url", "has a query", "Credentials belong under auth")
        self._base = None if base is None else _url(settings, "base_url", base)
        self._hosts = settings.texts("hosts")
        host_rules(self._hosts or ())
        self._include = settings.texts("include") or ()
        self._exclude = settings.texts("exclude") or ()
        self._naming = settings.text("naming", "{name}-{operationId}") or ""
        Names(name, self._naming)
        self._limits = Limits(
            max_bytes=settings.size("max_bytes", 5_000_000),
            total=settings.duration("timeout", 60.0),
        )
        self._guard = Guard(())
        self._specs: tuple[ToolSpec, ...] = ()
        self._calls: dict[str, tuple[ToolSpec, Call]] = {}

    @property
    def problems(self) -> list[str]:
        """The skipped operations in sentences."""
        return [f"{operation}: {reason}" for operation, reason in self.skipped]

    async def __aenter__(self) -> OpenApiProvider:
        try:
            data, where = await self._read()
            await built(lambda stop: self._build(data, where, stop))
        except BaseException:
            await self._client.aclose()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._client.aclose()

    async def list_tools(self) -> Sequence[ToolSpec]:
        """A tool for each operation that is wanted and can be one."""
        return self._specs

    async def execute(self, ctx: ToolContext) -> Any:
        """Send the request of one call."""
        found = self._calls.get(ctx.spec.name if ctx.spec is not None else ctx.tool)
        if found is None:
            raise ToolFailure(f"{self.name} has no tool {ctx.tool}", reason="unknown_tool")
        spec, call = found
        if ctx.spec is not None and not spec.defines(ctx.spec):
            # The document was read anew after the call was decided on.
            raise Denial("definition_changed", "the tool changed while the call waited")
        request, sending = call.request(ctx.arguments, self._headers), Sending()
        try:
            response = await self._auth.send(
                self._client, request, self._guard, self._limits, sending
            )
        except asyncio.CancelledError:
            ctx.still_running = ctx.still_running or sending.open
            raise
        check_status(request, response)
        return output_of(request, response, "auto")

    async def _read(self) -> tuple[bytes, str]:
        if isinstance(self._spec, Path):
            data = await asyncio.to_thread(read_file, self.name, self._spec)
            return data, str(self._spec)
        request = Request(method="GET", url=self._spec, headers=_ACCEPT, repeatable=True)
        guard = guard_for(self._spec, self._private)
        response = await self._client.send(request, guard, Limits(max_bytes=MAX_BYTES))
        check_status(request, response)
        return response.body, self._spec.without_query

    def _build(self, data: bytes, where: str, stop: Event) -> None:
        """Make all tools; nothing changes unless the document can be used."""
        document = read_document(data, where, stop)
        servers = Servers(document, self._base, self._spec, self._hosts, self._private)
        skipped: list[Skipped] = []
        found: list[Operation] = []
        for operation, words, why in operations_of(document):
            if operation is None:
                skipped.append(Skipped(words, why))
            else:
                found.append(operation)
        names = Names(self.name, self._naming)
        specs: list[ToolSpec] = []
        calls: dict[str, tuple[ToolSpec, Call]] = {}
        for operation in chosen(found, self._include, self._exclude):
            try:
                server = servers.server(operation)
                call, left_out = build_call(document, operation, server, self._ours)
                name = names.name(operation)
                spec = build_spec(document, operation, call, name)
                specs.append(spec)
                calls[name] = spec, call
                skipped += [Skipped(operation.words, words) for words in left_out]
            except Unusable as error:
                skipped.append(Skipped(operation.words, str(error)))
        self._guard = servers.guard
        self._specs, self._calls, self.skipped = tuple(specs), calls, tuple(skipped)


def factory(
    name: str, settings: Mapping[str, Any], workshop: Workshop, *, client: Client | None = None
) -> OpenApiProvider:
    """The provider that a configuration describes."""
    given = Settings(settings, f"provider {name}").only(*_KEYS)
    if cure := missing_library():
        raise ConfigError(f"provider {name}: the library for HTTP is not installed", cure=cure)
    spec = given.need("spec")
    if "://" in spec:
        place = _url(given, "spec", spec)
    else:
        place = workshop.file(spec)
        check_file(name, place)
    return OpenApiProvider(name, given, place, client, workshop.keep_secret)


def _url(settings: Settings, key: str, text: str) -> Url:
    try:
        return parse_url(text)
    except Denial as error:
        settings.wrong(key, f"cannot be used: {error}")


def _headers(settings: Settings) -> dict[str, str]:
    given = settings.part("headers")
    made: dict[str, str] = {}
    for name, value in given.values.items() if given is not None else ():
        check_header(cast("Settings", given), name, name)
        try:
            made[name] = header_value(name, value)
        except Denial as error:
            cast("Settings", given).wrong(name, f"cannot be sent: {error}")
    return made
