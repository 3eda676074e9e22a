"""Where operations are asked for, and which hosts that may be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from toolcrib.core.jsontext import shown
from toolcrib.errors import ConfigError, Denial
from toolcrib.net.addresses import Private
from toolcrib.net.guard import Guard, guard_for, host_rules, schemes_for
from toolcrib.net.url import Url, join_url, parse_url
from toolcrib.providers.openapi.document import Document, Node, Unusable
from toolcrib.providers.openapi.operations import Operation

_BASE = "Set base_url to where the API is"


class Servers:
    """The servers of a document, held to what the configuration says.

    A document decides what tools look like, not who is told our credentials: another host than
    that of `base_url` (or of the document, or its own server if it is a local file) has to be
    listed under `hosts`.
    """

    def __init__(
        self,
        document: Document,
        base: Url | None,
        spec: Path | Url,
        hosts: tuple[str, ...] | None,
        private: Private,
    ) -> None:
        self._home = spec if isinstance(spec, Url) else base
        self._base = base or self._first(document)
        if hosts is not None:
            schemes = schemes_for(base or self._home or self._base)
            self.guard = Guard(host_rules(hosts), private=private, schemes=schemes)
        else:
            self.guard = guard_for(base or self._home or self._base, private)
        try:
            self.guard.check(self._base)
        except Denial as error:
            cure = "Set base_url, or list the host under hosts"
            if error.reason == "address_not_public":
                cure = "Write private: true, or list the networks under private"
            raise ConfigError(
                f"the server of {document.where} may not be asked: {error}",
                key="base_url",
                cure=cure,
            ) from None

    def server(self, operation: Operation) -> Url:
        """Where an operation is asked for."""
        own: Any = operation.node.get("servers") or operation.item.get("servers")
        if not own:
            return self._base
        url = self._read(cast("list[Any]", own)[0] if isinstance(own, list) else None)
        try:
            self.guard.check(url)
        except Denial as error:
            cure = "; hosts can list it" if error.reason == "host_not_allowed" else ""
            raise Unusable(f"it has a server of its own, and {error}{cure}") from None
        return url

    def _first(self, document: Document) -> Url:
        servers: Any = document.root.get("servers") or [{"url": "/"}]
        try:
            return self._read(cast("list[Any]", servers)[0] if isinstance(servers, list) else None)
        except Unusable as error:
            raise ConfigError(f"{document.where}: {error}", key="base_url", cure=_BASE) from None

    def _read(self, server: Any) -> Url:
        node: Node = cast("Node", server) if isinstance(server, Mapping) else {}
        text: Any = node.get("url")
        variables: Any = node.get("variables")
        if not isinstance(text, str):
            raise Unusable("its server is not described")
        known: Node = cast("Node", variables) if isinstance(variables, Mapping) else {}

        def put(match: re.Match[str]) -> str:
            about = known.get(match[1])
            default = cast("Node", about).get("default") if isinstance(about, Mapping) else None
            if default is None:
                raise Unusable(f"its server has {match[0]}, and no default for it")
            return str(default)

        text = re.sub(r"\{([^{}]*)\}", put, text)
        try:
            if "?" in text:
                raise Unusable(f"its server {shown(text.partition('?')[0])} has a query")
            if "://" in text:
                return parse_url(text)
            if self._home is None:
                raise Unusable(f"its server is {shown(text)}, without a host")
            return join_url(self._home, text)
        except Denial as error:
            raise Unusable(str(error)) from None
