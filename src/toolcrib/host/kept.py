"""Secrets that come up while the host runs: tokens that were fetched, hidden like those of the
configuration."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolcrib.observe.redact import Redactor

MOST = 64
"""How many are remembered; tokens that are renewed for months must not slow every call down."""


class KeptSecrets:
    """Tells the redactor in force of a secret, and a later redactor of all of them."""

    def __init__(self, redactor: Callable[[], Redactor]) -> None:
        self._redactor = redactor
        self._values: dict[str, None] = {}
        self._lock = threading.Lock()

    @property
    def values(self) -> frozenset[str]:
        """What a new redactor has to know."""
        return frozenset(self._values)

    def __call__(self, text: str) -> None:
        """Hide `text` wherever it appears from now on."""
        with self._lock:
            redactor = self._redactor()
            if text in self._values or text not in redactor.text(text):
                return  # it is hidden already
            redactor.add_secret(text)
            self._values[text] = None
            if len(self._values) > MOST:
                oldest = next(iter(self._values))
                del self._values[oldest]
                redactor.drop_secret(oldest)
