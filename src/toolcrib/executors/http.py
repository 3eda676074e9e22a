"""Running tools that are HTTP requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from toolcrib.core.context import ToolContext
from toolcrib.core.entry import Execute
from toolcrib.core.protocols import Workshop
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ConfigError, Denial, SpecError, ToolFailure
from toolcrib.executors.http_pages import check_pointer, pages_from
from toolcrib.executors.http_request import request_plan
from toolcrib.net.addresses import Private, private_from
from toolcrib.net.auth import auth_from
from toolcrib.net.client import Client, missing_library
from toolcrib.net.exchange import Limits, Request, Response, effects_of
from toolcrib.net.guard import Guard, guard_for, host_rules
from toolcrib.net.reply import FORMS, Form, check_status, output_of
from toolcrib.net.settings import Settings
from toolcrib.net.url import Url

__all__ = ["HttpExecutor", "effects_of"]

_KEYS = [
    "method",
    "url",
    "query",
    "headers",
    "body",
    "auth",
    "response",
    "pagination",
    "hosts",
    "private",
    "max_bytes",
    "timeout",
]
_MAX_BYTES = 5_000_000
_TIMEOUT = 60.0


class HttpExecutor:
    """Sends a request for each call. All tools share one client and its open connections."""

    kind = "http"

    def __init__(self, client: Client | None = None) -> None:
        self._client = client or Client()

    def bind(self, spec: ToolSpec, workshop: Workshop | None = None) -> Execute:
        """Read the tool's `config` once."""
        settings = Settings(spec.config, f"tool {spec.name}", "config", SpecError).only(*_KEYS)
        if cure := missing_library():
            what = f"tool {spec.name}: the library for HTTP is not installed"
            raise SpecError(what, key="kind", cure=cure)
        plan = request_plan(spec, settings)
        private = _private(settings)
        guard = _guard(settings, plan.base, guard_for(plan.base, private))
        auth = auth_from(settings.part("auth"), private)
        form, pointer = _response(settings)
        pages = pages_from(settings.part("pagination"))
        if pages is not None and pointer:
            settings.wrong(
                "response.pointer", "does not go with pagination", "Use pagination.items"
            )
        max_bytes = settings.size("max_bytes", _MAX_BYTES)
        total = settings.duration("timeout", _TIMEOUT)
        limits = Limits(max_bytes=max_bytes, total=total)
        client = self._client

        async def send(request: Request, most: int) -> tuple[Request, Response]:
            allowed = limits if most == max_bytes else Limits(max_bytes=most, total=total)
            response = await auth.send(client, request, guard, allowed)
            check_status(request, response)
            return request, response

        async def execute(ctx: ToolContext) -> Any:
            request = plan.request(ctx.arguments)
            if pages is not None:
                return await pages.collect(request, send, max_bytes)
            request, response = await send(request, max_bytes)
            return output_of(request, response, form, pointer)

        return _Bound(execute, lambda ctx: plan.request(ctx.arguments))

    async def execute(self, ctx: ToolContext) -> Any:
        """Run one call of a tool that was not bound."""
        if ctx.spec is None:
            raise ToolFailure("the call carries no spec", reason="tool_unavailable")
        return await self.bind(ctx.spec)(ctx)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class _Bound:
    """One HTTP tool."""

    def __init__(self, execute: Execute, check: Callable[[ToolContext], object]) -> None:
        self._execute = execute
        self.check = check
        """Refuses what can be no part of a request; nothing is sent for that."""

    def __call__(self, ctx: ToolContext) -> Awaitable[Any]:
        return self._execute(ctx)


def _private(settings: Settings) -> Private:
    try:
        return private_from(settings.values.get("private"))
    except ConfigError as error:
        settings.wrong("private", error.message.partition(": ")[2], error.cure)


def _guard(settings: Settings, base: Url, alone: Guard) -> Guard:
    """The hosts that are listed, or the URL's own; it has to be among them."""
    hosts = settings.texts("hosts")
    guard = alone
    if hosts is not None:
        try:
            guard = Guard(host_rules(hosts, "config.hosts"), private=alone.private)
        except ConfigError as error:
            settings.wrong("hosts", error.message.partition(": ")[2], error.cure)
    try:
        guard.check(base)
    except Denial as error:
        cure = "Add it to config.hosts"
        if error.reason == "address_not_public":
            cure = "Write private: true, or list the networks under config.private"
        settings.wrong("url", f"can never be asked for: {error}", cure)
    return guard


def _response(settings: Settings) -> tuple[Form, str]:
    given = settings.part("response")
    if given is None:
        return "auto", ""
    given.only("pointer", "output")
    form = given.choice("output", FORMS, "auto")
    pointer = check_pointer(given, "pointer") if given.has("pointer") else ""
    if pointer and form in ("text", "bytes"):
        given.wrong("pointer", f"does not go with output: {form}", "Use output: json")
    return form, pointer  # pyright: ignore[reportReturnType]
