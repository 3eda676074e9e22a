"""The fates of one document's entries, gathered one by one: a bad one hides no other."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, cast

from toolcrib.core.jsontext import shown
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ConfigError, SpecError
from toolcrib.host.config.environment import expand
from toolcrib.host.config.kinds import BAD
from toolcrib.host.config.node import Node, Origin
from toolcrib.host.config.parts import Typed
from toolcrib.host.config.reading import Reading
from toolcrib.host.config.seeds import as_tool
from toolcrib.host.config.tools import TOOL, place_of
from toolcrib.host.loaders.quick import usual_item
from toolcrib.host.loaders.remote import refused
from toolcrib.host.loaders.report import Fate, failed

_SPEC = frozenset(
    {
        "name", "description", "title", "kind", "input_schema", "output_schema", "config",
        "effects", "idempotent", "scope", "timeout", "retry", "version", "category", "tags",
        "permissions", "requires_approval", "requires_secrets", "requires_tools", "conflicts_with",
        "annotations", "source",
    }
)  # fmt: skip


class Gathering:
    """Reads entries of one document, and keeps what became of each."""

    def __init__(
        self,
        origin: Origin,
        *,
        remote: bool = False,
        variables: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.origin = origin
        self.variables = variables and not remote
        """Whether there may be `${…}` to replace."""
        self.remote = remote
        """From elsewhere: entries say only what `remote` lists, and no variable is replaced."""
        self.env = os.environ if env is None else env
        self.fates: list[Fate] = []
        self.secrets: set[str] = set()

    def tool(self, node: Node, key: str) -> None:
        """Read an entry of `tools:`."""
        if not self.variables:
            usual = usual_item(node.plain(), remote=self.remote)
            if usual is not None:
                self.keep({**usual, **place_of(node)})
                return
        if node.get("load") is not None:
            message = f"{key}: what is loaded loads nothing further"
            self.wrong(_named(node, key), node, key, message, "Name the source in toolcrib.yaml")
            return
        reading = self._reading()
        node = expand(node, reading, key) if self.variables else node
        node = as_tool(node, key, reading)
        item: Any = BAD
        if not self.remote or self._may(node, key, reading):
            item = TOOL.read(node, key, reading)
        try:
            reading.check()
            if item is not BAD:
                self.keep(item)
        except ConfigError as error:
            for mistake in error.all():
                # Rows of a table have a number, and what is in them has none.
                mistake.line = node.line if mistake.line is None else mistake.line
            self.fates.append(Fate(name=_named(node, key), source=node.source, problem=error))

    def keep(self, item: dict[str, Any]) -> None:
        """Keep an item that is right."""
        spec = None
        named = item.get("name") or item.get("template") or os.path.basename(item["python"])  # noqa: PTH119
        if item["enabled"] and "python" not in item and "template" not in item:
            try:
                spec = spec_of(item)
            except SpecError as error:
                self.fates.append(failed(named, item["source"], error.message, cure=error.cure))
                return
        self.fates.append(Fate(name=named, source=item["source"], spec=spec, item=item))

    def provider(self, name: str, node: Node, key: str) -> None:
        """Read an entry of `providers:`."""
        if self.remote:
            self.wrong(name, node, key, "remote specs may not carry providers", _LOCAL)
            return
        reading = self._reading()
        # Always: other forms name variables without writing `${…}`.
        values = Typed().read(expand(node, reading, key), key, reading)
        try:
            reading.check()
            if values is not BAD:
                self.fates.append(Fate(name=name, source=node.source, provider=values))
        except ConfigError as error:
            self.fates.append(Fate(name=name, source=node.source, problem=error))

    def off(self, name: str, node: Node) -> None:
        """Keep that an entry is switched off."""
        self.fates.append(Fate(name=name, source=node.source))

    def wrong(self, name: str, node: Node, key: str, message: str, cure: str) -> None:
        """Keep that an entry cannot be used."""
        problem = ConfigError(
            message, file=node.origin.file, line=node.line, column=node.column, key=key, cure=cure
        )
        self.fates.append(Fate(name=name, source=node.source, problem=problem))

    def _reading(self) -> Reading:
        reading = Reading(self.env)
        # Shared, so that a secret of one entry is hidden in the messages about all.
        reading.secrets = self.secrets
        return reading

    def _may(self, node: Node, key: str, reading: Reading) -> bool:
        if node.entries is None:
            return True  # what is no mapping is refused by the reader, in its own words
        found = refused(cast("Mapping[str, Any]", node.plain()))
        if found is None:
            return True
        at = node.entries.get(found[0].partition(".")[0])
        reading.wrong(at.key if at else node, f"{key}.{found[0]}", found[1], _LOCAL)
        return False


_LOCAL = "Describe the tool in a local file"


def spec_of(item: Mapping[str, Any]) -> ToolSpec:
    """The spec of an item that describes one tool; its policy is the host's to add."""
    fields = {name: value for name, value in item.items() if name in _SPEC}
    function = {name: item[name] for name in ("module", "function") if name in item}
    if function:
        fields["config"] = {**function, **item.get("config", {})}
    return ToolSpec(**fields)


def _named(node: Node, key: str) -> str:
    for name in ("name", "template", "python"):
        found = node.get(name)
        if found is not None and isinstance(found.value, str) and found.value:
            return found.value if found.value.isprintable() else shown(found.value)
    return key
