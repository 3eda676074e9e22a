"""A document of entries, in our form or another's, to the fates of its entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from toolcrib.errors import ConfigError
from toolcrib.host.config.document import parse_document, parse_json
from toolcrib.host.config.node import Node, Origin
from toolcrib.host.config.reading import nearest
from toolcrib.host.loaders import quick
from toolcrib.host.loaders.formats import mcp, toolregistry, utcp
from toolcrib.host.loaders.gathering import Gathering
from toolcrib.host.loaders.jsonc import without_comments
from toolcrib.host.loaders.report import Fate

Format = Literal["toolcrib", "mcp", "utcp", "toolregistry"]
"""toolcrib: ours, and the spellings `toolcrib.yaml` accepts · mcp: `mcpServers` of other clients ·
utcp: a UTCP manual · toolregistry: a toolregistry configuration."""

FORMATS: tuple[Format, ...] = ("toolcrib", "mcp", "utcp", "toolregistry")
MAX_BYTES = 8 * 1024 * 1024
MAX_VALUES = 1_000_000
_OURS = ("tools", "providers", "mcpServers", "version")
_ONE_TOOL = ("name", "python", "template")


def read_document(
    text: str,
    origin: Origin,
    *,
    format: Format | None = None,
    ending: str | None = None,
    remote: bool = False,
    env: Mapping[str, str] | None = None,
) -> Gathering:
    """The fates of all entries. A text that cannot be parsed is one fate: its own.

    `ending` is how the name of such a file ends (`json`), where the origin's does not tell.
    """
    gathering = Gathering(origin, remote=remote, variables="${" in text, env=env)
    try:
        _read(text, gathering, format, ending or origin.label.lower().rpartition(".")[2])
    except ConfigError as error:
        whole = Fate(name=origin.label, source=origin.label, problem=error)
        gathering.fates = [whole]
    return gathering


def _read(text: str, gathering: Gathering, format: Format | None, ending: str) -> None:
    if ending == "json" and format in (None, "toolcrib") and _read_quickly(text, gathering):
        return
    root = _parsed(text, gathering.origin, format, ending)
    if root is None:
        return
    found = format or recognise(root)
    if found == "utcp":
        utcp.read(root, gathering)
    elif found == "toolregistry":
        toolregistry.read(root, gathering)
    elif found == "mcp":
        mcp.read(root, gathering, alone=True)
    else:
        _read_ours(root, gathering)


def _parsed(text: str, origin: Origin, format: Format | None, ending: str) -> Node | None:
    if ending not in ("json", "jsonc"):
        return parse_document(text, origin, most=MAX_VALUES)
    if ending == "jsonc" or format == "toolregistry":
        text = without_comments(text)
    root = parse_json(text, origin, most=MAX_VALUES)
    if root is None or root.entries is not None:
        return root
    raise ConfigError(
        f"the file must be an object, not {root.shown}",
        file=origin.file,
        line=root.line,
        column=root.column,
        cure='Begin it with {"tools": …}',
    )


def recognise(root: Node) -> Format:
    """Whose form a document has, by its keys."""
    entries = root.entries or {}
    tools = root.get("tools")
    first = tools.items[0] if tools is not None and tools.items else None
    keys = (first.entries or {}).keys() if first is not None else frozenset[str]()
    if "utcp_version" in entries or "tool_call_template" in keys:
        return "utcp"
    if not entries.keys().isdisjoint(toolregistry.MARKS):
        return "toolregistry"
    if first is not None and "type" in keys and "name" not in keys:
        return "toolregistry"
    if "mcpServers" in entries and "tools" not in entries and "providers" not in entries:
        return "mcp"
    return "toolcrib"


def _read_quickly(text: str, gathering: Gathering) -> bool:
    found = quick.pieces(text)
    if found is None:
        return False
    origin, nodes = gathering.origin, None
    if found and '"kind"' not in found[0].text:
        return False  # another form, or another spelling
    for index, piece in enumerate(found):
        item = quick.item_of(piece, origin, remote=gathering.remote)
        if item is not None:
            gathering.keep(item)
            continue
        if nodes is None:
            root = parse_json(text, origin, most=MAX_VALUES)
            tools = root.get("tools") if root is not None else None
            nodes = (tools.items if tools is not None else None) or ()
        gathering.tool(nodes[index], f"tools[{index}]")
    return True


def _read_ours(root: Node, gathering: Gathering) -> None:
    entries = root.entries or {}
    if "tools" not in entries and any(name in entries for name in _ONE_TOOL):
        gathering.tool(root, "the tool")
        return
    for name, entry in entries.items():
        if name not in _OURS:
            message = f"a file of tools has no setting {name!r}"
            cure = nearest(name, _OURS, "setting")
            gathering.wrong(name, entry.key, name, message, cure)
    tools = root.get("tools")
    if tools is not None and tools.items is not None:
        for index, node in enumerate(tools.items):
            gathering.tool(node, f"tools[{index}]")
    elif tools is not None and tools.value is not None:
        message = f"tools must be a list, not {tools.shown}"
        gathering.wrong("tools", tools, "tools", message, "Begin each tool with '- '")
    providers = root.get("providers")
    if providers is not None and providers.entries is not None:
        for name, entry in providers.entries.items():
            gathering.provider(name, entry.node, f"providers.{name}")
    elif providers is not None and providers.value is not None:
        message = f"providers must be a mapping from names, not {providers.shown}"
        gathering.wrong("providers", providers, "providers", message, "Write 'name: {type: …}'")
    if "mcpServers" in entries:
        mcp.read(root, gathering)
