"""What only the configuration says to a server; no document has a say in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from toolcrib.errors import Denial


@dataclass(frozen=True, kw_only=True, slots=True)
class Ours:
    """Headers and parameters of the configuration, credentials among them."""

    headers: frozenset[str] = frozenset()
    """In lower case: to servers, names that differ in case only are the same."""
    query: frozenset[str] = frozenset()

    def sets(self, place: Any, name: Any) -> bool:
        """Whether a parameter of a document would stand beside, or instead of, one of ours."""
        if place == "header":
            return isinstance(name, str) and name.lower() in self.headers
        if place == "cookie":
            return "cookie" in self.headers
        return place == "query" and name in self.query

    def check(self, query: Iterable[str]) -> None:
        """Refuse a query in which a value became a parameter of ours: an object can be written
        as parameters of its own."""
        if not self.query:
            return
        for text in query:
            for pair in text.split("&"):
                name = unquote(pair.partition("=")[0])
                if name in self.query:
                    raise Denial(
                        "argument_not_allowed", f"the configuration sets the parameter {name}"
                    )


NOTHING = Ours()
