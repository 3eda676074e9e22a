"""What a docstring says: the description, and a sentence for each parameter.

Google, NumPy and reST (Sphinx) styles are read. Text in no known style is all description.
"""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

_PARAMETERS = frozenset(
    {
        "args",
        "arguments",
        "attributes",
        "keyword args",
        "keyword arguments",
        "other parameters",
        "parameters",
        "params",
    }
)
_SECTIONS = _PARAMETERS | {
    "example",
    "examples",
    "note",
    "notes",
    "raises",
    "references",
    "return",
    "returns",
    "see also",
    "warning",
    "warnings",
    "warns",
    "yield",
    "yields",
}
# Kept as text: `re` compiles and caches them when the first longer docstring comes.
_GOOGLE_ENTRY = r"\*{0,2}(\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?:\(.*?\)\s*)?:(?:\s+(.*)|$)"
_NUMPY_ENTRY = r"\*{0,2}(\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$"
_REST_FIELD = r":(\w+)(?:\s+([^:]*))?:(?:\s+(.*)|$)"
_REST_PARAMETER = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})
_REST_OTHER = frozenset(
    {"type", "return", "returns", "rtype", "raise", "raises", "except", "exception"}
    | {"var", "ivar", "cvar", "vartype", "yield", "yields", "ytype", "meta"}
)


class Docstring(NamedTuple):
    """A docstring taken apart."""

    description: str
    """The prose before the first section."""
    parameters: dict[str, str]
    """What is said about each parameter, on one line."""


def parse(text: str | None) -> Docstring:
    """Take a docstring apart, in whichever of the three styles it is written."""
    if not text:
        return Docstring("", {})
    if "\n" not in text and ":" not in text:
        return Docstring(text.strip(), {})
    lines = inspect.cleandoc(text).splitlines()
    found: dict[str, list[str]] = {}
    prose = _read_fields(_read_sections(lines, found), found)
    parameters = {name: " ".join(words) for name, words in found.items() if words}
    return Docstring("\n".join(prose).strip(), parameters)


def _read_sections(lines: list[str], found: dict[str, list[str]]) -> list[str]:
    """Collect Google and NumPy parameter sections; the lines before the first section remain."""
    first = len(lines)
    at = 0
    while at < len(lines):
        title, body = _heading(lines, at)
        if title is None:
            at += 1
            continue
        first = min(first, at)
        end = body
        numpy = body == at + 2
        # A Google section ends at the first line that is not indented; a NumPy section,
        # whose entries are not indented either, ends at the next heading.
        while end < len(lines) and _heading(lines, end)[0] is None:
            if not numpy and lines[end].strip() and not lines[end].startswith((" ", "\t")):
                break
            end += 1
        if title in _PARAMETERS:
            _read_entries(lines[body:end], _NUMPY_ENTRY if numpy else _GOOGLE_ENTRY, found)
        at = end
    return lines[:first] + [line for line in lines[first:] if line.startswith(":")]


def _heading(lines: list[str], at: int) -> tuple[str | None, int]:
    """The section that begins at line `at`, lower case, and the line its text begins on."""
    line = lines[at]
    if line.endswith(":") and line[:-1].lower() in _SECTIONS:
        return line[:-1].lower(), at + 1
    if line.lower() in _SECTIONS and at + 1 < len(lines):
        rule = lines[at + 1].strip()
        if len(rule) >= 3 and not rule.strip("-"):
            return line.lower(), at + 2
    return None, at


def _read_entries(lines: list[str], entry: str, found: dict[str, list[str]]) -> None:
    """Entries stand at the indentation of the first one; what is deeper continues an entry."""
    indent: int | None = None
    current: list[str] = []
    for line in lines:
        words = line.strip()
        if not words:
            continue
        depth = len(line) - len(line.lstrip())
        if indent is None:
            indent = depth
        if depth > indent:
            current.append(words)
            continue
        match = re.match(entry, words)
        current = []
        if match is None:
            continue
        if match.lastindex == 2 and match[2]:
            current.append(match[2].strip())
        for name in match[1].split(","):
            found.setdefault(name.strip().lstrip("*"), current)


def _read_fields(lines: list[str], found: dict[str, list[str]]) -> list[str]:
    """Collect reST fields; the other lines remain."""
    prose: list[str] = []
    current: list[str] | None = None
    for line in lines:
        words = line.strip()
        match = re.match(_REST_FIELD, words) if words.startswith(":") else None
        if match and match[1] in _REST_PARAMETER and match[2]:
            current = [match[3].strip()] if match[3] else []
            # `:param int count:` names the type before the parameter.
            found.setdefault(match[2].split()[-1].lstrip("*"), current)
        elif match and match[1] in _REST_OTHER:
            current = []
        elif not words:
            current = None
            prose.append(line)
        elif current is not None:
            current.append(words)
        else:
            prose.append(line)
    return prose
