"""The parts of a configuration, from the top: this is where every setting is found."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from toolcrib.core.principal import Principal
from toolcrib.core.settings import AuditSync, HostSettings
from toolcrib.core.units import format_duration, format_size
from toolcrib.host.config.kinds import (
    BAD,
    DURATION,
    PATH,
    PAUSE,
    SIZE,
    STORE,
    TEXT,
    Unfit,
    Value,
    choice,
    whole,
)
from toolcrib.host.config.node import Node
from toolcrib.host.config.profiles import PROFILE
from toolcrib.host.config.reading import Reading, joined
from toolcrib.host.config.serving import SERVE
from toolcrib.host.config.shapes import DATA, Either, ListOf, MapOf, Section, Setting
from toolcrib.host.config.tools import MODULE, TOOL, place_of

_HOST = HostSettings()


def _version(node: Node) -> int:
    if node.value != 1 or isinstance(node.value, bool):
        raise Unfit("This Toolcrib reads version 1 only")
    return 1


AUDIT = Section(
    "a mapping such as {sync: always}",
    (
        Setting(
            name="sync",
            kind=choice(*get_args(AuditSync)),
            doc="when a call waits until its record is on disk",
            default=_HOST.audit_sync,
        ),
        Setting(
            name="key",
            kind=PATH,
            doc="the file that holds the trail's key",
            default="beside the store",
        ),
        Setting(
            name="anchor",
            kind=PATH,
            doc="a file in another place to which the chain's head is written",
        ),
        Setting(
            name="capture",
            kind=SIZE,
            doc="how much of arguments and of output the trail keeps",
            default=format_size(_HOST.audit_capture),
        ),
    ),
)

HOST = Section(
    "a mapping of the host's settings",
    (
        Setting(name="store", kind=STORE, doc="memory or sqlite:PATH", default="memory"),
        Setting(name="profile", kind=TEXT, doc="the profile of calls that name none"),
        Setting(
            name="timeout",
            kind=DURATION,
            doc="how long one attempt may take where the tool says nothing; null for no end",
            default=format_duration(_HOST.timeout or 0),
            nullable=True,
        ),
        Setting(
            name="deadline",
            kind=DURATION,
            doc="how long a call may take in all, people's time not counted; null for no end",
            default="null",
            nullable=True,
        ),
        Setting(
            name="max_output",
            kind=SIZE,
            doc="characters of output; longer output is cut, visibly",
            default=format_size(_HOST.max_output),
        ),
        Setting(
            name="max_arguments",
            kind=SIZE,
            doc="bytes of arguments",
            default=format_size(_HOST.max_arguments),
        ),
        Setting(
            name="threads",
            kind=whole(1, 10_000),
            doc="threads for synchronous functions",
            default=str(_HOST.threads),
        ),
        Setting(
            name="guard_time",
            kind=DURATION,
            doc="how long gates and policies may take for one call; longer counts as failed",
            default=format_duration(_HOST.guard_time),
        ),
        Setting(
            name="ready",
            kind=PAUSE,
            doc="how long starting waits for providers; a call of a missing tool waits longer",
            default=format_duration(_HOST.ready),
        ),
        Setting(
            name="drain",
            kind=PAUSE,
            doc="the time that running calls get when the host stops",
            default=format_duration(_HOST.drain),
        ),
        Setting(
            name="lease",
            kind=DURATION,
            doc="the time after its host's last sign of life in which a durable call counts as "
            "lost (outcome_unknown)",
            default=format_duration(_HOST.lease),
        ),
        Setting(
            name="lock",
            kind=choice("first_use", "frozen"),
            doc="whether a provider's first tools are written to toolcrib.lock, or what the lock "
            "does not know is refused",
            default=_HOST.lock,
        ),
        Setting(name="audit", kind=AUDIT, doc="how the trail is kept"),
        Setting(
            name="redact",
            kind=ListOf(TEXT),
            doc="more key patterns whose values are hidden",
        ),
    ),
)


def host_settings(given: dict[str, Any]) -> HostSettings:
    """The host's settings from what `host:` gives."""
    flat = {name: value for name, value in given.items() if name != "audit"}
    flat |= {f"audit_{name}": value for name, value in given.get("audit", {}).items()}
    return HostSettings(**flat)


PRINCIPAL = Section(
    "a mapping such as {roles: [builder]}",
    (
        Setting(name="roles", kind=ListOf(TEXT), doc="what the principal is; rules match on it"),
        Setting(
            name="permissions", kind=ListOf(TEXT), doc="what the principal holds; tools ask for it"
        ),
        Setting(
            name="profiles",
            kind=ListOf(TEXT),
            doc="the profiles the principal may choose from",
            default="all",
        ),
        Setting(name="attributes", kind=DATA, doc="anything else that is known"),
    ),
)


def principal(name: str, given: dict[str, Any]) -> Principal:
    """A principal from what its entry gives."""
    return Principal(
        name, given.get("roles", ()), given.get("permissions", ()), given.get("attributes")
    )


class Typed(msgspec.Struct, frozen=True):
    """A mapping with a `type`; the rest is checked by whoever builds that type."""

    name: str = "a mapping with a type"

    def read(self, node: Node, key: str, reading: Reading) -> Any:
        """The plain values, and `place`: where they stand."""
        if node.entries is None or "type" not in node.entries:
            cure = "Write at least {type: …}"
            what = "has no type" if node.entries is not None else f"must be {self.name}"
            reading.wrong(node, key, f"{key} {what}", cure)
            return BAD
        if TEXT.read(node.entries["type"].node, joined(key, "type"), reading) is BAD:
            return BAD
        return {**node.plain(), "place": place_of(node)}

    def schema(self) -> dict[str, Any]:
        """An object with a type."""
        return {
            "type": "object",
            "properties": {"type": {"type": "string"}},
            "required": ["type"],
        }


def _plug(name: str, settings: dict[str, Any], node: Node) -> dict[str, Any]:
    return {
        "name": name,
        "settings": settings,
        "source": node.source,
        "base": str(node.origin.base),
    }


class _Named(msgspec.Struct, frozen=True):
    """`{name: {settings}}`, with one name."""

    name: str = "a name, or {name: {settings}}"

    def read(self, node: Node, key: str, reading: Reading) -> Any:
        values = MapOf(DATA, "plug-in").read(node, key, reading)
        if values is BAD or len(node.entries or {}) != 1:
            cure = "Begin each with its own '- '"
            reading.wrong(node, key, f"{key} must hold one name with its settings", cure)
            return BAD
        for name, settings in values.items():
            return _plug(name, settings, node)
        return BAD

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "additionalProperties": DATA.schema(),
            "minProperties": 1,
            "maxProperties": 1,
        }


PLUGS = ListOf(
    Either(
        "a name, or {name: {settings}}", _Named(), TEXT, lambda name, node: _plug(name, {}, node)
    )
)

PLUGIN_FUNCTION = "plugin"
"""What a plug-in's function is called where a configuration does not say."""


class _Plugin(msgspec.Struct, frozen=True):
    """A Python file or module with the function that hands in: `plugin.py`, `package:function`."""

    name: str = "a Python file or module, such as plugin.py or package:function"

    def read(self, node: Node, key: str, reading: Reading) -> Any:
        written = TEXT.read(node, key, reading)
        if written is BAD:
            return BAD
        module, colon, function = str(written).partition(":")
        if colon and not function.isidentifier():
            message = f"{key} names no function behind the colon: {node.shown}"
            reading.wrong(
                node, key, message, "Write plugin.py, plugin.py:function or package:function"
            )
            return BAD
        found = MODULE.read(replace(node, value=module), key, reading)
        if found is BAD:
            return BAD
        return {
            "name": written if node.variable is None else node.shown,
            "module": found,
            "function": function or PLUGIN_FUNCTION,
            "source": node.source,
            "base": str(node.origin.base),
        }

    def schema(self) -> dict[str, Any]:
        return TEXT.schema()


ROOT = Section(
    "a mapping of settings",
    (
        Setting(
            name="version",
            kind=Value("1", _version, {"const": 1}),
            doc="the version of this form of file",
            default="1",
        ),
        Setting(name="host", kind=HOST, doc="the host's own settings"),
        Setting(
            name="plugins",
            kind=ListOf(_Plugin()),
            doc="plug-ins beside this file: plugin.py, plugin.py:function or package:function; "
            "installed ones need no line",
        ),
        Setting(name="tools", kind=ListOf(TOOL), doc="the tools"),
        Setting(
            name="providers", kind=MapOf(Typed(), "provider"), doc="live sources of tools, by name"
        ),
        Setting(
            name="sandboxes", kind=MapOf(Typed(), "sandbox"), doc="where commands run, by name"
        ),
        Setting(name="profiles", kind=MapOf(PROFILE, "profile"), doc="rules and limits, by name"),
        Setting(name="principals", kind=MapOf(PRINCIPAL, "principal"), doc="who may ask, by name"),
        Setting(name="extensions", kind=PLUGS, doc="what wraps every execution, outermost first"),
        Setting(name="exporters", kind=PLUGS, doc="what carries events elsewhere"),
        Setting(name="serve", kind=SERVE, doc="the doors that are opened, and who may enter"),
        Setting(
            name="include",
            kind=ListOf(TEXT, one=True),
            doc="more files, relative to this one; patterns with * are allowed",
        ),
    ),
)

ORDER = tuple(setting.name for setting in ROOT.settings)
"""The order of the top-level keys in a formatted file."""
