"""Outputs that were too large to hand over whole, kept for whoever asks for the rest."""

from __future__ import annotations

import threading
from collections import OrderedDict

import msgspec

from toolcrib.errors import NotFound


class Artifact(msgspec.Struct, frozen=True):
    """A whole output, as text."""

    call_id: str
    principal: str
    text: str


class Artifacts:
    """Keeps the newest large outputs, up to a number of characters in all."""

    def __init__(self, most: int = 64_000_000) -> None:
        self._most = most
        self._size = 0
        self._kept: OrderedDict[str, Artifact] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, call_id: str, principal: str, text: str) -> bool:
        """Keep the output of a call; False when it alone is too large."""
        if len(text) > self._most:
            return False
        with self._lock:
            old = self._kept.pop(call_id, None)
            self._size += len(text) - (len(old.text) if old else 0)
            self._kept[call_id] = Artifact(call_id, principal, text)
            while self._size > self._most:
                _, gone = self._kept.popitem(last=False)
                self._size -= len(gone.text)
        return True

    def get(self, call_id: str, principal: str) -> str:
        """The whole output of a call; only its caller may have it. Raises `NotFound`."""
        with self._lock:
            found = self._kept.get(call_id)
        if found is None or found.principal != principal:
            raise NotFound(f"no output is kept for call {call_id!r}")
        return found.text
