"""What a profile can say."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from toolcrib.core.profile import ApprovalRules, Limit, ListingMode, Per, Reach
from toolcrib.core.units import format_duration
from toolcrib.host.config.kinds import BAD, DURATION, FLAG, PAUSE, RATE, TEXT, choice, whole
from toolcrib.host.config.node import Node
from toolcrib.host.config.reading import Reading
from toolcrib.host.config.rules import PATTERNS, RULE
from toolcrib.host.config.shapes import DATA, ListOf, MapOf, Section, Setting

_USES = ("calls", "quota", "budget", "concurrent", "repeat")


class Draft(msgspec.Struct, frozen=True):
    """A profile as its own file says it, before `extends` is followed."""

    given: dict[str, Any]
    node: Node


def _build_limit(values: dict[str, Any], node: Node, key: str, reading: Reading) -> Any:
    if not any(use in values for use in _USES):
        reading.wrong(node, key, f"{key} limits nothing", f"Add one of {', '.join(_USES)}")
        return BAD
    return Limit(**values, source=node.source)


LIMIT = Section(
    "a mapping such as {calls: 60/min}",
    (
        Setting(
            name="calls", kind=RATE, doc="calls in a stretch of time, with bursts up to the count"
        ),
        Setting(name="quota", kind=RATE, doc="a hard number of calls in a fixed period"),
        Setting(
            name="budget",
            kind=whole(1),
            doc="calls in all, for as long as the counted one lives",
        ),
        Setting(name="concurrent", kind=whole(1), doc="calls running at the same time"),
        Setting(
            name="per",
            kind=choice(*get_args(Per)),
            doc="whose use is counted",
            default=Limit().per,
        ),
        Setting(
            name="tools", kind=PATTERNS, doc="the tools that are counted", default="every tool"
        ),
        Setting(
            name="queue",
            kind=whole(),
            doc="calls that may wait for a free place",
            default=str(Limit().queue),
        ),
        Setting(
            name="queue_timeout",
            kind=PAUSE,
            doc="how long to wait for a free place",
            default=format_duration(Limit().queue_timeout),
        ),
        Setting(
            name="repeat",
            kind=RATE,
            doc="identical calls (tool and arguments) before they count as a loop",
        ),
    ),
    _build_limit,
)

_APPROVAL = ApprovalRules()

APPROVAL = Section(
    "a mapping such as {timeout: 5m}",
    (
        Setting(
            name="timeout",
            kind=DURATION,
            doc="how long a request waits for an answer",
            default=format_duration(_APPROVAL.timeout),
        ),
        Setting(
            name="remember",
            kind=ListOf(choice(*get_args(Reach)), least=1),
            doc="how far an answer may reach",
            default=", ".join(_APPROVAL.remember),
        ),
        Setting(
            name="via",
            kind=ListOf(choice("host", "cli", "console", "client")),
            doc="whose answers count; an empty list: nobody's",
            default=", ".join(_APPROVAL.via),
        ),
        Setting(
            name="edit",
            kind=FLAG,
            doc="whether an approver may change the arguments",
            default="false",
        ),
        Setting(
            name="max_pending",
            kind=whole(1),
            doc="requests of one principal that may wait at the same time",
            default=str(_APPROVAL.max_pending),
        ),
    ),
)


LISTING = Section(
    "a mapping such as {tools: 40}",
    (
        Setting(
            name="mode",
            kind=choice(*get_args(ListingMode)),
            doc="what agents are shown: every tool, or tools to find, describe and call the others "
            "with; code adds one that runs code which calls them",
            default="search",
        ),
        Setting(
            name="tools",
            kind=whole(1),
            doc="up to so many tools all are shown",
            default="none: never all, unless tokens says so",
        ),
        Setting(
            name="tokens",
            kind=whole(1),
            doc="up to so many tokens of a model, roughly, all are shown",
            default="none: as tools says",
        ),
        Setting(name="pinned", kind=PATTERNS, doc="tools that are shown whatever the number"),
    ),
)


def _build_draft(values: dict[str, Any], node: Node, key: str, reading: Reading) -> Any:
    return Draft(values, node)


PROFILE = Section(
    "a mapping of a profile's settings",
    (
        Setting(
            name="extends",
            kind=TEXT,
            doc="the profile whose rules, policies, limits and approval settings come first",
        ),
        Setting(
            name="trust",
            kind=whole(0, 1000),
            doc="how much is entrusted; never inherited",
            default="0",
        ),
        Setting(
            name="default",
            kind=choice("allow", "ask", "deny"),
            doc="what happens to a tool that no rule speaks of",
            default="deny",
        ),
        Setting(
            name="rules", kind=ListOf(RULE), doc="who may call what; deny beats ask beats allow"
        ),
        Setting(
            name="policies",
            kind=MapOf(DATA, "tool"),
            doc="the knobs of tools' policies under this profile",
        ),
        Setting(
            name="limits",
            kind=ListOf(LIMIT, one=True),
            doc="how much may be used; added to the limits of the profile extended",
        ),
        Setting(name="approval", kind=APPROVAL, doc="who may approve, for how long, and how far"),
        Setting(
            name="conceal",
            kind=FLAG,
            doc="answer unknown_tool for tools outside the profile",
            default="false",
        ),
        Setting(
            name="versions",
            kind=MapOf(TEXT, "tool"),
            doc="which version stands under a tool's plain name",
            default="the newest",
        ),
        Setting(name="pins", kind=MapOf(TEXT, "tool"), doc="digests that tools must have"),
        Setting(
            name="max_depth",
            kind=whole(1, 64),
            doc="how deep tools may call tools",
            default="8",
        ),
        Setting(
            name="isolation",
            kind=ListOf(TEXT, least=1),
            doc="the sandbox types in which tools may run commands; no other one is used",
            default="every one but landlock",
        ),
        Setting(
            name="listing",
            kind=LISTING,
            doc="how many tools an agent is shown before it has to look for them",
            default="all are shown",
        ),
    ),
    _build_draft,
)
