"""A person's answer to "may it?", and what is remembered of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

import msgspec

from toolcrib.core.canonical import digest as digest_of
from toolcrib.core.profile import ApprovalRules

RequestState = Literal["pending", "allowed", "denied", "expired", "used", "withdrawn"]
"""pending waits · allowed was said yes to and not yet used · denied was said no to · expired was
not answered in time · used let one call run · withdrawn is no longer wanted."""

Answer = Literal["allow", "deny", "escalate"]
"""What an approver says; `escalate` passes the question to the next one."""


class ApprovalDecision(msgspec.Struct, frozen=True, kw_only=True):
    """An approver's answer."""

    answer: Answer
    note: str | None = None
    """Words for the model."""
    reach: str = "once"
    arguments: dict[str, Any] | None = None
    """Changed arguments, where the profile permits it."""
    by: str = ""
    """Who answered."""


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One question, and how far it is answered."""

    id: str
    call_id: str
    key: str
    """Hash over tool digest, arguments, principal, session and policy revision: an answer fits
    this call and no other."""
    tool: str
    digest: str
    arguments: dict[str, Any]
    """The validated arguments, secrets hidden."""
    effects: tuple[str, ...] | None
    principal: str
    session: str | None
    profile: str | None
    door: str
    revision: str
    """The revision of the profile the question was asked under."""
    gate: str
    message: str | None
    rule: str | None
    source: str | None
    offered: tuple[str, ...]
    """The reaches an approver may choose."""
    via: tuple[str, ...]
    """Whose answers count."""
    edit: bool
    created: float
    expires: float
    state: RequestState = "pending"
    note: str | None = None
    by: str | None = None
    reach: str | None = None
    decided: float | None = None
    edited: dict[str, Any] | None = None
    """The arguments as changed by the approver."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return msgspec.to_builtins(self)


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A remembered approval."""

    id: str
    tool: str
    digest: str
    principal: str
    session: str | None
    """Set when it holds in one session only."""
    revision: str
    reach: str
    by: str | None
    created: float
    expires: float | None
    request: str
    """The approval it came from."""
    revoked: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return msgspec.to_builtins(self)


def offered_reaches(
    rules: ApprovalRules, effects: Collection[str] | None, session: str | None
) -> tuple[str, ...]:
    """The reaches an approver may choose, the narrowest first; `once` is always among them."""
    reaches = ["once"]
    if "session" in rules.remember and session is not None:
        reaches.append("session")
    if "1h" in rules.remember:
        reaches.append("1h")
    if "always" in rules.remember and _harmless_for_good(effects):
        reaches.append("always")
    return tuple(reaches)


def _harmless_for_good(effects: Collection[str] | None) -> bool:
    # Changing things and sending data out, both unwatched and for good, is how data leaks.
    if effects is None or "destructive" in effects:
        return False
    return not ("write" in effects and "egress" in effects)


def binding_key(
    *,
    digest: str,
    arguments_hash: str,
    principal: str,
    session: str | None,
    door: str,
    revision: str,
) -> str:
    """The hash that ties an answer to one call: what runs, with what, for whom, where, under
    which rules. Calls without a lasting session are tied to their door instead."""
    place = ("door", door) if session is None else ("session", session)
    return digest_of([digest, arguments_hash, principal, *place, revision])
