"""The named rules and limits a session is held to."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from toolcrib.core.canonical import digest
from toolcrib.core.decision import Verdict
from toolcrib.core.spec import Effect

_EMPTY: Mapping[str, Any] = MappingProxyType({})

ConstraintKind = Literal[
    "in",
    "not_in",
    "prefix",
    "glob",
    "regex",
    "min",
    "max",
    "max_length",
    "max_items",
    "path_under",
    "host_in",
]
"""What an argument may be held to: one of a list, none of a list, text that begins so, a glob
(`*` stops at `/`, `**` does not), a linear-time regular expression, a least and a greatest number,
a greatest length, a greatest number of items, a path below a folder, a URL or host on a list."""

CONSTRAINT_REASONS: Mapping[str, str] = {
    "path_under": "path_outside_root",
    "host_in": "host_not_allowed",
    "max_items": "too_many_files",
}
"""The reason given when a constraint fails and the rule names none; else `argument_not_allowed`."""

Per = Literal["principal", "session", "profile", "tool"]
"""Whose use a limit counts: each principal's, each session's, the whole profile's, each tool's."""

Reach = Literal["once", "session", "1h", "always"]
"""How far an approval reaches: this call, this tool in this session, for an hour, from now on."""


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """Which tools a rule speaks of. Each part given must match; within a part one is enough."""

    names: tuple[str, ...] = ()
    """Exact names, or globs with `*`. `read` matches `read` and nothing else."""
    effects: frozenset[Effect] = frozenset()
    """For `allow`: the tool does nothing beyond these. For `ask` and `deny`: it does one of these;
    unknown effects count as all of them."""
    tags: frozenset[str] = frozenset()
    categories: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()


class Constraint(msgspec.Struct, frozen=True, kw_only=True):
    """One limit on one argument."""

    argument: str
    """The argument's name; dots reach into objects. In a list every item is held to it."""
    kind: ConstraintKind
    value: Any
    source: str | None = None


class When(msgspec.Struct, frozen=True, kw_only=True):
    """The condition of a rule; everything given must hold."""

    roles: frozenset[str] = frozenset()
    """The principal has one of these roles."""
    permissions: frozenset[str] = frozenset()
    """The principal holds all of these permissions."""
    principals: frozenset[str] = frozenset()
    """The principal is one of these."""
    arguments: tuple[Constraint, ...] = ()


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Allow, ask or deny the tools that match, when the condition holds."""

    verdict: Verdict
    match: Match
    when: When | None = None
    reason: str | None = None
    """The reason given when an `allow` rule's condition fails, or a `deny` rule's holds."""
    message: str | None = None
    text: str = ""
    """The rule as written, in short."""
    source: str | None = None
    """Where it stands: `file:line`."""


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """So many in so many seconds."""

    count: int
    seconds: float


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """How much may be used, and by whom it is counted."""

    per: Per = "principal"
    tools: tuple[str, ...] = ()
    """Names or globs; empty means every tool."""
    calls: Rate | None = None
    """Calls in a stretch of time, with bursts up to the count."""
    quota: Rate | None = None
    """A hard number of calls in a fixed period."""
    budget: int | None = None
    """Calls in all, for as long as the counted one lives."""
    concurrent: int | None = None
    """Calls running at the same time."""
    queue: int = 100
    """Calls that may wait for a free place."""
    queue_timeout: float = 30.0
    """Seconds to wait for a free place."""
    repeat: Rate | None = None
    """Identical calls (tool and arguments) before they count as a loop."""
    source: str | None = None


class ApprovalRules(msgspec.Struct, frozen=True, kw_only=True):
    """Who may approve, for how long, and how far an answer reaches."""

    timeout: float = 300.0
    remember: tuple[Reach, ...] = ("once", "session")
    via: tuple[str, ...] = ("host", "cli", "console", "client")
    """Whose answers count. An empty list: nobody's, so every `ask` is `no_approver`."""
    edit: bool = False
    """Whether an approver may change the arguments."""
    max_pending: int = 20
    """Requests of one principal that may wait at the same time."""


ListingMode = Literal["all", "search", "code"]
"""What agents are shown. all: every tool they may call · search: tools to find, describe and call
the others with · code: a tool that runs code which calls the others, beside those."""


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """How many tools an agent is shown before it has to look for them."""

    mode: ListingMode = "all"
    tools: int | None = None
    """Up to so many tools all are shown."""
    tokens: int | None = None
    """Up to so many tokens of a model, roughly, all are shown."""
    pinned: tuple[str, ...] = ()
    """Names or globs of tools that are shown whatever the number."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """The named rules and limits a session is held to."""

    name: str
    trust: int = 0
    """How much is entrusted; invariants such as "trust 1 never writes" are checked on it."""
    extends: str | None = None
    default: Verdict = "deny"
    """What happens to a tool that no rule speaks of."""
    rules: tuple[Rule, ...] = ()
    policies: Mapping[str, Mapping[str, Any]] = _EMPTY
    """The knobs of tools' policies under this profile."""
    limits: tuple[Limit, ...] = ()
    approval: ApprovalRules = ApprovalRules()
    conceal: bool = False
    """Answer `unknown_tool` for tools outside the profile; the trail keeps the truth."""
    versions: Mapping[str, str] = _EMPTY
    """Which version stands under a tool's plain name; otherwise the newest."""
    pins: Mapping[str, str] = _EMPTY
    """Digests that tools must have; any other is `definition_changed`."""
    max_depth: int = 8
    """How deep tools may call tools."""
    isolation: tuple[str, ...] | None = None
    """The sandbox types that are acceptable; None accepts every one but `landlock`."""
    listing: Listing = Listing()
    source: str | None = None

    @property
    def revision(self) -> str:
        """A short hash over everything the profile says; approvals are bound to it."""
        return digest(self)[:16]
