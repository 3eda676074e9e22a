"""Arguments as people type them: `key=value`, typed by the tool's schema.

`a=1` is what the schema says `a` is · `a:=[1, 2]` is JSON · `a=@file` and `a:=@file` read a file ·
`a.b=1` reaches into an object · a key given again adds to a list.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from toolcrib.cli.output import Mistake
from toolcrib.core.jsontext import MAX_BYTES, parse
from toolcrib.errors import JsonError
from toolcrib.host.reports.schemas import Schema, as_schema, options, types

_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}").fullmatch
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?").fullmatch
_WORDS = {"true": True, "false": False}


def read_arguments(
    pairs: Sequence[str], source: str | None, schema: Schema | None
) -> dict[str, Any]:
    """The arguments of a call: those of the JSON in `source`, then the pairs on top."""
    root: Schema = schema or {}
    arguments = _from_source(source) if source is not None else {}
    typed: set[str] = set()
    for pair in pairs:
        key, raw, value = _split(pair)
        path = _path(key, root)
        target, part = _descend(arguments, path, key, root)
        made = _json(value, key) if raw else convert(value, part, root)
        name, again = path[-1], key in typed
        if again and not raw and isinstance(target[name], list) and _is_list(part, root):
            target[name] = [*target[name], *(made if isinstance(made, list) else [made])]
        elif again:
            cure = "" if part else ", or give a list with := and JSON"
            raise Mistake(f"{key} is given twice. Give it once{cure}")
        else:
            target[name] = made
        typed.add(key)
    return arguments


def _from_source(source: str) -> dict[str, Any]:
    where = "standard input" if source == "-" else source
    data = sys.stdin.buffer.read(MAX_BYTES + 1) if source == "-" else _bytes(source, "--input")
    try:
        value = parse(data)
    except JsonError as error:
        raise Mistake(f"{where}: {error}") from None
    if not isinstance(value, dict):
        raise Mistake(f"{where} must hold a JSON object with the arguments")
    return cast("dict[str, Any]", value)


def _split(pair: str) -> tuple[str, bool, str]:
    """Key, whether it is JSON, and the text, read from its file where one is named."""
    key, found, value = pair.partition("=")
    raw = key.endswith(":")
    key = key.removesuffix(":")
    if not found or not key:
        whole = "; a whole JSON object goes in by --input FILE, or --input - for standard input"
        more = whole if pair.lstrip().startswith("{") else ""
        raise Mistake(f"{pair!r} is not an argument. Write key=value, or key:=JSON{more}")
    if value.startswith("@"):
        try:
            value = _bytes(value[1:], key).decode()
        except UnicodeDecodeError:
            raise Mistake(f"{key}: {value[1:]} is not UTF-8 text") from None
    return key, raw, value


def _bytes(file: str, key: str) -> bytes:
    try:
        with Path(file).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise Mistake(f"{key}: the file {file!r} cannot be read: {words}") from None
    if len(data) > MAX_BYTES:
        raise Mistake(f"{key}: the file {file!r} is larger than {MAX_BYTES} bytes")
    return data


def _json(text: str, key: str) -> Any:
    try:
        return parse(text)
    except JsonError as error:
        raise Mistake(f"{key}: {error}. Text needs quotes: {key}:='\"text\"'") from None


def _path(key: str, root: Schema) -> list[str]:
    """The steps of a key; a dot is part of the name where the schema has such a name."""
    if key in (root.get("properties") or {}):
        return [key]
    steps = key.split(".")
    if not all(steps):
        raise Mistake(f"{key!r} is not an argument's name: a part of it is empty")
    return steps


def _descend(
    arguments: dict[str, Any], path: Sequence[str], key: str, root: Schema
) -> tuple[dict[str, Any], Schema]:
    """The object that holds the last step, made on the way, and the schema of the value."""
    target, part = arguments, _member(root, path[0], root)
    for step, following in pairwise(path):
        inner = target.setdefault(step, {})
        if not isinstance(inner, dict):
            raise Mistake(f"{key}: {step} has a value already, so nothing can be inside it")
        target = cast("dict[str, Any]", inner)
        part = _member(part, following, root)
    return target, part


def _member(part: Schema, name: str, root: Schema) -> Schema:
    for option in options(part, root):
        properties = as_schema(option.get("properties"))
        if name in properties:
            return as_schema(properties[name])
        if isinstance(option.get("additionalProperties"), Mapping):
            return option["additionalProperties"]
    return {}


def _is_list(part: Schema, root: Schema) -> bool:
    return "array" in types(part, root)


def convert(text: str, part: Schema, root: Schema) -> Any:
    """`text` as the type the schema wants; text that does not fit stays text, to be refused."""
    wanted = types(part, root)
    for option in options(part, root):
        for choice in (*option.get("enum", ()), *((option["const"],) if "const" in option else ())):
            if isinstance(choice, str) and choice == text:
                return text
            if not isinstance(choice, str) and not wanted and str(choice).lower() == text:
                return choice
    if "string" in wanted:
        return text
    if "array" in wanted:
        return _items(text, part, root)
    if "object" in wanted and text.startswith("{"):
        return _parsed(text)
    if "integer" in wanted and _INTEGER(text):
        return int(text)
    if "number" in wanted and _NUMBER(text):
        return int(text) if _INTEGER(text) else float(text)
    if "boolean" in wanted and text in _WORDS:
        return _WORDS[text]
    return None if "null" in wanted and text == "null" else text


def _items(text: str, part: Schema, root: Schema) -> Any:
    if text.startswith("["):
        value = _parsed(text)
        if isinstance(value, list):
            return cast("list[Any]", value)
    for option in options(part, root):
        if "items" in option:
            return [convert(text, as_schema(option["items"]), root)]
    return [text]


def _parsed(text: str) -> Any:
    try:
        return parse(text)
    except JsonError:
        return text
