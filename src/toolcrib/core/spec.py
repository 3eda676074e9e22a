"""The data that describes a tool."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal, cast

import msgspec

from toolcrib.core.canonical import digest
from toolcrib.core.names import check_name, wire_name
from toolcrib.core.policy import NoPolicy, ToolPolicy
from toolcrib.errors import SpecError

JsonObject = Mapping[str, Any]

Effect = Literal["read", "write", "destructive", "egress", "execute"]
"""read observes · write changes state · destructive cannot be undone · egress sends data out ·
execute runs code."""

EFFECTS: frozenset[Effect] = frozenset({"read", "write", "destructive", "egress", "execute"})

NO_ARGUMENTS: JsonObject = MappingProxyType(
    {"type": "object", "properties": {}, "additionalProperties": False}
)
_EMPTY: Mapping[str, Any] = MappingProxyType({})


FILE_MODULE = "_toolcrib_"
"""How modules begin that were loaded from a file: a hash of its path and its stem follow."""


class ToolScope(StrEnum):
    """Whom a tool exists for."""

    GLOBAL = "global"
    """One tool for everybody."""
    SESSION = "session"
    """An instance per session, built at first use and closed with the session."""


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When a failed attempt is tried again. Only idempotent or read-only tools ever are."""

    attempts: int = 3
    """How many attempts in all."""
    backoff: float = 0.5
    """Seconds before the second attempt; doubles each time."""
    max_backoff: float = 30.0
    jitter: float = 0.1
    """The share of the wait that is random, 0 to 1."""
    retry_on: frozenset[str] = frozenset({"timeout", "upstream_error", "tool_unavailable"})
    """The reasons that are tried again; a tool's own `retryable` failure is too."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "retry_on", frozenset(self.retry_on))
        if self.attempts < 1:
            raise SpecError(f"retry.attempts must be at least 1, not {self.attempts}")
        if self.backoff < 0 or self.max_backoff < 0 or not 0 <= self.jitter <= 1:
            raise SpecError("retry needs backoff >= 0, max_backoff >= 0 and jitter from 0 to 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolSpec:
    """What a tool is, as data. Never changes; a new description is a new spec."""

    name: str
    description: str = ""
    title: str | None = None
    kind: str = "python"
    """Which executor runs it: python, process, shell, http, mcp, storage, or a plug-in's."""
    input_schema: JsonObject = field(default_factory=lambda: NO_ARGUMENTS)
    output_schema: JsonObject | None = None
    config: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    """For the executor; never shown to agents."""
    policy: type[ToolPolicy] = NoPolicy
    effects: frozenset[Effect] | None = None
    """What a call may do. None means unknown, and is treated as the worst case."""
    idempotent: bool = False
    """Calling twice has the effect of calling once, so a failed attempt may be repeated."""
    scope: ToolScope = ToolScope.GLOBAL
    timeout: float | None = None
    """Seconds one attempt may take."""
    retry: RetryPolicy | None = None
    version: str = "0"
    category: str | None = None
    tags: frozenset[str] = frozenset()
    permissions: frozenset[str] = frozenset()
    """What a principal must hold to call it."""
    requires_approval: bool = False
    """A person is asked whatever the profile allows."""
    requires_secrets: frozenset[str] = frozenset()
    requires_tools: frozenset[str] = frozenset()
    conflicts_with: frozenset[str] = frozenset()
    annotations: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    """Anything else the author wants to say; shown, never interpreted."""
    factory: Callable[..., Any] | None = None
    """For scope `session`: `factory(ctx)` builds the instance."""
    source: str | None = None
    """Where the tool is described: `file:line`."""
    _digest: str | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        check_name(self.name)
        if self.effects is not None and self.effects.__class__ is not frozenset:
            put(self, "effects", frozenset(self.effects))
        if self.effects is not None and not self.effects <= EFFECTS:
            bad = sorted(set(self.effects) - EFFECTS)[0]
            raise SpecError(
                f"tool {self.name}: {bad!r} is not an effect",
                cure=f"Use some of: {', '.join(sorted(EFFECTS))}",
            )
        if self.scope.__class__ is not ToolScope:
            put(self, "scope", _scope(self.name, self.scope))
        for name in ("tags", "permissions", "requires_secrets", "requires_tools", "conflicts_with"):
            value = getattr(self, name)
            if value.__class__ is not frozenset:
                if isinstance(value, str):
                    raise SpecError(f"tool {self.name}: {name} must be a list, not one string")
                put(self, name, frozenset(value))
        if isinstance(cast("Any", self.timeout), str):
            raise SpecError(
                f"tool {self.name}: timeout is a number of seconds, not {self.timeout!r}"
            )
        if self.timeout is not None and not self.timeout > 0:
            raise SpecError(
                f"tool {self.name}: timeout must be more than 0 seconds, not {self.timeout}"
            )

    @property
    def wire_name(self) -> str:
        """The name shown to models."""
        return wire_name(self.name)

    @property
    def read_only(self) -> bool:
        """Whether a call provably only observes."""
        return self.effects is not None and self.effects <= {"read"}

    @property
    def repeatable(self) -> bool:
        """Whether calling twice does no more than calling once."""
        return self.idempotent or self.read_only

    @property
    def digest(self) -> str:
        """SHA-256 over what a caller or a person relies on, the executor's config included."""
        if self._digest is None:
            object.__setattr__(self, "_digest", digest(self.to_dict()))
        return cast("str", self._digest)

    def defines(self, other: ToolSpec) -> bool:
        """Whether the other one is this very definition, effects apart: a profile's policy may
        leave fewer of those, and what a call does is the same then."""
        if self is other or self.digest == other.digest:
            return True
        return replace(other, effects=self.effects).digest == self.digest

    def to_dict(self) -> dict[str, Any]:
        """The spec as JSON values: what the digest covers. Source and factory are left out."""
        return {
            "name": self.name,
            "description": self.description,
            "title": self.title,
            "kind": self.kind,
            "input_schema": _plain(self.input_schema),
            "output_schema": None if self.output_schema is None else _plain(self.output_schema),
            "config": _plain(self.config),
            "policy": _name_of(self.policy),
            "effects": None if self.effects is None else sorted(self.effects),
            "idempotent": self.idempotent,
            "scope": str(self.scope),
            "timeout": self.timeout,
            "retry": None if self.retry is None else _plain(msgspec.structs.asdict(self.retry)),
            "version": self.version,
            "category": self.category,
            "tags": sorted(self.tags),
            "permissions": sorted(self.permissions),
            "requires_approval": self.requires_approval,
            "requires_secrets": sorted(self.requires_secrets),
            "requires_tools": sorted(self.requires_tools),
            "conflicts_with": sorted(self.conflicts_with),
            "annotations": _plain(self.annotations),
        }

    def _repr_html_(self) -> str:
        import html

        shown = {k: v for k, v in self.to_dict().items() if v not in (None, [], {}, False)}
        rows = "".join(
            f"<tr><th>{key}</th><td>{html.escape(str(value))}</td></tr>"
            for key, value in shown.items()
        )
        return f"<table>{rows}</table>"


def _scope(name: str, value: object) -> ToolScope:
    try:
        return ToolScope(value)
    except ValueError:
        raise SpecError(
            f"tool {name}: {value!r} is not a scope", cure="Use global or session"
        ) from None


def _plain(value: Any) -> Any:
    """JSON values for `value`; what is not JSON is named, so that it still marks the digest."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value)
        return {str(k): _plain(v) for k, v in pairs.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in cast("Sequence[Any]", value)]
    if isinstance(value, set | frozenset):
        return sorted(str(v) for v in cast("frozenset[Any]", value))
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return _name_of(value) if hasattr(value, "__qualname__") else str(value)


def _name_of(thing: Any) -> str:
    """Module and name of a function or class. A file that was loaded by its path goes by its own
    name: the folder it lies in must not change what was agreed to."""
    module = str(getattr(thing, "__module__", ""))
    if module.startswith(FILE_MODULE):
        module = module.removeprefix(FILE_MODULE).partition("_")[2]
    return f"{module}.{thing.__qualname__}"


class ToolTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A broad tool that still needs its policy: `git` plus a read-only policy is a tool."""

    name: str
    policy: type[ToolPolicy]
    constructor: Callable[..., Any]
    """`constructor(policy)` or `constructor(policy, workshop)` gives the function, marked with
    `@tool` or not, or the spec of the finished tool."""
    description: str = ""
    knobs: Mapping[str, Any] = _EMPTY
    """Settings of the policy that are made already."""

    def narrowed(self, *, name: str | None = None, **knobs: Any) -> ToolTemplate:
        """The template with these settings of its policy, and perhaps another name: what a host
        can register."""
        made = {**self.knobs, **knobs}
        self.policy(**made)
        return msgspec.structs.replace(self, name=name or self.name, knobs=made)

    def build(
        self, policy: ToolPolicy | Mapping[str, Any] | None = None, workshop: Any = None
    ) -> Any:
        """The tool under `policy`, given built or as settings."""
        if not isinstance(policy, ToolPolicy):
            policy = self.policy(**{**self.knobs, **(policy or {})})
        if not isinstance(policy, self.policy):
            raise SpecError(
                f"template {self.name} needs a {self.policy.__name__}, "
                f"not a {type(policy).__name__}"
            )
        if len(inspect.signature(self.constructor).parameters) < 2:
            return self.constructor(policy)
        if workshop is None:
            raise SpecError(
                f"the template {self.name} is built by a host",
                cure=f"Register the template itself: ToolHost([{self.name}.narrowed(…)])",
            )
        return self.constructor(policy, workshop)
