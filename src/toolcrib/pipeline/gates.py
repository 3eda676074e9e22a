"""The gates a call passes, compiled for one tool under one profile.

Each gate is a `Check`: either a constant, when the answer does not depend on the call, or a
function of the context. `explain` and the real call walk the same checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.core.context import ToolContext
from toolcrib.core.decision import ABSTAIN, ALLOW, RANK, Decision
from toolcrib.core.policy import ToolPolicy
from toolcrib.core.principal import Principal
from toolcrib.core.profile import Match, Profile, Rule, When
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import Denial, ToolFailure
from toolcrib.pipeline.constraints import compile_constraint, describe, reason_of
from toolcrib.pipeline.patterns import any_glob
from toolcrib.reasons import is_reason

if TYPE_CHECKING:
    from toolcrib.core.protocols import Gate
    from toolcrib.pipeline.plan import Plan


class Check(msgspec.Struct, frozen=True):
    """One gate, compiled."""

    name: str
    constant: Decision | None
    test: Callable[[ToolContext], Decision]
    of_caller: bool = False
    """Whether it is one of our own that may look at the caller alone; names can be anybody's."""


def constant(name: str, decision: Decision) -> Check:
    """A gate whose answer does not depend on the call."""

    def test(ctx: ToolContext) -> Decision:
        return decision

    return Check(name, decision, test)


def matches(match: Match, spec: ToolSpec, verdict: str) -> bool:
    """Whether a rule of this verdict speaks of the tool."""
    if match.names and not any_glob(match.names)(spec.name):
        return False
    if match.effects:
        if verdict == "allow":
            if spec.effects is None or not spec.effects <= match.effects:
                return False
        elif spec.effects is not None and not spec.effects & match.effects:
            return False
    if match.tags and not match.tags & spec.tags:
        return False
    if match.categories and spec.category not in match.categories:
        return False
    return not match.kinds or spec.kind in match.kinds


def who_matches(when: When, who: Principal) -> bool:
    """Whether the condition's part about the caller holds."""
    return (
        (not when.roles or not when.roles.isdisjoint(who.roles))
        and when.permissions <= who.permissions
        and (not when.principals or who.name in when.principals)
    )


class _Compiled(msgspec.Struct, frozen=True):
    rule: Rule
    decision: Decision
    tests: tuple[Callable[[ToolContext], bool], ...]


def profile_check(profile: Profile, spec: ToolSpec) -> Check:
    """What the profile's rules say of this tool. Deny beats ask beats allow."""
    rules = [_compile(rule) for rule in profile.rules if matches(rule.match, spec, rule.verdict)]
    if not any(compiled.rule.when for compiled in rules):
        return constant("profile", _settle(profile, [c.decision for c in rules]))

    def test(ctx: ToolContext) -> Decision:
        said: list[Decision] = []
        missed: Decision | None = None
        for compiled in rules:
            rule = compiled.rule
            when = rule.when
            if when is None:
                said.append(compiled.decision)
            elif not who_matches(when, ctx.principal):
                if rule.verdict == "allow":
                    missed = missed or _missed_role(rule, when)
            elif (failed := _first_failed(compiled.tests, ctx)) is not None:
                if rule.verdict == "allow":
                    missed = _missed_argument(rule, when, failed)
            else:
                said.append(compiled.decision)
        return _settle(profile, said, missed)

    return Check("profile", None, test, of_caller=True)


def may_reach(profile: Profile, spec: ToolSpec, who: Principal) -> bool:
    """Whether some arguments could get past the profile's rules: the tool is then listed."""
    verdicts = [profile.default]
    for rule in profile.rules:
        if not matches(rule.match, spec, rule.verdict):
            continue
        when = rule.when
        if when is not None and not who_matches(when, who):
            continue
        if rule.verdict == "deny":
            if when is None or not when.arguments:
                return False
        else:
            verdicts.append(rule.verdict)
    return any(verdict != "deny" for verdict in verdicts)


def _compile(rule: Rule) -> _Compiled:
    every = rule.verdict == "allow"
    arguments = rule.when.arguments if rule.when else ()
    decision = Decision(
        rule.verdict,
        (rule.reason or "denied_by_rule") if rule.verdict == "deny" else None,
        rule.message,
        rule.text or None,
        rule.source,
    )
    return _Compiled(rule, decision, tuple(compile_constraint(c, every=every) for c in arguments))


def _first_failed(tests: tuple[Callable[[ToolContext], bool], ...], ctx: ToolContext) -> int | None:
    return next((index for index, test in enumerate(tests) if not test(ctx)), None)


def _missed_role(rule: Rule, when: When) -> Decision:
    wanted = ", ".join(sorted(when.roles or when.permissions or when.principals))
    message = rule.message or f"only for {wanted}"
    return Decision.deny("role_required", message, rule=rule.text, source=rule.source)


def _missed_argument(rule: Rule, when: When, index: int) -> Decision:
    failed = when.arguments[index]
    return Decision.deny(
        rule.reason or reason_of(failed),
        rule.message or describe(failed),
        rule=rule.text,
        source=failed.source or rule.source,
    )


def _settle(profile: Profile, said: list[Decision], missed: Decision | None = None) -> Decision:
    """The strongest of what the rules said; with nothing said, the profile's default."""
    if said:
        return max(said, key=lambda decision: RANK[decision.verdict])
    if profile.default == "deny":
        return missed or Decision.deny(
            "not_in_profile",
            f"no rule of profile {profile.name} allows it",
            rule="default: deny",
            source=profile.source,
        )
    rule = f"default: {profile.default}"
    return Decision(profile.default, None, None, rule, profile.source)


def role_check(spec: ToolSpec) -> Check:
    """The permissions that the spec asks of a principal."""
    wanted = spec.permissions
    if not wanted:
        return constant("role", ABSTAIN)

    def test(ctx: ToolContext) -> Decision:
        if wanted <= ctx.principal.permissions:
            return ALLOW
        missing = ", ".join(sorted(wanted - ctx.principal.permissions))
        message = f"{ctx.principal.name} lacks {missing}"
        return Decision.deny("role_required", message, rule=f"permissions of {spec.name}")

    return Check("role", None, test, of_caller=True)


def tool_check(spec: ToolSpec) -> Check | None:
    """A spec that requires approval is asked about whatever the profile allows."""
    if not spec.requires_approval:
        return None
    message = "the tool requires approval"
    return constant("tool", Decision.ask(message, rule="requires_approval", source=spec.source))


def policy_check(policy: ToolPolicy | None, spec: ToolSpec, source: str | None) -> Check:
    """The tool's own typed limits."""
    if policy is None or type(policy).check is ToolPolicy.check:
        return constant("policy", ABSTAIN)
    rule = f"policy of {spec.name}"

    def test(ctx: ToolContext) -> Decision:
        try:
            said = policy.check(ctx)
        except Denial as denial:
            said = Decision.deny(denial.reason, denial.message, details=denial.details or None)
        if said is None:
            return ABSTAIN
        if type(said) is Decision and said.rule is None and said.verdict in ("deny", "ask"):
            return Decision(
                said.verdict, said.reason, said.message, rule, said.source or source, said.details
            )
        return said

    return Check("policy", None, test)


def executor_check(execute: Any, spec: ToolSpec) -> Check | None:
    """What the tool's executor would refuse by the arguments alone: refused before people are
    asked and before anything starts, and shown by `explain`."""
    check: Any = getattr(execute, "check", None)
    if check is None:
        return None
    rule = f"arguments of {spec.kind} tools"

    def test(ctx: ToolContext) -> Decision:
        try:
            check(ctx)
        except Denial as denial:
            details = denial.details or None
            return Decision.deny(denial.reason, denial.message, rule=rule, details=details)
        except ToolFailure:
            return ABSTAIN  # no refusal: the call itself says it
        return ABSTAIN

    return Check("executor", None, test)


def gate_check(gate: Gate) -> Check:
    """A gate that the embedder brought."""
    return Check(gate.name, None, gate.check)


def fault(name: str, problem: str) -> Decision:
    """A guard that did not answer as guards must: the call is refused."""
    return Decision.deny("guard_failed", f"the gate {name} failed, so the call was refused",
                         rule=name, details={"problem": problem})  # fmt: skip


def misunderstood(name: str, said: object) -> Decision:
    """A guard whose answer is none."""
    close = getattr(said, "close", None)
    if callable(close):
        close()  # a coroutine that nobody awaits would warn
    return fault(name, f"answered {type(said).__name__}")


def ask_check(check: Check, ctx: ToolContext) -> Decision:
    """One gate's answer; whatever is not a proper answer refuses the call."""
    try:
        said = check.test(ctx)
    except Exception as error:
        return fault(check.name, type(error).__name__)
    return said if said is ABSTAIN else proper(check, said)


def proper(check: Check, said: Any) -> Decision:
    """A gate's answer, if it is one."""
    if type(said) is not Decision or said.verdict not in RANK:
        return misunderstood(check.name, said)
    if said.verdict == "deny" and not is_reason(said.reason):
        return fault(check.name, f"denied with the reason {said.reason!r}")
    return said


def decide(plan: Plan, flight: ToolContext) -> Decision:
    """All gates' answers put together: deny beats ask beats allow."""
    said = (check.constant or ask_check(check, flight) for check in plan.checks)
    return max(said, key=lambda decision: RANK[decision.verdict])
