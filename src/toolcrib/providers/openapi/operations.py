"""The operations of a document: which are wanted, and what their tools are called."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, cast

from toolcrib.core.jsontext import shown
from toolcrib.core.names import look_alikes
from toolcrib.core.units import did_you_mean
from toolcrib.errors import ConfigError
from toolcrib.providers.openapi.document import Document, Node, Unusable

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_WORDS = ("name", "operationId", "method", "path", "tag")
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_.:-]+")
_NOT_IN_PATH = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One operation, as it stands in the document."""

    method: str
    path: str
    id: str | None
    tags: tuple[str, ...]
    node: Node
    item: Node
    """The path around it, with what all its operations share."""

    @property
    def words(self) -> str:
        """How people name it."""
        return f"{self.method} {self.path}"

    def matches(self, pattern: str) -> bool:
        """Whether a pattern of `include` or `exclude` means it: a glob for its id, `tag:…` for a
        tag, `/…` for its path, `GET /…` for both."""
        if pattern.startswith("tag:"):
            return any(fnmatchcase(tag, pattern[4:].strip()) for tag in self.tags)
        if pattern.startswith("/"):
            return fnmatchcase(self.path, pattern)
        if " " in pattern:
            method, _, path = pattern.partition(" ")
            return method.upper() == self.method and fnmatchcase(self.path, path.strip())
        return self.id is not None and fnmatchcase(self.id, pattern)


def operations_of(document: Document) -> Iterator[tuple[Operation | None, str, str]]:
    """Every operation; or None, what stands there instead, and why it cannot be used."""
    paths: Any = document.root.get("paths")
    for path, given in cast("Node", paths).items() if isinstance(paths, Mapping) else ():
        try:
            item = document.follow(given)
        except Unusable as error:
            yield None, str(path), str(error)
            continue
        for method in METHODS:
            if method not in item:
                continue
            node = item[method]
            if not isinstance(node, Mapping):
                yield None, f"{method.upper()} {path}", "it is not an object"
                continue
            yield _operation(method.upper(), str(path), cast("Node", node), item), "", ""


def _operation(method: str, path: str, node: Node, item: Node) -> Operation:
    known, tags = node.get("operationId"), node.get("tags")
    return Operation(
        method=method,
        path=path,
        id=known if isinstance(known, str) and known else None,
        tags=tuple(str(tag) for tag in cast("list[Any]", tags)) if isinstance(tags, list) else (),
        node=node,
        item=item,
    )


def chosen(
    operations: Sequence[Operation], include: Sequence[str], exclude: Sequence[str]
) -> list[Operation]:
    """The operations that are wanted. A pattern that means none of them is a mistake."""
    for key, patterns in (("include", include), ("exclude", exclude)):
        for pattern in patterns:
            if not any(operation.matches(pattern) for operation in operations):
                near = did_you_mean(pattern, (o.id for o in operations if o.id))
                raise ConfigError(
                    f"{key}: {shown(pattern)} matches no operation",
                    key=key,
                    cure=f"Did you mean {near}?" if near else _PATTERNS,
                )
    wanted = [o for o in operations if not include or any(map(o.matches, include))]
    return [o for o in wanted if not any(map(o.matches, exclude))]


_PATTERNS = 'Write an operationId such as "users/*", "tag:billing", "/users/*" or "GET /users/*"'


class Names:
    """Gives each operation a name of its own."""

    def __init__(self, provider: str, naming: str) -> None:
        for word in re.findall(r"\{([^{}]*)\}", naming):
            if word not in _WORDS:
                near = did_you_mean(word, _WORDS)
                raise ConfigError(
                    f"naming: {{{word}}} is not known",
                    key="naming",
                    cure=f"Did you mean {{{near}}}?" if near else f"Known: {', '.join(_WORDS)}",
                )
        self._provider = provider
        self._naming = naming
        self._taken: dict[str, str] = {}

    def name(self, operation: Operation) -> str:
        """The name of its tool. An id that is missing, or was used before, gives way to method and
        path."""
        by_path = _by_path(operation)
        name, other = "", None
        for given in dict.fromkeys((operation.id or by_path, by_path)):
            name = self._spelled(operation, given)
            keys = look_alikes(name)
            other = next((self._taken[key] for key in keys if key in self._taken), None)
            if other is None and len(name) <= 128:
                self._taken.update(dict.fromkeys(keys, operation.words))
                return name
        if other is None:
            raise Unusable(f"its name would have {len(name)} characters")
        raise Unusable(f"its name {name} is taken by {other}, or looks like it")

    def _spelled(self, operation: Operation, id: str) -> str:
        words = {
            "name": self._provider,
            "operationId": id,
            "method": operation.method.lower(),
            "path": _NOT_IN_PATH.sub("_", operation.path).strip("_"),
            "tag": operation.tags[0] if operation.tags else "untagged",
        }
        text = re.sub(r"\{([^{}]*)\}", lambda m: words[m[1]], self._naming)
        return _NOT_IN_NAME.sub("_", text).strip("_")


def _by_path(operation: Operation) -> str:
    path = re.sub(r"\{([^{}]*)\}", r"by_\1", operation.path)
    return f"{operation.method.lower()}_{_NOT_IN_PATH.sub('_', path).strip('_')}".rstrip("_")
