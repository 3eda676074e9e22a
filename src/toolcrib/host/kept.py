"""Secrets that come up while the host runs: tokens that were fetched, hidden like those of the
configuration."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from toolcrib.observe.sensitive import names_secret

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


def written_secrets(providers: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """Credentials of providers that stand in the configuration as they are, as in files of other
    programs: what is given by headers and variables whose names tell that it is secret."""
    found: set[str] = set()
    for given in providers.values():
        _collect(given, found, 0)
    return frozenset(found)


def _collect(given: Mapping[str, Any], found: set[str], depth: int) -> None:
    for key, value in given.items():
        if not isinstance(value, Mapping) or depth > 2:
            continue
        part = cast("Mapping[str, Any]", value)
        if key not in ("headers", "env"):
            _collect(part, found, depth + 1)
            continue
        for name, text in part.items():
            if isinstance(text, str) and names_secret(name):
                # What follows the scheme is the secret: it is told without it, too.
                found.update((text, text.rpartition(" ")[2]))
