"""`mcpServers` as MCP clients keep them: each server becomes a provider of type mcp."""

from __future__ import annotations

from toolcrib.host.config.node import Node
from toolcrib.host.config.reading import joined
from toolcrib.host.loaders.formats.shape import Foreign, flag, mapping, only, put, text, texts
from toolcrib.host.loaders.gathering import Gathering

_TRANSPORTS = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
_KEYS = ("type", "transport", "command", "args", "env", "cwd", "url", "headers", "disabled")
_OF_CLIENTS = frozenset({"alwaysAllow", "autoApprove", "disabledTools", "enabledTools", "trust"})
_LOCAL = "Describe the server in a local file"


def read(root: Node, gathering: Gathering, *, alone: bool = False) -> None:
    """Read all servers; `alone` says that the file holds nothing else."""
    for name, entry in (root.entries or {}).items() if alone else ():
        if name != "mcpServers":
            message = f"a file of MCP servers has no setting {name!r}"
            gathering.wrong(name, entry.key, name, message, "Keep mcpServers alone")
    servers = root.get("mcpServers")
    if servers is None or servers.entries is None:
        message = "mcpServers must be a mapping from server names"
        place = servers or root
        gathering.wrong("mcpServers", place, "mcpServers", message, "Write name: {command: …}")
        return
    for name, entry in servers.entries.items():
        key = joined("mcpServers", name)
        if gathering.remote:
            message = "remote specs may not carry commands or servers"
            gathering.wrong(name, entry.key, key, message, _LOCAL)
            continue
        try:
            definition = provider(entry.node)
        except Foreign as error:
            place = error.node or entry.key
            gathering.wrong(name, place, key, f"{key}: {error.message}", error.cure)
            continue
        if definition is None:
            gathering.off(name, entry.key)
        else:
            gathering.provider(name, definition, key)


def provider(node: Node) -> Node | None:
    """The provider that a server's entry describes; None when it is switched off."""
    entries = mapping(node, "a server")
    for name in _OF_CLIENTS & entries.keys():
        cure = "Remove it, and say in a profile what may be called"
        raise Foreign(f"{name} is an agreement with another program", cure, entries[name].key)
    only(entries, _KEYS, "a server")
    command, url = node.get("command"), node.get("url")
    if (command is None) == (url is None):
        raise Foreign("a server needs a command, or a url, and not both", "Keep one of the two")
    told = node.get("transport") or node.get("type")
    transport = text(told, "transport", "stdio" if command else "http")
    if transport not in _TRANSPORTS:
        cure = f"Use one of: {', '.join(_TRANSPORTS)}"
        raise Foreign(f"{transport!r} is no transport", cure, told)
    if (_TRANSPORTS[transport] == "stdio") != (command is not None):
        what = "a command" if command else "a url"
        raise Foreign(f"{transport} does not go with {what}", "Correct or remove it", told)
    for name in ("env", "headers"):
        values = node.get(name)
        for inner, entry in mapping(values, name).items() if values is not None else ():
            text(entry.node, joined(name, inner))
    if flag(node.get("disabled"), "disabled", False):
        return None
    if url is not None:
        text(url, "url")
        for name in ("args", "env", "cwd"):
            if name in entries:
                raise Foreign(f"{name} goes with a command", "Remove it", entries[name].key)
    elif "headers" in entries:
        raise Foreign("headers go with a url", "Remove them", entries["headers"].key)
    return put(
        node,
        type=node.holding("mcp"),
        command=None if command is None else _words(command, node.get("args")),
        url=url,
        transport=None if url is None else url.holding(_TRANSPORTS[transport]),
        env=node.get("env"),
        cwd=node.get("cwd"),
        headers=node.get("headers"),
    )


def _words(command: Node, arguments: Node | None) -> Node:
    # One program writes the whole command as a list, others give program and arguments apart.
    words = texts(command, "command") if command.items is not None else (command,)
    if not words or not text(words[0], "command"):
        raise Foreign("command names no program", "Name a program", command)
    return command.holding((*words, *texts(arguments, "args")))
