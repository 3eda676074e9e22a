"""Why a call would be allowed, asked about or refused: the real gates, and nothing runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from toolcrib.core.decision import RANK, Decision, Explanation, Step, Verdict
from toolcrib.core.principal import Principal
from toolcrib.pipeline.flight import Flight
from toolcrib.pipeline.gates import ask_check
from toolcrib.pipeline.limits import Meter
from toolcrib.pipeline.parts import Hider
from toolcrib.pipeline.plan import Plan
from toolcrib.pipeline.validate import Invalid, prepare


def explain(
    plan: Plan,
    who: Principal,
    session: Any,
    arguments: Mapping[str, Any] | None,
    hider: Hider,
    limit: int,
) -> Explanation:
    """find → pin → validate → decide, and stop. No event, no token, nothing run."""
    flight = Flight(
        tool=plan.name,
        principal=who,
        spec=plan.spec,
        policy=plan.policy,
        profile=plan.profile,
    )
    flight.session = session
    flight.plan = plan
    refusal = plan.refused(who)
    if refusal is not None:
        # The real call ends here, before its arguments are looked at.
        said = [(c.name, c.constant) for c in plan.checks if c.constant is not None]
        if all(constant is not refusal for _, constant in said):
            said.insert(0, ("find", refusal))
        best, steps = refusal, [_step(name, constant) for name, constant in said]
    else:
        best, steps = _decide(plan, flight, arguments, limit)
    if hider.has_secrets:
        steps = [_shown(step, hider) for step in steps]
    final = best or Decision.deny("not_in_profile")
    verdict: Verdict = "deny" if final.verdict == "abstain" else final.verdict
    return Explanation(
        tool=plan.name,
        principal=who.name,
        profile=plan.profile_name,
        verdict=verdict,
        reason=final.reason,
        message=None if final.message is None else hider.text(final.message),
        steps=tuple(steps),
        arguments=hider.value(flight.arguments),
    )


def _decide(
    plan: Plan, flight: Flight, arguments: Mapping[str, Any] | None, limit: int
) -> tuple[Decision | None, list[Step]]:
    """validate → decide → what the limits would say."""
    try:
        prepare(plan, flight, arguments, limit)
    except Invalid as invalid:
        problems = "; ".join(f"{p.path} {p.message}".strip() for p in invalid.problems)
        wrong = Decision.deny("invalid_arguments", problems)
        return wrong, [_step("arguments", wrong)]
    steps = [Step(gate="arguments", verdict="abstain", message="fit the schema")]
    answers: list[tuple[str, Decision]] = [
        (check.name, check.constant or ask_check(check, flight)) for check in plan.checks
    ]
    fingerprint = flight.fingerprint() if plan.repeats else None
    session = flight.session
    for meter in plan.meters(flight.principal, None if session is None else session.id):
        over = meter.peek(fingerprint)
        answers.append(("limit", over.decision if over is not None else _within(meter)))
    steps += [_step(name, said) for name, said in answers]
    return max((said for _, said in answers), key=lambda said: RANK[said.verdict]), steps


def _within(meter: Meter) -> Decision:
    limit = meter.limit
    return Decision.allow(meter.describe(), rule=f"limit per {limit.per}", source=limit.source)


def _step(gate: str, said: Decision) -> Step:
    return Step(
        gate=gate,
        verdict=said.verdict,
        reason=said.reason,
        message=said.message,
        rule=said.rule,
        source=said.source,
    )


def _shown(step: Step, hider: Hider) -> Step:
    """The step without secrets that its words may quote."""
    message = None if step.message is None else hider.text(step.message)
    rule = None if step.rule is None else hider.text(step.rule)
    return msgspec.structs.replace(step, message=message, rule=rule)
