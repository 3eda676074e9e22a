"""The typed limits of one tool: a class with annotated fields and plain defaults."""

from __future__ import annotations

import copy
import types
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec

from toolcrib.core.decision import Decision
from toolcrib.core.jsontext import shown
from toolcrib.core.units import did_you_mean
from toolcrib.errors import ConfigError

if TYPE_CHECKING:
    from toolcrib.core.context import ToolContext
    from toolcrib.core.spec import Effect


class ToolPolicy:
    """The knobs of a tool. Subclass it, annotate fields, override `check`.

        class GitPolicy(ToolPolicy):
            allowed_actions: list[str] = ["status", "diff"]
            allow_push: bool = False

            def check(self, ctx):
                if ctx.arguments["action"] not in self.allowed_actions:
                    return self.deny("action_not_allowed")

    Unknown keys and wrong types are refused when the policy is built, so a typo cannot
    switch a safety knob off. A policy is frozen once built.
    """

    _fields: ClassVar[dict[str, Any]] = {}
    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._fields = {}
        cls._defaults = {}

    @classmethod
    def fields(cls) -> dict[str, Any]:
        """Each knob and its type."""
        if not cls._fields and cls is not ToolPolicy:
            hints = typing.get_type_hints(cls, include_extras=True)
            cls._fields = {
                name: kind
                for name, kind in hints.items()
                if not name.startswith("_") and typing.get_origin(kind) is not ClassVar
            }
            cls._defaults = {n: getattr(cls, n) for n in cls._fields if hasattr(cls, n)}
        return cls._fields

    def __init__(self, **knobs: Any) -> None:
        fields = type(self).fields()
        kind = type(self).__name__
        for name in knobs:
            if name not in fields:
                close = did_you_mean(name, fields)
                cure = (
                    f"Did you mean {close}?" if close else f"Known: {', '.join(fields) or 'none'}"
                )
                raise ConfigError(f"{kind} has no setting {name!r}", key=name, cure=cure)
        for name, wanted in fields.items():
            if name in knobs:
                try:
                    value = msgspec.convert(knobs[name], wanted)
                except msgspec.ValidationError:
                    raise _unfit(f"{kind}.{name}", name, wanted, knobs[name]) from None
            elif name in type(self)._defaults:
                value = copy.deepcopy(type(self)._defaults[name])
            else:
                raise ConfigError(
                    f"{kind} needs the setting {name!r}",
                    key=name,
                    cure=f"Add {name}: {_words(wanted)}",
                )
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a policy does not change once built: cannot set {name!r}")

    def __repr__(self) -> str:
        knobs = ", ".join(f"{name}={value!r}" for name, value in self.to_dict().items())
        return f"{type(self).__name__}({knobs})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.to_dict() == self.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """Each knob and its value."""
        return {name: getattr(self, name) for name in type(self).fields()}

    def with_knobs(self, knobs: Mapping[str, Any]) -> Self:
        """The same policy with some knobs set anew, checked like a new one."""
        return type(self)(**{**self.to_dict(), **knobs})

    def check(self, ctx: ToolContext) -> Decision | None:
        """Whether this call is within the limits: a `Decision`, or None for no objection.

        Called for every call, before anything runs, and by `explain`: it must be quick,
        synchronous and without side effects. Whatever it raises refuses the call.
        """
        return None

    def allowed_effects(self) -> frozenset[Effect] | None:
        """What calls within these limits may do, where the knobs decide it: a git policy without
        writing actions leaves only `read`. None leaves it to the tool's spec."""
        return None

    def deny(self, reason: str, message: str | None = None, **details: Any) -> Decision:
        """Refuse, with a stable reason."""
        return Decision.deny(reason, message, details=details or None)

    def ask(self, message: str | None = None) -> Decision:
        """Have a person decide."""
        return Decision.ask(message)


_NAMES: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a mapping",
    type(None): "null",
}


def _words(wanted: Any) -> str:
    """What a knob of this type can be, in words."""
    origin, parts = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is typing.Annotated:
        return _words(parts[0])
    if origin is typing.Literal:
        return f"one of {', '.join(map(str, parts))}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_words(part) for part in parts))
    if origin in (list, tuple, set, frozenset) and parts:
        return f"a list, each {_words(parts[0])}"
    return _NAMES.get(origin or wanted, getattr(wanted, "__name__", str(wanted)))


def _unfit(owner: str, name: str, wanted: Any, value: Any) -> ConfigError:
    cure = None
    if isinstance(value, str) and typing.get_origin(wanted) is list:
        cure = f"Write it as a list: {name}: […]"
    elif isinstance(value, str) and typing.get_origin(wanted) is typing.Literal:
        near = did_you_mean(value, [str(part) for part in typing.get_args(wanted)])
        cure = f"Did you mean {near}?" if near else None
    return ConfigError(f"{owner} must be {_words(wanted)}, not {shown(value)}", key=name, cure=cure)


class NoPolicy(ToolPolicy):
    """The policy of a tool that has none."""
