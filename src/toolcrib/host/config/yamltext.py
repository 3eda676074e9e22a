"""YAML 1.2 text to nodes: plain types only, every value with its line and column."""

from __future__ import annotations

from typing import Any

from toolcrib.core.jsontext import shown
from toolcrib.errors import ConfigError
from toolcrib.host.config.composing import Composer
from toolcrib.host.config.node import MAX_NODES, Node, Origin

_READ_TWICE = 256 * 1024
"""Up to this length, broken text is read again by the parser that has better words for it."""
_READ_OTHERWISE = frozenset("\t\x85\u2028\u2029\ufeff")
"""Characters that the C parser takes as YAML 1.1 did, or misplaces."""

_SAYINGS = (
    # (what the parser says, where to point, message, cure)
    ("'\\t'", "end", "a tab stands where spaces belong", "Indent with spaces"),
    ("a tab character", "end", "a tab stands where spaces belong", "Indent with spaces"),
    (
        "mapping values are not allowed",
        "end",
        "a second ': ' stands on this line, or the line above is indented otherwise",
        "Put text that contains ': ' in quotes, and indent the keys of one mapping alike",
    ),
    (
        "unexpected end of stream",
        "start",
        "a quote is opened here and never closed",
        "Close the quote",
    ),
    (
        "cannot start any token",
        "end",
        "text cannot begin with this character",
        "Put the text in quotes",
    ),
    ("could not find expected ':'", "start", "a key has no ':' after it", "Write 'key: value'"),
    *(
        (
            saying,
            "end",
            "this line is indented otherwise than the lines before it",
            "Indent the keys of one mapping, or the items of one list, alike",
        )
        for saying in ("expected <block end>", "expected key", "expected '-' indicator")
    ),
    (
        "expected ',' or",
        "start",
        "a bracket or brace is opened here and not closed in time",
        "Close it, and put commas between its members",
    ),
)


def parse_yaml(text: str, origin: Origin, *, most: int = MAX_NODES) -> Node | None:
    """The one document of `text`; None when it is empty. ConfigError says what is wrong where."""
    try:
        from yaml import YAMLError
        from yaml._yaml import CParser
    except ImportError:
        return _parse_pure(text, origin, most)
    if _READ_OTHERWISE.isdisjoint(text):
        try:
            # Thirty times as fast as the other.
            return Composer(origin, most).compose(iter(CParser(text).get_event, None))
        except (YAMLError, ValueError) as error:
            if len(text) > _READ_TWICE and hasattr(error, "problem_mark"):
                raise _broken(error, origin) from None
    return _parse_pure(text, origin, most)


def _parse_pure(text: str, origin: Origin, most: int) -> Node | None:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    yaml: Any = YAML(typ="safe", pure=True)
    try:
        return Composer(origin, most).compose(yaml.parse(text))
    except MarkedYAMLError as error:
        raise _broken(error, origin) from None
    except YAMLError as error:
        position = getattr(error, "position", None)
        if not isinstance(position, int):
            raise ConfigError(f"this is not YAML: {shown(str(error))}", file=origin.file) from None
        before = text[:position]
        raise ConfigError(
            f"the character {text[position]!a} is not allowed in YAML",
            file=origin.file,
            line=before.count("\n") + 1,
            column=position - before.rfind("\n"),
            cure="Remove it, or write it as an escape in double quotes",
        ) from None
    except (ValueError, OverflowError, AttributeError, IndexError, TypeError, KeyError) as error:
        # The parser stumbles over some malformed escapes, tags and directives in its own code.
        raise ConfigError(
            f"this is not YAML: {shown(str(error))}",
            file=origin.file,
            cure="Look for a malformed escape, tag or % directive",
        ) from None


def _broken(error: Any, origin: Origin) -> ConfigError:
    """A parser's error in plain words."""
    problem = str(error.problem or error.context)
    said = (saying[1:] for saying in _SAYINGS if saying[0] in problem)
    usual = "end", f"this is not YAML: {problem}", "Check indentation, brackets and quotes"
    where, message, cure = next(said, usual)
    start, end = error.context_mark, error.problem_mark
    mark = (start or end) if where == "start" else (end or start)
    line = None if mark is None else int(mark.line) + 1
    column = None if mark is None else int(mark.column) + 1
    return ConfigError(message, file=origin.file, line=line, column=column, cure=cure)
