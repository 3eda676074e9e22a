"""A plan: everything about one tool under one profile that can be known before a call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.core.canonical import digest
from toolcrib.core.context import ToolContext
from toolcrib.core.decision import Decision
from toolcrib.core.entry import Entry, Execute
from toolcrib.core.policy import NoPolicy, ToolPolicy
from toolcrib.core.principal import Principal
from toolcrib.core.profile import ApprovalRules, Limit, Profile
from toolcrib.core.schema import Validator, compile_schema
from toolcrib.core.settings import HostSettings
from toolcrib.core.spec import ToolSpec
from toolcrib.pipeline.extensions import wrap
from toolcrib.pipeline.gates import (
    Check,
    ask_check,
    constant,
    executor_check,
    fault,
    gate_check,
    matches,
    may_reach,
    misunderstood,
    policy_check,
    profile_check,
    role_check,
    tool_check,
)
from toolcrib.pipeline.limits import Limits, Meter, applies, meter_key
from toolcrib.pipeline.parts import Counter, Hider
from toolcrib.pipeline.quick import NUMBERS, only, plain_outputs
from toolcrib.pipeline.seat import Seat, settle

if TYPE_CHECKING:
    from toolcrib.core.protocols import Extension, Gate


NAMED_ONLY = "landlock"
"""The sandbox type that is used only where a profile names it: it leaves more in reach."""

_UNLISTED = frozenset({"tool_disabled", "definition_changed"})
"""Outages that hide a tool: what was switched off, and what nobody has agreed to."""

SHORT = 0.2
"""Calls with fewer seconds than this get a timer of their own."""

NO_PROFILE = Decision.allow("no profile is in force", rule="no profiles")


class Plan:
    """One tool under one profile, compiled. A call walks it."""

    __slots__ = (
        "_limits",
        "_metered",
        "_output",
        "_revision",
        "_seats",
        "_validator",
        "approval",
        "checks",
        "checks_output",
        "clean",
        "common",
        "convert",
        "counter",
        "defaults",
        "entry",
        "execute",
        "fits",
        "flat",
        "flight",
        "floats",
        "gates",
        "is_valid",
        "max_depth",
        "name",
        "outage",
        "plain_outputs",
        "policy",
        "profile",
        "profile_name",
        "refusal",
        "repeats",
        "seat",
        "seconds",
        "spec",
        "sync",
        "timeout",
    )

    def __init__(
        self,
        entry: Entry,
        profile: Profile | None,
        *,
        gates: Sequence[Gate],
        extensions: Sequence[Extension],
        settings: HostSettings,
        hider: Hider,
        counter: Counter,
        limits: Limits,
        missing: Sequence[str] = (),
        policy_source: str | None = None,
    ) -> None:
        self.entry = entry
        self.profile = profile
        self.profile_name = profile.name if profile else None
        self.policy = _policy(entry, profile)
        self.spec = spec = held_spec(entry.spec, self.policy)
        self.name = spec.name
        self.gates = tuple(gates)
        self.checks = _checks(self, gates, policy_source)
        self.refusal = _refusal(entry, profile, self.policy, settle(self.checks)[0])
        self.outage = _outage(entry, missing)
        """Why the tool cannot run now; it stays listed all the same."""
        self._validator: Validator | None = None
        self.is_valid: Callable[[Any], bool] = self._first_check
        self._output: Validator | None = None
        self.fits: Callable[[Any], bool] = self._first_output
        self.checks_output = spec.output_schema is not None
        self.plain_outputs = plain_outputs(spec.output_schema)
        """Python types that surely fit the output schema, and hold nothing to hide or to cut."""
        self.defaults = entry.defaults or None
        self.convert = entry.convert
        self.execute: Execute = wrap(entry.execute, extensions)
        self.timeout = spec.timeout if spec.timeout is not None else settings.timeout
        self.sync = settings.audit_sync == "always" or (
            settings.audit_sync == "effects" and not spec.read_only
        )
        self.flat = only(spec.input_schema, ("string", *NUMBERS))
        """Whether arguments that fit the schema hold nothing that holds something else."""
        self.clean = only(spec.input_schema, NUMBERS) and hider.clean_keys(
            spec.input_schema.get("properties", {})
        )
        """Whether they can hold nothing to hide: no text, and no key of a telling name."""
        self.floats = not self.clean or "number" in repr(spec.input_schema)
        """Whether a NaN could be among the arguments."""
        self.seconds = self.timeout or 0.0
        self.common = not self.sync and spec.retry is None and self.seconds >= SHORT
        """Whether most calls need nothing but to be checked, run once and written down."""
        self.counter = counter
        self.approval = profile.approval if profile else ApprovalRules()
        self.max_depth = profile.max_depth if profile else 8
        self._revision: str | None = None
        self.seat = Seat(None, None, "")
        self.flight: Any = None
        """The class of its calls' contexts; the pipeline makes it."""
        self._seats: dict[tuple[int, int, str], Seat] = {}
        self._limits = limits
        self._metered = _metered(spec.name, profile, entry)
        self.repeats = any(limit.repeat for _, limit in self._metered)

    @property
    def validator(self) -> Validator:
        """Compiled with the first call: most tools of a large catalog are never called."""
        if self._validator is None:
            self._validator = compile_schema(self.spec.input_schema)
        return self._validator

    def _first_check(self, arguments: Any) -> bool:
        self.is_valid = self.validator.is_valid
        return self.is_valid(arguments)

    def _first_output(self, output: Any) -> bool:
        self.fits = self.output.is_valid
        return self.fits(output)

    @property
    def output(self) -> Validator:
        """Checks what the tool returns."""
        if self._output is None:
            self._output = compile_schema(self.spec.output_schema or {})
        return self._output

    @property
    def revision(self) -> str:
        """A hash over the rules and limits in force; approvals are bound to it."""
        if self._revision is None:
            knobs = self.policy.to_dict() if self.policy else {}
            self._revision = digest([self.profile.revision if self.profile else "", knobs])[:16]
        return self._revision

    def hidden(self, who: Principal) -> Decision | None:
        """Whether a gate of the embedder's hides the tool from this caller, now."""
        for gate in self.gates:
            try:
                seen: Any = gate.visible(self.spec, who, self.profile)
            except Exception as error:
                return fault(gate.name, type(error).__name__)
            if seen is False:
                text = f"hidden by gate {gate.name}"
                return Decision.deny("not_in_profile", text, rule=gate.name)
            if seen is not True:
                return misunderstood(gate.name, seen)
        return None

    def refused(self, who: Principal) -> Decision | None:
        """What keeps this caller from the tool whatever the arguments; None when nothing does.
        Listing and calling both ask this."""
        return self.refusal or _unseen(self, who) or self.hidden(who) or self.outage

    def listed(self, who: Principal) -> bool:
        """Whether this caller sees the tool: it may call it, or could if it were not down."""
        refused = self.refused(who)
        return refused is None or (refused is self.outage and refused.reason not in _UNLISTED)

    def take_seat(self, who: Principal, session: Any, door: str) -> Seat:
        """What is known about this caller's calls before they come, kept for the next one."""
        key = (id(who), id(session), door)
        seat = self._seats.get(key)
        if seat is None or seat.who is not who or seat.session is not session:
            if len(self._seats) > 1000:
                self._seats.clear()
            name = None if session is None else session.id
            seat = self._seats[key] = Seat(
                who,
                session,
                door,
                refusal=self.refusal or _unseen(self, who),
                checks=[_for_caller(check, self, who) for check in self.checks],
                meters=self.meters(who, name),
                about=(self.name, who.name, name, self.profile_name, door),
            )
            seat.clear = seat.refusal is None and not self.gates and self.outage is None
        self.seat = seat
        return seat

    def meters(self, who: Principal, session: str | None) -> tuple[Meter, ...]:
        """The meters that a call of this caller turns."""
        return tuple(
            self._limits.meter(_party(fixed, limit, who, session), limit)
            for fixed, limit in self._metered
        )


def _party(
    fixed: tuple[str, ...], limit: Limit, who: Principal, session: str | None
) -> tuple[object, ...]:
    if limit.per == "principal":
        return (*fixed, who.name)
    if limit.per == "session":
        return (*fixed, session or f"principal:{who.name}")
    return fixed


def _policy(entry: Entry, profile: Profile | None) -> ToolPolicy | None:
    """The tool's policy with the profile's knobs on top."""
    base = entry.policy
    knobs: Mapping[str, Any] | None = profile.policies.get(entry.name) if profile else None
    if base is None and entry.spec.policy is not NoPolicy:
        base = entry.spec.policy(**(knobs or {}))
    elif base is not None and knobs:
        base = base.with_knobs(knobs)
    return base


def held_spec(spec: ToolSpec, policy: ToolPolicy | None) -> ToolSpec:
    """The spec with the effects that are left under the policy."""
    effects = None if policy is None else policy.allowed_effects()
    if effects is None or effects == spec.effects:
        return spec
    return dataclasses.replace(spec, effects=effects)


def _checks(plan: Plan, gates: Sequence[Gate], policy_source: str | None) -> tuple[Check, ...]:
    spec, profile = plan.spec, plan.profile
    first = profile_check(profile, spec) if profile else constant("profile", NO_PROFILE)
    source = spec.source
    if profile is not None and spec.name in profile.policies:
        source = policy_source or profile.source or source
    found = [
        first,
        role_check(spec),
        tool_check(spec),
        policy_check(plan.policy, spec, source),
        executor_check(plan.entry.execute, spec),
    ]
    return (*(c for c in found if c is not None), *(gate_check(g) for g in gates))


def _for_caller(check: Check, plan: Plan, who: Principal) -> Check:
    """A gate that looks at the caller and not at the arguments says the same to all its calls."""
    if check.constant is not None or not check.of_caller:
        return check
    profile = plan.profile
    if check.name == "profile" and profile is not None:
        rules = (r for r in profile.rules if matches(r.match, plan.spec, r.verdict))
        if any(rule.when is not None and rule.when.arguments for rule in rules):
            return check
    probe = ToolContext(tool=plan.name, principal=who, spec=plan.spec, profile=profile)
    return constant(check.name, ask_check(check, probe))


def _refusal(
    entry: Entry, profile: Profile | None, policy: ToolPolicy | None, base: Decision
) -> Decision | None:
    """What refuses every call of this tool, whoever makes it: found before validation."""
    if base.verdict == "deny":
        return base
    if profile is not None:
        pinned = profile.pins.get(entry.name)
        if pinned is not None and pinned != entry.spec.digest:
            return Decision.deny(
                "definition_changed",
                "the tool is not the one that was pinned",
                rule=f"pins.{entry.name}",
                source=profile.source,
                details={"pinned": pinned, "found": entry.spec.digest},
            )
        return _unsafe(entry, profile, policy)
    return None


def _unsafe(entry: Entry, profile: Profile, policy: ToolPolicy | None) -> Decision | None:
    """What is wrong with where the tool's commands run, in the eyes of the profile."""
    accepted = profile.isolation
    try:
        sandboxes = entry.sandboxes_under(policy)
    except Exception as error:  # a template may be anybody's: where it runs must be known
        return fault(f"template of {entry.name}", type(error).__name__)
    for sandbox in sandboxes:
        if sandbox.type in accepted if accepted is not None else sandbox.type != NAMED_ONLY:
            continue
        return Decision.deny(
            "sandbox_not_allowed",
            f"it runs in {sandbox.name} ({sandbox.type}); the profile accepts "
            f"{', '.join(accepted) if accepted else 'that only by name'}",
            rule=f"profiles.{profile.name}.isolation",
            source=profile.source,
        )
    return None


def _outage(entry: Entry, missing: Sequence[str]) -> Decision | None:
    if missing:
        return Decision.deny("tool_unavailable", f"it needs {', '.join(missing)}")
    down = entry.unavailable
    if down is not None:
        return Decision.deny(down.reason, down.message, details={"since": down.since})
    return None


def _unseen(plan: Plan, who: Principal) -> Decision | None:
    """Why the profile's rules and the permissions keep the tool from this caller altogether."""
    spec, profile = plan.spec, plan.profile
    probe = ToolContext(tool=spec.name, principal=who, spec=spec, profile=profile)
    if profile is not None and not may_reach(profile, spec, who):
        said = ask_check(profile_check(profile, spec), probe)
        return said if said.verdict == "deny" else Decision.deny("not_in_profile")
    said = ask_check(role_check(spec), probe)
    return said if said.verdict == "deny" else None


def _metered(
    name: str, profile: Profile | None, entry: Entry
) -> tuple[tuple[tuple[str, ...], Limit], ...]:
    if profile is None:
        return ()
    return tuple(
        (meter_key(limit, profile.name, index, name), limit)
        for index, limit in enumerate(profile.limits)
        if applies(limit, entry.spec)
    )
