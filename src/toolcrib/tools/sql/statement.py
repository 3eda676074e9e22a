"""The little that has to be known about a statement before a database reads it."""

from __future__ import annotations

import re

READING = frozenset({"select", "with", "explain", "values", "table", "show", "pragma"})
ADDING = frozenset({"insert", "create"})
_NEVER = (
    "abort attach begin close commit copy deallocate declare detach discard do end execute fetch "
    "listen load lock move notify prepare reassign release reset rollback savepoint security set "
    "start unlisten vacuum"
)
NEVER = frozenset(_NEVER.split())
"""Words of transactions, sessions and files: what they change would outlive the call."""

_WORD = re.compile(r"[A-Za-z_]+")
_EXPLAIN = re.compile(
    r"explain\s*(?:\([^()]*\)\s*|(?:(?:analyze|analyse|verbose)\b\s*)*)", re.IGNORECASE
)
_TOKEN = re.compile(
    r"""'(?:[^']|'')*'? | "(?:[^"]|"")*"? | `(?:[^`]|``)*`? | \[[^\]]*\]?
    | --[^\n]* | /\*.*?(?:\*/|\Z) | [^\W\d][\w$]* | [\w$]+ | \S""",
    re.VERBOSE | re.DOTALL,
)
_REPLACING = re.compile(r" (?:(?:insert|update|create) or|conflict) replace | replace into ")


def first_word(statement: str) -> str:
    """The word that a statement begins with, in small letters; empty when there is none."""
    match = _WORD.match(statement, _begin(statement))
    return match[0].lower() if match else ""


def explained(statement: str) -> str:
    """The statement that an EXPLAIN is about."""
    rest = statement[_begin(statement) :]
    match = _EXPLAIN.match(rest)
    return rest[match.end() :] if match else ""


def replaces(text: str) -> bool:
    """Whether SQL says somewhere, outside of strings and comments, that rows that stand in the way
    are replaced: `INSERT OR REPLACE`, `REPLACE INTO`, `ON CONFLICT REPLACE`."""
    found = (token for token in _TOKEN.findall(text) if not token.startswith(("--", "/*")))
    return bool(_REPLACING.search(f" {' '.join(found)} ".lower()))


def _begin(statement: str) -> int:
    """Where it begins, behind space, comments and opening brackets."""
    at = 0
    while at < len(statement):
        if statement[at].isspace() or statement[at] == "(":
            at += 1
        elif statement.startswith("--", at):
            end = statement.find("\n", at)
            at = len(statement) if end < 0 else end + 1
        elif statement.startswith("/*", at):
            at = _comment_end(statement, at)
        else:
            break
    return at


def _comment_end(statement: str, at: int) -> int:
    """Behind a comment. SQLite does not nest them and PostgreSQL does: a nested one is no comment
    here, so that both read on at the same place or not at all."""
    end = statement.find("*/", at + 2)
    if end < 0 or "/*" in statement[at + 2 : end]:
        return len(statement)
    return end + 2
