"""Addresses and what stands behind them, made from the list of methods."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec

from toolcrib.transports.faults import Fault
from toolcrib.transports.wire import METHODS, Method

STREAMS = {"/v1/events": "events", "/v1/calls/{id}/events": "events", "/v1/ws": "websocket"}
"""Addresses that no method's answer comes from."""


class Place(NamedTuple):
    """One verb at one address."""

    method: Method | None
    """None for a stream."""
    names: frozenset[str]
    """What the query, or the body, may say."""


class Found(NamedTuple):
    """What an address leads to."""

    places: dict[str, Place]
    """By verb."""
    values: dict[str, str]
    """What stands in the address itself."""
    stream: str | None = None


class Routes:
    """Finds the methods of an address."""

    def __init__(self) -> None:
        self._table: dict[int, list[tuple[list[str], dict[str, Place], str | None]]] = {}
        by_path: dict[str, dict[str, Place]] = {path: {} for path in STREAMS}
        for method in METHODS.values():
            if method.http is not None:
                verb, path = method.http
                names = {field.encode_name for field in msgspec.structs.fields(method.request)}
                names -= {part[1:-1] for part in path.split("/") if part.startswith("{")}
                by_path.setdefault(path, {})[verb] = Place(method, frozenset(names))
        for path, places in by_path.items():
            if path in STREAMS:
                places["GET"] = Place(None, frozenset())
            elif "GET" in places:
                places["HEAD"] = places["GET"]
            parts = path.split("/")[1:]
            self._table.setdefault(len(parts), []).append((parts, places, STREAMS.get(path)))
        for rows in self._table.values():  # what is written out comes before what is filled in
            rows.sort(key=lambda row: [part.startswith("{") for part in row[0]])

    def find(self, raw_path: bytes) -> Found:
        """What stands at an address, with the parts that were filled in. Raises `Fault`."""
        try:
            given = [unquote_to_bytes(part).decode() for part in raw_path.split(b"/")[1:]]
        except UnicodeDecodeError:
            raise _nothing() from None
        for parts, places, stream in self._table.get(len(given), ()):
            values: dict[str, str] = {}
            for part, value in zip(parts, given, strict=True):
                if part.startswith("{") and value:
                    values[part[1:-1]] = value
                elif part != value:
                    break
            else:
                return Found(places, values, stream)
        raise _nothing()


def allowed(verbs: dict[str, Place]) -> bytes:
    """The value of an `Allow` header."""
    return ", ".join(sorted({*verbs, "OPTIONS"})).encode()


def _nothing() -> Fault:
    return Fault("unknown_method", "there is nothing at this address; see /docs")
