"""Running tools that are HTTP requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

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
from toolcrib.net.exchange import Limits, Request, Response, Sending, effects_of
from toolcrib.net.guard import Guard, guard_for, host_rules, schemes_for
from toolcrib.net.reply import FORMS, LATER, Form, check_status, output_of
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
    "retry_statuses",
]
MAX_BYTES = 5_000_000
"""Bytes of an answer, unless the configuration says otherwise."""
TIMEOUT = 60.0
"""Seconds for one request, unless the configuration says otherwise."""


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
        private = _private(settings)
        keep_secret = None if workshop is None else workshop.keep_secret
        auth = auth_from(settings.part("auth"), private, keep_secret)
        plan = request_plan(spec, settings, auth)
        guard = _guard(settings, plan.base, guard_for(plan.base, private))
        form, pointer = _response(settings)
        pages = pages_from(settings.part("pagination"))
        if pages is not None and pointer:
            settings.wrong(
                "response.pointer", "does not go with pagination", "Use pagination.items"
            )
        max_bytes = settings.size("max_bytes", MAX_BYTES)
        total = settings.duration("timeout", TIMEOUT)
        limits = Limits(max_bytes=max_bytes, total=total)
        retry = _retry_statuses(settings)
        client = self._client

        async def execute(ctx: ToolContext) -> Any:
            sending = Sending()

            async def send(request: Request, most: int) -> tuple[Request, Response]:
                allowed = limits if most == max_bytes else Limits(max_bytes=most, total=total)
                response = await auth.send(client, request, guard, allowed, sending)
                check_status(request, response, retry)
                return request, response

            request = plan.request(ctx.arguments)
            try:
                if pages is not None:
                    return await pages.collect(request, send, max_bytes)
                request, response = await send(request, max_bytes)
            except asyncio.CancelledError:
                ctx.still_running = ctx.still_running or sending.open
                raise
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
            rules = host_rules(hosts, "config.hosts")
            guard = Guard(rules, private=alone.private, schemes=schemes_for(base))
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


def _retry_statuses(settings: Settings) -> frozenset[int]:
    given: Any = settings.values.get("retry_statuses")
    if given is None:
        return LATER
    found: list[Any] = cast("list[Any]", given) if isinstance(given, list | tuple) else [None]
    if not all(type(status) is int and 400 <= status < 600 for status in found):
        settings.wrong(
            "retry_statuses", "must be a list of statuses from 400 to 599", "Write [429, 503]"
        )
    return frozenset(found)


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
