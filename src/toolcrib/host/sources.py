"""The providers of a host: what the configuration asks for, and what runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.core.protocols import Provider
from toolcrib.host.workshop import Workshop


@dataclass(frozen=True, slots=True)
class Source:
    """One provider as configured."""

    name: str
    settings: Mapping[str, Any]
    factory: Callable[..., Provider]
    workshop: Workshop
    place: Mapping[str, Any]
    """Where it stands in the configuration."""

    def build(self) -> Provider:
        """A new provider; nothing is connected yet. Raises `ConfigError`."""
        return self.factory(self.name, self.settings, self.workshop)
