"""Who may see which events, and in which form.

With the right `audit` a viewer sees every event as it stands on the trail. Others see what is their
own, in the form in which they may know it; with the right `approve` also what people are asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from toolcrib.core.events import EVENTS, Event
from toolcrib.core.units import did_you_mean
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault

if TYPE_CHECKING:
    from toolcrib.host.host import ToolHost
    from toolcrib.host.parts import Parts
    from toolcrib.pipeline.flight import Flight
    from toolcrib.pipeline.pipeline import Pipeline

Belongs = Literal["everybody", "principal", "call", "catalog", "audit"]
"""everybody: no secret, if it is about this host · principal: to the one that its data names ·
call: to the caller of its call, which its data does not name (what a tool logs may name anybody) ·
catalog: as everybody, without the names of tools · audit: only to those with that right."""

BELONGS: dict[str, Belongs] = {
    "host.started": "everybody",
    "host.stopped": "everybody",
    "config.loaded": "audit",
    "config.rejected": "audit",
    "catalog.changed": "catalog",
    "provider.up": "audit",
    "provider.down": "audit",
    "provider.drift": "audit",
    "provider.accepted": "audit",
    "provider.rejected": "audit",
    "session.opened": "principal",
    "session.closed": "principal",
    "call.received": "principal",
    "call.decided": "call",
    "call.denied": "principal",
    "call.started": "call",
    "call.progress": "call",
    "call.attempt": "call",
    "call.late": "call",
    "call.finished": "principal",
    "approval.requested": "principal",
    "approval.decided": "principal",
    "approval.used": "call",
    "grant.created": "principal",
    "grant.used": "principal",
    "grant.revoked": "principal",
    "tool.emitted": "call",
    "tool.log": "call",
}
"""Every event type; one that is not here belongs to `audit`."""

APPROVALS = frozenset(name for name in EVENTS if name.startswith("approval."))
"""What the right `approve` lets everybody's be seen of."""
_FAMILIES = sorted({f"{name.partition('.')[0]}.*" for name in EVENTS})
ENDINGS = frozenset({"call.denied", "call.finished"})
"""The last event of a call."""
MOST_CALLS = 20_000
"""Calls whose owners are remembered; those that run now are always known."""


class Look(msgspec.Struct, frozen=True):
    """One event, as viewers without the right `audit` are concerned with it."""

    owner: str | None
    """The principal whose it is; None when nobody's, or nobody knows."""
    everybody: bool
    shown: Event
    """The form in which they see it."""

    def form_for(self, event: Event, caller: Caller) -> Event | None:
        """The form of `event` that a caller may see; None when it may not."""
        if caller.may("audit"):
            return event
        if self.everybody or self.owner == caller.principal.name:
            return self.shown
        if event.type in APPROVALS and caller.may("approve"):
            return self.shown
        return None


class _Call(msgspec.Struct, frozen=True):
    principal: str
    tool: str
    conceals: bool
    """Whether its profile keeps secret which tools there are."""
    found_out: bool = False
    """Whether it was refused for that."""
    time: float | None = None
    """When it came. What is decided of an unknown tool is decided in that moment."""


class Sight:
    """Looks at events in their order, and so knows whose they are."""

    def __init__(self, host: ToolHost, parts: Parts, before: Sight | None = None) -> None:
        self._host = host
        self._pipeline = parts.pipeline
        self._run = f"{parts.trail.run}."
        self._before = before
        """Knows calls that began before the first event that is looked at here."""
        self._calls: dict[str, _Call] = {}
        self._sessions: dict[str, str] = {}

    def look(self, event: Event) -> Look:
        """Whose an event is, and how they see it. Every event has to be looked at once."""
        kind, data = event.type, event.data
        belongs = BELONGS.get(kind, "audit")
        if belongs in ("everybody", "catalog"):
            if event.id and not event.id.startswith(self._run):
                return Look(None, False, event)  # another process said it of itself
            return Look(None, True, event) if belongs == "everybody" else self._catalog(event)
        if belongs == "principal":
            owner = data.get("principal")
            if kind == "call.received":
                event = self._received(event)
            elif kind == "call.denied":
                event = self._denied(event)
            elif kind == "session.opened":
                _keep(self._sessions, str(data.get("session")), str(owner))
            return Look(owner if isinstance(owner, str) else None, False, event)
        if belongs == "call":
            call = self._call(event.call_id)
            if call is None:
                return Look(None, False, event)
            if kind == "call.decided" and call.conceals and _found_out(data):
                _keep(
                    self._calls, str(event.call_id), msgspec.structs.replace(call, found_out=True)
                )
                event = _at_once(_with(event, data | _unknown(call)), call)
            return Look(call.principal, False, event)
        return Look(None, False, event)

    def know(self, call_id: str, principal: str) -> None:
        """Whose a call is whose beginning is not going to be looked at."""
        _keep(self._calls, call_id, _Call(principal, "", False))

    def _call(self, call_id: str | None) -> _Call | None:
        if call_id is None:
            return None
        known = self._calls.get(call_id)
        if known is None and self._before is not None:
            known = self._before._call(call_id)
        if known is None and self._before is None:
            flight = in_flight(self._pipeline, call_id)
            if flight is not None:
                rules = flight.plan.profile
                conceals = rules is not None and rules.conceal
                known = _Call(flight.principal.name, flight.tool, conceals)
                _keep(self._calls, call_id, known)
        return known

    def _received(self, event: Event) -> Event:
        data = event.data
        profile = data.get("profile")
        rules = self._host.callers.profile(profile)
        # Of a profile that is gone nobody knows any more what it kept secret.
        conceals = profile is not None and (rules is None or rules.conceal)
        who, tool = str(data.get("principal")), str(data.get("tool"))
        call = _Call(who, tool, conceals, time=event.time)
        _keep(self._calls, str(event.call_id), call)
        if not conceals:
            return event
        # A call of a tool that does not exist has none of these, so no other call shows them.
        bare = {"profile": None, "arguments": None, "arguments_size": 0, "arguments_hash": None}
        return _with(event, data | bare)

    def _denied(self, event: Event) -> Event:
        """A refusal that would tell of a tool which the profile conceals becomes the ending of a
        call of an unknown one."""
        call = self._call(event.call_id)
        if call is None or not call.found_out:
            return event
        words = _unknown(call)
        kept = {name: event.data.get(name) for name in ("tool", "principal", "session")}
        data: dict[str, Any] = {
            **kept,
            "status": "error",
            "reason": words["reason"],
            "message": words["message"],
            "output": None,
            "output_size": 0,
            "output_hash": None,
            "attempts": 0,
            "still_running": False,
            "timings": {"wait": 0.0, "queue": 0.0, "run": 0.0, "total": 0.0},
        }
        return _at_once(msgspec.structs.replace(event, type="call.finished", data=data), call)

    def _catalog(self, event: Event) -> Look:
        change = event.data.get("change")
        if change != "session":
            return Look(None, True, _with(event, {"change": change}))
        name = str(event.data.get("session"))
        session = self._host.callers.sessions.get(name)
        owner = self._sessions.get(name) if session is None else session.principal.name
        return Look(owner, False, event)


def in_flight(pipeline: Pipeline, call_id: str) -> Flight | None:
    """The call of that id that runs or waits here now."""
    flights = (f for wheel in list(pipeline.wheels.values()) for f in list(wheel.running))
    return next((flight for flight in flights if flight.call_id == call_id), None)


def _keep(kept: dict[str, Any], key: str, value: Any) -> None:
    kept[key] = value
    if len(kept) > MOST_CALLS:
        del kept[next(iter(kept))]


def _with(event: Event, data: dict[str, Any]) -> Event:
    return msgspec.structs.replace(event, data=data)


def _at_once(event: Event, call: _Call) -> Event:
    return event if call.time is None else msgspec.structs.replace(event, time=call.time)


def _found_out(decided: dict[str, Any]) -> bool:
    return decided.get("verdict") == "deny" and decided.get("gate") == "find"


def _unknown(call: _Call) -> dict[str, Any]:
    """What is decided of a tool that does not exist."""
    message = f"{call.tool}: no such tool"
    return {"rule": None, "source": None, "reason": "unknown_tool", "message": message}


def chosen_types(wanted: Iterable[str] | None) -> frozenset[str] | None:
    """The event types that names and patterns such as `call.*` stand for; None for all. Raises
    `Fault` for one that stands for none."""
    if wanted is None:
        return None
    chosen: set[str] = set()
    for name in dict.fromkeys(wanted):
        if name.endswith("*"):
            found = {known for known in EVENTS if known.startswith(name[:-1])}
        else:
            found = {name} & EVENTS.keys()
        if not found:
            close = did_you_mean(name, [*EVENTS, *_FAMILIES])
            words = f". Did you mean {close}?" if close else ""
            raise Fault("invalid_request", f"types: there are no events {name[:100]!r}{words}")
        chosen |= found
    return frozenset(chosen)
