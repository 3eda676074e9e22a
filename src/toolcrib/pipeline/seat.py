"""A seat: what is known about one caller's calls of one tool before they come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from toolcrib.core.decision import RANK, Decision
from toolcrib.core.principal import Principal
from toolcrib.pipeline.gates import Check
from toolcrib.pipeline.limits import Meter


class Seat:
    """One caller before one plan: what does not change from call to call."""

    __slots__ = (
        "about",
        "base",
        "base_gate",
        "clear",
        "door",
        "dynamic",
        "meters",
        "refusal",
        "session",
        "who",
    )

    def __init__(
        self,
        who: Principal | None,
        session: Any,
        door: str,
        *,
        refusal: Decision | None = None,
        checks: Sequence[Check] = (),
        meters: tuple[Meter, ...] = (),
        about: tuple[str | None, ...] = (),
    ) -> None:
        self.who = who
        self.session = session
        self.door = door
        self.refusal = refusal
        self.clear = False
        """Whether nothing has to be looked at before the arguments are."""
        self.base, self.base_gate = settle(checks)
        """The strongest answer among the gates that say the same to every call of this caller."""
        self.dynamic = tuple((check.test, check) for check in checks if check.constant is None)
        self.meters = meters
        base = self.base
        parts = [*about, self.base_gate, base.rule, base.source]
        self.about = msgspec.Raw(msgspec.json.encode(parts))
        """The part of a short record that all calls of this caller share."""


def settle(checks: Sequence[Check]) -> tuple[Decision, str]:
    """The strongest answer among the gates that do not depend on the call."""
    best, gate = Decision.abstain(), ""
    for check in checks:
        if check.constant is not None and RANK[check.constant.verdict] > RANK[best.verdict]:
            best, gate = check.constant, check.name
    return best, gate
