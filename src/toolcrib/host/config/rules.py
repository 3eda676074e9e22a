"""The rules of a profile: `allow`, `ask` or `deny` some tools, perhaps under a condition."""

from __future__ import annotations

import re
from typing import Any, cast, get_args

from toolcrib.core.profile import Constraint, Match, Rule, When
from toolcrib.core.spec import Effect
from toolcrib.errors import ConfigError
from toolcrib.host.config.kinds import BAD, NUMBER, REASON, TEXT, Unfit, Value, choice, whole
from toolcrib.host.config.node import Node
from toolcrib.host.config.reading import Reading, joined
from toolcrib.host.config.shapes import Either, ListOf, MapOf, Section, Setting

_LONGEST_TEXT = 160
_NAMES = r"^[A-Za-z0-9_.:*?-]{1,128}$"


def _pattern(node: Node) -> str:
    text = node.value
    if not isinstance(text, str):
        raise Unfit(f'Put it in quotes: "{node.written}"' if node.written else None)
    if not re.fullmatch(_NAMES, text):
        raise Unfit(
            "Tool names hold letters, digits and _ . : - ; * and ? stand for any of them",
            message=f"can match no tool: {node.shown}",
        )
    return text


def _scalar(node: Node) -> Any:
    if node.entries is not None or node.items is not None:
        raise Unfit
    return node.value


def _regex(node: Node) -> str:
    from toolcrib.pipeline.patterns import regex

    if not isinstance(node.value, str) or not node.value:
        raise Unfit
    try:
        regex(node.value)
    except ConfigError:
        raise Unfit(
            "Use the linear-time syntax: no look-around, no back-references, modest repetition",
            message=f"cannot be used as a regular expression: {node.shown}",
        ) from None
    return node.value


TOOL_PATTERN = Value(
    "a tool name or a pattern with *", _pattern, {"type": "string", "pattern": _NAMES}
)
PATTERNS = ListOf(TOOL_PATTERN, one=True, least=1)
_WORDS = ListOf(TEXT, one=True, least=1)
_SCALARS = ListOf(
    Value("text, a number, true, false or null", _scalar, {"not": {"type": ["array", "object"]}}),
    least=1,
)
_REGEX = Value("a regular expression", _regex, {"type": "string"})


def _build_match(values: dict[str, Any], node: Node, key: str, reading: Reading) -> Any:
    if not values:
        cure = "Name tools, effects, tags, category or kind"
        reading.wrong(node, key, f"{key} speaks of no tool", cure)
        return BAD
    return Match(
        names=(*values.get("tools", ()), *values.get("names", ())),
        effects=frozenset(values.get("effects", ())),
        tags=frozenset(values.get("tags", ())),
        categories=frozenset(values.get("category", ())),
        kinds=frozenset(values.get("kind", ())),
    )


EFFECT = choice(*get_args(Effect))

_MATCH = Section(
    "tool names, or a mapping of what the tools have in common",
    (
        Setting(name="tools", kind=PATTERNS, doc="names of tools, or patterns with *"),
        Setting(name="names", kind=PATTERNS, doc="another word for tools"),
        Setting(
            name="effects",
            kind=ListOf(EFFECT, one=True, least=1),
            doc="allow: the tool does nothing beyond these; ask and deny: it does one of these",
        ),
        Setting(name="tags", kind=_WORDS, doc="the tool has one of these tags"),
        Setting(name="category", kind=_WORDS, doc="the tool is of one of these categories"),
        Setting(name="kind", kind=_WORDS, doc="the tool is of one of these kinds"),
    ),
    _build_match,
    least=1,
)

MATCH = Either(
    "a tool's name, a list of names, or a mapping",
    _MATCH,
    PATTERNS,
    lambda names, node: Match(names=names),
)


def _build_constraints(values: dict[str, Any], node: Node, key: str, reading: Reading) -> Any:
    if not values:
        reading.wrong(node, key, f"{key} constrains nothing", "Write one such as {in: [a, b]}")
        return BAD
    if values.get("min", 0) > values.get("max", values.get("min", 0)):
        message = f"{key}: min is above max, so nothing can pass"
        reading.wrong(node, key, message, "Exchange the two")
        return BAD
    places = {kind: node.get(kind) or node for kind in values}
    return [(kind, value, places[kind].source) for kind, value in values.items()]


_CONSTRAINTS = Section(
    "a mapping of constraints such as {in: [a, b]}",
    (
        Setting(name="in", kind=_SCALARS, doc="one of these values"),
        Setting(name="not_in", kind=_SCALARS, doc="none of these values"),
        Setting(name="prefix", kind=_WORDS, doc="text that begins so"),
        Setting(
            name="glob", kind=_WORDS, doc="text of this form; * stops at /, ** does not, ? is one"
        ),
        Setting(
            name="regex",
            kind=ListOf(_REGEX, one=True, least=1),
            doc="text in which this regular expression occurs; linear-time syntax",
        ),
        Setting(name="min", kind=NUMBER, doc="the least number"),
        Setting(name="max", kind=NUMBER, doc="the greatest number"),
        Setting(name="max_length", kind=whole(), doc="the greatest length"),
        Setting(name="max_items", kind=whole(), doc="the greatest number of items"),
        Setting(name="path_under", kind=_WORDS, doc="a path below one of these folders"),
        Setting(name="host_in", kind=_WORDS, doc="a URL or host on this list; *.example.org"),
    ),
    _build_constraints,
    least=1,
)


def _build_when(values: dict[str, Any], node: Node, key: str, reading: Reading) -> Any:
    if not any(entry.node.value for entry in (node.entries or {}).values()):
        cure = "Name roles, permissions, principals or arguments, or remove it"
        reading.wrong(node, key, f"{key} is no condition", cure)
        return BAD
    constraints = tuple(
        Constraint(argument=argument, kind=kind, value=value, source=source)
        for argument, rows in values.get("arguments", {}).items()
        for kind, value, source in rows
    )
    return When(
        roles=frozenset(values.get("roles", ())),
        permissions=frozenset(values.get("permissions", ())),
        principals=frozenset(values.get("principals", ())),
        arguments=constraints,
    )


_WHEN = Section(
    "a mapping of conditions",
    (
        Setting(name="roles", kind=_WORDS, doc="the principal has one of these roles"),
        Setting(
            name="permissions", kind=_WORDS, doc="the principal holds all of these permissions"
        ),
        Setting(name="principals", kind=_WORDS, doc="the principal is one of these"),
        Setting(
            name="arguments",
            kind=MapOf(_CONSTRAINTS, "argument", least=1),
            doc="what arguments are held to; dots reach into objects",
        ),
    ),
    _build_when,
    least=1,
)


def _build_rule(values: dict[str, Any], node: Node, key: str, reading: Reading) -> Any:
    verdicts = [verdict for verdict in ("allow", "ask", "deny") if verdict in values]
    if len(verdicts) != 1:
        what = f"has {' and '.join(verdicts)}" if verdicts else "has no verdict"
        cure = "Begin each rule with one of allow, ask or deny"
        reading.wrong(node, key, f"{key} {what}", cure)
        return BAD
    verdict: Any = verdicts[0]
    match, when = values[verdict], values.get("when")
    reason = values.get("reason")
    if reason is not None and verdict == "ask":
        cure = "Use message to tell the approver why"
        reading.wrong(node, joined(key, "reason"), f"{key}: an ask rule gives no reason", cure)
        return BAD
    return Rule(
        verdict=verdict,
        match=match,
        when=when,
        reason=reason,
        message=values.get("message"),
        text=_shorten(reading.mask(_words(verdict, match, when))),
        source=node.source,
    )


RULE = Section(
    "a rule such as {allow: [name]}",
    (
        Setting(name="allow", kind=MATCH, doc="the tools that may be called"),
        Setting(name="ask", kind=MATCH, doc="the tools for which a person is asked"),
        Setting(name="deny", kind=MATCH, doc="the tools that are refused, whatever else is said"),
        Setting(name="when", kind=_WHEN, doc="the condition; everything given must hold"),
        Setting(
            name="reason",
            kind=REASON,
            doc="the reason given when an allow rule's condition fails or a deny rule applies",
        ),
        Setting(name="message", kind=TEXT, doc="what the caller or approver is told"),
    ),
    _build_rule,
    least=1,
    schema_more={"anyOf": [{"required": [verdict]} for verdict in ("allow", "ask", "deny")]},
)


def _words(verdict: str, match: Match, when: When | None) -> str:
    """The rule in one line."""
    parts = [", ".join(match.names)] if match.names else []
    for label, words in (
        ("effects", match.effects),
        ("tags", match.tags),
        ("category", match.categories),
        ("kind", match.kinds),
    ):
        if words:
            parts.append(f"{label} {', '.join(sorted(words))}")
    conditions: list[str] = []
    if when is not None:
        for label, words in (
            ("roles", when.roles),
            ("permissions", when.permissions),
            ("principals", when.principals),
        ):
            if words:
                conditions.append(f"{label} {', '.join(sorted(words))}")
        conditions += [f"{c.argument} {c.kind} {_brief(c.value)}" for c in when.arguments]
    text = f"{verdict} {' and '.join(parts)}"
    if conditions:
        text += f" when {' and '.join(conditions)}"
    return text


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"


def _brief(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(member) for member in cast("tuple[Any, ...]", value))
    return str(value)
