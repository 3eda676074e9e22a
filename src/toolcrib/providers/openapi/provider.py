"""The provider `openapi`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from toolcrib.core.context import ToolContext
from toolcrib.core.protocols import Workshop
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ConfigError, Denial, ToolFailure
from toolcrib.net.addresses import private_from
from toolcrib.net.auth import auth_from, check_header
from toolcrib.net.client import Client, missing_library
from toolcrib.net.encoding import header_value
from toolcrib.net.exchange import Limits, Request
from toolcrib.net.guard import Guard, guard_for, host_rules
from toolcrib.net.reply import check_status, output_of
from toolcrib.net.settings import Settings
from toolcrib.net.url import Url, parse_url
from toolcrib.providers.openapi.build import KIND, Call, build_call, build_spec
from toolcrib.providers.openapi.document import MAX_BYTES, Unusable, read_document
from toolcrib.providers.openapi.operations import Names, Operation, chosen, operations_of
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
        self, name: str, settings: Settings, spec: Path | Url, client: Client | None = None
    ) -> None:
        self.name = name
        self.skipped: tuple[Skipped, ...] = ()
        """What did not become a tool, and why; never silently."""
        self._spec = spec
        self._client = client or Client()
        self._private = private_from(settings.values.get("private"))
        self._auth = auth_from(settings.part("auth"), self._private)
        self._headers = _headers(settings)
        base = settings.text("base_url")
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
        self._calls: dict[str, Call] = {}

    @property
    def problems(self) -> list[str]:
        """The skipped operations in sentences."""
        return [f"{operation}: {reason}" for operation, reason in self.skipped]

    async def __aenter__(self) -> OpenApiProvider:
        try:
            data, where = await self._read()
            # A large document takes seconds, and other calls must not wait for it.
            await asyncio.to_thread(self._build, data, where)
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
        call = self._calls.get(ctx.spec.name if ctx.spec is not None else ctx.tool)
        if call is None:
            raise ToolFailure(f"{self.name} has no tool {ctx.tool}", reason="unknown_tool")
        request = call.request(ctx.arguments, self._headers)
        response = await self._auth.send(self._client, request, self._guard, self._limits)
        check_status(request, response)
        return output_of(request, response, "auto")

    async def _read(self) -> tuple[bytes, str]:
        if isinstance(self._spec, Path):
            try:
                return await asyncio.to_thread(self._spec.read_bytes), str(self._spec)
            except OSError as error:
                raise ConfigError(
                    f"provider {self.name}: {self._spec} cannot be read: {error.strerror}",
                    key="spec",
                ) from None
        request = Request(method="GET", url=self._spec, headers=_ACCEPT, repeatable=True)
        guard = guard_for(self._spec, self._private)
        response = await self._client.send(request, guard, Limits(max_bytes=MAX_BYTES))
        check_status(request, response)
        return response.body, self._spec.without_query

    def _build(self, data: bytes, where: str) -> None:
        """Make all tools; nothing changes unless the document can be used."""
        document = read_document(data, where)
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
        calls: dict[str, Call] = {}
        for operation in chosen(found, self._include, self._exclude):
            try:
                call = build_call(document, operation, servers.server(operation))
                name = names.name(operation)
                specs.append(build_spec(document, operation, call, name))
                calls[name] = call
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
    place = _url(given, "spec", spec) if "://" in spec else workshop.file(spec)
    return OpenApiProvider(name, given, place, client)


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
