"""A plan: everything about one tool under one profile that can be known before a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from toolcrib.core.canonical import digest
from toolcrib.core.context import ToolContext
from toolcrib.core.decision import RANK, Decision
from toolcrib.core.entry import Entry, Execute
from toolcrib.core.policy import NoPolicy, ToolPolicy
from toolcrib.core.principal import Principal
from toolcrib.core.profile import ApprovalRules, Limit, Profile
from toolcrib.core.protocols import Extension, Gate
from toolcrib.core.schema import Validator, compile_schema
from toolcrib.core.settings import HostSettings
from toolcrib.pipeline.extensions import wrap
from toolcrib.pipeline.gates import (
    Check,
    ask_check,
    constant,
    fault,
    gate_check,
    matches,
    may_reach,
    policy_check,
    profile_check,
    role_check,
    tool_check,
)
from toolcrib.pipeline.limits import Limits, Meter, applies, meter_key
from toolcrib.pipeline.parts import Counter, Hider

NO_PROFILE = Decision.allow("no profile is in force", rule="no profiles")


class Plan:
    """One tool under one profile, compiled. A call walks it."""

    __slots__ = (
        "_abouts",
        "_last_about",
        "_limits",
        "_metered",
        "_meters",
        "_output",
        "_per_session",
        "_revision",
        "_validator",
        "approval",
        "base",
        "base_gate",
        "checks",
        "checks_output",
        "clean",
        "convert",
        "counter",
        "defaults",
        "dynamic",
        "entry",
        "execute",
        "gates",
        "is_valid",
        "max_depth",
        "name",
        "plain_outputs",
        "policy",
        "profile",
        "profile_name",
        "refusal",
        "repeats",
        "spec",
        "sync",
        "timeout",
        "visibility",
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
    ) -> None:
        spec = entry.spec
        self.entry = entry
        self.spec = spec
        self.name = spec.name
        self.profile = profile
        self.profile_name = profile.name if profile else None
        self.policy = _policy(entry, profile)
        self.gates = tuple(gates)
        self.checks = _checks(self, gates)
        self.dynamic = tuple(check for check in self.checks if check.constant is None)
        self.base, self.base_gate = _settle(self.checks)
        self.refusal = _refusal(entry, profile, self.base)
        self.visibility = _visibility(self, gates)
        if self.visibility is not None:
            # Seeing the tool already took the permissions; they are not asked for twice.
            self.dynamic = tuple(check for check in self.dynamic if check.name != "role")
        self._validator: Validator | None = None
        self.is_valid: Callable[[Any], bool] = self._first_check
        self._output: Validator | None = None
        self.checks_output = spec.output_schema is not None
        self.plain_outputs = _plain_outputs(spec.output_schema)
        """Python types that surely fit the output schema, and hold nothing to hide or to cut."""
        self.defaults = entry.defaults or None
        self.convert = entry.convert
        self.execute: Execute = wrap(entry.execute, extensions)
        self.timeout = spec.timeout if spec.timeout is not None else settings.timeout
        self.sync = settings.audit_sync == "always" or (
            settings.audit_sync == "effects" and not spec.read_only
        )
        self.clean = _clean(spec.input_schema, hider)
        self.counter = counter
        self.approval = profile.approval if profile else ApprovalRules()
        self.max_depth = profile.max_depth if profile else 8
        self._revision: str | None = None
        self._last_about: tuple[Any, str | None, str, msgspec.Raw] = (None, None, "", msgspec.Raw())
        self._abouts: dict[tuple[int, str | None, str], tuple[Principal, msgspec.Raw]] = {}
        self._limits = limits
        self._metered = _metered(spec.name, profile, entry)
        self._per_session = any(limit.per == "session" for _, limit in self._metered)
        self.repeats = any(limit.repeat for _, limit in self._metered)
        self._meters: dict[object, tuple[Meter, ...]] = {}

    @property
    def validator(self) -> Validator:
        """Compiled with the first call: most tools of a large catalog are never called."""
        if self._validator is None:
            self._validator = compile_schema(self.spec.input_schema)
        return self._validator

    def _first_check(self, arguments: Any) -> bool:
        self.is_valid = self.validator.is_valid
        return self.is_valid(arguments)

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

    def about(self, who: Principal, session: str | None, door: str) -> msgspec.Raw:
        """The part of a short record that is the same for all calls of this caller."""
        last = self._last_about
        if last[0] is who and last[1] == session and last[2] == door:
            return last[3]
        key = (id(who), session, door)
        kept = self._abouts.get(key)
        if kept is None or kept[0] is not who:
            if len(self._abouts) > 1000:
                self._abouts.clear()
            base = self.base
            parts = [self.name, who.name, session, self.profile_name, door]
            raw = msgspec.Raw(msgspec.json.encode([*parts, self.base_gate, base.rule, base.source]))
            kept = self._abouts[key] = (who, raw)
        self._last_about = (who, session, door, kept[1])
        return kept[1]

    def meters(self, who: Principal, session: str | None) -> tuple[Meter, ...]:
        """The meters that a call of this caller turns."""
        if not self._metered:
            return ()
        key = (who.name, session) if self._per_session else who.name
        kept = self._meters.get(key)
        if kept is None:
            if len(self._meters) > 10_000:
                self._meters.clear()
            kept = self._meters[key] = tuple(
                self._limits.meter(_party(fixed, limit, who, session), limit)
                for fixed, limit in self._metered
            )
        return kept


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


def _checks(plan: Plan, gates: Sequence[Gate]) -> tuple[Check, ...]:
    spec, profile = plan.spec, plan.profile
    first = profile_check(profile, spec) if profile else constant("profile", NO_PROFILE)
    source = spec.source
    if profile is not None and spec.name in profile.policies:
        source = profile.source or source
    found = [first, role_check(spec), tool_check(spec), policy_check(plan.policy, spec, source)]
    return (*(c for c in found if c is not None), *(gate_check(g, spec, profile) for g in gates))


def _settle(checks: Sequence[Check]) -> tuple[Decision, str]:
    """The strongest answer among the gates that do not depend on the call."""
    best, gate = Decision.abstain(), ""
    for check in checks:
        if check.constant is not None and RANK[check.constant.verdict] > RANK[best.verdict]:
            best, gate = check.constant, check.name
    return best, gate


def _refusal(entry: Entry, profile: Profile | None, base: Decision) -> Decision | None:
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
    if entry.unavailable is not None:
        reason, message, since = entry.unavailable
        return Decision.deny(reason, message, details={"since": since})
    return None


def _visibility(plan: Plan, gates: Sequence[Gate]) -> Callable[[Principal], Decision | None] | None:
    """Whether a caller sees the tool, where that depends on the caller. Listing and calling both
    ask this function."""
    spec, profile = plan.spec, plan.profile
    depends = profile is not None and any(
        rule.when is not None
        and (rule.when.roles or rule.when.permissions or rule.when.principals)
        and matches(rule.match, spec, rule.verdict)
        for rule in profile.rules
    )
    if not (depends or spec.permissions or gates):
        return None
    roles = role_check(spec)

    def rules(who: Principal) -> Decision | None:
        if profile is not None and not may_reach(profile, spec, who):
            probe = ToolContext(tool=spec.name, principal=who, spec=spec, profile=profile)
            said = ask_check(profile_check(profile, spec), probe)
            return said if said.verdict == "deny" else Decision.deny("not_in_profile")
        if spec.permissions:
            said = roles.test(ToolContext(tool=spec.name, principal=who))
            if said.verdict == "deny":
                return said
        return None

    if not gates:
        return remembered(rules)

    def visible(who: Principal) -> Decision | None:
        said = rules(who)
        if said is not None:
            return said
        for gate in gates:
            try:
                seen = gate.visible(spec, who, profile)
            except Exception as error:
                return fault(gate.name, type(error).__name__)
            if seen is not True:
                return Decision.deny(
                    "not_in_profile", f"hidden by gate {gate.name}", rule=gate.name
                )
        return None

    return visible


def remembered(
    test: Callable[[Principal], Decision | None],
) -> Callable[[Principal], Decision | None]:
    """`test`, asked once for each caller: its answer depends on nothing else."""
    known: dict[int, tuple[Principal, Decision | None]] = {}

    def ask(who: Principal) -> Decision | None:
        kept = known.get(id(who))
        if kept is None or kept[0] is not who:
            if len(known) > 1000:
                known.clear()
            kept = known[id(who)] = (who, test(who))
        return kept[1]

    return ask


def _plain_outputs(schema: Mapping[str, Any] | None) -> frozenset[type]:
    numbers: dict[str, set[type]] = {
        "integer": {int},
        "number": {int, float},
        "boolean": {bool},
        "null": {type(None)},
    }
    if schema is None:
        return frozenset().union(*numbers.values())
    return frozenset(numbers.get(str(schema.get("type")), ())) if len(schema) == 1 else frozenset()


def _clean(schema: Mapping[str, Any], hider: Hider) -> bool:
    """Whether arguments that fit the schema can hold nothing that has to be hidden: no text, and
    no key of a telling name."""
    if schema.get("additionalProperties") is not False:
        return False
    properties: Mapping[str, Any] = schema.get("properties", {})
    types = [part.get("type") for part in properties.values() if hasattr(part, "get")]
    harmless = {"integer", "number", "boolean", "null"}
    plain = len(types) == len(properties) and all(kind in harmless for kind in types)
    return plain and hider.clean_keys(properties)


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
