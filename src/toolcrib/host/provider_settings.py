"""How a provider is kept alive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import msgspec

from toolcrib.core.units import did_you_mean, duration
from toolcrib.errors import ConfigError

State = Literal["starting", "up", "open", "down", "stopped"]
"""starting: its first attempt runs · up: its tools can be called · open: it is up but fails, so
calls are kept away · down: it does not answer and is tried again · stopped: nothing runs."""


TrustMode = Literal["pin", "review", "descriptions", "off"]
"""pin: what it lists first is accepted, and anything else is quarantined · review: nothing is
accepted until a person did · descriptions: like pin, and models never read its words · off:
whatever it lists is taken."""

_TRUST_OF_TYPE: Mapping[str, TrustMode] = {"mcp": "pin"}


def trust_of(type: str, given: Any) -> TrustMode:
    """How far a provider's tools are trusted, by what its settings say, if anything, or its type:
    only of some types it is known that their tools are somebody else's."""
    if given is None:
        return _TRUST_OF_TYPE.get(type, "off")
    return _trust("trust", given)


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that every provider has, whatever its type. Times are in seconds."""

    start_timeout: float = 30.0
    """How long connecting and listing may take together."""
    stop_timeout: float = 5.0
    """How long letting go may take; afterwards it is cancelled, then abandoned."""
    health_every: float = 30.0
    """How long between two looks at its health."""
    health_timeout: float = 10.0
    """How long such a look may take."""
    restart_first: float = 0.5
    """The pause before the second attempt; it doubles with every further one."""
    restart_most: float = 60.0
    """The longest pause. A provider that was up for so long begins again with the shortest."""
    breaker_failures: int = 5
    """How many calls in a row fail until calls are kept away."""
    breaker_open: float = 15.0
    """How long they are kept away before one call tries again."""
    trust: TrustMode | None = None
    """What is believed of the tools it lists; None leaves it to its type."""

    @classmethod
    def take(cls, settings: Mapping[str, Any]) -> tuple[ProviderSettings, dict[str, Any]]:
        """What a provider's settings say about keeping it alive, and the rest of them, which is
        for its type. Raises `ConfigError`."""
        own: dict[str, Any] = {}
        rest = dict(settings)
        for name in cls.__struct_fields__:
            if name not in rest:
                continue
            own[name] = _READ.get(name, _seconds)(name, rest.pop(name))
        return cls(**own), rest


def _seconds(key: str, value: Any) -> float:
    try:
        return duration(value)
    except ValueError as error:
        raise ConfigError(f"{key}: {error}", key=key) from None


def _count(_: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(
            f"breaker_failures: {value!r} is not a number of calls",
            key="breaker_failures",
            cure="Write a whole number from 1",
        )
    return value


def _trust(_: str, value: Any) -> TrustMode:
    known: tuple[TrustMode, ...] = get_args(TrustMode)
    # YAML takes a bare `off` for false.
    given = "off" if value is False else value
    if given in known:
        return given
    near = did_you_mean(str(given), known)
    cure = f"Did you mean {near}?" if near else f"Write one of {', '.join(known)}"
    raise ConfigError(f"trust: {value!r} is no degree of trust", key="trust", cure=cure)


_READ: Mapping[str, Callable[[str, Any], Any]] = {"breaker_failures": _count, "trust": _trust}


class ProviderStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a provider is, for people."""

    name: str
    state: State
    since: float
    """When it came into this state, in seconds since 1970."""
    tools: int
    """How many tools are listed."""
    problems: tuple[str, ...] = ()
    """Tools of its list that could not be taken, and why."""
    error: str | None = None
    """What went wrong last; it may have been mended since."""
    restarts: int = 0
    """How often it was started again."""
    calls: int = 0
    """How many calls run there now."""
    trust: TrustMode = "off"
    quarantined: tuple[str, ...] = ()
    """Tools of its list that nobody may call before a person has looked at them."""
    warnings: tuple[str, ...] = ()
    """What looks odd in the words of its tools; told only where people ask for it."""
