"""What a person is shown of a provider whose tools are not what was accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.host.trust.keeper import Keeper
    from toolcrib.host.trust.trust import Trust


def review(trust: Trust, keeper: Keeper) -> dict[str, Any]:
    """The difference between what was accepted and what is listed, tool by tool, as plain JSON
    values; tools that are as accepted are counted."""
    part, drift, flags = trust.known(keeper.name), keeper.drift, keeper.flags()
    pins = {} if part is None else part.tools
    every = sorted({*keeper.seen, *drift.states})
    waiting = [key for key in every if part is None or key in drift.states]
    return {
        "provider": keeper.name,
        "trust": keeper.mode,
        "up": keeper.up,
        "lock": None if trust.path is None else str(trust.path),
        "frozen": trust.mode == "frozen",
        "problem": trust.problem,
        "upstream": keeper.upstream,
        "accepted_upstream": None if part is None else part.upstream,
        "same": len(every) - len(waiting),
        "tools": [_row(keeper, key, pins, flags) for key in waiting],
        "warnings": [
            f"{key} {flag}" for key, found in flags.items() for flag in found if key not in waiting
        ],
    }


def _row(
    keeper: Keeper, key: str, pins: dict[str, Any], flags: dict[str, list[str]]
) -> dict[str, Any]:
    seen, pin, refusal = keeper.seen.get(key), pins.get(key), keeper.rejection(key)
    return {
        "name": key,
        "state": keeper.drift.states.get(key, "added"),
        "digest": None if seen is None else seen.digest,
        "accepted": None if pin is None else pin.definition,
        "accepted_at": None if pin is None else pin.accepted,
        "accepted_by": None if pin is None else pin.by,
        "rejected_by": None if refusal is None else refusal.by,
        "found": None if seen is None else seen.definition,
        "flags": flags.get(key, []),
    }
