"""Settings that whoever is to be built from them does not take, in words."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

from toolcrib.core.units import did_you_mean
from toolcrib.errors import ConfigError

# `JsonLog.__init__() got an unexpected …`, `connect() missing 1 required …`
_REFUSED = r"(?:\w+\.<locals>\.)*(\w+)(?:\.__init__)?\(\) (?:got|missing|takes) "
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def misfits(
    title: str, factory: Any, settings: Mapping[str, Any], error: TypeError
) -> list[ConfigError]:
    """What is wrong with the settings a factory raised TypeError for: each that it does not know,
    with the one probably meant, and each that is missing."""
    parameters = _parameters(factory)
    if parameters is None:
        parameters = _parameters(_called(error))  # it only passes them on
    if parameters is None:
        return [_other(title, error)]
    known = [p.name for p in parameters if p.kind in _NAMED]
    unknown = [name for name in settings if name not in known]
    wanted = [p for p in parameters if p.kind in _NAMED and p.default is inspect.Parameter.empty]
    missing = [p.name for p in wanted if p.name not in settings]
    found = [_unknown(title, name, [n for n in known if n not in settings]) for name in unknown]
    if missing:
        words = " and ".join(missing)
        plural = "s" if len(missing) > 1 else ""
        example = ", ".join(f"{name}: …" for name in missing)
        found.append(
            ConfigError(f"{title} needs the setting{plural} {words}", cure=f"Write {{{example}}}")
        )
    return found or [_other(title, error)]


def _parameters(function: Any) -> list[inspect.Parameter] | None:
    """What a function takes; None when that cannot be known, or is anything."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    return None if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in found) else found


def _called(error: TypeError) -> Any:
    """What refused the arguments: the interpreter names it, and whoever called it knows it."""
    name = re.match(_REFUSED, str(error))
    place = error.__traceback__
    if name is None or place is None:
        return None
    while place.tb_next is not None:
        place = place.tb_next
    frame = place.tb_frame
    return {**frame.f_globals, **frame.f_locals}.get(name[1])


def _unknown(title: str, name: str, known: list[str]) -> ConfigError:
    near = did_you_mean(name, known)
    choice = f"Known: {', '.join(known)}" if known else "It takes none; remove the line"
    cure = f"Did you mean {near}?" if near else choice
    return ConfigError(f"{title} has no setting {name!r}", key=f"settings.{name}", cure=cure)


def _other(title: str, error: TypeError) -> ConfigError:
    # Its own words may quote a value, which may be a secret; the type says nothing.
    return ConfigError(
        f"{title} cannot be made from these settings: {type(error).__name__}",
        cure="Compare the kinds of the values with its documentation",
    )
