"""What an entry of `tools:` can say: functions of a file, a template, or one described tool."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from toolcrib.core.spec import RetryPolicy, ToolScope
from toolcrib.core.units import format_duration
from toolcrib.errors import SchemaError
from toolcrib.host.config.kinds import (
    ANY_TEXT,
    BAD,
    DURATION,
    FLAG,
    NAME,
    PAUSE,
    REASON,
    SHARE,
    TEXT,
    Unfit,
    Value,
    choice,
    whole,
)
from toolcrib.host.config.node import Node
from toolcrib.host.config.reading import Reading, joined
from toolcrib.host.config.rules import EFFECT
from toolcrib.host.config.shapes import DATA, ListOf, Section, Setting

_RETRY = RetryPolicy()
FORMATS = ("toolcrib", "mcp", "utcp", "toolregistry")
"""What a source of tools can be written as."""


def _module(node: Node) -> str:
    text = node.value
    if not isinstance(text, str) or not text:
        raise Unfit
    if text.endswith(".py") or "/" in text:
        path = os.path.normpath(node.origin.base / text)
        if not os.path.isfile(path):  # noqa: PTH113 - a path object refuses some strings
            raise Unfit(
                f"Paths are relative to the folder of {node.origin.label}",
                message=f"names a file that does not exist: {node.shown}",
            )
        return path
    if not all(part.isidentifier() for part in text.split(".")):
        raise Unfit("Write tools.py or package.module")
    return text


MODULE = Value("a Python file or module", _module, {"type": "string"})
_WORDS = ListOf(TEXT)

RETRY = Section(
    "a mapping such as {attempts: 3}",
    (
        Setting(
            name="attempts",
            kind=whole(1, 100),
            doc="how many attempts in all",
            default=str(_RETRY.attempts),
        ),
        Setting(
            name="backoff",
            kind=PAUSE,
            doc="the wait before the second attempt; doubles each time",
            default=format_duration(_RETRY.backoff),
        ),
        Setting(
            name="max_backoff",
            kind=PAUSE,
            doc="the longest wait",
            default=format_duration(_RETRY.max_backoff),
        ),
        Setting(
            name="jitter",
            kind=SHARE,
            doc="the share of the wait that is random",
            default=str(_RETRY.jitter),
        ),
        Setting(
            name="retry_on",
            kind=ListOf(REASON),
            doc="the reasons that are tried again",
            default=", ".join(sorted(_RETRY.retry_on)),
        ),
    ),
    lambda values, node, key, reading: RetryPolicy(**values),
)


class _Networks(msgspec.Struct, frozen=True):
    """Yes to all, or to some."""

    name: str = "true, or a list of networks"

    def read(self, node: Node, key: str, reading: Reading) -> Any:
        if node.items is not None:
            found = _WORDS.read(node, key, reading)
            return BAD if found is BAD else list(found)
        return FLAG.read(node, key, reading)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [FLAG.schema(), _WORDS.schema()]}


_SETTINGS = (
    Setting(name="python", kind=MODULE, doc="a Python file or module: every @tool in it"),
    Setting(
        name="load",
        kind=TEXT,
        doc="tools described elsewhere: files, a folder, a pattern, a module, an address, a table",
    ),
    Setting(name="format", kind=choice(*FORMATS), doc="load: what the source is written as"),
    Setting(name="interval", kind=DURATION, doc="load: how often an address is asked again"),
    Setting(
        name="etag",
        kind=FLAG,
        doc="load: whether an unchanged document stays unsent",
        default="true",
    ),
    Setting(name="sha256", kind=TEXT, doc="load: the hash that the document must have"),
    Setting(name="public_key", kind=TEXT, doc="load: the key that must have signed the document"),
    Setting(name="headers", kind=DATA, doc="load: sent with the request to an address"),
    Setting(
        name="private",
        kind=_Networks(),
        doc="load: true, or networks, for an address that is not public",
    ),
    Setting(name="table", kind=TEXT, doc="load: the table of a database", default="tools"),
    Setting(name="template", kind=TEXT, doc="a broad tool that the policy makes narrow"),
    Setting(name="name", kind=NAME, doc="the tool's name"),
    Setting(name="kind", kind=TEXT, doc="which executor runs it", default="python"),
    Setting(name="title", kind=TEXT, doc="the name that people see"),
    Setting(name="description", kind=ANY_TEXT, doc="what the tool does, for the model"),
    Setting(name="module", kind=MODULE, doc="kind python: the file or module of the function"),
    Setting(name="function", kind=TEXT, doc="kind python: the function's name"),
    Setting(
        name="input_schema",
        kind=DATA,
        doc="the JSON Schema of the arguments",
        default="no arguments; kind python: read from the function",
    ),
    Setting(name="output_schema", kind=DATA, doc="the JSON Schema of the output"),
    Setting(name="config", kind=DATA, doc="for the executor; never shown to agents"),
    Setting(
        name="policy", kind=DATA, doc="the policy's knobs; use names the policy where it has none"
    ),
    Setting(
        name="effects",
        kind=ListOf(EFFECT),
        doc="what a call may do",
        default="unknown, which counts as the worst",
    ),
    Setting(
        name="idempotent",
        kind=FLAG,
        doc="calling twice has the effect of calling once",
        default="false",
    ),
    Setting(
        name="scope",
        kind=choice(*(str(scope) for scope in ToolScope)),
        doc="whom the tool exists for",
        default="global",
    ),
    Setting(
        name="timeout", kind=DURATION, doc="how long one attempt may take", default="host.timeout"
    ),
    Setting(name="retry", kind=RETRY, doc="when a failed attempt is tried again"),
    Setting(name="version", kind=TEXT, doc="the tool's version", default="0"),
    Setting(name="category", kind=TEXT, doc="the tool's category"),
    Setting(name="tags", kind=_WORDS, doc="words that rules can speak of"),
    Setting(name="permissions", kind=_WORDS, doc="what a principal must hold to call it"),
    Setting(
        name="requires_approval",
        kind=FLAG,
        doc="a person is asked whatever the profile allows",
        default="false",
    ),
    Setting(name="requires_secrets", kind=_WORDS, doc="secrets without which it cannot run"),
    Setting(name="requires_tools", kind=_WORDS, doc="tools without which it cannot run"),
    Setting(name="conflicts_with", kind=_WORDS, doc="tools it cannot stand beside"),
    Setting(name="annotations", kind=DATA, doc="anything else; shown, never interpreted"),
    Setting(name="enabled", kind=FLAG, doc="false switches the entry off", default="true"),
)

_OF_PYTHON = frozenset({"python", "enabled"})
_OF_LOAD = frozenset(
    {
        "load", "format", "interval", "etag", "sha256", "public_key", "headers", "private",
        "table", "enabled",
    }
)  # fmt: skip
_NOT_OF_TEMPLATE = frozenset(
    {"python", "kind", "module", "function", "input_schema", "output_schema", "config", "scope"}
)


def _build_tool(values: dict[str, Any], node: Node, key: str, reading: Reading) -> Any:
    if not (_check_form(values, node, key, reading) and _check_schemas(values, node, key, reading)):
        return BAD
    for name in ("effects", "tags", "permissions", "requires_secrets", "requires_tools"):
        if name in values:
            values[name] = frozenset(values[name])
    if "conflicts_with" in values:
        values["conflicts_with"] = frozenset(values["conflicts_with"])
    values.setdefault("enabled", True)
    return {**values, **place_of(node)}


def place_of(node: Node) -> dict[str, Any]:
    """Where an entry stands, for mistakes that only its later user can see."""
    return {
        "source": node.source,
        "base": str(node.origin.base),
        "lines": dict(_lines(node, "", 3)),
    }


def _lines(node: Node, key: str, depth: int) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for name, entry in (node.entries or {}).items():
        here = joined(key, name)
        if entry.key.line is not None:
            found.append((here, entry.key.line))
        if depth > 1 and entry.node.entries:
            found += _lines(entry.node, here, depth - 1)
    return found


def _check_form(values: dict[str, Any], node: Node, key: str, reading: Reading) -> bool:
    """Which of the three forms it is, and that it says nothing of another form."""
    if "load" in values:
        form, foreign = "a load entry", set(values) - _OF_LOAD
        why = "It stands for all tools of the source: say it there"
    elif others := set(values) & (_OF_LOAD - {"enabled"}):
        form, foreign = "an entry without load", others
        why = "It says how tools are loaded: add load, or remove the line"
    elif "python" in values:
        form, foreign = "a python entry", set(values) - _OF_PYTHON
        why = "It stands for every @tool of the file: say it there, or give the tool its own entry"
    elif "template" in values:
        form, foreign = "a template entry", set(values) & _NOT_OF_TEMPLATE
        why = "The template decides it: remove the line"
    elif "name" not in values:
        cure = "Begin it with name, python, template or load"
        reading.wrong(node, key, f"{key} says neither name, python, template nor load", cure)
        return False
    elif values.get("kind", "python") != "python":
        form, foreign = f"a tool of kind {values['kind']}", set(values) & {"module", "function"}
        why = "Only tools of kind python have one"
    elif missing := [part for part in ("module", "function") if part not in values]:
        message = f"{key} is of kind python and has no {' and no '.join(missing)}"
        reading.wrong(node, key, message, "Say where the function is: module and function")
        return False
    else:
        return True
    for name in sorted(foreign):
        place = (node.entries or {})[name].key
        reading.wrong(place, joined(key, name), f"{key}: {form} has no setting {name!r}", why)
    return not foreign


def _check_schemas(values: dict[str, Any], node: Node, key: str, reading: Reading) -> bool:
    from toolcrib.core.schema import admit

    good = True
    for name in ("input_schema", "output_schema"):
        if name in values:
            try:
                admit(values[name], where=joined(key, name))
            except SchemaError as error:
                good = False
                place = node.get(name) or node
                reading.wrong(place, joined(key, name), error.message, error.cure)
    return good


TOOL = Section(
    "a tool entry such as {python: tools.py}",
    _SETTINGS,
    _build_tool,
    least=1,
    schema_more={"anyOf": [{"required": [n]} for n in ("python", "template", "name", "load")]},
)
