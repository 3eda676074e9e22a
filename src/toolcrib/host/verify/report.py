"""What verification found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

FindingKind = Literal[
    "never",
    "widened",
    "unmatched",
    "never_holds",
    "shadowed",
    "redundant",
    "contradiction",
]
"""never: an invariant is broken · widened: more is allowed than before · unmatched: a pattern fits
no tool · never_holds: a rule's condition cannot come true · shadowed: a stronger rule always wins ·
redundant: another rule says the same or more · contradiction: knobs of a policy disagree."""

Certainty = Literal["confirmed", "possible"]
"""confirmed: the code that decides real calls said so · possible: it could not be ruled out."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it should be."""

    kind: FindingKind
    sentence: str
    """What is wrong, in words."""
    certainty: Certainty = "confirmed"
    profile: str | None = None
    tool: str | None = None
    action: str | None = None
    arguments: dict[str, Any] | None = None
    """A call that shows it."""
    principal: str | None = None
    """Who makes that call."""
    roles: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()
    verdict: str | None = None
    rule: str | None = None
    """The rule that is to blame, in short."""
    source: str | None = None
    """Where that rule stands: `file:line`."""
    invariant: str | None = None
    """What was demanded, in short, and where: `file:line`."""
    invariant_source: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return msgspec.to_builtins(self)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a verification."""

    findings: tuple[Finding, ...]
    profiles: int
    tools: int
    invariants: int
    decisions: int
    """How often the real decision was asked."""
    tested: tuple[str, ...] = ()
    """Tools whose policy code refused some calls: there the proof is a test of the calls tried."""
    notes: tuple[str, ...] = ()
    """What was not looked at, and why."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"ok": self.ok, **msgspec.to_builtins(self)}


def call_text(tool: str, arguments: Mapping[str, Any] | None) -> str:
    """A call in one line; the tool alone where no call is known."""
    if arguments is None:
        return tool
    text = msgspec.json.encode(dict(arguments)).decode()
    return f"{tool} {text if len(text) <= 300 else text[:299] + '…'}"
