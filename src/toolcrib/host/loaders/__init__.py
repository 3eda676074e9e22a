"""Reading tools from somewhere once: files, modules, addresses and tables, in several forms."""

from __future__ import annotations

from toolcrib.host.loaders.database import PostgresLoader, SqliteLoader
from toolcrib.host.loaders.files import FileLoader
from toolcrib.host.loaders.http import HttpLoader
from toolcrib.host.loaders.modules import ModuleLoader
from toolcrib.host.loaders.reader import FORMATS, Format
from toolcrib.host.loaders.report import Fate, LoadReport
from toolcrib.host.loaders.select import AnyLoader, loader_for

__all__ = [
    "FORMATS",
    "AnyLoader",
    "Fate",
    "FileLoader",
    "Format",
    "HttpLoader",
    "LoadReport",
    "ModuleLoader",
    "PostgresLoader",
    "SqliteLoader",
    "loader_for",
]
