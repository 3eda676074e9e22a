"""What a provider promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.core.context import ToolContext
from toolcrib.core.entry import Entry
from toolcrib.core.protocols import Provider
from toolcrib.core.result import ToolResult
from toolcrib.core.spec import ToolSpec
from toolcrib.testing.contracts.promise import (
    check_value,
    ends_badly,
    is_text,
    promise,
    snapshot,
    undefined,
)
from toolcrib.testing.contracts.specs import check_specs
from toolcrib.testing.hosts import make_host


class ProviderContract:
    """Inherit, say how to make the provider, and name two calls."""

    def make(self) -> Provider:
        """A new provider that has not been entered."""
        undefined(self, "make")

    def good_call(self) -> tuple[str, Mapping[str, Any]]:
        """The name of a listed tool, and arguments with which it ends well."""
        undefined(self, "good_call")

    def failing_call(self) -> tuple[str, Mapping[str, Any]]:
        """The name of a listed tool, and arguments with which it fails."""
        undefined(self, "failing_call")

    async def test_it_has_a_name_and_a_kind(self) -> None:
        provider = self.make()
        for what, text in (("name", provider.name), ("kind", provider.kind)):
            promise(is_text(text), f"a provider has a {what}", text)

    async def test_it_lists_specs_of_its_kind(self) -> None:
        provider = self.make()
        async with provider as entered:
            specs = await entered.list_tools()
        check_specs(specs, "a provider")
        for spec in specs:
            promise(spec.kind == provider.kind, "its specs carry its kind", spec.kind)

    async def test_it_lists_the_same_tools_twice(self) -> None:
        async with self.make() as provider:
            first, second = await provider.list_tools(), await provider.list_tools()
        promise(
            _digests(first) == _digests(second),
            "an unchanged tool has an unchanged digest; another one looks like a rug pull",
        )

    async def test_it_runs_what_it_lists(self) -> None:
        name, arguments = self.good_call()
        async with self.make() as provider:
            ctx = _context(await _spec(provider, name), arguments)
            before = snapshot(ctx)
            value = await provider.execute(ctx)
        check_value(value, "a provider")
        ok = not isinstance(value, ToolResult) or value.status == "ok"
        promise(ok, "the good call ends well", value)
        promise(snapshot(ctx) == before, "a provider changes neither arguments nor call")

    async def test_a_failure_is_reported_as_one(self) -> None:
        name, arguments = self.failing_call()
        async with self.make() as provider:
            ctx = _context(await _spec(provider, name), arguments)
            await ends_badly(provider.execute, ctx, "a provider")

    async def test_it_refuses_what_it_does_not_list(self) -> None:
        async with self.make() as provider:
            stranger = ToolSpec(name="no_such_tool_here", kind=provider.kind)
            await ends_badly(provider.execute, _context(stranger, {}), "a provider")

    async def test_leaving_hides_no_exception(self) -> None:
        provider = self.make()
        await provider.__aenter__()
        error = RuntimeError("from within")
        kept: Any = await provider.__aexit__(RuntimeError, error, None)
        promise(not kept, "leaving a provider swallows no exception", kept)

    async def test_it_can_be_entered_again(self) -> None:
        name, arguments = self.good_call()
        provider = self.make()
        async with provider as entered:
            before = _digests(await entered.list_tools())
        async with provider as entered:
            after = _digests(await entered.list_tools())
            value = await entered.execute(_context(await _spec(entered, name), arguments))
        promise(before == after, "a provider that was left can be entered again", after)
        ok = not isinstance(value, ToolResult) or value.status == "ok"
        promise(ok, "the good call ends well after a restart", value)

    async def test_it_is_healthy_while_it_is_entered(self) -> None:
        provider: Any = self.make()
        if not hasattr(provider, "health"):
            return
        async with provider as entered:
            try:
                await entered.health()
            except Exception as error:
                raise AssertionError(
                    "broken promise: the health of a provider that runs is good; one that raises "
                    f"is left and started again; found: {error!r}"
                ) from error

    async def test_what_it_knows_beforehand_are_its_tools(self) -> None:
        provider: Any = self.make()
        if not hasattr(provider, "known_tools"):
            return
        known = provider.known_tools()
        check_specs(known, "a provider")
        async with provider as entered:
            listed = _digests(await entered.list_tools())
        promise(
            _digests(known).items() <= listed.items(),
            "what a provider knows before it is entered is what it lists",
            sorted(name for name, _ in _digests(known)),
        )

    async def test_it_takes_somebody_who_follows_it(self) -> None:
        provider: Any = self.make()
        if not hasattr(provider, "follow"):
            return
        told: list[None] = []
        provider.follow(lambda: told.append(None))
        promise(not told, "a provider that was not entered has no news")

    async def test_its_tools_run_in_a_host(self) -> None:
        name, arguments = self.good_call()
        async with self.make() as provider, make_host() as host:
            for spec in await provider.list_tools():
                host.register(Entry(spec, provider.execute, owner=f"provider {provider.name}"))
            ended = await host.call(name, arguments)
        promise(ended.status == "ok", "the good call ends well in a host", ended.error)


def _digests(specs: Sequence[ToolSpec]) -> dict[tuple[str, str], str]:
    return {(spec.name, spec.version): spec.digest for spec in specs}


async def _spec(provider: Provider, name: str) -> ToolSpec:
    found = [spec for spec in await provider.list_tools() if spec.name == name]
    promise(found, f"the provider lists {name!r}")
    return found[0]


def _context(spec: ToolSpec, arguments: Mapping[str, Any]) -> ToolContext:
    return ToolContext(tool=spec.name, arguments=arguments, spec=spec, call_id="c1")
