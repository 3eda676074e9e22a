"""YAML texts of others as JSON values: what aliases multiply is counted before it is built."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, cast

from toolcrib.core.jsontext import shown
from toolcrib.errors import ConfigError

MAX_VALUES = 2_000_000
"""Values of a document, those that aliases repeat counted each time."""
_MAX_DEPTH = 200
_CURE = "Check indentation, brackets and quotes around this place"


class _TooMuch(Exception):
    """More than a document may hold; says what."""


def yaml_value(data: bytes, where: str) -> Any:
    """The value of a YAML text. A `ConfigError` says where it is broken."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    yaml: Any = YAML(typ="safe", pure=True)
    try:
        constructor, parser = yaml.get_constructor_parser(io.BytesIO(data))
        try:
            root = constructor.composer.get_single_node()
            if root is None:
                return None
            _measure(root, {}, 0)
            value = constructor.construct_document(root)
        finally:
            parser.dispose()
        return _plain(value, {})
    except MarkedYAMLError as error:
        raise _broken(error, where) from None
    except _TooMuch as error:
        raise _refused(str(error), where) from None
    except RecursionError:
        raise _refused("it is nested too deep", where) from None
    except (YAMLError, ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        # The parser stumbles over some malformed escapes and tags in its own code.
        raise _refused(shown(str(error).partition("\n")[0]), where) from None


def _measure(node: Any, known: dict[int, int], depth: int) -> int:
    """How many values a node stands for, with all that its aliases repeat. Merge keys are made
    of aliases too, and are copied when the value is built."""
    inner: Any = node.value
    if not isinstance(inner, list):
        return 1
    size = known.get(id(node))
    if size == 0 or depth > _MAX_DEPTH:
        raise _TooMuch("it is nested too deep, or contains itself")
    if size is None:
        known[id(node)] = 0
        size = 1
        for item in cast("list[Any]", inner):
            for part in cast("tuple[Any, ...]", item) if isinstance(item, tuple) else (item,):
                size += _measure(part, known, depth + 1)
            if size > MAX_VALUES:
                raise _TooMuch(f"it stands for more than {MAX_VALUES:,} values: aliases multiply")
        known[id(node)] = size
    return size


def _plain(value: Any, known: dict[int, Any]) -> Any:
    """JSON values: keys become text (`200:` is a number in YAML), dates too. A part that many
    aliases name stays one part."""
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if not isinstance(value, Mapping | list):
        return str(value)
    if id(cast("Any", value)) in known:
        return known[id(cast("Any", value))]
    if isinstance(value, list):
        items = cast("list[Any]", value)
        made: Any = [_plain(item, known) for item in items]
    else:
        pairs = cast("Mapping[Any, Any]", value).items()
        made = {str(key): _plain(item, known) for key, item in pairs}
    known[id(cast("Any", value))] = made
    return made


def _broken(error: Any, where: str) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    return ConfigError(
        f"this cannot be read as YAML: {error.problem or error.context}",
        file=where,
        line=None if mark is None else int(mark.line) + 1,
        column=None if mark is None else int(mark.column) + 1,
        key="spec",
        cure=_CURE,
    )


def _refused(why: str, where: str) -> ConfigError:
    return ConfigError(f"{where} cannot be read: {why}", key="spec")
