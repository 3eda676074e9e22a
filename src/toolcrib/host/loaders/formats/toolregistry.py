"""A toolregistry configuration: Python sources become tools, the others become providers."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from toolcrib.errors import ConfigError
from toolcrib.host.config.node import Node
from toolcrib.host.loaders.formats.functions import Function, functions_of
from toolcrib.host.loaders.formats.shape import (
    Foreign,
    flag,
    mapping,
    named,
    only,
    put,
    text,
    texts,
)
from toolcrib.host.loaders.gathering import Gathering

MARKS = frozenset({"mode", "disabled", "tool_metadata"})
"""Keys by which such a file is known."""

_ROOT = ("mode", "disabled", "enabled", "tools", "tool_metadata", "profiles", "$schema")
_SOURCE = ("type", "namespace", "enabled", "tags")
_PYTHON = (*_SOURCE, "class", "module", "kwargs")
_MCP = (*_SOURCE, "transport", "command", "env", "url", "headers", "persistent")
_OPENAPI = (*_SOURCE, "url", "auth", "base_url")
_TRANSPORTS = {"stdio": "stdio", "sse": "sse", "streamable-http": "http", "http": "http"}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.:-]+")


def read(root: Node, gathering: Gathering) -> None:
    """Read all sources of the file."""
    try:
        _read(root, gathering)
    except Foreign as error:
        gathering.wrong("the file", error.node or root, "", error.message, error.cure)


def _read(root: Node, gathering: Gathering) -> None:
    only(mapping(root, "the file"), _ROOT, "a toolregistry file")
    if root.get("profiles") is not None:
        cure = "Write them as profiles of toolcrib.yaml, and remove them here"
        raise Foreign("profiles of toolregistry are not taken over", cure, root.get("profiles"))
    mode = text(root.get("mode"), "mode", "denylist")
    if mode not in ("allowlist", "denylist"):
        raise Foreign(f"{mode!r} is no mode", "Use allowlist or denylist", root.get("mode"))
    listed = "enabled" if mode == "allowlist" else "disabled"
    patterns = [str(node.value) for node in texts(root.get(listed), listed)]
    tools = root.get("tools")
    if tools is not None and tools.value is not None and tools.items is None:
        raise Foreign(f"tools must be a list, not {tools.shown}", "Write tools: [...]", tools)
    told = root.get("tool_metadata")
    metadata = {} if told is None else mapping(told, "tool_metadata")
    hints = {name: entry.node for name, entry in metadata.items()}
    for index, node in enumerate((tools.items if tools is not None else None) or ()):
        key, namespace = f"tools[{index}]", node.get("namespace")
        name = namespace.value if namespace is not None else None
        called = name if isinstance(name, str) and name else key
        try:
            space = text(namespace, "namespace", "")
            on = flag(node.get("enabled"), "enabled", True)
            if not on or _matches(space, patterns) != (mode == "allowlist"):
                gathering.off(called, node)
            else:
                _source(node, key, space, hints, gathering)
        except Foreign as error:
            message = f"{key}: {error.message}"
            gathering.wrong(called, error.node or node, key, message, error.cure)
        except ConfigError as error:
            gathering.wrong(called, node, key, f"{key}: {error.message}", error.cure or "")


def _matches(namespace: str, patterns: list[str]) -> bool:
    return any(
        fnmatchcase(namespace, pattern) or namespace.startswith(f"{pattern.rstrip('/')}/")
        for pattern in patterns
    )


def _source(
    node: Node, key: str, namespace: str, hints: dict[str, Node], gathering: Gathering
) -> None:
    entries = mapping(node, "a source")
    usual = "python" if "class" in entries or "module" in entries else None
    kind = text(node.get("type"), "type", usual)
    if kind not in ("python", "mcp", "openapi"):
        raise Foreign(f"{kind!r} is no type of source", "Use python, mcp or openapi")
    if gathering.remote:
        what = {"python": "modules", "mcp": "commands or servers", "openapi": "providers"}[kind]
        raise Foreign(f"remote specs may not carry {what}", "Describe them in a local file")
    if kind == "python":
        only(entries, _PYTHON, "a python source")
        for function in functions_of(node, gathering.origin):
            _function(function, node, key, namespace, hints, gathering)
        return
    if "tags" in entries:
        cure = "Remove them, and name the tools in rules"
        raise Foreign(f"tags of an {kind} source cannot be kept", cure, entries["tags"].key)
    name = _NOT_IN_NAMES.sub("_", namespace or f"{kind}_{key}").strip("_")
    made = _mcp(node) if kind == "mcp" else _openapi(node)
    gathering.provider(name, made, key)


def _function(
    function: Function,
    node: Node,
    key: str,
    namespace: str,
    hints: dict[str, Node],
    gathering: Gathering,
) -> None:
    prefix = f"{_NOT_IN_NAMES.sub('_', namespace)}-" if namespace else ""
    name = f"{prefix}{function.name.rpartition('.')[2]}"
    hint = hints.get(name)
    if hint is not None:
        only(mapping(hint, "tool_metadata"), ("search_hint", "defer"), "tool_metadata")
    entry = put(
        node,
        name=node.holding(name),
        kind=node.holding("python"),
        description=node.holding(function.description),
        module=node.holding(function.module),
        function=node.holding(function.name),
        input_schema=function.schema,
        tags=node.get("tags"),
        annotations=hint,
    )
    gathering.tool(entry, key)


def _mcp(node: Node) -> Node:
    only(mapping(node, "a source"), _MCP, "an mcp source")
    told = node.get("transport")
    transport = text(told, "transport")
    if transport not in _TRANSPORTS:
        cure = f"Use one of: {', '.join(_TRANSPORTS)}"
        raise Foreign(f"{transport!r} is no transport", cure, told)
    if transport != "stdio":
        text(node.get("url"), "url")
        return put(
            node,
            type=node.holding("mcp"),
            url=node.get("url"),
            transport=(told or node).holding(_TRANSPORTS[transport]),
            headers=node.get("headers"),
        )
    command = node.get("command")
    if command is not None and isinstance(command.value, str):
        command = command.holding((command,))
    if not texts(command, "command"):
        raise Foreign("command is missing", "Name the program and its arguments")
    return put(node, type=node.holding("mcp"), command=command, env=node.get("env"))


def _openapi(node: Node) -> Node:
    only(mapping(node, "a source"), _OPENAPI, "an openapi source")
    text(node.get("url"), "url")
    return put(
        node,
        type=node.holding("openapi"),
        spec=node.get("url"),
        base_url=node.get("base_url"),
        auth=_auth(node.get("auth")),
    )


def _auth(auth: Node | None) -> Node | None:
    if auth is None or auth.value is None:
        return None
    only(mapping(auth, "auth"), ("type", "token", "token_env", "header_name"), "auth")
    kind = text(auth.get("type"), "type", "bearer")
    variable = auth.get("token_env")
    if variable is not None:
        token = variable.holding(f"${{{text(variable, 'token_env')}}}")
    else:
        text(auth.get("token"), "token")
        token = auth.get("token") or auth
    if kind == "bearer":
        return put(auth, bearer=token)
    if kind == "header":
        name = text(auth.get("header_name"), "header_name", "Authorization")
        pair = {"name": auth.holding(name), "value": token}
        return put(auth, header=named(auth, pair))
    raise Foreign(f"auth of type {kind!r} is not supported", "Use bearer or header", auth)
