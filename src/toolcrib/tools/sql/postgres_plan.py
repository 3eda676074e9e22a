"""What PostgreSQL says that a statement would do, read from its plan."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from toolcrib.errors import Denial
from toolcrib.tools.sql.policy import SqlPolicy

PLANNED = frozenset({"select", "with", "values", "table", "insert", "update", "delete", "merge"})
"""Statements that have a plan."""

# They run SQL that is given as text, reach files, other servers or other sessions, or change what
# a read-only transaction does not keep (large objects, before version 16). No plan shows that.
_REACHING = (
    r"(?:query|table|schema|database|cursor)_to_xml\w*|ts_stat|ts_rewrite|crosstab\w*"
    r"|connectby|dblink\w*|lo_\w+|loread|lowrite|pg_read_\w+|pg_ls_\w+|pg_file_\w+|pg_stat_file"
    r"|pg_terminate_backend|pg_cancel_backend|pg_reload_conf|pg_rotate_logfile|pg_promote"
    r"|pg_switch_wal|pg_notify|pg_logical_\w+|pg_create_\w+|pg_drop_\w+|pg_copy_\w+"
    r"|pg_replication_\w+|pg_stat_reset\w*|pg_wal_replay_\w+|pg_backup_\w+|pg_start_backup"
    r"|pg_stop_backup"
)
# They tell what other sessions do and how tables are made, and need no table for it.
_TELLING = r"|pg_stat_get_\w+|pg_show_\w+|pg_hba_\w+|pg_ident_\w+|pg_get_\w+|pg_lock_status"
_NAMES = {
    rules: re.compile(rf"\b(?:{_REACHING}{_TELLING if rules else ''})\b", re.IGNORECASE)
    for rules in (False, True)
}
"""Without and with table rules."""
_CALLED = re.compile(r"\"?\s*\(")
_COMMENT = re.compile(r"--|/\*")
_ESCAPED = re.compile(r"\bu&\s*\"", re.IGNORECASE)


class Planned(NamedTuple):
    """The tables and the changes of a plan."""

    tables: frozenset[tuple[str, str]]
    """Schema and name."""
    changes: frozenset[str]
    """`insert`, `update`, `delete`, `merge`."""
    reaching: bool
    """Whether it calls a function that reaches further than a plan shows."""


def check_text(statement: str, policy: SqlPolicy) -> None:
    """Refuse functions that reach further than a plan shows, by their names in the statement.

    Making a plan runs some functions already, so this comes before.
    """
    # A comment may stand between a name and its bracket: then the name alone is enough.
    if _calls(statement, policy.has_table_rules, bare=bool(_COMMENT.search(statement))):
        raise _reaches()
    if _ESCAPED.search(statement):
        raise Denial("statement_not_allowed", 'names written as U&"…" are not allowed')


def read_plan(text: str, rules: bool) -> Planned:
    """What stands in the JSON that EXPLAIN gave; `rules` is whether there are table rules."""
    tables: set[tuple[str, str]] = set()
    changes: set[str] = set()
    reaching = False
    for node in _objects(json.loads(text)):
        if "Relation Name" in node:
            tables.add((str(node.get("Schema", "")), str(node["Relation Name"])))
        if "Function Name" in node and _calls(f"{node['Function Name']}(", rules):
            reaching = True
        if node.get("Node Type") == "ModifyTable":
            changes.add(str(node["Operation"]).lower())
            changes.update({"update"} if node.get("Conflict Resolution") == "UPDATE" else ())
        reaching = reaching or any(_calls(text, rules) for text in _texts(node))
    return Planned(frozenset(tables), frozenset(changes), reaching)


def check_plan(planned: Planned, policy: SqlPolicy) -> None:
    """Refuse what the policy does not allow."""
    for word in planned.changes:
        why = policy.objection(word)
        if why:
            raise Denial("statement_not_allowed", why)
    for schema, name in sorted(planned.tables):
        if policy.has_table_rules and not policy.allows_table(name, schema):
            raise Denial("table_not_allowed", f"the table {schema}.{name} is not allowed")
    if planned.reaching:
        raise _reaches()


def _calls(text: str, rules: bool, *, bare: bool = False) -> bool:
    """Whether a function that reaches further is called there; `bare`: or only named."""
    return any(bare or _CALLED.match(text, found.end()) for found in _NAMES[rules].finditer(text))


def _reaches() -> Denial:
    text = "functions that reach out of the statement's own tables are not allowed"
    return Denial("statement_not_allowed", text)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects inside, however deep."""
    waiting: list[Any] = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            yield cast("dict[str, Any]", found)
            waiting.extend(cast("dict[str, Any]", found).values())
        elif isinstance(found, list):
            waiting.extend(cast("list[Any]", found))


def _texts(node: dict[str, Any]) -> Iterator[str]:
    for value in node.values():
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from (v for v in cast("list[Any]", value) if isinstance(v, str))
