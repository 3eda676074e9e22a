"""The configuration file: read, checked, described, shown and formatted."""

from __future__ import annotations

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
