"""JSON with comments, as editors write it: one member is set, and every other byte stays."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, cast

_GAP = re.compile(r"(?:[ \t\r\n\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL).match
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"').match
_WORD = re.compile(r"[-+.\w]+").match
_DEPTH = 200


class Unreadable(ValueError):
    """The text is no JSON, not even with comments."""


class _Object(NamedTuple):
    """Where an object stands, and its members."""

    start: int
    end: int
    """Behind the closing brace."""
    members: dict[str, _Value]
    last: int
    """Behind the last member's value; behind the opening brace where there is none."""
    comma: int | None
    """Behind the comma that follows the last member."""


class _Value(NamedTuple):
    start: int
    end: int
    value: Any
    shape: _Object | None
    """Set for objects."""


def read(text: str) -> Any:
    """The value of the text. Raises `Unreadable`."""
    return _read(text).value


def with_member(text: str, path: tuple[str, ...], value: Any) -> str:
    """`text` with the member at `path` set; objects on the way are made. Raises `Unreadable`."""
    root = _read(text) if text.strip("\ufeff \t\r\n") else None
    if root is None:
        return _written(_nested(path, value), "") + "\n"
    if root.shape is None:
        raise Unreadable("it holds no object")
    before, at = root.value, root
    for depth, name in enumerate(path):
        shape = at.shape
        if shape is None:
            raise Unreadable(f"{'.'.join(path[:depth])} is no object")
        found = shape.members.get(name)
        if found is None:
            made = _inserted(text, shape, name, _nested(path[depth + 1 :], value))
            break
        at = found
    else:
        if at.value == value:
            return text
        indent = _indent_of(text, at.start)
        made = text[: at.start] + _written(value, indent) + text[at.end :]
    if read(made) != _set(before, path, value):
        raise Unreadable("it cannot be changed without changing more than that")
    return made


def _nested(path: tuple[str, ...], value: Any) -> Any:
    for name in reversed(path):
        value = {name: value}
    return value


def _set(before: Any, path: tuple[str, ...], value: Any) -> Any:
    if not path:
        return value
    held = cast("dict[str, Any]", before) if isinstance(before, dict) else {}
    return {**held, path[0]: _set(held.get(path[0]), path[1:], value)}


def _inserted(text: str, shape: _Object, name: str, value: Any) -> str:
    """The text with one more member behind the last one, as far in as the others."""
    outer = _indent_of(text, shape.start)
    first = next(iter(shape.members.values()), None)
    indent = outer + "  " if first is None else _indent_of(text, first.start)
    comma = bool(shape.members) and shape.comma is None
    member = f"\n{indent}{json.dumps(name, ensure_ascii=False)}: {_written(value, indent)}"
    place = shape.comma or shape.last
    rest = text[place : shape.end - 1]
    if comma:
        text = text[:place] + "," + text[place:]
        place, shape = place + 1, shape._replace(end=shape.end + 1)
    # What stands behind the last member, such as a comment, stays behind it.
    place += len(rest.rstrip())
    tail = "" if "\n" in text[place : shape.end - 1] else f"\n{outer}"
    return text[:place] + member + tail + text[place:]


def _indent_of(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _written(value: Any, indent: str) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", f"\n{indent}")


def _read(text: str) -> _Value:
    found = _value(text, _skip(text, 0), 0)
    if _skip(text, found.end) != len(text):
        raise Unreadable(f"something follows its end (line {_line(text, found.end)})")
    return found


def _value(text: str, place: int, depth: int) -> _Value:
    if depth > _DEPTH:
        raise Unreadable("it is too deep")
    sign = text[place : place + 1]
    if sign == "{":
        return _object(text, place, depth)
    if sign == "[":
        return _array(text, place, depth)
    token = _STRING(text, place) if sign == '"' else _WORD(text, place)
    if token is None:
        raise Unreadable(f"line {_line(text, place)} cannot be read")
    try:
        value = json.loads(token[0], parse_constant=_refuse)
    except ValueError:
        raise Unreadable(f"line {_line(text, place)} cannot be read") from None
    return _Value(place, token.end(), value, None)


def _object(text: str, start: int, depth: int) -> _Value:
    members: dict[str, _Value] = {}
    place, last = _skip(text, start + 1), start + 1
    comma: int | None = None
    while text[place : place + 1] != "}":
        token = _STRING(text, place)
        if token is None or (members and comma is None):
            raise Unreadable(f"line {_line(text, place)} cannot be read")
        name = json.loads(token[0])
        if name in members:
            raise Unreadable(f"{name!r} stands in it twice (line {_line(text, place)})")
        place = _skip(text, token.end())
        if text[place : place + 1] != ":":
            raise Unreadable(f"line {_line(text, place)} cannot be read")
        members[name] = found = _value(text, _skip(text, place + 1), depth + 1)
        last = found.end
        place = _skip(text, last)
        comma = place + 1 if text[place : place + 1] == "," else None
        place = place if comma is None else _skip(text, comma)
    shape = _Object(start, place + 1, members, last, comma)
    return _Value(start, place + 1, {key: each.value for key, each in members.items()}, shape)


def _array(text: str, start: int, depth: int) -> _Value:
    items: list[Any] = []
    place, comma = _skip(text, start + 1), True
    while text[place : place + 1] != "]":
        if not comma:
            raise Unreadable(f"line {_line(text, place)} cannot be read")
        found = _value(text, place, depth + 1)
        items.append(found.value)
        place = _skip(text, found.end)
        comma = text[place : place + 1] == ","
        place = _skip(text, place + 1) if comma else place
    return _Value(start, place + 1, items, None)


def _skip(text: str, place: int) -> int:
    gap = _GAP(text, place)
    return place if gap is None else gap.end()


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _refuse(name: str) -> Any:
    raise ValueError(name)
