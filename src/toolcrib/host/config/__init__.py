"""The configuration file: read, checked, described, shown and formatted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.host.config.fmt import format_config
    from toolcrib.host.config.load import config_from_mapping, load_config
    from toolcrib.host.config.schema import config_schema, document_settings
    from toolcrib.host.config.show import show_config

__all__ = [
    "config_from_mapping",
    "config_schema",
    "document_settings",
    "format_config",
    "load_config",
    "show_config",
]

_HOMES = {
    "config_from_mapping": "load",
    "config_schema": "schema",
    "document_settings": "schema",
    "format_config": "fmt",
    "load_config": "load",
    "show_config": "show",
}
"""Where each name lives; imported when it is asked for, because a call needs only to load."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
