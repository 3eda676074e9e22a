"""What a caller may have of the servers behind the host: decided by the tools that stand for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from toolcrib.core.principal import Principal
from toolcrib.host.host import ToolHost
from toolcrib.host.session import Session
from toolcrib.pipeline.plan import Plan
from toolcrib.protocol.mcp.definitions import KIND
from toolcrib.transports.caller import Caller
from toolcrib.transports.mcp.asked import Endpoint
from toolcrib.transports.mcp.standing import today
from toolcrib.transports.mcp.upstreams import Upstream

What = Literal["prompts", "resources"]
RELAYED: Mapping[What, str] = {"prompts": "prompts/get", "resources": "resources/read"}
"""What the tools that stand for them ask of their servers."""
MOST_LOOKED_AT = 200


class Offers(msgspec.Struct, frozen=True):
    """Who asks, what it is held to, and by that what it may have."""

    host: ToolHost
    who: Principal
    profile: str | None
    session: Session | None

    def plan(self, upstream: Upstream, what: What) -> Plan | None:
        """The plan of the tool that stands for what a server has; None when there is none."""
        name = upstream.tools.get(what)
        plan = None if name is None else self.host.calling.plan(name, self.profile, self.session)
        # Its config says what it is: a server decides over names of its tools, but not over that.
        if plan is None or plan.spec.kind != KIND:
            return None
        return plan if plan.spec.config.get("relay") == RELAYED[what] else None

    def sees(self, upstream: Upstream, what: What) -> Plan | None:
        """The same, if the caller may call that tool, or could if it were not down."""
        plan = self.plan(upstream, what)
        return plan if plan is not None and plan.listed(self.who) else None

    def knows(self, provider: str) -> bool:
        """Whether the caller sees any tool of the provider's, among the first ones."""
        looked = 0
        for name, entry in self.host.catalog.snapshot().items():
            if entry.spec.kind != KIND or entry.spec.category != provider:
                continue
            plan = self.host.calling.plan(name, self.profile, self.session)
            if plan is not None and plan.listed(self.who):
                return True
            looked += 1
            if looked >= MOST_LOOKED_AT:
                break
        return False

    def may(self, plan: Plan, arguments: Mapping[str, Any]) -> bool:
        """Whether rules and policies leave a way to such a call. A limit that is reached is for
        another moment; of a provider that is down nothing is told that depends on arguments."""
        if not plan.listed(self.who):
            return False
        if all(check.constant is not None for check in plan.checks):
            return True  # it depends on the tool alone, and that was looked at
        said = self.host.explain(
            plan.name,
            arguments,
            principal=self.who,
            profile=self.profile,
            session=self.session,
        )
        return not any(step.verdict == "deny" and step.gate != "limit" for step in said.steps)


def offers_for(host: ToolHost, caller: Caller, endpoint: Endpoint) -> Offers:
    """What the caller may have at that path. Raises `McpFault`."""
    found = today(host, caller, endpoint)
    return Offers(host, found.who, found.profile, found.session)
