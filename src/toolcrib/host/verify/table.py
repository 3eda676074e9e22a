"""Policy tests: a table of calls and the verdicts they must get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec

from toolcrib.core.decision import Explanation
from toolcrib.core.principal import Principal
from toolcrib.core.units import did_you_mean
from toolcrib.errors import ConfigError
from toolcrib.host.config.kinds import BAD, REASON, TEXT, choice
from toolcrib.host.config.node import Node
from toolcrib.host.config.reading import Reading
from toolcrib.host.config.shapes import DATA, ListOf, Section, Setting
from toolcrib.host.host import ToolHost
from toolcrib.host.verify.files import read_node
from toolcrib.host.verify.probe import decisive
from toolcrib.host.verify.report import call_text
from toolcrib.host.verify.run import Configuration, opened


@dataclass(frozen=True, kw_only=True)
class Row:
    """One call and what must become of it."""

    tool: str
    expect: str
    profile: str | None = None
    arguments: Mapping[str, Any]
    principal: str | None = None
    roles: tuple[str, ...] | None = None
    permissions: tuple[str, ...] | None = None
    reason: str | None = None
    source: str | None = None


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """A row that did not come true."""

    sentence: str
    profile: str | None
    tool: str
    arguments: dict[str, Any]
    principal: str
    expected: str
    expected_reason: str | None
    got: str
    got_reason: str | None
    message: str | None
    gate: str | None
    rule: str | None
    rule_source: str | None
    source: str | None
    """Where the row stands: `file:line`."""


class TableReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a table of policy tests came out."""

    rows: int
    failures: tuple[Failed, ...]

    @property
    def ok(self) -> bool:
        """Whether every row came true."""
        return not self.failures

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"ok": self.ok, **msgspec.to_builtins(self)}


_NEEDED = ("tool", "expect")


def _build_row(values: dict[str, Any], node: Node, key: str, reading: Reading) -> Any:
    missing = [name for name in _NEEDED if name not in values]
    if missing:
        cure = "Write {profile, tool, arguments, expect: allow, ask or deny}"
        reading.wrong(node, key, f"{key} has no {' and no '.join(missing)}", cure)
        return BAD
    if "reason" in values and values["expect"] != "deny":
        cure = "Only denials have a reason: remove it, or expect deny"
        reading.wrong(node, key, f"{key} expects {values['expect']} and a reason", cure)
        return BAD
    values.setdefault("arguments", {})
    return Row(**values, source=node.source)


_ROW = Section(
    "a mapping with tool and expect",
    (
        Setting(name="profile", kind=TEXT, doc="the profile", default="the host's profile"),
        Setting(name="tool", kind=TEXT, doc="the tool"),
        Setting(name="arguments", kind=DATA, doc="its arguments", default="none"),
        Setting(name="principal", kind=TEXT, doc="who calls", default="local"),
        Setting(name="roles", kind=ListOf(TEXT), doc="the caller's roles", default="as configured"),
        Setting(
            name="permissions",
            kind=ListOf(TEXT),
            doc="the caller's permissions",
            default="as configured",
        ),
        Setting(name="expect", kind=choice("allow", "ask", "deny"), doc="the verdict"),
        Setting(name="reason", kind=REASON, doc="the reason of the denial", default="any"),
    ),
    _build_row,
    least=1,
)
_TABLE = ListOf(_ROW, least=1)


def read_table(source: str | Path | list[Any]) -> tuple[Row, ...]:
    """The rows of a file or list. ConfigError tells every mistake with file and line."""
    node = read_node(source, "table")
    reading = Reading({})
    rows = _TABLE.read(node, "table", reading)
    reading.check()
    return cast("tuple[Row, ...]", rows)


def run_table(
    configuration: Configuration, table: str | Path | list[Any] | tuple[Row, ...]
) -> TableReport:
    """Put every row to the real decision. A row that names no tool or profile is a ConfigError."""
    host = opened(configuration)
    rows = table if isinstance(table, tuple) else read_table(table)
    mistakes = [mistake for row in rows for mistake in _mistakes(host, row)]
    if mistakes:
        mistakes[0].others = tuple(mistakes[1:])
        raise mistakes[0]
    failures: list[Failed] = []
    for row in rows:
        who = _caller(host, row)
        said = host.explain(row.tool, row.arguments, principal=who, profile=row.profile)
        if said.verdict != row.expect or (row.reason is not None and said.reason != row.reason):
            failures.append(_failed(host, row, said))
    return TableReport(rows=len(rows), failures=tuple(failures))


def _caller(host: ToolHost, row: Row) -> Principal | str | None:
    if row.roles is None and row.permissions is None:
        return row.principal
    name = row.principal or "local"
    known = host.config.principals.get(name)
    roles = row.roles if row.roles is not None else known.roles if known else ()
    held = row.permissions if row.permissions is not None else known.permissions if known else ()
    return Principal(name, roles, held)


def _mistakes(host: ToolHost, row: Row) -> list[ConfigError]:
    """A misspelt name would be denied, and a row that expects a denial would pass."""
    found: list[ConfigError] = []
    profiles = host.config.profiles
    if row.profile is not None and row.profile not in profiles:
        found.append(_unknown(row, "profile", row.profile, list(profiles)))
    if row.reason != "unknown_tool" and host.get(row.tool) is None:
        found.append(_unknown(row, "tool", row.tool, list(host.catalog.snapshot())))
    return found


def _unknown(row: Row, what: str, name: str, known: list[str]) -> ConfigError:
    near = did_you_mean(name, known)
    file, _, line = (row.source or "").rpartition(":")
    some = ", ".join(known[:12]) or "none"
    return ConfigError(
        f"there is no {what} {name!r}",
        file=file or None,
        line=int(line) if line.isdigit() else None,
        key=what,
        cure=f"Did you mean {near}?" if near else f"Known: {some}",
    )


def _failed(host: ToolHost, row: Row, said: Explanation) -> Failed:
    step = decisive(said)
    wanted = f"{row.expect} ({row.reason})" if row.reason else row.expect
    got = f"{said.verdict} ({said.reason})" if said.reason else said.verdict
    hidden = host.redactor.value(dict(row.arguments))
    under = f"under {said.profile} " if said.profile else ""
    call = call_text(row.tool, hidden)
    return Failed(
        sentence=f"{under}{call} as {said.principal}: expected {wanted}, got {got}",
        profile=said.profile,
        tool=row.tool,
        arguments=hidden,
        principal=said.principal,
        expected=row.expect,
        expected_reason=row.reason,
        got=said.verdict,
        got_reason=said.reason,
        message=said.message,
        gate=step.gate if step is not None else None,
        rule=step.rule if step is not None else None,
        rule_source=step.source if step is not None else None,
        source=row.source,
    )
