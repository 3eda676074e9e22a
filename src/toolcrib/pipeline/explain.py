"""Why a call would be allowed, asked about or refused: the real gates, and nothing runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.core.decision import RANK, Decision, Explanation, Step, Verdict
from toolcrib.core.principal import Principal
from toolcrib.pipeline.flight import Flight
from toolcrib.pipeline.gates import ask_check
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
    steps: list[Step] = []
    best: Decision | None = None
    if refusal is not None and all(check.constant is not refusal for check in plan.checks):
        steps.append(_step("find", refusal))
        best = refusal
    fits = True
    if best is None:
        try:
            prepare(plan, flight, arguments, limit)
            steps.append(Step(gate="arguments", verdict="abstain", message="fit the schema"))
        except Invalid as invalid:
            fits = False
            problems = "; ".join(f"{p.path} {p.message}".strip() for p in invalid.problems)
            best = Decision.deny("invalid_arguments", problems)
            steps.append(_step("arguments", best))
    if fits:
        for check in plan.checks:
            said = check.constant if check.constant is not None else ask_check(check, flight)
            steps.append(_step(check.name, said))
            if best is None or RANK[said.verdict] > RANK[best.verdict]:
                best = said
        fingerprint = flight.fingerprint() if plan.repeats else None
        for meter in plan.meters(who, session.id if session is not None else None):
            over = meter.peek(fingerprint)
            said = over.decision if over is not None else Decision.allow(
                meter.describe(), rule=f"limit per {meter.limit.per}", source=meter.limit.source
            )  # fmt: skip
            steps.append(_step("limit", said))
            if best is None or RANK[said.verdict] > RANK[best.verdict]:
                best = said
    final = best or Decision.deny("not_in_profile")
    verdict: Verdict = "deny" if final.verdict == "abstain" else final.verdict
    return Explanation(
        tool=plan.name,
        principal=who.name,
        profile=plan.profile_name,
        verdict=verdict,
        reason=final.reason,
        message=final.message,
        steps=tuple(steps),
        arguments=hider.value(flight.arguments),
    )


def _step(gate: str, said: Decision) -> Step:
    return Step(
        gate=gate,
        verdict=said.verdict,
        reason=said.reason,
        message=said.message,
        rule=said.rule,
        source=said.source,
    )
