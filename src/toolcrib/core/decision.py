"""What gates answer, and the answers put together."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Verdict = Literal["allow", "ask", "deny"]
"""What becomes of the call: it runs, a person is asked first, or it is refused."""

Opinion = Literal["allow", "ask", "deny", "abstain"]
"""What one gate says; `abstain` means it has no opinion about this call."""

RANK: dict[str, int] = {"abstain": 0, "allow": 1, "ask": 2, "deny": 3}
"""Deny beats ask beats allow beats no opinion."""


class Decision(msgspec.Struct, frozen=True):
    """One gate's answer. Build it with `allow`, `ask`, `deny` or `abstain`."""

    verdict: Opinion
    reason: str | None = None
    message: str | None = None
    rule: str | None = None
    """The rule that decided, in words or as written."""
    source: str | None = None
    """Where the rule stands: `file:line`."""
    details: dict[str, Any] | None = None

    @classmethod
    def allow(
        cls, message: str | None = None, *, rule: str | None = None, source: str | None = None
    ) -> Decision:
        """This gate lets the call pass."""
        return cls("allow", None, message, rule, source)

    @classmethod
    def ask(
        cls,
        message: str | None = None,
        *,
        reason: str | None = None,
        rule: str | None = None,
        source: str | None = None,
    ) -> Decision:
        """A person has to say yes first."""
        return cls("ask", reason, message, rule, source)

    @classmethod
    def deny(
        cls,
        reason: str,
        message: str | None = None,
        *,
        rule: str | None = None,
        source: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> Decision:
        """The call is refused, with a stable reason."""
        return cls("deny", reason, message, rule, source, details)

    @classmethod
    def abstain(cls, message: str | None = None) -> Decision:
        """This gate has no opinion about the call."""
        return cls("abstain", None, message)


ALLOW = Decision("allow")
ABSTAIN = Decision("abstain")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One line of an explanation: what one gate said, and by which rule."""

    gate: str
    verdict: Opinion
    reason: str | None = None
    message: str | None = None
    rule: str | None = None
    source: str | None = None


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen to a call, and why. Made by the code that decides real calls."""

    tool: str
    principal: str
    profile: str | None
    verdict: Verdict
    reason: str | None = None
    message: str | None = None
    steps: tuple[Step, ...] = ()
    arguments: Any = None
    """The arguments after validation, defaults filled in, secrets hidden."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return msgspec.to_builtins(self)

    def _repr_html_(self) -> str:
        import html

        head = f"<caption>{html.escape(self.tool)}: {self.verdict}</caption>"
        rows = "".join(
            "<tr>"
            + "".join(
                f"<td>{html.escape(str(cell or ''))}</td>"
                for cell in (step.gate, step.verdict, step.reason, step.message, step.source)
            )
            + "</tr>"
            for step in self.steps
        )
        return f"<table>{head}{rows}</table>"
