"""The tools of an agent that looks for tools: `search_tools`, `describe_tool`, `call_tool` and
`run_code`.

They exist under profiles with `listing` only and are in nobody's catalog. They let a caller do
nothing that it could not do without them: what is found is what it may call, and each call passes
the whole pipeline.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from toolcrib.core.context import ToolContext
from toolcrib.core.entry import Entry
from toolcrib.core.principal import Principal
from toolcrib.core.profile import Limit, Match, Profile, Rule
from toolcrib.core.result import ToolResult
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ToolFailure
from toolcrib.pipeline.patterns import any_glob

if TYPE_CHECKING:
    from toolcrib.host.host import ToolHost
    from toolcrib.host.session import Session

SEARCH, DESCRIBE, CALL, CODE = "search_tools", "describe_tool", "call_tool", "run_code"
_OF_MODE: Mapping[str, tuple[str, ...]] = {
    "all": (),
    "search": (CALL, DESCRIBE, SEARCH),
    "code": (CALL, DESCRIBE, CODE, SEARCH),
}
_MOST_FOUND = 50
_MOST_TEXT = 300
_LONG = 86_400.0
"""Seconds. Each tool inside has its own time, and so have people who are asked."""
_AT_ONCE = Limit(concurrent=4, queue=16)
"""How many pieces of code of one caller may run."""
_NOBODY = ("\0",)
_LETTERS = 4
"""Of a token, as a rule."""

_NAME = {"type": "string", "minLength": 1, "maxLength": 256, "description": "The tool's name."}


class SearchTools:
    """Makes these tools and knows where they exist."""

    def __init__(self, host: ToolHost) -> None:
        self._host = host
        self._entries: dict[str, Entry] = {}

    @staticmethod
    def names(profile: Profile | None) -> tuple[str, ...]:
        """Those that exist under a profile."""
        return () if profile is None else _OF_MODE[profile.listing.mode]

    def entry(self, name: str, profile: Profile | None) -> Entry | None:
        """The one of that name, if it exists under the profile. Raises `ConfigError` when it
        cannot be made here."""
        if name not in self.names(profile):
            return None
        made = self._entries.get(name)
        if made is None:
            made = self._entries[name] = self._code() if name == CODE else self._made(name)
        return made

    @staticmethod
    def rules(name: str, profile: Profile) -> Profile:
        """What one of these is held to itself: of what it calls, the profile decides. A tool that
        waits for others must not hold a place that they need."""
        limits: tuple[Limit, ...] = profile.limits
        kept: tuple[Rule, ...] = ()
        if name == CALL:
            limits = ()
        elif name == CODE:
            limits = tuple(
                limit if limit.concurrent is None else replace(limit, tools=_NOBODY)
                for limit in limits
            )
            limits = (*limits, _AT_ONCE)
            # That code is run is something in itself: who denies or asks about that is heard.
            kept = tuple(rule for rule in profile.rules if rule.verdict != "allow")
        mode = f"listing: {profile.listing.mode}"
        rule = Rule(verdict="allow", match=Match(names=(name,)), text=mode, source=profile.source)
        return replace(
            profile,
            rules=(rule, *kept),
            limits=limits,
            policies={k: v for k, v in profile.policies.items() if k == name},
            pins={},
            versions={},
        )

    def listed(
        self, who: Principal, profile: Profile | None, session: Session | None
    ) -> list[str] | None:
        """The names of the tools that an agent is shown, in order; None when it is all of them."""
        own = self.names(profile)
        if profile is None or not own:
            return None
        listing = profile.listing
        if (listing.tools or listing.tokens) and self._within(who, profile, session):
            return None
        pinned = any_glob(listing.pinned)
        names = self._host.finding.reachable(who, profile, session) if listing.pinned else ()
        return sorted({*own, *(name for name in names if pinned(name))})

    def _within(self, who: Principal, profile: Profile, session: Session | None) -> bool:
        """Whether all tools that the caller may call are few enough to be shown."""
        listing = profile.listing
        count = tokens = 0
        for name in self._host.finding.reachable(who, profile, session):
            plan = self._host.calling.plan(name, profile.name, session)
            if plan is None or not plan.listed(who):
                continue
            count += 1
            if listing.tools is not None and count > listing.tools:
                return False
            if listing.tokens is not None:
                tokens += _tokens(plan.spec)
                if tokens > listing.tokens:
                    return False
        return True

    # The tools themselves.

    def _made(self, name: str) -> Entry:
        made: dict[str, Any] = {
            SEARCH: (self.search_tools, _SEARCH),
            DESCRIBE: (self.describe_tool, _DESCRIBE),
            CALL: (self.call_tool, _CALL),
        }
        function, spec = made[name]
        spec = dataclasses.replace(spec, config={"function": function})
        return self._host.entries.from_spec(spec, owner="toolcrib")

    def _code(self) -> Entry:
        from toolcrib.tools.python_code.tool import TEMPLATE

        return self._host.entries.from_template(
            TEMPLATE,
            {"allowed_tools": [SEARCH, DESCRIBE, CALL]},
            overrides={"name": CODE, "description": _ABOUT_CODE, "timeout": _LONG},
            owner="toolcrib",
        )

    async def search_tools(self, query: str, ctx: ToolContext, limit: int = 10) -> dict[str, Any]:
        finding, who = self._host.finding, _who(ctx)
        await finding.ready(**who)
        try:
            found = finding.find(query, limit, **who)
        except ValueError as error:
            raise ToolFailure(f"{error}. Give words such as send mail") from None
        return {"tools": [_short(tool.spec, tool.unavailable, score) for score, tool in found]}

    async def describe_tool(self, name: str, ctx: ToolContext) -> dict[str, Any]:
        who = _who(ctx)
        plan = self._host.calling.plan(name, who["profile"], who["session"])
        if plan is None or not plan.listed(ctx.principal):
            text = f"{name}: no such tool. Look for one with {SEARCH}"
            raise ToolFailure(text, reason="unknown_tool")
        from toolcrib.catalog.formats.mcp import mcp
        from toolcrib.protocol.mcp.definitions import KIND, shown

        spec = plan.spec
        made = shown(spec) if spec.kind == KIND else mcp(spec)
        if plan.outage is not None:
            made["unavailable"] = plan.outage.message
        return made

    async def call_tool(
        self, name: str, ctx: ToolContext, arguments: dict[str, Any] | None = None
    ) -> ToolResult:
        if name in self.names(ctx.profile):
            raise ToolFailure(f"call {name} itself", reason="invalid_arguments")
        return await ctx.call(name, arguments)


def _who(ctx: ToolContext) -> dict[str, Any]:
    name = None if ctx.profile is None else ctx.profile.name
    return {"principal": ctx.principal, "profile": name, "session": cast("Any", ctx.session)}


def _short(spec: ToolSpec, unavailable: str | None, score: float) -> dict[str, Any]:
    """What an agent needs to choose."""
    text = spec.description
    properties: Mapping[str, Any] = spec.input_schema.get("properties") or {}
    required = set[str](spec.input_schema.get("required") or ())
    made: dict[str, Any] = {
        "name": spec.wire_name,
        "description": text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…",
        "arguments": [name if name in required else f"{name}?" for name in properties],
        "score": score,
    }
    if spec.title:
        made["title"] = spec.title
    if unavailable is not None:
        made["unavailable"] = unavailable
    return made


def _tokens(spec: ToolSpec) -> int:
    """Roughly, what a model pays to be shown a tool."""
    import json

    schema = json.dumps(spec.input_schema, default=lambda value: dict(value))
    return (len(spec.name) + len(spec.description) + len(schema)) // _LETTERS + 1


_SEARCH = ToolSpec(
    name=SEARCH,
    title="Search tools",
    description="Find tools by words: what they do, what they work on, or a part of their names. "
    f"Gives the best ones first. See a tool's arguments with {DESCRIBE}, call it with {CALL}.",
    input_schema={
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": 1000,
                "description": "Words such as: send mail.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": _MOST_FOUND,
                "default": 10,
                "description": "The most tools to give.",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    effects=frozenset({"read"}),
    idempotent=True,
)
_DESCRIBE = ToolSpec(
    name=DESCRIBE,
    title="Describe a tool",
    description="All about one tool: what it does and the JSON Schema of its arguments.",
    input_schema={
        "type": "object",
        "properties": {"name": _NAME},
        "required": ["name"],
        "additionalProperties": False,
    },
    effects=frozenset({"read"}),
    idempotent=True,
)
_CALL = ToolSpec(
    name=CALL,
    title="Call a tool",
    description=f"Call a tool that {SEARCH} found, with the arguments that {DESCRIBE} tells of. "
    "The result is that tool's own.",
    input_schema={
        "type": "object",
        "properties": {
            "name": _NAME,
            "arguments": {
                "type": "object",
                "default": {},
                "description": "The tool's arguments.",
            },
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    timeout=_LONG,
)
_ABOUT_CODE = (
    "Run Python code that calls tools, and give the value of its last expression and what it "
    "printed. A subset of Python with parts of the standard library; no files, no network. Tools "
    f'are called so: await {CALL}(name="…", arguments={{…}}); await {SEARCH}(query="…") and '
    f'await {DESCRIBE}(name="…") find them. A call that fails raises.'
)
