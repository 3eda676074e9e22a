"""What must never happen, as a file says it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from toolcrib.core.profile import Constraint
from toolcrib.core.spec import Effect
from toolcrib.host.config.kinds import BAD, TEXT, Kind, choice, whole
from toolcrib.host.config.node import Node
from toolcrib.host.config.reading import Reading
from toolcrib.host.config.rules import EFFECT, PATTERNS, RULE
from toolcrib.host.config.shapes import Either, ListOf, Section, Setting
from toolcrib.host.verify.callers import ANYONE, Scope
from toolcrib.host.verify.files import read_node

Counting = Literal["no", "also"]
"""Whether a call that a person is asked about counts as callable."""


@dataclass(frozen=True, kw_only=True)
class Never:
    """Calls that no profile in question may let through. Everything given narrows them down."""

    trust_max: int | None = None
    """Profiles with at most this trust."""
    profiles: tuple[str, ...] = ()
    """Names of profiles, or globs."""
    tools: tuple[str, ...] = ()
    exceptions: tuple[str, ...] = ()
    """Tools that are not meant, as names or globs."""
    effects: frozenset[Effect] = frozenset()
    """Tools that do one of these; unknown effects count as all."""
    tags: frozenset[str] = frozenset()
    arguments: tuple[Constraint, ...] = ()
    """Calls for which all of these hold; in a list, one item is enough."""
    actions: tuple[str, ...] = ()
    action_argument: str = "action"
    scope: Scope = ANYONE
    ask: bool = False
    """Calls that a person is asked about count, too."""
    text: str = ""
    source: str | None = None

    @property
    def conditions(self) -> tuple[Constraint, ...]:
        """What is demanded of the arguments, the action included."""
        if not self.actions:
            return self.arguments
        named = Constraint(argument=self.action_argument, kind="in", value=self.actions)
        return (named, *self.arguments)


@dataclass(frozen=True, kw_only=True)
class NeverWiden:
    """Another configuration, usually an older one, beyond which nothing may be allowed."""

    file: Path
    ask: bool = False
    source: str | None = None


@dataclass(frozen=True, kw_only=True)
class Invariants:
    """Everything that is demanded."""

    never: tuple[Never, ...] = ()
    never_widen: tuple[NeverWiden, ...] = ()


def _setting(section: Kind, name: str) -> Kind:
    """What a rule of a profile can say under `name`: invariants say it in the same words."""
    settings = cast("Section", section).settings
    return next(setting.kind for setting in settings if setting.name == name)


_ARGUMENTS = _setting(_setting(RULE, "when"), "arguments")
_WORDS = ListOf(TEXT, one=True, least=1)
_ASK = Setting(
    name="ask",
    kind=choice(*get_args(Counting)),
    doc="whether a call that a person is asked about counts as callable",
    default="no",
)
_CONDITIONS = frozenset({"tools", "effects", "tags", "actions", "arguments"})


def _build_never(values: dict[str, Any], node: Node, key: str, reading: Reading) -> Any:
    if not values.keys() & _CONDITIONS:
        cure = f"Say which calls: {', '.join(sorted(_CONDITIONS))}"
        reading.wrong(node, key, f"{key} forbids nothing in particular", cure)
        return BAD
    constraints = tuple(
        Constraint(argument=argument, kind=kind, value=value, source=source)
        for argument, rows in values.get("arguments", {}).items()
        for kind, value, source in rows
    )
    roles = values.get("roles")
    return Never(
        trust_max=values.get("trust_max"),
        profiles=values.get("profiles", ()),
        tools=values.get("tools", ()),
        exceptions=values.get("except", ()),
        effects=frozenset(values.get("effects", ())),
        tags=frozenset(values.get("tags", ())),
        arguments=constraints,
        actions=values.get("actions", ()),
        action_argument=values.get("action_argument", "action"),
        scope=Scope(
            roles=None if roles is None else frozenset(roles),
            principals=values.get("principals", ()),
        ),
        ask=values.get("ask") == "also",
        text=values.get("message") or _words(node),
        source=node.source,
    )


def _words(node: Node) -> str:
    """The invariant in one line."""
    parts: list[str] = []
    for name, entry in (node.entries or {}).items():
        value: Any = entry.node.plain()
        listed = isinstance(value, list)
        text = ", ".join(map(str, cast("list[Any]", value))) if listed else str(value)
        parts.append(f"{name} {text}")
    return f"never {'; '.join(parts)}"[:160]


NEVER = Section(
    "a mapping such as {trust_max: 1, effects: [write]}",
    (
        Setting(name="trust_max", kind=whole(0, 1000), doc="profiles with at most this trust"),
        Setting(name="profiles", kind=_WORDS, doc="names of profiles, or patterns with *"),
        Setting(name="tools", kind=PATTERNS, doc="names of tools, or patterns with *"),
        Setting(name="except", kind=PATTERNS, doc="tools that are not meant"),
        Setting(
            name="effects",
            kind=ListOf(EFFECT, one=True, least=1),
            doc="tools that do one of these; unknown effects count as all",
        ),
        Setting(name="tags", kind=_WORDS, doc="tools with one of these tags"),
        Setting(name="actions", kind=_WORDS, doc="calls whose action is one of these"),
        Setting(
            name="action_argument",
            kind=TEXT,
            doc="the argument that holds the action",
            default="action",
        ),
        Setting(name="arguments", kind=_ARGUMENTS, doc="calls for which these constraints hold"),
        Setting(
            name="roles", kind=ListOf(TEXT), doc="callers that hold no role beyond these",
            default="any caller there could be",
        ),
        Setting(name="principals", kind=_WORDS, doc="these principals, as configured"),
        _ASK,
        Setting(name="message", kind=TEXT, doc="the invariant in words, for the report"),
    ),
    _build_never,
    least=1,
)  # fmt: skip


def _build_widen(values: dict[str, Any], node: Node, key: str, reading: Reading) -> Any:
    if "file" not in values:
        reading.wrong(node, key, f"{key} names no file", "Write never_widen: old.yaml")
        return BAD
    return _widen(values["file"], node, values.get("ask") == "also")


def _widen(file: str, node: Node, ask: bool = False) -> NeverWiden:
    path = Path(os.path.normpath(node.origin.base / file))
    return NeverWiden(file=path, ask=ask, source=node.source)


_WIDEN = Either(
    "a configuration file, or a mapping such as {file: old.yaml}",
    Section(
        "a mapping such as {file: old.yaml}",
        (Setting(name="file", kind=TEXT, doc="the configuration to compare with"), _ASK),
        _build_widen,
        least=1,
    ),
    TEXT,
    _widen,
)

INVARIANTS = Section(
    "a mapping with never or never_widen",
    (
        Setting(name="never", kind=ListOf(NEVER, one=True), doc="calls that must not be possible"),
        Setting(
            name="never_widen",
            kind=ListOf(_WIDEN, one=True),
            doc="configurations beyond which nothing may be allowed",
        ),
    ),
)


def read_invariants(source: str | Path | Mapping[str, Any]) -> Invariants:
    """The invariants in a file or mapping. ConfigError tells every mistake with file and line."""
    node = read_node(source, "invariants")
    reading = Reading({})
    values = INVARIANTS.read(node, "", reading)
    reading.check()
    return Invariants(never=values.get("never", ()), never_widen=values.get("never_widen", ()))
