"""What a gate promises."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from toolcrib.core.context import ToolContext
from toolcrib.core.decision import RANK, Decision
from toolcrib.core.protocols import Gate
from toolcrib.core.spec import ToolSpec
from toolcrib.reasons import is_reason, reason
from toolcrib.testing.contracts.promise import is_text, promise, snapshot, undefined
from toolcrib.testing.hosts import make_host
from toolcrib.testing.mocks import MockExecutor, MockTool


class GateContract:
    """Inherit, say how to make the gate, and give calls for it to answer."""

    def make(self) -> Gate:
        """A new gate."""
        undefined(self, "make")

    def contexts(self) -> Sequence[ToolContext]:
        """New contexts of calls: some that it refuses, and some that it does not."""
        undefined(self, "contexts")

    async def test_it_has_a_name(self) -> None:
        name = self.make().name
        promise(is_text(name), "a gate has a name; denials name it", name)

    async def test_it_answers_with_a_decision(self) -> None:
        gate = self.make()
        for ctx in self.contexts():
            said = _ask(gate, ctx)
            promise(said.verdict in RANK, "a gate says allow, ask, deny or abstain", said.verdict)
            if said.verdict == "deny":
                promise(
                    is_reason(said.reason) and reason(said.reason or "").status != "ok",
                    "a gate denies with a reason, which is a snake_case code",
                    said.reason,
                )

    async def test_it_refuses_some_calls_and_not_others(self) -> None:
        gate = self.make()
        verdicts = {_ask(gate, ctx).verdict == "deny" for ctx in self.contexts()}
        promise(verdicts == {True, False}, "of the calls given, a gate refuses some and not others")

    async def test_it_is_pure(self) -> None:
        gate = self.make()
        first = [_ask(gate, ctx) for ctx in self.contexts()]
        again = [_ask(gate, ctx) for ctx in reversed(self.contexts())]
        promise(
            first == again[::-1],
            "a gate gives the same call the same answer, whatever it was asked before",
        )

    async def test_it_leaves_the_call_as_it_is(self) -> None:
        gate = self.make()
        for ctx in self.contexts():
            before = snapshot(ctx)
            _ask(gate, ctx)
            promise(snapshot(ctx) == before, "a gate changes nothing about a call", ctx.arguments)

    async def test_it_says_what_is_listed(self) -> None:
        gate = self.make()
        for ctx in self.contexts():
            spec = ctx.spec or ToolSpec(name=ctx.tool)
            seen: Any = gate.visible(spec, ctx.principal, ctx.profile)
            promise(
                seen is True or seen is False, "visible answers True or False and no other", seen
            )

    async def test_a_host_decides_as_the_gate_says(self) -> None:
        gate = self.make()
        for ctx in self.contexts():
            said = _ask(gate, ctx)
            host = make_host([ctx.spec or MockTool(ctx.tool)], gates=[gate], executors=_idle(ctx))
            why = host.explain(ctx.tool, ctx.arguments, principal=ctx.principal)
            promise(why.reason != "guard_failed", "a gate does not fail in a host", why.message)
            if said.verdict == "deny":
                promise(why.verdict == "deny", "what a gate refuses is refused in a host", why)


def _ask(gate: Gate, ctx: ToolContext) -> Decision:
    try:
        said: Any = gate.check(ctx)
    except Exception as error:
        raise AssertionError(
            f"broken promise: a gate answers and does not raise; found: {error!r}"
        ) from error
    if inspect.isawaitable(said):
        if inspect.iscoroutine(said):
            said.close()
        raise AssertionError("broken promise: a gate is synchronous; found: an awaitable")
    promise(type(said) is Decision, "a gate answers with a Decision", said)
    return said


def _idle(ctx: ToolContext) -> list[MockExecutor]:
    return [] if ctx.spec is None else [MockExecutor(ctx.spec.kind)]
