"""JSON from others: strict text, and values that can become JSON."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from itertools import accumulate, chain, islice
from math import isfinite, isinf
from typing import TYPE_CHECKING, Any, NoReturn, cast

import msgspec

from toolcrib.errors import JsonError

if TYPE_CHECKING:
    from json import JSONDecodeError

MAX_BYTES = 1_048_576
MAX_DEPTH = 64
MAX_NODES = 100_000
MAX_DIGITS = 4300

_PLAIN_NAME = r"[A-Za-z_$][A-Za-z0-9_$-]{0,63}"
_from_json = msgspec.json.Decoder().decode
_to_json = msgspec.json.Encoder().encode
_type: Callable[[Any], object] = type
_HOLDERS = (dict, list, tuple)
_MAX_BITS = 14_284  # the length of 10**4300
# The closing quote is optional and the run possessive, so that an unterminated string is
# passed over once instead of once per escaped quote.
_STRING = r'"(?:[^"\\]|\\.)*+"?'
_BRACKETS = _STRING + r"(?P<key>\s*+:)?|[\[\]{}]"
_NUMBERS = _STRING + r"|-?Infinity|NaN|-?[0-9][0-9.eE+-]*+"
_CLOSELY = 65_536
"""Characters of a text in which the place of what is wrong is looked for. In a longer one that
takes longer than to read it, and whoever sends such a text would have others wait."""
_ODD_ESCAPE = rb"\\u(?:[dD]|0022)"
_BUT_MARKS = bytes(set(range(256)).difference(b'[]{}"'))
_AS_LISTS = bytes.maketrans(b"{}", b"[]")
_STEPS = {0x5B: 1, 0x5D: -1}


def parse(text: bytes | str, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Any:
    """The value of a JSON text, or a `JsonError` that says what is wrong and where.

    Refused although common parsers let it pass: duplicate keys, NaN and Infinity, numbers that
    overflow, lone surrogates, a byte order mark, and anything over the limits.
    """
    if len(text) > max_bytes:
        raise _too_large(len(text), max_bytes)
    text = _decoded(text) if isinstance(text, bytes) else _sized(text, max_bytes)
    if text.count("{") + text.count("[") > max_depth:
        _check_depth(text, max_depth)
    import json

    # Reading a very long integer takes quadratic time, and a process may have lifted CPython's
    # limit; our own check costs a call per integer, so it is used only then.
    decode = _decoder(not 0 < sys.get_int_max_str_digits() <= MAX_DIGITS)
    try:
        value = decode(text)
    except json.JSONDecodeError as error:
        raise _malformed(text, error) from None
    except _NoNumber as error:
        number = str(error)
        where = f" {_at(text, _find_number(text, number))}" if len(text) <= _CLOSELY else ""
        raise JsonError(f"{shown(number)}{where} is not a number JSON can carry") from None
    except _Duplicate as error:
        where = f", {_at(text, _find_second_key(text))}" if len(text) <= _CLOSELY else ""
        raise JsonError(f"the key {shown(str(error))} stands twice{where}. Send it once") from None
    except ValueError as error:
        # CPython's own limit; the text of that error speaks of a Python setting.
        if "digits" not in str(error):
            raise
        raise _too_many_digits() from None
    if "\\u" in text:
        _check_surrogates(value)
    return value


def parse_quickly(text: bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Any:
    """What `parse` gives and refuses, cheaper for most texts.

    The quick decoder refuses what `parse` refuses but for three things: depth and half surrogates,
    which `is_plain` rules out, and members that stand twice, which `is_whole` finds.
    """
    if len(text) <= max_bytes and is_plain(text, max_depth):
        try:
            value = _from_json(text)
            if is_whole(text, _to_json(value)):
                return value
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
            pass  # `parse` says what is wrong
    return parse(text, max_bytes=max_bytes, max_depth=max_depth)


def is_plain(text: bytes, max_depth: int = MAX_DEPTH) -> bool:
    """Whether a look at JSON text shows that it is not deep, and that nothing in it is escaped that
    may be half a surrogate pair or a quotation mark."""
    # To look for a byte is far quicker than to look for bytes, or to count them.
    if 0x5C in text and b"\\u" in text and re.search(_ODD_ESCAPE, text):
        return False
    return is_shallow(text, max_depth)


def is_shallow(text: bytes, most: int) -> bool:
    """Whether JSON text is nested at most so deep. Of text that is no JSON it may say no."""
    # Nearly every text shows it by having no more brackets.
    if text.count(b"{") + (text.count(b"[") if 0x5B in text else 0) <= most:
        return True
    left = _brackets(text)
    for _ in range(most):
        if not left:
            return True
        inner = left
        left = left.replace(b"[]", b"")  # the innermost of all
        if len(left) == len(inner):
            return False
    return not left


def _brackets(text: bytes) -> bytes:
    """The brackets of JSON text that are not in strings, all of them written as those of lists."""
    if 0x5C in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Strings without brackets are gone with the second step, which may also make one of two.
    marks = text.translate(_AS_LISTS, _BUT_MARKS).replace(b'""', b"")
    return b"".join(marks.split(b'"')[::2]) if 0x22 in marks else marks


def is_whole(text: bytes, again: bytes) -> bool:
    """Whether no member of a plain JSON text was dropped, as a decoder does with one of two of the
    same name. `again` is the decoded value's text: without the member it has fewer quotation marks,
    which only one that was written \\u0022 could hide."""
    return text == again or text.count(b'"') == again.count(b'"')


def check_value(
    value: Any,
    *,
    max_depth: int = MAX_DEPTH,
    max_nodes: int = MAX_NODES,
    max_bytes: int = MAX_BYTES,
) -> None:
    """Refuse a Python value that is not JSON, or is over the limits, with a `JsonError`."""
    if type(value) is dict and _is_small(value):
        return
    # Level by level: no recursion, and a value that contains itself runs into the depth limit.
    level: list[Any] = [value if isinstance(value, _HOLDERS) else (value,)]
    depth = nodes = length = 0
    while level:
        depth += 1
        if depth > max_depth:
            raise JsonError(
                f"nested deeper than {max_depth} levels, or contains itself. Flatten it"
            )
        below: list[Any] = []
        for holder in level:
            keys: Collection[Any] = ()
            items = cast("Collection[Any]", holder)
            if isinstance(holder, dict):
                keys = cast("dict[Any, Any]", holder)
                items = keys.values()
                for key in keys:
                    if type(key) is not str and not (_is_member(key) and isinstance(key, str)):
                        raise JsonError(f"the key {shown(key)} is not text. Use text keys")
                    length += len(key) if key.isascii() else _utf8_length(key)
            nodes += len(items)
            if nodes > max_nodes:
                raise JsonError(f"more than {max_nodes} values. Send less, or a file")
            for item in items:
                kind = _type(item)
                if kind is str:
                    length += len(item) if item.isascii() else _utf8_length(item)
                elif kind is int:
                    if item.bit_length() > _MAX_BITS:
                        raise _too_many_digits()
                elif kind is float:
                    if not isfinite(item):
                        place = _place(keys, items, item)
                        raise JsonError(f"{item!r}{place} is not JSON. Use a number or None")
                elif kind is bool or item is None:
                    pass
                elif isinstance(item, _HOLDERS):
                    below.append(item)
                elif not _is_member(item):
                    place = _place(keys, items, item)
                    raise JsonError(
                        f"a value of type {type(item).__name__}{place} is not JSON. "
                        "Use text, numbers, booleans, None, lists and dicts"
                    )
            if length > max_bytes:
                raise _too_large(length, max_bytes)
        level = below


def shown(value: object, limit: int = 60) -> str:
    """A value as it may stand in a message: one short line, control characters escaped.

    Objects and lists are named, not shown: nobody reads them in a line, and they may hold secrets.
    """
    if isinstance(value, str):
        text = repr(value[: limit + 1])
    elif value is None or isinstance(value, bool):
        text = {None: "null", True: "true", False: "false"}[value]
    elif isinstance(value, int):
        text = repr(value) if value.bit_length() < 200 else "a number of over 60 digits"
    elif isinstance(value, float):
        text = repr(value)
    elif isinstance(value, dict):
        text = "an object"
    elif isinstance(value, list | tuple):
        text = "a list"
    else:
        text = f"a value of type {type(value).__name__}"
    if len(text) <= limit:
        return text
    return f"{text[: limit - 2]}…{text[-1]}" if isinstance(value, str) else f"{text[: limit - 1]}…"


def plain(value: Any) -> Any:
    """A copy made of dicts and lists only, from any mappings, lists and tuples."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("list[Any]", value)]
    return value


def extent(value: Any, *, most: int = MAX_NODES) -> tuple[int, int]:
    """How many values are in a value, itself included, and how deep; counting ends at `most`."""
    level: list[Any] = [value]
    count = depth = 0
    while level and count < most:
        count += len(level)
        depth += 1
        inner = (_inside(item) for item in level)
        level = list(islice(chain.from_iterable(inner), most))
    return count, depth


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list | tuple) else ()


def lookup(value: Any, pointer: str) -> Any:
    """What a JSON pointer such as `/a/0` points at; a `LookupError` when nothing is there."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list | tuple):
            if not name.isascii() or not name.isdigit():
                raise LookupError(pointer)
            value = cast("list[Any]", value)[int(name[:9])]
        elif isinstance(value, Mapping):
            value = cast("Mapping[str, Any]", value)[name]
        else:
            raise LookupError(pointer)
    return value


def pointer_to(steps: Iterable[str | int]) -> str:
    """The JSON pointer of some steps: `/a~1b/0`; empty for none."""
    return "".join("/" + str(s).replace("~", "~0").replace("/", "~1") for s in steps)


def path_to(steps: Iterable[str | int]) -> str:
    """Some steps as people write them: `items[0].price`; odd names are quoted and cut."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(_PLAIN_NAME, step):
            text += f".{step}" if text else step
        else:
            text += f"[{shown(step)}]"
    return text


def _is_small(value: Any) -> bool:
    """Whether this is what most arguments are: a few short names and plain values."""
    if len(value) > 32:
        return False
    for key, item in value.items():
        if type(key) is not str or not key.isascii() or len(key) > 64:
            return False
        kind = _type(item)
        if kind is str:
            if len(item) > 1024 or not item.isascii():
                return False
        elif kind is int:
            if item.bit_length() > 64:
                return False
        elif kind is not bool and item is not None:
            return False
    return True


class _NoNumber(Exception):
    pass


class _Duplicate(Exception):
    pass


def _constant(name: str) -> NoReturn:
    raise _NoNumber(name)


def _float(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise _NoNumber(text)
    return number


def _int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise _too_many_digits()
    return int(text)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Duplicate(key)
            seen.add(key)
    return found


@functools.cache
def _decoder(counting: bool) -> Any:
    """Made when the first text has to be looked at this closely: most programs never come here."""
    import json

    return json.JSONDecoder(
        object_pairs_hook=_pairs,
        parse_constant=_constant,
        parse_float=_float,
        parse_int=_int if counting else None,
    ).decode


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise JsonError(f"not UTF-8 at byte {error.start}: {error.reason}. Send UTF-8") from None


def _sized(text: str, max_bytes: int) -> str:
    length = len(text) if text.isascii() else _utf8_length(text)
    if length > max_bytes:
        raise _too_large(length, max_bytes)
    return text


def _check_depth(text: str, max_depth: int) -> None:
    data = text.encode("utf-8", "surrogatepass")
    if is_shallow(data, max_depth):
        return
    depth = 0
    if len(text) > _CLOSELY:
        if max(accumulate(map(_STEPS.__getitem__, _brackets(data)))) > max_depth:
            raise JsonError(f"nested deeper than {max_depth} levels. Flatten it")
        return
    for token in re.finditer(_BRACKETS, text, re.DOTALL):
        first = text[token.start()]
        if first in "[{":
            depth += 1
            if depth > max_depth:
                where = _at(text, token.start())
                raise JsonError(f"nested deeper than {max_depth} levels {where}. Flatten it")
        elif first in "]}":
            depth -= 1


def _check_surrogates(value: Any) -> None:
    import json

    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise JsonError(
            r"half a surrogate pair in a \u escape. Write both halves, or the character itself"
        ) from None


def _find_number(text: str, number: str) -> int:
    return next((t.start() for t in re.finditer(_NUMBERS, text, re.DOTALL) if t[0] == number), 0)


def _find_second_key(text: str) -> int:
    import json

    objects: list[set[str]] = []
    for token in re.finditer(_BRACKETS, text, re.DOTALL):
        first = text[token.start()]
        if first in "[{":
            objects.append(set())
        elif first in "]}":
            objects.pop()
        elif token["key"]:
            key = cast("str", json.loads(token[0].rstrip(" \t\r\n:")))
            if key in objects[-1]:
                return token.start()
            objects[-1].add(key)
    return 0


def _malformed(text: str, error: JSONDecodeError) -> JsonError:
    if not text.strip():
        return JsonError("empty where JSON is expected. Send at least {}")
    if text.startswith("\ufeff"):
        return JsonError("a byte order mark before the JSON. Send it without")
    if error.msg == "Extra data":
        return JsonError(f"more text after the JSON {_at(text, error.pos)}. Send one value")
    what = error.msg[0].lower() + error.msg[1:]
    return JsonError(f"not JSON {_at(text, error.pos)}: {what}")


def _at(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return f"at line {line}, column {column}"


def _place(keys: Any, items: Any, item: Any) -> str:
    for key, other in zip(keys, items, strict=False):
        if other is item:
            return f" in {shown(key)}"
    return ""


def _is_member(value: Any) -> bool:
    """Members of str and int enums are written as their values."""
    return isinstance(value, Enum) and isinstance(value, str | int)


def _utf8_length(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise JsonError(f"half a surrogate pair in {shown(text)}. Send valid text") from None


def _too_large(length: int, limit: int) -> JsonError:
    return JsonError(f"{length} bytes or more, over the limit of {limit}. Send less, or a file")


def _too_many_digits() -> JsonError:
    return JsonError(f"an integer of {MAX_DIGITS} digits or more. Send it as text")
