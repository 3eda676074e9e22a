"""One way to write a configuration file: keys in order, even indentation, comments kept."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, cast

from toolcrib.errors import ConfigError
from toolcrib.host.config.node import Node, Origin
from toolcrib.host.config.parts import ORDER
from toolcrib.host.config.yamltext import parse_yaml

_WIDTH = 100
_MOST_PASSES = 4


def format_config(text: str, *, file: str = "toolcrib.yaml") -> str:
    """`text` in the canonical form; formatting twice changes nothing more.

    Only the form changes: a text whose values or comments would not survive is refused.
    """
    origin = Origin(file, file, Path())
    before = parse_yaml(text, origin)
    if before is None:
        return text
    if before.entries is None:
        raise ConfigError(
            f"the file must be a mapping of settings, not {before.shown}",
            file=file,
            line=before.line,
            column=before.column,
            cure="Begin it with a setting such as 'tools:'",
        )
    result = _round_trip(_reorder(text, before), file)
    for _ in range(_MOST_PASSES):
        again = _round_trip(result, file)
        if again == result:
            break
        result = again
    else:
        raise _unable(file)
    after = parse_yaml(result, origin)
    if after is None or after.plain() != before.plain() or _comments(text) != _comments(result):
        raise _unable(file)
    return result


def _unable(file: str) -> ConfigError:
    return ConfigError(
        "the file cannot be formatted without losing a value or a comment",
        file=file,
        cure="Move comments to lines of their own, above the key they speak of",
    )


def _round_trip(text: str, file: str) -> str:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    yaml: Any = YAML()
    yaml.preserve_quotes = True
    yaml.brace_single_entry_mapping_in_flow_sequence = True
    yaml.width = _WIDTH
    # An anchor may be defined anew; the library would warn of it.
    yaml.composer.warn_double_anchors = False
    yaml.indent(mapping=2, sequence=4, offset=2)
    stream = io.StringIO()
    try:
        yaml.dump(yaml.load(text), stream)
    except (YAMLError, ValueError, AttributeError, TypeError) as error:
        raise ConfigError(f"the file cannot be formatted: {error}", file=file) from None
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


def _comments(text: str) -> list[str]:
    """The comments of a text, in any order: every token that begins with # after white space."""
    from ruamel.yaml import YAML
    from ruamel.yaml.tokens import CommentToken

    found: list[str] = []
    yaml: Any = YAML()
    for token in yaml.scan(text):
        for group in token.comment or ():
            members = cast("list[Any]", group) if isinstance(group, list) else [group]
            found += [m.value for m in members if isinstance(m, CommentToken)]
    return sorted(line.strip() for value in found for line in value.split("\n") if line.strip())


def _reorder(text: str, root: Node) -> str:
    """The top-level keys in order, each with the comment lines directly above it.

    Done on lines, because the round trip ties a comment to the key before it. A file with
    aliases keeps its order: an anchor has to stand above its uses.
    """
    lines = text.splitlines()
    entries = root.entries or {}
    starts = [(entry.key.line or 1) - 1 for entry in entries.values()]
    in_blocks = all(entry.key.column == 1 for entry in entries.values())
    names = list(entries)
    wanted = sorted(names, key=lambda n: ORDER.index(n) if n in ORDER else len(ORDER))
    if wanted == names or not in_blocks or starts != sorted(set(starts)) or _has_alias(text):
        return text
    tops = [_top(lines, start, starts[i - 1] if i else -1) for i, start in enumerate(starts)]
    ends = [*tops[1:], len(lines)]
    blocks = {name: lines[tops[i] : ends[i]] for i, name in enumerate(names)}
    for block in blocks.values():
        blank = not block[-1].strip()
        while not block[-1].strip():
            block.pop()
        block += [""] * blank
    head = lines[: tops[0]]
    return "\n".join([*head, *(line for name in wanted for line in blocks[name])]) + "\n"


def _has_alias(text: str) -> bool:
    from ruamel.yaml import YAML
    from ruamel.yaml.tokens import AliasToken

    yaml: Any = YAML()
    return any(isinstance(token, AliasToken) for token in yaml.scan(text))


def _top(lines: list[str], start: int, previous: int) -> int:
    """The first of the comment lines directly above line `start`."""
    top = start
    while top - 1 > previous and lines[top - 1].startswith("#"):
        top -= 1
    # A comment on the first line speaks of the file, and stays there.
    return start if top == 0 else top
