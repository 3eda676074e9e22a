"""Every tool, and what a caller may do with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib.core.decision import RANK
from toolcrib.core.policy import ToolPolicy
from toolcrib.host.reports.schemas import sample_arguments
from toolcrib.pipeline.gates import matches, who_matches

if TYPE_CHECKING:
    from toolcrib.core.decision import Explanation
    from toolcrib.core.principal import Principal
    from toolcrib.core.profile import Profile, Rule
    from toolcrib.host.host import ToolHost
    from toolcrib.host.session import Session
    from toolcrib.pipeline.plan import Plan


class Overview(NamedTuple):
    """The table, and what cannot be in it."""

    rows: list[dict[str, Any]]
    missing: list[str]
    """Of each provider whose tools nobody knows, why."""


class _Why(NamedTuple):
    message: str | None
    source: str | None


def overview(
    host: ToolHost,
    who: Principal | str | None,
    profile: str | None,
    session: Session | None,
    *,
    every: bool = True,
) -> Overview:
    """Every tool with the verdict that holds whatever the arguments; `depends` where none does.
    Without `every`, only those that the caller may know of."""
    listed = {tool.name for tool in host.tools(profile=profile, principal=who, session=session)}
    caller = host.callers.principal(who)
    rows: list[dict[str, Any]] = []
    for name in sorted(host.catalog.snapshot()):
        if not every and name not in listed:
            continue
        spec = host.get(name)
        arguments = sample_arguments(spec.input_schema) if spec is not None else {}
        said = host.explain(name, arguments, principal=who, profile=profile, session=session)
        plan = host.calling.plan(name, said.profile, session) if name in listed else None
        rows.append(_row(host, said, plan, caller))
    return Overview(rows, host.calling.unlisted() if every else [])


def _row(host: ToolHost, said: Explanation, plan: Plan | None, caller: Principal) -> dict[str, Any]:
    step = next((s for s in said.steps if s.verdict == said.verdict), None)
    words = said.message or (step.rule if step is not None else None)
    verdict, why = str(said.verdict), _Why(words, step.source if step is not None else None)
    reason = said.reason
    if plan is not None and plan.outage is not None:
        verdict = "unavailable"
    elif plan is not None and (found := _depends(host, said, plan, caller)) is not None:
        verdict, reason, why = "depends", None, found
    return {
        "tool": said.tool,
        "verdict": verdict,
        "reason": reason,
        "message": why.message,
        "source": why.source,
    }


def _depends(host: ToolHost, said: Explanation, plan: Plan, caller: Principal) -> _Why | None:
    """Who looks at the arguments of a tool that can be called with some."""
    told = {step.gate: step.source for step in said.steps if step.source is not None}
    policy, profile = plan.policy, plan.profile
    if policy is not None and type(policy).check is not ToolPolicy.check:
        source = told.get("policy") or _policy_source(host, plan)
        return _Why("policy looks at the arguments", source)
    if profile is not None and (rule := _looking(profile, plan, caller)) is not None:
        return _Why("profile looks at the arguments", rule.source)
    if said.verdict != "deny":
        return None
    # It is listed, so it can be called with some arguments: the no was about these ones.
    step = next(s for s in said.steps if s.verdict == "deny")
    if step.reason == "invalid_arguments":
        return _Why("the arguments decide", plan.spec.source)
    return _Why(f"{step.gate} looks at the arguments", step.source)


def _looking(profile: Profile, plan: Plan, caller: Principal) -> Rule | None:
    """A rule that looks at the arguments, and is not outdone by one that does not."""
    sure: list[str] = []
    looking: list[Rule] = []
    for rule in profile.rules:
        when = rule.when
        if not matches(rule.match, plan.spec, rule.verdict):
            continue
        if when is None or (not when.arguments and who_matches(when, caller)):
            sure.append(rule.verdict)
        elif when.arguments and who_matches(when, caller):
            looking.append(rule)
    if not sure:
        return next((rule for rule in looking if rule.verdict != profile.default), None)
    strongest = max(RANK[verdict] for verdict in sure)
    return next((rule for rule in looking if RANK[rule.verdict] > strongest), None)


def _policy_source(host: ToolHost, plan: Plan) -> str | None:
    profile = plan.profile
    if profile is None or plan.name not in profile.policies:
        return plan.spec.source
    return host.config.lines.get(f"profiles.{profile.name}.policies.{plan.name}") or profile.source
