"""Having a person decide: grants first, then the inbox, then everything is checked again."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import monotonic
from typing import Any

from toolcrib.core.approval import ApprovalRequest, binding_key, offered_reaches
from toolcrib.core.canonical import canonical, digest_bytes
from toolcrib.core.clock import Clock
from toolcrib.core.decision import Decision
from toolcrib.core.profile import ApprovalRules
from toolcrib.core.result import ToolResult
from toolcrib.errors import StoreError, ToolcribError
from toolcrib.pipeline.endings import denied, failed
from toolcrib.pipeline.flight import Flight
from toolcrib.pipeline.parts import Asker, Hider
from toolcrib.pipeline.validate import apart

MOST_ROUNDS = 1000
"""How often a call asks again because identical calls used the answers before it."""

Recheck = Callable[[Flight, dict[str, Any]], Decision | ToolResult]


class Asking:
    """Turns the verdict `ask` into a go or an ending."""

    def __init__(self, asker: Asker, hider: Hider, clock: Clock) -> None:
        self._asker = asker
        self._hider = hider
        self._clock = clock

    async def settle(
        self, flight: Flight, decision: Decision, gate: str, recheck: Recheck
    ) -> ToolResult | None:
        """None when the call may run; otherwise how it ended. Any failure here is a no."""
        began = monotonic()
        try:
            return await self._settle(flight, decision, gate, recheck)
        except StoreError as error:
            return failed(flight, "audit_unavailable", f"the approval cannot be kept: {error}")
        except ToolcribError as error:
            reason = str(getattr(error, "reason", "guard_failed"))
            return failed(flight, reason, str(error))
        except Exception as error:
            details = {"gate": "approval", "problem": type(error).__name__}
            return failed(flight, "guard_failed", "asking for approval failed", details)
        finally:
            flight.wait_s += monotonic() - began

    async def _settle(
        self, flight: Flight, decision: Decision, gate: str, recheck: Recheck
    ) -> ToolResult | None:
        plan = flight.plan
        session = _lasting(flight.session)
        rules = plan.approval
        for _ in range(MOST_ROUNDS):
            grant = await self._asker.find_grant(
                tool=plan.name,
                digest=plan.spec.digest,
                principal=flight.principal.name,
                session=session,
                revision=plan.revision,
                call_id=flight.call_id,
            )
            if grant is not None:
                return None
            if not rules.via:
                text = "approval is needed and the profile lets nobody give it"
                return _no(flight, "no_approver", text, decision, gate)
            request = self._request(flight, decision, gate, rules, session)
            final = await self._asker.ask(
                request, max_pending=rules.max_pending, noticed=flight.waits_for
            )
            if final.state == "denied":
                return _rejected(flight, final, decision, gate)
            if final.state == "expired":
                text = "nobody answered in time"
                return _no(flight, "approval_expired", text, decision, gate)
            if final.key != request.key:
                raise ToolcribError("the answer belongs to another call")
            if final.state == "allowed" and await self._asker.redeem(final, flight.call_id):
                break
            # An identical call used this one answer: ask again for this call.
        else:
            raise ToolcribError("the answer cannot be redeemed")
        if final.note or final.edited is not None:
            flight.noted = {"approval": {"by": final.by, "note": final.note}}
            flight.odd = True
        arguments = flight.arguments
        if final.edited is not None:
            arguments = _restored(final.edited, request.arguments, flight.arguments)
            noted = flight.noted or {}
            noted["arguments_edited"] = True
            noted["arguments"] = self._hider.value(arguments)
        said = recheck(flight, arguments)
        if isinstance(said, ToolResult):
            return said
        if said.verdict == "deny":
            return denied(flight, said, "recheck")
        return None

    def _request(
        self,
        flight: Flight,
        decision: Decision,
        gate: str,
        rules: ApprovalRules,
        session: str | None,
    ) -> ApprovalRequest:
        plan = flight.plan
        passing: bool = getattr(flight.session, "passing", False)
        now = self._clock.time()
        effects = plan.spec.effects
        return ApprovalRequest(
            id=f"a{os.urandom(6).hex()}",
            call_id=flight.call_id,
            key=binding_key(
                digest=plan.spec.digest,
                arguments_hash=digest_bytes(canonical(flight.arguments)),
                principal=flight.principal.name,
                session=None if passing else session,
                door=flight.door,
                revision=plan.revision,
            ),
            tool=plan.name,
            digest=plan.spec.digest,
            arguments=apart(self._hider.value(flight.arguments)),
            effects=None if effects is None else tuple(sorted(effects)),
            principal=flight.principal.name,
            session=session,
            profile=plan.profile_name,
            door=flight.door,
            revision=plan.revision,
            gate=gate,
            message=decision.message and self._hider.text(decision.message),
            rule=decision.rule,
            source=decision.source,
            offered=offered_reaches(rules, effects, session),
            via=rules.via,
            edit=rules.edit,
            created=now,
            expires=now + rules.timeout,
        )


def _lasting(session: Any) -> str | None:
    """The id of a session that lives longer than the call."""
    return None if session is None or getattr(session, "ephemeral", False) else session.id


def _no(flight: Flight, reason: str, text: str, decision: Decision, gate: str) -> ToolResult:
    said = Decision.deny(reason, text, rule=decision.rule, source=decision.source)
    return denied(flight, said, gate)


def _rejected(flight: Flight, final: ApprovalRequest, decision: Decision, gate: str) -> ToolResult:
    text = f"{final.by or 'a person'} said no"
    if final.note:
        text += f": {final.note}"
    details = {"by": final.by, "note": final.note, "request": final.id}
    said = Decision.deny(
        "approval_rejected", text, rule=decision.rule, source=decision.source, details=details
    )
    return denied(flight, said, gate)


def _restored(edited: Any, shown: Any, real: Any) -> Any:
    """The edited arguments with what was hidden from the approver put back where it was left as
    it was shown."""
    if edited == shown:
        return real
    if all(isinstance(part, dict) for part in (edited, shown, real)):
        return {k: _restored(v, shown.get(k), real.get(k)) for k, v in edited.items()}
    return edited
